"""What a replay, a fork and a follower must not let pass."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_play import loop_plan, plan_of
from msgspec.structs import replace
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure, OnEvent, Request
from coterie.errors import ReplayMismatch
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.kinds import kind_of
from coterie.execution.runs import launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.local_turns import LocalTurns
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import replay
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.records import (
    AttemptFailed,
    ConfigKept,
    ConfigRejected,
    PlanReloaded,
    Record,
    RunFinished,
    RunOwned,
    RunStarted,
    RunStopped,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup


def team(*names: str, **children: Plan) -> Plan:
    """A chain of *names*; those that *children* has are topologies."""
    agents = {
        name: AgentPlan(name=name, kind="topology", child=children[name])
        if name in children
        else AgentPlan(name=name, backend="stub")
        for name in names
    }
    groups = tuple(ArrowGroup(source=a, targets=(b,)) for a, b in pairwise(names))
    return Plan(name="team", agents=agents, coordination=FlowPlan(mentions=names, groups=groups))


class Stub:
    """A backend that answers at once, or fails the first attempts of an agent."""

    def __init__(self, agent: str = "", failures: int = 0) -> None:
        self._agent, self._failures = agent, failures

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        if request.agent.name == self._agent and self._failures:
            self._failures -= 1
            return CompletedSession(Failure(kind="exit", reason="no"))
        return CompletedSession(Answer(text="done"))

    async def close(self) -> None: ...


def start(state: Path, plan: Plan, stub: Stub | None = None, **limits: Any) -> Outcome:
    turns = LocalTurns({"stub": stub or Stub()})
    return asyncio.run(
        launch.start(plan, {"prompt": "x"}, state_dir=state, run_id="r", turns=turns, limits=Limits(**limits))
    )


def resume(state: Path, plan: Plan | None = None, **limits: Any) -> Outcome:
    turns = LocalTurns({"stub": Stub()})
    return asyncio.run(launch.resume("r", state_dir=state, turns=turns, reload=plan, limits=Limits(**limits)))


@bundle(
    "record",
    [
        TurnStarted(seq=3, turn="a#1", agent="a"),
        TurnFailed(seq=3, turn="a#1", kind="exit", reason="no"),
        ConfigKept(seq=3),
        ConfigRejected(seq=3, reason="no"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_decided_record_without_a_cause_is_refused(record: Record) -> None:
    """Only a command has such a record written: one that names no command is not from this run."""
    fold = Fold("r", kind_of(team("a")))
    fold.fold([RunStarted(seq=1, run="r", engine="flow"), RunOwned(seq=2, epoch=1)])

    with pytest.raises(ReplayMismatch, match="wants a cause"):
        fold.apply(record)


def test_run_stopped_names_the_stop_that_it_carries_out() -> None:
    """The decision of the engine, by the record that led to it; a limit of the owner is nobody's command."""
    stage = Stage(plan_of(loop_plan(max_iterations=1)))
    stage.start()
    [stopped] = stage.records(RunStopped)
    assert stopped.reason == "max_iterations"
    assert stopped.cause is not None
    fold = Fold("r", kind_of(stage.plan))
    fold.fold(stage.records()[: stopped.seq - 1])
    assert fold.stopping == stopped.cause

    limited = Stage(flow("a -> b"), Cast({}))
    limited.start(Limits(max_turns=1))
    assert [record.cause for record in limited.records(RunStopped)] == [None]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_replay_enters_the_child_run_of_the_last_attempt(tmp_path: Path, attempts: int) -> None:
    """Also when a turn had only one: what its engine would have decided otherwise is found there."""
    plan = team("a", "inner", inner=team("b", "c"))
    again = {"inner": replace(plan.agents["inner"], retry=attempts - 1)}
    start(tmp_path, replace(plan, agents={**plan.agents, **again}), Stub("c", failures=attempts - 1))
    store = JsonlStore(tmp_path)
    child = f"r/inner#1.{attempts}"
    records = list(store.read(child))
    runs = ["r", *(f"r/inner#1.{n}" for n in range(1, attempts + 1))]
    assert replay("r", state_dir=tmp_path).records == sum(len(list(store.read(run))) for run in runs)

    (store.folder(child) / JOURNAL).unlink()
    changed = [
        replace(record, agent="somebody") if isinstance(record, TurnStarted) and record.turn == "c#1" else record
        for record in records
    ]
    root = store.claim("r")
    writer = store.claim(child)
    writer.append(changed)
    writer.give_up()
    root.give_up()

    with pytest.raises(ReplayMismatch, match=rf"r/inner#1\.{attempts}"):
        replay("r", state_dir=tmp_path)


def test_a_replay_lists_what_open_child_runs_have_left_to_do(tmp_path: Path) -> None:
    """Each below its run; what a child run had left whose turn was called off will not be done."""
    start(tmp_path, team("a", "inner", inner=team("b", "c")), max_turns=2)
    assert replay("r", state_dir=tmp_path).left == ("r/inner#1.1: start c#1",)

    store = JsonlStore(tmp_path)
    length = len(list(store.read("r")))
    writer = store.claim("r")
    writer.append([TurnCancelled(seq=length + 1, turn="inner#1", reason="an operator cancelled it")])
    writer.give_up()
    assert not any("c#1" in what for what in replay("r", state_dir=tmp_path).left)


def test_a_fork_exactly_at_a_reloaded_plan_takes_that_plan(tmp_path: Path) -> None:
    """And one record before it the plan that the run had until then."""
    plan = team("a", "b", "c")
    longer = replace(plan, agents={**plan.agents, "c": replace(plan.agents["c"], prompt="Be brief.")})
    start(tmp_path, plan, max_turns=1)
    resume(tmp_path, longer, max_turns=2)
    [reloaded] = [record for record in JsonlStore(tmp_path).read("r") if isinstance(record, PlanReloaded)]

    at = fork("r", state_dir=tmp_path, at=reloaded.seq, run_id="at")
    before = fork("r", state_dir=tmp_path, at=reloaded.seq - 1, run_id="before")

    runs = Runs(tmp_path)
    assert runs.plan(at.run).agents["c"].prompt == "Be brief."
    assert runs.plan(before.run).agents["c"].prompt == ""
    assert runs.plan("r", reloaded.seq).agents["c"].prompt == "Be brief."


def test_a_follower_stays_past_run_stopped_while_the_run_is_owned(tmp_path: Path) -> None:
    """An owner that lets go for a moment, or has not yet closed: what it still writes is seen."""

    async def main() -> list[int]:
        store = JsonlStore(tmp_path, poll=0)
        owner = store.claim("r")
        owner.append([RunStarted(seq=1, run="r", engine="flow"), RunStopped(seq=2, reason="waiting")])
        await owner.durable(2)
        news = Runs(tmp_path, poll=0).follow("r", check_every=0)
        seen = [(await anext(news))[1].seq for _ in range(2)]
        more = asyncio.ensure_future(anext(news))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not more.done()
        owner.append([RunOwned(seq=3, epoch=2), RunFinished(seq=4, outcome="completed")])
        await owner.durable(4)
        seen.append((await asyncio.wait_for(more, 60))[1].seq)
        await owner.close()
        seen += [record.seq async for _, record in news]
        return seen

    assert asyncio.run(main()) == [1, 2, 3, 4]


def test_a_forked_journal_carries_checksums_of_its_own(tmp_path: Path) -> None:
    """Root and child runs: their records differ from the original's, and each line is sealed anew."""
    start(tmp_path, team("a", "inner", "d", inner=team("b", "c")), max_turns=2)
    made = fork("r", state_dir=tmp_path, run_id="copy")

    store = JsonlStore(tmp_path)
    for run in (made.run, "copy/inner#1.1"):
        lines = (store.folder(run) / JOURNAL).read_bytes().splitlines()
        assert all(b'"crc":' in line or line.startswith(b'{"topic":"text"') for line in lines)
        assert list(store.read(run))
    assert replay(made.run, state_dir=tmp_path).records > 0
    turns = LocalTurns({"stub": Stub()})
    assert (
        asyncio.run(launch.resume(made.run, limits=Limits(max_turns=-1), state_dir=tmp_path, turns=turns)).status
        == "completed"
    )
    found = [record for record in store.read(made.run) if isinstance(record, AttemptFailed | TurnFinished)]
    assert [getattr(record, "text", record) for record in found] == ["done"] * 3
