"""Random teams in teams, two to eight deep: flows, patterns and loops, with siblings that fail and time-outs."""

import random

from pattern_play import pattern
from stage import flow

from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan


def random_nest(seed: int) -> Plan:
    """A team of a team, and so on; at each level something may fail or take too long."""
    dice = random.Random(f"nest {seed}")
    plan = _level(dice, None)
    for _ in range(dice.randint(1, 7)):
        plan = _level(dice, plan)
    return plan


def _level(dice: random.Random, below: Plan | None) -> Plan:
    """A team with *below* as one of its members."""
    build = dice.choice([_flow, _flow, _pattern, _debate, _loop])
    return build(dice, _member(dice, "team", below))


def _member(dice: random.Random, name: str, below: Plan | None) -> AgentPlan:
    timeout = dice.choice([None, None, None, 1.5, 3.0, 6.0]) if below is not None else None
    kind = "agent" if below is None else "topology"
    on_fail = dice.choice(["halt", "halt", "skip", "continue"])
    return AgentPlan(name=name, kind=kind, child=below, timeout=timeout, retry=dice.choice([0, 0, 1]), on_fail=on_fail)


def _flow(dice: random.Random, team: AgentPlan) -> Plan:
    """The team beside two agents, one of which halts the flow when it fails."""
    return flow(
        "go -> [team, left, right] -> join",
        team=team,
        left=_member(dice, "left", None),
        join=_member(dice, "join", None),
    )


def _pattern(dice: random.Random, team: AgentPlan) -> Plan:
    """A pipeline with the team as a stage."""
    names = ["stage_0", "stage_1"]
    at = dice.choice(names)
    return pattern("pipeline", {name: _named(team, name) if name == at else AgentPlan(name=name) for name in names})


def _debate(dice: random.Random, team: AgentPlan) -> Plan:
    """A cross-check with the team as a checker."""
    slots = {name: AgentPlan(name=name) for name in ("primary", "checker_0", "checker_1")}
    return pattern("crosscheck", slots | {"checker_0": _named(team, "checker_0")})


def _loop(dice: random.Random, team: AgentPlan) -> Plan:
    """A loop with the team as one of two roles, which has to end in time."""
    roles = (RolePlan(id="team", emits=("ready",)), RolePlan(id="reader", emits=("task.complete",)))
    loop = LoopPlan(
        roles=roles,
        handoff=(("loop.start", ("team",)), ("ready", ("reader",))),
        max_iterations=dice.randint(2, 4),
        max_failures=2,
    )
    agents = {"team": team, "reader": AgentPlan(name="reader"), "@review": AgentPlan(name="@review")}
    return Plan(name="loop", agents=agents, coordination=loop)


def _named(agent: AgentPlan, name: str) -> AgentPlan:
    return AgentPlan(name=name, kind=agent.kind, child=agent.child, timeout=agent.timeout, retry=agent.retry)
