"""Compute the possible answers of a turn; answers are equal if no condition and no parent run distinguishes them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, NamedTuple

from coterie.history.engines.replies import fit
from coterie.history.engines.schemas import sample_list
from coterie.proofs.domains import MISSING, representatives, some_value
from coterie.proofs.exploration import OverBudget
from coterie.proofs.shape import FlowShape, ListSize
from coterie.proofs.state import Gave, TurnAnswer
from coterie.team.planning.plan import Wanted
from coterie.team.topology.conditions import Condition, Scalar

MOST = 10_000
"""The most answers of one node; with more, its flow is not explored."""
INVALID = "invalid"
"""The meaning of an output that does not fit its declaration."""


class WatchedOutput(NamedTuple):
    """A parent's view of one output of its child run.

    Attributes:
        constants: The values that the parent distinguishes.
        meaning: Maps a value to its meaning for the parent.
    """

    constants: tuple[Scalar, ...]
    meaning: Callable[[Any], Hashable]


Watch = Mapping[str, WatchedOutput]
"""The outputs that a parent reads, by name."""


def answers(shape: FlowShape, node: int, place: int, watch: Watch | None) -> list[TurnAnswer]:
    """The possible answers of the agent at *place* of *node*, as far as conditions and *watch* distinguish them.

    If nothing reads the outputs there is one answer, without outputs: a rehearsal fills in the declared ones. (A
    fallback must give the outputs that the node declares.)
    """
    if watch is None and place == 0 and not _reading(shape, node):
        return [TurnAnswer(holds=0, outputs={})]
    return [
        TurnAnswer(holds=holds, outputs=outputs, gave=gave_of(outputs, watch) if watch is not None else None)
        for holds, outputs in _combinations(shape, node, watch or {})
    ]


def gave_of(outputs: Mapping[str, Any], watch: Watch) -> Gave:
    """The meaning of *outputs* for a parent."""
    if not outputs:
        return ()
    return tuple(f.meaning(outputs[name]) if name in outputs else MISSING for name, f in watch.items())


def child_watch(shape: FlowShape, node: int, above: Watch | None) -> dict[str, WatchedOutput]:
    """The outputs of its child run that *node* reads; *above* are the outputs that the parent of *node* reads."""
    fields = dict.fromkeys([*(wanted.name for wanted in fields_of(shape, node) if _is_read(shape, node, wanted))])
    return {name: _child_field(shape, node, name, (above or {}).get(name)) for name in [*fields, *(above or {})]}


def texts(shape: FlowShape, node: int, watch: Watch) -> Iterator[dict[str, Any]]:
    """The outputs that the text of a child run may contain if its last nodes give none.

    Outputs that do not fit the declaration of *node* are omitted.
    """
    if not any(wanted.declared for wanted in fields_of(shape, node)):
        yield {}
    wanted = {
        each.name for each in shape.agent(shape.names[node]).outputs
    }  # the only outputs that are searched for in a text
    for _, outputs in _combinations(shape, node, watch):
        if outputs and wanted.issuperset(outputs):
            yield outputs


def holds_of(shape: FlowShape, node: int, outputs: Mapping[str, Any]) -> int:
    """The conditions on *node* that hold with *outputs*."""
    mask = 0
    for n, condition in enumerate(shape.conditions):
        if shape.own[node] >> n & 1 and condition.field in outputs and condition.holds(outputs[condition.field]):
            mask |= 1 << n
    return mask


def fields_of(shape: FlowShape, node: int) -> list[Wanted]:
    """The outputs of *node*: the requested ones, and the ones that conditions read."""
    wanted = {each.name: each for each in shape.agent(shape.names[node]).outputs}
    for condition in _reading(shape, node):
        wanted.setdefault(condition.field, Wanted(name=condition.field, declared=False))
    return list(wanted.values())


def _reading(shape: FlowShape, node: int) -> list[Condition | ListSize]:
    return [condition for n, condition in enumerate(shape.conditions) if shape.own[node] >> n & 1]


def _is_read(shape: FlowShape, node: int, wanted: Wanted) -> bool:
    return wanted.declared or any(condition.field == wanted.name for condition in _reading(shape, node))


def item_answers(shape: FlowShape, node: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The possible answers of an item of the mapped *node*, each with the comparisons that hold for it."""
    return _combinations(shape, node, {}) if _reading(shape, node) else iter([(0, {})])


def _combinations(shape: FlowShape, node: int, watch: Watch) -> Iterator[tuple[int, dict[str, Any]]]:
    options: list[list[tuple[str, Any, int]]] = []
    given = fields_of(shape, node)
    unasked = [name for name in watch if all(name != wanted.name for wanted in given)]
    for wanted in [*given, *(Wanted(name=name, declared=False) for name in unasked)]:
        options.append([(wanted.name, value, holds) for value, holds in _values(shape, node, wanted, watch)])
    if (ways := prod(map(len, options))) > MOST:
        raise OverBudget(f"{shape.names[node]!r} can answer in {ways} ways")
    for chosen in product(*options):
        outputs = {name: value for name, value, _ in chosen if value is not MISSING}
        yield sum(holds for _, _, holds in chosen), outputs


def _values(shape: FlowShape, node: int, wanted: Wanted, watch: Watch) -> Iterable[tuple[Any, int]]:
    """Distinguishable values of one output, each with the conditions that hold for it."""
    reading = {n: c for n, c in enumerate(shape.conditions) if shape.own[node] >> n & 1 and c.field == wanted.name}
    if node in shape.maps:  # of an item, which says nothing of how many there are
        reading = {n: condition for n, condition in reading.items() if not isinstance(condition, ListSize)}
    seen = watch.get(wanted.name)
    if not reading and seen is None:
        return [(some_value(wanted), 0)] if wanted.declared else [(MISSING, 0)]
    constants = [condition.value for condition in reading.values()] + list(seen.constants if seen else ())
    found: dict[Hashable, tuple[Any, int]] = {}
    sizes = [one.size * (one.by or 1) for one in reading.values() if isinstance(one, ListSize)]
    lists = [sample_list(wanted.schema or {}, size) for size in sizes]
    for value in lists or representatives(wanted, constants):
        if value is MISSING:
            found.setdefault((0, MISSING), (value, 0))
            continue
        holds = sum(1 << n for n, one in reading.items() if one.compares(value))
        found.setdefault((holds, seen.meaning(value) if seen else None), (value, holds))
    return found.values()


def _child_field(shape: FlowShape, node: int, name: str, above: WatchedOutput | None) -> WatchedOutput:
    wanted = next((each for each in fields_of(shape, node) if each.name == name), None)
    reading = [condition for condition in _reading(shape, node) if condition.field == name]
    constants = [condition.value for condition in reading] + list(above.constants if above else ())
    declared = wanted is not None and wanted.declared
    if wanted is not None and declared:
        values = list(representatives(wanted, constants))
        constants += [*values, *(value for value in (True, False) if wanted.type == "boolean")]

    def meaning(value: Any) -> Hashable:
        if wanted is not None and declared:
            value = fit(value, wanted)
            if value is None:
                return INVALID
        truths = tuple(condition.holds(value) for condition in reading)
        return truths, above.meaning(value) if above is not None else None

    return WatchedOutput(tuple(constants), meaning)
