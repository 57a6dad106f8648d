"""The words in which a proof speaks of a run: a state, the turn that ends next, and how it can be answered."""

from collections.abc import Hashable
from typing import Any, NamedTuple

from msgspec import Struct


class FlowState(NamedTuple):
    """What the future of a run depends on. Nodes are ranks, sets of them bit masks.

    Attributes:
        running: Nodes whose turn runs, or waits for a fallback that is busy.
        marked: Nodes that wait.
        arrows: The arrows that marked them.
        fired: For each group with a bound how often it fired within its present scope; it stays at its bound.
        truth: The conditions that would hold now.
        known: The agents that have given outputs.
        turns: Running turns that are not a node's own first: (node, place in its chain, groups a human is asked about).
        postponed: (node, place in its chain) of fallbacks that wait for their agent, in order.
        gave: For a child run, what each node's latest outputs mean to its parent.
        ends: For a child run, the nodes whose latest turn fired nothing; and beyond them whether anybody answered.
    """

    running: int = 0
    marked: int = 0
    arrows: int = 0
    fired: tuple[int, ...] = ()
    truth: int = 0
    known: int = 0
    turns: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    postponed: tuple[tuple[int, int], ...] = ()
    gave: "tuple[Gave | None, ...]" = ()
    ends: int = 0


Gave = tuple[Hashable, ...]
"""What a node's outputs mean to a parent: one meaning for each field it looks at; empty: there are no outputs."""

HUMAN = -1
"""The place in a chain of the human whom `on-max human` asks."""


class Started(NamedTuple):
    """A turn that a step starts: a node, the place in its chain of who is asked, and the arrows that marked it."""

    node: int
    place: int
    arrows: int = 0


class Step(NamedTuple):
    """The end of a turn and what follows.

    Attributes:
        node: Whose turn ended.
        place: Who took it: 0 the node itself, then its fallbacks; `HUMAN`.
        how: `answer`, `failure`, or what a human decided: `forward`, `again`, `end`.
        answer: Which of the node's answers it was.
        fired: The groups that fired, in source order.
        exhausted: The groups that were spent, when nothing else would fire.
        forced: Whether what fired was forced.
        held: The conditions that held, as a mask.
        unknown: The conditions that asked for what was never produced.
        ended: Why the path ends here, or an empty text.
        started: The turns that start now, in order.
        over: `completed` or `failed` when this ends the run.
        result: For a child run that completes, what its outputs mean to its parent.
    """

    node: int
    place: int
    how: str
    answer: int = 0
    fired: tuple[int, ...] = ()
    exhausted: tuple[int, ...] = ()
    forced: bool = False
    held: int = 0
    unknown: int = 0
    ended: str = ""
    started: tuple[Started, ...] = ()
    over: str = ""
    result: Gave | None = None


class TurnAnswer(Struct, frozen=True, gc=False):
    """One way a turn can be answered.

    Attributes:
        holds: The conditions on this node that hold afterwards, as a mask.
        outputs: Outputs that make it so.
        gave: What they mean to a parent.
        child: The result of the child run, when a topology answers.
    """

    holds: int
    outputs: dict[str, Any]
    gave: Gave | None = None
    child: Any = None


def bits(mask: int) -> list[int]:
    """The places of the ones in *mask*, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
