"""Supervision trees declared in Python, and their plans: like a `topology.yaml`, but with instances of agents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, get_args

import msgspec

from coterie.agents.actors.classes import arguments, class_path
from coterie.agents.actors.evaluation import EvalAgent
from coterie.agents.actors.process import AgentProcess, check_made
from coterie.errors import CannotStart
from coterie.team.planning.system import ChildPlan, SupervisorPlan

Factory = Callable[[], AgentProcess]


@dataclass(frozen=True, eq=False)
class Supervisor:
    """A supervisor and its children, in start order.

        Supervisor("root", strategy="ONE_FOR_ALL", children=[Writer("writer"), Supervisor("pool", children=[…])])

    Args:
        strategy: `ONE_FOR_ONE`, `ONE_FOR_ALL` or `REST_FOR_ONE`; case does not matter.
        max_restarts: Restarts allowed within *restart_window* seconds; one more fails the supervisor.
        backoff: `CONSTANT`, `LINEAR` or `EXPONENTIAL`; the first restart waits *backoff_base* seconds, none longer than
            *backoff_max*.
        backoff_jitter: The largest share of a delay, from 0 to 1, that is added at random.
        restart: Its restart type as a child: `permanent`, `transient` or `temporary`.
        shutdown: Seconds it may take to stop; None: unlimited.
        children: Instances of agents, `AgentNode`s, and further nodes.
    """

    name: str
    _: KW_ONLY
    strategy: str = "ONE_FOR_ONE"
    max_restarts: int = 3
    restart_window: float = 60.0
    backoff: str = "CONSTANT"
    backoff_base: float = 1.0
    backoff_max: float = 60.0
    backoff_jitter: float = 0.0
    restart: str = "permanent"
    shutdown: float | None = None
    children: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class DynamicSupervisor:
    """A supervisor that starts empty and whose children are spawned by agents; always ONE_FOR_ONE.

    Args:
        max_children: The largest number of living children; None: unlimited.
        max_total_spawns: The largest number of children over its lifetime; None: unlimited.
        allow: Dotted paths of classes that may be spawned by name.
    """

    name: str
    _: KW_ONLY
    max_children: int | None = None
    max_total_spawns: int | None = None
    allow: Sequence[str] = ()
    restart: str = "permanent"
    shutdown: float | None = None


@dataclass(frozen=True, eq=False)
class HTTPGateway:
    """An HTTP gateway to the agents; its arguments are the fields of `http_gateway` in `topology.yaml`."""

    name: str
    _: KW_ONLY
    host: str | None = None
    port: int = 8080
    port_quic: int | None = None
    tls_cert: str = ""
    tls_key: str = ""
    request_timeout: float = 30.0
    enable_http3: bool = False
    routes: Sequence[Mapping[str, Any]] = ()
    middleware: Sequence[str] = ()
    docs: Mapping[str, Any] | None = None
    auth: str | Mapping[str, Any] | None = None
    max_body: int = 1_048_576
    max_requests: int = 1000
    restart: str = "permanent"
    shutdown: float | None = 5.0


@dataclass(frozen=True, eq=False)
class TopologyServer:
    """An HTTP endpoint that shows the running system.

    Args:
        token_env: The environment variable with the bearer token; required on a host other than loopback.
    """

    name: str
    _: KW_ONLY
    host: str = "127.0.0.1"
    port: int = 6789
    token_env: str = ""
    restart: str = "permanent"
    shutdown: float | None = 5.0


@dataclass(frozen=True, eq=False)
class AgentNode:
    """An agent with the settings that a `topology.yaml` can give it beside its class.

        AgentNode(Searcher("searcher"), restart="transient", shutdown=30.0)

    Args:
        agent: The first incarnation; later ones are built from its class and the arguments of its constructor.
        restart: `permanent`, `transient` (after a failure) or `temporary` (never).
        shutdown: Seconds it may take to stop before it is cancelled; None: unlimited.
        process: The name of its worker process.
    """

    agent: AgentProcess
    _: KW_ONLY
    restart: str = "permanent"
    shutdown: float | None = 5.0
    process: str = ""


Declared = Supervisor | DynamicSupervisor | HTTPGateway | TopologyServer | AgentNode | AgentProcess

_KINDS: dict[type, str] = {DynamicSupervisor: "dynamic", HTTPGateway: "gateway", TopologyServer: "topology_server"}
_PLANS: dict[Any, type[Any]] = {plan.__struct_config__.tag: plan for plan in get_args(ChildPlan)}
_OF_NODES = ("name", "restart", "shutdown")
_OF_AGENTS = ("mailbox_size", "handle_timeout")


def plan_of(root: Supervisor) -> tuple[SupervisorPlan, dict[str, Factory]]:
    """The plan of a tree, and the factories of its agents, by name.

    Raises:
        CannotStart: If a value is not allowed, with its place.
    """
    if not isinstance(root, Supervisor):
        raise CannotStart(f"the root must be a Supervisor, not {type(root).__name__}")
    plain = _plain(root, root.name)
    try:
        plan = msgspec.convert(plain, SupervisorPlan)
    except msgspec.ValidationError as error:
        faults = list(_faults(plain, "")) or [f"the tree of supervisor {root.name!r} is wrong: {error}"]
        raise CannotStart("\n".join(faults)) from None
    return plan, {node.agent.name: _incarnations(node.agent) for node in _agents(root)}


def _faults(values: Mapping[str, Any], path: str) -> Iterator[str]:
    """The invalid values of a node and of the nodes below it, each with the path of its node."""
    from coterie.team.formats.yaml.system.typed import value_faults  # most trees have none

    plan = _PLANS[values["kind"]]
    here = f"{path}/{values['name']}" if path else str(values["name"])
    own = {name: value for name, value in values.items() if name not in ("kind", "children")}
    title = {"dynamic": "dynamic supervisor", "eval": "eval agent"}.get(values["kind"], values["kind"])
    yield from value_faults(own, plan, f"{title.replace('_', ' ')} {here!r}")
    for child in values.get("children", ()):
        yield from _faults(child, here)


def _plain(node: object, parent: str) -> dict[str, Any]:
    """Convert *node* to the data from which its plan is read, so that one schema serves Python and YAML."""
    if isinstance(node, AgentProcess):
        node = AgentNode(node)
    match node:
        case Supervisor():
            if not isinstance(node.children, Iterable):
                what = f"'children' of supervisor {node.name!r} is a {type(node.children).__name__}"
                raise CannotStart(f"{what}, not a list; write children=[…]")
            values = _values(node)
            for name in ("strategy", "backoff"):
                values[name] = str(values[name]).upper()
            return {**values, "kind": "supervisor", "children": [_plain(child, node.name) for child in node.children]}
        case DynamicSupervisor() | HTTPGateway() | TopologyServer():
            values = _values(node)
            own = {name: values.pop(name) for name in _OF_NODES}
            return {**own, "kind": _KINDS[type(node)], "config": _config(values)}
        case AgentNode():
            return _plain_agent(node)
        case _:
            if isinstance(node, type):
                hint = f"write {node.__name__}({node.__name__.lower()!r})"
                raise CannotStart(f"a child of {parent!r} is the class {node.__name__}: {hint}")
            raise CannotStart(f"a child of {parent!r} is a {type(node).__name__}: give an agent or a supervisor")


def _values(node: Any) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def _config(values: dict[str, Any]) -> dict[str, Any]:
    if values.get("docs", ...) is None:
        del values["docs"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _plain_agent(node: AgentNode) -> dict[str, Any]:
    agent = node.agent
    if not isinstance(agent, AgentProcess):
        raise CannotStart(f"an AgentNode holds an instance of an AgentProcess, not {agent!r}")
    values = {name: value for name, value in _values(node).items() if name != "agent"}
    if isinstance(agent, EvalAgent):
        return _plain_eval(agent, values)
    check_made(agent)
    given = arguments(agent)
    given.pop("name", None)
    values |= {name: given.pop(name) for name in _OF_AGENTS if given.get(name) is not None}
    return {**values, "kind": "agent", "name": agent.name, "type": class_path(type(agent)), "config": given}


def _plain_eval(agent: EvalAgent, values: dict[str, Any]) -> dict[str, Any]:
    if values.pop("process"):
        raise CannotStart(f"eval agent {agent.name!r} cannot be given a process")
    return {
        **values,
        "kind": "eval",
        "name": agent.name,
        "max_corrections_per_window": agent.max_corrections_per_window,
        "window_seconds": agent.window_seconds,
        "class": "" if type(agent) is EvalAgent else class_path(type(agent)),
    }


def _agents(node: Supervisor) -> Iterator[AgentNode]:
    for child in node.children:
        if isinstance(child, Supervisor):
            yield from _agents(child)
        elif isinstance(child, AgentNode | AgentProcess):
            yield child if isinstance(child, AgentNode) else AgentNode(child)


def _incarnations(agent: AgentProcess) -> Factory:
    """A factory that returns the given instance first, then new ones from the same arguments."""
    args, kwargs = agent.constructed_with
    first = [agent]

    def build() -> AgentProcess:
        if first and first.pop()._bound is None:  # else another runtime has started it
            return agent
        return type(agent)(*args, **kwargs)

    return build
