"""Read a pattern file: its pattern, and the agents that fill the slots.

pattern:
  type: debate
  slots:
    proponent: optimist                      # an agent of this file
    opponent: {model: sonnet, prompt: "…"}   # or one written in place
    mediator: {pattern: {type: ensemble, …}} # or a whole team
agents:
  optimist: {model: haiku, prompt: "…"}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from msgspec.structs import replace

from coterie.base.diagnostics import Span, did_you_mean, error
from coterie.team.formats.files import YAML
from coterie.team.formats.imports import MAX_IMPORTS
from coterie.team.formats.yaml.agents import SlotFill, overridden, read_agent
from coterie.team.formats.yaml.document import Leaf, Report, Table, Value, plain, shown, spans, without
from coterie.team.formats.yaml.fields import TableReader, entry_span
from coterie.team.formats.yaml.overrides import with_settings
from coterie.team.topology.checks.facts import UNREADABLE, listing
from coterie.team.topology.checks.names import fallback_of
from coterie.team.topology.checks.patterns import NAME_HINT, asked, is_name
from coterie.team.topology.composition import MAX_DEPTH
from coterie.team.topology.model import Agent, Topology
from coterie.team.topology.patterns.kinds import kind_of
from coterie.team.topology.patterns.model import Pattern, Slot
from coterie.team.topology.patterns.names import words

_PATTERN = ("type", "name", "description", "config", "slots")
_PARTS = ("pattern", "agents", "supervision")
_HINT = "its top level has `pattern:`, and may have `agents:`, or for a supervised system `supervision:`"


def read_pattern(
    root: Value, file: str, folder: Path | None, given: Mapping[str, Any], report: Report
) -> Topology | None:
    """Read *root*, the content of *file*, as a pattern; see `coterie.team.formats.yaml.read_yaml`."""
    if not isinstance(root, Table):
        report(error("no-pattern", "there is no team in this file: it is not a table", root.span, _HINT))
        return None
    if "pattern" not in root.entries:
        found = f"has {listing(list(root.entries))}, but no 'pattern'" if root.entries else "is empty"
        hint = next(filter(None, (did_you_mean(key, _PARTS) for key in root.entries)), _HINT)
        message = f"there is no team in this file: it {found}"
        report(error("no-pattern", message, next(iter(root.keys.values()), None), hint))
        return None
    fields = TableReader(root, "the file", ("pattern", "agents"), report)
    pattern = root.entries["pattern"]
    if not isinstance(pattern, Table) and plain(pattern) is not None:
        name = str(plain(pattern))
        near = next((one for one in words() if did_you_mean(name, [one])), "…")
        fields.wrong("pattern", pattern, "a table", f"write pattern: {{type: {near}, slots: …}}")
        return None
    reader = _Reader(file, folder, fields.table("agents", "write NAME: {model: …, prompt: …}"), report)
    return reader.team(fields.table("pattern"), stem(file), root.keys["pattern"], given)


def read_team(table: Table, name: str, file: str, folder: Path | None, report: Report) -> Topology | None:
    """The pattern in *table*, which runs at the node *name* of *file*; its slots are written inline."""
    return _Reader(file, folder, Table(), report).nested(table, name)


def stem(file: str) -> str:
    """The default name of a pattern in *file*."""
    name = PurePath(file).name
    for suffix in YAML:
        name = name.removesuffix(suffix)
    return name.removesuffix(".pattern") or "pattern"


class _Reader:
    """Reads one file."""

    def __init__(self, file: str, folder: Path | None, agents: Table, report: Report) -> None:
        self._file, self._folder, self._report = file, folder, report
        self._tables = {name: value for name, value in agents.entries.items() if isinstance(value, Table)}
        self._keys = agents.keys
        self._shared: dict[str, SlotFill] = {}
        self._open: list[str] = []  # the agents being read
        self._bases: set[str] = set()  # those whose entries a slot overrides
        self._depth = 0
        self._extents: dict[int, tuple[int, int]] = {}  # depth and number of the teams in each, by identity
        self._teams: list[Topology] = []  # keeps identities from being reused
        for name, value in agents.entries.items():
            if not is_name(name):
                message = f"an agent cannot be called {name!r}"
                report(error("bad-name", message, self._keys[name], NAME_HINT))
            if name not in self._tables:
                message = f"agent {name!r} must be a table, not {shown(value)}"
                report(error("bad-value", message, value.span, "write {model: …, prompt: …}"))

    def team(self, table: Table, name: str, key: Span, given: Mapping[str, Any]) -> Topology:
        """The team of the file: the pattern in *table* under *key*, and all agents.

        An agent that only serves as the base of slots, `{agent: NAME, prompt: …}`, is not part of the team.
        """
        if given:
            table = with_settings(table, self._tables, given, self._report)
        agents = [filler.node for name in self._tables if (filler := self._named(name, self._keys[name])) is not None]
        team = self._pattern(table, name, key, agents)
        bases = self._bases - set(asked(team, set())) if self._bases else self._bases
        return replace(team, nodes=tuple(node for node in team.nodes if node.name not in bases)) if bases else team

    def _pattern(self, table: Table, name: str, key: Span, agents: Iterable[Agent] = ()) -> Topology:
        """The team in *table*, by default named *name*, with the additional *agents*."""
        fields = TableReader(table, "'pattern'", _PATTERN, self._report)
        kind, config = fields.text("type"), fields.table("config", "write {max_rounds: 2}")
        if "type" not in fields:
            hint = f"write type: debate, or another of {', '.join(words())}"
            self._report(error("unknown-type", "the pattern has no type", key, hint))
        found = list(self._slots(fields.table("slots", "write {proponent: AGENT}")))
        found += self._named_slot(kind, config, [slot.name for slot, _ in found])
        slots = tuple(slot for slot, _ in found)
        nodes = {agent.name: agent for agent in agents}
        for _, filler in found:
            if filler is not None:
                nodes.setdefault(filler.node.name, filler.node)
        self._add_fallbacks(nodes)
        description, place = fields.text("description"), fields.span("name") or key
        spans = {name: span for name in ("type", "config", "slots") if (span := fields.span(name)) is not None}
        spans |= _of_config(config) | {f"slots.{slot.name}": slot.span for slot in slots if slot.span is not None}
        return Topology(
            name=fields.text("name") or name,
            nodes=tuple(nodes.values()),
            pattern=Pattern(type=kind, config=plain(config), slots=slots, span=key, spans=spans),
            meta={"description": description} if description else {},
            file=self._file,
            span=place,
            spans={"name": place},
        )

    def _slots(self, table: Table) -> Iterator[tuple[Slot, SlotFill | None]]:
        """The slots and their agents; None if no agent of that name is declared."""
        for name, value in table.entries.items():
            key = table.keys[name]
            if isinstance(value, Leaf) and isinstance(value.value, str):
                filler = self._named(value.value, value.span)
                is_reported = filler is None and value.value in self._tables
                yield _slot(name, UNREADABLE if is_reported else value.value, filler, value.span), filler
            elif not isinstance(value, Table):
                message = f"slot {name!r} must be the name of an agent or a table, not {shown(value)}"
                self._report(error("bad-value", message, value.span, "write AGENT, or {model: …, prompt: …}"))
                yield _slot(name, UNREADABLE, None, key), None
            elif "agent" in value.entries:
                yield from self._changed(name, value, key)
            elif name in self._tables:
                message = f"slot {name!r} is written inline, but an agent has the same name"
                hint = f"write {name}: {name}, or rename the agent"
                self._report(error("duplicate-name", message, key, hint))
                yield _slot(name, UNREADABLE, None, key), None
            else:
                filler = self._agent(name, value, key)
                yield _slot(name, name, filler, key), filler

    def _changed(self, slot: str, table: Table, key: Span) -> Iterator[tuple[Slot, SlotFill | None]]:
        """The agent that `agent:` names, overridden by the other entries of *slot*."""
        base = table.entries["agent"]
        agent = base.value if isinstance(base, Leaf) and isinstance(base.value, str) else ""
        if agent not in self._tables:
            message = f"slot {slot!r} names {shown(base)}, which is not a declared agent"
            hint = did_you_mean(agent, self._tables) or "declare it under agents:"
            self._report(error("unknown-agent", message, base.span, hint))
            yield _slot(slot, UNREADABLE, None, key), None
            return
        self._bases.add(agent)
        name = slot if slot not in self._tables else f"{slot}@{agent}"
        filler = self._agent(name, overridden(self._tables[agent], without(table, ("agent",))), key)
        yield _slot(slot, name, filler, key), filler

    def _named_slot(self, kind: str, config: Table, slots: Sequence[str]) -> Iterator[tuple[Slot, SlotFill]]:
        """The slot of the agent that a setting names, `mediator_agent_name`, if no slot has it yet."""
        known = kind_of(kind)
        setting, slot = known.named_slot if known is not None else ("", "")
        named = config.entries.get(setting)
        if not isinstance(named, Leaf) or slot in slots or named.value in slots:
            return
        if isinstance(named.value, str) and (filler := self._named(named.value, named.span)) is not None:
            yield _slot(named.value, named.value, filler, named.span), filler

    def _add_fallbacks(self, nodes: dict[str, Agent]) -> None:
        """Add the fallbacks of *nodes* from this file."""
        front = list(nodes.values())
        while front:
            node = front.pop()
            name = fallback_of(node)
            if not name or name in nodes:
                continue
            if (filler := self._named(name, node.spans["on-fail"])) is not None:
                nodes[name] = filler.node
                front.append(filler.node)

    def _named(self, name: str, span: Span) -> SlotFill | None:
        """The agent *name*, referred to at *span*; None if there is none, or it would contain itself."""
        if name in self._open:
            steps = " -> ".join((*self._open[self._open.index(name) :], name))
            self._report(error("topology-cycle", f"a topology cannot contain itself: {steps}", span))
        elif name in self._tables and name not in self._shared:
            self._open.append(name)
            self._shared[name] = self._agent(name, self._tables[name], self._keys[name])
            self._open.pop()
        return self._shared.get(name)

    def _agent(self, name: str, table: Table, span: Span) -> SlotFill:
        return read_agent(name, table, span, self._folder, self.nested, self._report)

    def nested(self, table: Table, name: str) -> Topology | None:
        """The pattern in *table*, which runs at the node *name*."""
        if self._depth >= MAX_DEPTH:
            message = f"topologies are nested more than {MAX_DEPTH} deep"
            self._report(error("nested-too-deep", message, table.span, "move some of them to a separate file"))
            return None
        self._depth += 1
        team = self._pattern(table, name, table.span)
        self._depth -= 1
        teams = {node.name: id(node.topology) for node in team.nodes if node.topology is not None}
        slots = team.pattern.slots if team.pattern is not None else ()
        within = [self._extents[teams[slot.node]] for slot in slots if slot.node in teams]
        depth = 1 + max((depth for depth, _ in within), default=0)
        count = 1 + sum(count for _, count in within)
        if depth > MAX_DEPTH or count > MAX_IMPORTS:
            code = "nested-too-deep" if depth > MAX_DEPTH else "too-many-topologies"
            message = f"teams are nested {depth} deep, {count} in all: the limits are {MAX_DEPTH} and {MAX_IMPORTS}"
            self._report(error(code, message, table.span, "move some of them to a separate file"))
            return None
        self._extents[id(team)] = depth, count
        self._teams.append(team)
        return team


def _slot(name: str, node: str, filler: SlotFill | None, span: Span) -> Slot:
    if filler is None:
        return Slot(name=name, node=node, span=span)
    return Slot(name=name, node=node, capabilities=filler.capabilities, calls=filler.calls, cost=filler.cost, span=span)


def _of_config(config: Table) -> dict[str, Span]:
    """The span of everything in *config*, `config.max_rounds`."""
    found: dict[str, Span] = {}
    for name, value in config.entries.items():
        found |= dict(spans(value, f"config.{name}"))
        found[f"config.{name}"] = entry_span(config.keys[name], value)
    return found
