"""Runs that a loop coordinates."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from coterie.engines.commands import Emit, Engine, Reply
from coterie.engines.loop import LoopEngine
from coterie.engines.loop.verdict import rejected
from coterie.journal.base import Reader
from coterie.journal.records import ConfigAnswer, EventEmitted, GateChecked, Record, TurnFinished
from coterie.kernel.attempt_files import KeptPrompts
from coterie.kernel.commands import Part, Turn
from coterie.kernel.fold import Fold
from coterie.kernel.kind import Kind, LastReading, Observe, Trust
from coterie.kinds.loop import environment, prompt, reload
from coterie.kinds.loop.projection_file import Projector, journal_file
from coterie.kinds.loop.waves import WaveFiles
from coterie.planning.branches import BRANCH, asked_by_loop
from coterie.planning.loop import LoopPlan
from coterie.planning.place import RunPlace
from coterie.planning.plan import AgentPlan, Plan, from_json
from coterie.workspace.notes import Notes, NoteSettings, ShownNotes


class LoopKind(Kind):
    """A loop: events route to roles until one completes it."""

    prover: ClassVar[str] = "coterie.proofs.loop:prove_loop"
    keeps_guidance = True
    keeps_prompts = True
    keeps_child_plans = True
    may_gain_humans = True
    limits_time = True
    waits_for_tasks = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._began: LoopPlan = plan.coordination

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """The engine of the loop, and its agents with the one for branches of waves."""
        agents = asked_by_loop(self.plan)
        return LoopEngine(self._began, agents), agents

    @cached_property
    def _loop(self) -> LoopEngine:
        assert isinstance(self.engine, LoopEngine)
        return self.engine

    # -- before a run -------------------------------------------------------------------------------------------------

    def asked(self) -> Iterable[str]:
        """All agents of the plan."""
        return self.plan.agents

    @property
    def place(self) -> RunPlace | None:
        """The place in the settings of its folder."""
        return self._began.place

    @property
    def notify(self) -> tuple[str, ...]:
        """`notify.command`."""
        return self._began.notify

    def observers(self, journals: Reader, run: str, files: KeptPrompts) -> list[Observe]:
        """The writers of the projection and of the wave files, for a loop with a folder."""
        path, here = journal_file(self.plan), self._began.place
        if path is None:
            return []
        waves = WaveFiles(journals, run, Path(here.work_dir) / here.state_dir / "waves", files)
        return [Projector(journals, run, path, files).observe, waves.observe]

    # -- a turn -------------------------------------------------------------------------------------------------------

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """Memory, tasks, and the command through which the attempt emits."""
        return ("memory", "tasks", "tool") if turn.ask.prompt is None else ()

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The prompt of an iteration or a review, with memory and tasks."""
        shown = ShownNotes(**{name: text for name in ("memory", "tasks", "tool") if (text := turn.used.get(name))})
        return prompt.parts(self._loop.plan, self._loop.prompt_state(turn.ask.turn), shown, self._gates(turn.ask.agent))

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The prompt as data, with the position of the loop."""
        if turn.ask.prompt is not None:
            return super().context(fold, turn)
        given = fold.started.input if fold.started else {}
        return prompt.context(self._loop.plan, self._loop.prompt_state(turn.ask.turn), given)

    def transcript(self, run: str, turn: str) -> str:
        """As the page names it: `stream.<iteration>`, or `review.<number>`; that of a branch lies in its wave."""
        kind, _, number = turn.partition("#")
        name = f"{'review' if kind == 'review' else 'stream'}.{number}"
        if self._began.branch and journal_file(self.plan) is not None:
            return str(environment.branch_folder(self._began.place, run) / name)
        return name

    def environment(self, notes: Notes, run: str, turn: str) -> dict[str, str]:
        """The `AUTOLOOP_*` variables and the folder of the run's notes."""
        files = notes.files(run, settings := self.notes, "task")
        return environment.environment(self._loop, settings, run, turn) | environment.notes_folder(files)

    def reviews(self, turn: str) -> bool:
        """Whether it is a review."""
        return self._loop.view(turn).review

    def node(self, turn: str, agent: str) -> str:
        """The role, since turns are named after iterations."""
        return agent

    def seconds_left(self, now: float) -> float | None:
        """The seconds left of `max_runtime`."""
        return self._loop.seconds_left(now)

    def needs_open_tasks(self, said: Reply | Emit) -> bool:
        """An open task keeps the loop from completing."""
        return isinstance(said, Reply) or said.event == self._loop.view(said.turn).completion

    def gates(self, agent: AgentPlan, judged: Record) -> tuple[tuple[str, ...], ...]:
        """The gates of the loop, before it or a branch of a wave completes."""
        match judged:
            case EventEmitted(turn=turn, event=event) if event == self._loop.view(turn).completion:
                completes = True
            case TurnFinished(promised=completes):
                pass
            case _:
                completes = False
        return self._gates(agent.name) if completes else ()

    def _gates(self, agent: str) -> tuple[tuple[str, ...], ...]:
        known = self.agents.get(agent)
        return known.gates if known is not None else ()

    def refused(self, judged: Record, gate: GateChecked) -> Record:
        """A rejected event, or a promise that does not count."""
        reason = f"{gate.reason}; the end of its output:\n{gate.output}" if gate.output else gate.reason
        match judged:
            case EventEmitted():
                return rejected(self._loop.view(judged.turn), judged, reason)
            case TurnFinished():
                return replace(judged, promised=False, promise_refused=reason)
            case _:
                return judged

    def retained(self, result: TurnFinished) -> TurnFinished:
        """*result* without its output: the engine keeps what prompts show, and a loop may run for weeks."""
        return replace(result, text="", outputs={})

    def emitted(self, agent: str, outputs: Mapping[str, Any]) -> str:
        """A sub-topology cannot call `emit`; its outputs select the event."""
        return self._loop.chosen(agent, outputs)

    # -- the run ------------------------------------------------------------------------------------------------------

    @property
    def notes(self) -> NoteSettings:
        """The notes in the settings; a branch of a wave shares those of its loop."""
        plan = self._loop.plan
        return NoteSettings(
            memory=environment.located(plan.place, plan.place.memory_file),
            tasks=environment.located(plan.place, plan.place.tasks_file),
            memory_chars=plan.memory_chars,
            tasks_chars=plan.tasks_chars,
            of_parent=plan.branch != "",
        )

    def reread(
        self, run: str, plan: Plan, hold: Callable[[Plan], Plan], last: LastReading, trust: Callable[[], Trust] = Trust
    ) -> ConfigAnswer:
        """Read the loop's folder again if a file of it changed; a child run keeps its plan."""
        from coterie.planning.loops.folder import reread

        return reload.read_again(run, plan, reread, hold, last, trust)

    def adopt(self, text: str) -> Plan:
        """The new plan."""
        return from_json(text)

    def wants_tree(self, agent: str) -> bool:
        """Whether it is a branch of a wave."""
        return agent == BRANCH

    @property
    def unjoined(self) -> int:
        """The wave that the engine knows as not merged."""
        return self._loop.unmerged

    @property
    def iterations(self) -> int | None:
        """The iterations begun."""
        return self._loop.state.iteration

    # -- a rehearsal --------------------------------------------------------------------------------------------------

    def mentions(self) -> Iterable[str]:
        """The roles; none for a branch of a wave, which plays only one."""
        return [] if self._began.branch else [role.id for role in self._began.roles]

    def start_facts(self, turn: str) -> dict[str, Any]:
        """The event that led to it; emitted events are added later."""
        return {"event": self._loop.view(turn).recent, "emitted": [], "rejected": []}

    def run_facts(self, reason: str) -> dict[str, Any]:
        """The reason of its end."""
        return {"reason": reason}
