"""Runs of every kind on a cluster: they end as on one machine, in one link or in many."""

import asyncio
import gc
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cluster_stage import WITHIN, MemoryExport, Server, node_of, topics
from pattern_play import pattern
from random_nests import random_nest
from repositories import repository
from sealing import EXECUTION, raw
from stage import Cast, flow
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from coterie.agents.backends.base import Answer, Failure
from coterie.base.clock import SystemClock
from coterie.errors import RunIsFinished
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.relay import tell
from coterie.execution.cluster.runs import ClusterRuns
from coterie.execution.cluster.seals import Sealed, peek, seal
from coterie.execution.cluster.submit import done, ended, restart, submit
from coterie.execution.cluster.wire import RunDone
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import Verdict, answer
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptInterrupted, RunFinished, TurnFinished, TurnStarted
from coterie.history.journal.runs import RunReader, RunRecord
from coterie.team.planning.plan import AgentPlan, Plan


def chain(length: int) -> Plan:
    names = [f"a{k}" for k in range(length)]
    return flow(" -> ".join(names))


def local(plan: Plan, cast: Cast, run: str) -> tuple[RunExit, list[RunRecord]]:
    store = MemoryStore()
    shell = Shell(
        RunPorts(store=store, turns=cast, clock=SystemClock(), make_kind=kind_of),
        OwnerOptions(quota="wait", listens=True),
    )
    outcome = asyncio.run(shell.start(run, plan, {"prompt": "go"}))
    return outcome, list(RunReader(store).history(run))


async def there(server: Server, home: Path, plan: Plan, cast: Cast, **options: Any) -> tuple[RunExit, list[RunRecord]]:
    export = MemoryExport()
    async with node_of(server, export, cast, home) as client:
        run, *_ = await submit(client, export, plan, {"prompt": "go"}, run=home.name, **options)
        outcome = await asyncio.wait_for(ended(client, run), WITHIN)
        return outcome, list(await export.load(run))


def plain(result: Any) -> Any:
    """*result* as JSON has it, without the zeros of its usage."""
    if isinstance(found := msgspec.json.decode(msgspec.json.encode(result)), dict):
        for one in (found.get("outputs") or {}).values():
            one.pop("usage", None)
    return found


NESTS = (4, 43)
"""Random nests of patterns, flows and loops in which time decides nothing: no limits, no siblings of what halts."""
KINDS = {
    "flow": flow("a -> [b, c] -> d"),
    "debate": pattern("debate", {name: AgentPlan(name=name) for name in ("proponent", "opponent", "mediator")}),
    **{f"nest {seed}": random_nest(seed) for seed in NESTS},
}


@pytest.mark.parametrize(
    ("name", "link_events"),
    [("flow", 0), ("nest 4", 40), *(pytest.param(name, 40, marks=pytest.mark.long) for name in ("debate", "nest 43"))],
)
def test_a_run_ends_as_on_one_machine(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, link_events: int
) -> None:
    """And without git where no agent works on the files around it; a nest has loops, which do."""
    started: list[list[str]] = []
    start = subprocess.Popen.__init__

    def noted(process: Any, argv: list[str], *rest: Any, **options: Any) -> None:
        started.append(argv)
        start(process, argv, *rest, **options)

    here, own = local(KINDS[name], Cast({}, seconds=0.01), tmp_path.name)
    folder = repository(tmp_path / "project")
    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    done, exported = asyncio.run(
        there(
            *(temporal_server, tmp_path, KINDS[name], Cast({}, seconds=0.01)),
            link_events=link_events,
            folder=None if name.startswith("nest") else folder,
        )
    )
    assert (done.status, done.reason, done.usage.turns) == (here.status, here.reason, here.usage.turns)
    assert plain(done.result) == plain(here.result)
    assert topics(exported) == topics(own)
    assert [argv for argv in started if "git" in argv[0]] == []


@pytest.mark.long
def test_no_turn_is_repeated_by_the_links_of_a_chain(temporal_server: Server, tmp_path: Path) -> None:
    cast = Cast({"a3": [Failure(kind="transient", reason="later"), Answer(text="now")]}, seconds=0.0)
    done, exported = asyncio.run(there(temporal_server, tmp_path, chain(8), cast, link_events=30))
    assert done.status == "completed"
    assert len(cast.asked) == 9
    assert max(record.epoch for _, record in exported if hasattr(record, "epoch")) > 2


HUMAN = flow("draft -> boss -> send", boss=AgentPlan(name="boss", kind="human", backend="human"))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN):
        while not await condition():  # noqa: ASYNC110 - another machine's state
            await asyncio.sleep(0.02)


async def asks(export: MemoryExport, run: str, turn: str) -> bool:
    return any(isinstance(one, TurnStarted) and one.turn == turn for _, one in await export.load(run))


@pytest.mark.long
def test_a_node_that_ends_drops_the_runs_it_drives(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their coroutines go with it, and nothing in them waits for a loop that is no more."""
    left: list[object] = []
    export, run = MemoryExport(), tmp_path.name

    async def begun() -> bool:
        return any(isinstance(record, TurnStarted) for _, record in await export.load(run))

    async def main() -> None:
        async with node_of(temporal_server, export, Cast({}, seconds=60.0), tmp_path, drain=0.0) as client:
            await submit(client, export, chain(2), {"prompt": "go"}, run=run)
            await until(begun)
        await client.get_workflow_handle(run).terminate("the nodes of other tests must not go on with it")

    monkeypatch.setattr("sys.unraisablehook", left.append)
    asyncio.run(main())
    gc.collect()
    assert not left


def test_what_a_terminated_workflow_has_not_exported_is_read_before_its_run_goes_on() -> None:
    """So a run that had ended is not begun anew."""
    exported: list[Any] = [TurnStarted(seq=1, turn="a#1", agent="a", attempt=1)]

    async def catch_up(run: str) -> None:
        exported.append(RunFinished(seq=2, outcome="completed"))

    async def wait(work: Awaitable[object]) -> object:
        return await work

    class Cluster(ClusterRuns):
        def __init__(self) -> None:
            self.server: Any = SimpleNamespace(wait=wait, catch_up=catch_up, is_driven=lambda run: False)

        async def load_tree(self, run: str) -> AsyncIterator[Any]:
            yield SimpleNamespace(run=run, records=list(exported))

    with pytest.raises(RunIsFinished):
        asyncio.run(Cluster().resume("r"))


def test_who_waits_for_a_run_outlasts_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be restarted meanwhile; another error of its ends the wait."""
    monkeypatch.setattr("coterie.execution.cluster.submit.AWAY_EVERY", 0.0)
    left = RunDone(ended=RunExit(run="r", status="completed"))
    passing = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.UNKNOWN, RPCStatusCode.CANCELLED)  # as of one that is killed
    away = [RPCError("away", status, b"") for status in (*passing, RPCStatusCode.PERMISSION_DENIED)]
    results = [*away[:-1], left, away[-1]]

    class Handle:
        async def result(self) -> RawValue:
            if isinstance(found := results.pop(0), RPCError):
                raise found
            return raw(seal(found, KeyRing.of_user(), "end", "r", EXECUTION))

        async def describe(self) -> SimpleNamespace:
            return SimpleNamespace(run_id=EXECUTION)

    client: Any = SimpleNamespace(get_workflow_handle=lambda run, result_type: Handle())
    assert asyncio.run(done(client, "r")) == left
    with pytest.raises(RPCError):
        asyncio.run(done(client, "r"))


def test_a_person_is_waited_for_and_answers_by_message(temporal_server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, Cast({}, seconds=0.0), tmp_path) as client:
            await submit(client, export, HUMAN, {"prompt": "go"}, run=run)
            await until(lambda: asks(export, run, "boss#1"))
            handle = client.get_workflow_handle(run)
            assert (await tell(client, KeyRing.of_user(), run, answer("nobody#1", "yes"))).status == "refused"
            stranger, own = KeyRing(tmp_path / "stranger.key"), KeyRing.of_user()
            for ring, about in [(stranger, run), (own, "other")]:
                fake = answer("", "no, forged")
                proof = seal(fake, ring, "message", about)
                sealed = await handle.execute_update("message", proof, id=fake.id, result_type=Sealed)
                assert "neither a node nor an operator signed it" in (verdict := peek(sealed, Verdict)).detail
                assert verdict.status == "refused"
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update("message", answer("", "no, unsigned"))
            said = answer("", "yes, do it")
            assert (await tell(client, KeyRing.of_user(), run, said)).status == "accepted"
            assert (await tell(client, KeyRing.of_user(), run, said)).status == "accepted"
            done = await asyncio.wait_for(ended(client, run), WITHIN)
            assert done.status == "completed"
            answers = [one for _, one in await export.load(run) if isinstance(one, TurnFinished)]
            assert (answers[1].text, answers[1].source) == ("yes, do it", "operator")

    asyncio.run(main())


def test_a_parked_run_is_handed_over_with_its_question(temporal_server: Server, tmp_path: Path) -> None:
    """Messages make the history long enough for the next link, while a person is still to answer."""

    async def main() -> None:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, Cast({}, seconds=0.0), tmp_path) as client:
            await submit(client, export, HUMAN, {"prompt": "go"}, run=run, link_events=30)
            await until(lambda: asks(export, run, "boss#1"))
            handle = client.get_workflow_handle(run)
            first = (await handle.describe()).run_id
            for _ in range(12):
                await tell(client, KeyRing.of_user(), run, answer("nobody#1", "no"))
                if (await handle.describe()).run_id != first:
                    break
            assert (await handle.describe()).run_id != first
            assert (await tell(client, KeyRing.of_user(), run, answer("", "yes"))).status in ("accepted", "queued")
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"

    asyncio.run(main())


def test_a_cancelled_run_interrupts_its_attempts_and_goes_on_when_it_is_submitted_again(
    temporal_server: Server, tmp_path: Path
) -> None:
    slow = Cast({"b": [Answer(text="late"), Answer(text="done")]}, seconds=600.0)
    quick = Cast({}, seconds=0.0)

    async def main() -> None:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, slow, tmp_path) as client:
            await submit(client, export, flow("b -> c"), {"prompt": "go"}, run=run)
            await until(lambda: some(slow.asked))
            await client.get_workflow_handle(run).cancel()
            done = await asyncio.wait_for(ended(client, run), WITHIN)
            assert (done.status, done.reason) == ("stopped", "interrupted")
            cut = [one for _, one in await export.load(run) if isinstance(one, AttemptInterrupted)]
            assert [(one.turn, one.reason) for one in cut] == [("b#1", "interrupted")]
            assert slow.running == 0
        async with node_of(temporal_server, export, quick, tmp_path) as client:
            await restart(client, export, run)
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
            assert [one.attempt for one in quick.asked] == [2, 1]
            assert not (await submit(client, export, flow("b -> c"), {"prompt": "go"}, run=run))[1]

    asyncio.run(main())


async def some(found: Sequence[object]) -> bool:
    return bool(found)
