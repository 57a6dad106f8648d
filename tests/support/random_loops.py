"""Loops at random: roles, events between them, reviews, waves and limits."""

import random

from coterie.team.planning.loop import LoopPlan, ParallelPlan, ReviewPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan

EVENTS = ("a.ready", "b.ready", "c.ready", "d.failed", "task.complete")
KEYS = ("loop.start", *EVENTS, "/.*\\.ready/", "a.ready.parallel.joined", "nobody.emits")


def random_loop_plan(seed: int, **fields: object) -> Plan:
    """A loop of up to four roles; some cannot complete, some have no roles at all."""
    dice = random.Random(seed)
    names = [f"role{k}" for k in range(dice.choice([0, 1, 2, 3, 3, 4]))]
    roles = tuple(
        RolePlan(id=name, emits=tuple(dice.sample([*EVENTS, "/[abc].*/"], dice.randint(0, 4)))) for name in names
    )
    handoff = tuple(
        (key, tuple(dice.sample(names, dice.randint(1, len(names))))) for key in dice.sample(KEYS, 4) if names
    )
    loop = LoopPlan(
        roles=roles,
        handoff=handoff,
        required=tuple(dice.sample(EVENTS[:3], dice.choice([0, 0, 1, 2]))),
        max_iterations=dice.randint(1, 7),
        max_failures=dice.randint(1, 4),
        max_cost=dice.choice([0.0, 0.0, 0.0, 3.0]),
        review=ReviewPlan(every=dice.randint(1, 3)) if dice.random() < 0.5 else None,
        parallel=ParallelPlan(timeout=dice.choice([2.0, 180.0])) if dice.random() < 0.6 else None,
    )
    agents = {name: AgentPlan(name=name, retry=dice.choice([0, 0, 1])) for name in [*names, "@loop", "@review"]}
    return Plan(name="loop", agents=agents, coordination=loop)
