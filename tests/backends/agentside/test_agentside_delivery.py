"""How a message is delivered, and how long its sender waits."""

import socket
from pathlib import Path

import pytest

from coterie.backends.agentside import delivery


def test_a_sender_in_a_sandbox_does_not_wait_for_an_owner_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot see the lock, but the socket is left, and nobody listens there; the message stays."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    monkeypatch.setattr(delivery, "REFUSED_FOR", 0.0)
    (tmp_path / delivery.BELL).symlink_to("socket")
    with socket.socket(socket.AF_UNIX) as bell:
        bell.bind("socket")

    status, _ = delivery.send(str(tmp_path), "m", {"event": "done"}, patience=3600.0, outbox="outbox")

    assert status == delivery.UNREACHABLE
    assert (tmp_path / "outbox" / "m.json").exists()
