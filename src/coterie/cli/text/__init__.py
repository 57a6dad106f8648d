"""Every text that a command prints for people: values in, text out. Nothing is printed here."""

from coterie.cli.text.checkups import findings
from coterie.cli.text.endings import next_steps, outcome, outcome_data, replayed, result, usage
from coterie.cli.text.looks import INEXACT, question, runs, timeline, turn, usage_table, why
from coterie.cli.text.plans import plan
from coterie.cli.text.progress import Progress, tree
from coterie.cli.text.proofs import proof
from coterie.cli.text.rehearsals import rehearsal
from coterie.cli.text.simulations import broken, simulated, so_far
from coterie.cli.text.sums import stats
from coterie.cli.text.teams import difference, laid_out, outline, verdict

__all__ = [
    "INEXACT",
    "Progress",
    "broken",
    "difference",
    "findings",
    "laid_out",
    "next_steps",
    "outcome",
    "outcome_data",
    "outline",
    "plan",
    "proof",
    "question",
    "rehearsal",
    "replayed",
    "result",
    "runs",
    "simulated",
    "so_far",
    "stats",
    "timeline",
    "tree",
    "turn",
    "usage",
    "usage_table",
    "verdict",
    "why",
]
