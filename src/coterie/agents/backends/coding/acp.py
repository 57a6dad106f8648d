"""Agents that speak the Agent Client Protocol: Codex, Gemini, opencode, kiro, Claude Code and others.

Each attempt has its own process and session: start, `initialize`, `session/new` (or `session/resume` or
`session/load`), set the mode and the model if the provider supports that, `session/prompt`, end.

Source: https://agentclientprotocol.com, protocol version 1. `session/set_model` and `_session/steering` are not part of
it, but some providers understand them.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.agents.backends.attempt import ProcessEnvironment
from coterie.agents.backends.base import Abilities, Failure, OnEvent, Request, Result
from coterie.agents.backends.classify import classify
from coterie.agents.backends.coding import acp_messages as messages
from coterie.agents.backends.coding.acp_messages import AgentAbout, AgentError, SessionSetting, ToolCall
from coterie.agents.backends.coding.attempt import CodingAttempt, Deadlines, Gone, ProtocolBackend, Wedged, in_time
from coterie.agents.backends.coding.claude_code import DEFAULTS
from coterie.agents.backends.coding.permissions import ApprovalRequest
from coterie.agents.backends.coding.wire import WireProcess
from coterie.agents.backends.models.threads import start as start_thread
from coterie.base.waits import waiting

if TYPE_CHECKING:
    from coterie.agents.backends.coding.acp_connection import AgentConnection

VERSION = 1
"""The version of the protocol."""


class AcpBackend(ProtocolBackend):
    """Runs agents that speak ACP, each attempt in a new process and session.

    The agent's plan names the command; its options may name the `provider` (a label), the mode (`agent`), and whether
    tools are trusted (`trust_all_tools`).
    """

    abilities = Abilities(steer=True, resume=True, cost=True, model=True, mode=True, permission=True)

    def _attempt(self, request: Request, on_event: OnEvent) -> CodingAttempt:
        return _Attempt(request, on_event, self._deadlines)


class _Attempt(CodingAttempt):
    """One prompt in one session."""

    label = "acp"

    def __init__(self, request: Request, on_event: OnEvent, deadlines: Deadlines) -> None:
        super().__init__(request, on_event, deadlines)
        self._process: WireProcess | None = None
        self._connection: AgentConnection | None = None
        self._about = AgentAbout()
        self._session = ""
        self._prompted = self._answered = False
        self._begun = asyncio.Event()
        self._guidance: list[tuple[asyncio.Task[dict[str, Any]], asyncio.Event]] = []
        """The prompts that wait for the agent, each with an event that is set when it has been answered."""
        self._passing_on: list[asyncio.Future[None]] = []
        self._replayed = 0
        self._last: Any = None
        self._tools: dict[str, ToolCall] = {}
        self._starting: dict[str, ToolCall] = {}
        self._cost_before = self._reset = 0.0

    async def steer(self, text: str) -> bool:
        """Pass *text* to the agent, if it supports the steering request or accepts prompts while it works.

        A queued prompt counts as received once it is answered; the protocol gives no earlier sign.
        """
        if not await self.while_running(self._begun) or self._answered or self._cut.done():
            return False
        if self._about.queues:
            taken = asyncio.Event()
            self._guidance.append((asyncio.ensure_future(self._work(text)), taken))
            return await self.while_running(taken)
        if not self._about.steers:
            return False
        params = self._prompt(text) | {"_meta": {"steering": {"idleBehavior": "promptRequired"}}}
        with suppress(AgentError, Wedged, Gone):
            return (await self._ask("_session/steering", params)).get("outcome") == "injected"
        return False

    async def _exchange(self, environment: ProcessEnvironment) -> Result:
        library = start_thread(lambda: import_module("coterie.agents.backends.coding.acp_connection"), "load")
        argv = environment.confine(environment.fill(self.agent.argv))
        started = await self.started(argv, DEFAULTS | environment.env, environment.cwd)
        if isinstance(started, Failure):
            return started
        self._process = started
        connect = (await asyncio.wrap_future(library)).AgentConnection
        self._connection = connect(self._process, self._handle, lambda text: self.text(text, "log"))
        try:
            await self._begin(str(environment.cwd))
            self._prompted = True
            self._begun.set()
            ends = [await self._work(self.request.prompt_in(self._session))]
            while self._guidance:  # each is answered after the prompt that it was sent for
                work, taken = self._guidance[0]
                ends.append(await work)
                del self._guidance[0]
                if ends[-1].get("stopReason") != "cancelled":
                    taken.set()
        except AgentError as error:
            return self._failure(error)
        self._answered, first = True, self.said
        self._stop_timer(None)  # it has answered: later output is no reason to fail
        if not self._cut.done():
            await self._drain()
        if self._connection.repeats:
            return self.repeated(first)
        return self._ended(ends)

    async def _begin(self, cwd: str) -> None:
        """Initialize the agent and open the session, in the mode and with the model of the plan."""
        client = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "coterie", "version": "1"},
        }
        self._about = AgentAbout.read(await self._shake_hands(client))
        if self._about.version != VERSION:
            what = f"the agent speaks version {self._about.version} of the protocol, not version {VERSION}"
            raise AgentError("initialize", 0, what)
        session = await self._open({"cwd": cwd, "mcpServers": []})
        self.opened(self._session, self._replayed or None)
        if mode := str(self.agent.options.get("agent") or ""):
            await self._set(messages.mode_setting(session, mode), f"the mode {mode!r}")
        if model := self.agent.model:
            await self._set(messages.model_setting(session, model), f"the model {model!r}")

    async def _shake_hands(self, client: Mapping[str, Any]) -> dict[str, Any]:
        """Send `initialize` and return the answer; `npx` may have to download the agent first."""
        if Path(self.agent.argv[0]).name != "npx":
            return await self._ask("initialize", client)
        with waiting("`npx`, which downloads an agent when it is first used"):
            answer = self._ask("initialize", client, bounded=False)
            return await in_time(answer, "initialize", self.deadlines.download)

    async def _open(self, place: Mapping[str, Any]) -> dict[str, Any]:
        """Open the session, if possible the wanted one; return the agent's answer."""
        wanted = self.request.session
        method = "session/resume" if self._about.resumes else "session/load" if self._about.loads else ""
        if wanted and method:
            try:
                session = await self._ask(method, {"sessionId": wanted, **place})
            except AgentError as error:
                if error.kind:
                    raise
                self.text(f"the agent refused to continue: {error}\n", "log")
            else:
                is_fresh = method == "session/load" and not self._replayed
                self._session = str(session.get("sessionId") or wanted)
                if not is_fresh:
                    return session
                self.text(f"the agent has no turn of the session {wanted}\n", "log")
        session = await self._ask("session/new", place)
        self._session = str(session.get("sessionId") or "")
        if not self._session:
            raise AgentError("session/new", 0, "the agent opened a session without an id")
        return session

    async def _set(self, setting: SessionSetting, what: str) -> None:
        """Make a setting of the session; if a provider does not know the request, log this and continue without.

        Raises:
            AgentError: If the agent does not offer it.
        """
        try:
            await self._ask(setting.method, {"sessionId": self._session, **setting.params})
        except AgentError as error:
            if error.code == messages.NO_METHOD:
                self.text(f"the agent does not take {what}: it has no `{setting.method}`\n", "log")
                return
            if error.kind:
                raise
            offers = f"; it offers {', '.join(setting.offers)}" if setting.offers else ""
            raise AgentError(setting.method, error.code, f"the agent does not take {what}: {error}{offers}") from None

    async def _drain(self) -> None:
        """Read further output after the answer, until the agent has ended, for a short while."""
        assert self._process is not None
        assert self._connection is not None
        self._process.close_input()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.deadlines.late):
                await self._connection.ended.wait()

    async def _work(self, text: str) -> dict[str, Any]:
        """Prompt the agent with *text*; return its answer when the work is done."""
        return await self._ask("session/prompt", self._prompt(text), bounded=False)

    def _prompt(self, text: str) -> dict[str, Any]:
        return {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}

    async def _ask(self, method: str, params: Mapping[str, Any], *, bounded: bool = True) -> dict[str, Any]:
        """Send a request and return the agent's answer.

        Raises:
            AgentError: If it answers with an error.
            Wedged: If it does not answer within the deadline and *bounded* is true.
            Gone: If its process ends first.
        """
        assert self._connection is not None
        asked = self._connection.ask(method, params)
        try:
            return await (self.in_time(asked, method) if bounded else asked)
        except ConnectionError:
            assert self._process is not None
            raise Gone(self._process.last_words(f"it answered `{method}`")) from None

    async def _handle(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Answer a request or handle a notification of the agent; None: unknown method."""
        if method == "session/update":
            self._receive(params["update"])
        elif method == "session/request_permission":
            return await self._permit(params)
        return None

    async def _permit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Decide on a permission request of the agent; it is cancelled if the attempt is cut off first."""
        id = str(params["toolCall"]["toolCallId"])
        call = self._call(id)
        call.add(params["toolCall"])
        self._pass_on_starts()
        request = ApprovalRequest(
            id=id, tool=call.name or "tool", detail=call.detail, command=call.command, is_certain=call.is_certain
        )
        decided = await self.decided(request)
        if decided is not None and decided.message:  # the protocol has no field for it
            self._passing_on.append(asyncio.ensure_future(self._pass_on(decided.message)))
        option = None if decided is None else messages.chosen_option(params.get("options"), decided.is_allowed)
        chosen = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        return {"outcome": chosen}

    async def _pass_on(self, message: str) -> None:
        """Pass a person's message about a denial to the agent, as guidance."""
        if not await self.steer(message):
            self.text(f"the agent takes no guidance, so it was not given: {message}\n", "log")

    def _receive(self, update: Mapping[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if kind == "usage_update":
            self._receive_usage(update)
        elif not self._prompted:
            self._replayed += kind == "user_message_chunk" and self._last != kind  # a message may arrive in pieces
        elif kind in ("tool_call", "tool_call_update"):
            self._receive_tool(update)
        elif kind in ("agent_message_chunk", "agent_thought_chunk"):
            self._pass_on_starts()
            channel = "answer" if kind == "agent_message_chunk" else "thinking"
            self.text(messages.text_of(update.get("content")), channel)
        self._last = kind

    def _receive_tool(self, update: Mapping[str, Any]) -> None:
        id = str(update.get("toolCallId", ""))
        call = self._call(id)
        was = call.state
        call.add(update)
        if call.detail or call.state:  # some agents describe a call only in its second message
            self._pass_on_starts()
        if call.state and not was:
            self.tool(id, call.name or "tool", call.state, result=call.result)

    def _call(self, id: str) -> ToolCall:
        """The tool call *id*; text before a new call is not part of the answer."""
        if id not in self._tools:
            self._pass_on_starts()
            self.begin_answer()
            self._tools[id] = self._starting[id] = ToolCall()
        return self._tools[id]

    def _pass_on_starts(self) -> None:
        for id, call in self._starting.items():
            self.tool(id, call.name or "tool", "started", detail=call.detail)
        self._starting.clear()

    def _receive_usage(self, update: Mapping[str, Any]) -> None:
        """Apply a usage update. Its cost is that of the session, of which an earlier attempt may have caused a part."""
        tokens, window = messages.context_of(update)
        reset = messages.reset_of(update)
        self._reset = self._reset if reset is None else reset
        cost = messages.cost_of(update)
        if not self._prompted:
            self._cost_before = cost or self._cost_before
            return
        spent = self.used.cost if cost is None else max(cost - self._cost_before, 0.0)
        self.use(msgspec.structs.replace(self.used, cost=spent, context_tokens=tokens, context_window=window))

    def _ended(self, answers: Sequence[Mapping[str, Any]]) -> Result:
        """The result, from the answers to the prompt and to later guidance."""
        self._pass_on_starts()
        given, output, cached = map(sum, zip(*map(messages.tokens_of, answers), strict=True))
        self.use(msgspec.structs.replace(self.used, input_tokens=given, output_tokens=output, cached_tokens=cached))
        match answers[-1].get("stopReason"):
            case "refusal":
                return self.failure(f"the agent refused to go on: {self.said}".rstrip(": "), "refused")
            case "cancelled":
                return Failure(kind="failed", reason="the agent cancelled its turn")
            case "max_tokens" | "max_turn_requests" as why:
                return Failure(kind="failed", reason=f"the agent stopped at its limit {why}")
        return self.answer()

    def _failure(self, error: AgentError) -> Failure:
        what, kind = f"the agent reported: {error}", error.kind
        if error.code == 0 or error.method.startswith("session/set_"):
            what = str(error)
        if kind == "auth":
            logins = f" (it offers {'; '.join(self._about.logins)})" if self._about.logins else ""
            what = f"the agent is not logged in: log in with its own program, or set its API key{logins}: {error}"
        if (
            kind == "rate_limited" and classify(str(error)) == "quota"
        ):  # an exhausted usage window is also reported as a rate limit
            kind = "quota"
        if self._reset and kind in ("", "rate_limited"):
            kind = "quota"
        return self.failure(what, kind, wait=max(self._reset - time.time(), 0.0) if self._reset else 0.0)

    async def _cancel(self) -> bool:
        if self._connection is None or not self._prompted:
            return False
        await self._connection.notify("session/cancel", {"sessionId": self._session})
        return True

    async def _release(self, usable: bool) -> None:
        waiting: list[asyncio.Future[Any]] = [*(work for work, _ in self._guidance), *self._passing_on]
        for work in waiting:
            work.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()
        if self._process is not None:
            await self._process.end(self.deadlines.grace)
