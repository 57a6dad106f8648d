"""The measures of a proof: turns in total, turns of each agent, and dollars if prices are given."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf

from msgspec import Struct

from coterie.proofs.report import Case
from coterie.proofs.ways import Amounts, Gains
from coterie.proofs.witness import Script
from coterie.team.planning.branches import BRANCH
from coterie.team.planning.loop import GLOBAL, REVIEW, LoopPlan
from coterie.team.planning.on_max import ON_MAX
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan


class Prices(Struct, frozen=True, kw_only=True):
    """The price of a turn, in dollars.

    Attributes:
        turn: The price for an agent without its own price.
        agents: The prices by agent, `node/agent` in the team at a node.
    """

    turn: float = 0.0
    agents: dict[str, float] = {}

    def of(self, path: str) -> float:
        """The price of a turn of the agent at *path*."""
        return self.agents.get(path, self.turn)


class Measures:
    """The measures of one proof, in a fixed order: total, each agent, and with prices cost and cost with all retries.

    Attributes:
        paths: Every agent that may run, `node/agent` in the team at a node.
        size: The number of measures.
    """

    def __init__(self, plan: Plan, prices: Prices | None = None) -> None:
        self.paths = list(dict.fromkeys(asked_paths(plan)))
        self._prices = prices
        self.size = 1 + len(self.paths) + (2 if prices is not None else 0)
        self._place = {path: n for n, path in enumerate(self.paths, 1)}
        self.nothing: Amounts = (0.0,) * self.size

    def turn(self, path: str, agent: AgentPlan) -> Amounts:
        """The amounts of one turn of *agent*. A team's own turn does not count, only the turns of its child run."""
        return self.turns([(path, agent, 1)]) if agent.child is None else self.nothing

    def turns(self, asked: Iterable[tuple[str, AgentPlan, int]]) -> Amounts:
        """The amounts of several turns of agents, none of them a team."""
        gains = self.gains(asked)
        return tuple([gains.get(n, 0.0) for n in range(self.size)])

    def gains(self, asked: Iterable[tuple[str, AgentPlan, int]]) -> Gains:
        """The amounts that `turns` returns, by the place of their measure, without zeros."""
        amounts = defaultdict[int, float](float)
        for path, agent, count in asked:
            amounts[0] += count
            amounts[self._place[path]] += count
            if self._prices is not None:
                price = self._prices.of(path) * count
                amounts[self.size - 2] += price
                amounts[self.size - 1] += price * attempts(agent)
        return amounts

    def case(self, amounts: Amounts, script: Script | None = None, *, least: int = 1) -> Case:
        """The case of a run with *amounts*, including each agent that has at least *least* turns."""
        agents = {path: int(n) for path, n in zip(self.paths, amounts[1:], strict=False) if least <= n < inf}
        return Case(turns=int(amounts[0]), agents=agents, script=script)


def attempts(agent: AgentPlan) -> int:
    """The maximum number of attempts of a turn of *agent*, without attempts that fail for a passing cause.

    These are the first one, `retry` further ones after failures, and at least one more after replies without the
    declared outputs.
    """
    declares = any(wanted.declared or wanted.needed for wanted in agent.outputs)
    if agent.attempts is not None:
        return agent.attempts + (agent.repairs if declares else 0)
    return 1 + agent.retry + (max(1, agent.retry) if declares else 0)


def asked_paths(plan: Plan, above: str = "") -> Iterator[str]:
    """Every agent that a run of *plan* may call directly, in the order of the flow, fallbacks last."""
    for branch, name in _asked(plan):
        child = plan.agents[name].child if name in plan.agents else None
        if child is None:
            yield f"{above}{branch}{name}"
        else:
            yield from asked_paths(child, f"{above}{branch}{name}/")


def _asked(plan: Plan) -> Iterator[tuple[str, str]]:
    """The agents and teams of *plan*, each with the prefix of a wave's branch if it runs in one."""
    match plan.coordination:
        case PatternPlan():
            yield from (("", name) for name in plan.agents)
        case LoopPlan() as loop:
            roles = [role.id for role in loop.roles] or [GLOBAL]
            yield from (("", name) for name in roles)
            if loop.review is not None:
                yield "", REVIEW
            if loop.parallel is not None:
                yield from ((f"{BRANCH}/", name) for name in roles)
        case FlowPlan() as flow:
            names = list(dict.fromkeys(flow.mentions))
            for name in names:
                agent = plan.agents.get(name) or AgentPlan(name=name)
                if agent.on_fail == "fallback" and agent.fallback not in names:
                    names.append(agent.fallback)
            yield from (("", name) for name in names)
            yield from (("", ON_MAX + group.source) for group in flow.groups if group.on_max == "human")


def plus(*many: Amounts) -> Amounts:
    """The sum of all *many*, measure by measure."""
    return tuple(map(sum, zip(*many, strict=True)))


def larger(*many: Amounts) -> Amounts:
    """The maximum of all *many*, measure by measure; empty ones do not count."""
    some = [amounts for amounts in many if amounts]
    return tuple(map(max, *some)) if len(some) > 1 else (some[0] if some else ())
