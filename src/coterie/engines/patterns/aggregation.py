"""How several answers become one: a vote, weighted or not, a mean, the surest, or all of them.

Answers that say the same count together (`coterie.engines.patterns.answers`). A tie goes to the first in the order
declared, and is told. Everything but that depends on who said what, never on the order. A vote can be known before all
have voted: `needed` says how many are to be asked next so that none is asked in vain.
"""

import math
import statistics
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Literal, assert_never

from msgspec import Struct

from coterie.engines.patterns.answers import decimal, normalise, number
from coterie.engines.patterns.weights import ONE, heaviest, weight
from coterie.topology.patterns.configs import Weights

__all__ = [
    "Aggregate",
    "Average",
    "Candidate",
    "Cluster",
    "VoteCount",
    "average",
    "best_of",
    "cluster",
    "concat",
    "needed",
    "normalise",
    "vote",
    "weighted",
]

Average = Literal["mean", "median", "trimmed"]

TOLERANCE = 1e-9
"""By which part of themselves two numbers may differ and be the same answer; whole numbers may not."""

TRIMMED = 5
"""A trimmed mean leaves out the outer part of this size, a fifth, at both ends."""

EVEN = 0.5
"""What a confidence that nobody stated counts as among those that were."""


class Candidate(Struct, frozen=True):
    """One answer.

    Attributes:
        slot: Who gave it.
        confidence: How sure it was, from 0 to 1; None: it did not say.
    """

    slot: str
    text: str
    confidence: float | None = None


class Cluster(Struct, frozen=True):
    """Answers that say the same.

    Attributes:
        key: Their one form.
        text: The first of them, as it was said.
        members: Their places among the candidates, in order.
    """

    key: str
    text: str
    members: tuple[int, ...]


class VoteCount(Struct, frozen=True):
    """What a vote came to.

    Attributes:
        answer: The one form of the answer that won.
        clusters: The answers that differ, in the order of their first members.
        votes: What voted for each of them: how many, or the sum of their weights.
        share: The winner's share of all votes, from 0 to 1; what weighs less than nothing counts as nothing.
        margin: By how much that is more than the share of the next.
        tie: Another answer had as much; the first of them won.
        entropy: How scattered the votes are, in bits; 0: all say the same.
    """

    answer: str
    clusters: tuple[Cluster, ...]
    votes: tuple[float, ...]
    share: float
    margin: float
    tie: bool
    entropy: float


class Aggregate(Struct, frozen=True):
    """One answer made of several.

    Attributes:
        slot: Whose it is, when it is one's.
        tally: What the vote came to, when there was one.
        spread: The standard deviation of the numbers, when there were some.
        tie: It could as well have been another.
        left_out: Those whose answer could not be counted.
    """

    text: str
    slot: str = ""
    tally: VoteCount | None = None
    spread: float | None = None
    tie: bool = False
    left_out: tuple[str, ...] = ()


def cluster(candidates: Sequence[Candidate], tolerance: float = TOLERANCE) -> list[Cluster]:
    """The answers that differ, in the order of their first members.

    A number joins the first answer from which it differs by no more than *tolerance* of the larger one; a whole number
    only its like.
    """
    found: dict[str, list[int]] = {}
    numbers: list[tuple[Decimal, str]] = []
    for at, candidate in enumerate(candidates):
        key = normalise(candidate.text)
        if key not in found and (value := decimal(key)) is not None:
            key = _near(value, numbers, tolerance) or key
            if key not in found:
                insort(numbers, (value, key))
        found.setdefault(key, []).append(at)
    return [Cluster(key, candidates[members[0]].text, tuple(members)) for key, members in found.items()]


def vote(candidates: Sequence[Candidate]) -> Aggregate:
    """The answer that most give; there must be a candidate."""
    return weighted(candidates, "uniform")


def weighted(
    candidates: Sequence[Candidate], weights: Weights = "log_odds", accuracy: Mapping[str, float] | None = None
) -> Aggregate:
    """The answer whose givers weigh most; there must be a candidate.

    Args:
        accuracy: How often each slot is right, as measured; it counts before what the slot says of itself.
    """
    clusters, votes = _count(candidates, weights, accuracy or {})
    top = max(votes)
    won = votes.index(top)
    shares = _shares(votes)
    others = [share for at, share in enumerate(shares) if at != won]
    tie = votes.count(top) > 1
    tally = VoteCount(
        answer=clusters[won].key,
        clusters=tuple(clusters),
        votes=tuple(count / ONE for count in votes),
        share=shares[won],
        margin=shares[won] - max(others, default=0.0),
        tie=tie,
        entropy=-math.fsum(share * math.log2(share) for share in shares if share) or 0.0,
    )
    return Aggregate(clusters[won].text, candidates[clusters[won].members[0]].slot, tally, tie=tie)


def needed(
    came: Sequence[Candidate],
    left: Sequence[str],
    weights: Weights = "uniform",
    accuracy: Mapping[str, float] | None = None,
) -> int:
    """How many of the slots *left* must vote at least before the vote can be known; 0: it is known.

    Asking so many at once costs no more turns than asking one after the other until the answer is known, and the answer
    is that of all votes. Of slots without a measured *accuracy* any confidence is to be expected.
    """
    heavy = [heaviest((accuracy or {}).get(slot), weights) for slot in left]
    behind, rest = _behind(_count(came, weights, accuracy or {})[1]), sum(heavy)
    for k, one in enumerate(heavy):
        if behind + rest <= 0 and (came or k):
            return k
        behind, rest = behind - one, rest - one
    return len(left)


def average(candidates: Sequence[Candidate], how: Average = "mean") -> Aggregate | None:
    """The mean of the numbers that are answered, or their median; None when nobody answers one."""
    said = [(candidate, number(candidate.text)) for candidate in candidates]
    values = sorted(Fraction(value) for _, value in said if value is not None)
    if not values:
        return None
    match how:
        case "mean":
            middle = statistics.mean(values)
        case "median":
            middle = statistics.median(values)
        case "trimmed":
            outer = len(values) // TRIMMED
            middle = statistics.mean(values[outer : len(values) - outer])
        case _:
            assert_never(how)
    left_out = tuple(candidate.slot for candidate, value in said if value is None)
    return Aggregate(_written(middle), spread=float(statistics.pstdev(values)), left_out=left_out)


def best_of(candidates: Sequence[Candidate], accuracy: Mapping[str, float] | None = None) -> Aggregate:
    """The answer of who is surest; there must be a candidate.

    Whoever does not say counts as even: before one who is sure to be wrong, after one who is more right than not.

    Args:
        accuracy: How often each slot is right, as measured; it counts before what the slot says of itself.
    """
    sure = [_probability(candidate, accuracy or {}) for candidate in candidates]
    known = [EVEN if one is None else one for one in sure]
    top = max(known)
    best = candidates[known.index(top)]
    answers = {normalise(candidate.text) for candidate, one in zip(candidates, known, strict=True) if one == top}
    return Aggregate(best.text, best.slot, tie=len(answers) > 1)


def concat(candidates: Sequence[Candidate]) -> Aggregate:
    """All answers, one after the other, each with its slot."""
    return Aggregate("\n\n".join(f"[{candidate.slot}]: {candidate.text}" for candidate in candidates))


def _probability(candidate: Candidate, accuracy: Mapping[str, float]) -> float | None:
    return accuracy.get(candidate.slot, candidate.confidence)


def _count(
    candidates: Sequence[Candidate], weights: Weights, accuracy: Mapping[str, float]
) -> tuple[list[Cluster], list[int]]:
    """The answers that differ, and what those who gave each weigh together."""
    heavy = [weight(_probability(one, accuracy), weights) for one in candidates]
    clusters = cluster(candidates)
    return clusters, [sum(heavy[at] for at in one.members) for one in clusters]


def _behind(votes: Sequence[int]) -> int:
    """What the answer that is next to victory still lacks of it, if nobody else votes; less than 0: it is ahead.

    A tie goes to the earlier answer, so one that leads over an earlier one does so by at least 1. An answer that nobody
    gave yet stands at 0.
    """
    top = max(votes, default=0)
    if not votes or top < 0:
        return 0
    first = votes.index(top)
    return max([-top, *(count - top + (at < first) for at, count in enumerate(votes) if at != first)])


def _shares(votes: Sequence[int]) -> list[float]:
    total = sum(count for count in votes if count > 0)
    return [max(count, 0) / total if total else 0.0 for count in votes]


def _near(value: Decimal, numbers: Sequence[tuple[Decimal, str]], tolerance: float) -> str | None:
    """The answer that *value* counts as; *numbers* are those found so far, in ascending order."""
    if not tolerance or value == value.to_integral_value():
        return None
    at = bisect_left(numbers, (value, ""))
    for other, key in numbers[max(at - 1, 0) : at + 1]:
        if math.isclose(value, other, rel_tol=tolerance):
            return key
    return None


def _written(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.15g}"
