"""Bounds from the arrows alone, for flows with too many states to explore.

For a pattern, its kind counts the turns of each slot; a loop is bounded by its iterations.

Every bound is sound, but perhaps never reached. If a node is on no cycle and ranks behind all its predecessors, it
starts at most once, because it waits for everything that could still mark it. Any other node starts at most once for
each firing of an arrow into it. A start of a mapped node has at most one turn for each item, and as many of each
fallback. A group fires at most once for each start of its source, and `max` times within each of
its scopes.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from coterie.proofs.measures import Measures, attempts, larger, plus
from coterie.proofs.paths import Paths
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import HUMAN
from coterie.proofs.ways import Amounts
from coterie.team.planning.branches import BRANCH
from coterie.team.planning.loop import REVIEW, LoopPlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.topology.patterns.kinds import KINDS

if TYPE_CHECKING:
    from coterie.history.engines.patterns.registry import Calls

_ROUNDS = 8
"""How often the inequalities are applied; bounds are sound after every round, and later rounds improve little."""
_STATES = 10_000
"""The maximum number of states to explore of a loop inside a team."""


def at_most(plan: Plan, measures: Measures, path: str = "") -> Amounts:
    """The maximum of each measure for a run of *plan*, by counting; infinite without a known bound.

    Rounds granted by a human with `on-max human` are not counted.
    """
    match plan.coordination:
        case FlowPlan() as flow:
            return _of_flow(flow, plan, measures, path)
        case PatternPlan() as pattern if (calls := calls_of_ours(pattern, plan)) is not None:
            return _of_pattern(pattern, plan, calls.most, measures, path)
        case PatternPlan(max_turns=int(most)):
            return _of_program(most, plan, measures, path)
        case LoopPlan() as loop:
            return of_loop(plan, loop, Paths(loop, _STATES), measures, path)
        case _:
            return (inf,) * measures.size


def of_loop(plan: Plan, loop: LoopPlan, paths: Paths, measures: Measures, path: str = "") -> Amounts:
    """The maximum of each measure for a run of the loop *plan*; infinite if a team in it has no bound.

    Every iteration runs one role, with reviews in between, and a wave adds up to its number of branches. So no run
    takes more than the most expensive role in every iteration, nor more than each role as often as the loop can reach
    it.
    """
    iterations, before = max(0, loop.max_iterations), paths.before
    branches = loop.parallel.most if loop.parallel is not None and not before.keys() <= paths.teams.keys() else 0
    reviews = reviews_before(loop, iterations)
    reviewer = measures.turn(path + REVIEW, plan.agents.get(REVIEW) or AgentPlan(name=REVIEW)) if reviews else ()
    fixed = _often(reviews, reviewer) if reviews else measures.nothing
    each, alone, beside = [fixed], measures.nothing, measures.nothing
    for name, earlier in before.items():
        once = _iteration(plan, name, measures, path)
        each.append(_often(max(0, iterations - earlier), once))
        alone = larger(alone, once)
        if branches:  # a wave runs the role of its event one iteration before the event could route the loop
            branch = _iteration(plan, name, measures, f"{path}{BRANCH}/")
            each.append(_often(branches * max(0, min(iterations, iterations - earlier + 1)), branch))
            beside = larger(beside, branch)
    dearest = plus(fixed, _often(iterations, alone), _often(iterations * branches, beside))
    return tuple(map(min, plus(*each), dearest))


def reviews_before(loop: LoopPlan, iterations: int) -> int:
    """The number of reviews in as many *iterations*."""
    return max(0, iterations - 1) // max(1, loop.review.every) if loop.review is not None else 0


def _iteration(plan: Plan, name: str, measures: Measures, path: str) -> Amounts:
    """The amounts of one iteration of the role *name*: one turn, or the turns of its team."""
    agent = plan.agents.get(name) or AgentPlan(name=name)
    return (
        measures.turn(path + name, agent) if agent.child is None else at_most(agent.child, measures, f"{path}{name}/")
    )


def usually(plan: Plan, measures: Measures, path: str = "", **numbers: Any) -> Amounts:
    """The amounts of a run of *plan*, with these *numbers*, without failures and early ends; infinite if unknown.

    They are known for patterns, and for teams of patterns.
    """
    pattern = plan.coordination
    calls = calls_of_ours(pattern, plan, **numbers) if isinstance(pattern, PatternPlan) else None
    if calls is None:
        return (inf,) * measures.size
    total = measures.turns(_themselves(plan, calls.usual, path))
    for slot, child, count in _teams(plan, calls.usual):
        known = calls.numbers.get(slot, {})
        total = plus(total, _often(count, usually(child, measures, f"{path}{slot}/", **known)))
    return total


def calls_of_ours(pattern: PatternPlan, plan: Plan, **numbers: Any) -> "Calls | None":
    """The turns of each slot; None for a user-defined pattern, which is not imported for that."""
    if pattern.type not in KINDS:
        return None
    from coterie.history.engines.patterns.engine import calls_of  # imported on demand: few plans have a pattern

    return calls_of(pattern, plan.agents, **numbers)


def _of_program(most: int, plan: Plan, measures: Measures, path: str) -> Amounts:
    """As many turns as it may have, all of the dearest agent, or as many runs of a team."""
    each = [measures.nothing]
    for name, agent in plan.agents.items():
        if agent.child is None:
            each.append(measures.turns([(path + name, agent, most)]))
        else:
            each.append(_often(most * attempts(agent), at_most(agent.child, measures, f"{path}{name}/")))
    return larger(*each)


def _of_pattern(pattern: PatternPlan, plan: Plan, most: Mapping[str, int], measures: Measures, path: str) -> Amounts:
    """The turns of each slot within its budget, plus as many for each of its fallbacks."""
    budgets = {slot.name: slot.calls for slot in pattern.slots if slot.calls is not None}
    counts: dict[str, int] = {}
    for slot, turns in most.items():
        count, name, seen = min(turns, budgets.get(slot, turns)), slot, set[str]()
        while count and name and name not in seen and name in plan.agents:
            seen.add(name)
            counts[name] = counts.get(name, 0) + count
            name = plan.agents[name].fallback
    total = measures.turns(_themselves(plan, counts, path))
    for name, child, count in _teams(plan, counts):
        count *= attempts(plan.agents[name])
        total = plus(total, _often(count, at_most(child, measures, f"{path}{name}/")))
    return total


def _themselves(plan: Plan, counts: Mapping[str, int], path: str) -> Iterator[tuple[str, AgentPlan, int]]:
    """The agents in *counts* that are not teams, with their paths and counts."""
    for name, count in counts.items():
        if (agent := plan.agents[name]).child is None:
            yield path + name, agent, count


def _teams(plan: Plan, counts: Mapping[str, int]) -> Iterator[tuple[str, Plan, int]]:
    """The teams in *counts*, with their plans and counts."""
    for name, count in counts.items():
        if (child := plan.agents[name].child) is not None and count:
            yield name, child, count


def _of_flow(flow: FlowPlan, plan: Plan, measures: Measures, path: str) -> Amounts:
    shape = FlowShape(flow, plan.agents)
    starts = _Starts(shape).solve()
    total = measures.nothing
    for node, count in enumerate(starts):
        for name in shape.set_agents(node) if node in shape.maps else shape.chains[node]:
            agent = shape.agent(name)
            once = measures.turn(path + name, agent)
            if agent.child is not None:
                once = _often(1 + agent.retry + max(1, agent.retry), at_most(agent.child, measures, f"{path}{name}/"))
            items = shape.maps[node].at_most if node in shape.maps else 1
            total = plus(total, _often(count * items, once))
        if any(shape.groups[i].on_max == "human" for i in shape.out[node]):
            name = shape.asked(node, HUMAN)
            total = plus(total, _often(count, measures.turn(path + name, shape.agent(name))))
    return total


def _often(n: float, amounts: Amounts) -> Amounts:
    """Multiply *amounts* by *n*; 0 times infinity is 0."""
    return tuple([n * amount if n and amount else 0.0 for amount in amounts])


class _Starts:
    def __init__(self, shape: FlowShape) -> None:
        self._shape = shape
        nodes = range(len(shape.names))
        self._once = [self._waits_for_all(node) for node in nodes]
        self._entry = [int(name in shape.entries) for name in shape.names]
        self._into = [[i for i, targets in enumerate(shape.targets) if node in targets] for node in nodes]
        self._phase = [shape.agent(name).phase for name in shape.names]

    def solve(self) -> list[float]:
        """The most starts of each node."""
        starts = [1.0 if once else inf for once in self._once]
        for _ in range(_ROUNDS + len(starts)):
            before, starts = starts, [self._of(node, starts) for node in range(len(starts))]
            if starts == before:
                break
        return starts

    def _waits_for_all(self, node: int) -> bool:
        """Whether nothing can mark *node* again after its start."""
        shape = self._shape
        after = {target for i in shape.out[node] for target in shape.targets[i]}
        return shape.upstream[node] < 1 << node and not any(shape.reach[target] >> node & 1 for target in after)

    def _of(self, node: int, starts: list[float]) -> float:
        marks = self._entry[node] + sum(self._firings(i, starts) for i in self._into[node])
        return min(starts[node], marks)

    def _firings(self, i: int, starts: list[float]) -> float:
        group = self._shape.groups[i]
        source = starts[self._shape.rank[group.source]]
        return source if group.max is None else min(source, group.max * self._scopes(i, starts))

    def _scopes(self, i: int, starts: list[float]) -> float:
        group, shape = self._shape.groups[i], self._shape
        if group.per == "run":
            return 1.0
        if group.per == "phase":
            phase = self._phase[shape.rank[group.source]]
            if phase is None:
                return 1.0
            members = [node for node, other in enumerate(self._phase) if other == phase]
            entered = [j for node in members for j in self._into[node] if self._comes_from_outside(j, phase)]
            return 1.0 + sum(self._firings_of_source(j, starts) for j in entered)
        return 1.0 + sum(starts[node] for node, chain in enumerate(shape.chains) if group.per in chain)

    def _comes_from_outside(self, i: int, phase: float) -> bool:
        return self._phase[self._shape.rank[self._shape.groups[i].source]] != phase

    def _firings_of_source(self, i: int, starts: list[float]) -> float:
        """Like `_firings`, but without scopes, which may depend on each other."""
        group = self._shape.groups[i]
        source = starts[self._shape.rank[group.source]]
        return min(source, group.max) if group.max is not None and group.per == "run" else source
