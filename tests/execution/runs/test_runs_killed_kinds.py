"""Runs of every kind, really killed at random until they end: a sample of `killed_kinds.py`."""

import os
from pathlib import Path

import killed_kinds
import pytest

SEED = int(os.environ.get("LONG_SEED", "0"))


@pytest.mark.long
@pytest.mark.parametrize("kind", killed_kinds.KINDS)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(kind: str, tmp_path: Path) -> None:
    """Nothing that was finished is repeated or lost, and no agent is left running; `LONG_SEED` chooses the kills."""
    _, faults = killed_kinds.play(kind, tmp_path, SEED)

    assert faults == []
