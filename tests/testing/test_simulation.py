"""20,000 crash schedules, all of them with `-m long`, and proof that they bite: broken cores are caught."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mapped_flows import mapped_plan
from played import played
from protocol_engines import DEBATE, LOOP, LOOPING, NESTED, engines, reload
from random_flows import random_flow_plan
from sampling import sampled

from coterie import load
from coterie.agents.backends.base import Request
from coterie.execution.kernel import opening, takeover_records
from coterie.execution.kernel.core import Core
from coterie.execution.kernel.fold import Fold
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted, Record
from coterie.team.planning.plan import Plan
from coterie.testing import SimulationFailed, simulate
from coterie.testing.simulated import SimulatedWriter

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.once


def emits(request: Request, dice: random.Random) -> list[str]:
    """What a role of the loop emits, now and then something that is not allowed."""
    allowed = LOOP.emits.get(request.agent.name)
    return [dice.choice([*allowed, "nonsense"]) for _ in range(dice.randint(1, 2))] if allowed else []


def run(plan: Plan, seed: int) -> Any:
    return simulate(plan, seed, kinds=played(engines), reload=reload, emits=emits)


@pytest.mark.parametrize("seeds", sampled(12_000, 80))
def test_random_flows_survive(seeds: range) -> None:
    """12,000 schedules of random flows, some of them nested, keep every promise."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        survived = simulate(random_flow_plan(seed // 5), seed)
        seen[survived.outcome] += 1
        seen["crashed"] += survived.crashes > 0
    assert min(seen["completed"], seen["crashed"]) > len(seeds) / 4, seen


@pytest.mark.parametrize("seeds", sampled(3_000, 50))
def test_random_flows_with_maps_survive(seeds: range) -> None:
    """3,000 schedules, in which lists have 0 to as many items as are allowed, and sometimes one more."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        survived = simulate(mapped_plan(seed // 5), seed)
        seen[survived.outcome] += 1
        seen["crashed"] += survived.crashes > 0
        seen["several"] += any(load.turns > 1 for load in survived.agents.values())
    assert min(seen["completed"], seen["crashed"], seen["several"]) > len(seeds) / 6, seen


@pytest.mark.parametrize("seeds", sampled(3_000, 60))
@pytest.mark.parametrize("plan", [DEBATE, LOOPING], ids=lambda plan: plan.name)
def test_a_debate_and_a_loop_survive(plan: Plan, seeds: range) -> None:
    """6,000 schedules of a generator that calls replies off, and of a loop with emits and reloads."""
    assert sum(run(plan, seed).crashes for seed in seeds) > len(seeds) / 2


@pytest.mark.parametrize("seeds", sampled(2_000, 25))
def test_nested_runs_survive(seeds: range) -> None:
    """2,000 schedules of a debate and two loops as child runs of a third engine."""
    assert sum(run(NESTED, seed).crashes for seed in seeds) > len(seeds)


def test_equal_seeds_give_equal_schedules() -> None:
    """A failing seed can be run again."""
    assert run(NESTED, 7) == run(NESTED, 7)
    assert simulate(random_flow_plan(3), 11) == simulate(random_flow_plan(3), 11)


# -- mutants: what the promises are there to catch ------------------------------------------------------------------


def no_flush(patch: pytest.MonkeyPatch) -> None:
    """Effects leave before the records behind them are durable."""
    patch.setattr(SimulatedWriter, "is_durable", lambda writer, seq: True)


def sync_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """Agents are made ready while a disk works that is too slow to be waited for."""
    patch.setattr(SimulatedWriter, "begin", lambda writer: True)


def causes_ignored(patch: pytest.MonkeyPatch) -> None:
    """A record does not take the command that it carries out off the list."""

    def settle(core: Core, record: Record) -> Any:
        return core.todo.get(record.cause) if record.cause is not None else None

    patch.setattr(Fold, "_settle", settle)


def nested_run_retried(patch: pytest.MonkeyPatch) -> None:
    """A child run that was cut off is asked again instead of continued."""
    patch.setattr(takeover_records, "goes_on", lambda core, agent: core.kind(agent) == "human")


def interruption_counted(patch: pytest.MonkeyPatch) -> None:
    """Being cut off counts against `retry`."""

    def after(core: Core, record: AttemptInterrupted) -> Any:
        failed = AttemptFailed(turn=record.turn, attempt=record.attempt, kind="exit", reason="", at=record.at)
        core.turns[record.turn].retry_count.interrupted += 1
        return core._after_failure(failed)

    patch.setattr(Fold, "_after_interruption", after)


def waiting_retry_kept(patch: pytest.MonkeyPatch) -> None:
    """A turn that ended is still tried again when its retry is due."""

    def end(core: Core, record: Any) -> None:
        known = core._asked.get(record.turn) or core.turns[record.turn]
        waiting = known.waiting
        kept = core.todo.get(waiting) if waiting is not None else None
        real(core, record)
        if waiting is not None and kept is not None and type(kept).__name__ == "NextAttempt":
            core.todo[waiting] = kept
            known.waiting = waiting

    real = Fold._end_turn
    patch.setattr(Fold, "_end_turn", end)


def stale_accepted(patch: pytest.MonkeyPatch) -> None:
    """What an attempt says that is over still counts."""

    def accepts(core: Core, turn: str, attempt: int) -> bool:
        known = core.turns.get(turn)
        return known is not None and known.status == "running" and core.is_live

    patch.setattr(Core, "accepts", accepts)


def receipt_after_effect(patch: pytest.MonkeyPatch) -> None:
    """A resumed run forgets the receipts that it folded."""

    def own(core: Core, now: float, limits: Any, *rest: Any) -> Any:
        for turn in core.turns.values():
            if turn.status == "ended" and turn.result is not None and core.takes_a_slot(turn.ask.agent):
                turn.status = "running"
                core.busy += 1
                break
        return real(core, now, limits, *rest)

    real = takeover_records.take_over
    patch.setattr(opening, "take_over", own)


MUTANTS = [
    no_flush,
    sync_not_awaited,
    causes_ignored,
    nested_run_retried,
    interruption_counted,
    pytest.param(waiting_retry_kept, marks=pytest.mark.slow),
    stale_accepted,
    receipt_after_effect,
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # broken owners die messily
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_core_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of breaking the protocol fails within 400 schedules, and says with which seed."""
    mutant(monkeypatch)
    caught = None
    for seed in range(400):
        try:
            run(NESTED, seed)
            run(DEBATE, seed)
        except SimulationFailed as failed:
            caught = failed
            break
    assert caught is not None
    assert str(caught).startswith(f"seed {caught.seed}: ")
    assert '"topic":"run.started"' in str(caught)


def test_turns_that_one_crash_cut_off_together_may_end_in_two_ways() -> None:
    """Which of them is the first to fail for the third crash, and cancels the others, is the owner's choice."""
    simulate(load(EXAMPLES / "repo-review" / "review.at"), 67)
