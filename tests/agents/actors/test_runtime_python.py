"""The Python form of a system: plans, instances as first incarnations, and the runtime."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bundles import bundle

import coterie
from coterie import (
    AgentNode,
    AnthropicProvider,
    DynamicSupervisor,
    EvalAgent,
    HTTPGateway,
    InMemoryStateStore,
    Message,
    Runtime,
    SQLiteStateStore,
    Supervisor,
    TopologyServer,
)
from coterie.agents.actors.classes import arguments
from coterie.agents.actors.plugins.console import ConsoleExporter
from coterie.agents.actors.process import AgentProcess
from coterie.base.clock import VirtualClock
from coterie.errors import AgentCrashed, AgentStopped, CannotStart, ClassNotFound
from coterie.team.planning.system import (
    ActorPlan,
    DynamicPlan,
    GatewayPlan,
    SupervisorPlan,
    TopologyServerPlan,
)
from coterie.team.topology.system.fields import (
    DynamicConfig,
    GatewayConfig,
    NodeFields,
    RouteFields,
    TopologyServerConfig,
)

HERE = __name__


class Greeter(AgentProcess):
    """Greets; counts in memory only."""

    def __init__(self, name: str, greeting: str = "hello", *, loud: bool = False, **options: Any) -> None:
        super().__init__(name, **options)
        self.greeting = greeting.upper() if loud else greeting
        self.count = 0

    async def handle(self, message: Message) -> Message | None:
        if message.payload.get("crash"):
            raise ValueError("boom")
        self.count += 1
        return self.reply({"greeting": self.greeting, "count": self.count})


def root(*children: Any, **fields: Any) -> Supervisor:
    return Supervisor("root", backoff_base=0.0, children=children, **fields)


def look_up(word: str) -> str:
    """A tool."""
    return word


PAGE = f"""
transport:
  type: nats
  servers: "nats://localhost:4222"

plugins:
  models:
    - type: anthropic
      config:
        default_model: claude-sonnet-4-6
  tools:
    - type: {HERE}.look_up
  exporters:
    - type: console
  state:
    type: sqlite
    config:
      db_path: state.db

supervision:
  name: root
  strategy: ONE_FOR_ONE
  max_restarts: 3
  children:
    - supervisor:
        name: research_sup
        strategy: ONE_FOR_ONE
        max_restarts: 5
        backoff: EXPONENTIAL
        backoff_base: 0.5
        children:
          - agent:
              name: researcher
              type: {HERE}.Greeter
    - agent: {{ name: orchestrator, type: {HERE}.Greeter }}
    - agent: {{ name: summarizer,   type: {HERE}.Greeter, config: {{ greeting: hi, loud: true }} }}
    - {{ name: monitor, type: eval_agent, max_corrections_per_window: 3 }}
"""


def test_the_example_of_the_page_has_the_plan_of_its_yaml(tmp_path: Path) -> None:
    """Every keyword of the page, nested supervisors, agents with arguments, and instances of plugins."""
    runtime = Runtime(
        supervisor=Supervisor(
            "root",
            strategy="ONE_FOR_ONE",
            max_restarts=3,
            children=[
                Supervisor(
                    "research_sup",
                    strategy="one_for_one",
                    max_restarts=5,
                    backoff="exponential",
                    backoff_base=0.5,
                    children=[Greeter("researcher")],
                ),
                Greeter("orchestrator"),
                Greeter("summarizer", "hi", loud=True),
                EvalAgent("monitor", max_corrections_per_window=3),
            ],
        ),
        transport="nats",
        nats_servers="nats://localhost:4222",
        model_provider=AnthropicProvider(default_model="claude-sonnet-4-6"),
        tools=[look_up],
        exporters=[ConsoleExporter()],
        state_store=SQLiteStateStore("state.db"),
    )
    file = tmp_path / "topology.yaml"
    file.write_text(PAGE, encoding="utf-8")

    assert runtime.plan == Runtime.from_config(file).plan
    assert runtime.plan.root.children[2] == ActorPlan(
        name="summarizer", type=f"{HERE}.Greeter", config={"greeting": "hi", "loud": True}
    )


def test_a_file_runs_with_short_names_of_classes(tmp_path: Path) -> None:
    """`agent_classes` gives the classes; without it, a short name is an error at the start."""
    file = tmp_path / "topology.yaml"
    file.write_text(
        "supervision:\n  name: root\n  children:\n    - agent: { name: a, type: Greeter, config: { greeting: hi } }\n",
        encoding="utf-8",
    )

    async def main() -> None:
        async with Runtime.from_config(file, agent_classes={"Greeter": Greeter}) as runtime:
            assert (await runtime.ask("a", {})).payload["greeting"] == "hi"
        with pytest.raises(ClassNotFound, match="'Greeter': a name without a dot must be given in agent_classes"):
            await Runtime.from_config(file).start()

    VirtualClock().run(main())


def test_a_wrong_file_is_refused_with_its_diagnostics(tmp_path: Path) -> None:
    """As by `coterie topology validate`."""
    file = tmp_path / "topology.yaml"
    file.write_text("supervision:\n  name: root\n  childrn: []\n", encoding="utf-8")

    with pytest.raises(coterie.TopologyError, match="childrn"):
        Runtime.from_config(file)


def test_instances_of_plugins_are_what_agents_use() -> None:
    """The store that was given has the checkpoint."""
    store = InMemoryStateStore()

    class Keeper(AgentProcess):
        async def on_start(self) -> None:
            self.state["runs"] = self.state.get("runs", 0) + 1
            await self.checkpoint()

    async def main() -> None:
        for _ in range(2):
            async with Runtime(root(Keeper("k")), state_store=store):
                pass
        assert await store.get("k") == {"runs": 2}

    VirtualClock().run(main())


def test_every_kind_of_node_has_a_class_and_the_defaults_of_the_file() -> None:
    """The schema of the file is the one place of defaults."""
    children = [DynamicSupervisor("d"), HTTPGateway("g"), TopologyServer("t"), Greeter("a")]
    assert Runtime(Supervisor("root", children=children)).plan.root == SupervisorPlan(
        name="root",
        children=(
            DynamicPlan(name="d"),
            GatewayPlan(name="g"),
            TopologyServerPlan(name="t"),
            ActorPlan(name="a", type=f"{HERE}.Greeter"),
        ),
    )


@pytest.mark.parametrize(
    ("declared", "schema"),
    [
        (Supervisor, [SupervisorPlan]),
        (DynamicSupervisor, [NodeFields, DynamicConfig]),
        (HTTPGateway, [NodeFields, GatewayConfig]),
        (TopologyServer, [NodeFields, TopologyServerConfig]),
    ],
)
def test_a_class_has_the_fields_of_the_file(declared: Any, schema: list[Any]) -> None:
    """With the same names and the same defaults."""
    wanted = {field.name: field.default for part in schema for field in msgspec.structs.fields(part)}
    given = {field.name: field.default for field in dataclasses.fields(declared)}

    assert set(given) == set(wanted)
    for name in given.keys() - {"name", "children", "docs", "shutdown"}:
        assert given[name] == wanted[name], name


def test_every_field_of_a_node_can_be_given() -> None:
    """In Python as in the file."""
    plan = Runtime(
        Supervisor(
            "root",
            backoff_jitter=0.5,
            children=[
                DynamicSupervisor("d", max_children=2, max_total_spawns=3, allow=["a.B"], restart="transient"),
                HTTPGateway("g", port=1, routes=[{"path": "/x", "agent": "a", "method": "GET"}]),
                TopologyServer("t", port=2, token_env="T", shutdown=None),
                AgentNode(Greeter("a", mailbox_size=7, handle_timeout=2), restart="temporary", shutdown=1, process="w"),
            ],
        )
    ).plan.root
    assert plan.backoff_jitter == 0.5
    assert plan.children == (
        DynamicPlan(
            name="d",
            restart="transient",
            config=DynamicConfig(max_children=2, max_total_spawns=3, allow=("a.B",)),
        ),
        GatewayPlan(name="g", config=GatewayConfig(port=1, routes=(RouteFields(path="/x", agent="a", method="GET"),))),
        TopologyServerPlan(name="t", shutdown=None, config=TopologyServerConfig(port=2, token_env="T")),
        ActorPlan(
            name="a",
            type=f"{HERE}.Greeter",
            restart="temporary",
            shutdown=1.0,
            process="w",
            mailbox_size=7,
            handle_timeout=2.0,
        ),
    )


@bundle(
    ("supervisor", "match"),
    [
        (
            Supervisor("root", strategy="ALL"),
            "^'strategy' of supervisor 'root' must be one of ONE_FOR_ALL, ONE_FOR_ONE, REST_FOR_ONE, not 'ALL'",
        ),
        (
            Supervisor("root", children=[Supervisor("x", max_restarts=-1)]),
            "^'max_restarts' of supervisor 'root/x' must be a whole number from 0, not -1$",
        ),
        (
            Supervisor("root", children=[Supervisor("x", children=[Greeter("a b")])]),
            "^'name' of agent 'root/x/a b' must be a name without spaces and signs, not 'a b'; write letters",
        ),
        (
            Supervisor("root", children=[DynamicSupervisor("d", max_children=0)]),
            "^'max_children' of 'config' of dynamic supervisor 'root/d' must be a whole number from 1, not 0$",
        ),
        (Supervisor("root", children=[Greeter]), "a child of 'root' is the class "),
        (Supervisor("root", children=[AgentNode("greeter")]), "holds an instance of an AgentProcess"),  # type: ignore[arg-type]
        (Greeter("root"), "the root must be a Supervisor, not Greeter"),
    ],
)
def test_a_wrong_value_is_refused_when_it_is_given(supervisor: Any, match: str) -> None:
    """With its place in the tree."""
    with pytest.raises(CannotStart, match=match):
        Runtime(supervisor)


def test_a_wrong_transport_is_refused() -> None:
    """By the schema of the file."""
    wanted = "'type' of the transport must be one of in_process, nats, zmq, not 'carrier pigeon'"
    with pytest.raises(CannotStart, match=wanted):
        Runtime(root(Greeter("a")), transport="carrier pigeon")


def test_an_instance_is_the_first_incarnation_and_later_ones_are_built_from_its_arguments() -> None:
    """What was set on the instance is gone; what its constructor was given is not."""
    greeter = Greeter("a", "hi", loud=True)
    greeter.count = 10

    async def main() -> None:
        async with Runtime(root(greeter)) as runtime:
            assert (await runtime.ask("a", {})).payload == {"greeting": "HI", "count": 11}
            with pytest.raises(AgentCrashed):
                await runtime.ask("a", {"crash": True})
            assert (await runtime.ask("a", {})).payload == {"greeting": "HI", "count": 1}

    VirtualClock().run(main())


class Passing(Greeter):
    """Passes all on, as many subclasses do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def test_an_agent_that_passes_its_arguments_on_can_be_declared() -> None:
    """The base class names them, for the plan and for workers; those that none names are an error."""

    class Swallowing(AgentProcess):
        def __init__(self, name: str, *numbers: int) -> None:
            super().__init__(name)

    async def main() -> None:
        async with Runtime(root(Passing("a", "hi", loud=True))) as runtime:
            assert (await runtime.ask("a", {})).payload["greeting"] == "HI"
            with pytest.raises(AgentCrashed):
                await runtime.ask("a", {"crash": True})
            assert (await runtime.ask("a", {})).payload["greeting"] == "HI"

    VirtualClock().run(main())
    assert arguments(Passing("a", "hi", loud=True)) == {"name": "a", "greeting": "hi", "loud": True}
    with pytest.raises(TypeError, match="arguments without names"):
        Runtime(root(Swallowing("a", 1)))


def test_a_runtime_can_be_started_again() -> None:
    """With new instances; while it is stopped, its agents answer nothing."""

    async def main() -> None:
        runtime = Runtime(root(Greeter("a")))
        with pytest.raises(AgentStopped, match="the runtime is not started"):
            await runtime.ask("a", {})
        for _ in range(2):
            await runtime.start()
            with pytest.raises(CannotStart, match="started already"):
                await runtime.start()
            assert (await runtime.ask("a", {})).payload["count"] == 1
            await runtime.stop()
        await runtime.stop()

    VirtualClock().run(main())


def test_two_runtimes_of_one_tree_share_no_instance() -> None:
    """What the first one did to an instance is not seen by the second."""
    tree = root(Greeter("a"))

    async def main() -> None:
        async with Runtime(tree) as one, Runtime(tree) as two:
            for runtime in (one, two):
                assert (await runtime.ask("a", {})).payload["count"] == 1

    VirtualClock().run(main())


def test_a_runtime_stops_when_its_root_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    """The causes are returned and logged; asks fail at once."""

    async def main() -> None:
        runtime = Runtime(root(Greeter("a"), Greeter("b"), max_restarts=0))
        await runtime.start()
        await runtime.send("a", {"crash": True})
        assert (await runtime.gave_up()).splitlines()[-1] == "'a' crashed: ValueError: boom"
        await asyncio.sleep(1)
        with pytest.raises(AgentStopped):
            await runtime.ask("b", {})
        await runtime.stop()

    VirtualClock().run(main())
    texts = [one.getMessage() for one in caplog.records if one.name == "coterie"]
    assert any(text.startswith("agent 'a' crashed: ValueError: boom\n") for text in texts)
    assert any("supervisor 'root' gave up" in text for text in texts)


def test_names_must_differ_in_the_whole_tree() -> None:
    """Nothing starts otherwise."""
    runtime = Runtime(root(Greeter("a"), Supervisor("sub", children=[Greeter("a")])))

    with pytest.raises(CannotStart, match="two nodes are named 'a'"):
        VirtualClock().run(runtime.start())


def test_print_tree_shows_strategies_types_and_what_was_spawned(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the start what is declared, then what runs."""

    async def main() -> None:
        runtime = Runtime(
            root(Supervisor("sub", strategy="one_for_all", children=[Greeter("a")]), DynamicSupervisor("pool"))
        )
        runtime.print_tree()
        async with runtime:
            await runtime.spawn(Greeter, "x", greeting="hey")
            assert (await runtime.ask("x", {})).payload["greeting"] == "hey"
            await runtime.stop_agent("a")
            runtime.print_tree()

    VirtualClock().run(main())
    assert capsys.readouterr().out.splitlines() == [
        "root  ONE_FOR_ONE",
        "├── sub  ONE_FOR_ALL",
        f"│   └── a  {HERE}.Greeter",
        "└── pool  (dynamic_supervisor)",
        "root  ONE_FOR_ONE",
        "├── sub  ONE_FOR_ALL",
        f"│   └── a  {HERE}.Greeter  [stopped]",
        "└── pool  (dynamic_supervisor)",
        f"    └── x  {HERE}.Greeter",
    ]


@bundle("name", ["Runtime", "Supervisor", "AgentProcess", "GenServer", "ErrorAction", "Message"])
def test_the_names_of_the_page_come_from_coterie(name: str) -> None:
    """Users import from `coterie`."""
    assert name in coterie.__all__


def test_a_file_without_a_supervised_system_is_refused(tmp_path: Path) -> None:
    """With the command that runs it."""
    file = tmp_path / "x.at"
    file.write_text('topology x : [pipeline] {\n  agent a { model: "m" role { hi } }\n  flow { a }\n}\n')

    with pytest.raises(coterie.CoterieError):
        Runtime.from_config(file)
