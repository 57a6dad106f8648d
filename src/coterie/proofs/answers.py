"""The ways in which a turn can be answered, told apart only where somebody looks: a condition, or a parent run."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, NamedTuple

from coterie.engines.replies import fit
from coterie.planning.plan import Wanted
from coterie.proofs.domains import MISSING, representatives, some_value
from coterie.proofs.exploring import OverBudget
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import Gave, TurnAnswer
from coterie.topology.conditions import Condition, Scalar

MOST = 10_000
"""Beyond so many answers of one node nobody looks at all states that follow."""
INVALID = "invalid"
"""What an output means that does not fit what the node declares."""


class WatchedOutput(NamedTuple):
    """How a parent looks at one output of its child run.

    Attributes:
        constants: Values it can tell apart from others.
        meaning: What a value means to it.
    """

    constants: tuple[Scalar, ...]
    meaning: Callable[[Any], Hashable]


Watch = Mapping[str, WatchedOutput]
"""What a parent looks at, by the output's name."""


def answers(shape: FlowShape, node: int, place: int, watch: Watch | None) -> list[TurnAnswer]:
    """What the agent at *place* can answer at *node*: one answer for each way in which conditions and *watch* see it.

    Where nobody looks there is one answer, without outputs: a rehearsal fills in what the agent declares. (A fallback
    must give what the node declares for which it stands in.)
    """
    if watch is None and place == 0 and not _reading(shape, node):
        return [TurnAnswer(holds=0, outputs={})]
    return [
        TurnAnswer(holds=holds, outputs=outputs, gave=gave_of(outputs, watch) if watch is not None else None)
        for holds, outputs in _combinations(shape, node, watch or {})
    ]


def gave_of(outputs: Mapping[str, Any], watch: Watch) -> Gave:
    """What *outputs* mean to a parent."""
    if not outputs:
        return ()
    return tuple(f.meaning(outputs[name]) if name in outputs else MISSING for name, f in watch.items())


def child_watch(shape: FlowShape, node: int, above: Watch | None) -> dict[str, WatchedOutput]:
    """What *node* looks at in the outputs of the child run that answers there; *above* is what its parent looks at."""
    fields = dict.fromkeys([*(wanted.name for wanted in fields_of(shape, node) if _is_read(shape, node, wanted))])
    return {name: _child_field(shape, node, name, (above or {}).get(name)) for name in [*fields, *(above or {})]}


def texts(shape: FlowShape, node: int, watch: Watch) -> Iterator[dict[str, Any]]:
    """The outputs that can be found in what a child run says, when its last nodes give none: anything, or nothing.

    Those that do not fit what *node* declares are not among them.
    """
    if not any(wanted.declared for wanted in fields_of(shape, node)):
        yield {}
    wanted = {each.name for each in shape.agent(shape.names[node]).outputs}  # a text is searched for nothing else
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
    """The outputs that *node* may give: those it is asked for, and whatever a condition reads."""
    wanted = {each.name: each for each in shape.agent(shape.names[node]).outputs}
    for condition in _reading(shape, node):
        wanted.setdefault(condition.field, Wanted(name=condition.field, declared=False))
    return list(wanted.values())


def _reading(shape: FlowShape, node: int) -> list[Condition]:
    return [condition for n, condition in enumerate(shape.conditions) if shape.own[node] >> n & 1]


def _is_read(shape: FlowShape, node: int, wanted: Wanted) -> bool:
    return wanted.declared or any(condition.field == wanted.name for condition in _reading(shape, node))


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
    """Values of one output, each with the conditions that hold with it, no two seen alike."""
    reading = {n: c for n, c in enumerate(shape.conditions) if shape.own[node] >> n & 1 and c.field == wanted.name}
    seen = watch.get(wanted.name)
    if not reading and seen is None:
        return [(some_value(wanted), 0)] if wanted.declared else [(MISSING, 0)]
    constants = [condition.value for condition in reading.values()] + list(seen.constants if seen else ())
    found: dict[Hashable, tuple[Any, int]] = {}
    for value in representatives(wanted, constants):
        if value is MISSING:
            found.setdefault((0, MISSING), (value, 0))
            continue
        holds = sum(1 << n for n, condition in reading.items() if condition.holds(value))
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
