"""The common base of attempts of coding agents.

A subclass speaks the agent's protocol in `_exchange`; this module prepares the environment of the process, passes on
the agent's events, sums up its usage, decides on permissions, sets deadlines, and ends remaining processes.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct

from coterie.agents.backends.attempt import ProcessEnvironment, prepared
from coterie.agents.backends.attempt_timeout import AttemptTask
from coterie.agents.backends.base import (
    Answer,
    Event,
    Failure,
    OnEvent,
    Permission,
    Request,
    Result,
    Session,
    SessionOpened,
    Text,
    Tool,
    Used,
)
from coterie.agents.backends.classify import classify
from coterie.agents.backends.coding.limits import failed
from coterie.agents.backends.coding.permissions import ApprovalDecision, ApprovalRequest, ToolPermissions
from coterie.agents.backends.coding.wire import Transcript, WireProcess
from coterie.agents.backends.outcome import cannot_start
from coterie.agents.backends.processes import GRACE, end_orphans
from coterie.agents.backends.secrets import Secrets, StreamRedactor
from coterie.base.shortages import shortage
from coterie.errors import Unconfined
from coterie.history.journal.records import NO_USAGE, Usage

HANDSHAKE = 30.0
DETAIL_MOST = 300
"""How many characters of a tool's input or result an event has."""
RULE_MOST = 1000
"""The longest rule that is offered to a person, in characters."""
ANSWER_MOST = 8_000_000
"""How many characters of an answer are kept, from its end."""
_TEXTS = ("name", "tool", "detail", "result", "why")
"""The fields of events with text from the agent."""

T = TypeVar("T")


class Deadlines(Struct, frozen=True, kw_only=True):
    """Time limits of an agent outside its work, which has the time-out of its plan.

    Attributes:
        handshake: Seconds for each answer before its work begins: start, handshake, new session.
        download: Seconds for the first answer of an agent that `npx` runs, which may first download 400 MB.
        cancel: Seconds to stop after an interruption, before its processes are ended.
        late: Seconds for further output, and for ending by itself, after its answer.
        grace: Seconds between asking its processes to end and killing them.
        end: Seconds until the attempt is over even if something that it started has not ended.
    """

    handshake: float = HANDSHAKE
    download: float = 900.0
    cancel: float = 5.0
    late: float = 1.0
    grace: float = GRACE
    end: float = 20.0


DEADLINES = Deadlines()


class Wedged(Exception):
    """The agent did not answer in time; the message names the request."""


class Gone(Exception):
    """The agent's process ended, or closed its output, while an answer was awaited."""


class CodingAttempt(AttemptTask):
    """One turn of a coding agent, from the start of its session to its answer.

    Attributes:
        label: The name of the protocol in the names of transcripts.
        permissions: Decides on the agent's requests to use tools.
        deadlines: The time limits outside the agent's work.
    """

    label: ClassVar[str]

    def __init__(self, request: Request, on_event: OnEvent, deadlines: Deadlines = DEADLINES) -> None:
        self.request, self.agent, self.deadlines = request, request.agent, deadlines
        self._on_event = on_event
        self._secrets = Secrets()
        self._redactors: dict[str, StreamRedactor] = {}
        cwd = (request.cwd or Path()).absolute() / request.agent.cwd
        self.permissions = ToolPermissions(request.agent, self.say, self._time_held, cwd, request.folder)
        self._answer: list[str] = []
        self._answer_size = 0
        self.used = NO_USAGE
        super().__init__(request.agent.timeout)

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the agent's open question."""
        return self.permissions.answer(question, ApprovalDecision(allowed, message))

    # -- the protocol, in subclasses ----------------------------------------------------------------------------------

    @abstractmethod
    async def _exchange(self, environment: ProcessEnvironment) -> Result:
        """Begin a session, prompt, and listen until the agent has answered.

        Raises:
            Wedged, Gone, OSError: If the agent fails.
        """

    @abstractmethod
    async def steer(self, text: str) -> bool:
        """Pass *text* to the working agent; False if it can no longer receive it."""

    @abstractmethod
    async def _cancel(self) -> bool:
        """Ask the agent to stop its turn within `Deadlines.cancel` seconds; False if it has not begun one."""

    @abstractmethod
    async def _release(self, usable: bool) -> None:
        """End everything that the attempt started; *usable*: the agent has answered, or has stopped after `_cancel`."""

    async def started(self, argv: Sequence[str], env: dict[str, str], cwd: Path) -> WireProcess | Failure:
        """Start the program *argv*; return it, or the failure to start it.

        Raises:
            Wedged: If that takes longer than a handshake may.
        """
        marker = self.request.ref.marker
        start = WireProcess.start(argv, env=env, cwd=cwd, marker=marker, secrets=self._secrets, on_event=self.say)
        try:
            process = await self.in_time(start, "start")
        except (OSError, ValueError) as error:
            return cannot_start(argv[0], cwd, error)
        process.attach(self.say, self.transcript)
        return process

    async def in_time(self, work: Awaitable[T], what: str) -> T:
        """Await *work* within the time for a handshake; see `in_time`."""
        return await in_time(work, what, self.deadlines.handshake)

    # -- what it says -------------------------------------------------------------------------------------------------

    @cached_property
    def transcript(self) -> Transcript:
        """The file for the agent's protocol traffic."""
        path = self.request.transcript
        return Transcript(path and path.with_name(f"{self.label}-{path.name}"), self._secrets)

    @property
    def said(self) -> str:
        """The text of the answer so far."""
        self._answer = ["".join(self._answer)[-ANSWER_MOST:]]
        return self._answer[0]

    def text(self, text: str, channel: str = "answer") -> None:
        """Pass on a piece of text; a possible beginning of a secret is held back until the next piece."""
        shown = self._redactors.setdefault(channel, StreamRedactor(self._secrets)).feed(text)
        self._show(shown, channel)

    def begin_answer(self) -> None:
        """Restart the answer: text before the agent's last use of a tool is only in the stream of events."""
        self._flush()
        self._answer, self._answer_size = [], 0

    def say(self, event: Event) -> None:
        """Pass on *event*, without secrets and with each text in one line."""
        match event:
            case Tool() | Permission():
                # a text that is shortened first might end with the beginning of a secret
                texts = {name: getattr(event, name) for name in _TEXTS if name in event.__struct_fields__}
                changed = {name: self.shorten(text) for name, text in texts.items()}
                if isinstance(
                    event, Permission
                ):  # a rule is stored and compared as a whole, so a rule with a secret is not offered
                    is_rule = len(event.rule) <= RULE_MOST and self._secrets.hide(event.rule) == event.rule
                    changed["rule"] = event.rule if is_rule else ""
                event = msgspec.structs.replace(event, **changed)
                self._flush()
        self._on_event(event)

    def shorten(self, text: str) -> str:
        """Shorten *text* to one short line, without secrets."""
        return shorten(self._secrets.hide(text))

    def tool(self, id: str, name: str, state: str, *, detail: str = "", result: str = "") -> None:
        """Pass on the start or the end of a tool's use."""
        self.say(Tool(id=id, name=name, state=state, detail=detail, result=result))

    def opened(self, session: str, turns: int | None = None) -> None:
        """Pass on the session in which the agent works; log it if the wanted session was not continued.

        *turns*: how many turns it had before, if the agent reports it.
        """
        wanted = self.request.session
        if wanted and session != wanted:
            self.text(f"the agent's session {wanted} could not be continued: it works in a new one\n", "log")
        self.say(SessionOpened(id=session, resumed=bool(wanted) and session == wanted, turns=turns))

    def failure(self, text: str, kind: str = "", *, wait: float = 0.0) -> Failure:
        """The failure that the agent reports as *text*, of *kind* if the protocol has it; *wait*: until its reset."""
        found = failed(text, kind, wait=wait)
        return msgspec.structs.replace(found, reason=self.shorten(text))

    def use(self, usage: Usage) -> None:
        """Pass on the total usage of the attempt so far."""
        self.used = usage
        self.say(Used(usage=usage))

    async def while_running(self, event: asyncio.Event) -> bool:
        """Wait for *event*; False if the attempt ends or is cut off first."""
        waiting = asyncio.ensure_future(event.wait())
        either: set[asyncio.Future[Any]] = {waiting, self.task, self._cut}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return event.is_set() and not self.task.done()

    async def decided(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """The decision on *request*; None if the attempt is cut off before."""
        asking = asyncio.ensure_future(self.permissions.decide(request))
        either: set[asyncio.Future[Any]] = {asking, self._cut}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()

    # -- the attempt --------------------------------------------------------------------------------------------------

    async def _run(self) -> Result:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._limit_time(self.request.taken)
        try:
            with prepared(self.request, lambda line: self.text(f"{line}\n", "log")) as environment:
                self._secrets = Secrets(environment.env)
                result = await self._until_over(loop.create_task(self._safely(environment)))
        except OSError as error:  # a folder without write access
            if shortage(error):
                raise
            result = Failure(kind="failed", reason=f"the files of the attempt could not be kept: {error}")
        self._flush()
        if isinstance(result, Failure):
            result = msgspec.structs.replace(result, reason=self._secrets.hide(result.reason), text=self.said)
        self.transcript.close()
        used = msgspec.structs.replace(self.used, seconds=loop.time() - began)
        return msgspec.structs.replace(result, usage=used)

    async def _until_over(self, exchange: "asyncio.Task[Result]") -> Result:
        """The result of *exchange*, or the reason for cutting the attempt off; returns when nothing of it is left."""
        either: set[asyncio.Future[Any]] = {exchange, self._cut}
        usable, deadlines = False, self.deadlines
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if exchange.done():
                result = exchange.result()
                usable = isinstance(result, Answer)
                return result
            with suppress(TimeoutError, Gone, OSError):
                async with asyncio.timeout(deadlines.cancel):
                    if await self._cancel():
                        await asyncio.wait({exchange})
                        usable = True
            return self._cut.result()
        finally:
            if not exchange.done():
                exchange.cancel()
                await asyncio.wait({exchange}, timeout=deadlines.cancel)
            try:
                async with asyncio.timeout(deadlines.end):
                    await self._release(usable)
            except TimeoutError:
                await self._kill()

    async def _kill(self) -> None:
        """Kill the processes that `_release` did not end in time."""
        await end_orphans(self.request.ref.marker, (), grace=0.0)
        self.text(f"the agent did not end within {self.deadlines.end:g} s: its processes were killed\n", "log")

    async def _safely(self, environment: ProcessEnvironment) -> Result:
        """The result of `_exchange`; its exceptions become failures."""
        try:
            return await self._exchange(environment)
        except Wedged as error:
            return Failure(kind="timeout", reason=str(error))
        except Gone as error:
            return self.failure(str(error), classify(str(error)) or "exit")
        except Unconfined as error:
            return Failure(kind="refused", reason=str(error))
        except OSError as error:
            if shortage(error):
                raise
            return Failure(kind="failed", reason=f"{type(error).__name__}: {error}")

    def answer(self) -> Answer:
        """The answer of the agent."""
        self._flush()
        return Answer(text=self.said)

    def repeated(self, first: str) -> Failure:
        """The failure of an agent that gave a second result after *first*, or a result while its tools were at work.

        A tool can write to the output of its agent, so either result may be forged.
        """
        self._flush()
        self._answer = [first]
        reason = "the agent gave more than one result, or one while a tool was at work: a tool may have forged it"
        return Failure(kind="failed", reason=f"{reason}; the first is kept")

    def _show(self, text: str, channel: str) -> None:
        if text:
            if channel == "answer":
                self._answer.append(text)
                self._answer_size += len(text)
                if self._answer_size > 2 * ANSWER_MOST:
                    self._answer_size = len(self.said)
            self._on_event(Text(text=text, channel=channel))

    def _flush(self) -> None:
        for channel, redactor in self._redactors.items():
            self._show(redactor.feed("", final=True), channel)


class ProtocolBackend(ABC):
    """Runs each turn as an attempt of the subclass's kind."""

    def __init__(self, deadlines: Deadlines = DEADLINES) -> None:
        self._deadlines = deadlines
        self._attempts: set[CodingAttempt] = set()

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the agent of *request*; a failure to start is a result."""
        attempt = self._attempt(request, on_event)
        self._attempts.add(attempt)
        attempt.task.add_done_callback(lambda _: self._attempts.discard(attempt))
        return attempt

    async def close(self) -> None:
        """End all attempts that still run. Idempotent."""
        await asyncio.gather(*(attempt.interrupt() for attempt in self._attempts))

    @abstractmethod
    def _attempt(self, request: Request, on_event: OnEvent) -> CodingAttempt:
        """Begin an attempt of *request*."""


async def in_time(work: Awaitable[T], what: str, seconds: float = HANDSHAKE) -> T:
    """Await *work*.

    Raises:
        Wedged: If it takes longer than *seconds*; *what* names the request.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise Wedged(f"the agent did not answer `{what}` within {seconds:g} s") from None


def shorten(text: str) -> str:
    """Shorten *text* to one line of at most `DETAIL_MOST` characters."""
    line = " ".join(text[: 4 * DETAIL_MOST].split())
    return line if len(line) <= DETAIL_MOST else line[: DETAIL_MOST - 1] + "…"
