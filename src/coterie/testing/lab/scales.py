"""The scales of a comparison, drawn or in letters: accuracy against calls."""

import math
from collections.abc import Sequence
from string import ascii_lowercase

from coterie.testing.lab.comparison import Measured

_STEPS = (1, 2, 3, 5)


def letter(n: int) -> str:
    """The letter of the *n*-th option, from 0: a, b, …, z, aa."""
    more, last = divmod(n, 26)
    return (letter(more - 1) if more else "") + ascii_lowercase[last]


class Scales:
    """The position of options, from 0 to 1 on each axis.

    Attributes:
        calls: The marks of the calls, on a logarithmic scale.
        accuracies: The marks of the accuracies.
    """

    def __init__(self, options: Sequence[Measured]) -> None:
        calls = [_at_least(one.calls) for one in options]
        self.calls = _round_numbers(min(calls), max(calls))
        self.accuracies = _twentieths(min(one.low for one in options), max(one.high for one in options))

    def right(self, calls: float) -> float:
        """The horizontal position of a number of calls."""
        first, last = math.log(self.calls[0]), math.log(self.calls[-1])
        return (math.log(_at_least(calls)) - first) / (last - first)

    def up(self, accuracy: float) -> float:
        """The vertical position of an accuracy."""
        first, last = self.accuracies[0], self.accuracies[-1]
        return (accuracy - first) / (last - first)


def _at_least(calls: float) -> float:
    return max(calls, 0.1)


def _round_numbers(least: float, most: float) -> list[float]:
    """1, 2, 3, 5, 10, …, the last at or below *least* and the first at or above *most* included, at least two."""
    exponents = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    known = [step * 10.0**exponent for exponent in exponents for step in _STEPS]
    first = max(at for at, one in enumerate(known) if one <= least * (1 + 1e-9))
    last = min(at for at, one in enumerate(known) if one >= most * (1 - 1e-9))
    return known[first : max(last, first + 1) + 1]


def _twentieths(least: float, most: float) -> list[float]:
    """From the last twentieth at or below *least* to the first at or above *most*, at least two."""
    first, last = math.floor(least * 20 + 1e-9), math.ceil(most * 20 - 1e-9)
    return [n / 20 for n in range(first, max(last, first + 1) + 1)]
