"""Records that no run could have written are refused when they are folded, each with what was found and wanted."""

import asyncio

import asking
import pytest
from asking import Heard
from msgspec.structs import replace
from stage import Stage, flow

from coterie.backends.base import Failure
from coterie.backends.scripted import ScriptedBackend
from coterie.errors import ReplayMismatch, TopologyError
from coterie.journal.records import AttemptFailed, Record, TurnFinished
from coterie.kernel.fold import Fold
from coterie.kernel.kind import Kind
from coterie.kinds import kind_of
from coterie.planning.plan import Plan
from coterie.runs.local_turns import LocalTurns

PLAN = flow("a -> b")


def history() -> list[Record]:
    """The records of a run of PLAN, to its end."""
    stage = Stage(PLAN)
    stage.start(prompt="go")
    return list(stage.records())


def folded(records: list[Record]) -> Fold:
    fold = Fold("r", kind_of(PLAN))
    for record in records:
        fold.apply(record)
    return fold


def refused(records: list[Record], record: Record) -> str:
    """Why *record* is refused behind *records*."""
    fold = folded(records)
    with pytest.raises(ReplayMismatch) as caught:
        fold.apply(replace(record, seq=fold.seq + 1) if not record.seq else record)
    return str(caught.value)


def test_a_record_is_folded_in_its_place_only() -> None:
    """None is left out, and none comes twice."""
    known = history()

    assert "seq 3" in refused(known[:2], known[3])
    assert "seq 3" in refused(known[:2], known[1])


def test_the_end_of_a_turn_needs_that_turn_and_its_beginning() -> None:
    """A turn that nothing started, and one that has ended."""
    known = history()
    ended = next(k for k, record in enumerate(known) if isinstance(record, TurnFinished))

    assert "no turn 'ghost#1' so far" in refused(known[:ended], TurnFinished(turn="ghost#1", attempt=1))
    late = AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no")
    assert "nothing of a#1, which is ended" in refused(known[: ended + 1], late)


def test_a_plan_in_which_nothing_decides_is_refused() -> None:
    """It has neither arrows nor roles, slots or actors."""
    with pytest.raises(TopologyError, match="topology 'empty' has no flow, so no agent can run"):
        Kind(Plan(name="empty")).make_engine()


def test_an_attempt_whose_backend_is_not_there_fails_and_names_those_that_are() -> None:
    """At once, and never as a crash."""

    async def main() -> object:
        turns = LocalTurns({"command": ScriptedBackend({})})
        session = await turns.start(asking.request(asking.agent("ada", backend="pi")), Heard())
        return await session.result()

    failed = asyncio.run(main())
    assert isinstance(failed, Failure)
    assert (failed.kind, "'pi'; configured backends: command" in failed.reason) == ("not_found", True)
