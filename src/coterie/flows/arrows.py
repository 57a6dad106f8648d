"""Arrows in Python: `writer >> reviewer`, `(reviewer >> writer).when(reviewer.verdict == "revise").max(2)`.

Each operator returns a new value; nothing is registered anywhere. `Arrows` is one statement of a flow: a chain of nodes
and lists of nodes, whose attributes belong to its last arrow, as in the `.at` notation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from coterie.errors import UsageError
from coterie.team.topology.conditions import Condition, Operator, Scalar
from coterie.team.topology.model import RUN_INPUT, ArrowGroup, Each

_ATTRIBUTES = ("when", "max", "per", "on_max", "each")


class Comparison(Struct, frozen=True):
    """A comparison of an agent's output with a constant, for `Arrows.when`."""

    node: "ArrowEnd"
    output: str
    op: Operator
    value: Scalar
    over: str = ""

    def __bool__(self) -> NoReturn:
        """Refuse `and`, `or` and `not`, which would silently drop a comparison."""
        raise UsageError(
            f"{self} is a condition of an arrow, and has no truth value: an arrow takes one comparison; "
            "write an arrow for each instead of `and` or `or`"
        )

    def __str__(self) -> str:
        return str(self.condition("…"))

    def condition(self, name: str = "") -> Condition:
        """It as the condition of an arrow; *name* replaces a missing name of the node."""
        return Condition(self.node.flow_name or name, self.output, self.op, self.value, self.over)


class OutputRef:
    """An output of an agent, `reviewer.verdict`; comparing it gives a condition.

    Of an agent that works on each item of a list, `reader.verdict.any == "revise"` or `reader.verdict.all == "ok"`.
    """

    __slots__ = ("node", "output", "over")

    def __init__(self, node: "ArrowEnd", output: str, over: str = "") -> None:
        self.node, self.output, self.over = node, output, over

    @property
    def any(self) -> "OutputRef":
        """It for any item, in a comparison."""
        return OutputRef(self.node, self.output, "any")

    @property
    def all(self) -> "OutputRef":
        """It for all items, in a comparison; over no items it is true."""
        return OutputRef(self.node, self.output, "all")

    def __eq__(self, value: object) -> Comparison:  # type: ignore[override]  # a condition, as in SQLAlchemy
        return self._compare(Operator.EQ, value)

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override]
        return self._compare(Operator.NE, value)

    def __lt__(self, value: float) -> Comparison:
        return self._compare(Operator.LT, value)

    def __le__(self, value: float) -> Comparison:
        return self._compare(Operator.LE, value)

    def __gt__(self, value: float) -> Comparison:
        return self._compare(Operator.GT, value)

    def __ge__(self, value: float) -> Comparison:
        return self._compare(Operator.GE, value)

    __hash__ = None  # type: ignore[assignment]  # `==` does not say whether two are the same

    def __bool__(self) -> NoReturn:
        raise UsageError(f"{self} is an output, known only in a run: compare it, {self} == True")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Explain the usual mistake, `a >> b.when(…)`."""
        if self.output in _ATTRIBUTES:
            name = self.node.flow_name or "b"
            raise UsageError(f"put brackets around the arrow: (… >> {name}).{self.output}(…)")
        raise UsageError(f"{self} is an output, and cannot be called")

    def __str__(self) -> str:
        return f"{self.node.flow_name or '…'}.{self.output}{f'.{self.over}' if self.over else ''}"

    __repr__ = __str__

    def _compare(self, op: Operator, value: object) -> Comparison:
        if isinstance(value, OutputRef):
            raise UsageError(f"{self} {op.value} {value}: an output is compared with a constant, not with an output")
        if not isinstance(value, str | int | float):
            raise UsageError(f"{self} is compared with a text, a number, True or False, not with {value!r}")
        return Comparison(self.node, self.output, op, value, self.over)


class ArrowEnd:
    """Base class of everything an arrow can lead to.

    `node.verdict` and `node["verdict"]` are its outputs, for conditions.
    """

    flow_name: str = ""
    """Its name in the flow."""

    def __rshift__(self, target: "Target") -> "Arrows":
        return Arrows((_side(self),)) >> target

    def __rrshift__(self, source: "Target") -> "Arrows":
        return Arrows((_side(source), _side(self)))

    def each(self, items: "OutputRef | str", **how: Any) -> "Arrows":
        """Start the flow with this agent, once for each of *items* of the run's input; see `Arrows.each`."""
        if isinstance(items, OutputRef):
            raise UsageError(f"no arrow leads from {items.node.flow_name or '…'} here: write (… >> …).each({items}, …)")
        return Arrows((_side(self),)).each(items, **how)

    def __getattr__(self, name: str) -> OutputRef:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return OutputRef(self, name)

    def __getitem__(self, name: str) -> OutputRef:
        return OutputRef(self, name)

    __iter__ = None  # else a loop over it, as in `reads=writer`, would not end: it has every item


Target = ArrowEnd | Sequence[ArrowEnd]
"""A node, or several."""


class Arrows(Struct, frozen=True):
    """A chain of arrows; each method returns a new one.

    Args:
        sides: The nodes at each end of its arrows, from left to right.
    """

    sides: tuple[tuple[ArrowEnd, ...], ...]
    condition: Comparison | None = None
    most: int | None = None
    scope: "ArrowEnd | str" = "run"
    exhausted: str = "forward"
    mapped: Mapping[str, Any] | None = None

    def __rshift__(self, target: Target) -> "Arrows":
        if self._given:
            raise UsageError(
                f"`when` and the like belong to the last arrow: write {self} as one statement, and go on in the next"
            )
        return replace(self, sides=(*self.sides, _side(target)))

    def when(self, condition: Comparison) -> "Arrows":
        """Fire the last arrow only if *condition* holds: `(a >> b).when(a.verdict == "revise")`."""
        if isinstance(condition, OutputRef):
            raise UsageError(f"when({condition}) needs a comparison: {condition} == True")
        if isinstance(condition, bool):
            raise UsageError(
                "when() was given True or False, not a comparison of an output: for an output with the name of an "
                'attribute, write reviewer["name"] == "revise"'
            )
        if not isinstance(condition, Comparison):
            raise UsageError(
                "when() takes a comparison of an output with a constant, reviewer.verdict == 'revise', not "
                f"{condition!r}"
            )
        if self.condition is not None:
            raise UsageError(
                f"an arrow takes one comparison, not {self.condition} and {condition}; write an arrow for each"
            )
        return replace(self, condition=condition)

    def max(self, times: int) -> "Arrows":
        """Fire the last arrow at most *times* in its scope."""
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise UsageError(f"max() takes a whole number from 1, not {times!r}")
        return replace(self, most=times)

    def per(self, scope: "ArrowEnd | str") -> "Arrows":
        """Count `max` anew in each *scope*: `run`, `phase`, or at each start of an agent."""
        if not isinstance(scope, ArrowEnd | str):
            raise UsageError(f"per() takes 'run', 'phase' or an agent, not {scope!r}")
        return replace(self, scope=scope)

    def on_max(self, policy: str) -> "Arrows":
        """What follows when only spent arrows would fire: `forward`, `end`, `fail` or `human`."""
        if policy not in ("forward", "end", "fail", "human"):
            raise UsageError(f"on_max() takes 'forward', 'end', 'fail' or 'human', not {policy!r}")
        return replace(self, exhausted=policy)

    def each(
        self,
        items: OutputRef | str,
        *,
        at_most: int,
        by: int | None = None,
        at_once: int | None = None,
        on_more: str = "fail",
        tolerate: int | str | None = None,
        until: Comparison | None = None,
    ) -> "Arrows":
        """Run the target once for each of *items*: `(scout >> reader).each(scout.files, at_most=50, at_once=4)`.

        Its outputs are lists, in the items' order. A function gets the item as `item`, or as the singular of its list.

        Args:
            items: A list output of an agent, or the name of a list in the run's input.
            at_most: How many items there may be.
            by: How many neighbours in the list an item is, a list of them; a function may call it as the list itself.
            at_once: How many run at once; None: as many as the run allows.
            on_more: What happens with a longer list: `fail`, or `first` to take its first items.
            tolerate: How many items may fail, as a number or a share, `"10%"`.
            until: A comparison with `any` on the target; an item for which it holds ends the others.
        """
        counts = (at_most, 1 if by is None else by, 1 if at_once is None else at_once)
        if any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in counts):
            raise UsageError("at_most, by and at_once of each() are whole numbers from 1")
        if on_more not in ("fail", "first"):
            raise UsageError(f"on_more of each() is 'fail' or 'first', not {on_more!r}")
        is_share = isinstance(tolerate, str) and re.fullmatch(r"(\d{1,2}|100)%", tolerate) is not None
        is_count = isinstance(tolerate, int) and not isinstance(tolerate, bool) and tolerate >= 0
        if tolerate is not None and not is_share and not is_count:
            raise UsageError(f"tolerate of each() is a number of items or a share like '10%', not {tolerate!r}")
        if until is not None and not isinstance(until, Comparison):
            raise UsageError("until of each() is a comparison of the target's items: reader.found.any == True")
        if not isinstance(items, OutputRef | str):
            raise UsageError(f"each() takes an output, scout.files, or the name of a list in the input, not {items!r}")
        how = {"at_most": at_most, "by": by, "at_once": at_once, "on_more": on_more}
        return replace(self, mapped={"items": items, "tolerate": tolerate, "until": until, **how})

    def __bool__(self) -> NoReturn:
        raise UsageError("an arrow has no truth value: separate the statements of a flow by commas")

    def __str__(self) -> str:
        return " >> ".join(_words(side) for side in self.sides)

    @property
    def _given(self) -> bool:
        bounded = (self.most, self.scope, self.exhausted) != (None, "run", "forward")
        return self.condition is not None or self.mapped is not None or bounded

    def nodes(self) -> Iterator[ArrowEnd]:
        """Its nodes in order of mention."""
        for side in self.sides:
            yield from side

    def maps(self, group: int) -> Iterator[Each]:
        """How its last nodes are mapped; *group* is the place of its first group in the flow."""
        if self.mapped is None:
            return
        own = dict(self.mapped)
        items, until = own.pop("items"), own.pop("until")
        agent, field = (items.node.flow_name, items.output) if isinstance(items, OutputRef) else (RUN_INPUT, items)
        last = group + sum(map(len, self.sides[:-2])) if len(self.sides) > 1 else -1
        for node in self.sides[-1]:
            condition = until.condition() if until is not None else None
            yield Each(node=node.flow_name, agent=agent, field=field, until=condition, group=last, **own)

    def groups(self) -> Iterator[ArrowGroup]:
        """Its arrows as the groups of a flow, in source order."""
        last = len(self.sides) - 2
        for n, (sources, targets) in enumerate(zip(self.sides, self.sides[1:], strict=False)):
            own: dict[str, Any] = {}
            if n == last:
                scope = self.scope.flow_name if isinstance(self.scope, ArrowEnd) else self.scope
                condition = None if self.condition is None else self.condition.condition()
                own = {"when": condition, "max": self.most, "per": scope, "on_max": self.exhausted}
            for source in sources:
                yield ArrowGroup(source=source.flow_name, targets=tuple(target.flow_name for target in targets), **own)


def _side(nodes: object) -> tuple[ArrowEnd, ...]:
    if isinstance(nodes, ArrowEnd):
        return (nodes,)
    if isinstance(nodes, Sequence) and nodes and all(isinstance(node, ArrowEnd) for node in nodes):
        return tuple(nodes)
    if isinstance(nodes, OutputRef):
        raise UsageError(f"an arrow leads to agents, not to the output {nodes}: write {nodes.node.flow_name}")
    if callable(nodes) and not isinstance(nodes, type):
        name = getattr(nodes, "__name__", "f")
        raise UsageError(f"an arrow leads to agents: make one of the function first, {name} = agent({name})")
    if isinstance(nodes, Arrows):
        raise UsageError("an arrow cannot begin or end at an arrow: leave out the brackets")
    raise UsageError(f"an arrow leads to an agent or a list of agents, not to {nodes!r}")


def _words(side: tuple[ArrowEnd, ...]) -> str:
    names = [node.flow_name or "…" for node in side]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
