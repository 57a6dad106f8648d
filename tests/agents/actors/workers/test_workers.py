"""Agents in workers: any start order, restarts, lost workers, standing by, draining, and what crosses processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from until import soon
from worker_stage import Worker, WorkerStage, agent, supervisor

from coterie.agents.actors.exits import Crashed, Down
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import TURN, Asker, Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.supervision.spec import RESTART, SHUTDOWN
from coterie.agents.actors.transports.peer_transport import PeerTransport
from coterie.agents.actors.workers import host
from coterie.agents.actors.workers.requests import (
    ABSENT,
    Attach,
    Leave,
    StartAgent,
    StopAgent,
    WorkerReport,
    call,
    fingerprint,
    write_item,
)
from coterie.errors import ActorError, AgentCrashed, AgentStopped, AskTimedOut, CannotStart, NoSuchAgent, WorkerLost
from coterie.history.journal.records import (
    ActorCrashed,
    ActorStarted,
    ActorStopped,
    LetterDead,
    ReplyEnded,
    ReplyPiece,
    RestartPlanned,
    Usage,
)
from coterie.team.planning.system import DynamicPlan, SystemPlan
from coterie.team.topology.system.fields import DynamicConfig


async def ask(stage: WorkerStage, name: str, /, *, timeout: float = 30.0, **payload: Any) -> Any:  # noqa: ASYNC109
    return (await stage.system.ask(name, payload, timeout=timeout)).payload


def test_the_worker_may_come_first_or_last() -> None:
    """Agents with a process run in the worker of that name, and only there, whoever starts first."""

    async def late(stage: WorkerStage) -> None:
        assert stage.states() == {"root": "running", "a": "absent", "b": "running"}
        await stage.worker()
        await stage.state("a", "running")
        assert await ask(stage, "a") == {"name": "a", "state": {}}

    async def early() -> None:
        stage = WorkerStage(agent("a", "w"), agent("b"))

        async def main() -> None:
            worker = await stage.worker()
            await asyncio.sleep(60)
            await stage.system.start()
            await stage.state("a", "running")
            assert worker.node.names() == ["a"]
            await stage.system.stop()
            assert worker.node.names() == []

        await main()

    stage = WorkerStage(agent("a", "w"), agent("b")).play(late)
    assert [(one.name, one.process) for one in stage.records if isinstance(one, ActorStarted)] == [
        ("b", ""),
        ("root", ""),
        ("a", "w"),
    ]
    from coterie.base.clock import VirtualClock

    VirtualClock(1000.0).run(early())


def test_asks_work_between_all_processes() -> None:
    """An agent in a worker asks agents of the supervisors' process and of other workers, and the other way round."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker("w")
        await stage.worker("v")
        for asker, asked in [("a", "c"), ("a", "b"), ("b", "a"), ("c", "b")]:
            assert (await ask(stage, asker, ask=asked))["name"] == asked

    WorkerStage(agent("a", "w"), agent("b", "v"), agent("c")).play(scene)


def test_an_ask_to_a_worker_that_was_never_seen_waits_within_its_timeout() -> None:
    async def scene(stage: WorkerStage) -> None:
        with pytest.raises(AskTimedOut):
            await ask(stage, "a", timeout=5.0)
        waiting = asyncio.create_task(ask(stage, "a"))
        await asyncio.sleep(10)
        await stage.worker()
        assert (await waiting)["name"] == "a"
        with pytest.raises(NoSuchAgent):
            await ask(stage, "x")

    WorkerStage(agent("a", "w")).play(scene)


def test_a_crash_in_a_worker_is_a_failure_like_any_other() -> None:
    """The asker gets the error, the supervisor restarts it there within its limit, and the journal has it in order."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await ask(stage, "a", remember=7)
        with pytest.raises(AgentCrashed, match="boom"):
            await ask(stage, "a", crash="boom")
        assert await ask(stage, "a") == {"name": "a", "state": {"value": 7}}
        await asyncio.sleep(2)
        assert next(node for node in stage.system.describe() if node.name == "a").restarts == 1

    stage = WorkerStage(agent("a", "w")).play(scene)
    kinds = [type(one) for one in stage.records if getattr(one, "name", "") == "a"]
    assert kinds == [ActorStarted, ActorCrashed, RestartPlanned, ActorStarted, ActorStopped]


def test_a_root_gives_up_because_of_an_agent_in_a_worker() -> None:
    """The limit is that of the supervisor, wherever the child lives."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        for _ in range(2):
            with pytest.raises(AgentCrashed):
                await ask(stage, "a", crash="boom")
        assert "'a' crashed: ValueError: boom" in await stage.system.gave_up()
        with pytest.raises(AgentStopped):
            await ask(stage, "a")

    WorkerStage(agent("a", "w"), max_restarts=1).play(scene)


def test_a_lost_worker_is_one_failure_of_each_supervisor() -> None:
    """However many children it had there; asks in hand fail at once, and later ones until it is back."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("c", "running")
        hanging = asyncio.create_task(ask(stage, "a", hang=1000))
        await asyncio.sleep(1)
        began = stage.clock.now()
        stage.kill(worker)
        with pytest.raises(WorkerLost, match="'w' was lost"):
            await hanging
        assert stage.clock.now() - began < 3.6
        with pytest.raises(WorkerLost):
            await ask(stage, "a")
        assert stage.states()["a"] == stage.states()["c"] == "absent"
        assert (await ask(stage, "d"))["name"] == "d"
        await asyncio.sleep(100)
        await stage.worker()
        await stage.state("c", "running")
        assert (await ask(stage, "a"))["name"] == "a"

    stage = WorkerStage(agent("a", "w"), agent("b", "w"), supervisor("sub", agent("c", "w")), agent("d")).play(scene)
    planned = [one for one in stage.records if isinstance(one, RestartPlanned)]
    assert [(one.supervisor, one.names, one.count) for one in planned] == [("root", ("a", "b"), 1), ("sub", ("c",), 1)]
    crashed = [one for one in stage.records if isinstance(one, ActorCrashed)]
    assert [(one.name, one.during, one.incarnation) for one in crashed] == [
        ("a", "worker", 1),
        ("b", "worker", 1),
        ("c", "worker", 1),
    ]


def test_a_strategy_replaces_the_siblings_of_agents_whose_worker_was_lost() -> None:
    """With ONE_FOR_ALL local siblings are replaced too; those without a worker hold up nothing."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("b", "running")
        stage.kill(worker)
        await stage.state("b", "absent")
        assert stage.states() == {"root": "running", "a": "running", "b": "absent", "c": "running"}
        await stage.worker()
        await stage.state("b", "running")

    stage = WorkerStage(agent("a"), agent("b", "w"), agent("c"), strategy="ONE_FOR_ALL").play(scene)
    started = [(one.name, one.incarnation) for one in stage.records if isinstance(one, ActorStarted)]
    assert started == [("a", 1), ("c", 1), ("root", 1), ("b", 1), ("a", 2), ("c", 2), ("b", 2)]


def test_a_worker_that_stands_by_takes_over_all_agents_together() -> None:
    async def scene(stage: WorkerStage) -> None:
        first, second = await stage.worker(), await stage.worker()
        await stage.state("b", "running")
        active, other = sorted((first, second), key=lambda one: not one.node.names())
        assert (active.node.names(), other.node.names()) == (["a", "b"], [])
        stage.kill(active)
        await asyncio.sleep(4)
        assert other.node.names() == ["a", "b"]
        assert (await ask(stage, "b"))["name"] == "b"

    WorkerStage(agent("a", "w"), agent("b", "w")).play(scene)


def test_a_worker_that_leaves_finishes_what_its_agents_have() -> None:
    """That is no failure; the one that stands by goes on, and messages sent meanwhile reach it."""

    async def scene(stage: WorkerStage) -> None:
        first = await stage.worker()
        await stage.state("a", "running")
        await stage.worker()
        await asyncio.sleep(2)
        answers = [asyncio.create_task(ask(stage, "a", hang=1)) for _ in range(3)]
        await asyncio.sleep(0.5)
        leaving = asyncio.create_task(first.stop())
        await asyncio.sleep(0.2)
        answers.append(asyncio.create_task(ask(stage, "a")))
        await leaving
        assert [(await answer)["name"] for answer in answers] == ["a"] * 4
        assert Worker.log == ["begin a", "end a"] * 3 + ["stop a"]

    stage = WorkerStage(agent("a", "w")).play(scene)
    kinds = [type(one) for one in stage.records if getattr(one, "name", "") == "a"]
    assert kinds == [ActorStarted, ActorStopped, ActorStarted, ActorStopped]


def test_nothing_is_sent_to_a_worker_that_leaves() -> None:
    """From the moment at which its supervisors know it, messages wait for the next one."""

    async def scene(stage: WorkerStage) -> None:
        first = await stage.worker()
        await stage.state("a", "running")
        leaving = asyncio.create_task(first.stop())
        while stage.states()["a"] == "running":  # noqa: ASYNC110 - the very moment
            await asyncio.sleep(0)
        answer = asyncio.create_task(ask(stage, "a", hang=1))
        await leaving
        await stage.worker()
        assert (await answer)["name"] == "a"
        assert Worker.log == ["stop a", "begin a", "end a"]

    WorkerStage(agent("a", "w")).play(scene)


def test_a_worker_whose_supervisor_went_away_serves_the_next() -> None:
    """It stops its agents, and waits; the next supervisor finds it as it was at first."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await ask(stage, "a", remember=3)
        stage.kill(stage.system)
        await asyncio.sleep(10)
        assert (worker.node.names(), Worker.log) == ([], ["stop a"])
        await asyncio.sleep(100)
        stage.system = stage.supervisors()
        await stage.system.start()
        assert await ask(stage, "a") == {"name": "a", "state": {"value": 3}}

    WorkerStage(agent("a", "w")).play(scene)


def test_a_supervisor_that_comes_at_once_waits_until_the_worker_has_missed_the_other() -> None:
    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        stage.kill(stage.system)
        stage.system = stage.supervisors()
        await stage.system.start()
        assert (await ask(stage, "a"))["name"] == "a"
        assert Worker.log == ["stop a"]
        assert worker.node.names() == ["a"]

    WorkerStage(agent("a", "w")).play(scene)


def test_a_partition_ends_the_agents_on_the_other_side() -> None:
    """Both sides have lost each other; when it heals, the worker begins anew and no agent is there twice."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        stage.cut.add(worker.node.address)
        await stage.state("a", "absent")
        await asyncio.sleep(60)
        stage.cut.clear()
        await stage.state("a", "running")
        assert Worker.log == ["stop a"]
        assert (await ask(stage, "a"))["name"] == "a"

    WorkerStage(agent("a", "w")).play(scene)


def test_a_second_supervisor_is_refused_and_the_first_goes_on() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.state("a", "running")
        second = stage.supervisors()
        with pytest.raises(CannotStart, match="'root' is supervised by another process already"):
            await second.start()
        assert (await ask(stage, "a"))["name"] == "a"

    WorkerStage(agent("a", "w")).play(scene)


def test_a_worker_with_another_file_is_refused() -> None:
    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker(plan=SystemPlan(root=supervisor("root", agent("a", "w"), agent("b", "w"))))
        assert "run another file than this worker 'w'" in await worker.gave_up()
        assert stage.states()["a"] == "absent"
        await worker.stop()

    WorkerStage(agent("a", "w")).play(scene)


def test_a_second_supervisor_with_another_file_ends_no_worker() -> None:
    """It is refused, and the workers go on to serve the first."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        spare = await stage.worker()
        await stage.state("a", "running")
        other = stage.supervisors(SystemPlan(root=supervisor("root", agent("a", "w"), agent("b", "w"))))
        with pytest.raises(CannotStart, match="supervised by another process"):
            await other.start()
        await asyncio.sleep(10)
        assert not spare._gave_up.done()
        assert (await ask(stage, "a"))["name"] == "a"

    WorkerStage(agent("a", "w")).play(scene)


def test_a_worker_without_agents_is_refused() -> None:
    with pytest.raises(CannotStart, match="no agent has process: 'x'"):
        WorkerStage(agent("a", "w")).clock.run(WorkerStage(agent("a", "w")).worker("x"))


def test_an_agent_that_does_not_start_in_its_worker_is_tried_again_within_the_limit() -> None:
    async def scene(stage: WorkerStage) -> None:
        Worker.failing = {"a"}
        await stage.worker()
        assert "'a' crashed: OSError: no port" in await stage.system.gave_up()

    stage = WorkerStage(agent("a", "w"), max_restarts=2).play(scene)
    assert stage.names(ActorCrashed) == ["a"] * 3


def test_a_worker_that_dies_while_an_agent_starts_there_is_one_failure() -> None:
    """It counts, or an agent that kills its worker would be started for ever."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("slow", "starting")
        await asyncio.sleep(1)
        stage.kill(worker)
        await stage.state("slow", "absent")
        assert stage.states()["a"] == "absent"
        await stage.worker()
        await stage.state("slow", "running")

    stage = WorkerStage(agent("a", "w"), agent("slow", "w")).play(scene)
    planned = [one for one in stage.records if isinstance(one, RestartPlanned)]
    assert [(one.names, one.count) for one in planned] == [(("a", "slow"), 1)]


def test_a_stop_cuts_short_a_start_in_a_worker() -> None:
    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("slow", "starting")
        await asyncio.sleep(1)
        began = stage.clock.now()
        await stage.system.stop()
        assert stage.clock.now() - began < 3
        assert worker.node.names() == []

    WorkerStage(agent("slow", "w")).play(scene)


def test_an_agent_in_a_worker_spawns_by_the_name_of_an_allowed_type() -> None:
    """The child lives with its dynamic supervisor, and its end is reported across processes."""

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        assert await ask(stage, "a", spawn="s", type="Worker") == "s"
        assert "s" in stage.system.node.names()
        assert (await ask(stage, "a", ask="s"))["name"] == "s"
        await ask(stage, "s", exit=True)
        await asyncio.sleep(1)
        assert await ask(stage, "a", ended=True) == [["s", "clean_exit"]]
        with pytest.raises(AgentCrashed, match=r"SpawnError: .*type 'os\.path' is not in the allow list"):
            await ask(stage, "a", spawn="t", type="os.path")
        with pytest.raises(AgentCrashed, match=r"payload\['factors'\]\[0\] is of type set"):
            await ask(stage, "a", spawn="t", odd=True)

    WorkerStage(agent("a", "w"), DynamicPlan(name="pool", config=DynamicConfig(max_children=1))).play(scene)


def test_the_state_of_an_agent_in_a_worker_is_there() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await ask(stage, "a", remember=5)
        assert await ask(stage, "a", __op__="state") == {"value": 5}
        await asyncio.sleep(2)
        status = next(node for node in stage.system.describe() if node.name == "a")
        assert (status.type, status.queued, status.last_message > 0) == ("worker_stage.Worker", 0, True)

    WorkerStage(agent("a", "w")).play(scene)


def test_an_agent_monitors_others_in_any_process() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker("w")
        other = await stage.worker("v")
        await stage.state("b", "running")
        await ask(stage, "a", monitor="b")
        await ask(stage, "a", monitor="c")
        await ask(stage, "c", monitor="a")
        with pytest.raises(AgentCrashed):
            await ask(stage, "c", crash="boom")
        stage.kill(other)
        await asyncio.sleep(5)
        ended = await ask(stage, "a", ended=True)
        assert [(one["name"], one["reason"], one["error"]) for one in ended] == [
            ("c", "crashed", "ValueError: boom"),
            ("b", "crashed", "WorkerLost: agent 'b' is out of reach: its worker 'v' was lost"),
        ]

    WorkerStage(agent("a", "w"), agent("b", "v"), agent("c")).play(scene)


def test_letters_that_died_in_a_worker_are_in_the_journal() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.state("a", "running")
        await stage.system.send("a", {"crash": "boom"})
        await asyncio.sleep(1)

    stage = WorkerStage(agent("a", "w")).play(scene)
    assert [(one.recipient, one.reason) for one in stage.records if isinstance(one, LetterDead)] == [("a", "crashed")]


def test_a_streamed_reply_of_a_worker_is_in_the_journal_in_order() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.system.node.ask("a", {"stream": [1, 2, 3]}, asker=Asker(stream="key"))
        await asyncio.sleep(1)

    stage = WorkerStage(agent("a", "w")).play(scene)
    pieces = [one for one in stage.records if isinstance(one, ReplyPiece | ReplyEnded)]
    assert [getattr(one, "payload", None) for one in pieces] == [1, 2, 3, {"name": "a", "state": {}}]


def test_what_an_agent_in_a_worker_uses_for_a_turn_is_counted_by_its_run() -> None:
    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        used: list[Usage] = []
        stage.system.plugins.models.meters["r/a#1.1"] = used.append
        await stage.system.ask("a", {"turn": "r/a#1.1"}, TURN)
        assert [(one.input_tokens, one.output_tokens, one.cost) for one in used] == [(3, 4, 1.0)]

    WorkerStage(agent("a", "w")).play(scene)


def test_a_turn_waits_for_a_worker_that_was_lost() -> None:
    """An ask fails at once, but the attempts of a turn would be used up in no time."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        other = await stage.worker("v")
        await stage.state("b", "running")
        stage.kill(worker)
        await stage.state("a", "absent")
        await asyncio.sleep(1)
        waiting = [asyncio.create_task(one.node.reach("a")) for one in (stage.system, other)]  # type: ignore[misc]
        await asyncio.sleep(60)
        assert [one for one in waiting if one.done()] == []
        await stage.worker()
        await asyncio.gather(*waiting)
        assert (await ask(stage, "b", ask="a"))["name"] == "a"
        await stage.system.tree.stop_agent("a")
        for one in (stage.system, other):
            with pytest.raises(AgentStopped):
                await one.node.reach("a")  # type: ignore[misc]

    WorkerStage(agent("a", "w"), agent("b", "v")).play(scene)


@asynccontextmanager
async def stranger(stage: WorkerStage, *known: str, process: str = "") -> AsyncIterator[PeerTransport]:
    """The transport of a node of the same system that knows the nodes *known*; without a *process*, a supervisor."""
    transport = PeerTransport(stage.hub.carrier(), process=process, fingerprint=fingerprint(stage.plan.root))
    node = ActorNode(clock=stage.clock, transport=transport)
    await node.start()
    await soon(lambda: set(known) <= set(transport.peers))
    yield transport
    await node.stop()


def test_a_worker_does_what_its_own_supervisor_says() -> None:
    """Another one, behind a partition, starts and stops nothing, and gets no reports."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        async with stranger(stage, worker.node.address) as other:
            for request in (Attach(), StartAgent("a", 7), StartAgent("b", 7)):
                refusal = await call(other, worker.node.address, request)
                assert refusal is not None
                assert refusal.kind == ("busy" if isinstance(request, Attach) else ABSENT)
            await call(other, worker.node.address, StopAgent("a", SHUTDOWN))
        assert (worker.node.names(), Worker.log) == (["a"], [])
        assert (await ask(stage, "a"))["name"] == "a"

    stage = WorkerStage(agent("a", "w"), agent("b", "v")).play(scene)
    assert stage.names(ActorStarted) == ["root", "a"]


def test_a_worker_starts_only_agents_of_its_name() -> None:
    """A request for another one is refused, and one that cannot start is a crash."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        [child] = stage.system._pool._children.values()
        assert (await call(child.slot.transport, worker.node.address, StartAgent("c", 1))).kind == "unknown"  # type: ignore[union-attr]

    WorkerStage(agent("a", "w"), agent("c")).play(scene)


def test_only_the_reports_of_the_active_worker_count() -> None:
    """One that stands by, or was lost, speaks of agents that it does not have."""
    crash = ActorCrashed(name="a", incarnation=1, error="hearsay", during="message")
    letter = LetterDead(id="1", recipient="a", sender="b", type="message", reason="crashed", detail="hearsay")
    health = AgentHealth(name="a", type="Hearsay", phase="stopping", queued=9, handled=9, restarts=9)
    items = [write_item(item) for item in (crash, letter, health, Down("a", 1, Crashed("hearsay")))]

    async def scene(stage: WorkerStage) -> None:
        await stage.worker()
        await stage.state("a", "running")
        supervisor = stage.system.node.address
        async with stranger(stage, supervisor, process="w") as spare, stranger(stage, supervisor, process="x") as odd:
            for transport in (spare, odd):
                await call(transport, supervisor, WorkerReport(1, items))
                await call(transport, supervisor, Leave())
        await asyncio.sleep(5)
        assert stage.states()["a"] == "running"
        [status] = [node for node in stage.system.describe() if node.name == "a"]
        assert (status.type, status.restarts) == ("worker_stage.Worker", 0)
        assert len(stage.system.node.letters) == 0

    stage = WorkerStage(agent("a", "w"), agent("b")).play(scene)
    assert [one for one in stage.records if "hearsay" in str(one)] == []
    assert stage.names(ActorStarted) == ["b", "root", "a"]


def test_a_report_that_comes_twice_counts_once() -> None:
    """The worker sends a batch again whose answer was lost, with what came since."""
    letters = [
        LetterDead(id=str(n), recipient="a", sender="b", type="message", reason="crashed", detail="") for n in range(3)
    ]

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        await asyncio.sleep(2)
        items, first = [write_item(letter) for letter in letters], worker._first
        for count in (2, 2, 3, 1):
            await call(worker._transport, stage.system.node.address, WorkerReport(first, items[:count]))
        assert len(stage.system.node.letters) == 3

    stage = WorkerStage(agent("a", "w")).play(scene)
    assert [one.id for one in stage.records if isinstance(one, LetterDead)] == ["0", "1", "2"]


def test_an_end_of_an_earlier_incarnation_is_no_failure() -> None:
    """Its report is late: the agent was restarted meanwhile."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        with pytest.raises(AgentCrashed):
            await ask(stage, "a", crash="boom")
        await ask(stage, "a")
        late = WorkerReport(1000, [write_item(Down("a", 1, Crashed("boom")))])
        await call(worker._transport, stage.system.node.address, late)
        await asyncio.sleep(2)
        assert worker.node.health("a").restarts == 1
        stage.kill(worker)
        await stage.state("a", "absent")

    stage = WorkerStage(agent("a", "w")).play(scene)
    assert [one.count for one in stage.records if isinstance(one, RestartPlanned)] == [1, 2], "the crash and the loss"


def test_a_start_that_is_cancelled_is_ended_in_its_worker() -> None:
    """Its agent goes on nowhere, and the next incarnation can start."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("slow", "running")
        child = stage.system._pool._children["slow"]
        await child.stop(RESTART)
        starting = asyncio.create_task(child.start(2))
        await asyncio.sleep(1)
        assert worker.node.health("slow").phase == "starting"
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert worker.node.health("slow").phase == "restarting"
        await asyncio.sleep(20)
        assert worker.node.health("slow").phase == "restarting"
        await child.start(3)
        assert (await ask(stage, "slow"))["name"] == "slow"

    stage = WorkerStage(agent("slow", "w")).play(scene)
    assert [one.incarnation for one in stage.records if isinstance(one, ActorStarted) and one.name == "slow"] == [1, 3]


def test_the_next_supervisor_hears_of_the_agents_and_of_letters_that_died_meanwhile() -> None:
    """Also of an agent that is as the last supervisor knew it; what else happened was of earlier incarnations."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("b", "running")
        await worker.node.send("a", {"hang": 1000})
        await asyncio.sleep(2)
        stage.kill(stage.system)
        await asyncio.sleep(20)
        stage.records.clear()
        stage.system = stage.supervisors()
        await stage.system.start()
        await stage.state("b", "running")
        await asyncio.sleep(2)
        [status] = [node for node in stage.system.describe() if node.name == "b"]
        assert status.type == "worker_stage.Worker"
        assert len(stage.system.node.letters) == 1

    stage = WorkerStage(agent("a", "w", shutdown=0.0), agent("b", "w")).play(scene)
    assert [(one.recipient, one.reason) for one in stage.records if isinstance(one, LetterDead)] == [("a", "stopped")]
    assert stage.names(ActorStarted) == ["root", "a", "b"]


def test_a_worker_that_is_attached_again_begins_anew() -> None:
    """Its supervisor has lost it, and it has not noticed: it stops its agents, and then it is there for it again."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        supervisor = stage.system._pool._transport  # type: ignore[union-attr]
        refusal = await call(supervisor, worker.node.address, Attach())
        assert refusal is not None
        assert refusal.kind == "busy"
        await soon(lambda: worker.node.names() == [])
        assert await call(supervisor, worker.node.address, Attach()) is None

    WorkerStage(agent("a", "w")).play(scene)


def test_reports_that_come_while_others_are_on_their_way_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when they push those out of the worker's memory."""
    monkeypatch.setattr(host, "KEPT", 4)

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        await asyncio.sleep(2)
        letters = [Message(str(n), "message", "x", "a") for n in range(7)]
        for letter in letters[:4]:
            worker.node.letters.add(letter, "crashed")
        await asyncio.sleep(0)  # they are sent
        for letter in letters[4:]:
            worker.node.letters.add(letter, "crashed")
        await asyncio.sleep(2)

    stage = WorkerStage(agent("a", "w")).play(scene)
    assert [one.id for one in stage.records if isinstance(one, LetterDead)] == list("0123456")


def test_a_worker_that_leaves_waits_for_its_agents_only_so_long() -> None:
    """A message that is never handled does not keep it."""

    async def scene(stage: WorkerStage) -> None:
        worker = await stage.worker()
        await stage.state("a", "running")
        hanging = asyncio.create_task(ask(stage, "a", timeout=1000, hang=900))
        await asyncio.sleep(1)
        began = stage.clock.now()
        await worker.stop()
        assert host.DRAINING <= stage.clock.now() - began < host.DRAINING + 10
        with pytest.raises(ActorError):
            await hanging

    WorkerStage(agent("a", "w")).play(scene)


def test_a_worker_that_comes_while_another_leaves_waits_for_its_end() -> None:
    """Else an agent would be in both."""

    async def scene(stage: WorkerStage) -> None:
        first = await stage.worker()
        await stage.state("a", "running")
        hanging = asyncio.create_task(ask(stage, "a", hang=4))
        await asyncio.sleep(1)
        leaving = asyncio.create_task(first.stop())
        await asyncio.sleep(0.2)
        second = await stage.worker()
        await asyncio.sleep(2)
        assert second.node.names() == []
        await leaving
        assert (await hanging)["name"] == "a"
        await stage.state("a", "running")
        assert second.node.names() == ["a"]

    WorkerStage(agent("a", "w")).play(scene)
