"""A person speaks to an attempt on a node: permission, guidance, an interrupt."""

import asyncio
import errno
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cluster_stage import WITHIN, MemoryExport, Server, node_of
from stage import Cast, Part, Stage, Streamed, flow
from until import soon

from coterie.agents.backends.base import (
    Abilities,
    Answer,
    Budgeted,
    Failure,
    OnEvent,
    Permission,
    Request,
    Result,
    Text,
    Used,
)
from coterie.base import files
from coterie.errors import GitFailed
from coterie.execution.cluster import activities
from coterie.execution.cluster.address import ClusterAddress
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.relay import tell
from coterie.execution.cluster.runs import ClusterServer
from coterie.execution.cluster.submit import ended, restart, submit
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.stall import SIGNS
from coterie.execution.runs.messages import RunMessage, guidance, interruption, permission, stop, withdrawal
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptQuiet,
    AttentionAsked,
    GuidanceDelivered,
    OperatorSaid,
    Record,
    TurnFinished,
    Usage,
)
from coterie.team.planning.plan import AgentPlan, Limits


class Talks:
    """An attempt that asks for a permission, then waits for guidance; the first one is there to be interrupted."""

    def __init__(self, request: Request, on_event: OnEvent) -> None:
        self._result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._allowed = False
        on_event(Text(text=f"attempt {request.attempt} came so far"))
        if request.attempt > 1:
            on_event(Permission(id="p1", tool="rm", detail="rm -r build"))

    async def result(self) -> Result:
        return await asyncio.shield(self._result)

    async def interrupt(self) -> None:
        if not self._result.done():
            self._result.set_result(Failure(kind="interrupted", reason="it was", text="so far"))

    async def steer(self, text: str) -> bool:
        self._result.set_result(Answer(text=f"allowed: {self._allowed}, told: {text}"))
        return True

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        self._allowed = allowed
        return question == "p1"


class Talking(Cast):
    """Starts such attempts."""

    async def start(self, request: Request, on_event: OnEvent) -> Talks:  # type: ignore[override]
        self.asked.append(request)
        return Talks(request, on_event)

    def abilities(self, agent: AgentPlan) -> Abilities:
        return Abilities(steer=True, permission=True)


class Silent(Cast):
    """The first attempt shows no sign of life, and can be interrupted."""

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        self._seconds = 600.0 if (request.turn, request.attempt) == ("a#1", 1) else 0.0
        return await super().start(request, on_event)

    def activity(self, launched: object) -> tuple[float, frozenset[int]] | None:
        return 0.0, frozenset()


@pytest.mark.slow
def test_an_attempt_that_may_be_stuck_on_its_node_needs_a_person(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node watches the signs of life, as the owner of a local run does."""
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)

    async def main() -> None:
        export, run = MemoryExport(), tmp_path.name
        agent = AgentPlan(name="a", options={"stall_after": 2.0})
        async with node_of(temporal_server, export, Silent({}), tmp_path / "node") as client:
            await submit(client, export, flow("a -> b", a=agent), {"prompt": "go"}, run=run)
            await soon(lambda: any(isinstance(one, AttentionAsked) for one in export.records.values()), WITHIN)
            assert (await tell(client, KeyRing.of_user(), run, permission("interrupt"))).status == "accepted"
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
        records = list(export.records.values())
        [asked] = [one for one in records if isinstance(one, AttentionAsked)]
        assert (asked.kind, asked.turn, asked.policy) == ("stall", "a#1", "wait")
        assert "has said nothing" in asked.detail
        assert [one.signs for one in records if isinstance(one, AttemptQuiet)] == [SIGNS]
        assert [one.turn for one in records if isinstance(one, AttemptInterrupted)] == ["a#1"]

    asyncio.run(main())


@pytest.mark.slow
def test_an_attempt_that_passes_the_budget_is_cut_off_on_its_node(temporal_server: Server, tmp_path: Path) -> None:
    """Its node reports the cost each time it has grown by a quarter."""

    async def main() -> None:
        export, run = MemoryExport(), tmp_path.name
        spends = [(0.01, Used(usage=Usage(cost=0.1 * n))) for n in range(1, 40)]
        cast = Cast({"a": [Streamed([*spends, (600.0, Text(text="late"))], Answer(text="never"))]})
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            bounds = Limits(max_cost=0.5)
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run, limits=bounds)
            left = await asyncio.wait_for(ended(client, run), WITHIN)
        assert (left.status, left.reason) == ("stopped", "max_cost")
        [cut] = [one for one in export.records.values() if isinstance(one, AttemptInterrupted)]
        assert cut.reason == "max_cost"
        assert cut.usage.cost > 0.5

    asyncio.run(main())


class Asks(Cast):
    """An agent that asks before each request whether it may be sent, as models do; each answer costs a cent."""

    def __init__(self) -> None:
        super().__init__({})
        self.requests = 0

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        part = await super().start(request, on_event)

        async def result() -> Result:
            assert isinstance(on_event, Budgeted)
            cents = 20  # reports that are told by their growth alone come too late
            on_event(Used(usage=Usage(cost=cents / 100)))
            while cents < 50 and await on_event.affords():
                self.requests, cents = self.requests + 1, cents + 1
                on_event(Used(usage=Usage(cost=cents / 100)))
            return Failure(kind="interrupted", reason="the budget is spent", usage=Usage(cost=cents / 100))

        part.result = result  # type: ignore[method-assign]
        return part


@pytest.mark.slow
def test_each_request_beyond_the_reservation_is_within_the_budget(temporal_server: Server, tmp_path: Path) -> None:
    """An agent sends as many requests as on one machine, and its run stops with the same cost."""
    here, there, limits = Asks(), Asks(), Limits(max_cost=0.24)
    alone = Stage(flow("a -> b"), here).start(limits)

    async def main() -> RunExit:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, there, tmp_path) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run, limits=limits)
            return await asyncio.wait_for(ended(client, run), WITHIN)

    left = asyncio.run(main())
    assert (here.requests, alone.reason, alone.usage.cost) == (4, "max_cost", 0.24)
    assert (there.requests, left.reason, left.usage.cost) == (4, "max_cost", 0.24)


class LastWords(Cast):
    """An agent that has emitted when it is interrupted, does not know yet whether that counts, and ends with *last*."""

    def __init__(self, last: Result) -> None:
        super().__init__({}, seconds=600.0)
        self._last = last

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        part = await super().start(request, on_event)
        end, until = part.interrupt, part.result

        async def interrupt() -> None:
            assert request.root is not None
            ref = {"turn": request.turn, "attempt": request.attempt, "epoch": request.epoch}
            emit = RunMessage(id="late", kind="emit", event="done", token=request.token, **ref)  # type: ignore[arg-type]
            files.write(request.root / "inbox" / "late.json", msgspec.json.encode(emit))
            await end()

        async def result() -> Result:
            await until()
            return self._last

        part.interrupt, part.result = interrupt, result  # type: ignore[method-assign]
        return part


@pytest.mark.slow
@pytest.mark.parametrize(
    "last", [Failure(kind="interrupted", reason="cut", usage=Usage(cost=0.5)), Answer(text="x", usage=Usage(cost=0.5))]
)
def test_a_run_stops_although_an_agent_has_just_emitted(temporal_server: Server, tmp_path: Path, last: Result) -> None:
    """The run judges the event once its attempts have ended, so no attempt waits for that, or ends before its event."""

    async def main() -> None:
        export, run, cast = MemoryExport(), tmp_path.name, LastWords(last)
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            await soon(lambda: len(cast.asked) == 1, WITHIN)
            assert (await tell(client, KeyRing.of_user(), run, stop())).status == "accepted"
            left = await asyncio.wait_for(ended(client, run), WITHIN)
            assert (left.status, left.reason, left.usage.cost) == ("stopped", "by an operator", 0.5)
        assert not any(isinstance(one, TurnFinished) for one in export.records.values())

    asyncio.run(main())


@pytest.mark.slow
def test_what_is_said_while_no_node_serves_waits_for_one(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is queued, counts once however often it is said, and has no effect once it is withdrawn."""
    monkeypatch.setattr("coterie.execution.cluster.runs.TELL_WITHIN", timedelta(seconds=1))
    export = FolderExport(tmp_path / "export")
    cluster = ClusterServer(ClusterAddress.parse(f"{temporal_server.url}?export={tmp_path / 'export'}"))
    guided, stopped = f"{tmp_path.name}-guided", f"{tmp_path.name}-stopped"
    slow, quick = Cast({}, seconds=600.0), Cast({}, seconds=0.0)

    async def said(run: str, message: RunMessage) -> str:
        return (await asyncio.to_thread(cluster.send, run, message)).status

    async def main() -> None:
        async with node_of(temporal_server, export, slow, tmp_path / "one", drain=0.0) as client:
            for run in guided, stopped:
                await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            await soon(lambda: len(slow.asked) == 2, WITHIN)
        queued = [await said(guided, guidance("be brief")) for _ in range(2)]
        queued += [await said(stopped, one) for one in (guidance("be late"), stop(), withdrawal())]
        assert queued == ["queued"] * 5
        async with node_of(temporal_server, export, quick, tmp_path / "two") as client:
            for run in guided, stopped:
                assert (await asyncio.wait_for(ended(client, run), WITHIN)).status == "completed"
        for run, words in (guided, ["be brief"]), (stopped, []):
            records = [one for _, one in await export.load(run)]
            assert [one.text for one in records if isinstance(one, OperatorSaid)] == words
        assert await said(guided, guidance("too late")) == "refused"

    asyncio.run(main())
    cluster.close()


@pytest.mark.slow
def test_a_person_interrupts_permits_and_guides(temporal_server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        human = AgentPlan(name="b", kind="human", backend="human")
        export, run, cast = MemoryExport(), tmp_path.name, Talking({})

        def has(kind: type[Record], asked: int) -> bool:
            return len(cast.asked) >= asked and any(isinstance(one, kind) for one in export.records.values())

        async def until(kind: type[Record], *, asked: int = 0) -> None:
            await soon(lambda: has(kind, asked), WITHIN)

        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, flow("a -> b", b=human), {"prompt": "go"}, run=run)
            await until(Record, asked=1)
            await soon(lambda: b"came so far" in export.printed.get(f"{run}/a#1.1", b""), WITHIN)
            assert (await tell(client, KeyRing.of_user(), run, interruption())).status == "accepted"
            await until(AttemptInterrupted, asked=2)
            assert "so far" in cast.asked[1].prompt
            await until(AttentionAsked)
            assert (await tell(client, KeyRing.of_user(), run, permission("allow"))).status == "accepted"
            assert (await tell(client, KeyRing.of_user(), run, guidance("be brief"))).status == "accepted"
            await until(GuidanceDelivered)
            await until(TurnFinished)
            first = next(one for one in export.records.values() if isinstance(one, TurnFinished))
            assert first.text == "allowed: True, told: be brief"
            await client.get_workflow_handle(run).cancel()
            assert (await asyncio.wait_for(ended(client, run), WITHIN)).reason == "interrupted"

    asyncio.run(main())


@pytest.mark.slow
def test_a_run_is_stopped_and_goes_on_when_it_is_resumed(temporal_server: Server, tmp_path: Path) -> None:
    """Its attempt is interrupted on its node, whatever that is doing, and nothing is left of its workflow."""

    async def main() -> None:
        export, cast, run = MemoryExport(), Silent({}), tmp_path.name
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            await soon(lambda: bool(cast.asked), 60)
            assert (await tell(client, KeyRing.of_user(), run, stop())).status == "accepted"
            stopped = await asyncio.wait_for(ended(client, run), 60)
            assert (stopped.status, stopped.reason) == ("stopped", "by an operator")
            await restart(client, export, run)
            assert (await asyncio.wait_for(ended(client, run), 60)).status == "completed"
            found = [one for _, one in await export.load(run)]
            assert [one.reason for one in found if isinstance(one, AttemptInterrupted)] == ["interrupted"]
            assert [one.turn for one in found if isinstance(one, TurnFinished)] == ["a#1", "b#1"]

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("where", ["agent", "make_folder", "secret", "git"])
def test_a_node_that_lacks_space_gives_the_turn_back(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The run does not stop, and nothing counts as a failure of the agent: other nodes may have space."""
    monkeypatch.setattr(activities, "SHORT_PAUSE", 0.01)
    full = [OSError(errno.ENOSPC, "No space left on device")] * 4
    answers = [Failure(kind="shortage", reason=str(full.pop())) for _ in range(4 * (where == "agent"))]
    cast, said = Cast({"a": [*answers, Answer(text="done")]}, seconds=0.0), list[str]()
    if where != "agent":
        name = "make_folder" if where == "git" else where
        works = getattr(files, name)

        def fails(path: Path) -> Any:
            if full and Path(path).is_relative_to(tmp_path):
                raise GitFailed(("init",), 128, "failed to write") if where == "git" else full.pop()
            return works(path)

        def probes(**options: object) -> None:
            raise full.pop()

        monkeypatch.setattr(files, name, fails)
        monkeypatch.setattr("tempfile.TemporaryFile", probes)

    async def main() -> list[Record]:
        export, run = MemoryExport(), tmp_path.name
        async with node_of(temporal_server, export, cast, tmp_path, tell=said.append) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=run)
            assert (await asyncio.wait_for(ended(client, run), 60)).status == "completed"
            return [one for _, one in await export.load(run)]

    records = asyncio.run(main())
    assert [one for one in records if isinstance(one, AttemptFailed)] == []
    assert {one.reason for one in records if isinstance(one, AttemptInterrupted)} == {"interrupted"}
    assert [one.turn for one in records if isinstance(one, TurnFinished)] == ["a#1", "b#1"]
    assert len([one for one in said if "a#1" in one and "No space left on device" in one]) == 4
