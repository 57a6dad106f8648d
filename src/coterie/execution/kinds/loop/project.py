"""What the folder of a loop adds to its runs: settings, memory and tasks, a plan that is read again, and waves."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coterie.agents.workspace.notes import Notes, NoteSettings
from coterie.execution.kernel.attempt_files import KeptPrompts
from coterie.execution.kernel.project import History, Observe, Project, Reread
from coterie.execution.kinds.loop import environment
from coterie.execution.kinds.loop.projection_file import Projector, journal_file
from coterie.execution.kinds.loop.reload import LastReading, Trust, read_again, trust_of
from coterie.execution.kinds.loop.waves import WaveFiles
from coterie.history.engines.commands import Emit, Reply
from coterie.history.engines.loop import LoopEngine
from coterie.history.engines.loop.verdict import rejected
from coterie.history.journal.base import Reader
from coterie.history.journal.records import EventEmitted, GateChecked, Record, TurnFinished
from coterie.team.planning.branches import BRANCH
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan, from_json


class LoopProject(Project):
    """The settings of the loop in *plan*, whose engine *loop* makes."""

    keeps_guidance = changes = limits_time = waits_for_tasks = True

    def __init__(self, plan: Plan, loop: Callable[[], LoopEngine]) -> None:
        self._plan, self._make = plan, loop
        self._began: LoopPlan = plan.coordination

    @cached_property
    def _loop(self) -> LoopEngine:
        return self._make()

    @property
    def place(self) -> RunPlace | None:
        """The place that the settings of the loop's folder give."""
        return self._began.place

    @property
    def notify(self) -> tuple[str, ...]:
        """`notify.command`."""
        return self._began.notify

    def observers(self, journals: Reader, run: str, files: KeptPrompts) -> list[Observe]:
        """For a loop with a folder, the writers of the projection and of the wave files."""
        path, here = journal_file(self._plan), self._began.place
        if path is None:
            return []
        top = Path(here.work_dir)
        waves = WaveFiles(journals, run, top, top / here.state_dir / "waves", files)
        return [Projector(journals, run, top, path, files).observe, waves.observe]

    @property
    def notes(self) -> NoteSettings:
        """The notes in the settings; a branch of a wave uses those of its loop."""
        plan = self._loop.plan
        return NoteSettings(
            memory=environment.located(plan.place, plan.place.memory_file),
            tasks=environment.located(plan.place, plan.place.tasks_file),
            memory_chars=plan.memory_chars,
            tasks_chars=plan.tasks_chars,
            of_parent=plan.branch != "",
        )

    def environment(self, notes: Notes, run: str, turn: str) -> dict[str, str]:
        """The `AUTOLOOP_*` variables and the folder of the run's notes."""
        files = notes.files(run, settings := self.notes, "task")
        return environment.environment(self._loop, settings, run, turn) | environment.notes_folder(files)

    def reviews(self, turn: str) -> bool:
        """Whether *turn* is a review."""
        return self._loop.view(turn).review

    def seconds_left(self, now: float) -> float | None:
        """The seconds left of `max_runtime`."""
        return self._loop.seconds_left(now)

    def needs_open_tasks(self, said: Reply | Emit) -> bool:
        """Whether *said* could complete the loop, which open tasks prevent."""
        return isinstance(said, Reply) or said.event == self._loop.view(said.turn).completion

    def emitted(self, agent: str, outputs: Mapping[str, Any]) -> str:
        """A sub-topology cannot call `emit`; its outputs select the event."""
        return self._loop.chosen(agent, outputs)

    def reading(self, run: str, hold: Callable[[Plan], Plan], history: History | None = None) -> Reread:
        """Read the loop's folder again if a file of it changed; a child run keeps its plan."""
        from coterie.team.planning.loops.folder import reread

        trust = Trust if history is None else lambda: trust_of(run, history())
        return partial(read_again, reread=reread, hold=hold, last=LastReading(), trust=trust)

    def adopt(self, plan: Plan, text: str) -> Plan:
        """The new plan."""
        return from_json(text)

    def transcript(self, run: str, turn: str) -> str:
        """`stream.<iteration>` or `review.<number>`, as the documentation says; for a branch in its wave's folder."""
        kind, _, number = turn.partition("#")
        name = f"{'review' if kind == 'review' else 'stream'}.{number}"
        if self._began.branch and journal_file(self._plan) is not None:
            return str(environment.branch_folder(self._began.place, run) / name)
        return name

    def node(self, turn: str, agent: str) -> str:
        """The role: turns are named after iterations."""
        return agent

    def wants_tree(self, agent: AgentPlan) -> bool:
        """Whether *agent* is a branch of a wave."""
        return agent.name == BRANCH

    def gates(self, agent: AgentPlan, judged: Record) -> tuple[tuple[str, ...], ...]:
        """The gates of the loop, which must pass before it or a branch of a wave completes."""
        match judged:
            case EventEmitted(turn=turn, event=event):
                completes = event == self._loop.view(turn).completion
            case TurnFinished(promised=completes):
                pass
            case _:
                completes = False
        return agent.gates if completes else ()

    def refused(self, judged: Record, gate: GateChecked) -> Record:
        """A rejected event or a refused promise in place of *judged*."""
        reason = f"{gate.reason}; the end of its output:\n{gate.output}" if gate.output else gate.reason
        match judged:
            case EventEmitted():
                return rejected(self._loop.view(judged.turn), judged, reason)
            case TurnFinished():
                return replace(judged, promised=False, promise_refused=reason)
            case _:
                return judged

    @property
    def unjoined(self) -> int:
        """The wave that the engine has marked as not merged."""
        return self._loop.unmerged

    @property
    def iterations(self) -> int | None:
        """The number of iterations begun."""
        return self._loop.state.iteration

    def start_facts(self, turn: str) -> dict[str, Any]:
        """The event that led to *turn*; emitted events are added later."""
        return {"event": self._loop.view(turn).recent, "emitted": [], "rejected": []}

    def run_facts(self, reason: str) -> dict[str, Any]:
        """The reason for the end of the loop."""
        return {"reason": reason}
