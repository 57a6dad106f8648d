"""Weights of votes, from measured accuracy or stated confidence.

A weight is a whole number of millionths, so sums do not depend on their order, equal weights are equal, and a tie is a
tie.
"""

import math
from typing import assert_never

from coterie.team.topology.patterns.configs import Weights

ONE = 1_000_000
"""The weight of one vote among equals."""

CLIP = 0.01
"""Probabilities are clipped to this distance from 0 and 1: a voter that claims certainty would outweigh all others."""

UNSAID = 0.75
"""The probability of a voter with unstated confidence. If no voter states one, all weigh the same."""


def weight(probability: float | None, how: Weights) -> int:
    """The weight of a vote that is right with *probability*; None: unknown.

    `log_odds`: ln(p / (1 - p)), right for independent voters; below one half it counts against its answer. `linear`:
    the probability itself. `uniform`: one.
    """
    p = UNSAID if probability is None else probability
    match how:
        case "log_odds":
            p = min(max(p, CLIP), 1 - CLIP)
            return round(ONE * math.log(p / (1 - p)))
        case "linear":
            return round(ONE * min(max(p, 0.0), 1.0))
        case "uniform":
            return ONE
        case _:
            assert_never(how)


def heaviest(accuracy: float | None, how: Weights) -> int:
    """The most that an outstanding vote can change a sum; without a measured *accuracy* any confidence is possible."""
    return abs(weight(1.0 if accuracy is None else accuracy, how))
