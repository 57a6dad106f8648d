"""The fields of every part of a `topology.yaml`: names, types, ranges and defaults.

The one description of the file: its reader, its JSON Schema, `show`, `diff` and the plan of a system are made from
these classes. Times are in seconds.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

_SIGNS = r"""\s\x00-\x1f\x7f/#@*?[\]{}<>"'`,:;|\\$&!%()=+~^"""
NAME = rf"[^_.\-{_SIGNS}][^{_SIGNS}]{{0,127}}"
Name = Annotated[str, Meta(pattern=f"^{NAME}$")]
"""The name of a node: no spaces, and of other signs only `_`, `-` and `.` inside, since names are addresses."""
Text = Annotated[str, Meta(pattern=r"\S")]
Path = Annotated[str, Meta(pattern=r"^/[^\s{}]*$")]
RoutePath = Annotated[str, Meta(pattern=r"^(?!.*(\{\w+\}).*\1)(/(\{[A-Za-z_]\w*\}|[^\s{}/?#%]*))+$")]
"""A path without repeated parameters, or signs that end a path or escape others, since it is compared decoded."""
FunctionPath = Annotated[str, Meta(pattern=r"^([^\W\d]\w*\.)+[^\W\d]\w*$")]
TurnName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
"""The name of a child that answers with turns; the folders of these turns have its name."""
ProcessName = Annotated[str, Meta(pattern=f"^({NAME})?$")]
ZmqAddress = Annotated[str, Meta(pattern=r"^(tcp://\S+:\d{1,5}|ipc://\S+)$")]
StreamName = Annotated[str, Meta(pattern=r"^[^\s.*>/\\]+$")]
"""A name that NATS accepts, which creates a folder of that name."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Duration = Annotated[float, Meta(gt=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Natural = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Positive = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Port = Annotated[int, Meta(ge=0, le=65535)]

StrategyName = Literal["ONE_FOR_ONE", "ONE_FOR_ALL", "REST_FOR_ONE"]
BackoffName = Literal["CONSTANT", "LINEAR", "EXPONENTIAL"]
RestartType = Literal["permanent", "transient", "temporary"]
TransportName = Literal["in_process", "zmq", "nats"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
Mode = Literal["call", "cast"]
JwtAlgorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

IGNORING_CASE = ("strategy", "backoff")
"""The fields whose values ignore case; they are stored in upper case."""


_SECRET = re.compile(r"(?i)(?!public_key$).*(?:key|token|secret|password|passwd|passphrase|credential)s?")


def is_secret(name: str, value: object) -> bool:
    """Whether *value* of the setting *name* looks like a secret; a number or the name of a variable does not."""
    return _SECRET.fullmatch(name) is not None and isinstance(value, str) and len(value) >= 6


def is_loopback(host: str) -> bool:
    """Whether *host* is a name or an address of this machine that no other machine can reach."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Fields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of all parts."""


class TransportFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """How processes exchange messages.

    Attributes:
        type: `in_process`: all agents run in this process; `zmq` and `nats`: in several.
        pub_addr: ZMQ: the address that processes send to.
        sub_addr: ZMQ: the address that processes receive at.
        start_proxy: ZMQ: the supervisor's process starts the broker.
        servers: NATS: the URLs of the servers.
        jetstream: NATS: messages are durable.
        stream_name: NATS: the name of the JetStream stream.
        connect_timeout: ZMQ and NATS: a broker or server that does not answer for so long at start is an error.
        heartbeat_timeout: ZMQ and NATS: a worker that is silent for so long is lost.
    """

    type: TransportName = "in_process"
    pub_addr: ZmqAddress = "tcp://127.0.0.1:5559"
    sub_addr: ZmqAddress = "tcp://127.0.0.1:5560"
    start_proxy: bool = False
    servers: Text | Annotated[tuple[Text, ...], Meta(min_length=1)] = ("nats://localhost:4222",)
    jetstream: bool = False
    stream_name: StreamName = "AGENCY"

    connect_timeout: Duration = 5.0
    heartbeat_timeout: Duration = 3.0

    def __post_init__(self) -> None:
        """Keep a single URL as a list of one."""
        if isinstance(self.servers, str):
            msgspec.structs.force_setattr(self, "servers", (self.servers,))


class PluginFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """One plugin.

    Attributes:
        type: A built-in name, an entry point, or a dotted path of a class.
        config: The arguments of its constructor.
    """

    type: Text
    config: dict[str, Any] = {}


class PluginsFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The plugins of a system.

    Attributes:
        models: Providers of models, chosen by the name of a model.
        tools: Providers of tools.
        exporters: Receivers of the spans and events of the system.
        state: The store for agents' state; null: in memory.
    """

    models: tuple[PluginFields, ...] = ()
    tools: tuple[PluginFields, ...] = ()
    exporters: tuple[PluginFields, ...] = ()
    state: PluginFields | None = None


class NodeFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The common fields of all nodes of a supervision tree.

    Attributes:
        name: Unique in the whole tree.
        restart: When it is restarted: always (permanent), after a failure (transient), or never (temporary).
        shutdown: Seconds it may take to stop before it is cancelled; null: unlimited.
    """

    name: Name
    restart: RestartType = "permanent"
    shutdown: Seconds | None = 5.0


class SupervisorFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """A supervisor.

    Attributes:
        strategy: Which children are replaced together when one of them fails; ignores case.
        max_restarts: Restarts allowed within one window.
        restart_window: Length of the sliding window.
        backoff: How the delay grows with each restart of a child within the window; ignores case.
        backoff_base: The delay before the first restart.
        backoff_max: The longest delay.
        backoff_jitter: The share of a delay that is added at random, at most.
    """

    strategy: StrategyName = "ONE_FOR_ONE"
    max_restarts: Natural = 3
    restart_window: Duration = 60.0
    backoff: BackoffName = "CONSTANT"
    backoff_base: Seconds = 1.0
    backoff_max: Seconds = 60.0

    backoff_jitter: Share = 0.0
    shutdown: Seconds | None = None


class HostedFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """The common fields of nodes with a mailbox, which may live in a worker.

    Attributes:
        process: The worker process it lives in; empty: the supervisor's.
        mailbox_size: Messages that may wait.
    """

    process: ProcessName = ""
    mailbox_size: Positive = 1000


class AgentFields(HostedFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent in Python.

    Attributes:
        type: The dotted path of its class, or a short name given in Python.
        config: Further arguments of its constructor.
        handle_timeout: Seconds one message may take; null: unlimited.
    """

    type: Text
    config: dict[str, Any] = {}
    handle_timeout: Duration | None = None


class DynamicConfig(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a dynamic supervisor.

    Attributes:
        max_children: Children alive at once; null: unlimited.
        max_total_spawns: Children over its lifetime; null: unlimited.
        allow: Dotted paths of the classes that other processes may spawn.
    """

    max_children: Positive | None = None
    max_total_spawns: Positive | None = None

    allow: tuple[Text, ...] = ()


class DynamicFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """A supervisor whose children are spawned while it runs; ONE_FOR_ONE.

    Attributes:
        config: Its limits.
    """

    config: DynamicConfig = DynamicConfig()
    shutdown: Seconds | None = None


class RouteFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """A route of a gateway.

    Attributes:
        path: The path of the URL; `{param}` segments become entries of the payload.
        agent: The agent that gets the payload.
        method: The HTTP method.
        mode: `call` waits for the reply, `cast` does not.
    """

    path: RoutePath
    agent: Name
    method: Method
    mode: Mode = "call"


class DocsFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The documentation that a gateway serves.

    Attributes:
        enabled: Serve the Swagger UI and `/openapi.json`.
        path: The path of the Swagger UI.
    """

    enabled: bool = True
    path: Path = "/docs"


class JwtFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """Bearer tokens that are JWTs; they must expire.

    Attributes:
        algorithm: The one algorithm that is accepted, whatever a token says.
        secret_env: HS256, HS384, HS512: the environment variable with the secret, of at least 32, 48 or 64 bytes.
        public_key: The others: the PEM file with the public key, relative to this file.
        public_key_env: Instead of *public_key*: the environment variable with the PEM text.
        audience: The `aud` that a token must have; empty: any.
        issuer: The `iss` that a token must have; empty: any.
        leeway: Seconds that clocks may differ.
    """

    algorithm: JwtAlgorithm
    secret_env: str = ""
    public_key: str = ""
    public_key_env: str = ""
    audience: str = ""
    issuer: str = ""
    leeway: Seconds = 0.0

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields of which exactly one must be given."""
        return ("secret_env",) if self.algorithm.startswith("HS") else ("public_key", "public_key_env")


class AuthFields(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The authentication of a gateway's clients: one of the two.

    Attributes:
        token_env: The environment variable with the bearer token.
        jwt: Signed tokens instead.
    """

    token_env: str = ""
    jwt: JwtFields | None = None

    @property
    def fault(self) -> str:
        """The problem with it, in a few words; empty if there is none."""
        if bool(self.token_env) is (self.jwt is not None):
            return "needs either token_env or jwt"
        if self.jwt is None:
            return ""
        keys = ("secret_env", "public_key", "public_key_env")
        given = [name for name in keys if getattr(self.jwt, name)]
        if len(given) != 1 or given[0] not in self.jwt.needs:
            return f"with {self.jwt.algorithm} needs {' or '.join(self.jwt.needs)}, and no other key"
        return ""


class GatewayConfig(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an HTTP gateway.

    Attributes:
        host: The address it binds to; null: every address if it has authentication, else loopback.
        port: HTTP/1.1 and HTTP/2.
        port_quic: HTTP/3, over UDP.
        tls_cert: File of the TLS certificate.
        tls_key: File of the TLS key.
        request_timeout: Seconds until a request fails with 504.
        enable_http3: Serve HTTP/3 too; experimental.
        routes: Empty: the default routes.
        middleware: Dotted paths of middleware, outermost first.
        docs: The documentation that it serves.
        auth: Authentication; `none` permits any host without it.
        max_body: Bytes of the body of a request; above it fails with 413.
        max_requests: Requests in hand at once, streams included; above it they fail with 503.
    """

    host: Text | None = None
    port: Port = 8080
    port_quic: Port | None = None
    tls_cert: str = ""
    tls_key: str = ""
    request_timeout: Duration = 30.0
    enable_http3: bool = False
    routes: tuple[RouteFields, ...] = ()
    middleware: tuple[FunctionPath, ...] = ()
    docs: DocsFields = DocsFields()

    auth: Literal["none"] | AuthFields | None = None
    max_body: Positive = 1_048_576
    max_requests: Positive = 1000

    @property
    def is_open(self) -> bool:
        """Whether it has no authentication."""
        return not self.middleware and not isinstance(self.auth, AuthFields)

    @property
    def bind_host(self) -> str:
        """The address it binds to: without `host` every one if it has authentication, else loopback."""
        return self.host or ("127.0.0.1" if self.is_open else "0.0.0.0")


class GatewayFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """An HTTP gateway to the agents.

    Attributes:
        config: Its settings.
    """

    config: GatewayConfig = GatewayConfig()


class TopologyServerConfig(Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a topology server.

    Attributes:
        host: The address it binds to.
        port: The port of the server.
        token_env: The environment variable with the bearer token; required on a host other than loopback.
    """

    host: Text = "127.0.0.1"
    port: Port = 6789

    token_env: str = ""


class TopologyServerFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """An HTTP endpoint that shows the running system.

    Attributes:
        config: Its settings.
    """

    config: TopologyServerConfig = TopologyServerConfig()


class EvalFields(NodeFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that observes others and corrects them.

    Attributes:
        max_corrections_per_window: Corrections of one agent within a window.
        window_seconds: Length of the window.
        class_: `class`: Dotted path of its class; empty: events are recorded and exported only.
    """

    max_corrections_per_window: Natural = 10
    window_seconds: Duration = 60.0

    class_: str = msgspec.field(default="", name="class")


class TurnFields(HostedFields, frozen=True, kw_only=True, omit_defaults=True):
    """A child that answers with turns."""

    name: TurnName


class FlowFields(TurnFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that runs a flow.

    Attributes:
        source: Its file, relative to this one.
    """

    source: Text


class LoopFields(TurnFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that runs a loop.

    Attributes:
        project: Its folder, relative to this file.
    """

    project: Text


class PatternFields(TurnFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that runs a pattern.

    Attributes:
        type: The type of the pattern.
        slots: Its slots, as in a pattern file, written inline.
        config: Its settings.
    """

    type: Text
    slots: dict[str, Any] = {}
    config: dict[str, Any] = {}


class ModelFields(TurnFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that a model answers for.

    Attributes:
        model: The name of the model.
        prompt: The text, or the path of its file.
        tools: Tools it may use; null: the usual ones.
        timeout: Seconds an answer may take; null: unlimited.
    """

    model: Text
    prompt: str = ""
    tools: tuple[Text, ...] | None = None
    timeout: Duration | None = None


class CommandFields(TurnFields, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that a program answers for.

    Attributes:
        argv: The command and its arguments.
        timeout: Seconds it may take; null: unlimited.
        cwd: Where it runs; empty: the working directory.
    """

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout: Duration | None = None
    cwd: str = ""


TURNS: Mapping[str, type[TurnFields]] = MappingProxyType(
    {
        "flow": FlowFields,
        "loop": LoopFields,
        "pattern": PatternFields,
        "model": ModelFields,
        "command": CommandFields,
    }
)
"""The children that answer with a turn."""

WRAPPED: Mapping[str, type[NodeFields]] = MappingProxyType(
    {"agent": AgentFields, "supervisor": SupervisorFields, **TURNS}
)
"""The nodes written as `KIND: {name: …}`."""

FLAT: Mapping[str, type[NodeFields]] = MappingProxyType(
    {
        "http_gateway": GatewayFields,
        "dynamic_supervisor": DynamicFields,
        "topology_server": TopologyServerFields,
        "eval_agent": EvalFields,
    }
)
"""The nodes written as `{type: KIND, name: …}`; with any other type it is an agent."""

SUPERVISORS = ("supervisor", "dynamic_supervisor")
