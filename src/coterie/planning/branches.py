"""Who a loop may ask: its agents, and one that is the loop itself, for one iteration: a branch of a wave."""

import msgspec

from coterie.planning.loop import LoopPlan
from coterie.planning.plan import AgentPlan, Plan
from coterie.topology.routing import START

BRANCH = "@branch"
"""The agent that answers for a branch of a wave."""


def asked_by_loop(plan: Plan) -> dict[str, AgentPlan]:
    """The agents that *plan* asks, by name; in a loop with waves `@branch` is among them."""
    agents = dict(plan.agents)
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.parallel is not None and not loop.branch:
        timeout = loop.parallel.timeout or None
        agents[BRANCH] = AgentPlan(name=BRANCH, kind="topology", timeout=timeout, child=branch_plan(plan, loop))
    return agents


def branch_plan(plan: Plan, loop: LoopPlan) -> Plan:
    """The plan of a branch: one iteration of *loop*, without reviews and waves; its first failure is its last.

    How long it may take is its parent's to say, and so is how often it may cost what.
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
