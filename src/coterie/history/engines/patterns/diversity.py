"""The order in which to show answers: the most confident first, and new content before repetitions.

This is maximal marginal relevance over the words that answers have in common. Readers of many answers remember the
first ones best; in the declared order these are often three copies of the same answer.
"""

import re
from collections.abc import Sequence

from coterie.history.engines.patterns.aggregation import EVEN, Candidate

_WORD = re.compile(r"\w+")


def spread(candidates: Sequence[Candidate], weight: float) -> list[Candidate]:
    """*candidates* in the order to show them in; of equals the one declared first.

    Args:
        weight: From 0, where only confidence counts (an unstated one is 0.5), to 1, where only the difference to the
            answers before it counts.
    """
    words = [set(_WORD.findall(one.text.casefold())) for one in candidates]
    sure = [EVEN if one.confidence is None else one.confidence for one in candidates]
    alike = [0.0] * len(candidates)
    left, order = list(range(len(candidates))), list[Candidate]()
    while left:
        best = max(left, key=lambda at: (1 - weight) * sure[at] - weight * alike[at])
        left.remove(best)
        order.append(candidates[best])
        for at in left:
            alike[at] = max(alike[at], likeness(words[at], words[best]))
    return order


def likeness(one: set[str], other: set[str]) -> float:
    """The share of the words of two answers that both have; two answers without words are alike."""
    both = len(one & other)
    either = len(one) + len(other) - both
    return both / either if either else 1.0
