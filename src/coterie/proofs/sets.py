"""Sets in a proof: a start of a mapped node is one turn, whose answers are those of a list of 0, 1, 2 or more items.

Conditions on a mapped node say `any` or `all`, so of the items' answers it only matters which ones occur. The list's
size is one of a few, which the answer of the agent that gives the list decides.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

from msgspec import Struct

from coterie.proofs.answers import item_answers
from coterie.proofs.children import ChildEnd, ChildReply
from coterie.proofs.exploration import OverBudget
from coterie.proofs.measures import Measures
from coterie.proofs.shape import FlowShape, ListSize
from coterie.proofs.state import TurnAnswer
from coterie.proofs.witness import FAILS, Play, PlayedTurn
from coterie.team.planning.plan import AgentPlan, FlowPlan, MapPlan, Plan
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import RUN_INPUT

_MOST_WAYS = 8
"""The most different answers of an item; with more, the flow is not explored."""


class _Item(Struct, frozen=True):
    """What an item of a set gives: the conditions that its answer satisfies, and the outputs; None: it fails."""

    holds: int
    outputs: dict[str, Any] | None


class _Set(Struct, frozen=True):
    """A set whose items give *items*, in their order."""

    agents: Sequence[AgentPlan]
    path: str
    items: tuple[_Item, ...]
    at_once: int

    def play(self, *, longest: bool) -> Play:
        """The turns of the set; in its longest play all fallbacks are tried."""
        agents = self.agents if longest else self.agents[:1]
        parts: list[PlayedTurn] = []
        for k, item in enumerate(self.items):
            begin = float(len(agents) * (k // self.at_once))
            for n, agent in enumerate(agents, 1):
                failed = item.outputs is None or n < len(agents)
                entries = (FAILS,) * (agent.retry + 1) if failed else (self._entry(item),)
                parts.append(PlayedTurn(self.path + agent.name, entries, begin, 1.0, agent.timeout))
                begin += 1.0
        return Play(tuple(parts), float(len(agents) * -(-len(self.items) // self.at_once)))

    def _entry(self, item: _Item) -> dict[str, Any]:
        return {"outputs": item.outputs} if item.outputs or len(self.agents) > 1 else {}


def set_answers(shape: FlowShape, node: int, path: str, measures: Measures) -> Iterator[TurnAnswer]:
    """The possible answers of a set of *node*, for each size of its list."""
    plan, names = shape.maps[node], shape.set_agents(node)
    agents = [shape.agent(name) for name in names]
    ways = list({holds: _Item(holds, outputs) for holds, outputs in item_answers(shape, node)}.values())
    if len(ways) > _MOST_WAYS:
        raise OverBudget(f"an item of {shape.names[node]!r} can answer in {len(ways)} ways")
    policy = shape.set_policy(node)
    for size in shape.sizes(node):
        turns = measures.turns([(path + agent.name, agent, size) for agent in agents])
        for items in _contents(ways, size, size if policy != "halt" else plan.tolerated(size)):
            its = _Set(agents, path, items, plan.at_once or max(1, size))
            failed = any(item.outputs is None for item in items)
            least = float("inf") if failed else float(size)
            ending = ChildEnd(turns, least, _player(its, longest=True), _player(its, longest=False))
            yield TurnAnswer(
                holds=_holds(shape, node, items),
                outputs={},
                child=ChildReply(ending),
                size=size,
                skipped=policy == "skip" and size > 0 and all(item.outputs is None for item in items),
            )


def _player(its: _Set, *, longest: bool) -> Any:
    return lambda: its.play(longest=longest)


def _contents(ways: Sequence[_Item], size: int, nulls: int) -> Iterator[tuple[_Item, ...]]:
    """Lists of *size* items, one for each set of answers that occur, of which up to *nulls* may fail."""
    null = _Item(0, None)
    if size == 0:
        yield ()
    elif nulls >= size:
        yield (null,) * size
    for some in chain.from_iterable(combinations(ways, n) for n in range(1, min(size, len(ways)) + 1)):
        yield some + some[-1:] * (size - len(some))
        if nulls and len(some) < size:
            yield some + some[-1:] * (size - len(some) - 1) + (null,)


def _holds(shape: FlowShape, node: int, items: Sequence[_Item]) -> int:
    found = 0
    for n, condition in enumerate(shape.conditions):
        if not shape.own[node] >> n & 1:
            continue
        if isinstance(condition, ListSize):
            found |= (condition.size == len(items)) << n
        else:
            its = [item.holds >> n & 1 for item in items]
            found |= int(any(its) if condition.over == "any" else all(its)) << n
    return found


def why_counted(plan: Plan) -> str:
    """Why the sets of *plan* are counted instead of explored; empty if they are explored, or if there are none."""
    flow = plan.flow
    if flow is None or not flow.maps:
        return _below(plan)
    for name, one in flow.maps.items():
        if (why := _why(plan, flow, name, one)) or (why := _below(plan)):
            return why
    return ""


def _below(plan: Plan) -> str:
    for name, agent in plan.agents.items():
        if agent.child is not None and (
            _below(agent.child) or (agent.child.flow is not None and agent.child.flow.maps)
        ):
            return f"a team at {name!r} maps a node over a list"
    return ""


def _why(plan: Plan, flow: FlowPlan, name: str, one: MapPlan) -> str:
    shape = FlowShape(flow, plan.agents)
    node = shape.rank[name]
    agents = shape.set_agents(node)
    if one.until is not None:
        return f"a set of {name!r} may end early"
    if any(shape.agent(agent).child is not None for agent in agents):
        return f"the items of {name!r} are done by a team"
    same = {other.by for other in flow.maps.values() if (other.agent, other.field) == (one.agent, one.field)}
    if len(same) > 1 or (one.by is not None and one.agent in flow.maps):
        return f"{name!r} takes several of {one.agent}.{one.field} at once, which are counted in another way elsewhere"
    elsewhere = {other for n, agents in enumerate(shape.chains) if n != node for other in agents}
    elsewhere |= {other for n in shape.maps if n != node for other in shape.set_agents(n)}
    if not elsewhere.isdisjoint(agents):
        return f"{name!r} shares an agent with another node"
    if one.agent == RUN_INPUT:
        alone = shape.entries == (name,) and not any(node in targets for targets in shape.targets)
        others = [other for other in flow.maps.values() if (other.agent, other.field) == (RUN_INPUT, one.field)]
        return "" if alone and len(others) == 1 else f"{name!r} is mapped over input.{one.field}, which others may read"
    giver = plan.agents.get(one.agent)
    if giver is None or giver.child is not None or one.agent not in shape.rank or shape.rank[one.agent] >= node:
        return f"{name!r} is mapped over a list of {one.agent!r}"
    left = [group for group in flow.groups if group.source != one.agent]
    if name in FlowGraph(flow.mentions, left).beyond([entry for entry in shape.entries if entry != one.agent]):
        return f"{name!r} may start before {one.agent!r}"
    if shape.may_be_too_long(node):
        return f"{name!r} may be given more items than it takes"
    return ""
