"""Read a `topology.yaml`: its supervision tree, transport and plugins.

supervision:
  name: root
  children:
    - agent: {name: greeter, type: myapp.Greeter}        # a wrapped node
    - {type: dynamic_supervisor, name: workers}          # a flat node
    - flow: {name: review, source: review.at}            # a team that answers messages
"""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from coterie.base.diagnostics import Span, did_you_mean, error
from coterie.team.formats.files import SYSTEM_FILES
from coterie.team.formats.prompts import read_prompt
from coterie.team.formats.yaml.agents import loop_file
from coterie.team.formats.yaml.document import Leaf, Report, Sequence, Table, Value, plain, shown, without
from coterie.team.formats.yaml.overrides import InvalidValue, entered, read_value
from coterie.team.formats.yaml.reader import read_team
from coterie.team.formats.yaml.system.typed import TypedReader, is_field
from coterie.team.topology.checks.facts import UNREADABLE, listing
from coterie.team.topology.model import Agent, Topology
from coterie.team.topology.system.fields import (
    FLAT,
    WRAPPED,
    AgentFields,
    CommandFields,
    FlowFields,
    LoopFields,
    ModelFields,
    NodeFields,
    PatternFields,
    PluginsFields,
    SupervisorFields,
    TransportFields,
    TurnFields,
)
from coterie.team.topology.system.model import System, SystemNode

PARTS = ("transport", "plugins", "supervision", "entry")
"""The entries of the top level."""
_HINT = "write supervision: {name: root, children: [...]}"
_NODE_HINT = f"write KIND: {{name: …}} with one of {', '.join(WRAPPED)}, or {{type: {', '.join(FLAT)}, name: …}}"


_AGENTS = ("agents", "agent", "children", "nodes")
_AGENTS_HINT = "write agents as children: supervision: {name: root, children: [{agent: {name: …, type: …}}]}"


def is_system(root: Value, file: str) -> bool:
    """Whether *root*, the content of *file*, is a supervised system rather than a pattern."""
    if isinstance(root, Table) and not root.entries.keys().isdisjoint(("pattern", *PARTS)):
        return "pattern" not in root.entries
    return PurePath(file).name in SYSTEM_FILES


def read_system(
    root: Value, file: str, folder: Path | None, given: Mapping[str, Any], report: Report
) -> Topology | None:
    """Read *root*, the content of *file*, as far as possible; None, with a report, without a supervision tree.

    Args:
        folder: The base of relative paths.
        given: Values that override those of the file, by dotted path: `transport.type`.
    """
    if not isinstance(root, Table):
        report(error("no-supervision", "there is no system in this file: it is not a table", root.span, _HINT))
        return None
    for path, value in given.items():
        try:
            root = _overridden(root, path, read_value(path, value))
        except InvalidValue as wrong:
            report(wrong.found)
    for key, span in root.keys.items():
        if key not in PARTS:
            known = _AGENTS_HINT if key in _AGENTS else f"known entries: {', '.join(PARTS)}"
            report(error("unknown-entry", f"the file has no entry {key!r}", span, did_you_mean(key, PARTS) or known))
    return _SystemReader(root, file, folder, report).topology()


class _SystemReader:
    """Reads one file."""

    def __init__(self, root: Table, file: str, folder: Path | None, report: Report) -> None:
        self._root, self._file, self._folder, self._report = root, file, folder, report
        self._spans = dict(root.keys)
        self._teams: dict[str, Agent] = {}

    def topology(self) -> Topology | None:
        """The system, and the agents that answer with turns as nodes."""
        transport = self._part("transport", "the transport", TransportFields)
        plugins = self._part("plugins", "'plugins'", PluginsFields)
        entry = self._entry()
        tree, span = self._root.entries.get("supervision"), self._root.keys.get("supervision")
        if not isinstance(tree, Table) or span is None:
            what = "has no 'supervision'" if tree is None else f"'supervision' must be a table, not {shown(tree)}"
            place = tree.span if tree is not None else self._root.span
            self._report(error("no-supervision", f"the file {what}" if tree is None else what, place, _HINT))
            return None
        root = self._supervisor(tree, span, is_root=True)
        return Topology(
            name=root.name,
            nodes=tuple(self._teams.values()),
            system=System(root=root, transport=transport, plugins=plugins, entry=entry, spans=self._spans),
            file=self._file,
            span=root.span,
            spans={"name": root.span} if root.span is not None else {},
        )

    def _part(self, name: str, owner: str, cls: type[Any]) -> Any:
        value = self._root.entries.get(name)
        if isinstance(value, Table):
            reader = TypedReader(owner, self._root.keys[name], self._report)
            read = reader.read(value, cls)
            self._spans |= {f"{name}.{place}": span for place, span in reader.spans.items()}
            return read
        if value is not None and plain(value) is not None:
            code = "bad-transport" if name == "transport" else "bad-value"
            text = value.value if isinstance(value, Leaf) and isinstance(value.value, str) else "zmq"
            hint = f"write {name}: {{type: {text}}}" if name == "transport" else f"write {name}: {{…}}"
            self._report(error(code, f"{name!r} must be a table, not {shown(value)}", value.span, hint))
        return cls()

    def _entry(self) -> str:
        value = self._root.entries.get("entry")
        if value is None:
            return ""
        self._spans["entry"] = value.span
        if isinstance(value, Leaf) and isinstance(value.value, str) and value.value:
            return value.value
        message = f"'entry' must be the name of an agent, not {shown(value)}"
        self._report(error("bad-value", message, value.span, "write entry: NAME"))
        return ""

    def _supervisor(self, table: Table, where: Span, *, is_root: bool = False) -> SystemNode:
        reader = self._reader("supervisor", table, where)
        fields = reader.read(table, SupervisorFields, also=("children",), but=_NOT_OF_THE_ROOT if is_root else {})
        misspelt = [key for key in table.entries if not is_field(SupervisorFields, key)]
        near = next((key for key in misspelt if did_you_mean(key, ["children"]) or key in _AGENTS), "children")
        children = table.entries.get("children") or table.entries.get(near, Leaf(None, where))
        if not isinstance(children, Sequence) and plain(children) is not None:
            message = f"the children of {_title('supervisor', fields)} must be a list, not {shown(children)}"
            self._report(error("bad-node", message, children.span, "write each child behind a dash: - agent: {…}"))
            nodes: tuple[SystemNode, ...] = (_unreadable(children.span),)
        else:
            listed = children.items if isinstance(children, Sequence) else ()
            nodes = tuple(self._node(each, fields) or _unreadable(each.span) for each in listed)
        spans = reader.spans | ({"children": table.keys["children"]} if "children" in table.keys else {})
        return _made("supervisor", fields, spans, where, nodes)

    def _node(self, value: Value, parent: SupervisorFields) -> SystemNode | None:
        """The child *value* of *parent*; None, with a report, if it is no node."""
        if not isinstance(value, Table):
            message = f"a child of {_title('supervisor', parent)} must be a table, not {shown(value)}"
            self._report(error("bad-node", message, value.span, _NODE_HINT))
            return None
        kinds = [key for key in value.entries if key in WRAPPED]
        if not kinds:
            return self._flat(value, parent)
        kind, inner = kinds[0], value.entries[kinds[0]]
        if not self._is_one_kind(value, kind):
            return None
        if not isinstance(inner, Table):
            message = f"{kind!r} must be a table, not {shown(inner)}"
            self._report(error("bad-node", message, inner.span, f"write {kind}: {{name: …}}"))
            return None
        if kind == "supervisor":
            return self._supervisor(inner, value.keys[kind])
        return self._leaf(kind, WRAPPED[kind], inner, value.keys[kind])

    def _is_one_kind(self, table: Table, kind: str) -> bool:
        """Whether *table* has no entry but *kind*; others are reported."""
        for key in table.entries:
            if key == kind:
                continue
            if key in WRAPPED or key == "type":
                code, message = "two-kinds", f"a node has both {kind!r} and {key!r}"
                hint = "begin a new one with a dash"
            else:
                code, message, hint = "unknown-entry", f"a node with {kind!r} has no entry {key!r}", ""
            if plain(table.entries[kind]) is None or is_field(WRAPPED[kind], key):
                hint = f"indent it below {kind}:"
            self._report(error(code, message, table.keys[key], hint))
            return False
        return True

    def _flat(self, table: Table, parent: SupervisorFields) -> SystemNode | None:
        if "type" in table.entries:
            word = plain(table.entries["type"])
            kind = word if isinstance(word, str) and word in FLAT else "agent"
            return self._leaf(kind, FLAT.get(kind, AgentFields), table, table.span)
        if "name" in table.entries:
            message = f"{_named('the node', table)} has no 'type'"
            self._report(error("missing-type", message, table.keys["name"], _NODE_HINT))
            return None
        flat = next((key for key in table.entries if key in FLAT), "")
        near = next((found for key in table.entries if (found := did_you_mean(key, WRAPPED))), _NODE_HINT)
        hint = f"write - type: {flat}, and its entries below type" if flat else near
        what = listing(table.entries) or "nothing"
        message = f"a child of {_title('supervisor', parent)} is no known node: it has {what}"
        self._report(error("bad-node", message, next(iter(table.keys.values()), table.span), hint))
        return None

    def _leaf(self, kind: str, cls: type[NodeFields], table: Table, where: Span) -> SystemNode:
        reader = self._reader(kind, table, where)
        fields = reader.read(table, cls, also=("type",) if kind in FLAT else ())
        node = _made(kind, fields, reader.spans, where)
        if isinstance(fields, TurnFields) and fields.name not in (UNREADABLE, *self._teams):
            self._teams[fields.name] = self._agent(node, table)
        return node

    def _reader(self, kind: str, table: Table, where: Span) -> TypedReader:
        return TypedReader(_named(kind, table), where, self._report)

    def _agent(self, node: SystemNode, table: Table) -> Agent:
        """The agent that answers for *node* with turns."""
        fields, spans = node.fields, node.spans
        about: dict[str, Any] = {"name": node.name, "span": node.span, "spans": dict(spans)}
        match fields:
            case FlowFields(source=path):
                about["spans"]["extension.topology"] = spans.get("source") or node.span
                return Agent(**about, extension={"topology": path})
            case LoopFields(project=path):
                about["spans"]["extension.topology"] = spans.get("project") or node.span
                return Agent(**about, extension={"topology": loop_file(path)})
            case PatternFields():
                own = without(table, (key for key in table.entries if key not in ("type", "slots", "config")))
                team = None
                if fields.type != UNREADABLE:
                    team = read_team(own, node.name, self._file, self._folder, self._report)
                return Agent(**about, topology=team)
            case ModelFields():
                owner = _title(node.kind, fields)
                is_path, found = read_prompt(fields.prompt, self._folder, owner, spans.get("prompt"))
                if found is not None:
                    self._report(found)
                return Agent(
                    **about,
                    model=fields.model,
                    prompt=fields.prompt,
                    prompt_is_path=is_path,
                    tools=fields.tools,
                    timeout=fields.timeout,
                    extension={"backend": "model"},
                )
            case CommandFields():
                about["spans"]["extension.command"] = spans.get("argv") or node.span
                extension = {"command": list(fields.argv), **({"cwd": fields.cwd} if fields.cwd else {})}
                return Agent(**about, timeout=fields.timeout, extension=extension)
        raise AssertionError(node.kind)


_NOT_OF_THE_ROOT = dict.fromkeys(("restart", "shutdown"), "the root has no supervisor that restarts or stops it")
"""Fields that the root does not have, and why."""


def _overridden(root: Table, path: str, value: Any) -> Table:
    """*root* with *value* at the dotted *path*, below one of its parts."""
    first, *rest = path.split(".")
    if first not in PARTS or not all(rest):
        hint = did_you_mean(first, PARTS) or "write transport.type, supervision.max_restarts or the like"
        raise InvalidValue("unknown-param", f"a system has no setting {path!r}", hint)
    return entered(root, [first, *rest], value)


def _named(kind: str, table: Table) -> str:
    name = table.entries.get("name")
    return f"{kind} {name.value!r}" if isinstance(name, Leaf) and isinstance(name.value, str) else f"the {kind}"


def _title(kind: str, fields: NodeFields) -> str:
    return f"{kind} {fields.name!r}" if fields.name != UNREADABLE else f"the {kind}"


def _made(
    kind: str, fields: NodeFields, spans: Mapping[str, Span], where: Span, children: tuple[SystemNode, ...] = ()
) -> SystemNode:
    return SystemNode(kind=kind, fields=fields, children=children, span=spans.get("name", where), spans=spans)


def _unreadable(span: Span) -> SystemNode:
    """Placeholder of a node that was reported; rules ignore it."""
    return SystemNode(kind="agent", fields=AgentFields(name=UNREADABLE, type=UNREADABLE), span=span)
