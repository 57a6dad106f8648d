"""Programs without a key, against a real server: they begin nothing, answer nobody and decide nothing."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cluster_stage import WITHIN, MemoryExport, Server, node_of
from sealing import charter
from stage import Cast, flow
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from until import soon

from coterie.agents.backends.base import Answer
from coterie.errors import ClusterFailed
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.orders import NodeOrder
from coterie.execution.cluster.relay import tell
from coterie.execution.cluster.releases import build_id, pinned
from coterie.execution.cluster.seals import Sealed, read, seal
from coterie.execution.cluster.submit import backends_of, done, ended, restart, submit
from coterie.execution.cluster.turns import TURN
from coterie.execution.cluster.wire import QUEUE, WORKFLOW, Begin, MsgspecConverter, RunDone, TurnDone, turn_queue
from coterie.execution.cluster.workflow import EXPORT, LEFT, LOAD
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.messages import answer, stop, withdrawal
from coterie.history.journal.records import RunOwned, TurnFailed, TurnFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.plan import to_json as plan_json

pytestmark = pytest.mark.slow

GATED = flow("draft -> boss -> deploy", boss=AgentPlan(name="boss", kind="human", backend="human"))


async def stranger(server: Server) -> Client:
    """A client without a key of ours, which speaks as we do."""
    return await Client.connect(server.address, data_converter=DataConverter(payload_converter_class=MsgspecConverter))


async def asks(export: MemoryExport, run: str) -> None:
    """Wait until a person is asked."""
    await soon(lambda: any(isinstance(one, TurnStarted) and one.turn == "boss#1" for one in of(export, run)), WITHIN)


def of(export: MemoryExport, run: str) -> list[Any]:
    return [record for (name, _), record in export.records.items() if name == run]


async def order_in(client: Client, run: str, what: str) -> RawValue:
    """The order to perform *what* in the history of *run*, as everyone who reaches the server reads it."""
    async for event in client.get_workflow_handle(run).fetch_history_events():
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == what:
            return RawValue(scheduled.input.payloads[0])
    raise AssertionError(f"{what} is not in the history")


def own_plan(folder: Path) -> Plan:
    """A plan of an attacker: a command that leaves a file, without a sandbox."""
    argv = ("sh", "-c", f"touch {folder / 'pwned'}")
    return flow("a", a=AgentPlan(name="a", backend="command", argv=argv))


def test_a_gate_is_opened_only_by_those_who_have_a_key(temporal_server: Server, tmp_path: Path) -> None:
    """Not by forty at once, a key of someone else, a copy of what was said to another run, or a late signal."""

    async def main() -> None:
        export, cast, ring = MemoryExport(), Cast({}, seconds=0.0), KeyRing.of_user()
        run, foreign = tmp_path.name, KeyRing(tmp_path / "foreign.key")
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, GATED, {"prompt": "go"}, run=run)
            await asks(export, run)
            handle = (await stranger(temporal_server)).get_workflow_handle(run)
            said = [answer("", "yes, forged") for _ in range(40)]
            forged = [seal(one, foreign, "message", run) if k % 2 else one for k, one in enumerate(said)]
            forged += [seal(said[0], ring, "message", "another run"), seal(stop(), ring, "verdict", run), 1, None]
            updates = [handle.execute_update("message", one, result_type=RawValue) for one in forged]
            verdicts = await asyncio.gather(*updates, return_exceptions=True)
            assert not any(b"accepted" in one.payload.data for one in verdicts if isinstance(one, RawValue))
            for one in forged:
                await handle.signal(LEFT, one)
                await handle.signal("heard", one)
            assert await handle.execute_update("affords", forged[0]) is None
            assert (await tell(client, ring, run, withdrawal())).status == "refused"
            assert [one.agent.name for one in cast.asked] == ["draft"]
            assert (await tell(client, ring, run, answer("", "no"))).status == "accepted"
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
            (boss,) = (one for one in of(export, run) if isinstance(one, TurnFinished) and one.turn == "boss#1")
            assert (boss.text, boss.source) == ("no", "operator")

    asyncio.run(main())


def test_nobody_begins_a_run_without_a_key_that_its_node_trusts(temporal_server: Server, tmp_path: Path) -> None:
    """Neither with a plan of one's own, nor with one that the node has performed before."""

    async def main() -> None:
        export, cast, said = MemoryExport(), Cast({}, seconds=0.0), list[str]()
        run, foreign = tmp_path.name, KeyRing(tmp_path / "foreign.key")
        async with node_of(temporal_server, export, cast, tmp_path, tell=said.append) as client:
            other = await stranger(temporal_server)
            plan, mine = own_plan(tmp_path), KeyRing.of_user()

            async def begin(name: str, begun: Any) -> Any:
                policy = WorkflowIDReusePolicy.ALLOW_DUPLICATE
                return await other.start_workflow(WORKFLOW, begun, id=name, task_queue=QUEUE, id_reuse_policy=policy)

            def begun(name: str, keys: KeyRing) -> Begin:
                text = plan_json(plan).decode()
                return Begin(run=name, plan=text, backends=backends_of(plan), charter=charter(name, keys)[0])

            unsigned = [Begin(run=f"{run}-1", plan=plan_json(plan).decode()), {"run": f"{run}-1"}, 7]
            copied = seal(begun(f"{run}-2", mine), foreign, "begin", f"{run}-2")  # below a charter that was copied
            for name, one in [*((f"{run}-1", one) for one in unsigned), (f"{run}-2", copied)]:
                with pytest.raises(WorkflowFailureError) as failed:
                    await (await begin(name, one)).result()
                assert "coterie resume" in str(failed.value.cause)
            own = await begin(f"{run}-3", seal(begun(f"{run}-3", foreign), foreign, "begin", f"{run}-3"))
            await soon(lambda: any("coterie cluster key trust" in line for line in said), WITHIN)
            await own.terminate()

            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
            event = await anext(client.get_workflow_handle(run).fetch_history_events())
            copy = RawValue(event.workflow_execution_started_event_attributes.input.payloads[0])
            for name in run, f"{run}-4":
                with pytest.raises(WorkflowFailureError):
                    await (await begin(name, copy)).result()
            assert [one.agent.name for one in cast.asked] == ["a", "b"]

    asyncio.run(main())


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Forger:
    """What a foreign worker runs under the build id of the nodes: it orders turns, and says that the run is over."""

    orders: list[Any] = []
    failed: list[str] = []

    @workflow.run
    async def run(self, begin: RawValue) -> RunDone:
        for order, name in self.orders:
            try:
                await workflow.execute_activity(
                    TURN,
                    order,
                    activity_id=name,
                    task_queue=turn_queue(""),
                    result_type=RawValue,
                    schedule_to_close_timeout=timedelta(seconds=WITHIN),
                    retry_policy=RetryPolicy(maximum_attempts=1),
                )
            except Exception as error:
                self.failed.append(str(getattr(error, "cause", error)))
        return RunDone(ended=RunExit(run=workflow.info().workflow_id, status="completed", result={"text": "forged"}))

    @workflow.update
    async def message(self, said: RawValue) -> Any:
        return {"status": "accepted", "detail": "forged"}


@asynccontextmanager
async def forging(server: Server, *, activities: bool = False) -> AsyncIterator[Client]:
    """A foreign worker that polls for the work of our nodes."""
    client = await stranger(server)

    @activity.defn(name=TURN)
    async def turn(order: RawValue) -> TurnDone:
        return TurnDone(answer=Answer(text="forged"))

    def forged(name: str) -> Any:
        @activity.defn(name=name)
        async def answers(order: RawValue) -> list[str]:
            return []

        return answers

    driving = [forged(EXPORT), forged(LOAD)] if activities else []
    queues = [Worker(client, task_queue=turn_queue(""), activities=[turn])] if activities else []
    queues += [
        Worker(
            client,
            task_queue=QUEUE,
            workflows=[] if activities else [Forger],
            activities=driving,
            workflow_runner=UnsandboxedWorkflowRunner(),
            deployment_config=pinned(build_id()),
        )
    ]
    for one in queues:
        asyncio.create_task(one.run())  # noqa: RUF006
    try:
        yield client
    finally:
        for one in queues:
            await one.shutdown()


def test_a_worker_that_drives_runs_has_nothing_performed(temporal_server: Server, tmp_path: Path) -> None:
    """It polls as our nodes do, and gets a run that we have submitted; what it says of it nobody believes."""

    async def main() -> None:
        export, cast, ring, said = MemoryExport(), Cast({}, seconds=0.0), KeyRing.of_user(), list[str]()
        run, foreign = tmp_path.name, KeyRing(tmp_path / "foreign.key")
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, GATED, {"prompt": "go"}, run=f"{run}-0")
            await asks(export, f"{run}-0")
            copied = await order_in(client, f"{run}-0", TURN)
            count = len(cast.asked)
        Forger.failed.clear()
        made_up = NodeOrder(charter=charter(run)[0], args=[])
        own = NodeOrder(charter=charter(run, foreign)[0], args=[])
        sealed = [seal(one, foreign, "order", TURN) for one in (made_up, own)]
        Forger.orders = [(copied, "draft#1.1"), *((one, f"a#1.{k}") for k, one in enumerate([*sealed, {}, 7]))]
        async with (
            forging(temporal_server) as other,
            node_of(temporal_server, export, cast, tmp_path, drives=False, tell=said.append) as client,
        ):
            await submit(client, export, GATED, {"prompt": "go"}, run=run)
            assert (await tell(client, ring, run, answer("", "yes"))).status in ("queued", "refused")
            with pytest.raises(ClusterFailed, match="carries no signature"):
                await asyncio.wait_for(ended(client, run), WITHIN)
            await other.get_workflow_handle(run).describe()
        assert len(cast.asked) == count
        assert len(Forger.failed) == len(Forger.orders)
        assert all(one.startswith("refused: ") for one in Forger.failed), Forger.failed
        assert any("an order for the run" in line for line in said)

    asyncio.run(main())


def test_a_worker_that_performs_turns_answers_none(temporal_server: Server, tmp_path: Path) -> None:
    """It takes turns away from our nodes, and the work of drivers; the run goes on when a node has it."""

    async def main() -> None:
        export, cast, run = MemoryExport(), Cast({}, seconds=0.0), tmp_path.name
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            async with forging(temporal_server, activities=True):
                await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
                kinds = ("attempt.interrupted", "turn.finished")
                tags = lambda: [one.__struct_config__.tag for one in of(export, run)]  # noqa: E731
                await soon(lambda: any(kind in tags() for kind in kinds), WITHIN)
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
            texts = [one.text for one in of(export, run) if isinstance(one, TurnFinished)]
            assert texts == ["a#1 done", "b#1 done"]

    asyncio.run(main())


def nested(levels: int) -> RawValue:
    """JSON that a recursive reader does not survive."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"[" * levels))


def invented(copy: RawValue, earlier: RawValue, order: RawValue) -> dict[str, Any]:
    """What a worker without a key answers for a turn, by what it hopes for.

    Args:
        copy: The signed result of another turn of the same run, and *earlier* that of the same turn of another run.
        order: The signed order of this turn.
    """
    info, foreign = activity.info(), KeyRing(Path(os.environ["FOREIGN_KEY"]))
    about = ("result", str(info.workflow_run_id), info.activity_id)
    done = TurnDone(answer=Answer(text="forged"))
    own, true = seal(done, foreign, *about), read(copy.payload.data)
    found = (
        done,
        own,
        Sealed(own.value, dict.fromkeys(true.seals, *own.seals.values())),
        Sealed(own.value, true.seals),
        Sealed(own.value, own.seals | {"x" * n: "" for n in range(99)}),
        copy,
        earlier,
        order,
        seal({"answer": {"text": "forged"}, "failure": 7}, foreign, *about),
        nested(100_000),
        None,
        7,
    )
    return dict(zip(INVENTED, found, strict=True))


INVENTED = (
    "without a signature",
    "with a foreign key",
    "with the names of keys that count",
    "with signatures of another value",
    "with many signatures",
    "of another turn",
    "of another run",
    "the order itself",
    "a value of another type",
    "without an end",
    "nothing",
    "a number",
)
LIES = ("a failure", "a failure for good")


@asynccontextmanager
async def inventing(server: Server, queue: str, earlier: RawValue) -> AsyncIterator[None]:
    """A worker without a key that polls for the turns of *queue*; the end of a run's id says what it answers."""
    client = await stranger(server)

    @activity.defn(name=TURN)
    async def turn(order: RawValue) -> Any:
        run = str(activity.info().workflow_id)
        name = run.rpartition("-")[2].replace("_", " ")
        if name in LIES:
            done = TurnDone(answer=Answer(text="forged"))
            raise ApplicationError("forged", done, type=name, non_retryable="good" in name)
        return invented(await result_in(client, run, "a#1.1"), earlier, order)[name]

    worker = Worker(client, task_queue=turn_queue(queue), activities=[turn])
    working = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.shutdown()
        await working


async def result_in(client: Client, run: str, name: str) -> RawValue:
    """What the activity *name* of *run* has answered, as everyone who reaches the server reads it."""
    scheduled = 0
    async for event in client.get_workflow_handle(run).fetch_history_events():
        if event.activity_task_scheduled_event_attributes.activity_id == name:
            scheduled = event.event_id
        ended = event.activity_task_completed_event_attributes
        if scheduled and ended.scheduled_event_id == scheduled:
            return RawValue(ended.result.payloads[0])
    raise AssertionError(f"{name} has no result in the history")


def test_no_result_counts_that_no_node_has_signed_for_its_turn(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a foreign key, with copied signatures, of another turn or run, or none at all: its worker counts as lost."""
    monkeypatch.setenv("FOREIGN_KEY", str(tmp_path / "foreign.key"))
    monkeypatch.setattr("coterie.execution.kernel.retries.MAX_LOSSES", 2)
    plan = flow("a -> b", b=AgentPlan(name="b", queue="theirs"))

    async def main() -> None:
        export, run, cast = MemoryExport(), tmp_path.name, Cast({}, seconds=0.0)
        async with node_of(temporal_server, export, cast, tmp_path, queues=["default", "theirs"]) as client:
            await submit(client, export, plan, {"prompt": "go"}, run=f"{run}-true")
            await asyncio.wait_for(ended(client, f"{run}-true"), WITHIN)
            earlier = await result_in(client, f"{run}-true", "b#1.1")
        names = {kind: f"{run}-{kind.replace(' ', '_')}" for kind in (*INVENTED, *LIES)}
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            async with inventing(temporal_server, "theirs", earlier):
                for name in names.values():
                    await submit(client, export, plan, {"prompt": "go"}, run=name)
                ends = {kind: await asyncio.wait_for(ended(client, name), WITHIN) for kind, name in names.items()}
            assert {kind: end.status for kind, end in ends.items()} == dict.fromkeys(names, "failed")
            for name in names.values():
                assert not [one for one in of(export, name) if "forged" in repr(one)]
                assert [one.text for one in of(export, name) if isinstance(one, TurnFinished)] == ["a#1 done"]
                assert any(isinstance(one, TurnFailed) and "was lost" in one.reason for one in of(export, name))

    asyncio.run(main())


def test_machines_with_keys_of_their_own_take_over_from_each_other(temporal_server: Server, tmp_path: Path) -> None:
    """The next node replays what another one has signed; a command on a third machine answers and sees the end."""

    async def main() -> None:
        export, run, said = MemoryExport(), tmp_path.name, list[str]()
        user, first, second, none = (KeyRing(tmp_path / f"{name}.key") for name in ("user", "first", "second", "none"))
        for node in first, second:
            node.trust(user.keys[0].public)
            user.trust(node.keys[0].public)
        cast = Cast({}, seconds=0.0)
        async with node_of(temporal_server, export, cast, tmp_path, ring=first) as client:
            await submit(client, export, GATED, {"prompt": "go"}, run=run, ring=user)
            await asks(export, run)
        async with node_of(temporal_server, export, cast, tmp_path, ring=none, tell=said.append) as client:
            await client.get_workflow_handle(run).signal("nudge")  # else it may have nothing to do for the run
            await soon(lambda: any("cluster key trust" in line and run in line for line in said), WITHIN)
        async with node_of(temporal_server, export, cast, tmp_path, ring=second) as client:
            assert (await tell(client, user, run, answer("", "yes"))).status == "accepted"
            assert (await asyncio.wait_for(done(client, run, user), WITHIN)).ended.status == "completed"
        assert [one.agent.name for one in cast.asked] == ["draft", "deploy"]

    asyncio.run(main())


def test_a_run_of_an_earlier_release_goes_on_from_its_journal(temporal_server: Server, tmp_path: Path) -> None:
    """Its next link began without a signature, and an operator resumes it."""

    async def main() -> None:
        export, run, cast = MemoryExport(), tmp_path.name, Cast({}, seconds=0.0)
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, GATED, {"prompt": "go"}, run=run)
            await asks(export, run)
            await client.get_workflow_handle(run).terminate()
            earlier = Begin(run=run, folds=True)
            link = await client.start_workflow(WORKFLOW, earlier, id=run, task_queue=QUEUE)
            with pytest.raises(WorkflowFailureError) as failed:
                await link.result()
            assert f"`coterie resume {run}`" in str(failed.value.cause)
            await restart(client, export, run)
            await soon(lambda: sum(isinstance(one, RunOwned) for one in of(export, run)) > 1, WITHIN)
            assert (await tell(client, KeyRing.of_user(), run, answer("", "yes"))).status == "accepted"
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
        assert [one.agent.name for one in cast.asked] == ["draft", "deploy"]

    asyncio.run(main())
