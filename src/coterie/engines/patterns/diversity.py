"""In which order to show answers: the surest first, and what was not said yet before what was.

That is maximal marginal relevance over the words that answers have in common. Whoever reads many answers remembers the
first ones best; in the order declared these are often the same answer thrice.
"""

import re
from collections.abc import Sequence

from coterie.engines.patterns.aggregation import EVEN, Candidate

_WORD = re.compile(r"\w+")


def spread(candidates: Sequence[Candidate], weight: float) -> list[Candidate]:
    """*candidates* in the order to show them in; of equals the one declared first.

    Args:
        weight: From 0, where only confidence counts (whoever does not say is in the middle), to 1, where only that an
            answer is unlike those before it does.
    """
    words = _words(candidates)
    sure = [EVEN if one.confidence is None else one.confidence for one in candidates]
    alike = [0.0] * len(candidates)
    left, order = list(range(len(candidates))), list[Candidate]()
    while left:
        best = max(left, key=lambda at: (1 - weight) * sure[at] - weight * alike[at])
        left.remove(best)
        order.append(candidates[best])
        for at in left:
            alike[at] = max(alike[at], _likeness(words[at], words[best]))
    return order


def _words(candidates: Sequence[Candidate]) -> list[int]:
    """The words of each answer as a set of bits: comparing two is two operations, however long they are."""
    places: dict[str, int] = {}
    return [
        sum(1 << places.setdefault(word, len(places)) for word in dict.fromkeys(_WORD.findall(one.text.casefold())))
        for one in candidates
    ]


def _likeness(one: int, other: int) -> float:
    """The share of the words of two answers that both have; two without words are alike."""
    both = (one | other).bit_count()
    return (one & other).bit_count() / both if both else 1.0
