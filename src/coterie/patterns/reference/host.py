"""Run programs beside a tree of runs, each program as a task.

The shell drives the runs as usual. Actions of a program reach it as events; durable records come back through its
observer, so no program learns of anything that a power cut could revoke. A program without effects outside (`pure`)
learns of it earlier, once a record has its place in the journal: the calls that follow follow that record and
start when both are durable, and its result is not reported earlier. The topology object of a run also answers the
attempts.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from coterie.backends.base import (
    NO_ABILITIES,
    Abilities,
    AttemptRef,
    Backend,
    Failure,
    OnEvent,
    Request,
    Session,
    Unknown,
)
from coterie.backends.human import AskHuman, HumanBackend
from coterie.clock import Clock
from coterie.engines.generator import AgentFailed, PatternFailed
from coterie.engines.program import Outcome, Program
from coterie.errors import CollaborationFailed, ReplayMismatch
from coterie.journal import records as r
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.shell import Shell
from coterie.kernel.turns import CompletedSession
from coterie.patterns.reference.attempts import CallAttempt, told
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.reference.program_run import HUMAN, ProgramRun
from coterie.planning.plan import AgentPlan

R = TypeVar("R", bound=r.Record)

_WAY = 8
"""Turns of the event loop that a program may take from an answer to its next call, messages and tasks included."""


class Host:
    """Runs the program of a root run, and those of the teams that it calls.

    Args:
        topology: The root's.
        observe: Called with the run's id and each record, in order, once it is durable.
        human: Asks a human at a terminal; without it they answer through the inbox.

    Attributes:
        error: The failure of the root's program.
        mismatch: The difference that keeps a changed program from resuming.
    """

    def __init__(
        self,
        topology: Collaboration,
        clock: Clock,
        observe: Callable[[str, r.Record], object],
        human: AskHuman | None = None,
    ) -> None:
        self._topology, self._clock, self._observe = topology, clock, observe
        self._human = HumanBackend(human)
        self._program_runs: dict[str, ProgramRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shell: Shell | None = None
        self._closing = False
        self._models: Backend | None = None
        self._stop: Callable[[], object] = str
        self.error: Exception | None = None
        self.mismatch: ReplayMismatch | None = None

    def attach(self, shell: Shell) -> None:
        """Set the shell that drives the runs."""
        self._shell = shell
        shell.watch(self._appended)

    def on_mismatch(self, stop: Callable[[], object]) -> None:
        """Set the callback that stops the run when its program has changed."""
        self._stop = stop

    async def close(self) -> None:
        """Cancel all running programs, and wait for them. Idempotent."""
        self._closing = True
        while tasks := [task for task in self._tasks.values() if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        models, self._models = self._models, None
        if models is not None:
            await models.close()

    # -- records from the shell ---------------------------------------------------------------------------------------

    def observe(self, run: str, record: r.Record) -> None:
        """Take a record that is durable."""
        self._observe(run, record)
        match record:
            case r.RunOwned():
                self._begin(run, record.seq)
            case r.TurnFinished() | r.TurnFailed() | r.TurnCancelled() if run in self._program_runs:
                self._program_runs[run].durable(record)
            case r.RunFinished() if (task := self._tasks.get(run)) is not None:
                if record.outcome == "cancelled":
                    task.cancel()
            case _:
                pass

    def _appended(self, run: str, record: r.Record) -> None:
        """Take a record that is appended but may still be lost."""
        if isinstance(record, Outcome) and (program_run := self._program_runs.get(run)) is not None:
            program_run.appended(record)
            if program_run.is_pure:
                self._defer_sync()

    def _defer_sync(self) -> None:
        if self._shell is not None:
            self._shell.defer_sync(_WAY)

    def _begin(self, run: str, seq: int) -> None:
        live = self._live(run)
        topology = self._topology_of(live)
        if live is None or topology is None or not live.core.is_live or not isinstance(live.core.engine, Program):
            return
        engine, started = live.core.engine, live.core.started
        given = plain_object(started.input if started is not None else {}, "the input")
        made = ProgramRun(topology, self, run, engine, given, seq)
        if live.parent is not None:
            made.context.parent_context = self._program_runs[live.parent[0].run].context
        self._program_runs[run] = made
        self._at_work(1)
        self._tasks[run] = task = asyncio.get_running_loop().create_task(self._play(run, made))
        task.add_done_callback(lambda _: self._at_work(-1))

    def _topology_of(self, live: DrivenRun | None) -> Collaboration | None:
        if live is None:
            return None
        if live.parent is None:
            return self._topology
        above, start = live.parent
        parent = self._program_runs.get(above.run)
        return parent.topology.team(start.ask.agent) if parent is not None else None

    async def _play(self, run: str, program_run: ProgramRun) -> None:
        is_root = program_run.topology is self._topology and "/" not in run
        try:
            output = await program_run.play()
            finished = r.RunFinished(outcome="completed", result=program_run.topology.as_result(output))
        except ReplayMismatch as mismatch:
            self.mismatch = mismatch
            self._stop()
            return
        except asyncio.CancelledError:
            if self._is_called_off(run):
                raise
            finished = self._failed(CollaborationFailed("it awaited something that had been cancelled"), is_root)
        except Exception as error:  # a user's code may raise what it likes: it fails its run
            finished = self._failed(error, is_root)
        self._post(run, partial(self._finish, finished))

    def _is_called_off(self, run: str) -> bool:
        """Whether the program of *run*, which runs here, must end: it was cancelled, or nothing can be written any
        more.
        """
        task, live, shell = asyncio.current_task(), self._live(run), self._shell
        if task is None or task.cancelling() or self._closing:
            return True
        return shell is None or live is None or not live.core.is_live or shell.tree.closing

    def _failed(self, error: Exception, is_root: bool) -> r.RunFinished:
        if is_root:
            self.error = error
        cause = error.__cause__
        kind = {"kind": cause.kind} if isinstance(cause, AgentFailed | PatternFailed) and cause.kind else {}
        return r.RunFinished(outcome="failed", reason=told(error), result={"type": type(error).__name__, **kind})

    def _finish(self, finished: r.RunFinished, live: DrivenRun) -> None:
        now = self._clock.now()
        for turn in list(live.core.turns):
            live.outbox += live.core.cancel(now, turn, "the program is over", "harness")
        live.core.write(now, finished, source="agent")

    # -- what programs do ---------------------------------------------------------------------------------------------

    async def write(self, run: str, make: Callable[[], R]) -> R:
        """Append the record that *make* returns to the journal of *run*, in its turn."""
        if self._closing:
            raise asyncio.CancelledError  # nothing is written any more, so waiting would never end
        written: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def append(live: DrivenRun) -> None:
            record: Any = live.core.write(self._clock.now(), make(), source="agent")
            if not written.done():
                written.set_result(record)
                self._defer_sync()  # what it writes next can share the sync

        self._post(run, append, written.cancel)
        return await written

    def ask(self, run: str, call: r.CallAsked, refuse: Callable[[], object]) -> None:
        """Append *call* to the journal of *run*, in its turn; *refuse* is called if nothing can be written any more."""

        def append(live: DrivenRun) -> None:
            live.core.write(self._clock.now(), call, source="agent")

        if self._closing:
            refuse()
        else:
            self._post(run, append, refuse)

    def drop(self, run: str, turn: str) -> None:
        """Cancel *turn*, unless it has ended."""

        def dropped(live: DrivenRun) -> None:
            engine = live.core.engine
            if isinstance(engine, Program) and turn in engine.calls and turn not in engine.outcomes:
                live.core.write(self._clock.now(), r.CallDropped(turn=turn), source="agent")

        if not self._closing:
            self._post(run, dropped)

    def models(self) -> Backend:
        """The backend that calls the providers of models."""
        if self._models is None:
            from coterie.backends.models.backend import ModelBackend

            self._models = ModelBackend()
        return self._models

    def _post(self, run: str, event: Callable[[DrivenRun], object], refuse: Callable[[], object] = str) -> None:
        shell = self._shell
        assert shell is not None

        def handle() -> None:
            live = self._live(run)
            if live is not None and live.core.is_live and not shell.tree.closing:
                event(live)
                shell.tree.pump(live)
            else:
                refuse()

        shell.post(handle)

    def _live(self, run: str) -> DrivenRun | None:
        return self._shell.runs.get(run) if self._shell is not None else None

    def _at_work(self, change: int) -> None:
        if self._shell is not None:
            self._shell.adjust_external_tasks(change)

    # -- attempts -----------------------------------------------------------------------------------------------------

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start to answer a call."""
        if request.agent.name == HUMAN and request.agent.kind == "human":
            return await self._human.start(request, on_event)
        program_run = self._program_runs.get(request.run)
        if program_run is None:
            return CompletedSession(Failure(kind="not_found", reason=f"no program runs for {request.run}"))
        return CallAttempt(program_run, request)

    def activity(self, launched: Sequence[r.AttemptLaunched]) -> None:
        """No process runs."""

    def uses_context(self, agent: AgentPlan) -> bool:
        """False: a program composes its own prompts."""
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        """Nothing: a program's calls are answered by its host."""
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        """Unknown: no attempt outlives the process that started it."""
        return Unknown()

    async def end(self, run: str, launched: Sequence[r.AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Nothing to do: calls are answered in this process."""
