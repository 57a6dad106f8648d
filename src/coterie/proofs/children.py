"""The possible outputs and amounts of a child run, as its node sees them."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.proofs.answers import INVALID, Watch, gave_of, holds_of, texts
from coterie.proofs.domains import MISSING
from coterie.proofs.measures import larger, plus
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import Gave, bits
from coterie.proofs.ways import Amounts
from coterie.proofs.witness import Play

Result = Gave | None
"""The result of a child run, as its parent sees it; None: no node in it answered."""


class ChildEnd(Struct, frozen=True):
    """A possible end of a child run.

    Attributes:
        most: The maximum of each measure.
        fewest: The fewest turns without failures; infinite: it includes a failure.
        longest: Plays a run with the most turns.
        shortest: Plays a run with the fewest turns.
    """

    most: Amounts
    fewest: float
    longest: Callable[[], Play]
    shortest: Callable[[], Play]


class ChildReply(Struct, frozen=True):
    """The child run behind an answer: its end, and the outputs in its text if it has no other outputs."""

    ending: ChildEnd
    text: dict[str, Any] | None = None


class ChildAttempts(Struct, frozen=True):
    """The child runs before the last one of a team's turn: failed runs, and runs whose outputs do not fit."""

    failing: ChildEnd | None
    unfit: ChildEnd | None
    retry: int

    @property
    def again(self) -> int:
        """The number of runs that may follow a run whose outputs do not fit."""
        return max(1, self.retry)

    def wasted(self, failures: int, unfit: int) -> list[ChildEnd]:
        """The given numbers of failing and unfit child runs, if these are possible."""
        found = [self.unfit] * unfit if self.unfit is not None else []
        return found + ([self.failing] * failures if self.failing is not None else [])

    def before(self) -> list[ChildEnd]:
        """The longest sequence before the child run whose reply counts."""
        return self.wasted(self.retry, self.again)

    def fatal(self) -> list[list[ChildEnd]]:
        """The child runs of each possible failure of the turn, at its longest; the last run is one too many."""
        ways = []
        if self.failing is not None:
            ways.append(self.wasted(self.retry + 1, self.again))
        if self.unfit is not None:
            ways.append([*self.wasted(self.retry, self.again), self.unfit])
        return ways

    def fatal_amounts(self) -> Amounts:
        """The amounts of a failed turn; `NEVER` if it cannot fail."""
        return larger(*(plus(*(ending.most for ending in way)) for way in self.fatal()))

    @classmethod
    def of(cls, failing: ChildEnd | None, unfit: list[ChildEnd], retry: int) -> "ChildAttempts":
        """The attempts for child runs that fail as *failing* or end as one of *unfit*, of which the longest counts."""
        worst = max(unfit, key=lambda ending: ending.most[0], default=None)
        if worst is not None:
            worst = replace(worst, most=larger(*(ending.most for ending in unfit)))
        return cls(failing, worst, retry)


class ReplyMeaning(Struct, frozen=True):
    """The meaning of a child run's end for its node.

    Attributes:
        holds: The conditions that hold afterwards, as a mask.
        gave: The meaning for the parent of the node.
        text: The outputs that the text of the child run must contain, if it has no other outputs.
    """

    holds: int = 0
    gave: Gave = ()
    text: dict[str, Any] | None = None


def meanings(shape: FlowShape, node: int, result: Result, fields: Watch, watch: Watch) -> Iterator[ReplyMeaning | None]:
    """The possible meanings of a child run's *result* at *node*; None: its outputs do not fit the declaration.

    Args:
        fields: The outputs of the child run that the node reads.
        watch: The outputs that the node's own parent reads.
    """
    declared = {wanted.name for wanted in shape.agent(shape.names[node]).outputs if wanted.declared}
    if result:
        named = dict(zip(fields, result, strict=True))
        unfit = any(meaning == INVALID or (meaning is MISSING and name in declared) for name, meaning in named.items())
        yield None if unfit else _given(shape, node, named, watch)
        return
    if declared:
        yield None  # the declared outputs are missing
    elif result is None:
        yield ReplyMeaning()
    if result is not None:
        for outputs in texts(shape, node, watch):
            yield ReplyMeaning(holds_of(shape, node, outputs), gave_of(outputs, watch), outputs)


def _given(shape: FlowShape, node: int, named: dict[str, Any], watch: Watch) -> ReplyMeaning:
    """The meaning of the outputs *named*, as `child_watch` describes them, for *node* and for its parent."""
    holds = sum(_mask(shape, node, name, meaning[0]) for name, meaning in named.items() if meaning is not MISSING)
    above = [MISSING if named[name] is MISSING else named[name][1] for name in watch]
    return ReplyMeaning(holds, tuple(above))


def _mask(shape: FlowShape, node: int, name: str, truths: tuple[bool, ...]) -> int:
    own = [n for n in bits(shape.own[node]) if shape.conditions[n].field == name]
    return sum(1 << n for n, holds in zip(own, truths, strict=True) if holds)
