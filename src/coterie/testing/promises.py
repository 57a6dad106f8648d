"""The promises of a simulated run: checks of its journals and of the results that its owners report."""

from collections.abc import Sequence

from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.run_exit import RunExit
from coterie.history.engines.commands import Finish
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal import records as r
from coterie.team.planning.branches import BRANCH
from coterie.testing.oracle import asked, ended, uncrashed
from coterie.testing.world import World

LIMITS = ("max_iterations", "max_runtime", "cost_budget", "stalled")
"""The limits of a plan at which a loop stops."""

_FAILED = {"timeout": ("completed", "failed", "cancelled"), "invalid_output": ("completed",)}
"""By failure kind of an attempt, the possible outcomes of its child run, which may complete and still be late."""


def is_limit(last: r.Record | None) -> bool:
    """Whether a loop stopped at a limit of its plan."""
    return isinstance(last, r.RunStopped) and last.reason in LIMITS


def check_report(world: World, ended: RunExit, lost: bool) -> None:
    """The owner's result must agree with the journal, and every journal must be closed."""
    last = world.journals["R"][-1]
    if isinstance(last, r.RunFinished):
        wanted = ("completed" if last.outcome == "completed" else "failed", last.reason)
        if (used := _used(world, "R")) != ended.usage and not (lost and _covers(ended.usage, used)):
            raise world.failed(f"it says that {ended.usage} was used, and its turns used {used}")
    else:
        wanted = ("stopped", last.reason if isinstance(last, r.RunStopped) else "")
    if (ended.status, ended.reason) != wanted:
        raise world.failed(f"it says {(ended.status, ended.reason)}, and the journal says {wanted}")
    if world.open:
        raise world.failed(f"journals were left open: {sorted(world.open)}")


_WITH_USAGE = (r.TurnFinished, r.AttemptFailed, r.AttemptInterrupted, r.TurnCancelled)


def _used(world: World, run: str) -> r.Usage:
    """The usage of *run* and of all its child runs whose journals remain."""
    below = [one for one in world.journals if one.rpartition("/")[0] == run]
    teams = {one.rpartition("/")[2].rpartition(".")[0] for one in below}
    found = sum((_used(world, one) for one in below), r.NO_USAGE)
    for record in world.journals[run]:
        if isinstance(record, _WITH_USAGE) and record.turn not in teams:
            found += record.usage
        if isinstance(record, r.TurnStarted) and record.attempt == 1:
            found += r.Usage(turns=int(record.turn not in teams and _is_single(world, run, record.agent)))
    return found


def _is_single(world: World, run: str, agent: str) -> bool:
    """Whether *agent* of *run* is a single agent; for a team, its own turns count instead."""
    known = world.kinds(world.plan_of(run)).agents.get(agent)
    return agent != BRANCH and (known is None or known.child is None)


def check_journal(world: World, run: str, log: Sequence[r.Record]) -> None:
    """Check the whole journal *log* of *run* after a schedule."""
    last = log[-1]
    if not isinstance(last, r.RunFinished):
        if isinstance(last, r.RunStopped) and is_limit(world.journals["R"][-1]):
            plan = world.plan_of(run)
            if any(isinstance(record, r.RunReopened) for record in log):
                return
            _compare_state(world, run, log, uncrashed(run, plan, world.kinds, log))
            return
        raise world.failed(f"{run} does not end: its last record is {type(last).__name__}")
    _check_outcome(world, run, last)
    plan = world.plan_of(run)
    again = Fold(run, world.kinds(plan))
    try:
        again.fold(log[:-1])
        left = [command for command in again.todo.values() if not isinstance(command, Finish)]
        again.apply(last)
    except Exception as error:  # whatever a replay dies of is a finding
        raise world.failed(f"{run} does not replay: {error}") from error
    if left and last.outcome != "cancelled":
        raise world.failed(f"{run}: a replay leaves {left} to do beside the end")
    if last.outcome != "cancelled" and not any(isinstance(record, r.RunReopened) for record in log):
        _compare(world, run, log, uncrashed(run, plan, world.kinds, log))


def _check_outcome(world: World, run: str, end: r.RunFinished) -> None:
    """Check that the parent of *run* recorded the same outcome as the journal of *run*."""
    parent, below, attempt = run.rpartition("/")
    turn, _, n = attempt.rpartition(".")
    said, agree = "", tuple[str, ...]()
    for record in reversed(world.journals[parent] if below else ()):
        match record:
            case r.TurnFinished() if (record.turn, str(record.attempt)) == (turn, n):
                said, agree = "finished", ("completed",)
            case r.AttemptFailed() if (record.turn, str(record.attempt)) == (turn, n):
                said, agree = record.kind, _FAILED.get(record.kind, ("failed",))
            case r.TurnCancelled() if record.turn == turn:
                said, agree = "cancelled", ("completed", "failed", "cancelled")
            case _:
                continue
        if end.outcome in agree:
            return
        raise world.failed(f"{run} ended as {end.outcome}, and its parent says {said}")
    if below:
        raise world.failed(f"{run} ended as {end.outcome}, and its parent does not know")


def _compare(world: World, run: str, log: Sequence[r.Record], oracle: Sequence[r.Record]) -> None:
    end, other = log[-1], oracle[-1]
    assert isinstance(end, r.RunFinished)
    if not isinstance(other, r.RunFinished) or (end.outcome, end.result) != (other.outcome, other.result):
        raise world.failed(f"{run} ended as {end}, uncrashed with the same replies as {other}")
    _compare_state(world, run, log, oracle)


def _compare_state(world: World, run: str, log: Sequence[r.Record], oracle: Sequence[r.Record]) -> None:
    got_state, wanted_state = _state(world, run, log), _state(world, run, oracle)
    if got_state != wanted_state:
        raise world.failed(f"{run} ended in state {got_state}, uncrashed with the same replies in {wanted_state}")
    got, wanted = asked(log), asked(oracle)
    if got != [turn for turn in wanted if turn in got]:
        raise world.failed(f"{run} asked {got}, uncrashed with the same replies {wanted}")
    if (ends := ended(log)) != (whole := ended(oracle)):
        raise world.failed(f"{run}: its turns ended as {ends}, uncrashed with the same replies as {whole}")


def _state(world: World, run: str, log: Sequence[r.Record]) -> object:
    """The state of a loop at the end of *log*: position, accepted events, counters; None for other runs."""
    fold = Fold(run, world.kinds(world.plan_of(run)))
    if not isinstance(fold.engine, LoopEngine):
        return None
    fold.fold(log)
    state = fold.engine.state
    counters = (state.iteration, state.reviews, state.waves, state.failures, round(state.cost, 6))
    return state.position, sorted(state.accepted), counters


def _covers(said: r.Usage, used: r.Usage) -> bool:
    """Whether the reported usage *said* is at least *used*; a power cut may remove records that the parent counted."""
    return said.turns >= used.turns and said.cost >= used.cost
