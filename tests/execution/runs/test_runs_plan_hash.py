"""A plan that was changed in the journal is refused: whoever resumes a run executes what was recorded."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from loop_play import loop_plan, plan_of
from msgspec.structs import replace

from coterie.agents.backends.base import Answer, OnEvent, Request
from coterie.errors import CoterieError, JournalUnreadable, ReplayMismatch
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.kinds import kind_of
from coterie.execution.runs import launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.local_turns import LocalTurns
from coterie.execution.runs.replay import replay
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.records import ConfigChanged, PlanReloaded, Record, RunOwned, RunStarted
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan, from_json, to_json
from coterie.team.topology.model import ArrowGroup

TEAM = Plan(
    name="pair",
    agents={name: AgentPlan(name=name, backend="stub", argv=("true",)) for name in ("a", "b")},
    coordination=FlowPlan(mentions=("a", "b"), groups=(ArrowGroup(source="a", targets=("b",)),)),
)


class Stub:
    """A backend that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.turns = LocalTurns({"stub": self})

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        self.asked.append(request.turn)
        return CompletedSession(Answer(text="done"))

    async def close(self) -> None: ...


def stopped(state: Path) -> None:
    """A run of `TEAM`, stopped after its first turn."""
    turns, limits = Stub().turns, Limits(max_turns=1)
    asyncio.run(launch.start(TEAM, {"prompt": "x"}, state_dir=state, run_id="r", turns=turns, limits=limits))


def rewrite(state: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    """Write the journal again, whole and with valid checksums."""
    store = JsonlStore(state)
    records = change(list(store.read("r")))
    (store.folder("r") / JOURNAL).unlink()
    writer = store.claim("r")
    writer.append(records)
    writer.give_up()


def other(text: str) -> str:
    assert '"true"' in text
    return text.replace('"true"', '"rm"')


def in_run_started(records: list[Record]) -> list[Record]:
    first, *rest = records
    assert isinstance(first, RunStarted)
    return [replace(first, plan=other(first.plan)), *rest]


def in_plan_reloaded(records: list[Record]) -> list[Record]:
    reloaded = PlanReloaded(
        seq=len(records) + 1, at=records[-1].at, plan=other(to_json(TEAM).decode()), plan_hash=TEAM.content_hash()
    )
    return [*records, reloaded]


@pytest.mark.parametrize(("change", "line"), [(in_run_started, 1), (in_plan_reloaded, 6)])
def test_a_changed_plan_is_refused_and_not_executed(
    change: Callable[[list[Record]], list[Record]], line: int, tmp_path: Path
) -> None:
    """By `resume`, `replay` and `fork`, with the file, the record and what to do; the journal stays as it is."""
    stopped(tmp_path)
    rewrite(tmp_path, change)
    path = tmp_path / "runs/r" / JOURNAL
    before, stub = path.read_bytes(), Stub()

    tries: list[Callable[[], object]] = [
        lambda: asyncio.run(launch.resume("r", state_dir=tmp_path, turns=stub.turns)),
        lambda: replay("r", state_dir=tmp_path),
        lambda: fork("r", state_dir=tmp_path),
    ]
    for one in tries:
        with pytest.raises(
            JournalUnreadable, match=rf"journal\.jsonl:{line}: .*the plan in record \d+ .*plan_hash.*backup"
        ):
            one()
    assert stub.asked == []
    assert path.read_bytes() == before


def test_a_plan_that_a_loop_took_up_is_checked_too() -> None:
    """The same for `config.changed`, in whatever folds the run."""
    plan = plan_of(loop_plan())
    more = plan_of(loop_plan(max_iterations=7))
    begun: list[Record] = [
        RunStarted(seq=1, run="r", engine="loop", input={"prompt": "x"}),
        RunOwned(seq=2, epoch=1),
    ]
    fold = Fold("r", kind_of(plan))
    fold.fold(begun)
    [cause] = fold.todo
    changed = ConfigChanged(seq=3, cause=cause, plan=to_json(more).decode(), plan_hash=plan.content_hash())

    with pytest.raises(ReplayMismatch, match=r"record 3: .*plan_hash.*backup"):
        fold.apply(changed)


def test_a_journal_without_a_hash_is_resumed(tmp_path: Path) -> None:
    """Earlier releases, and child runs, recorded none."""
    stopped(tmp_path)
    rewrite(tmp_path, lambda records: [replace(records[0], plan_hash=""), *records[1:]])  # type: ignore[call-arg]

    outcome = asyncio.run(launch.resume("r", limits=Limits(max_turns=-1), state_dir=tmp_path, turns=Stub().turns))

    assert outcome.status == "completed"


def test_where_the_files_lie_may_change(tmp_path: Path) -> None:
    """The folder is no part of the hash: a moved project is resumed."""
    stopped(tmp_path)

    def moved(records: list[Record]) -> list[Record]:
        first, *rest = records
        assert isinstance(first, RunStarted)
        return [replace(first, plan=to_json(replace(from_json(first.plan), folder="/elsewhere")).decode()), *rest]

    rewrite(tmp_path, moved)
    try:
        replay("r", state_dir=tmp_path)
    except CoterieError as error:
        pytest.fail(str(error))
