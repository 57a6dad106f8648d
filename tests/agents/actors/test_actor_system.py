"""A system made from a plan: boot, messages, restarts, spawned agents, and what it says about itself."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess, ErrorAction
from coterie.agents.actors.system import ActorSystem
from coterie.base.clock import VirtualClock
from coterie.errors import AgentCrashed, AgentStopped, CannotStart, ClassNotFound, NoSuchAgent, SpawnError
from coterie.history.journal.records import ActorStarted, ActorStopped, Record, RestartPlanned, SupervisorFailed
from coterie.team.planning.system import (
    ActorPlan,
    ChildPlan,
    DynamicPlan,
    GatewayPlan,
    SupervisorPlan,
    SystemPlan,
    TurnActorPlan,
)
from coterie.team.topology.system.fields import DynamicConfig, GatewayConfig


class Worker(AgentProcess):
    """Does what the payload says."""

    def __init__(self, name: str, greeting: str = "hello") -> None:
        super().__init__(name)
        self.greeting = greeting
        self.ended: list[tuple[str, str]] = []

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case {"crash": reason}:
                raise ValueError(reason)
            case {"exit": _}:
                self.exit()
            case {"spawn": name, **rest}:
                what = rest.pop("type", Worker)
                await self.spawn(what, name, **rest)
            case {"despawn": name}:
                await self.despawn(name)
            case {"ended": _}:
                return self.reply(self.ended)
            case {"remember": value}:
                self.state["value"] = value
                await self.checkpoint()
        return self.reply({"greeting": self.greeting, "state": dict(self.state)})

    async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
        return ErrorAction.STOP if str(exc) == "stop" else ErrorAction.ESCALATE

    async def on_child_terminated(self, name: str, reason: str) -> None:
        self.ended.append((name, reason))


class Failing(AgentProcess):
    """Never starts."""

    async def on_start(self) -> None:
        raise OSError("no port")


CLASSES = {"Worker": Worker, "Failing": Failing}


def agent(name: str, **fields: Any) -> ActorPlan:
    return ActorPlan(name=name, type=fields.pop("type", "Worker"), **fields)


def supervisor(name: str, *children: ChildPlan, **fields: Any) -> SupervisorPlan:
    fields = {"backoff_base": 0.0, **fields}
    return SupervisorPlan(name=name, children=children, **fields)


class Stage:
    """A system in virtual time and its records."""

    def __init__(self, *children: ChildPlan, **fields: Any) -> None:
        self.clock = VirtualClock(1000.0)
        self.records: list[Record] = []
        plan = SystemPlan(root=supervisor("root", *children, **fields))
        self.system = ActorSystem(plan, SystemPorts(clock=self.clock, sink=self.records.append, classes=CLASSES))

    def play(self, scene: Callable[[ActorSystem], Coroutine[Any, Any, None]]) -> "Stage":
        async def main() -> None:
            await self.system.start()
            await scene(self.system)
            await self.system.stop()

        self.clock.run(main())
        return self

    def names(self, kind: type[Record]) -> list[str]:
        return [record.name for record in self.records if isinstance(record, kind)]


async def ask(system: ActorSystem, name: str, **payload: Any) -> Any:
    return (await system.ask(name, payload)).payload


def test_agents_start_in_order_and_stop_in_reverse() -> None:
    """Depth first, supervisors after their children."""

    async def scene(system: ActorSystem) -> None:
        assert (await ask(system, "b"))["greeting"] == "hi"

    stage = Stage(agent("a"), supervisor("sub", agent("b", config={"greeting": "hi"})), agent("c")).play(scene)

    assert stage.names(ActorStarted) == ["a", "b", "sub", "c", "root"]
    assert stage.names(ActorStopped) == ["c", "b", "sub", "a", "root"]
    paths = {one.name: one.path for one in stage.records if isinstance(one, ActorStarted)}
    assert paths == {"a": "root", "b": "root/sub", "sub": "root", "c": "root", "root": ""}


def test_a_crashed_agent_comes_back_from_its_arguments_and_its_checkpoint() -> None:
    """A new instance, with the state that was stored; the asker gets the error at once."""

    async def scene(system: ActorSystem) -> None:
        await ask(system, "a", remember=7)
        with pytest.raises(AgentCrashed, match="ValueError: boom"):
            await ask(system, "a", crash="boom")
        assert await ask(system, "a") == {"greeting": "hi", "state": {"value": 7}}

    stage = Stage(agent("a", config={"greeting": "hi"})).play(scene)
    assert stage.names(RestartPlanned) == ["a"]


def test_an_agent_that_stopped_on_an_error_stays_stopped() -> None:
    """`ErrorAction.STOP`, whatever the restart type; asks fail at once."""

    async def scene(system: ActorSystem) -> None:
        with pytest.raises((AgentCrashed, AgentStopped)):
            await ask(system, "a", crash="stop")
        await asyncio.sleep(1)
        with pytest.raises(AgentStopped):
            await ask(system, "a")

    assert Stage(agent("a"), agent("b")).play(scene).names(RestartPlanned) == []


@pytest.mark.parametrize(("restart", "restarts"), [("permanent", 1), ("transient", 0), ("temporary", 0)])
def test_a_clean_exit_is_judged_by_the_restart_type(restart: str, restarts: int) -> None:
    """`self.exit()` is a normal end."""

    async def scene(system: ActorSystem) -> None:
        await ask(system, "a", exit=True)
        await asyncio.sleep(1)

    assert len(Stage(agent("a", restart=restart)).play(scene).names(RestartPlanned)) == restarts


def test_a_failed_boot_stops_what_was_started_and_surfaces() -> None:
    """In reverse order; the error is that of `on_start`."""
    stage = Stage(agent("a"), supervisor("sub", agent("b"), agent("c", type="Failing")))

    with pytest.raises(OSError, match="no port"):
        stage.clock.run(stage.system.start())
    assert stage.names(ActorStarted) == ["a", "b"]
    assert stage.names(ActorStopped) == ["b", "a"]


def test_a_root_that_gives_up_says_why() -> None:
    """The chain of causes, the innermost last; agents are gone, their askers get an answer."""

    async def scene(system: ActorSystem) -> None:
        await system.send("a", {"crash": "boom"})
        text = await system.gave_up()
        assert text.splitlines() == [
            "supervisor 'root' gave up: more than 0 restarts within 60 s",
            "supervisor 'sub' gave up: more than 0 restarts within 60 s",
            "'a' crashed: ValueError: boom",
        ]
        with pytest.raises(AgentStopped):
            await ask(system, "b")

    stage = Stage(supervisor("sub", agent("a"), max_restarts=0), agent("b"), max_restarts=0).play(scene)
    assert stage.names(SupervisorFailed) == ["sub", "root"]


def test_messages_that_wait_survive_a_restart_in_order() -> None:
    """Only the message in hand is lost; those sent during the backoff wait, too."""

    async def scene(system: ActorSystem) -> None:
        crash = asyncio.create_task(ask(system, "a", crash="boom"))
        waiting = [asyncio.create_task(ask(system, "a", remember=n)) for n in range(5)]
        await asyncio.sleep(1)
        waiting += [asyncio.create_task(ask(system, "a", remember=5))]
        answers = await asyncio.gather(*waiting)
        assert [answer["state"]["value"] for answer in answers] == list(range(6))
        with pytest.raises(AgentCrashed):
            await crash

    Stage(agent("a"), backoff_base=5.0).play(scene)


def dynamic(name: str = "pool", **config: Any) -> DynamicPlan:
    return DynamicPlan(name=name, config=DynamicConfig(**config))


def test_an_agent_spawns_others_into_the_nearest_dynamic_supervisor() -> None:
    """Beside it, or beside a supervisor above it; `into` names another one."""

    async def scene(system: ActorSystem) -> None:
        await ask(system, "a", spawn="x", greeting="hey")
        await ask(system, "a", spawn="y", into="far")
        await ask(system, "x", spawn="z")
        assert (await ask(system, "x"))["greeting"] == "hey"
        places = {one.name: one.path for one in system.describe()}
        assert (places["x"], places["y"], places["z"]) == ("root/pool", "root/far", "root/pool")

    stage = Stage(supervisor("sub", agent("a")), dynamic(), dynamic("far")).play(scene)
    assert stage.names(ActorStopped) == ["y", "far", "z", "x", "pool", "a", "sub", "root"]


@bundle(
    ("config", "spawns", "error"),
    [
        ({}, [{"name": "a"}], "there is a node of that name already"),
        ({}, [{"name": "root"}], "there is a node of that name already"),
        ({}, [{"name": "x"}, {"name": "x"}], "there is a node of that name already"),
        ({}, [{"name": "x", "into": "sub"}], "'sub' is not a dynamic_supervisor"),
        ({}, [{"name": "x", "type": "myapp.Worker"}], "type 'myapp.Worker' is not in the allow list of 'pool'"),
        ({"max_children": 1}, [{"name": "x"}, {"name": "y"}], "'pool' has 1 children, its max_children"),
        ({"max_total_spawns": 1}, [{"name": "x"}, {"name": "y"}], "'pool' has spawned 1, its max_total_spawns"),
    ],
)
def test_a_spawn_that_is_not_possible_is_refused(
    config: dict[str, Any], spawns: list[dict[str, Any]], error: str
) -> None:
    """With the reason; nothing was started."""

    async def scene(system: ActorSystem) -> None:
        for spawn in spawns[:-1]:
            await ask(system, "a", spawn=spawn["name"])
        before = len(system.describe())
        rest = {key: value for key, value in spawns[-1].items() if key != "name"}
        with pytest.raises(AgentCrashed, match=error):
            await ask(system, "a", spawn=spawns[-1]["name"], **rest)
        assert len(system.describe()) == before

    Stage(agent("a"), supervisor("sub", agent("b")), dynamic(**config)).play(scene)


def test_a_type_by_name_must_be_allowed_or_registered() -> None:
    """A message from elsewhere never chooses an import."""

    async def scene(system: ActorSystem) -> None:
        await ask(system, "a", spawn="x", type="Worker")
        await ask(system, "a", spawn="y", type=f"{__name__}.Worker")
        assert {one.name for one in system.describe()} >= {"x", "y"}

    Stage(agent("a"), dynamic(allow=(f"{__name__}.Worker",))).play(scene)


def test_a_place_is_free_again_when_a_spawned_agent_has_ended() -> None:
    """And the name; the one that spawned it is notified of every final end."""

    async def scene(system: ActorSystem) -> None:
        for name in ("x", "y", "z"):
            await ask(system, "a", spawn=name)
            if name == "x":
                await ask(system, "x", exit=True)
            elif name == "y":
                await ask(system, "a", despawn="y")
            else:
                with pytest.raises(AgentCrashed):
                    await ask(system, "z", crash="boom")  # it is restarted: no end
            await asyncio.sleep(0.5)
            assert ("z" in {one.name for one in system.describe()}) == (name == "z")
        await ask(system, "a", despawn="z")
        await ask(system, "a", spawn="x")
        assert await ask(system, "a", ended=True) == [
            ("x", "clean_exit"),
            ("y", "despawned"),
            ("z", "despawned"),
        ]

    Stage(agent("a"), dynamic(max_children=1)).play(scene)


def test_a_spawned_agent_that_never_starts_leaves_nothing() -> None:
    """The error of `on_start` is that of the spawn, and its name is free."""

    async def scene(system: ActorSystem) -> None:
        for _ in range(2):
            with pytest.raises(AgentCrashed, match="OSError: no port"):
                await ask(system, "a", spawn="x", type="Failing")
        assert "x" not in {one.name for one in system.describe()}
        with pytest.raises((NoSuchAgent, AgentStopped)):
            await ask(system, "x")

    Stage(agent("a"), dynamic(max_total_spawns=1)).play(scene)


def test_a_dynamic_supervisor_that_gives_up_comes_back_empty() -> None:
    """Its limit is that of any supervisor; the spawner learns of every end."""

    async def scene(system: ActorSystem) -> None:
        await ask(system, "a", spawn="x")
        await ask(system, "a", spawn="y")
        for _ in range(4):
            await system.send("x", {"crash": "boom"})
        await asyncio.sleep(30)
        assert [one.name for one in system.describe() if one.path == "root/pool"] == []
        assert await ask(system, "a", ended=True) == [("y", "shutdown"), ("x", "restarts_exhausted")]
        await ask(system, "a", spawn="x")

    Stage(agent("a"), dynamic()).play(scene)


def test_only_spawned_agents_can_be_despawned() -> None:
    """And none stops itself this way."""

    async def scene(system: ActorSystem) -> None:
        with pytest.raises(AgentCrashed, match="'b' was not spawned"):
            await ask(system, "a", despawn="b")
        with pytest.raises(AgentCrashed, match="there is no agent 'x'"):
            await ask(system, "a", despawn="x")
        await system.tree.stop_agent("b")
        with pytest.raises(AgentStopped):
            await ask(system, "b")
        await ask(system, "a", spawn="x")
        with pytest.raises(AgentCrashed, match="cannot stop itself"):
            await ask(system, "x", despawn="x")

    Stage(agent("a"), agent("b"), dynamic()).play(scene)


def test_a_spawn_during_on_start_into_the_own_supervisor_is_refused_at_once() -> None:
    """The supervisor waits for that start; waiting for the supervisor would never end."""

    class Parent(AgentProcess):
        async def on_start(self) -> None:
            await self.spawn(Worker, "child")

    async def scene(system: ActorSystem) -> None:
        with pytest.raises(SpawnError, match="waits for 'p' to start"):
            await system.tree.spawn("a", Parent, "p")

    Stage(agent("a"), dynamic()).play(scene)


def test_a_system_says_how_its_nodes_are() -> None:
    """In the order of the tree, as plain data."""

    async def scene(system: ActorSystem) -> None:
        with pytest.raises(AgentCrashed):
            await ask(system, "a", crash="boom")
        await ask(system, "a")
        shown = {one.name: one for one in system.describe()}
        assert list(shown) == ["root", "a", "sub", "b"]
        assert (shown["a"].restarts, shown["a"].error) == (1, "'a' crashed: ValueError: boom")
        assert shown["a"].type.endswith("test_actor_system.Worker")
        assert [one.kind for one in shown.values()] == ["supervisor", "agent", "supervisor", "agent"]
        assert {one.state for one in shown.values()} == {"running"}

    Stage(agent("a"), supervisor("sub", agent("b"))).play(scene)


@bundle(
    ("child", "error", "match"),
    [
        (agent("a"), CannotStart, "two nodes are named 'a'"),
        (agent("root"), CannotStart, "two nodes are named 'root'"),
        (agent("b", type="Nobody"), ClassNotFound, "'Nobody': a name without a dot must be given in agent_classes"),
        (agent("b", type="no.such.Class"), ClassNotFound, "importing 'no.such' failed: ModuleNotFoundError"),
        (agent("b", type=f"{__name__}.Workr"), ClassNotFound, "has no class 'Workr'; did you mean 'Worker'?"),
        (agent("b", type=f"{__name__}.Stage"), CannotStart, "is not an AgentProcess"),
        (TurnActorPlan(name="review", runs="flow"), CannotStart, "child 'review' .flow. needs a run"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_before_anything_starts(
    child: ChildPlan, error: type[Exception], match: str
) -> None:
    """When the system is made."""
    with pytest.raises(error, match=match):
        Stage(agent("a"), child)


def test_a_child_that_answers_with_turns_is_made_by_its_host() -> None:
    """One actor for each incarnation."""
    plan = SystemPlan(root=supervisor("root", TurnActorPlan(name="review", runs="flow")))
    clock = VirtualClock()
    records: list[Record] = []
    system = ActorSystem(
        plan, SystemPorts(clock=clock, sink=records.append, turn_actor=lambda turn: Worker(turn.name, turn.runs))
    )

    async def main() -> None:
        await system.start()
        assert (await ask(system, "review"))["greeting"] == "flow"
        assert [one.kind for one in system.describe()] == ["supervisor", "flow"]
        await system.stop()

    clock.run(main())
    assert [one.kind for one in records if isinstance(one, ActorStarted)] == ["flow", "supervisor"]


def test_the_certificates_of_a_gateway_lie_in_the_folder_of_its_system(tmp_path: Path) -> None:
    """Wherever the process was started."""
    config = GatewayConfig(port=0, tls_cert="no.pem", tls_key="no.pem")
    plan = SystemPlan(root=supervisor("root", GatewayPlan(name="door", config=config)))

    async def main() -> None:
        with pytest.raises(CannotStart, match=re.escape(str(tmp_path / "no.pem"))):
            await ActorSystem(plan, SystemPorts(folder=str(tmp_path))).start()

    asyncio.run(main())
