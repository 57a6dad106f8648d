"""Pi as an agent, through its RPC mode: JSON lines on standard input and output.

A process of pi serves one turn after the other, each in a new session, or in the turn's session if it was interrupted:
`new_session` or `switch_session`, `prompt`, events until `agent_end`, `get_session_stats`. `pi_process.py` keeps the
processes and the sessions. Pi asks for no permission, so none is enforced.

Source: https://github.com/earendil-works/pi-mono, packages/coding-agent/docs/rpc.md, version 0.74.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from coterie.agents.backends.attempt import ProcessEnvironment
from coterie.agents.backends.base import Abilities, Answer, Event, Failure, OnEvent, Request, Result, Text
from coterie.agents.backends.coding.attempt import (
    DEADLINES,
    CodingAttempt,
    Deadlines,
    Gone,
    ProtocolBackend,
    Wedged,
    in_time,
)
from coterie.agents.backends.coding.pi_process import CommandRefused, PiPool, PiProcess, PiSlot
from coterie.agents.backends.needs import variables_of
from coterie.agents.backends.outcome import cannot_start
from coterie.agents.backends.reported import amount
from coterie.history.journal.records import NO_USAGE, Usage

_BROKEN_OFF = re.compile(
    r"^terminated$|other side closed|premature close|could not parse|unexpected (?:end|token)|in JSON at position"
    r"|stream ended (?:without|before)",
    re.IGNORECASE,
)
"""Errors of a lost connection or an unreadable stream."""


class PiBackend(ProtocolBackend):
    """Runs turns of pi in reused processes, one for each parallel attempt.

    The agent's plan names the command and the model. Reviews have a separate process.
    """

    abilities = Abilities(steer=True, resume=True, cost=True, model=True)

    def __init__(self, deadlines: Deadlines = DEADLINES) -> None:
        super().__init__(deadlines)
        self._pool = PiPool(deadlines.grace)

    def _attempt(self, request: Request, on_event: OnEvent) -> CodingAttempt:
        return _Attempt(request, on_event, self._deadlines, self._pool)

    async def close(self) -> None:
        """End all attempts that still run, and all processes. Idempotent."""
        await super().close()
        await self._pool.close()


class _Attempt(CodingAttempt):
    """One prompt in one session."""

    label = "pi"

    def __init__(self, request: Request, on_event: OnEvent, deadlines: Deadlines, pool: PiPool) -> None:
        self._pool = pool
        self._slot: PiSlot | None = None
        self._pi: PiProcess | None = None
        self._prompted = False
        self._clean = False
        """Whether pi has ended its turn, so that the process can begin another."""
        self._working, self._rests = asyncio.Event(), asyncio.Event()
        self._last: Mapping[str, Any] = {}
        """The last message of the model."""
        self._streamed = False
        """Whether pieces of its text have arrived."""
        self._at_work: set[str] = set()
        """The running uses of tools."""
        self._first: str | None = None
        self._again = False
        """Whether pi ended its turn twice, or while a tool was at work."""
        self._steers: list[tuple[str, asyncio.Event]] = []
        self._session = ""
        self._turns_before: int | None = None
        self._used_before = NO_USAGE
        """The usage of the session by an earlier attempt."""
        self._is_over = request.agent.on_interrupt != "resume"
        """Whether no later attempt can continue the session."""
        super().__init__(request, on_event, deadlines)

    async def steer(self, text: str) -> bool:
        """Queue *text* for the next call of the model; False if the turn ends before pi has received it."""
        text, taken = _literal(text), asyncio.Event()
        if not await self.while_running(self._working) or self._pi is None:
            return False
        self._steers.append((text, taken))
        try:
            await self._pi.ask("steer", self.deadlines.handshake, message=text)
        except (Gone, CommandRefused, Wedged):
            return False
        return await self.while_running(taken)

    async def _exchange(self, environment: ProcessEnvironment) -> Result:
        agent, request = self.agent, self.request
        model = ("--model", agent.model) if agent.model else ()
        command = environment.fill((*agent.argv, *model))
        # A loop's reviews have a separate process, as its page says.
        review = request.turn.startswith("review#")
        variables = tuple(sorted(variables_of(agent).items()))
        place = (request.run, request.root, environment.cwd, agent.options.get("sandbox"))
        key = (*place, *command, variables, review)
        self._slot = slot = self._pool.take(key, request)
        # With `--no-session`, pi 0.74 writes each session after the first into the working directory.
        argv = [*command, "--mode", "rpc", "--session-dir", str(slot.sessions), "--extension", str(slot.extension)]
        with slot.prepared(request) as files:
            try:
                self._pi = pi = await self._begun(slot) or await self._started(slot, argv, files)
            except (OSError, ValueError) as error:
                return cannot_start(argv[0], environment.cwd, error)
            except CommandRefused as error:
                return self.failure(str(error))
            self.opened(self._session, self._turns_before)
            result = await self._turn(pi)
            if isinstance(result, Answer) or result.kind != "interrupted":
                self._is_over = isinstance(result, Answer) or result.kind not in ("quota", "rate_limited")
            return result

    async def _begun(self, slot: PiSlot) -> PiProcess | None:
        """The process of *slot*, in a new session; None if there is no process that can begin one."""
        pi = slot.process
        if pi is None:
            return None
        pi.attach(self._listen, self.transcript)
        try:
            await self._open(pi, slot)
        except (Gone, CommandRefused, Wedged) as error:
            self.text(f"the process of pi is replaced: {error}\n", "log")
            await slot.end_process()
            return None
        self.say(pi.launched)
        return pi

    async def _started(self, slot: PiSlot, argv: list[str], files: ProcessEnvironment) -> PiProcess:
        """Start a process in *slot*, and wait for its first answer."""
        pi = await slot.start(argv, files, self._secrets, self._listen)
        pi.attach(self._listen, self.transcript)
        self._session = str((await self._state(pi)).get("sessionId", ""))
        await pi.settle(slot.marker)
        if self.request.session:
            await self._open(pi, slot)
        return pi

    async def _open(self, pi: PiProcess, slot: PiSlot) -> None:
        """Open the wanted session, if it was kept and has turns, else a new one.

        Raises:
            CommandRefused: If the new session is not empty.
        """
        deadline, wanted = self.deadlines.handshake, self.request.session
        if wanted and (path := slot.session(wanted)):
            try:
                await pi.ask("switch_session", deadline, sessionPath=str(path))
                used = await pi.ask("get_session_stats", deadline)
            except CommandRefused as error:
                self.text(f"the agent refused to continue: {error}\n", "log")
            else:
                turns = int(amount(used.get("userMessages")))
                if used.get("sessionId") == wanted and turns:  # if pi cannot read the file, it begins a new session
                    self._session, self._turns_before, self._used_before = wanted, turns, _total(used)
                    return
        if (await pi.ask("new_session", deadline)).get("cancelled"):
            raise CommandRefused("an extension keeps it from beginning a new session")
        state = await self._state(pi)
        if state.get("messageCount") or state.get("pendingMessageCount") or state.get("isStreaming"):
            raise CommandRefused("its new session is not empty")
        self._session = str(state.get("sessionId", ""))

    async def _state(self, pi: PiProcess) -> dict[str, Any]:
        return await pi.ask("get_state", self.deadlines.handshake)

    async def _turn(self, pi: PiProcess) -> Result:
        """Prompt, and listen until pi has finished."""
        deadline = self.deadlines.handshake
        pi.on_message = self._receive
        try:
            await pi.ask("prompt", deadline, message=_literal(self.request.prompt_in(self._session)))
            self._prompted = True
            await in_time(self._unless_gone(pi, self._working), "prompt", deadline)
            used: dict[str, Any] | None = None
            while used is None or not self._rests.is_set():
                await self._unless_gone(pi, self._rests)
                used = await self._stats(pi)  # before this answer it may announce that it continues
        except CommandRefused as error:
            return self.failure(str(error))
        self._count(used)
        if self._again:
            return self.repeated(self._first or "")
        self._clean = True
        match self._last.get("stopReason"):
            case "error":
                text = str(self._last.get("errorMessage") or "the model failed")
                return self.failure(text, "transient" if _BROKEN_OFF.search(text) else "")
            case "aborted":
                return Failure(kind="interrupted", reason="the agent's turn was aborted")
            case "length":
                return Failure(kind="failed", reason="the model stopped at its limit of output tokens")
            case "stop" if not self._last.get("content") and not amount(_dict(self._last.get("usage")).get("output")):
                return Failure(kind="transient", reason="the provider sent an answer without any content")
        return self.answer()

    async def _unless_gone(self, pi: PiProcess, event: asyncio.Event) -> None:
        """Wait until *event* is set; it may be cleared again when this returns.

        Raises:
            Gone: If the process ends first.
        """
        waiting = asyncio.ensure_future(event.wait())
        try:
            done, _ = await asyncio.wait({waiting, pi.gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if waiting not in done:
            raise Gone(pi.last_words("prompt"))

    async def _stats(self, pi: PiProcess) -> dict[str, Any]:
        try:
            return await pi.ask("get_session_stats", self.deadlines.handshake)
        except (Gone, CommandRefused, Wedged) as error:  # the answer counts
            self.text(f"pi did not say what its session used: {error}\n", "log")
            return {}

    # -- what it says -------------------------------------------------------------------------------------------------

    def _listen(self, event: Event) -> None:
        """Handle the start of the process and its standard error."""
        if isinstance(event, Text):
            self.text(event.text, event.channel)
        else:
            self.say(event)

    def _receive(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "agent_start":
                self._rests.clear()
                self._working.set()
            case "agent_end":
                if self._first is None:
                    self._first = self.said
                self._again |= bool(self._at_work) or self._rests.is_set() or not self._working.is_set()
                self._rests.set()
            case "auto_retry_start":  # the run itself retries and counts this
                assert self._pi is not None
                self._pi.tell("abort_retry")
            case "compaction_start" if event.get("reason") == "overflow":
                self._rests.clear()
            case "compaction_end" if not event.get("willRetry"):
                self._rests.set()
            case "message_start":
                self._receive_start(_dict(event.get("message")))
            case "message_update":
                self._receive_piece(_dict(event.get("assistantMessageEvent")))
            case "message_end":
                self._receive_message(_dict(event.get("message")))
            case "tool_execution_start":
                self._at_work.add(_call(event)[0])
                self.tool(*_call(event), "started", detail=_input(event.get("args")))
            case "tool_execution_end":
                self._at_work.discard(_call(event)[0])
                state = "failed" if event.get("isError") else "finished"
                self.tool(*_call(event), state, result=_text(_dict(event.get("result"))))
            case "extension_error":
                self.text(f"an extension of pi failed: {event.get('error')}\n", "log")

    def _receive_start(self, message: Mapping[str, Any]) -> None:
        """Handle the start of a message: the model's restarts the answer, a user's is received guidance."""
        if message.get("role") == "assistant":
            self.begin_answer()
            self._streamed = False
        elif message.get("role") == "user":
            text = _text(message)
            taken = next((taken for steer, taken in self._steers if steer == text and not taken.is_set()), None)
            if taken is not None:
                taken.set()

    def _receive_piece(self, piece: Mapping[str, Any]) -> None:
        match piece.get("type"):
            case "text_delta":
                self._streamed = True
                self.text(str(piece.get("delta") or ""))
            case "thinking_delta":
                self.text(str(piece.get("delta") or ""), "thinking")

    def _receive_message(self, message: Mapping[str, Any]) -> None:
        """Handle a complete message of the model: count its usage."""
        if message.get("role") != "assistant":
            return
        self._last = message
        if not self._streamed:
            self.text(_text(message))
        usage = _dict(message.get("usage"))
        cost = amount(_dict(usage.get("cost")).get("total"))
        self.use(self.used + _usage(usage, cost))

    def _count(self, stats: Mapping[str, Any]) -> None:
        """Count the turn's usage of its session by pi's own numbers, which omit messages that a compaction removed."""
        total, before = _total(stats), self._used_before
        context, used = _dict(stats.get("contextUsage")), self.used
        self.use(
            Usage(
                input_tokens=max(total.input_tokens - before.input_tokens, used.input_tokens),
                output_tokens=max(total.output_tokens - before.output_tokens, used.output_tokens),
                cached_tokens=max(total.cached_tokens - before.cached_tokens, used.cached_tokens),
                cost=max(total.cost - before.cost, used.cost),
                context_tokens=int(amount(context.get("tokens"))),
                context_window=int(amount(context.get("contextWindow"))),
            )
        )

    # -- its end ------------------------------------------------------------------------------------------------------

    async def _cancel(self) -> bool:
        if self._pi is None or not self._prompted:
            return False
        self._pi.tell("abort")
        return True

    async def _release(self, usable: bool) -> None:
        """Give the process back if pi has ended its turn, else end it; end everything that its tools left running."""
        slot = self._slot
        if slot is None:
            return
        if self._is_over and self._session:
            slot.forget(self._session)
        if self._clean and await slot.clear(self.request):
            self._pool.give_back(slot)
        else:
            await self._pool.end(slot)


def _literal(text: str) -> str:
    """Escape *text* so that pi does not interpret it as one of its commands."""
    return f"\n{text}" if text.startswith("/") else text


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _usage(tokens: Mapping[str, Any], cost: float) -> Usage:
    """The usage that pi reports; its input tokens do not include cached ones."""
    read, written = amount(tokens.get("cacheRead")), amount(tokens.get("cacheWrite"))
    return Usage(
        input_tokens=int(amount(tokens.get("input")) + read + written),
        output_tokens=int(amount(tokens.get("output"))),
        cached_tokens=int(read),
        cost=cost,
    )


def _total(stats: Mapping[str, Any]) -> Usage:
    """The usage of a session so far."""
    return _usage(_dict(stats.get("tokens")), amount(stats.get("cost")))


def _call(event: Mapping[str, Any]) -> tuple[str, str]:
    """The id and the name of a tool's use."""
    return str(event.get("toolCallId") or ""), str(event.get("toolName") or "tool")


def _input(args: Any) -> str:
    """The input of a tool: the command, if it runs one."""
    command = _dict(args).get("command")
    return command if isinstance(command, str) else json.dumps(args, ensure_ascii=False) if args else ""


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message, or of a tool's result."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = [_dict(one) for one in content] if isinstance(content, list) else []
    return "".join(str(one.get("text") or "") for one in blocks if one.get("type") == "text")
