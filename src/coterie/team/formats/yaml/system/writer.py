"""Write a supervised system as a `topology.yaml`; reading it back gives an equal system."""

from typing import Any

import msgspec

from coterie.team.formats.yaml.writer import dump
from coterie.team.topology.system.fields import FLAT, TransportFields
from coterie.team.topology.system.model import System, SystemNode


def to_yaml(system: System) -> str:
    """*system* as the text of a file; fields at their defaults are left out, and equal systems give equal texts."""
    plugins = {key: value for key, value in msgspec.to_builtins(system.plugins).items() if value}
    document = {
        "transport": _transport(system.transport),
        "plugins": plugins,
        "supervision": _node(system.root),
        "entry": system.entry,
    }
    return dump({key: value for key, value in document.items() if value})


def _transport(transport: TransportFields) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(transport)
    if len(transport.servers) == 1 and "servers" in fields:
        fields["servers"] = transport.servers[0]
    return fields


def _node(node: SystemNode) -> dict[str, Any]:
    """The fields of *node*, its children wrapped in their kinds."""
    fields: dict[str, Any] = msgspec.to_builtins(node.fields)
    if fields.get("config") == {}:
        del fields["config"]
    if node.children:
        fields["children"] = [
            _node(child) if child.kind in FLAT else {child.kind: _node(child)} for child in node.children
        ]
    return {"type": node.kind, **fields} if node.kind in FLAT else fields
