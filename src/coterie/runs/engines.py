"""Which engine decides a plan, and what it must be given."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from coterie.topology.patterns.faults import Fault


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
    """See that what a run of *plan* is *given* is enough, before anything begins, and that a user's own patterns play.

    Raises:
        UsageError: If not; it says what is wanted.
    """
    _find_own(plan)
    for own in own_patterns(plan):
        _refuse_unplayable(own)
    if isinstance(plan.coordination, PatternPlan):
        from coterie.engines.patterns.engine import input_faults

        for fault in input_faults(plan, given):
            raise UsageError(f"{plan.name}: {_told(fault)}")


def _refuse_unplayable(plan: Plan) -> None:
    """See that the user's own pattern of *plan* can be loaded, and has the settings that the file gives it."""
    from coterie.engines.patterns.registry import definition
    from coterie.topology.patterns.kinds import read_config

    assert isinstance(plan.coordination, PatternPlan)
    _, wrong = read_config(definition(plan.coordination.type).kind.config, plan.coordination.config)
    for fault in wrong:
        raise UsageError(f"{plan.name}: {_told(fault)}")


def _told(fault: "Fault") -> str:
    return f"{fault.message}; {fault.hint}" if fault.hint else fault.message


def _find_own(plan: Plan) -> None:
    """Let Python find a user's own patterns where it looks, then beside the files that name them."""
    for own in own_patterns(plan):
        if own.folder and own.folder not in sys.path:
            sys.path.append(own.folder)  # at the end: a file beside a topology hides no module of anybody else


def own_patterns(plan: Plan) -> Iterator[Plan]:
    """The plans in the tree of *plan* that are patterns of a user's own."""
    if own_pattern(plan):
        yield plan
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from own_patterns(agent.child)


def own_pattern(plan: Plan) -> str:
    """The code that coordinates *plan*, `module:function`, if it is a pattern of a user's own; else empty."""
    pattern = plan.coordination
    return pattern.type if isinstance(pattern, PatternPlan) and ":" in pattern.type else ""
