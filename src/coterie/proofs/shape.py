"""The static structure of a flow: nodes by rank, numbered arrows, fallback chains, conditions."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeGuard

from msgspec import Struct

from coterie.proofs.state import HUMAN, bits
from coterie.team.planning.on_max import ON_MAX
from coterie.team.planning.plan import AgentPlan, FlowPlan, MapPlan
from coterie.team.topology.conditions import Condition


class ListSize(Struct, frozen=True):
    """The condition that the list which a node is mapped over, *by* so many, has *size* items.

    A mapped *agent* has one for each item.

    It is one of the conditions of a flow, though no arrow has it: the sets that start later depend on it.
    """

    agent: str
    field: str
    size: int
    by: int | None = None
    over: str = ""

    @property
    def value(self) -> int:
        """The size."""
        return self.size

    def holds(self, actual: Any) -> bool:
        """Whether *actual* is such a list."""
        return isinstance(actual, list) and -(-len(actual) // (self.by or 1)) == self.size

    compares = holds


class FlowShape:
    """The static structure of a flow.

    Attributes:
        maps: How each mapped node is mapped; its chain is itself alone, and `set_agents` has its fallbacks.
        names: The nodes, by rank.
        chains: For each node its agent and the fallbacks, in calling order.
        conditions: The distinct conditions on arrows.
        own: For each node the conditions that read its outputs, as a mask.
    """

    def __init__(self, plan: FlowPlan, agents: Mapping[str, AgentPlan]) -> None:
        self.plan, self.agents = plan, agents
        self.graph = graph = plan.graph
        self.groups = plan.groups
        self.names = sorted(graph.rank, key=graph.rank.__getitem__)
        self.rank = graph.rank
        self.entries = plan.entries or tuple(graph.entries)
        self.out = [graph.groups_of(name) for name in self.names]
        self.maps = {self.rank[name]: one for name, one in plan.maps.items()}
        self.chains = [self._chain(name) if n not in self.maps else (name,) for n, name in enumerate(self.names)]
        written = {repr(group.when): group.when for group in plan.groups if group.when is not None}
        self.conditions: list[Condition | ListSize] = [*written.values()]  # by text, as 1, 1.0 and true are equal
        self._lists: dict[int, dict[int, int]] = {}  # for each mapped node, the places of the conditions on its list
        for node, one in sorted(self.maps.items()):
            if one.agent in self.rank:
                self._lists[node] = self._places_of(one)
        places = {text: n for n, text in enumerate(written)}
        self.condition_of = [places.get(repr(group.when), -1) for group in plan.groups]
        self.own = [self._mask(name) for name in self.names]
        self.targets = [[self.rank[target] for target in dict.fromkeys(g.targets)] for g in plan.groups]
        self.upstream = [graph.upstream(name) for name in self.names]
        self.arrow_list = [(i, target) for i, targets in enumerate(self.targets) for target in targets]
        self.arrow_bit = {arrow: 1 << n for n, arrow in enumerate(self.arrow_list)}
        self.into = [0] * len(self.names)
        for (_, target), bit in self.arrow_bit.items():
            self.into[target] |= bit
        self.policies = [
            [self.agent(name).on_fail for name in chain] if n not in self.maps else ["halt"]
            for n, chain in enumerate(self.chains)
        ]

    def agent(self, name: str) -> AgentPlan:
        """The plan of *name*; an unknown agent has defaults."""
        return self.agents.get(name) or AgentPlan(name=name)

    def asked(self, node: int, place: int) -> str:
        """The agent at *place* in the chain of *node*."""
        return ON_MAX + self.names[node] if place == HUMAN else self.chains[node][place]

    def sources(self, arrows: int) -> list[int]:
        """The sources of a mask of arrows, in source order."""
        found = [self.rank[self.groups[self.arrow_list[n][0]].source] for n in bits(arrows)]
        return list(dict.fromkeys(found))

    def policy(self, node: int, place: int) -> str:
        """The consequence of a failed turn: `halt`, `skip`, `continue` or `fallback`."""
        if place == HUMAN:
            return "halt"
        word = self.policies[node][place]
        if word == "fallback":
            return word if place + 1 < len(self.chains[node]) else "halt"
        return word if word in ("skip", "continue") else "halt"

    # -- sets ----------------------------------------------------------------------------------------------------------

    def sizes(self, node: int) -> list[int]:
        """The sizes of the sets of *node* that make a difference: 0, 1, 2, and the most."""
        plan = self.maps[node]
        known = self._lists.get(node, {0, 1, 2, plan.at_most})
        return sorted({min(n, plan.at_most) for n in known if n <= plan.at_most or plan.on_more == "first"})

    def may_be_too_long(self, node: int) -> bool:
        """Whether one of the sizes of its list that matter to others is refused by *node*."""
        plan = self.maps[node]
        return plan.on_more != "first" and any(size > plan.at_most for size in self._lists.get(node, ()))

    def size_now(self, node: int, truth: int) -> int | None:
        """How many items a set of *node* gets where the conditions *truth* hold: None: it cannot start; -1: any."""
        if node not in self._lists:
            return -1
        plan = self.maps[node]
        for size, place in self._lists[node].items():
            if truth >> place & 1:
                return size if size <= plan.at_most else plan.at_most if plan.on_more == "first" else None
        return None

    def read_by_set(self, node: int) -> int:
        """The conditions that the start of a set of *node* reads, as a mask."""
        return sum(1 << place for place in self._lists.get(node, {}).values())

    def set_agents(self, node: int) -> tuple[str, ...]:
        """The agent of each item of the mapped *node*, and its fallbacks."""
        return self._chain(self.names[node])

    def set_policy(self, node: int) -> str:
        """The consequence of an item's failure at the end of its chain: `halt`, `skip` or `continue`."""
        policy = self.agent(self.set_agents(node)[-1]).on_fail
        return policy if policy in ("skip", "continue") else "halt"

    def _places_of(self, one: MapPlan) -> dict[int, int]:
        """The places of the conditions on the size of the list of *one*, by size; new ones are added."""
        of_list = [other for other in self.maps.values() if (other.agent, other.field) == (one.agent, one.field)]
        sizes = {0, 1, 2, *(other.at_most for other in of_list)}
        sizes = {n for n in sizes if n <= max(other.at_most for other in of_list)}
        if (giver := self.rank[one.agent]) in self.maps:
            sizes = set(self.sizes(giver))
        known = {c.size: n for n, c in enumerate(self.conditions) if _is_of(c, one)}
        for size in sorted(sizes - known.keys()):
            known[size] = len(self.conditions)
            self.conditions.append(ListSize(one.agent, one.field, size, one.by))
        return known

    @cached_property
    def reach(self) -> list[int]:
        """For each node the nodes reachable from it, itself included."""
        after = [sum({1 << t for i in self.out[r] for t in self.targets[i]}) for r in range(len(self.names))]
        found = [1 << rank for rank in range(len(self.names))]
        changed = True
        while changed:
            changed = False
            for rank in reversed(range(len(found))):
                mask = found[rank] | after[rank]
                for other in bits(after[rank]):
                    mask |= found[other]
                changed |= mask != found[rank]
                found[rank] = mask
        return found

    def _chain(self, name: str) -> tuple[str, ...]:
        chain = [name]
        while (plan := self.agent(chain[-1])).on_fail == "fallback" and plan.fallback not in chain:
            chain.append(plan.fallback)
        return tuple(chain)

    def _mask(self, name: str) -> int:
        return sum(1 << n for n, condition in enumerate(self.conditions) if condition.agent == name)


def _is_of(condition: Condition | ListSize, one: MapPlan) -> TypeGuard[ListSize]:
    return isinstance(condition, ListSize) and (condition.agent, condition.field) == (one.agent, one.field)
