"""Trees declared in Python, written as YAML and read again, have the same plan."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie import (
    AgentNode,
    AgentProcess,
    AnthropicProvider,
    DynamicSupervisor,
    EvalAgent,
    HTTPGateway,
    InMemoryStateStore,
    OpenAIProvider,
    Runtime,
    SQLiteStateStore,
    Supervisor,
    TopologyServer,
)
from coterie.agents.actors.plugins.console import ConsoleExporter
from coterie.team.formats.yaml.system.writer import to_yaml
from coterie.team.planning.systems import as_system


class Anything(AgentProcess):
    """Takes any arguments."""

    def __init__(self, name: str, **config: Any) -> None:
        known = {key: config.pop(key) for key in ("mailbox_size", "handle_timeout") if key in config}
        super().__init__(name, **known)


class Judge(EvalAgent):
    """An eval agent of a user."""


SECONDS = st.floats(0, 1e6, allow_subnormal=False) | st.integers(0, 1000)
DURATIONS = st.floats(0.001, 1e6) | st.integers(1, 1000)
RESTARTS = st.sampled_from(["permanent", "transient", "temporary"])
SHUTDOWNS = st.none() | SECONDS
KEYS = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
    lambda key: key not in ("name", "mailbox_size", "handle_timeout", "self", "config")
)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def optional(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the keywords."""
    return st.fixed_dictionaries({}, optional=values)


def agents(name: str) -> st.SearchStrategy[Any]:
    given = st.builds(
        lambda config, own: Anything(name, **config, **own),
        st.dictionaries(KEYS, VALUES, max_size=3),
        optional(mailbox_size=st.integers(1, 5000), handle_timeout=DURATIONS),
    )
    node = st.builds(
        lambda agent, fields: AgentNode(agent, **fields), given, optional(restart=RESTARTS, shutdown=SHUTDOWNS)
    )
    return given | node


def leaves(name: str) -> st.SearchStrategy[Any]:
    common = {"restart": RESTARTS, "shutdown": SHUTDOWNS}
    count = st.none() | st.integers(1, 100)
    dynamic = optional(
        max_children=count, max_total_spawns=count, allow=st.lists(st.just("myapp.Worker"), max_size=1), **common
    )
    gateway = optional(
        port=st.integers(1, 65535),
        request_timeout=DURATIONS,
        middleware=st.lists(st.just("myapp.middleware.check"), max_size=1),
        docs=optional(enabled=st.booleans(), path=st.just("/help")),
        auth=st.sampled_from([None, "none", {"token_env": "TOKEN"}]),
        **common,
    )
    server = optional(port=st.integers(1, 65535), token_env=st.sampled_from(["", "TOKEN"]), **common)
    evals = optional(max_corrections_per_window=st.integers(0, 50), window_seconds=DURATIONS)
    return st.one_of(
        agents(name),
        dynamic.map(lambda fields: DynamicSupervisor(name, **fields)),
        gateway.map(lambda fields: HTTPGateway(name, **fields)),
        server.map(lambda fields: TopologyServer(name, **fields)),
        evals.map(lambda fields: EvalAgent(name, **fields)),
        st.builds(lambda fields, own: AgentNode(Judge(name, **fields), **own), evals, optional(restart=RESTARTS)),
    )


@st.composite
def supervisors(draw: st.DrawFn, name: str = "root", level: int = 0) -> Supervisor:
    fields = draw(
        optional(
            strategy=st.sampled_from(["ONE_FOR_ONE", "one_for_all", "Rest_For_One"]),
            max_restarts=st.integers(0, 100),
            restart_window=DURATIONS,
            backoff=st.sampled_from(["CONSTANT", "linear", "Exponential"]),
            backoff_base=SECONDS,
            backoff_max=SECONDS,
            backoff_jitter=st.floats(0, 1),
            **({"restart": RESTARTS, "shutdown": SHUTDOWNS} if level else {}),
        )
    )
    children = [
        draw(supervisors(f"{name}_{number}", level + 1) if deeper else leaves(f"{name}_{number}"))
        for number, deeper in enumerate(
            draw(st.lists(st.booleans() if level < 2 else st.just(False), min_size=1, max_size=4))
        )
    ]
    return Supervisor(name, **fields, children=children)


SYSTEMS = optional(
    transport=st.sampled_from(["in_process", "nats", "zmq"]),
    nats_servers=st.sampled_from(["nats://a:4222", ["nats://a:4222", "nats://b:4222"]]),
    zmq_start_proxy=st.booleans(),
    heartbeat_timeout=DURATIONS,
    model_provider=st.sampled_from(
        [AnthropicProvider(default_model="m"), [AnthropicProvider(max_retries=1), OpenAIProvider(default_model="n")]]
    ),
    exporters=st.sampled_from([[ConsoleExporter()]]),
    state_store=st.sampled_from([InMemoryStateStore(), SQLiteStateStore("state.db"), SQLiteStateStore(db_path="x.db")]),
)


def survives(root: Supervisor, options: dict[str, Any], tmp_path: Path) -> None:
    """Python → plan → YAML → plan: nothing is lost and nothing is added."""
    runtime = Runtime(root, **options)
    file = tmp_path / "topology.yaml"
    file.write_text(to_yaml(as_system(runtime.plan)), encoding="utf-8")

    assert Runtime.from_config(file).plan == runtime.plan


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(root=supervisors(), options=SYSTEMS)
def test_a_tree_survives_yaml(root: Supervisor, options: dict[str, Any], tmp_path: Path) -> None:
    """Python → plan → YAML → plan: nothing is lost and nothing is added."""
    survives(root, options, tmp_path)


def test_one_tree_survives_yaml(tmp_path: Path) -> None:
    """The same with one of each kind of node."""
    agents = [AgentNode(Anything("a", n=[1, {"b": "ü: #"}]), restart="temporary", shutdown=2.5), EvalAgent("judge")]
    inner = Supervisor("inner", strategy="REST_FOR_ONE", max_restarts=7, backoff_jitter=0.5, children=agents)
    services = [DynamicSupervisor("pool", max_children=3), HTTPGateway("web", port=8080), TopologyServer("api")]
    survives(Supervisor("root", children=[inner, *services]), {"transport": "nats", "heartbeat_timeout": 2}, tmp_path)


def test_an_entry_survives_yaml(tmp_path: Path) -> None:
    """The agent that answers for the system."""
    runtime = Runtime(Supervisor("root", children=[Anything("desk")]), entry="desk")
    file = tmp_path / "topology.yaml"
    file.write_text(to_yaml(as_system(runtime.plan)), encoding="utf-8")

    assert Runtime.from_config(file).plan == runtime.plan
    assert runtime.plan.entry == "desk"


def test_an_argument_that_a_file_cannot_hold_is_an_error_of_the_file() -> None:
    """The system runs in Python all the same."""
    runtime = Runtime(Supervisor("root", children=[Anything("a", thing=object())]))

    with pytest.raises((TypeError, ValueError)):
        to_yaml(as_system(runtime.plan))
