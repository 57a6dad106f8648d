"""Run teams of AI agents that survive being killed.

A team is declared in a file. Every run writes a journal, so a run that was interrupted anywhere can be resumed, and
finished work is never repeated.

    import asyncio, coterie

    topology = coterie.load("review.at")
    outcome = asyncio.run(coterie.run(topology, {"prompt": "Review this repository."}))

The names below are imported on first use, so that `import coterie` is fast.
"""

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all of `coterie --version`
if TYPE_CHECKING:
    from coterie.diagnostics import Diagnostic
    from coterie.errors import CoterieError, TopologyError
    from coterie.planning.plan import Limits, Plan
    from coterie.runs.api import fork, load, plan, resume, run
    from coterie.runs.outcome import Outcome
    from coterie.topology.model import Topology

__version__ = "0.1.0"

_PLACES = {
    "CoterieError": "coterie.errors",
    "Diagnostic": "coterie.diagnostics",
    "Limits": "coterie.planning.plan",
    "Outcome": "coterie.runs.outcome",
    "Plan": "coterie.planning.plan",
    "Topology": "coterie.topology.model",
    "TopologyError": "coterie.errors",
    "fork": "coterie.runs.api",
    "load": "coterie.runs.api",
    "plan": "coterie.runs.api",
    "resume": "coterie.runs.api",
    "run": "coterie.runs.api",
}

__all__ = [
    "CoterieError",
    "Diagnostic",
    "Limits",
    "Outcome",
    "Plan",
    "Topology",
    "TopologyError",
    "fork",
    "load",
    "plan",
    "resume",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
