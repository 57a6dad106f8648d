"""Runs that a flow coordinates."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from coterie.engines.commands import Engine
from coterie.engines.flow import FlowEngine
from coterie.kernel.kind import Kind
from coterie.planning.on_max import human_agent
from coterie.planning.plan import AgentPlan, FlowPlan, Plan


class FlowKind(Kind):
    """A flow: arrows say which agent runs next."""

    prover: ClassVar[str] = "coterie.proofs.flow_report:prove_flow"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._flow: FlowPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The flow, and with its agents the humans that spent loops ask."""
        agents = dict(self.plan.agents)
        for group in self._flow.groups:
            if group.on_max == "human":
                human = human_agent(f"on-max:{group.source}", self._flow.groups)
                agents[human.name] = human
        return FlowEngine(self._flow, agents), agents

    def asked(self) -> Iterable[str]:
        """The nodes of the flow."""
        return self._flow.mentions

    def mentions(self) -> Iterable[str]:
        """The nodes of the flow."""
        return self._flow.mentions

    def end_facts(self, turn: str) -> dict[str, Any]:
        """Which arrows fired after *turn*, which were spent, and which was forced."""
        decision = self.engine.decision if isinstance(self.engine, FlowEngine) else None
        if decision is None or decision.turn != turn:
            return {}
        return {
            "fired": [[source, list(targets)] for source, targets in decision.fired],
            "exhausted": [[source, list(targets)] for source, targets in decision.exhausted],
            "forced": [decision.forced[0], list(decision.forced[1])] if decision.forced else None,
        }
