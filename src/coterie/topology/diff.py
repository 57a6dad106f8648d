"""Semantic difference between two teams: what was added, removed, renamed, changed or reordered.

Positions in the file and the order of declarations are ignored. The order of arrows counts where it has an effect:
which of a node's arrows comes first, in which order marks are listed, which node starts first. The comparison walks
the model's values generically, so new fields of the model are compared without a change here.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from coterie.topology.block import Block
from coterie.topology.conditions import Condition
from coterie.topology.graph import FlowGraph
from coterie.topology.loops import bounded
from coterie.topology.model import AgentGroup, ArrowGroup, Flow, Topology


class DifferenceKind(Enum):
    """How an element differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RENAMED = "renamed"
    REORDERED = "reordered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        what: The element, by its new name if it has one: `agent writer`, `arrow a -> b`, `role critic`.
        field: The changed field, `retry.max`; empty for the element itself.
        old: Old value as plain data; None if absent.
        new: New value, likewise.
    """

    kind: DifferenceKind
    what: str
    field: str = ""
    old: Any = None
    new: Any = None


def diff(old: Topology, new: Topology) -> tuple[Difference, ...]:
    """All differences from *old* to *new*: renames first, then by field of the model, order last."""
    names = _renames(old, new)
    called = [
        Difference(kind=DifferenceKind.RENAMED, what=_title(node), old=node.name, new=names[node.name])
        for node in old.nodes
        if node.name in names
    ]
    old = _renamed(old, names)
    return (*called, *_team(old, new), *_order(old.flow or Flow(), new.flow or Flow()))


_SETS = frozenset(
    {"patterns", "tools", "disallowed_tools", "values", "handles", "members", "writes", "targets", "skills"}
)
"""Sequences whose order has no meaning."""

# fmt: off
_REFERENCES = frozenset({
    "source", "targets", "per", "mentions", "agent", "action", "after", "before", "reads", "members", "handles",
    "omit", "compensates", "error-handler", "entry", "exit", "node",
})
# fmt: on
"""Fields that name nodes; a policy field names one after the word `fallback`."""

_NOTHING: tuple[Any, ...] = (None, "", (), {}, [])


def _team(old: Topology, new: Topology) -> Iterator[Difference]:
    for each in fields(Topology):
        before, after = getattr(old, each.name), getattr(new, each.name)
        if not each.compare or each.name == "file" or before == after:
            continue
        word = each.name.replace("_", "-")
        if each.name == "flow":
            yield from _arrows(before or Flow(), after or Flow())
        elif each.name == "roles":
            yield from _mapping("role", before, after)
        elif each.name == "blocks":
            yield from _blocks(before, after)
        elif _is_keyed(before) and _is_keyed(after):
            yield from _things(before, after)
        elif isinstance(before, Mapping) or is_dataclass(before) or is_dataclass(after):
            yield from _compare(word, "", before, after)
        else:
            yield from _compare("topology", word, before, after)


def _things(old: Sequence[Any], new: Sequence[Any]) -> Iterator[Difference]:
    """Compare named values by name."""
    before, after = _by_key(old, titled=True), _by_key(new, titled=True)
    for key in dict.fromkeys((*before, *after)):
        if key not in after:
            yield Difference(kind=DifferenceKind.REMOVED, what=_title(before[key]), old=_plain(before[key]))
        elif key not in before:
            yield Difference(kind=DifferenceKind.ADDED, what=_title(after[key]), new=_plain(after[key]))
        else:
            if type(before[key]) is not type(after[key]):
                kinds = _word(before[key]), _word(after[key])
                yield Difference(
                    kind=DifferenceKind.CHANGED, what=_title(after[key]), field="kind", old=kinds[0], new=kinds[1]
                )
            yield from _fields(_title(after[key]), "", before[key], after[key])


def _blocks(old: Mapping[str, Block], new: Mapping[str, Block]) -> Iterator[Difference]:
    for kind in dict.fromkeys((*old, *new)):
        before, after = (blocks.get(kind, Block(kind=kind)) for blocks in (old, new))
        yield from _compare(kind, "", *(_view(replace(block, entries=())) or None for block in (before, after)))
        yield from _things(before.entries, after.entries)


def _mapping(word: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for key in dict.fromkeys((*old, *new)):
        yield from _compare(f"{word} {key}", "", old.get(key), new.get(key))


def _compare(what: str, path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Compare two values recursively as long as both have the same shape."""
    if old == new:
        return
    if isinstance(old, Block) and isinstance(new, Block):
        old, new = _view(old), _view(new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _compare(what, _join(path, str(key)), old.get(key), new.get(key))
    elif is_dataclass(old) and type(old) is type(new) and not isinstance(old, Condition):
        yield from _fields(what, path, old, new)
    elif _is_keyed(old) and _is_keyed(new):
        before, after = _by_key(old), _by_key(new)
        for key in dict.fromkeys((*before, *after)):
            yield from _compare(what, _join(path, key), before.get(key), after.get(key))
    elif not (path.rpartition(".")[2].replace("-", "_") in _SETS and _same_set(old, new)):
        kind = (
            DifferenceKind.ADDED
            if old in _NOTHING
            else DifferenceKind.REMOVED
            if new in _NOTHING
            else DifferenceKind.CHANGED
        )
        yield Difference(kind=kind, what=what, field=path, old=_plain(old), new=_plain(new))


def _fields(what: str, path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Compare the fields of two values, which may have different types."""
    if isinstance(old, Block):
        yield from _compare(what, path, old, new)
        return
    names = [each.name for value in (old, new) for each in fields(value) if each.compare and each.name != "name"]
    for name in dict.fromkeys(names):
        yield from _compare(
            what, _join(path, name.replace("_", "-")), getattr(old, name, None), getattr(new, name, None)
        )


# ---- the flow


def _arrows(old: Flow, new: Flow) -> Iterator[Difference]:
    pairs, gone, come = _matched(old.groups, new.groups)
    for before, after in pairs:
        for change in _fields(f"arrow {after}", "", before, after):
            if change.field not in ("source", "implied-max"):
                yield change
    for group in gone:
        yield Difference(kind=DifferenceKind.REMOVED, what=f"arrow {group}", old=_plain(group))
    for group in come:
        yield Difference(kind=DifferenceKind.ADDED, what=f"arrow {group}", new=_plain(group))
    yield from (Difference(kind=DifferenceKind.REMOVED, what=f"start of {name}") for name in _alone(old, new))
    yield from (Difference(kind=DifferenceKind.ADDED, what=f"start of {name}") for name in _alone(new, old))


def _alone(flow: Flow, other: Flow) -> list[str]:
    """The nodes without arrows in *flow* that *other* does not mention: they start with the run."""
    joined = {name for group in flow.groups for name in (group.source, *group.targets)}
    return [name for name in flow.mentions if name not in joined and name not in other.mentions]


def _matched(
    old: Sequence[ArrowGroup], new: Sequence[ArrowGroup]
) -> tuple[list[tuple[ArrowGroup, ArrowGroup]], list[ArrowGroup], list[ArrowGroup]]:
    """Pair equal arrows first, then increasingly different ones; return pairs, removed and added arrows."""
    pairs: list[tuple[ArrowGroup, ArrowGroup]] = []
    gone, come = list(old), list(new)
    for key in _ALIKE:
        waiting: dict[Hashable, list[ArrowGroup]] = {}
        for group in come:
            waiting.setdefault(key(group), []).append(group)
        left: list[ArrowGroup] = []
        for group in gone:
            if found := waiting.get(key(group)):
                pairs.append((group, found.pop(0)))
            else:
                left.append(group)
        gone = left
        taken = {id(after) for _, after in pairs}
        come = [group for group in come if id(group) not in taken]
    return pairs, gone, come


def _attributes(group: ArrowGroup) -> Hashable:
    return str(group.when), group.max, group.per, group.on_max, str(_plain(group.kept))


_ALIKE: tuple[Callable[[ArrowGroup], Hashable], ...] = (
    lambda group: (group.source, frozenset(group.targets), _attributes(group)),
    lambda group: (group.source, frozenset(group.targets), str(group.when)),
    lambda group: (group.source, frozenset(group.targets)),
    lambda group: (group.source, _attributes(group)) if group.when is not None or group.max is not None else id(group),
)


def _order(old: Flow, new: Flow) -> Iterator[Difference]:
    """Meaningful changes in the order of arrows and nodes that both flows have."""
    pairs, _, _ = _matched(old.groups, new.groups)
    was = {id(after): before for before, after in pairs}
    after = [group for group in new.groups if id(group) in was]
    places = {id(group): number for number, group in enumerate(old.groups)}
    before = sorted(after, key=lambda group: places[id(was[id(group)])])
    yield from _by_end("arrows from", before, after, lambda group: [group.source])
    yield from _by_end("arrows into", before, after, lambda group: list(group.targets))
    common = set(old.mentions) & set(new.mentions)
    if [name for name in old.mentions if name in common] != [name for name in new.mentions if name in common]:
        ranks = [[name for name in _starts(flow) if name in common] for flow in (old, new)]
        if ranks[0] != ranks[1]:
            yield Difference(kind=DifferenceKind.REORDERED, what="start order", old=ranks[0], new=ranks[1])


def _by_end(
    what: str, old: Sequence[ArrowGroup], new: Sequence[ArrowGroup], ends: Callable[[ArrowGroup], list[str]]
) -> Iterator[Difference]:
    for name in dict.fromkeys(end for group in new for end in ends(group)):
        before, after = ([group for group in flow if name in ends(group)] for flow in (old, new))
        if [id(group) for group in before] != [id(group) for group in after]:
            said = [list(map(str, before)), list(map(str, after))]
            if said[0] == said[1]:
                said = [[f"{group} [when {group.when}]" for group in flow] for flow in (before, after)]
            yield Difference(kind=DifferenceKind.REORDERED, what=f"{what} {name}", old=said[0], new=said[1])


def _starts(flow: Flow) -> list[str]:
    flow = bounded(flow)
    rank = FlowGraph(flow.mentions, flow.groups).rank
    return sorted(rank, key=rank.__getitem__)


# ---- names


def _renames(old: Topology, new: Topology) -> dict[str, str]:
    """Nodes that were only renamed: their fields and the arrows around them are unchanged."""
    before, after = ({node.name: node for node in team.nodes} for team in (old, new))
    unknown = before.keys() ^ after.keys()
    found: dict[str, str] = {}
    for name in (name for name in before if name not in after):
        for other in after:
            if other in before or other in found.values():
                continue
            same = _with_names(replace(before[name], name=other), {name: other}) == after[other]
            if same and _around(old, name, unknown) == _around(new, other, unknown):
                found[name] = other
                break
    return found


def _around(team: Topology, name: str, unknown: Iterable[str]) -> Counter[str]:
    """Arrows that touch *name* and slots it fills; placeholders replace it and names only one team has."""
    signs = dict.fromkeys(unknown, "?") | {name: "!"}
    groups = team.flow.groups if team.flow is not None else ()
    slots = team.pattern.slots if team.pattern is not None else ()
    touching: list[Any] = [group for group in groups if name in (group.source, *group.targets)]
    touching += [slot for slot in slots if name == slot.node]
    return Counter(str(_plain(_with_names(each, signs))) for each in touching)


def _renamed(team: Topology, names: Mapping[str, str]) -> Topology:
    if not names:
        return team
    nodes = tuple(replace(node, name=names.get(node.name, node.name)) for node in team.nodes)
    renamed: Topology = _with_names(replace(team, nodes=nodes), names)
    return renamed


def _with_names(value: Any, names: Mapping[str, str], field: str = "") -> Any:
    """*value* with references to nodes replaced by their new *names*."""
    if isinstance(value, str):
        if field in _REFERENCES:
            return names.get(value, value)
        word, _, name = value.partition(" ")
        return f"fallback {names[name]}" if word == "fallback" and name in names else value
    if isinstance(value, tuple):
        return tuple(_with_names(each, names, field) for each in value)
    if isinstance(value, Mapping):
        return {key: _with_names(each, names, key) for key, each in value.items()}
    if isinstance(value, Block):
        return replace(value, fields=_with_names(value.fields, names), entries=_with_names(value.entries, names))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            each.name: _with_names(getattr(value, each.name), names, each.name)
            for each in fields(value)
            if each.compare and each.init
        }
        return replace(value, **changed)
    return value


# ---- values


def _is_keyed(value: Any) -> bool:
    """Whether *value* is a (possibly empty) sequence of named values."""
    return isinstance(value, tuple) and all(is_dataclass(each) and hasattr(each, "name") for each in value)


def _by_key(things: Iterable[Any], titled: bool = False) -> dict[str, Any]:
    """*things* by name; if *titled*, blocks by kind and name."""
    found: dict[str, Any] = {}
    for thing in things:
        key = name = _title(thing) if titled and isinstance(thing, Block) else str(thing.name)
        number = 1
        while key in found:
            number += 1
            key = f"{name}#{number}"
        found[key] = thing
    return found


def _title(thing: Any) -> str:
    word = _word(thing)
    return f"{word} {thing.name}".strip() if word != thing.name else word


def _word(thing: Any) -> str:
    """The keyword of an element: `agent`, `mcp-server`."""
    if isinstance(thing, AgentGroup):
        return "group"
    if isinstance(thing, Block):
        return thing.kind
    name = type(thing).__name__
    return "".join(f"-{c.lower()}" if c.isupper() and at else c.lower() for at, c in enumerate(name))


def _view(block: Block) -> dict[str, Any]:
    """Everything *block* contains, by name."""
    return {**block.fields, **block.kept, **_by_key(block.entries)}


def _same_set(old: Any, new: Any) -> bool:
    return isinstance(old, tuple) and isinstance(new, tuple) and Counter(old) == Counter(new)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _plain(value: Any) -> Any:
    """*value* as plain data, without fields that have their default."""
    if isinstance(value, Condition):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Block):
        return _plain({"name": value.name, **_view(value)} if value.name else _view(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: _plain(inner)
            for each in fields(value)
            if each.compare
            and (inner := getattr(value, each.name)) not in _NOTHING
            and inner != (None if each.default is MISSING else each.default)
        }
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
