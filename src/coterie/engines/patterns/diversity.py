"""In which order to show answers: the surest first, and what was not said yet before what was.

That is maximal marginal relevance over the words that answers have in common. Whoever reads many answers remembers the
first ones best; in the order declared these are often the same answer thrice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from coterie.engines.patterns.aggregation import EVEN, Candidate

_WORD = re.compile(r"\w+")


def spread(candidates: Sequence[Candidate], weight: float) -> list[Candidate]:
    """*candidates* in the order to show them in; of equals the one declared first.

    Args:
        weight: From 0, where only confidence counts (whoever does not say is in the middle), to 1, where only that an
            answer is unlike those before it does.
    """
    words, sizes = _words(candidates)
    sure = [EVEN if one.confidence is None else one.confidence for one in candidates]
    alike = [0.0] * len(candidates)
    left, order = list(range(len(candidates))), list[Candidate]()
    while left:
        best = max(left, key=lambda at: (1 - weight) * sure[at] - weight * alike[at])
        left.remove(best)
        order.append(candidates[best])
        for at in left:
            both = (words[at] & words[best]).bit_count()
            alike[at] = max(alike[at], _likeness(both, sizes[at] + sizes[best] - both))
    return order


def _words(candidates: Sequence[Candidate]) -> tuple[list[int], list[int]]:
    """Of each answer the words that another has too, as a set of bits, and how many words it has in all.

    Comparing two is one operation then, however long they are; a word that nobody else has needs no bit for that.
    """
    said = [set(_WORD.findall(one.text.casefold())) for one in candidates]
    shared = (word for word, count in Counter(chain.from_iterable(said)).items() if count > 1)
    places = {word: place for place, word in enumerate(shared)}
    return [_bits(places[word] for word in words if word in places) for words in said], list(map(len, said))


def _bits(places: Iterable[int]) -> int:
    """The number whose bits at *places* are set."""
    found = list(places)
    made = bytearray(max(found, default=0) // 8 + 1)
    for place in found:
        made[place // 8] |= 1 << place % 8
    return int.from_bytes(made, "little")


def _likeness(both: int, either: int) -> float:
    """The share of the words of two answers that *both* have among those that *either* has; no words are alike."""
    return both / either if either else 1.0
