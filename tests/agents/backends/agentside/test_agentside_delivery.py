"""How a message is delivered, and how long its sender waits."""

import socket
from pathlib import Path

import pytest

from coterie.agents.backends.agentside import client, delivery


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


def test_a_message_of_a_sandboxed_attempt_lies_where_it_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner collects it from there."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    monkeypatch.setattr(delivery, "REFUSED_FOR", 0.0)
    (outbox := tmp_path / "attempt" / client.OUTBOX).mkdir(parents=True)
    (tmp_path / delivery.BELL).symlink_to("socket")
    with socket.socket(socket.AF_UNIX) as bell:
        bell.bind("socket")
    env = {client.RUN_FOLDER: str(tmp_path), client.ATTEMPT_FOLDER: str(outbox.parent)}

    assert client.main(["emit", "done", "--id", "m1"], env) == 2
    assert [path.name for path in outbox.iterdir()] == ["m1.json"]
    assert not (tmp_path / "inbox").exists()


def test_a_message_that_waits_for_an_owner_is_handed_to_the_command_line(tmp_path: Path) -> None:
    """Under its id, so that it is not sent again."""
    env = {client.RUN_FOLDER: str(tmp_path)}

    assert client.main(["emit", "done", "--id", "m1"], env) is None
    assert [path.name for path in (tmp_path / "inbox").iterdir()] == ["m1.json"]
    assert env[client.MESSAGE] == "m1"


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        (["runs"], {}),
        ([], {}),
        (["emit", "done"], {client.RUN_FOLDER: ""}),
        (["emit", "done"], {client.MESSAGE: "m1"}),
    ],
)
def test_what_is_no_message_of_an_attempt_is_left_to_the_command_line(
    tmp_path: Path, arguments: list[str], change: dict[str, str]
) -> None:
    """Other commands, no run, and a message that is in the inbox already."""
    assert client.main(arguments, {client.RUN_FOLDER: str(tmp_path / "run")} | change) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_message_is_said_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With status 2: nothing was sent."""
    env = {client.RUN_FOLDER: str(tmp_path / "run")}
    (tmp_path / "run").write_text("a file")
    assert client.main(["emit", "--output", "x"], env) == 2
    assert client.main(["emit", "\udcff"], env) == 2
    assert client.main(["emit", "done"], env) == 2
    said = capsys.readouterr()
    assert said.out == ""
    first, second, third = said.err.splitlines()[0], *said.err.splitlines()[-2:]
    assert first.startswith("coterie: ")
    assert second == "coterie: the message is not UTF-8 text and was not sent"
    assert third.startswith("coterie: cannot write to the run's inbox: ")
