"""The data types of proofs of flows: a state, a step, and the possible answers of a turn."""

from collections.abc import Hashable
from typing import Any, NamedTuple

from msgspec import Struct


class FlowState(NamedTuple):
    """The part of a run that determines its future. Nodes are given by rank, sets of nodes as bit masks.

    Attributes:
        running: Nodes whose turn runs, or waits for a busy fallback.
        marked: Nodes that wait to start.
        arrows: The arrows that marked them.
        fired: For each bounded group the number of firings in its current scope, at most its bound.
        truth: The conditions that hold now.
        known: The agents that have given outputs.
        turns: Running turns other than the first turn of the node's own agent: (node, place in its chain, groups that a
            human decides about).
        postponed: (node, place in its chain) of fallbacks that wait for their agent, in order.
        gave: In a child run, the meaning of each node's latest outputs for the parent.
        ends: In a child run, the nodes whose latest turn fired nothing; one more bit tells whether any node has
            answered.
        sets: The running mapped nodes, each with the number of its items.
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
    sets: tuple[tuple[int, int], ...] = ()


Gave = tuple[Hashable, ...]
"""The meaning of a node's outputs for a parent: one for each output it reads; empty without outputs."""

HUMAN = -1
"""The place in a chain of the human that `on-max human` asks."""


class Started(NamedTuple):
    """A turn that a step starts: a node, the place of its agent in the chain, and the arrows that marked it."""

    node: int
    place: int
    arrows: int = 0


class Step(NamedTuple):
    """The end of a turn and its consequences.

    Attributes:
        node: The node of the turn.
        place: The place of its agent: 0 for the node itself, then its fallbacks; `HUMAN`.
        how: `answer`, `failure`, or the decision of a human: `forward`, `again`, `end`.
        answer: The index among the node's answers.
        fired: The groups that fired, in source order.
        exhausted: The exhausted groups, if no other group would fire.
        forced: Whether the firing was forced.
        held: The conditions that held, as a mask.
        unknown: The conditions that read outputs never produced.
        ended: The reason why the path ends here, or empty.
        started: The turns that start now, in order.
        over: `completed` or `failed` if the step ends the run.
        result: In a child run that completes, the meaning of its outputs for the parent.
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
    """A possible answer of a turn.

    Attributes:
        holds: The conditions on this node that hold afterwards, as a mask.
        outputs: Outputs with that effect.
        gave: Their meaning for a parent.
        child: The result of the child run, if a team answers, or the items of a set.
        size: The number of items, if it is that of a set.
        skipped: Whether all its items were skipped, so that no arrow is judged.
    """

    holds: int
    outputs: dict[str, Any]
    gave: Gave | None = None
    child: Any = None
    size: int = 0
    skipped: bool = False


_MANY = 16
"""Above so many set bits, reading the digits of a mask is faster than arithmetic with it."""


def bits(mask: int) -> list[int]:
    """The positions of the set bits of *mask*, lowest first."""
    if mask.bit_count() > _MANY:
        return [n for n, digit in enumerate(reversed(f"{mask:b}")) if digit == "1"]
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
