"""The semantic difference between two teams: elements that were added, removed, renamed, changed or reordered.

Positions in the file and the order of declarations are ignored. The order of arrows counts where it has an effect:
which of a node's arrows comes first, in which order marks are listed, which node starts first. The comparison walks
the model's values generically, so new fields of the model are compared without a change here.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Located
from coterie.team.topology.block import Block
from coterie.team.topology.conditions import Condition
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.loops import bounded
from coterie.team.topology.model import AgentGroup, ArrowGroup, Flow, Topology
from coterie.team.topology.parts import both, by_name, fields_of, is_keyed, parts_of


class DifferenceKind(Enum):
    """How an element differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RENAMED = "renamed"
    REORDERED = "reordered"


class Difference(Struct, frozen=True, kw_only=True):
    """One difference.

    Attributes:
        what: The element, with its new name if it has one: `agent writer`, `arrow a -> b`, `role critic`.
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
    for (name, before, _), (_, after, _) in zip(fields_of(old), fields_of(new), strict=True):
        word = name.replace("_", "-")
        if name == "file" or before == after:
            continue
        if name == "flow":
            yield from _arrows(before or Flow(), after or Flow())
        elif name == "roles":
            for role, text, other in both(before, after):
                yield from _compare(f"role {role}", "", text, other)
        elif name == "blocks":
            yield from _blocks(before, after)
        elif is_keyed(before) and is_keyed(after):
            yield from _things(before, after)
        elif isinstance(before, Mapping | Located) or isinstance(after, Located):
            yield from _compare(word, "", before, after)
        else:
            yield from _compare("topology", word, before, after)


def _things(old: Sequence[Any], new: Sequence[Any]) -> Iterator[Difference]:
    """Compare named values by name, blocks by kind and name."""
    for _, before, after in both(*(by_name(things, _key) for things in (old, new))):
        what = _title(before if after is None else after)
        if before is None or after is None:
            yield _difference(what, before, after)
            continue
        if type(before) is not type(after):
            yield _difference(what, _word(before), _word(after), "kind")
        yield from _parts(what, "", before, after)


def _blocks(old: Mapping[str, Block], new: Mapping[str, Block]) -> Iterator[Difference]:
    for kind, *found in both(old, new):
        before, after = (block or Block(kind=kind) for block in found)
        yield from _compare(kind, "", *(parts_of(replace(block, entries=())) or None for block in (before, after)))
        yield from _things(before.entries, after.entries)


def _compare(what: str, path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Compare two values recursively as long as both have the same shape."""
    if old == new:
        return
    shapes = {Mapping if isinstance(value, Mapping) else type(value) for value in (old, new)}
    if len(shapes) == 1 and parts_of(old) is not None and parts_of(new) is not None:
        yield from _parts(what, path, old, new)
    elif not (path.rpartition(".")[2].replace("-", "_") in _SETS and _same_set(old, new)):
        yield _difference(what, old, new, path)


def _parts(what: str, path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Compare the parts of two values, which may have different types."""
    for name, before, after in both(parts_of(old) or {}, parts_of(new) or {}):
        yield from _compare(what, f"{path}.{name}" if path else name, before, after)


def _difference(what: str, old: Any, new: Any, field: str = "") -> Difference:
    kind = (
        DifferenceKind.ADDED
        if old in _NOTHING
        else DifferenceKind.REMOVED
        if new in _NOTHING
        else DifferenceKind.CHANGED
    )
    return Difference(kind=kind, what=what, field=field, old=_plain(old), new=_plain(new))


# ---- the flow


def _arrows(old: Flow, new: Flow) -> Iterator[Difference]:
    paired = _paired(old.groups, new.groups)
    for at, to in paired.items():
        changes = _parts(f"arrow {new.groups[to]}", "", old.groups[at], new.groups[to])
        yield from (change for change in changes if change.field not in ("source", "implied-max"))
    taken = set(paired.values())
    yield from (_difference(f"arrow {group}", group, None) for at, group in enumerate(old.groups) if at not in paired)
    yield from (_difference(f"arrow {group}", None, group) for at, group in enumerate(new.groups) if at not in taken)
    maps = [{one.node: replace(one, group=-1) for one in reversed(flow.each)} for flow in (old, new)]
    for name, before, after in both(*maps):
        yield from _compare(f"map of {name}", "", before, after)
    yield from (Difference(kind=DifferenceKind.REMOVED, what=f"start of {name}") for name in _alone(old, new))
    yield from (Difference(kind=DifferenceKind.ADDED, what=f"start of {name}") for name in _alone(new, old))


def _alone(flow: Flow, other: Flow) -> list[str]:
    """The nodes without arrows in *flow* that *other* does not mention: they start with the run."""
    joined = {name for group in flow.groups for name in (group.source, *group.targets)}
    return [name for name in flow.mentions if name not in joined and name not in other.mentions]


def _paired(old: Sequence[ArrowGroup], new: Sequence[ArrowGroup]) -> dict[int, int]:
    """The indices of arrows in *old* and of their counterparts in *new*, matched from equal to less similar ones."""
    paired: dict[int, int] = {}
    for key in _ALIKE:
        waiting, taken = defaultdict[Hashable, list[int]](list), set(paired.values())
        for at, group in enumerate(new):
            if at not in taken:
                waiting[key(group)].append(at)
        for at, group in enumerate(old):
            if at not in paired and (found := waiting[key(group)]):
                paired[at] = found.pop(0)
    return paired


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
    paired = _paired(old.groups, new.groups)
    before = [new.groups[paired[at]] for at in sorted(paired)]
    after = [new.groups[at] for at in sorted(paired.values())]
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
    """The arrows at *name* and the slots that it fills, with placeholders for it and for names of only one team."""
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
    if isinstance(value, Located | Condition):
        return replace(value, **{name: _with_names(inner, names, name) for name, inner, _ in fields_of(value)})
    return value


# ---- values


def _key(thing: Any) -> str:
    return _title(thing) if isinstance(thing, Block) else str(thing.name)


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


def _same_set(old: Any, new: Any) -> bool:
    return isinstance(old, tuple) and isinstance(new, tuple) and Counter(old) == Counter(new)


def _plain(value: Any) -> Any:
    """*value* as plain data, without fields that have their default."""
    match value:
        case Condition():
            return str(value)
        case Enum():
            return value.value
        case Block():
            return _plain(({"name": value.name} if value.name else {}) | dict(parts_of(value) or {}))
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case tuple() | list():
            return [_plain(inner) for inner in value]
    if isinstance(value, Located):
        return {
            name: _plain(inner)
            for name, inner, default in fields_of(value)
            if inner not in _NOTHING and inner != default
        }
    return value
