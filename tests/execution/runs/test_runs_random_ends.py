"""Random teams, ended and interrupted at random moments: a sample of `random_ends.py`."""

import os
from pathlib import Path

import pytest
import random_ends

SEED = int(os.environ.get("LONG_SEED", "0"))


@pytest.mark.parametrize("n", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 10))])
@pytest.mark.parametrize("kind", random_ends.KINDS)
@pytest.mark.slow
def test_every_turn_ends_as_if_nothing_had_ended_the_run(kind: str, n: int, tmp_path: Path) -> None:
    """Whatever was emitted, answered or late counts once, and nothing is lost; `LONG_SEED` chooses the runs."""
    _, _, faults = random_ends.play(kind, tmp_path, 1000 * n + SEED)

    assert faults == []
