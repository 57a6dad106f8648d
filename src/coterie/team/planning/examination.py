"""All diagnostics of a file before a run: from reading, planning, and parts without effect.

The command line and editors both use it, so they report the same.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Severity, place
from coterie.team.options.backends import CODING
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.notes import not_executed
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.resolve import plan, teams_of

if TYPE_CHECKING:
    from coterie.team.formats import Source  # reading a journal with plans must not load the readers

_FOR_ANY_USE = {
    "cannot-run-group": Severity.WARNING,
    "fragment": Severity.NOTE,
    "param-not-set": Severity.NOTE,
    "registry-import": Severity.WARNING,
}

ONLY_FOR_A_RUN = frozenset(_FOR_ANY_USE)
"""Planning diagnostics that prevent a run although the file is valid."""


def examine(
    source: "Source", *, backend: str | None = None, given: LoopGiven | None = None
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """Plan *source*: the plan, or None if it cannot run, and all diagnostics.

    Diagnostics are in file order, without duplicates; problems that only prevent a run are warnings or notes.

    Args:
        given: Command line options of a loop, *backend* included.
    """
    made: Plan | None = None
    found = list(source.diagnostics)
    if source.topology is not None and source.topology.loop is not None and not source.has_errors:
        from coterie.team.planning.loops.resolve import plan_loop

        team, given = teams_of(Path(source.topology.file)), given or LoopGiven(backend=backend or "")
        made, more = plan_loop(source.topology, given=given, text=source.text, team=team)
        found += more
    elif source.topology is not None and not source.has_errors:
        made, more = plan(source.topology, backend=backend)
        found += [replace(one, severity=_FOR_ANY_USE.get(one.code, one.severity)) for one in more]
        found += not_executed(source.topology, made)
    return made, tuple(_by_place(found, source))


def thinks(plan: Plan | None) -> dict[str, str]:
    """A short description of the backend of each node; empty without a plan."""
    return {name: _thinks(agent) for name, agent in plan.agents.items()} if plan is not None else {}


def _thinks(agent: AgentPlan) -> str:
    if agent.child is not None:
        return f"topology {agent.child.name}"
    if agent.backend not in ("", "command"):
        provider = agent.options.get("provider", "") if agent.backend in CODING else ""
        words = (agent.backend, provider, agent.model)
        return " ".join(str(word) for word in words if word)
    command = shlex.join(agent.argv) or "; ".join(shlex.join(step) for step in agent.steps)
    if command:
        return command
    if agent.kind == "agent" and not agent.backend:
        return f"{agent.model}, no backend chosen".removeprefix(", ")
    return agent.backend


def _by_place(found: Iterable[Diagnostic], source: "Source") -> list[Diagnostic]:
    """*found* with files and without duplicates: first those in the text itself, then those in included files."""
    placed = dict.fromkeys(source.located(one) for one in found)
    return sorted(placed, key=lambda one: (one.file != source.file, *place(one)))
