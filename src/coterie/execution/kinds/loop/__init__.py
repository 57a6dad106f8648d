"""The kind of runs that a loop coordinates."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from coterie.agents.workspace.notes import ShownNotes
from coterie.execution.kernel.commands import Part, Turn
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import Kind
from coterie.execution.kinds.loop import prompt
from coterie.execution.kinds.loop.project import LoopProject
from coterie.history.engines.commands import Engine
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal.records import TurnFinished
from coterie.team.planning.branches import asked_by_loop
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan


class LoopKind(Kind):
    """A loop: events route to roles until one completes it."""

    prover: ClassVar[str] = "coterie.proofs.loop:prove_loop"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._began: LoopPlan = plan.coordination
        self.project = LoopProject(plan, lambda: self._loop)

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The loop engine, with its agents and the agent for branches of waves."""
        agents = asked_by_loop(self.plan)
        return LoopEngine(self._began, agents), agents

    @property
    def _loop(self) -> LoopEngine:
        assert isinstance(self.engine, LoopEngine)
        return self.engine

    def asked(self) -> Iterable[str]:
        """All agents of the plan."""
        return self.plan.agents

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """Memory, tasks, and the command with which the attempt emits events."""
        return ("memory", "tasks", "tool") if turn.ask.prompt is None else ()

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The prompt of an iteration or a review, with memory and tasks."""
        shown = ShownNotes(**{name: text for name in ("memory", "tasks", "tool") if (text := turn.used.get(name))})
        agent = self.agents.get(turn.ask.agent)
        gates = agent.gates if agent is not None else ()
        return prompt.parts(self._loop.plan, self._loop.prompt_state(turn.ask.turn), shown, gates)

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The prompt as data, with the position of the loop, and for functions the values of the runs above."""
        if turn.ask.prompt is not None:
            return super().context(fold, turn)
        given = fold.started.input if fold.started else {}
        data = prompt.context(self._loop.plan, self._loop.prompt_state(turn.ask.turn), given)
        above = fold.started.values if fold.started else None
        if above is None:
            return data
        named = {**above.input, "task": above.prompt, **given}
        return {**data, "given": {"prompt": above.prompt, "input": named, "answers": above.answers}}

    def retained(self, result: TurnFinished) -> TurnFinished:
        """*result* without its output: the engine keeps the text for prompts, and a loop may run for weeks."""
        return replace(result, text="", outputs={})

    def mentions(self) -> Iterable[str]:
        """The roles; none for a branch of a wave, which plays only one."""
        return [] if self._began.branch else [role.id for role in self._began.roles]
