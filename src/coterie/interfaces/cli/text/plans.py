"""Text for plans: agents and coordination."""

from typing import assert_never

from coterie.history.views.words import arrow, dollars, duration, listed
from coterie.interfaces.cli.text.words import as_json, table
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.planning.program import ProgramPlan


def plan(shown: Plan) -> str:
    """Return the agents of a plan, then its arrows, pattern, or routes."""
    lines = [shown.name, "", table([_agent(one) for one in shown.agents.values()], ("agent", "kind", "backend"))]
    match shown.coordination:
        case FlowPlan() as flow:
            lines += ["", *(arrow((group.source, tuple(group.targets))) for group in flow.groups)]
        case PatternPlan() as pattern:
            lines += ["", *_pattern(pattern)]
        case ProgramPlan() as program:
            lines += ["", f"program: {program.program} ({program.type})"]
        case LoopPlan() as loop:
            lines += ["", *_loop(loop)]
        case None:
            pass
        case _:
            assert_never(shown.coordination)
    return "\n".join(lines)


def _agent(one: AgentPlan) -> tuple[str, str, str]:
    team = f"topology {one.child.name}" if one.child is not None else ""
    backend = " ".join(filter(None, (team, one.backend, one.model, *one.argv)))
    return one.name, one.kind, " ".join(backend.split()) or "(none)"


def _pattern(pattern: PatternPlan) -> list[str]:
    rows = [
        (
            slot.name,
            ", ".join(slot.capabilities),
            f"{slot.calls or ''}",
            dollars(slot.cost) if slot.cost is not None else "",
        )
        for slot in pattern.slots
    ]
    says_more = any(any(row[1:]) for row in rows)
    return [
        f"pattern: {pattern.type}",
        *(f"  {name}: {as_json(value)}" for name, value in pattern.config.items() if value not in (None, {}, [])),
        *(["", table(rows, ("slot", "can", "most turns", "most cost"))] if says_more else []),
    ]


def _loop(loop: LoopPlan) -> list[str]:
    rows = [(role.id, ", ".join(role.emits)) for role in loop.roles]
    routes = [(event, ", ".join(targets) or "(all roles)") for event, targets in loop.handoff]
    limits = [f"iterations: at most {loop.max_iterations}"]
    limits += [f"time: at most {duration(loop.max_runtime)}"] * bool(loop.max_runtime)
    limits += [f"cost: at most {dollars(loop.max_cost)}"] * bool(loop.max_cost)
    return [
        *([table(rows, ("role", "may emit")), ""] if rows else []),
        *([table(routes, ("event", "leads to")), ""] if routes else []),
        f"completes with: {loop.completion or '(no event)'}"
        + (f", after {listed(loop.required)}" if loop.required else ""),
        *limits,
    ]
