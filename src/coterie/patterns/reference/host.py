"""Run programs beside a tree of runs, each program as a task.

The shell drives the runs as usual. Actions of a program reach it as events; durable records come back through its
observer, so no program learns of anything that a power cut could revoke. A program without effects outside (`pure`)
learns of it earlier, once a record has its place in the journal: the calls that follow follow that record and
start when both are durable, and its result is not reported earlier. The topology object of a run also answers the
attempts.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.agents.backends.base import Failure, OnEvent, Request, Session
from coterie.agents.backends.human import AskHuman
from coterie.base.clock import Clock
from coterie.base.user_code import CANCELLED, contained, is_cancelled
from coterie.errors import CollaborationFailed, ReplayMismatch
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import CompletedSession, Turns
from coterie.execution.runs.backend_setup import local_turns
from coterie.execution.runs.sidecars import ShellServices
from coterie.history.engines.program import Outcome, Program
from coterie.history.engines.questions import AgentFailed, PatternFailed
from coterie.history.journal.records import Record, RunFinished, RunOwned
from coterie.patterns.reference.attempts import CallAttempt, told
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.program_run import ProgramRun


class Host(Turns):
    """Runs the program of a root run, and those of the teams that it calls.

    Args:
        topology: The root's.
        observe: Called with the run's id and each record, in order, once it is durable.
        human: Asks a human at a terminal; without it they answer through the inbox.

    Attributes:
        main: Drives the run; cancelled when it must stop because its program has changed.
        error: The failure of the root's program, or the difference that keeps a changed program from resuming.
    """

    def __init__(
        self,
        topology: Collaboration,
        clock: Clock,
        observe: Callable[[str, Record], object],
        human: AskHuman | None = None,
    ) -> None:
        self._topology, self._clock, self._observe = topology, clock, observe
        self._others = local_turns(human)
        self._program_runs: dict[str, ProgramRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shell: Shell | None = None
        self.main: asyncio.Future[Any] | None = None
        self.error: Exception | None = None

    def attach(self, shell: Shell) -> None:
        """Set the shell that drives the runs."""
        self._shell = shell
        shell.watch(self._appended)

    async def close(self) -> None:
        """Cancel all running programs, and wait for them. Idempotent."""
        while tasks := [task for task in self._tasks.values() if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._others.close()

    # -- records from the shell ---------------------------------------------------------------------------------------

    def observe(self, run: str, record: Record) -> None:
        """Take a record that is durable."""
        self._observe(run, record)
        if isinstance(record, RunOwned):
            self._begin(run)
        elif (program_run := self._program_runs.get(run)) is not None:
            if isinstance(record, Outcome):
                program_run.durable(record)
            elif isinstance(record, RunFinished) and record.outcome == "cancelled":
                self._tasks[run].cancel()

    def _appended(self, run: str, record: Record) -> None:
        """Take a record that is appended but may still be lost."""
        if isinstance(record, Outcome) and (program_run := self._program_runs.get(run)) is not None:
            program_run.appended(record)

    def _begin(self, run: str) -> None:
        assert self._shell is not None
        shell, parent = self._shell, self._shell.runs[run].parent
        services = ShellServices(run, shell, self, self._clock)
        above = self._program_runs.get(parent[0].run) if parent is not None else None
        topology: Collaboration | None = self._topology
        if parent is not None:
            topology = above.topology.team(parent[1].ask.agent) if above is not None else None
        engine = services.core.engine
        if topology is None or not services.core.is_live or not isinstance(engine, Program):
            return
        models = partial(self._others.backend, "model")
        made = ProgramRun(topology, services, engine, models, above.context if above is not None else None)
        self._program_runs[run] = made
        shell.adjust_external_tasks(1)
        self._tasks[run] = task = asyncio.get_running_loop().create_task(self._play(made, services))
        task.add_done_callback(lambda _: shell.adjust_external_tasks(-1))

    async def _play(self, program_run: ProgramRun, services: ShellServices) -> None:
        """Run a program to its end, which ends its run."""
        try:
            with contained():
                output = await program_run.play()
            finished = RunFinished(outcome="completed", result=program_run.topology.as_result(output))
        except ReplayMismatch as mismatch:
            self.error = mismatch
            if self.main is not None:
                self.main.cancel()
            return
        except asyncio.CancelledError:
            if is_cancelled() or not services.is_open:
                raise
            finished = self._failed(services.run, CollaborationFailed(CANCELLED))
        except Exception as error:  # a user's code may raise what it likes: it fails its run
            finished = self._failed(services.run, error)
        services.finish(finished, "the program is over", source="agent")

    def _failed(self, run: str, error: Exception) -> RunFinished:
        if "/" not in run and self.error is None:
            self.error = error
        cause = error.__cause__
        kind = {"kind": cause.kind} if isinstance(cause, AgentFailed | PatternFailed) and cause.kind else {}
        return RunFinished(outcome="failed", reason=told(error), result={"type": type(error).__name__, **kind})

    # -- attempts -----------------------------------------------------------------------------------------------------

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start to answer a call, or to ask a human; no attempt outlives this process."""
        if request.agent.kind == "human":
            return await self._others.start(request, on_event)
        program_run = self._program_runs.get(request.run)
        if program_run is None:
            return CompletedSession(Failure(kind="not_found", reason=f"no program runs for {request.run}"))
        return CallAttempt(program_run, request)
