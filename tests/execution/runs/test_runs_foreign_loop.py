"""Runs under an event loop that has no clock, threads, selector or files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[2] / "support"


def drive(salt: int, *sabotage: str) -> subprocess.CompletedProcess[str]:
    """Drive all runs in a process of their own, with other hashes of texts and of tasks for each *salt*."""
    env = os.environ | {"PYTHONHASHSEED": str(salt + 10), "PYTHONPATH": str(SUPPORT)}
    words = [sys.executable, str(SUPPORT / "foreign_loop.py"), str(salt), *sabotage]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=600)


def test_journals_are_equal_whatever_the_hashes() -> None:
    """A flow, a loop with a wave, a pattern and a nested team are driven deterministically, from facts of ports."""
    first, second = drive(1), drive(-1)

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    for said in ("wave.join", "tree.made", "event.invalid", "lost", "half of y#1", "text of one.md"):
        assert f'"{said}"' in first.stdout, said


@pytest.mark.parametrize(("sabotage", "error"), [("clock", "Touched: time"), ("thread", "NotImplementedError")])
def test_a_driver_that_uses_a_clock_or_a_thread_is_found(sabotage: str, error: str) -> None:
    """What the loop does not have, or is blocked, is an error."""
    assert error in drive(1, sabotage).stderr


def test_a_driver_that_walks_a_set_of_tasks_is_found() -> None:
    """Its journals depend on the hashes."""
    first, second = drive(1, "set"), drive(-1, "set")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert first.stdout != second.stdout
