"""The static structure of a flow: nodes by rank, numbered arrows, fallback chains, conditions."""

from collections.abc import Mapping
from functools import cached_property

from coterie.planning.on_max import ON_MAX
from coterie.planning.plan import AgentPlan, FlowPlan
from coterie.proofs.state import HUMAN, bits
from coterie.topology.conditions import Condition


class FlowShape:
    """The static structure of a flow.

    Attributes:
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
        self.chains = [self._chain(name) for name in self.names]
        written = {repr(group.when): group.when for group in plan.groups if group.when is not None}
        self.conditions: list[Condition] = list(written.values())  # by how they are written: 1, 1.0 and true are equal
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
        self.policies = [[self.agent(name).on_fail for name in chain] for chain in self.chains]

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
