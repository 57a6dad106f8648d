"""Random flows that map nodes over lists, and what their agents answer."""

from random import Random
from typing import Any

from coterie.team.planning.plan import AgentPlan, FlowPlan, MappedFlowPlan, MapPlan, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

LISTS = [[], [1], [1, 2], [1, 2, 3], [2, 2, 2, 2], None, "no list"]


def random_mapped_flow(seed: int) -> tuple[FlowPlan, dict[str, AgentPlan], dict[str, Any]]:
    """A flow of up to six nodes, at least one of them mapped, with loops, bounds, conditions and every policy."""
    dice = Random(f"maps {seed}")
    names = "abcdef"[: dice.randint(2, 6)]
    mapped = {name for name in names[1:] if dice.random() < 0.5} or {names[-1]}
    if dice.random() < 0.3:
        mapped.add("a")
    groups = []
    for i, name in enumerate(names[:-1]):
        for _ in range(dice.choice([1, 1, 2])):
            later = names[i + 1 :]
            targets = tuple(sorted(dice.sample(later, min(len(later), dice.choice([1, 1, 2])))))
            groups.append(_group(dice, name, targets, mapped, dice.choice([None, None, 1, 2]), names))
    for _ in range(dice.choice([0, 1, 1])):
        i = dice.randrange(len(names))
        groups.append(_group(dice, names[i], (names[dice.randrange(i + 1)],), mapped, dice.randint(1, 2), names))
    maps = {
        name: MapPlan(
            agent="input" if name == "a" or dice.random() < 0.3 else dice.choice(names[: names.index(name)]),
            field="l",
            by=dice.choice([None, None, 2, 3]),
            at_most=dice.choice([2, 4, 4]),
            at_once=dice.choice([None, 1, 2]),
            on_more=dice.choice(["fail", "first", "first"]),
            tolerate=dice.choice([None, None, 1, "50%"]),
            until=Condition(name, "v", Operator.EQ, "x", "any") if dice.random() < 0.2 else None,
        )
        for name in sorted(mapped)
    }
    agents = {
        name: AgentPlan(
            name=name,
            on_fail=dice.choice(["halt", "skip", "continue", "fallback", "fallback"]),
            fallback=dice.choice([*names, "helper"]),
            outputs=(Wanted(name="v", type="enum", values=("x", "y")), Wanted(name="l", type="list"))
            if dice.random() < 0.5
            else (),
        )
        for name in names
    }
    mentions = tuple(dict.fromkeys(name for group in groups for name in (group.source, *group.targets)))
    plan = MappedFlowPlan(
        mentions=mentions, groups=tuple(groups), maps={n: m for n, m in maps.items() if n in mentions}
    )
    agents["helper"] = AgentPlan(name="helper", on_fail="skip")
    return plan, agents, {"l": dice.choice(LISTS[:5])}


def flow_of_mutual_fallbacks(seed: int) -> tuple[FlowPlan, dict[str, AgentPlan], dict[str, Any]]:
    """Mapped nodes that begin at once, each of which is the fallback of another, beside a node before a mapped one."""
    dice = Random(f"mutual {seed}")
    names = "abc"[: dice.choice([2, 3])]
    groups = tuple(ArrowGroup(source=name, targets=("y" if name == "x" else "z",)) for name in (*names, "x", "y"))
    maps = {
        name: MapPlan(
            agent="input", field="l", at_most=4, at_once=dice.choice([None, 1, 2]), tolerate=dice.choice([None, 4])
        )
        for name in (*names, "y")
    }
    agents = {
        name: AgentPlan(name=name, on_fail="fallback", fallback=other)
        for name, other in zip(names, names[1:] + names[:1], strict=True)
    }
    agents |= {name: AgentPlan(name=name, on_fail="fallback", fallback="a") for name in "xyz"}
    return MappedFlowPlan(mentions=(*names, *"xyz"), groups=groups, maps=maps), agents, {"l": dice.choice(LISTS[1:5])}


def _group(
    dice: Random, source: str, targets: tuple[str, ...], mapped: set[str], most: int | None, names: str
) -> ArrowGroup:
    when = None
    if dice.random() < 0.5:
        over = dice.choice(["any", "all"]) if source in mapped else ""
        when = Condition(source, "v", dice.choice([Operator.EQ, Operator.NE]), dice.choice("xy"), over)
    per = dice.choice(["run", "run", *names]) if most is not None and all(t > source for t in targets) else "run"
    return ArrowGroup(source=source, targets=targets, when=when, max=most, per=per)


def answer_of(seed: int, turn: str) -> Any:
    """The answer of *turn*."""
    dice = Random(f"{seed} {turn}")
    chance = dice.random()
    if chance < 0.25:
        return "fail"
    if chance < 0.28:
        return "cancel"
    outputs = {"l": dice.choice(LISTS if dice.random() < 0.2 else LISTS[:4])}
    return outputs | ({"v": dice.choice(["x", "y", None])} if dice.random() < 0.9 else {})


def seconds_of(seed: int, turn: str) -> int:
    return Random(f"{seed} {turn} seconds").randint(1, 3)


def mapped_plan(seed: int) -> Plan:
    """The plan of flow *seed*."""
    flow, agents, _ = random_mapped_flow(seed)
    return Plan(name=f"mapped-{seed}", agents=agents, coordination=flow)
