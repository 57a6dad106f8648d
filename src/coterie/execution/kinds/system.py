"""The kinds of runs of supervised systems: actors decide which agents run, and each of their requests is a turn."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from coterie.errors import UsageError
from coterie.execution.kernel import prompts
from coterie.execution.kernel.commands import Part, Turn
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import Kind, RunServices, Sidecar
from coterie.history.engines.commands import Engine
from coterie.history.journal.records import TurnFinished
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.system import SystemPlan


class SystemStandIn(Kind):
    """A system in a rehearsal, which runs no user code: its entry answers once, as an agent of that name."""

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that calls the entry once.

        Raises:
            UsageError: If the system has no entry.
        """
        from coterie.history.engines.generator import GeneratorEngine
        from coterie.history.engines.questions import Conversation, Question

        entry = self.plan.coordination.entry
        if not entry:
            raise UsageError(f"{self.plan.name} cannot be rehearsed: it has no entry, and its agents are Python code")

        def once(given: dict[str, Any]) -> Conversation:
            return {"text": (yield Question(entry, str(given.get("prompt", "")))).text}

        agents = {entry: self.plan.agents.get(entry) or AgentPlan(name=entry)}
        return GeneratorEngine(once, agents), agents


class SystemKind(Kind):
    """A supervised system of actors, which run beside its run."""

    stops_in_order: ClassVar[bool] = True
    decides_elsewhere: ClassVar[str] = "a supervised system"
    turns_kept = 1_000  # the next owner removes what a killed one left of its latest turns

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._system: SystemPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that decides nothing itself, with the agents that the actors may call."""
        from coterie.history.engines.system import SystemEngine

        return SystemEngine(self.plan.agents), self.plan.agents

    def sidecar(self, services: RunServices) -> Sidecar:
        """Start the actors."""
        from coterie.execution.kernel.plan_secrets import filled_system
        from coterie.execution.kinds.systems.host import SystemHost

        return SystemHost(filled_system(self._system, services.held), self.plan.folder, services)

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check that the system can answer an input, if there is one; import the user's code and check the plugins."""
        from coterie.agents.actors.classes import importable
        from coterie.agents.actors.hosted import SystemPorts
        from coterie.agents.actors.process import AgentProcess
        from coterie.agents.actors.system import make_system

        if given and not self._system.entry:
            hint = "name the agent that answers for the whole, entry: NAME"
            raise UsageError(f"{self.plan.name} cannot be asked: it has no entry; {hint}")
        importable(self.plan.folder)
        make_system(self._system, SystemPorts(turn_actor=lambda plan: AgentProcess(plan.name))).plugins.check()

    def asked(self) -> Iterable[str]:
        """The agents that the actors may call."""
        return self.plan.agents

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The agent's own prompt, the question, and how to answer; earlier turns are not included."""
        agent = fold.agents.get(turn.ask.agent) or AgentPlan(name=turn.ask.agent)
        task = prompts.task_parts(turn.ask.whole or {})
        return [*prompts.own_parts(agent), *task, *prompts.how_to_answer(agent.outputs)]

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The prompt as data."""
        given = turn.ask.whole or {}
        return {**prompts.as_data(fold, turn), "task": given.get("prompt", ""), "input": given, "inputs": []}

    def retained(self, result: TurnFinished) -> TurnFinished:
        """*result* without its contents: no later turn reads them, and a system may run for months."""
        return structs.replace(result, text="", outputs={})
