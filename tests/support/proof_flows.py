"""Random flows for proofs: every kind of bound, scope, phase, policy and condition, and loops that end."""

import random

from msgspec.structs import replace

from coterie.team.planning.plan import AgentPlan, FlowPlan, MappedFlowPlan, MapPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.loops import unbounded
from coterie.team.topology.model import ArrowGroup, Flow

VALUES = ("x", "y")


def proof_plan(seed: int, most: int = 7) -> Plan:
    """A flow of 2 to *most* nodes that ends whatever its agents answer."""
    dice = random.Random(f"proof {seed}")
    while True:
        plan = _plan(dice, seed, dice.randint(2, most))
        flow = plan.coordination
        assert isinstance(flow, FlowPlan)
        phases = {name: agent.phase for name, agent in plan.agents.items()}
        if not unbounded(Flow(groups=flow.groups, mentions=flow.mentions), phases):
            return plan


def nested_plan(seed: int, depth: int = 2) -> Plan:
    """A flow of up to 4 nodes, some of which are flows themselves."""
    dice = random.Random(f"nested {seed}")
    plan = proof_plan(dice.randrange(1 << 30), most=4)
    agents = dict(plan.agents)
    for name in agents:
        if depth and dice.random() < 0.4:
            child = nested_plan(dice.randrange(1 << 30), depth - 1)
            agents[name] = replace(agents[name], kind="topology", child=child)
    return replace(plan, agents=agents)


def mapped_proof_plan(seed: int) -> Plan:
    """A flow of 2 to 4 nodes that ends whatever its agents answer, some of whose nodes are mapped over lists."""
    dice = random.Random(f"mapped proof {seed}")
    while True:
        plan = proof_plan(dice.randrange(1 << 30), most=4)
        flow = plan.coordination
        assert isinstance(flow, FlowPlan)
        names, agents = sorted(flow.mentions), dict(plan.agents)
        maps = {name: _map(dice, name, names[:n]) for n, name in enumerate(names) if dice.random() < 0.4}
        for giver in {one.agent for one in maps.values()} - {"input"}:
            agents[giver] = replace(agents[giver], outputs=(*agents[giver].outputs, Wanted(name="l", type="list")))
        for name, one in maps.items():
            if one.tolerate is not None and agents[name].on_fail in ("skip", "continue"):
                maps[name] = replace(one, tolerate=None)
        groups = tuple(replace(group, when=_over(dice, group.when, maps)) for group in flow.groups)
        if maps:
            made = MappedFlowPlan(mentions=flow.mentions, groups=groups, maps=maps)
            return replace(plan, agents=agents, coordination=made)


def _map(dice: random.Random, name: str, earlier: list[str]) -> MapPlan:
    return MapPlan(
        agent=dice.choice([*earlier, *earlier, *earlier, "input"]),
        field="l",
        by=dice.choice([None, None, None, 2]),
        at_most=dice.choice([1, 2, 2]),
        at_once=dice.choice([None, 1, 2]),
        on_more=dice.choice(["fail", "first"]),
        tolerate=dice.choice([None, None, 1, "50%"]),
    )


def _over(dice: random.Random, when: Condition | None, maps: dict[str, MapPlan]) -> Condition | None:
    return replace(when, over=dice.choice(["any", "all"])) if when is not None and when.agent in maps else when


def _plan(dice: random.Random, seed: int, size: int) -> Plan:
    names = "abcdefghi"[:size]
    groups = [_group(dice, names, source, _later(dice, names, source)) for source in names[:-1]]
    groups += [_group(dice, names, s, _later(dice, names, s)) for s in names[:-1] if dice.random() < 0.35]
    for _ in range(dice.choice([0, 0, 1, 1, 1, 2])):
        source = dice.choice(names)
        back = [name for name in names if name <= source]
        targets = tuple(dice.sample(back, min(len(back), dice.choice([1, 1, 1, 2]))))
        groups.append(_group(dice, names, source, targets, dice.randint(1, 2)))
    dice.shuffle(groups)
    mentions = tuple(dict.fromkeys(name for g in groups for name in (g.source, *g.targets)))
    read = {group.when.agent for group in groups if group.when is not None}
    agents = {name: _agent(dice, name, names, name in read) for name in names}
    return Plan(name=f"proof-{seed}", agents=agents, coordination=FlowPlan(mentions=mentions, groups=tuple(groups)))


def _later(dice: random.Random, names: str, source: str) -> tuple[str, ...]:
    later = [name for name in names if name > source]
    return tuple(dice.sample(later, min(len(later), dice.choice([1, 1, 1, 2, 3]))))


def _group(
    dice: random.Random, names: str, source: str, targets: tuple[str, ...], bound: int | None = None
) -> ArrowGroup:
    when = None
    if dice.random() < 0.45:
        reader = dice.choice([source, source, source, *names])
        op = dice.choice([Operator.EQ, Operator.EQ, Operator.NE])
        when = Condition(reader, "v", op, dice.choice([*VALUES, *VALUES, "z"]))
    if bound is None and dice.random() < 0.15:
        bound = dice.randint(1, 2)
    return ArrowGroup(
        source=source,
        targets=targets,
        when=when,
        max=bound,
        per=dice.choice(["run", "run", "run", "phase", dice.choice(names)]) if bound else "run",
        on_max=dice.choice(["forward", "forward", "forward", "end", "fail"]),
    )


def _agent(dice: random.Random, name: str, names: str, read: bool) -> AgentPlan:
    asked = (Wanted(name="v", declared=False),) if read else ()
    on_fail = dice.choice(["halt"] * 8 + ["skip", "continue", "fallback"])
    return AgentPlan(
        name=name,
        outputs=dice.choice([asked, (Wanted(name="v", type="enum", values=VALUES),)]),
        retry=dice.choice([0, 0, 1]),
        on_fail=on_fail,
        fallback=dice.choice([*names, "spare"]) if on_fail == "fallback" else "",
        phase=dice.choice([None, None, 1.0, 2.0]),
    )
