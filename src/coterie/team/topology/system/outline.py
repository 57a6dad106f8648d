"""The outline of a supervised system: every node with its fields, in words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from coterie.team.topology.parts import fields_of
from coterie.team.topology.system.fields import (
    DynamicConfig,
    EvalFields,
    Fields,
    GatewayConfig,
    GatewayFields,
    NodeFields,
    SupervisorFields,
    TopologyServerConfig,
    is_secret,
)
from coterie.team.topology.system.model import System, SystemNode

HIDDEN = "***"
"""Shown instead of a secret."""
_SECONDS = re.compile(r"backoff_(?:base|max)|(?:\w+_)?timeout|timeout|shutdown|window_seconds|restart_window")
_SETTINGS = ("backoff_base", "backoff_max", "config", "slots", "prompt")
"""The fields that are listed below the tree."""
_LIMITS = ("shutdown", "handle_timeout", "timeout", "max_children", "max_total_spawns")


class OutlinedChild(Struct, frozen=True, kw_only=True):
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


class SystemOutline(Struct, frozen=True, kw_only=True):
    """A supervised system.

    Attributes:
        transport: Its type and addresses.
        plugins: Types, in the order models, tools, exporters, state.
        settings: Other fields of the transport, plugins and nodes that differ from their defaults, with their names.
        entry: The agent that answers for the whole system; empty: none.
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
    from coterie.team.topology.checks.systems import is_used  # it needs this package

    transport, plugins, root = system.transport, system.plugins, outline_node(system.root)
    addresses = {"zmq": (transport.pub_addr, transport.sub_addr), "nats": transport.servers}.get(transport.type, ())
    others = _changed(transport, "type", "servers", "pub_addr", "sub_addr")
    listed = [*plugins.models, *plugins.tools, *plugins.exporters, *([plugins.state] if plugins.state else [])]
    settings = [
        (transport.type, tuple(about for name, about in others.items() if is_used(transport, name))),
        *((one.type, tuple(_pairs(one.config))) for one in listed),
        *((node.name, node.settings) for node in _walk(root)),
    ]
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
    """The outline of *node* and all nodes below it."""
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
        about=tuple(_about(fields, node.kind)),
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
            changed = {key: inner for key, inner, default in fields_of(value) if inner != default}
            return value_in_words(name, changed) if changed else ""
        case _:
            return str(value)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_SUMMARIES: Mapping[type[Fields], tuple[Callable[[Any], tuple[str, ...]], tuple[str, ...]]] = {
    SupervisorFields: (
        lambda it: (it.strategy, f"restarts: {it.max_restarts}/{it.restart_window}s", f"backoff: {it.backoff.lower()}"),
        ("strategy", "max_restarts", "restart_window", "backoff"),
    ),
    DynamicConfig: (
        lambda it: ("dynamic", f"max_children: {value_in_words('max_children', it.max_children)}"),
        ("max_children",),
    ),
    GatewayConfig: (
        lambda it: (f"{'https' if it.tls_cert else 'http'}://{_address(it.bind_host, it.port)}",),
        ("host", "port", "routes"),
    ),
    TopologyServerConfig: (lambda it: (f"http://{_address(it.host, it.port)}",), ("host", "port")),
    EvalFields: (
        lambda it: (f"eval  {it.max_corrections_per_window}/{it.window_seconds}s",),
        ("max_corrections_per_window", "window_seconds"),
    ),
}
"""The usual fields of a node or of its settings in words, and their names; those of any other node are required."""


def _about(fields: NodeFields, kind: str) -> Iterator[str]:
    config = getattr(fields, "config", None)
    described = config if isinstance(config, Fields) else fields
    if type(described) in _SUMMARIES:
        summary, shown = _SUMMARIES[type(described)]
        yield from summary(described)
    else:
        shown = tuple(each.name for each in msgspec.structs.fields(fields) if each.required and each.name != "name")
        required = (getattr(fields, name) for name in shown)
        words = (" ".join(value) if isinstance(value, tuple) else str(value) for value in required)
        yield " ".join((kind, *words)).removeprefix("agent ")
    if described is config:
        yield from _changed(described, *shown).values()
    if process := getattr(fields, "process", ""):
        yield f"@{process}"
    yield from _changed(fields, "name", "process", *shown, *_SETTINGS).values()


def _settings(fields: NodeFields) -> Iterator[str]:
    changed = _changed(fields)
    for name in _SETTINGS:
        value = getattr(fields, name, None)
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{name}." if name != "config" else "")
        elif name in changed and not isinstance(value, msgspec.Struct):
            yield changed[name]


def _walk(node: OutlinedChild) -> Iterator[OutlinedChild]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _changed(fields: msgspec.Struct, *but: str) -> dict[str, str]:
    """The fields that differ from their defaults in words, by name, without those in *but*."""
    changed = {name: value for name, value, default in fields_of(fields) if value != default}
    return {name: about for name, about in zip(changed, _pairs(changed), strict=True) if name not in but}


def _pairs(config: Mapping[str, Any], path: str = "") -> list[str]:
    return [f"{path}{key}: {_cut(value_in_words(key, value))}" for key, value in config.items()]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
