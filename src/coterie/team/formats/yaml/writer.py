"""Write a pattern as a pattern file; reading it back gives an equal team."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from coterie.errors import UsageError
from coterie.team.formats.yaml.agents import EXTENSION, TEAMS
from coterie.team.formats.yaml.document import CORE
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.model import Agent, AnyNode, Topology
from coterie.team.topology.patterns.model import Slot


def to_yaml(topology: Topology) -> str:
    """*topology* as the text of a pattern file; equal teams give equal texts.

    An agent that fills one slot and has its name is written inline; others are declared below.

    Raises:
        UsageError: If it is not a pattern, or a pattern file cannot express it.
    """
    writer = _Writer()
    document = {"pattern": writer.pattern(topology)}
    if writer.agents:
        document["agents"] = writer.agents
    return dump(document)


def dump(document: Mapping[str, Any]) -> str:
    """*document* as YAML, with tables of plain values on one line."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""Characters that PyYAML treats as line ends and would fold."""


class _Writer:
    """Collects the agents of one file.

    Attributes:
        agents: The declarations, by name.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Any] = {}

    def pattern(self, topology: Topology) -> dict[str, Any]:
        """The content of `pattern:`."""
        pattern = topology.pattern
        if pattern is None:
            raise UsageError(f"{topology.name!r} is not a pattern, and only patterns can be written as YAML")
        declared = {node.name: node for node in reversed(topology.nodes)}
        uses = [slot.node for slot in pattern.slots] + [fallback_of(node) for node in topology.nodes]
        slots: dict[str, Any] = {}
        for slot in pattern.slots:
            node = declared.get(slot.node)
            if node is None:
                raise UsageError(f"slot {slot.name!r} of {topology.name!r} has no agent")
            is_alone = slot.node == slot.name and uses.count(slot.node) == 1
            fields = self._node(node, slot, declared)
            slots[slot.name] = fields if is_alone else self._declared(slot.node, fields)
        for name, node in declared.items():
            if name not in uses:
                self._declared(name, self._node(node, None, declared))
        return _filled(
            {
                "type": pattern.type,
                "name": topology.name,
                "description": topology.meta.get("description"),
                "config": _plain(pattern.config),
                "slots": slots,
            }
        )

    def _declared(self, name: str, fields: dict[str, Any]) -> str:
        """The name under which *fields* are declared: *name*, unless that is taken."""
        wanted = name = name.replace("@", "-")
        number = 1
        while self.agents.get(name, fields) != fields:
            number += 1
            name = f"{wanted}-{number}"
        self.agents[name] = fields
        return name

    def _node(self, node: AnyNode, slot: Slot | None, declared: Mapping[str, AnyNode]) -> dict[str, Any]:
        if not isinstance(node, Agent) or (node.topology is not None and node.topology.pattern is None):
            raise UsageError(f"agent {node.name!r} cannot be written in a pattern file: refer to its file instead")
        stands_in = fallback_of(node)
        if stands_in:
            stands_in = self._declared(stands_in, self._node(declared[stands_in], None, declared))
        own = dict(node.extension)
        return _filled(
            {
                "model": node.model,
                "type": own.get("backend"),
                **{name: _plain(own.get(key)) for name, key in EXTENSION.items()},
                **_team(own.get("topology") or own.get("pattern")),
                **({"pattern": self.pattern(node.topology)} if node.topology is not None else {}),
                "prompt": node.prompt,
                "description": node.description,
                "tools": _tools(node),
                "max_retries": node.retry,
                "timeout_seconds": node.timeout,
                "fallback": stands_in,
                "capabilities": list(slot.capabilities) if slot is not None else None,
                "budget": _filled({"calls": slot.calls, "cost": slot.cost}) if slot is not None else None,
                **{name: _plain(value) for name, value in own.get("options", {}).items() if name in MODEL_SETTINGS},
            }
        ) | ({"tools": []} if node.tools == () else {})  # which differs from omitting it


def _team(path: str | None) -> dict[str, str]:
    if not path:
        return {}
    for way, ends in TEAMS.items():
        if ends and path.endswith(ends):
            return {way: path}
    return {"loop": path.removesuffix("/topology.toml")}


def _tools(node: Agent) -> list[str] | None:
    functions = node.extension.get("tools", {})
    return None if node.tools is None else [functions.get(name, name) for name in node.tools]


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


class _Dumper(yaml.SafeDumper):
    """Quotes texts that would be read as another type, and writes no aliases."""

    yaml_implicit_resolvers = {None: list(CORE)}

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat equal values instead of writing aliases."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
