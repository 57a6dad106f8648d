"""The vocabulary of proofs: a state, the turn that ends next, and its possible answers."""

from collections.abc import Hashable
from typing import Any, NamedTuple

from msgspec import Struct


class FlowState(NamedTuple):
    """The part of a run that its future depends on. Nodes are ranks, sets of nodes bit masks.

    Attributes:
        running: Nodes whose turn runs, or waits for a busy fallback.
        marked: Nodes that wait to start.
        arrows: The arrows that marked them.
        fired: For each bounded group the number of firings in its current scope, at most its bound.
        truth: The conditions that hold now.
        known: The agents that have given outputs.
        turns: Running turns other than a node's own first: (node, place in its chain, groups a human decides about).
        postponed: (node, place in its chain) of fallbacks that wait for their agent, in order.
        gave: In a child run, the meaning of each node's latest outputs for the parent.
        ends: In a child run, the nodes whose latest turn fired nothing; one more bit: any node has answered.
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
        exhausted: The exhausted groups, if nothing else would fire.
        forced: Whether the firing was forced.
        held: The conditions that held, as a mask.
        unknown: The conditions that read outputs never produced.
        ended: Why the path ends here, or empty.
        started: The turns that start now, in order.
        over: `completed` or `failed` if this ends the run.
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
        child: The result of the child run, if a topology answers.
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
