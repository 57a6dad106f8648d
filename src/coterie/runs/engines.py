"""Which engine decides a plan."""

from collections.abc import Mapping

from coterie.diagnostics import error
from coterie.engines.commands import Engine
from coterie.engines.flow import Flow
from coterie.engines.loop import Loop
from coterie.errors import TopologyError
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

            return Pattern(pattern, plan.agents), plan.agents
        case ProgramPlan():
            from coterie.engines.program import Program

            return Program(), plan.agents
        case None:
            raise TopologyError([error("no-flow", f"topology {plan.name!r} has no flow: nothing says who is asked")])
