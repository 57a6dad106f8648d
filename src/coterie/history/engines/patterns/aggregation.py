"""Combine several answers: a vote, weighted or not, a mean, the most confident, or all of them.

Equal answers are counted together (`coterie.history.engines.patterns.answers`). A tie goes to the first in declared
order and is reported. Nothing else depends on the order. A vote can be decided before all have voted: `needed` returns
how many to ask next so that no question is wasted.
"""

import math
import statistics
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Literal, assert_never

from msgspec import Struct

from coterie.history.engines.patterns.answers import decimal, normalise, number
from coterie.history.engines.patterns.weights import ONE, heaviest, weight
from coterie.team.topology.patterns.configs import Weights

Average = Literal["mean", "median", "trimmed"]

TOLERANCE = 1e-9
"""The relative difference up to which two numbers are the same answer; whole numbers must be equal."""

TRIMMED = 5
"""A trimmed mean drops one in this many values, a fifth, at both ends."""

EVEN = 0.5
"""The value of an unstated confidence among stated ones."""


class Candidate(Struct, frozen=True):
    """One answer.

    Attributes:
        slot: The slot that gave it.
        confidence: The stated confidence, from 0 to 1; None: not stated.
    """

    slot: str
    text: str
    confidence: float | None = None


class Cluster(Struct, frozen=True):
    """Answers that are the same.

    Attributes:
        key: Their normalised form.
        text: The first of them, verbatim.
        members: Their indexes among the candidates, in order.
    """

    key: str
    text: str
    members: tuple[int, ...]


class VoteCount(Struct, frozen=True):
    """The result of a vote.

    Attributes:
        answer: The normalised form of the winning answer.
        clusters: The distinct answers, in the order of their first members.
        votes: The votes for each of them: a number, or the sum of their weights.
        share: The winner's share of all votes, from 0 to 1; negative votes count as 0.
        margin: The difference to the share of the second.
        tie: Another answer had as many; the first of them won.
        entropy: The entropy of the votes, in bits; 0: unanimous.
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
        slot: The slot whose answer it is, if it is a single slot's.
        tally: The result of the vote, if there was one.
        spread: The standard deviation of the numbers, if there were any.
        tie: Another answer had the same claim.
        left_out: The slots whose answers could not be counted.
    """

    text: str
    slot: str = ""
    tally: VoteCount | None = None
    spread: float | None = None
    tie: bool = False
    left_out: tuple[str, ...] = ()


def cluster(candidates: Sequence[Candidate], tolerance: float = TOLERANCE) -> list[Cluster]:
    """Group equal answers, in the order of their first members.

    A number joins the first answer from which it differs by no more than *tolerance* of the larger one; whole numbers
    must be equal.
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
    """The most frequent answer; needs at least one candidate."""
    return weighted(candidates, "uniform")


def weighted(
    candidates: Sequence[Candidate], weights: Weights = "log_odds", accuracy: Mapping[str, float] | None = None
) -> Aggregate:
    """The answer with the largest total weight; needs at least one candidate.

    Args:
        accuracy: The measured accuracy of slots; it takes precedence over the stated confidence.
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
    """How many of the slots *left* must vote before the vote can be decided; 0: it is decided.

    Asking that many at once takes no more turns than asking one by one until the vote is decided, and the answer is
    that of all votes. A slot without a measured *accuracy* may state any confidence.
    """
    heavy = [heaviest((accuracy or {}).get(slot), weights) for slot in left]
    behind, rest = _behind(_count(came, weights, accuracy or {})[1]), sum(heavy)
    for k, one in enumerate(heavy):
        if behind + rest <= 0 and (came or k):
            return k
        behind, rest = behind - one, rest - one
    return len(left)


def average(candidates: Sequence[Candidate], how: Average = "mean") -> Aggregate | None:
    """The mean of the numbers among the answers, or their median; None if no answer is a number."""
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
    """The answer with the highest confidence; needs at least one candidate.

    An unstated confidence counts as 0.5.

    Args:
        accuracy: The measured accuracy of slots; it takes precedence over the stated confidence.
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
    """The distinct answers, and the total weight of each."""
    heavy = [weight(_probability(one, accuracy), weights) for one in candidates]
    clusters = cluster(candidates)
    return clusters, [sum(heavy[at] for at in one.members) for one in clusters]


def _behind(votes: Sequence[int]) -> int:
    """The weight that the second answer lacks for victory if no other votes come; negative: it leads.

    A tie goes to the earlier answer, so a later one needs a lead of at least 1. An answer without votes has 0.
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
    """The key of the answer that the number *value* belongs to; *numbers* are those found so far, ascending."""
    if not tolerance or value == value.to_integral_value():
        return None
    at = bisect_left(numbers, (value, ""))
    for other, key in numbers[max(at - 1, 0) : at + 1]:
        if math.isclose(value, other, rel_tol=tolerance):
            return key
    return None


def _written(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.15g}"
