"""Crash schedules of runs that fail and are reopened, and proof that they bite."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from random_flows import random_flow_plan
from random_loops import random_loop_plan
from random_nests import random_nest
from sampling import sampled

from coterie.execution.kernel import opening
from coterie.execution.kernel.commands import Turn
from coterie.execution.kernel.fold import Fold
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.journal import records as r
from coterie.history.journal.records import Record, RunReopened, TurnCancelled
from coterie.testing import SimulationFailed, simulate

pytestmark = pytest.mark.once


def play(seed: int) -> Any:
    """A schedule of a team that is retried up to three times after it has failed; half are teams in teams."""
    plans = (random_nest, random_flow_plan, random_nest, random_loop_plan)
    return simulate(plans[seed % 4](seed // 4), seed, retries=3)


@pytest.mark.parametrize("seeds", sampled(1_600, 24, chunk=200))
def test_failed_runs_that_are_retried_survive(seeds: range) -> None:
    """1,600 schedules: whatever is killed, no finished turn runs again, and everything that was used counts once."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        survived = play(seed)
        seen["reopened"] += survived.reopened
        seen["crashes"] += survived.crashes
        seen["completed after it"] += survived.reopened > 0 and survived.outcome == "completed"
    assert seen["reopened"] > len(seeds), seen
    assert seen["crashes"] > len(seeds), seen
    assert seen["completed after it"] > 0, seen


def survive(seeds: int) -> None:
    """Play so many schedules."""
    for seed in range(seeds):
        play(seed)


# -- mutants ----------------------------------------------------------------------------------------------------------


def usage_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """What a child run reported before it was reopened stays counted."""
    patch.setattr(RunReopened, "usage", r.NO_USAGE)


def usage_of_the_cancelled_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What a turn used that the failure cancelled is not counted."""
    real = Fold._take_void

    def take(fold: Fold, record: Record, how: RunReopened) -> Any:
        if isinstance(record, TurnCancelled):
            record = TurnCancelled(
                seq=record.seq, at=record.at, cause=record.cause, turn=record.turn, reason=record.reason
            )
        return real(fold, record, how)

    patch.setattr(Fold, "_take_void", take)


def child_not_reopened(patch: pytest.MonkeyPatch) -> None:
    """A child run is left as it had ended."""
    patch.setattr(opening, "reopened_below", lambda *given: None)


def child_reopened_each_time(patch: pytest.MonkeyPatch) -> None:
    """A child run is reopened at each takeover, not once for each reopening of its parent."""
    real = opening.reopened_below

    def below(above: Turn, records: Sequence[Record], now: float) -> RunReopened | None:
        return real(above, [one for one in records if not isinstance(one, RunReopened)], now)

    patch.setattr(opening, "reopened_below", below)


def failure_still_decides(patch: pytest.MonkeyPatch) -> None:
    """The engine hears of the failure after all."""

    def step(fold: Fold, record: Record, how: RunReopened) -> Any:
        fold.engine.step(record)
        return Fold._take_void(fold, record, how)

    patch.setattr(Fold, "_take_void", step)


def cancelled_left_running(patch: pytest.MonkeyPatch) -> None:
    """A turn that the failure cancelled counts as running, though nothing runs it."""
    real = RunReopened.asked.fget  # type: ignore[attr-defined]
    patch.setattr(RunReopened, "asked", property(lambda record: real(record)[:1]))


def late_replies_lost(patch: pytest.MonkeyPatch) -> None:
    """What came with the failure, such as a reply, is kept from the engine."""
    real = Fold._reopen

    def reopen(fold: Fold, record: RunReopened) -> Any:
        fold._late.clear()
        return real(fold, record)

    patch.setattr(Fold, "_reopen", reopen)


def pattern_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    """A pattern does not wait again for the questions that are retried."""
    patch.setattr(GeneratorEngine, "_reopen", lambda engine, record: None)


MUTANTS = [
    usage_counted_twice,
    usage_of_the_cancelled_forgotten,
    child_not_reopened,
    child_reopened_each_time,
    failure_still_decides,
    cancelled_left_running,
    pytest.param(late_replies_lost, marks=pytest.mark.slow),
    pytest.param(pattern_does_not_wait, marks=pytest.mark.slow),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # broken owners die messily
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_reopening_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way of reopening a run wrongly fails within 300 schedules."""
    mutant(monkeypatch)
    with pytest.raises(SimulationFailed):
        survive(300)
