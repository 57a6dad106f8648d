"""Teams in teams, and what has to hold of the journals of a whole tree."""

from collections.abc import Iterable
from typing import Any

from stage import flow

from coterie.history.journal.records import NO_USAGE, Record, RunFinished, RunStopped, Usage
from coterie.team.planning.plan import AgentPlan, Plan


def nested(depth: int, leaf: Plan | None = None, **fields: Any) -> AgentPlan:
    """The agent `team`: *depth* teams, each the only node of the one above, and *leaf* in the last.

    Args:
        fields: Of the outermost agent.
    """
    plan = leaf or flow("leaf -> end")
    for _ in range(depth - 1):
        plan = flow("team -> after", team=AgentPlan(name="team", kind="topology", child=plan))
    return AgentPlan(name="team", kind="topology", child=plan, **fields)


def how_it_ends(log: Iterable[Record]) -> str:
    """How a journal ends: the outcome of its run, or `stopped`.

    Raises:
        AssertionError: If it does not end with either.
    """
    last = list(log)[-1]
    assert isinstance(last, RunFinished | RunStopped), f"it ends with {last}"
    return last.outcome if isinstance(last, RunFinished) else "stopped"


def used(log: Iterable[Record]) -> Usage:
    """What the turns of a journal have used, as its records say."""
    return sum((getattr(record, "usage", NO_USAGE) for record in log), NO_USAGE)
