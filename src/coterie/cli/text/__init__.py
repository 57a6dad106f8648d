"""Every text that a command prints for people: values in, text out. Nothing is printed here.

The names below load when they are first used: to say that a file is right, nothing need be known of runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.cli.text.checkups import findings
    from coterie.cli.text.endings import next_steps, outcome, outcome_data, replayed, result, usage
    from coterie.cli.text.laboratory import compared
    from coterie.cli.text.looks import INEXACT, failed_output, question, runs, timeline, turn, usage_table, why
    from coterie.cli.text.plans import plan
    from coterie.cli.text.progress import Progress, tree
    from coterie.cli.text.proofs import proof
    from coterie.cli.text.rehearsals import rehearsal
    from coterie.cli.text.simulations import broken, simulated, so_far
    from coterie.cli.text.sums import stats
    from coterie.cli.text.teams import difference, laid_out, outline, verdict

_PLACES = {
    "INEXACT": "looks",
    "Progress": "progress",
    "broken": "simulations",
    "compared": "laboratory",
    "difference": "teams",
    "failed_output": "looks",
    "findings": "checkups",
    "laid_out": "teams",
    "next_steps": "endings",
    "outcome": "endings",
    "outcome_data": "endings",
    "outline": "teams",
    "plan": "plans",
    "proof": "proofs",
    "question": "looks",
    "rehearsal": "rehearsals",
    "replayed": "endings",
    "result": "endings",
    "runs": "looks",
    "simulated": "simulations",
    "so_far": "simulations",
    "stats": "sums",
    "timeline": "looks",
    "tree": "progress",
    "turn": "looks",
    "usage": "endings",
    "usage_table": "looks",
    "verdict": "teams",
    "why": "looks",
}

__all__ = [
    "INEXACT",
    "Progress",
    "broken",
    "compared",
    "difference",
    "failed_output",
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


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.cli.text' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"coterie.cli.text.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
