"""Claude Code through the Claude Agent SDK.

Each attempt is a new process of the `claude` program with a new or a continued conversation. The SDK speaks the control
protocol with it and parses its messages; the program itself is started here, like that of every coding agent, so that
its processes are marked and ended in the same way. Its arguments are therefore also built here, since the SDK passes
none to a custom transport.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from coterie.agents.backends.attempt import ProcessEnvironment
from coterie.agents.backends.base import Abilities, Answer, Failure, OnEvent, Request, Result
from coterie.agents.backends.classify import classify
from coterie.agents.backends.coding import claude_process
from coterie.agents.backends.coding.allowed import SHELL
from coterie.agents.backends.coding.attempt import (
    ANSWER_MOST,
    CodingAttempt,
    Deadlines,
    Gone,
    ProtocolBackend,
    Wedged,
    in_time,
    shorten,
)
from coterie.agents.backends.coding.permissions import ApprovalDecision, ApprovalRequest
from coterie.agents.backends.coding.wire import WireProcess
from coterie.agents.backends.models.threads import start as start_thread
from coterie.agents.backends.prices import known_prices
from coterie.agents.backends.reported import amount
from coterie.base.clock import SystemClock
from coterie.history.journal.records import NO_USAGE, Usage

if TYPE_CHECKING:
    import claude_agent_sdk as sdk

_REFUSED_TOOLS = (
    "AskUserQuestion",  # no terminal to answer at
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",  # the run chooses the work tree
    "ExitWorktree",
    "CronCreate",
    "ScheduleWakeup",
    "Monitor",
    "Workflow",  # starts agents by the dozen
)
_WINDOWS = ("five_hour", "seven_day", "seven_day_opus", "seven_day_sonnet", "overage")
"""The limits of a subscription; until they reset, retries are useless."""
_KINDS = {
    "authentication_failed": "auth",
    "billing_error": "quota",
    "rate_limit": "rate_limited",
    "server_error": "transient",
    "overloaded": "transient",
}
"""Kinds of failures by the error in a message."""
_DENIED = "permission denied: do not try to get the same in another way"
_DAY = 86_400.0
"""The time limit of a hook in seconds; the time-out of a permission request ends it earlier."""
_LOG_IN = "log in with `claude /login`, or set ANTHROPIC_API_KEY"


class ClaudeBackend(ProtocolBackend):
    """Runs Claude Code, each attempt in a new process.

    The agent's plan may name another program than `claude`; its options say whether tools are trusted
    (`trust_all_tools`) or a person decides (`attention`).
    """

    abilities = Abilities(steer=True, resume=True, cost=True, model=True, permission=True)

    def _attempt(self, request: Request, on_event: OnEvent) -> CodingAttempt:
        return _Attempt(request, on_event, self._deadlines)


class _Attempt(CodingAttempt):
    """One prompt in one conversation."""

    label = "claude"

    def __init__(self, request: Request, on_event: OnEvent, deadlines: Deadlines) -> None:
        super().__init__(request, on_event, deadlines)
        self._process: WireProcess | None = None
        self._client: sdk.ClaudeSDKClient | None = None
        self._session, self._resumed = "", False
        self._guidance: dict[str, tuple[str, asyncio.Event]] = {}
        """Guidance that the agent has not received yet, by the id of its message."""
        self._prompted = self._over = False
        self._tools: dict[str, str] = {}
        self._at_work: set[str] = set()
        """The running uses of tools."""
        self._messages: dict[str, Usage] = {}
        """The usage of each message of the model, by its id."""
        self._message, self._model, self._streamed = "", "", set[str]()
        self._begun: dict[str, Any] = {}
        """The usage at the beginning of the message that is being written."""
        self._error = ""
        self._retries = ""
        """How often Claude Code retries by itself, if the user has set this; otherwise the run retries."""
        self._resets: dict[str, float] = {}
        """When a reached limit will reset, by its name."""

    async def steer(self, text: str) -> bool:
        """Queue *text* as a user message, which the agent reads at its next safe point."""
        if self._over or self.task.done() or self._cut.done():
            return False
        id, taken = str(uuid4()), asyncio.Event()
        self._guidance[id] = (text, taken)
        if self._prompted:
            await self._write(id, text)
        return await self.while_running(taken)

    async def _exchange(self, environment: ProcessEnvironment) -> Result:
        library = start_thread(claude_process.load, "load")
        if wanted := self.request.session:
            try:
                return await self._converse(environment, library, wanted)
            except Gone:
                if self._session:
                    raise
                await self._end_process()
        return await self._converse(environment, library, "")

    async def _converse(self, environment: ProcessEnvironment, library: "Future[None]", session: str) -> Result:
        """Send the prompt in a new conversation, or in that of *session*; return the result."""
        command = environment.fill(self.agent.argv) or [""]
        self._retries = environment.env.get(claude_process.RETRIES, "")
        env = claude_process.environment(environment.env)
        argv = environment.confine(
            [claude_process.program(command[0], env), *command[1:], *self._arguments(session, env)]
        )
        started = await self.started(argv, env, environment.cwd)
        if isinstance(started, Failure):
            return started
        self._process = started
        await asyncio.wrap_future(library)
        import claude_agent_sdk as sdk

        hooks: Any = {"PreToolUse": [sdk.HookMatcher(hooks=[self._before_tool], timeout=_DAY)]}
        options = sdk.ClaudeAgentOptions(can_use_tool=self._permit, hooks=hooks)
        transport: Any = claude_process.ProcessTransport(self._process)
        self._client = sdk.ClaudeSDKClient(options, transport)
        try:
            await self.in_time(self._client.connect(), "initialize")
        except Exception as error:  # an answer with an error is plain text
            if type(error) is not Exception and not isinstance(error, sdk.ClaudeSDKError):
                raise
            return self._failure(str(error))
        self._prompted = True
        await self._write(str(uuid4()), self.request.prompt_in(session))
        for id, (text, _) in list(self._guidance.items()):
            await self._write(id, text)
        return await self._listen(self._client, transport)

    def _arguments(self, session: str, env: Mapping[str, str]) -> list[str]:
        """The arguments of the program: its protocol options, and the options of the plan."""
        agent = self.agent
        words = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
        words += ["--include-partial-messages", "--setting-sources=project", "--permission-prompt-tool", "stdio"]
        words += ["--permission-mode", "bypassPermissions" if self._bypasses(env) else "default"]
        if agent.model:
            words += ["--model", agent.model]
        if session:
            words.append(f"--resume={session}")
        if agent.tools is not None:
            words += ["--tools", ",".join(name for name in agent.tools if not name.startswith("mcp."))]
        return [*words, "--disallowedTools", ",".join(_REFUSED_TOOLS)]

    def _bypasses(self, env: Mapping[str, str]) -> bool:
        """Whether the program need not ask for permissions. As root it refuses this mode, except in a sandbox."""
        if self.agent.options.get("attention") == "ask" or not self.agent.options.get("trust_all_tools", True):
            return False
        return os.geteuid() != 0 or env.get("IS_SANDBOX") == "1"

    async def _write(self, id: str, text: str) -> None:
        """Send a user message."""
        content = {"role": "user", "content": text}

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield {"type": "user", "message": content, "parent_tool_use_id": None, "uuid": id}

        assert self._client is not None
        await self._client.query(messages())

    async def _before_tool(self, given: Any, id: str | None, context: object) -> Any:
        """Refuse forbidden commands, and ask a person about unreadable ones, even if the program does not ask."""
        request = _approval_request(id, str(given.get("tool_name")), given.get("tool_input") or {})
        decision, why = "deny", self.permissions.forbids(request)
        if not why:
            if not self.permissions.needs_person(request):
                return {}
            decided = await self.decided(request)
            decision, why = ("allow", "a person allowed it") if decided and decided[0] else ("deny", _denial(decided))
        answer = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": why}
        return {"hookSpecificOutput": answer}

    async def _permit(self, tool: str, given: dict[str, Any], context: "sdk.ToolPermissionContext") -> Any:
        """Answer the program's request to use *tool*."""
        import claude_agent_sdk as sdk

        decided = await self.decided(_approval_request(context.tool_use_id, tool, given))
        if decided is not None and decided.is_allowed:
            return sdk.PermissionResultAllow()
        return sdk.PermissionResultDeny(message=_denial(decided), interrupt=decided is None)

    # -- what it says -------------------------------------------------------------------------------------------------

    async def _listen(self, client: "sdk.ClaudeSDKClient", transport: claude_process.ProcessTransport) -> Result:
        """Pass on the agent's messages, until it has answered the prompt and all guidance."""
        import claude_agent_sdk as sdk

        answers: list[str] = []
        messages = self._received(client)
        is_bounded = True
        while True:
            try:
                message = await (self.in_time(anext(messages), "the prompt") if is_bounded else anext(messages))
            except Wedged:
                if not answers:
                    raise
                self.text("the agent has answered and does not take up the guidance\n", "log")
                break
            is_bounded = False
            if isinstance(message, sdk.SystemMessage) and message.subtype == "api_retry" and not self._retries:
                self._over = True
                return self._refused(message.data)
            if not isinstance(message, sdk.ResultMessage):
                self._receive(message)
                continue
            self._receive_totals(message)
            if message.is_error or message.subtype != "success":
                self._over = True
                return self._failed(message)
            answers.append(message.result or "")
            if self._at_work:
                self._over = True
                return self.repeated(answers[0])
            self._take_up(list(self._guidance) if message.user_message_uuids is None else message.user_message_uuids)
            self._guidance = {id: one for id, one in self._guidance.items() if not one[1].is_set()}
            if not self._guidance:
                break
            is_bounded = True
        self._over = transport.may_end = True
        self._stop_timer(None)  # it has answered: later output is no reason to fail
        if not self._cut.done() and await self._drain(messages):
            return self.repeated(answers[0])
        text = "\n\n".join(filter(None, answers)) or self.answer().text
        return Answer(text=self._secrets.hide(text)[-ANSWER_MOST:])

    async def _drain(self, messages: "AsyncIterator[sdk.Message]") -> bool:
        """Read further output after the answer, until the program has ended, for a short while.

        Returns whether it gives another result.
        """
        import claude_agent_sdk as sdk

        assert self._process is not None
        again = False
        self._process.close_input()
        with suppress(TimeoutError, Gone):
            async with asyncio.timeout(self.deadlines.late):
                async for message in messages:
                    again = again or isinstance(message, sdk.ResultMessage)
                    self._receive(message)
        return again

    async def _received(self, client: "sdk.ClaudeSDKClient") -> "AsyncIterator[sdk.Message]":
        """The messages of the agent, up to `Gone`; messages that the SDK cannot parse are logged."""
        import claude_agent_sdk as sdk

        receive = client.receive_messages
        while client is self._client:
            try:
                async for message in receive():
                    yield message
            except (sdk.ClaudeSDKError, LookupError, TypeError, AttributeError, ValueError) as error:
                self.text(f"unknown message: {self.shorten(str(error))}\n", "log")
            else:
                break
        assert self._process is not None
        raise Gone(self._process.last_words("it had answered"))

    def _take_up(self, ids: Iterable[str]) -> None:
        """Note that the agent has received the guidance with these ids."""
        for id in ids:
            if id in self._guidance:
                self._guidance[id][1].set()

    def _receive(self, message: "sdk.Message") -> None:
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.StreamEvent | sdk.AssistantMessage):
            self._take_up(message.user_message_uuids or ())
        match message:
            case sdk.StreamEvent(parent_tool_use_id=None, event=event):
                self._receive_piece(event)
            case sdk.AssistantMessage():
                self._receive_message(message)
            case sdk.UserMessage(content=list() as blocks):
                for block in blocks:
                    if isinstance(block, sdk.ToolResultBlock):
                        state = "failed" if block.is_error else "finished"
                        self._at_work.discard(block.tool_use_id)
                        name = self._tools.get(block.tool_use_id, "tool")
                        self.tool(block.tool_use_id, name, state, result=_output(block.content))
            case sdk.RateLimitEvent(rate_limit_info=info):
                if info.status == "rejected":
                    self._resets[info.rate_limit_type or ""] = float(info.resets_at or 0)
            case sdk.SystemMessage(subtype="init", data=data):
                if (session := str(data.get("session_id") or "")) and session != self._session:
                    self._session, self._resumed = session, session == self.request.session
                    self.opened(session)

    def _receive_piece(self, event: Mapping[str, Any]) -> None:
        """Pass on a piece of an incomplete message."""
        match event:
            case {"type": "message_start", "message": {"id": str(id), "usage": dict(usage)} as message}:
                self._message, self._begun, self._model = id, usage, str(message.get("model", ""))
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self._streamed.add(self._message)
                self.text(text)
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self._streamed.add(self._message)
                self.text(text, "thinking")
            case {"type": "message_delta", "usage": dict(usage)}:
                self._count(self._message, self._begun | usage, self._model, top=True)

    def _receive_message(self, message: "sdk.AssistantMessage") -> None:
        """Pass on a block of a complete message, unless its pieces were passed on."""
        import claude_agent_sdk as sdk

        id, top = message.message_id or "", message.parent_tool_use_id is None
        if message.error:
            self._error = message.error
        for block in message.content:
            match block:
                case sdk.ToolUseBlock():
                    if top:
                        self._at_work.add(block.id)
                        self.begin_answer()
                    self._tools[block.id] = block.name
                    self.tool(block.id, block.name, "started", detail=_detail(block.input))
                case sdk.TextBlock(text=text) if top and id not in self._streamed:
                    self.text(text, "log" if message.error else "answer")
                case sdk.ThinkingBlock(thinking=text) if top and id not in self._streamed:
                    self.text(text, "thinking")
        if not top and message.usage:
            self._count(id, message.usage, message.model, top=False)

    def _count(self, id: str, usage: Mapping[str, Any], model: str, *, top: bool) -> None:
        """Pass on the usage so far, with its cost if the price is known; only the last report of a message counts."""
        cached, written = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
        given, said = _number(usage, "input_tokens") + cached + written, _number(usage, "output_tokens")
        used = Usage(input_tokens=given, output_tokens=said, cached_tokens=cached)
        self._messages[id] = msgspec.structs.replace(used, cost=_weight(used) * known_prices(model)[0] / 1_000_000)
        context = given + said if top else self.used.context_tokens
        self.use(msgspec.structs.replace(sum(self._messages.values(), NO_USAGE), context_tokens=context))

    def _receive_totals(self, message: "sdk.ResultMessage") -> None:
        """Pass on the usage of the process, including sub-agents and requests that it does not show.

        The totals of a continued session include those of its earlier processes: only the share of the messages of this
        process counts.
        """
        models: list[Mapping[str, Any]] = [*(message.model_usage or {}).values()]
        if not models:
            return
        written = sum(_number(one, "cacheCreationInputTokens") for one in models)
        cached = sum(_number(one, "cacheReadInputTokens") for one in models)
        given = sum(_number(one, "inputTokens") for one in models) + written + cached
        said = sum(_number(one, "outputTokens") for one in models)
        total = Usage(input_tokens=given, output_tokens=said, cached_tokens=cached)
        cost = amount(message.total_cost_usd)
        if self._resumed and (weight := _weight(total)):
            heard = sum(self._messages.values(), NO_USAGE)
            total, cost = heard, cost * min(_weight(heard) / weight, 1.0)
        window = max(_number(one, "contextWindow") for one in models)
        context = self.used.context_tokens
        self.use(msgspec.structs.replace(total, cost=cost, context_tokens=context, context_window=window))

    # -- how it ends --------------------------------------------------------------------------------------------------

    def _failed(self, message: "sdk.ResultMessage") -> Failure:
        """The failure for an unsuccessful result."""
        text = "; ".join(message.errors or ()) or message.result or ""
        match message.subtype:
            case "error_max_turns" | "error_max_budget_usd":
                return Failure(
                    kind="failed", reason=shorten(f"the agent stopped at its limit: {message.subtype} {text}")
                )
            case "error_during_execution" if (message.terminal_reason or "").startswith("aborted"):
                return Failure(kind="interrupted", reason="the agent's turn was cancelled")
        status = message.api_error_status
        return self._failure(
            f"{text} (HTTP {status})" if status else text or message.subtype, _KINDS.get(self._error, "")
        )

    def _refused(self, retry: Mapping[str, Any]) -> Failure:
        """The failure of a request that the program is about to retry after the provider's waiting time."""
        error, wait = str(retry.get("error") or ""), amount(retry.get("retry_delay_ms")) / 1000
        status = f"HTTP {retry['error_status']}" if retry.get("error_status") else "no answer"
        text = f"the provider refused the request: {error.replace('_', ' ')} ({status}); wait: {wait:.0f} s"
        return self._failure(text, _KINDS.get(error, "transient"), wait)

    def _failure(self, text: str, kind: str = "", wait: float = 0.0) -> Failure:
        """A failure with *text* as its reason; for a reached limit with the time until its reset."""
        kind = kind or classify(text)
        if self._resets and kind in ("rate_limited", "quota"):
            kind = "quota" if any(name in _WINDOWS for name in self._resets) else "rate_limited"
            wait = max(max(self._resets.values()) - SystemClock().now(), 0.0)
        failure = self.failure(text, kind, wait=wait)
        if failure.kind != "auth":
            return failure
        return msgspec.structs.replace(failure, reason=f"{failure.reason}; {_LOG_IN}")

    async def _cancel(self) -> bool:
        if self._client is None or not self._prompted:
            return False
        try:
            await self._client.interrupt()
        except Exception:
            return False
        return True

    async def _release(self, usable: bool) -> None:
        self._over = True
        await self._end_process()

    async def _end_process(self) -> None:
        """End the program; if it had a prompt, it may first write the end of its session."""
        client, self._client = self._client, None
        had_prompt, self._prompted = self._prompted, False
        if client is not None:
            with suppress(Exception):  # remaining processes of the program are ended below
                await in_time(client.disconnect(), "disconnect", self.deadlines.late)
        process, self._process = self._process, None
        if process is not None:
            if had_prompt:
                process.close_input()
                await asyncio.wait({process.child.exited}, timeout=self.deadlines.late)
            await process.end(self.deadlines.grace)


def _approval_request(id: str | None, tool: str, given: Mapping[str, Any]) -> ApprovalRequest:
    command = _command(given)
    is_certain = tool == SHELL or not command
    return ApprovalRequest(
        id=id or str(uuid4()), tool=tool, detail=_detail(given), command=command, is_certain=is_certain
    )


def _denial(decided: ApprovalDecision | None) -> str:
    """The message for the agent, with the person's text, if any."""
    said = decided.message if decided is not None else ""
    return f"permission denied by a person, who says: {said}" if said else _DENIED


def _detail(given: Mapping[str, Any]) -> str:
    return _command(given) or (json.dumps(given, ensure_ascii=False) if given else "")


def _command(given: Mapping[str, Any]) -> str:
    """The shell command that a tool runs, if it has one."""
    command = given.get("command")
    return command if isinstance(command, str) else ""


def _output(content: "str | list[dict[str, Any]] | None") -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text") or f"({part.get('type')})") for part in content)
    return content or ""


def _weight(usage: Usage) -> float:
    """The cost of *usage* in input tokens, by the price ratios of all Claude models."""
    return usage.input_tokens - 0.9 * usage.cached_tokens + 5 * usage.output_tokens


def _number(values: Mapping[str, Any], name: str) -> int:
    return int(amount(values.get(name)))
