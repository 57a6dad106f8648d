"""What a vote weighs: by how often a voter is right, or by how sure it says it is.

A weight is a whole number of millionths. So a sum of weights does not depend on their order, equal weights are equal,
and a tie is a tie.
"""

import math
from typing import assert_never

from coterie.topology.patterns.configs import Weights

ONE = 1_000_000
"""The weight of one vote among equals."""

CLIP = 0.01
"""No probability counts as nearer to 0 or 1 than this: whoever says to be certain would outweigh all others."""

UNSAID = 0.75
"""What a voter that says nothing of its confidence counts as. Where nobody does, all weigh the same."""


def weight(probability: float | None, how: Weights) -> int:
    """What the vote of somebody weighs who is right with *probability*; None: it is not known.

    `log_odds`: ln(p / (1 - p)), right for independent voters; below one half it counts against what is voted for.
    `linear`: the probability itself. `uniform`: one.
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
    """By how much one who did not vote yet can change a sum, up or down; without *accuracy* it says how sure it is."""
    return abs(weight(1.0 if accuracy is None else accuracy, how))
