"""What a child run means to the node at which it answers: what it may say, and what it takes."""

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
"""What a child run comes to, as its parent sees it; None: nobody in it said a word."""


class Ending(Struct, frozen=True):
    """One way in which a child run can end.

    Attributes:
        most: The most of each measure it can take.
        fewest: The fewest turns when nothing fails; infinite: it takes a failure.
        longest: Plays a run of the most turns.
        shortest: Plays a run of the fewest.
    """

    most: Amounts
    fewest: float
    longest: Callable[[], Play]
    shortest: Callable[[], Play]


class ChildReply(Struct, frozen=True):
    """The child run behind an answer: how it ended, and what its last words give when its outputs give nothing."""

    ending: Ending
    text: dict[str, Any] | None = None


class ChildAttempts(Struct, frozen=True):
    """What a topology's turn may take before its last child run: runs that fail, and runs whose outputs do not fit."""

    failing: Ending | None
    unfit: Ending | None
    retry: int

    @property
    def again(self) -> int:
        """How often a run whose outputs do not fit is followed by another."""
        return max(1, self.retry)

    def wasted(self, failures: int, unfit: int) -> list[Ending]:
        """So many failing and unfit child runs, as far as they can happen."""
        found = [self.unfit] * unfit if self.unfit is not None else []
        return found + ([self.failing] * failures if self.failing is not None else [])

    def before(self) -> list[Ending]:
        """The most that can go before the child run whose reply counts."""
        return self.wasted(self.retry, self.again)

    def fatal(self) -> list[list[Ending]]:
        """The ways in which the turn fails, each at its longest; what is too much comes last."""
        ways = []
        if self.failing is not None:
            ways.append(self.wasted(self.retry + 1, self.again))
        if self.unfit is not None:
            ways.append([*self.wasted(self.retry, self.again), self.unfit])
        return ways

    def fatal_amounts(self) -> Amounts:
        """The most that a turn counts which fails; `NEVER` if it cannot."""
        return larger(*(plus(*(ending.most for ending in way)) for way in self.fatal()))

    @classmethod
    def of(cls, failing: Ending | None, unfit: list[Ending], retry: int) -> "ChildAttempts":
        """What may go before, when child runs end so that fail, or whose outputs do not fit: the longest of each."""
        worst = max(unfit, key=lambda ending: ending.most[0], default=None)
        if worst is not None:
            worst = replace(worst, most=larger(*(ending.most for ending in unfit)))
        return cls(failing, worst, retry)


class Meaning(Struct, frozen=True):
    """What the end of a child run means to its node.

    Attributes:
        holds: The conditions that hold then, as a mask.
        gave: What goes further up.
        text: What its last words must give, when its outputs give nothing.
    """

    holds: int = 0
    gave: Gave = ()
    text: dict[str, Any] | None = None


def meanings(shape: FlowShape, node: int, result: Result, fields: Watch, watch: Watch) -> Iterator[Meaning | None]:
    """What a child run's *result* can mean at *node*; None: its outputs do not fit what the node declares.

    Args:
        fields: What the node looks at in the outputs of its child run.
        watch: What its own parent looks at.
    """
    declared = {wanted.name for wanted in shape.agent(shape.names[node]).outputs if wanted.declared}
    if result:
        named = dict(zip(fields, result, strict=True))
        unfit = any(meaning == INVALID or (meaning is MISSING and name in declared) for name, meaning in named.items())
        yield None if unfit else _given(shape, node, named, watch)
        return
    if declared:
        yield None  # nothing is given, and what is declared is missing
    elif result is None:
        yield Meaning()
    if result is not None:
        for outputs in texts(shape, node, watch):
            yield Meaning(holds_of(shape, node, outputs), gave_of(outputs, watch), outputs)


def _given(shape: FlowShape, node: int, named: dict[str, Any], watch: Watch) -> Meaning:
    """What outputs mean of which `child_watch` says what they mean: truths, and what they mean further up."""
    holds = sum(_mask(shape, node, name, meaning[0]) for name, meaning in named.items() if meaning is not MISSING)
    above = [MISSING if named[name] is MISSING else named[name][1] for name in watch]
    return Meaning(holds, tuple(above))


def _mask(shape: FlowShape, node: int, name: str, truths: tuple[bool, ...]) -> int:
    own = [n for n in bits(shape.own[node]) if shape.conditions[n].field == name]
    return sum(1 << n for n, holds in zip(own, truths, strict=True) if holds)
