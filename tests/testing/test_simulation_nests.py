"""Crash schedules of teams in teams that are called off or run out of time, and proof that they bite."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from random_nests import random_nest
from sampling import sampled

from coterie.execution.kernel import opening
from coterie.execution.kernel.calling_off import CallingOff
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.run_tree import RunTree
from coterie.history.journal.records import NO_USAGE, RunFinished
from coterie.testing import SimulationFailed, simulate

pytestmark = pytest.mark.once


@pytest.mark.parametrize("seeds", sampled(2_000, 20, chunk=100))
def test_teams_in_teams_survive(seeds: range) -> None:
    """2,000 schedules, two to eight deep: whatever fails, is late or is killed, every run of the tree ends properly."""
    seen: Counter[int] = Counter()
    crashes = 0
    for seed in seeds:
        survived = simulate(random_nest(seed // 2), seed)
        seen.update(survived.called_off)
        crashes += survived.crashes
    assert min(seen[depth] for depth in range(1, 5)) > 0, seen
    assert crashes > len(seeds)


def survive(seeds: int) -> None:
    """Play so many schedules."""
    for seed in range(seeds):
        simulate(random_nest(seed // 2), seed)


# -- mutants: what the promises are there to catch ------------------------------------------------------------------


def ends_before_its_children(patch: pytest.MonkeyPatch) -> None:
    """A run that was decided to end does not wait for the runs below it."""
    patch.setattr(opening._Duties, "is_ending", lambda duties: False)


def called_off_before_durable(patch: pytest.MonkeyPatch) -> None:
    """A child run ends before its parent's word is durable."""
    real = CallingOff.call_off

    def call_off(calling_off: CallingOff, live: DrivenRun, ask: Any, attempt: int) -> Any:
        used = real(calling_off, live, ask, attempt)
        for child in live.children.values():
            if child.turn == ask.turn and child.core.called_off:
                child.ending = True
                calling_off._tree.pump(child)
        return used

    patch.setattr(CallingOff, "call_off", call_off)


def closed_from_the_top(patch: pytest.MonkeyPatch) -> None:
    """A child run that was called off ends at once, whatever runs below it."""

    def end(tree: RunTree, live: DrivenRun) -> None:
        live.core.write(tree._clock.now(), RunFinished(outcome="cancelled"))

    patch.setattr(RunTree, "_end", end)


def forgotten_at_resume(patch: pytest.MonkeyPatch) -> None:
    """What an earlier owner could not end is left as it is."""
    patch.setattr(CallingOff, "make_up", lambda calling_off, live: None)
    patch.setattr(CallingOff, "_began", lambda calling_off, run: False)


def use_not_counted(patch: pytest.MonkeyPatch) -> None:
    """What a child run used that was called off is forgotten."""
    real = CallingOff.call_off

    def call_off(calling_off: CallingOff, live: DrivenRun, ask: Any, attempt: int) -> Any:
        real(calling_off, live, ask, attempt)
        return NO_USAGE

    patch.setattr(CallingOff, "call_off", call_off)


def still_heard(patch: pytest.MonkeyPatch) -> None:
    """What the attempts of a child run say counts, though its parent called it off."""

    def accepts(core: Fold, turn: str, attempt: int) -> bool:
        known = core.turns.get(turn)
        return known is not None and (known.status, known.attempt) == ("running", attempt) and core.is_live

    patch.setattr(Fold, "accepts", accepts)


MUTANTS = [
    ends_before_its_children,
    pytest.param(called_off_before_durable, marks=pytest.mark.slow),
    closed_from_the_top,
    forgotten_at_resume,
    use_not_counted,
    still_heard,
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # broken owners die messily
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_calling_off_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way of calling a team off wrongly fails within 300 schedules."""
    mutant(monkeypatch)
    with pytest.raises(SimulationFailed):
        survive(300)
