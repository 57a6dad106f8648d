"""Which engine decides a plan, and what it must be given."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.diagnostics import error
from coterie.engines.commands import Engine
from coterie.engines.flow import Flow
from coterie.engines.loop import Loop
from coterie.errors import TopologyError, UsageError
from coterie.planning.branches import asked_by_loop
from coterie.planning.loop import LoopPlan
from coterie.planning.on_max import human_agent
from coterie.planning.pattern import PatternPlan
from coterie.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.planning.program import ProgramPlan


def make_engine(plan: Plan) -> tuple[Engine, Mapping[str, AgentPlan]]:
    """The engine of *plan*, fresh, and the agents it may ask.

    Raises:
        TopologyError: If nothing in the plan decides who is asked.
    """
    match plan.coordination:
        case FlowPlan() as flow:
            agents = dict(plan.agents)
            for group in flow.groups:
                if group.on_max == "human":
                    asked = human_agent(f"on-max:{group.source}", flow.groups)
                    agents[asked.name] = asked
            return Flow(flow, agents), agents
        case LoopPlan() as loop:
            agents = asked_by_loop(plan)
            return Loop(loop, agents), agents
        case PatternPlan() as pattern:
            from coterie.engines.patterns.engine import Pattern  # few runs have one

            _find_own(plan)
            return Pattern(pattern, plan.agents), plan.agents
        case ProgramPlan():
            from coterie.engines.program import Program

            return Program(), plan.agents
        case None:
            raise TopologyError([error("no-flow", f"topology {plan.name!r} has no flow: nothing says who is asked")])


def refuse_lacking(plan: Plan, given: Mapping[str, Any]) -> None:
    """See that what a run of *plan* is *given* is enough, before anything begins.

    Raises:
        UsageError: If it is not; it says what is wanted.
    """
    if not isinstance(plan.coordination, PatternPlan):
        return
    from coterie.engines.patterns.engine import input_faults

    _find_own(plan)
    for fault in input_faults(plan, given):
        raise UsageError(f"{plan.name}: {fault.message}" + (f"; {fault.hint}" if fault.hint else ""))


def _find_own(plan: Plan) -> None:
    """Let Python find a user's own patterns where it looks, then beside the files that name them."""
    for folder in _folders_of_own(plan):
        if folder and folder not in sys.path:
            sys.path.append(folder)  # at the end: a file beside a topology hides no module of anybody else


def _folders_of_own(plan: Plan) -> Iterator[str]:
    if isinstance(plan.coordination, PatternPlan) and ":" in plan.coordination.type:
        yield plan.folder
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from _folders_of_own(agent.child)
