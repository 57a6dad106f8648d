"""The kind of runs that a flow coordinates."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from coterie.errors import UsageError
from coterie.execution.kernel import prompts
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import Kind
from coterie.history.engines.commands import Engine
from coterie.history.engines.flow import FlowEngine
from coterie.team.planning.on_max import human_agent
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.team.topology.model import RUN_INPUT


class FlowKind(Kind):
    """A flow: arrows decide which agent runs next."""

    prover: ClassVar[str] = "coterie.proofs.flow_report:prove_flow"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._flow: FlowPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The flow engine, with its agents and the humans that exhausted loops ask."""
        agents = dict(self.plan.agents)
        for group in self._flow.groups:
            if group.on_max == "human":
                human = human_agent(f"on-max:{group.source}", self._flow.groups)
                agents[human.name] = human
        return FlowEngine(self._flow, agents), agents

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check the lists that nodes are mapped over."""
        for node, one in self._flow.maps.items():
            if one.agent != RUN_INPUT:
                continue
            items = given.get(one.field)
            if not isinstance(items, list | tuple):
                what = "is not a list" if one.field in given else "is missing"
                hint = f"give it with --input '{one.field}:=[\"…\"]'"
                raise UsageError(f"{node!r} works on each input.{one.field}, which {what}; {hint}")
            if (found := len(one.items(items))) > one.at_most and one.on_more != "first":
                raise UsageError(
                    f"input.{one.field} has {one.said(found)}, but {node!r} takes at most {one.at_most}; raise "
                    "at-most, or write on-more first"
                )

    def quoted(self, fold: Fold) -> Collection[str]:
        """What marks turns that run, wait or are to come, and what their gates checked."""
        return prompts.behind_gates(fold, self.engine.marking) if isinstance(self.engine, FlowEngine) else ()

    def may_merge(self, turn: str) -> bool:
        """Whether *turn* works on no item of a set, or on one whose earlier items have ended."""
        return not isinstance(self.engine, FlowEngine) or not self.engine.waits_for_earlier(turn)

    def asked(self) -> Iterable[str]:
        """The nodes of the flow."""
        return self._flow.mentions

    def mentions(self) -> Iterable[str]:
        """The nodes of the flow."""
        return self._flow.mentions

    def end_facts(self, turn: str) -> dict[str, Any]:
        """The arrows that fired after *turn*, those that were used up, and the one that was forced."""
        decision = self.engine.decision if isinstance(self.engine, FlowEngine) else None
        if decision is None or decision.turn != turn:
            return {}
        return {
            "fired": [[source, list(targets)] for source, targets in decision.fired],
            "exhausted": [[source, list(targets)] for source, targets in decision.exhausted],
            "forced": [decision.forced[0], list(decision.forced[1])] if decision.forced else None,
        }
