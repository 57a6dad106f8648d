"""The laboratory: the accuracy and cost of a pattern with agents of assumed accuracy."""

from coterie.testing.lab.comparison import RUNS, Comparison, Measured, compare, measure
from coterie.testing.lab.picture import picture
from coterie.testing.lab.scales import Scales, letter
from coterie.testing.lab.trials import Played, play

__all__ = ["RUNS", "Comparison", "Measured", "Played", "Scales", "compare", "letter", "measure", "picture", "play"]
