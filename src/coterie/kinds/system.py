"""Runs of supervised systems: their actors decide what is run, and each thing that they ask for is a turn."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from coterie.engines.commands import Engine
from coterie.errors import UsageError
from coterie.journal.records import TurnFinished
from coterie.kernel import prompts
from coterie.kernel.commands import Part, Turn
from coterie.kernel.fold import Fold
from coterie.kernel.kind import Kind, RunServices, Sidecar
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.system import SystemPlan


class SystemStandIn(Kind):
    """A system in a rehearsal, which runs no code of users: its entry gives one answer, as an agent of that name."""

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """What asks the entry.

        Raises:
            UsageError: If nothing answers for the system.
        """
        from coterie.engines.generator import Conversation, GeneratorEngine, Question

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

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._system: SystemPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """An engine that decides nothing itself, and what the actors may call."""
        from coterie.engines.system import SystemEngine

        return SystemEngine(self.plan.agents), self.plan.agents

    def sidecar(self, services: RunServices) -> Sidecar:
        """The actors."""
        from coterie.kernel.plan_secrets import filled_system
        from coterie.kinds.systems.host import SystemHost

        return SystemHost(filled_system(self._system, services.held), self.plan.folder, services)

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check that an input has an agent that answers it, import the user's code, and check the plugins."""
        from coterie.actors.classes import importable
        from coterie.actors.hosted import SystemPorts
        from coterie.actors.process import AgentProcess
        from coterie.actors.system import make_system

        if given and not self._system.entry:
            hint = "name the agent that answers for the whole, entry: NAME"
            raise UsageError(f"{self.plan.name} cannot be asked: it has no entry; {hint}")
        importable(self.plan.folder)
        make_system(self._system, SystemPorts(turn_actor=lambda plan: AgentProcess(plan.name))).plugins.check()

    def asked(self) -> Iterable[str]:
        """All that the actors may call."""
        return self.plan.agents

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The agent's own prompt, the question, and how to answer; earlier turns have no part in it."""
        agent = fold.agents.get(turn.ask.agent) or AgentPlan(name=turn.ask.agent)
        task = prompts.task_parts(turn.ask.whole or {})
        return [*prompts.own_parts(agent), *task, *prompts.how_to_answer(agent.outputs)]

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The same as data."""
        given = turn.ask.whole or {}
        return {**prompts.as_data(fold, turn), "task": given.get("prompt", ""), "input": given, "inputs": []}

    def retained(self, result: TurnFinished) -> TurnFinished:
        """Nothing but its name: no later turn reads it, and a system may run for months."""
        return structs.replace(result, text="", outputs={})
