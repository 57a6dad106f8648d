"""The agents of a loop, including a branch of a wave: the loop itself for one iteration."""

import msgspec

from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.events import START

BRANCH = "@branch"
"""The agent that runs a branch of a wave."""


def asked_by_loop(plan: Plan) -> dict[str, AgentPlan]:
    """The agents of *plan* by name, with `@branch` in a loop with waves."""
    agents = dict(plan.agents)
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.parallel is not None and not loop.branch:
        timeout = loop.parallel.timeout or None
        agents[BRANCH] = AgentPlan(name=BRANCH, kind="topology", timeout=timeout, child=branch_plan(plan, loop))
    return agents


def branch_plan(plan: Plan, loop: LoopPlan) -> Plan:
    """The plan of a branch: one iteration of *loop*, without reviews and waves; the first failure ends it.

    The parent enforces time and cost limits.
    """
    branch = msgspec.structs.replace(
        loop,
        branch=START,
        max_iterations=1,
        max_runtime=0.0,
        max_cost=0.0,
        stall=0,
        max_failures=1,
        review=None,
        parallel=None,
        notify=(),
    )
    return msgspec.structs.replace(plan, name=f"{plan.name} branch", coordination=branch)
