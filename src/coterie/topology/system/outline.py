"""The outline of a supervised system: every node with its fields, in words."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import fields as fields_of

from coterie.topology.system.fields import (
    AgentFields,
    CommandFields,
    DynamicFields,
    EvalFields,
    FlowFields,
    GatewayFields,
    LoopFields,
    ModelFields,
    NodeFields,
    PatternFields,
    SupervisorFields,
    TopologyServerFields,
    is_secret,
)
from coterie.topology.system.model import System, SystemNode

HIDDEN = "***"
"""Shown instead of a secret."""
_SECONDS = re.compile(r"backoff_(?:base|max)|(?:\w+_)?timeout|timeout|shutdown|window_seconds|restart_window")
_SETTINGS = ("backoff_base", "backoff_max", "config", "slots", "prompt")
"""The fields that are listed below the tree."""
_LIMITS = ("shutdown", "handle_timeout", "timeout", "max_children", "max_total_spawns")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedChild:
    """A node of the tree, or a route of a gateway.

    Attributes:
        kind: As in the file; `route` for a route.
        about: Its fields: the usual ones, then those that differ from their defaults.
        settings: Further fields that differ from their defaults.
    """

    name: str
    kind: str
    about: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    children: "tuple[OutlinedChild, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOutline:
    """A supervised system.

    Attributes:
        transport: Its type and addresses.
        plugins: Types, in the order models, tools, exporters, state.
        settings: What else differs from its default, of the transport, plugins and nodes, each with its name.
        entry: The agent that answers for the whole; empty: none.
        live: Whether its topology server answers, so that nodes have their state; None: it has none, or was not called.
    """

    root: OutlinedChild
    transport: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    entry: str = ""
    agents: int = 0
    supervisors: int = 0
    processes: int = 0
    live: bool | None = None


def outline_system(system: System) -> SystemOutline:
    """The outline of *system*."""
    from coterie.topology.checks.systems import is_used  # it needs this package

    transport, plugins, root = system.transport, system.plugins, outline_node(system.root)
    addresses = {"zmq": (transport.pub_addr, transport.sub_addr), "nats": transport.servers}.get(transport.type, ())
    others = _changed(transport, ("type", "servers", "pub_addr", "sub_addr"))
    listed = [*plugins.models, *plugins.tools, *plugins.exporters, *([plugins.state] if plugins.state else [])]
    settings: list[tuple[str, tuple[str, ...]]] = []
    settings += [(transport.type, tuple(about for about in others if is_used(transport, about.partition(":")[0])))]
    settings += [(one.type, tuple(_pairs(one.config))) for one in listed]
    settings += [(node.name, node.settings) for node in _walk(root)]
    return SystemOutline(
        root=root,
        transport=(transport.type, *addresses),
        plugins=tuple(one.type for one in listed),
        settings=tuple((name, about) for name, about in settings if about),
        entry=system.entry,
        agents=len(system.agents),
        supervisors=len(system.supervisors),
        processes=len(system.processes),
    )


def outline_node(node: SystemNode) -> OutlinedChild:
    """The outline of *node* and all below it."""
    fields = node.fields
    children = tuple(map(outline_node, node.children))
    if isinstance(fields, GatewayFields):
        children = tuple(
            OutlinedChild(name=f"{route.method} {route.path}", kind="route", about=(f"→ {route.agent}", route.mode))
            for route in fields.config.routes
        )
    return OutlinedChild(
        name=node.name,
        kind=node.kind,
        about=tuple(_about(fields)),
        settings=tuple(_settings(fields)),
        children=children,
    )


def value_in_words(name: str, value: Any) -> str:
    """*value* of the field *name*."""
    match value:
        case None:
            return "unlimited" if name in _LIMITS else "none"
        case bool():
            return str(value).lower()
        case str():
            return HIDDEN if is_secret(name, value) else value
        case float():
            return f"{value}s" if _SECONDS.fullmatch(name) else str(value)
        case list() | tuple():
            return ", ".join(value_in_words(name, each) for each in value) or "none"
        case Mapping():
            return ", ".join(f"{key}={value_in_words(key, inner)}" for key, inner in value.items()) or "none"
        case msgspec.Struct():
            given = ((one, getattr(value, one.name)) for one in fields_of(type(value)))
            return ", ".join(
                f"{one.encode_name}={value_in_words(one.encode_name, inner)}"
                for one, inner in given
                if inner != one.default
            )
        case _:
            return str(value)


def _about(fields: NodeFields) -> Iterator[str]:
    own: tuple[str, ...] = ("name",)
    match fields:
        case SupervisorFields():
            yield fields.strategy
            yield f"restarts: {fields.max_restarts}/{fields.restart_window}s"
            yield f"backoff: {fields.backoff.lower()}"
            own += ("strategy", "max_restarts", "restart_window", "backoff")
        case AgentFields():
            yield fields.type
            own += ("type",)
        case DynamicFields(config=dynamic):
            yield "dynamic"
            yield f"max_children: {value_in_words('max_children', dynamic.max_children)}"
            yield from _changed(dynamic, ("max_children",))
            own += ("config",)
        case GatewayFields(config=gateway):
            yield f"{'https' if gateway.tls_cert else 'http'}://{_address(gateway.bind_host, gateway.port)}"
            yield from _changed(gateway, ("host", "port", "routes"))
            own += ("config",)
        case TopologyServerFields(config=server):
            yield f"http://{_address(server.host, server.port)}"
            yield from _changed(server, ("host", "port"))
            own += ("config",)
        case EvalFields():
            yield f"eval  {fields.max_corrections_per_window}/{fields.window_seconds}s"
            own += ("max_corrections_per_window", "window_seconds")
        case FlowFields():
            yield f"flow {fields.source}"
            own += ("source",)
        case LoopFields():
            yield f"loop {fields.project}"
            own += ("project",)
        case PatternFields():
            yield f"pattern {fields.type}"
            own += ("type",)
        case ModelFields():
            yield f"model {fields.model}"
            own += ("model",)
        case CommandFields():
            yield f"command {' '.join(fields.argv)}"
            own += ("argv",)
    if process := getattr(fields, "process", ""):
        yield f"@{process}"
    yield from _changed(fields, (*own, "process", *_SETTINGS))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _settings(fields: NodeFields) -> Iterator[str]:
    for name in _SETTINGS:
        value = getattr(fields, name, None)
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{name}." if name != "config" else "")
        elif value is not None and not isinstance(value, msgspec.Struct):
            yield from _changed(fields, tuple(each for each in fields.__struct_fields__ if each != name))


def _walk(node: OutlinedChild) -> Iterator[OutlinedChild]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _changed(fields: msgspec.Struct, but: tuple[str, ...]) -> Iterator[str]:
    """The fields that differ from their defaults, without those in *but*."""
    for one in fields_of(type(fields)):
        value = getattr(fields, one.name)
        default = one.default if one.default is not msgspec.NODEFAULT else None
        if one.name in but or value == default or (not value and one.default is msgspec.NODEFAULT):
            continue
        yield f"{one.encode_name}: {_cut(value_in_words(one.encode_name, value))}"


def _pairs(config: Mapping[str, Any], path: str = "") -> list[str]:
    return [f"{path}{key}: {_cut(value_in_words(key, value))}" for key, value in config.items()]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
