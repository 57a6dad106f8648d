"""Random flows for properties and simulations: fan-outs, joins, loops, bounds on forward arrows, every `on-fail`."""

import random

from msgspec.structs import replace

from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

VERDICTS = ("approve", "revise")


def random_flow_plan(seed: int, most: int = 7) -> Plan:
    """A flow of 2 to *most* nodes that ends whatever its agents answer: every arrow back has a `max` per run.

    Now and then a node is a flow itself.
    """
    dice = random.Random(f"flow {seed}")
    names = [f"n{i}" for i in range(dice.randint(2, most))]
    groups = _forward(dice, names)
    for _ in range(dice.choice([0, 1, 1, 2])):
        source = dice.randrange(len(names))
        target = dice.randrange(source + 1)
        groups.append(_group(dice, names[source], (names[target],), max=dice.randint(1, 2)))
    agents = {name: _agent(dice, name, names) for name in names}
    if most > 3 and dice.random() < 0.3:
        name = dice.choice(names)
        child = random_flow_plan(seed + 1, most=3)
        agents[name] = replace(agents[name], kind="topology", child=child, outputs=())
    mentions = tuple(dict.fromkeys(name for g in groups for name in (g.source, *g.targets)))
    return Plan(name=f"flow-{seed}", agents=agents, coordination=FlowPlan(mentions=mentions, groups=tuple(groups)))


def _forward(dice: random.Random, names: list[str]) -> list[ArrowGroup]:
    groups = []
    for i, name in enumerate(names[:-1]):
        later = names[i + 1 :]
        for _ in range(dice.choice([1, 1, 2])):
            targets = tuple(sorted(dice.sample(later, min(len(later), dice.choice([1, 1, 2, 3])))))
            groups.append(_group(dice, name, targets, max=dice.choice([None, None, None, 1, 2])))
    return groups


def _group(dice: random.Random, source: str, targets: tuple[str, ...], max: int | None) -> ArrowGroup:
    when = None
    if dice.random() < 0.4:
        when = Condition(source, "verdict", dice.choice([Operator.EQ, Operator.NE]), dice.choice(VERDICTS))
    return ArrowGroup(
        source=source,
        targets=targets,
        when=when,
        max=max,
        on_max=dice.choice(["forward", "forward", "forward", "end", "fail"]),
    )


def _agent(dice: random.Random, name: str, names: list[str]) -> AgentPlan:
    on_fail = dice.choice(["halt", "skip", "skip", "continue", "fallback"])
    fallback = dice.choice([*(other for other in names if other > name), "spare"]) if on_fail == "fallback" else ""
    return AgentPlan(
        name=name,
        outputs=(Wanted(name="verdict", type="enum", values=VERDICTS),),
        retry=dice.choice([0, 1, 2]),
        on_fail=on_fail,
        fallback=fallback,
        phase=dice.choice([None, 1.0, 2.0]),
    )
