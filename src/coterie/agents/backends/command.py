"""Run programs as agents: the prompt is standard input, a file or an argument, and the output is the answer.

A program is an argv list, never a shell command, and leads a separate process group; everything that it started ends
with it. `coterie.agents.backends.attempt` prepares its environment, `coterie.agents.backends.outcome` interprets how it
ended.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec

from coterie.agents.backends.attempt import ProcessEnvironment, prepared
from coterie.agents.backends.attempt_timeout import AttemptTask
from coterie.agents.backends.base import (
    Abilities,
    Answer,
    Failure,
    Finished,
    Found,
    OnEvent,
    Request,
    Result,
    Running,
    Session,
    Text,
    Unknown,
)
from coterie.agents.backends.child import Child, spawn
from coterie.agents.backends.detached_command import (
    LOOK_EVERY,
    DetachedCommand,
    commands_of,
    could_not_start,
    is_detached,
)
from coterie.agents.backends.outcome import OutputReader, cannot_start, exit_of, failure_of
from coterie.agents.backends.processes import GRACE, MARK, end_orphans
from coterie.agents.backends.reported import VARIABLE, reported
from coterie.agents.backends.secrets import Secrets
from coterie.base.shortages import shortage
from coterie.errors import Unconfined
from coterie.history.journal.records import Usage

ANSWER_LIMIT = 8_000_000
"""How many bytes of standard output, the answer, are kept, from its end."""
LOG_LIMIT = 4_000
"""How many bytes of standard error are kept, from its end."""

_LINGER = 1.0
"""Seconds that another process may keep a program's outputs open after it has ended."""


class CommandBackend:
    """Runs agents, actions and gates that are commands.

    Exit status 0 is an answer, 75 a `transient` failure. Any other status is a failure that quotes the last line of
    standard error; its kind is classified by the end of an agent's output, else `exit`. A gate with a verdict answers
    with its status instead. A failure contains the output, like an answer. A time-out, an interruption, and cancelling
    the wait for the result end the program with everything that it started, in little more than *grace* seconds.

    Args:
        grace: Seconds between SIGTERM and SIGKILL.
    """

    uses_context = True
    abilities = Abilities(find=True)

    def __init__(self, *, grace: float = GRACE) -> None:
        self._grace = grace
        self._attempts: set[_Attempt] = set()

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the program of *request*; a failure to start is a result."""
        return self._begin(request, on_event)

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Continue the program of *request*, if it was started detached from the owner of its run.

        An ended program is found by the exit status that it left, even long after its end; a program that was killed or
        asked to end was interrupted and is unknown.
        """
        if not is_detached(request) or request.folder is None:
            return Unknown()
        kept = DetachedCommand(request.folder)
        lives, ended = kept.lives(), kept.status()
        if (not lives and ended is None) or (ended is not None and ended.was_cut_off(without_owner=True)):
            return Unknown()
        attempt = self._begin(request, on_event, found=True)
        return Running(attempt) if ended is None else Finished(await attempt.result())

    def _begin(self, request: Request, on_event: OnEvent, found: bool = False) -> "_Attempt":
        attempt = _Attempt(request, on_event, self._grace, found)
        self._attempts.add(attempt)
        attempt.task.add_done_callback(lambda _: self._attempts.discard(attempt))
        return attempt

    async def close(self) -> None:
        """End all attempts that still run. Idempotent."""
        await asyncio.gather(*(attempt.interrupt() for attempt in self._attempts))


class _Attempt(AttemptTask):
    """A running attempt; *found*: an earlier owner started it."""

    def __init__(self, request: Request, on_event: OnEvent, grace: float, found: bool = False) -> None:
        super().__init__(request.agent.timeout)
        self._request, self._agent, self._on_event, self._grace = request, request.agent, on_event, grace
        self._found = found
        self._took: float | None = None

    async def steer(self, text: str) -> bool:
        """Return False: a program reads nothing after its start."""
        return False

    async def _run(self) -> Result:
        loop = asyncio.get_running_loop()
        began, used = loop.time() - self._request.taken, Usage()
        self._limit_time(self._request.taken)
        try:
            with prepared(self._request, self._say) as environment:
                result = await self._commands(environment)
                used = reported(Path(environment.env[VARIABLE]), self._on_event)
        except Unconfined as error:
            result = Failure(kind="refused", reason=str(error))
        except OSError as error:  # a folder without write access
            if shortage(error):
                raise
            result = Failure(kind="failed", reason=f"the files of the attempt could not be kept: {error}")
        seconds = loop.time() - began if self._took is None else self._took
        return msgspec.structs.replace(result, usage=used + Usage(seconds=seconds))

    def _say(self, line: str) -> None:
        self._on_event(Text(text=f"{line}\n", channel="log"))

    async def _commands(self, environment: ProcessEnvironment) -> Result:
        """Run the agent's command, or an action's commands one after the other until one fails."""
        agent = self._agent
        commands = commands_of(self._request)
        if not commands and agent.kind == "agent":
            reason = f"agent {agent.name!r} has no command: write `command: [...]` in its `extensions {{ coterie }}`"
            return Failure(kind="not_found", reason=reason)
        secrets, passed = Secrets(environment.env), True
        answer = OutputReader("answer", secrets, self._on_event, ANSWER_LIMIT)
        for command in commands:
            log = OutputReader("log", secrets, self._on_event, LOG_LIMIT)
            one = self._detached_command if is_detached(self._request) else self._command
            ended = await one(command, environment, answer, log)
            if ended == 0:
                continue
            if not isinstance(ended, Failure):
                if agent.verdict and ended > 0:
                    passed = False
                    break
                written = _as_written(secrets.hide(" ".join(command)))
                ended = failure_of(written, ended, answer, log, of_agent=agent.kind == "agent")
            reason = secrets.hide(ended.reason)
            return msgspec.structs.replace(ended, reason=reason, text=answer.text, log=log.text)
        return Answer(text=answer.text, outputs={"passed": passed} if agent.verdict else None)

    async def _command(
        self, command: tuple[str, ...], environment: ProcessEnvironment, answer: OutputReader, log: OutputReader
    ) -> int | Failure:
        """Run one program to its end and return its exit status."""
        if self._cut.done():
            return self._cut.result()
        argv = environment.confine(environment.fill(command))
        try:
            environment.stdin.seek(0)
            child = await spawn(
                argv,
                stdin=environment.stdin,
                env=environment.env,
                cwd=environment.cwd,
                marker=environment.env[MARK],
                on_event=self._on_event,
                on_output=lambda fd, data: (answer if fd == 1 else log).feed(data),
                merged=self._agent.verdict,
            )
        except (OSError, ValueError) as error:
            return cannot_start(argv[0], environment.cwd, error)
        exited: set[asyncio.Future[Any]] = {child.exited, self._cut}
        try:
            await asyncio.wait(exited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with self._time_held():  # its time-out does not count what it left behind
                await self._end(child)
            child.close()
        if self._cut.done():  # the withheld end may be the beginning of a secret: drop it
            how = exit_of(child.status) if child.exited.done() else {}
            return msgspec.structs.replace(self._cut.result(), **how)
        answer.end()
        log.end()
        return child.status

    async def _detached_command(
        self, command: tuple[str, ...], environment: ProcessEnvironment, answer: OutputReader, log: OutputReader
    ) -> int | Failure:
        """Run one program detached, or continue it, and return its exit status."""
        assert self._request.folder is not None
        kept = DetachedCommand(self._request.folder)
        argv = environment.fill(command) if self._found else environment.confine(environment.fill(command))
        child: Child | None = None
        if self._found:
            if (launched := kept.launched()) is not None:
                self._on_event(launched)
        else:
            try:
                environment.stdin.seek(0)
                child = await spawn(
                    kept.command(argv, self._agent.verdict),
                    stdin=environment.stdin,
                    env=environment.env,
                    cwd=environment.cwd,
                    marker=environment.env[MARK],
                    on_event=self._on_event,
                    on_output=lambda fd, data: None,
                )
            except (OSError, ValueError) as error:
                return cannot_start(argv[0], environment.cwd, error)

        def feed(fd: int, data: bytes) -> None:
            (answer if fd == 1 else log).feed(data)

        def skip(fd: int, size: int) -> None:
            (answer if fd == 1 else log).skip(size)

        def lives() -> bool:
            return kept.lives() if child is None else not child.exited.done()

        exited: set[asyncio.Future[Any]] = {self._cut} if child is None else {self._cut, child.exited}
        try:
            while lives() and kept.status() is None and not self._cut.done():
                kept.read(feed, skip)
                await asyncio.wait(exited, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            status = kept.status()
        finally:
            if child is None:
                launched = kept.launched()
                await end_orphans(environment.env[MARK], [launched] if launched is not None else [], grace=self._grace)
            else:
                await child.end(self._grace)
                await child.drain(_LINGER)
                child.close()
        kept.read(feed, skip)
        if status is None or status.was_cut_off(without_owner=self._found):
            if self._cut.done():
                return self._cut.result()
            if status is not None and (lacks := shortage(OSError(status.lost, os.strerror(status.lost)))):
                return Failure(kind="shortage", reason=f"the output of `{argv[0]}` could not be kept: {lacks}")
            return Failure(kind="lost", reason="it was ended from outside, or its output or exit status was lost")
        self._took = status.seconds
        if (why := could_not_start(status)) is not None:
            return cannot_start(argv[0], environment.cwd, why)
        answer.end()
        log.end()
        return status.exit

    async def _end(self, child: Child) -> None:
        """Read the rest of the output, and end everything that the program left behind, in any process group."""
        if not self._cut.done():
            await child.drain(_LINGER, self._cut)
        await child.end(self._grace)
        await child.drain(_LINGER)


def _as_written(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
