"""Rules for supervised systems: the tree, names, transport, gateways."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, note, warning
from coterie.team.topology.checks.facts import UNREADABLE, Facts, listing
from coterie.team.topology.plugin_names import unknown_name
from coterie.team.topology.system.fields import (
    FLAT,
    AgentFields,
    AuthFields,
    DynamicFields,
    EvalFields,
    GatewayFields,
    PluginFields,
    SupervisorFields,
    TopologyServerFields,
    TransportFields,
    is_loopback,
    is_secret,
)
from coterie.team.topology.system.model import System, SystemNode

_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

USED_BY: Mapping[str, tuple[str, ...]] = {
    "pub_addr": ("zmq",),
    "sub_addr": ("zmq",),
    "start_proxy": ("zmq",),
    "servers": ("nats",),
    "jetstream": ("nats",),
    "stream_name": ("nats",),
    "connect_timeout": ("zmq", "nats"),
    "heartbeat_timeout": ("zmq", "nats"),
}
"""The transports that use a field."""


def is_used(transport: TransportFields, field: str) -> bool:
    """Whether *field* has an effect on *transport*."""
    if field == "stream_name" and not transport.jetstream:
        return False
    return transport.type in USED_BY.get(field, (transport.type,))


def unknown_target(system: System, who: str, name: str, span: Span | None) -> Iterator[Diagnostic]:
    """The diagnostic if *who* names something that is not an agent; a warning if the agent may be spawned later."""
    known = [each.name for each in system.agents if each.name != UNREADABLE]
    if name in known or name == UNREADABLE:
        return
    is_dynamic = any(isinstance(each.fields, DynamicFields) for each in system.root.walk())
    supervisors = [each.name for each in system.supervisors]
    what = "is a supervisor" if name in supervisors else "is not in the tree"
    hint = did_you_mean(name, known) or f"agents: {', '.join(known[:10])}"
    if is_dynamic and name not in supervisors:
        hint = f"{hint} (unless it is spawned while the system runs)"
        yield warning("unknown-target", f"{who} names {name!r}, which {what}", span, hint)
    else:
        yield error("unknown-agent", f"{who} names {name!r}, which {what}", span, hint)


def supervisors_have_children(facts: Facts) -> Iterator[Diagnostic]:
    """A supervisor has children; those of a dynamic supervisor are spawned while it runs."""
    for node in _nodes(facts):
        if node.kind == "supervisor" and not node.children:
            hint = "add children, or write {type: dynamic_supervisor, name: …} if they are spawned later"
            yield error("empty-supervisor", f"{node.title} has no children", node.span, hint)


def names_are_unique(facts: Facts) -> Iterator[Diagnostic]:
    """Every name in the tree is used once: names are addresses."""
    seen: dict[str, SystemNode] = {}
    for node in _nodes(facts):
        first = seen.setdefault(node.name, node)
        if first is node or node.name == UNREADABLE:
            continue
        where = f"{first.title} on line {first.span.line}" if first.span is not None else first.title
        if first.is_supervisor is node.is_supervisor:
            what = "supervisor" if node.is_supervisor else "agent"
            message = f"the {what} name {node.name!r} is used twice"
            yield error("duplicate-name", message, node.span, f"{where} has this name: choose another")
        else:
            message = f"{node.name!r} is the name of an agent and of a supervisor"
            yield error("name-conflict", message, node.span, f"{where} has this name: choose another")


def classes_have_paths(facts: Facts) -> Iterator[Diagnostic]:
    """The class of an agent is a dotted path; a short name needs a class from Python."""
    for node in _nodes(facts):
        fields = node.fields
        paths = {"type": fields.type} if isinstance(fields, AgentFields) else {}
        paths |= {"class": fields.class_} if isinstance(fields, EvalFields) and fields.class_ else {}
        for name, path in paths.items():
            span = node.spans.get(name) or node.span
            if path == UNREADABLE:
                continue
            if path in FLAT:
                hint = f"write - {{type: {path}, name: {node.name}}} without `agent:`"
                yield error("bad-class", f"{node.title} has the type {path!r}, which is no class", span, hint)
            elif not _CLASS.fullmatch(path):
                message = f"the {name} {path!r} of {node.title} is not the dotted path of a class"
                yield error("bad-class", message, span, "write package.module.Class")
            elif "." not in path:
                hint = did_you_mean(path, FLAT) or f"pass agent_classes={{{path!r}: …}} to Runtime.from_config"
                yield note("short-class", f"the {name} {path!r} of {node.title} has no module", span, hint)


def backoffs_fit(facts: Facts) -> Iterator[Diagnostic]:
    """The initial delay of a backoff is at most its maximum."""
    for node in _nodes(facts):
        fields = node.fields
        if isinstance(fields, SupervisorFields) and fields.backoff_base > fields.backoff_max:
            message = f"backoff_base of {node.title} is {fields.backoff_base}, above its backoff_max"
            span = node.spans.get("backoff_base") or node.spans.get("backoff_max") or node.span
            yield warning("capped-backoff", message, span, f"every delay is {fields.backoff_max} seconds")


def supervisors_come_back(facts: Facts) -> Iterator[Diagnostic]:
    """A nested supervisor is permanent: when one gives up it ends normally, and only a permanent one is restarted."""
    for node in _nodes(facts):
        if node.is_supervisor and node.fields.restart == "transient":
            message = f"{node.title} is {node.fields.restart}, so it is not restarted after it gave up"
            hint = "giving up is a normal end, as in Erlang; write restart: permanent, or temporary if intended"
            yield warning("transient-supervisor", message, node.spans.get("restart") or node.span, hint)


def transport_fields_are_used(facts: Facts) -> Iterator[Diagnostic]:
    """Fields of the transport, and processes, are for the transport in use."""
    system = facts.topology.system
    if system is None:
        return
    kind = system.transport.type
    for name, users in USED_BY.items():
        span = system.spans.get(f"transport.{name}")
        if span is not None and not is_used(system.transport, name):
            needs = "it needs jetstream: true" if kind in users else f"it is for {' and '.join(users)}"
            message = f"{name!r} of the transport has no effect with {kind}"
            yield warning("idle-transport", message, span, needs)
    if kind == "in_process":
        for node in system.agents:
            if process := getattr(node.fields, "process", ""):
                message = f"{node.title} is for the process {process!r}, but with in_process all run in this one"
                span = node.spans.get("process") or node.span
                yield warning("idle-process", message, span, "write transport: {type: zmq}, or nats")


def broker_addresses_differ(facts: Facts) -> Iterator[Diagnostic]:
    """The broker of ZMQ has one address to send to and another to receive at."""
    system = facts.topology.system
    if system is None or system.transport.type != "zmq":
        return
    address = system.transport.pub_addr
    if address == system.transport.sub_addr != UNREADABLE:
        spans = [span for name in ("pub_addr", "sub_addr") if (span := system.spans.get(f"transport.{name}"))]
        last = max(spans, key=lambda span: span.offset, default=None)
        message = f"'pub_addr' and 'sub_addr' of the transport are both {address!r}"
        yield error("repeated-address", message, last, "the broker binds both: write two addresses")


def entry_is_an_agent(facts: Facts) -> Iterator[Diagnostic]:
    """`entry` names an agent of the tree."""
    system = facts.topology.system
    if system is not None and system.entry:
        yield from unknown_target(system, "'entry'", system.entry, system.spans.get("entry"))


def routes_lead_to_agents(facts: Facts) -> Iterator[Diagnostic]:
    """A route of a gateway leads to an agent of the tree, and no earlier one has its method and path."""
    system = facts.topology.system
    for node in _nodes(facts):
        if system is None or not isinstance(node.fields, GatewayFields):
            continue
        seen: list[tuple[str, str]] = []
        for at, route in enumerate(node.fields.config.routes):
            place = f"config.routes.{at}"
            span = node.spans.get(f"{place}.agent") or node.span
            yield from unknown_target(system, f"route {route.path!r} of {node.title}", route.agent, span)
            is_served = any(route.method == method and re.fullmatch(paths, route.path) for method, paths in seen)
            span = node.spans.get(f"{place}.path") or node.span
            if is_served and UNREADABLE not in (route.method, route.path):
                message = f"an earlier route of {node.title} already serves {route.method} {route.path}"
                yield warning("repeated-route", message, span, "the first one that matches is used")
            seen.append((route.method, re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route.path))))


def gateways_can_serve(facts: Facts) -> Iterator[Diagnostic]:
    """A gateway with HTTP/3 has a port and a certificate for it, and a certificate has a key."""
    for node in _nodes(facts):
        if not isinstance(node.fields, GatewayFields):
            continue
        config = node.fields.config
        missing = [name for name in ("port_quic", "tls_cert", "tls_key") if getattr(config, name) in (None, "")]
        if config.enable_http3 and missing:
            message = f"{node.title} enables HTTP/3, but has no {listing(missing, 'or')}"
            span = node.spans.get("config.enable_http3") or node.span
            yield error("incomplete-tls", message, span, "HTTP/3 needs a UDP port and a certificate")
        elif bool(config.tls_cert) is not bool(config.tls_key):
            has, lacks = ("tls_cert", "tls_key") if config.tls_cert else ("tls_key", "tls_cert")
            span = node.spans.get(f"config.{has}") or node.span
            yield error("incomplete-tls", f"{node.title} has {has!r}, but no {lacks!r}", span, f"add {lacks}")


def clients_can_be_known(facts: Facts) -> Iterator[Diagnostic]:
    """The authentication of a gateway is a token or a JWT, with the one key that its algorithm needs."""
    for node in _nodes(facts):
        auth = node.fields.config.auth if isinstance(node.fields, GatewayFields) else None
        if isinstance(auth, AuthFields) and auth.fault and (auth.jwt is None or auth.jwt.algorithm != UNREADABLE):
            span = node.spans.get("config.auth.jwt") or node.spans.get("config.auth") or node.span
            key = "algorithm: HS256, secret_env: NAME"
            if auth.jwt is not None:
                key = f"algorithm: {auth.jwt.algorithm}, {auth.jwt.needs[0]}: …"
            hint = f"write auth: {{token_env: NAME}}, or auth: {{jwt: {{{key}}}}}"
            yield error("bad-auth", f"'auth' of {node.title} {auth.fault}", span, hint)


def endpoints_are_guarded(facts: Facts) -> Iterator[Diagnostic]:
    """Endpoints that other machines can reach have authentication."""
    for node in _nodes(facts):
        span = node.spans.get("config.host") or node.span
        match node.fields:
            case GatewayFields(config=config) if config.host and not is_loopback(config.host):
                if config.is_open and config.auth != "none":
                    message = f"{node.title} can be reached from other machines without authentication"
                    hint = "add auth: {token_env: NAME}, or middleware, or auth: none if that is intended"
                    yield error("open-endpoint", message, span, hint)
            case TopologyServerFields(config=server) if not is_loopback(server.host) and not server.token_env:
                message = f"{node.title} can be reached from other machines without a token"
                yield error("open-endpoint", message, span, "add token_env: NAME, the variable with the token")


def plugins_are_known(facts: Facts) -> Iterator[Diagnostic]:
    """A plugin is built in, registered by an installed package, or the dotted path of a class."""
    system = facts.topology.system
    for kind, place, plugin in _plugins(system) if system is not None else ():
        if plugin.type != UNREADABLE and (why := unknown_name(kind, plugin.type)) is not None:
            yield error("unknown-plugin", why[0], system.spans.get(f"{place}.type") if system else None, why[1])


def secrets_stay_outside(facts: Facts) -> Iterator[Diagnostic]:
    """A key must be in the environment, not in the file."""
    system = facts.topology.system
    if system is None:
        return
    owners: list[tuple[str, Any, Any]] = []
    for _, place, plugin in _plugins(system):
        owners.append((f"plugin {plugin.type!r}", plugin.config, system.spans.get(f"{place}.config")))
    for node in _nodes(facts):
        if isinstance(node.fields, AgentFields):
            owners.append((node.title, node.fields.config, node.spans.get("config")))
    for owner, config, span in owners:
        for key, value in config.items():
            if is_secret(key, value):
                message = f"{key!r} of {owner} looks like a secret, and its value is in the file"
                hint = "read it from an environment variable instead"
                yield replace(warning("sensitive-in-file", message, span, hint), secret=True)


def _plugins(system: System) -> Iterator[tuple[str, str, PluginFields]]:
    """The plugins with their kinds and places."""
    plugins = system.plugins
    for kind, listed in (("model", plugins.models), ("tool", plugins.tools), ("exporter", plugins.exporters)):
        for at, plugin in enumerate(listed):
            yield kind, f"plugins.{kind}s.{at}", plugin
    if plugins.state is not None:
        yield "state", "plugins.state", plugins.state


def _nodes(facts: Facts) -> Iterator[SystemNode]:
    if facts.topology.system is not None:
        yield from facts.topology.system.root.walk()
