"""One attempt with a model: prompt, tools, answer.

Imports pydantic-ai: load it late. Tasks and time-outs are left to `coterie.backends.models.backend`.
"""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from typing import IO, Any

import httpx2
from msgspec.structs import replace
from pydantic_ai import Agent, StructuredDict, ToolOutput, UsageLimits
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.run import AgentRun
from pydantic_ai.toolsets import AbstractToolset

from coterie import files
from coterie.backends.base import Answer, Failure, OnEvent, Request, Result, Text, Tool, Used
from coterie.backends.models.built_in import built_in_tools
from coterie.backends.models.failures import failure_of, incomplete
from coterie.backends.models.functions import Unusable, tools_of
from coterie.backends.models.key import TURN_KEY
from coterie.backends.models.malformed import guard_events, guard_request
from coterie.backends.models.outputs import INSTRUCTION, TOOL, schema_of
from coterie.backends.models.response_guard import ON_NOTE
from coterie.backends.models.settings import settings_of
from coterie.backends.models.usage import usage_of
from coterie.backends.secrets import Secrets, StreamRedactor
from coterie.journal.records import NO_USAGE, Usage
from coterie.planning.providers import Chosen

ROUNDS = 50
"""Requests to a model in one attempt, unless `max-turns` says otherwise: each may lead to calls of tools."""

_DETAIL = 200
_MISTAKES = 5
"""Invalid calls of a tool that a model may make in an attempt."""


class Conversation:
    """An attempt with the model of *chosen*, from the prompt to the answer.

    Args:
        key: The provider's API key.
        http: Carries the requests; may be shared.
        secrets: Redacted in all output.
    """

    def __init__(
        self,
        request: Request,
        chosen: Chosen,
        *,
        base_url: str,
        key: str,
        http: httpx2.AsyncClient,
        secrets: Secrets,
        on_event: OnEvent,
    ) -> None:
        self._request, self._chosen, self._secrets, self._on_event = request, chosen, secrets, on_event
        self._options: Mapping[str, Any] = request.agent.options
        self._dialect: Any = import_module(f"coterie.backends.models.{chosen.api}")
        self._model = self._dialect.model(chosen.model, base_url=base_url, key=key, http=http)
        self._run: AgentRun[None, Any] | None = None
        self._guidance: list[str] = []
        self._texts: list[str] = []
        self._notes: set[str] = set()
        self._over = False

    @property
    def used(self) -> Usage:
        """Its usage so far."""
        return usage_of(self._run.usage, self._options) if self._run is not None else NO_USAGE

    @property
    def said(self) -> str:
        """The text of the model so far, with secrets redacted."""
        return self.hide("\n\n".join(filter(None, self._texts)))

    def steer(self, text: str) -> bool:
        """Give *text* to the model with its next request; False if there will be none."""
        if self._over:
            return False
        if self._run is None:
            self._guidance.append(text)
        else:
            self._run.enqueue(text)
        return True

    def hide(self, text: str) -> str:
        """*text* with the secrets redacted."""
        return self._secrets.hide(text)

    async def hold(self) -> Result:
        """Send the prompt, let the model use its tools, and return its answer; an expected error is a `Failure`."""
        TURN_KEY.set(self._request.key or f"{self._request.run}/{self._request.turn}")
        ON_NOTE.set(self._note)
        try:
            async with AsyncExitStack() as stack:
                helper = await self._helper(stack)
                limits = UsageLimits(request_limit=self._options.get("max_turns", ROUNDS))
                request = self._request
                before = [_message(role, text) for role, text in request.history]
                asked = helper.iter(request.latest, message_history=before or None, usage_limits=limits)
                run = await stack.enter_async_context(asked)
                self._run = run
                for text in self._guidance:
                    run.enqueue(text)
                await self._listen(run)
                self._over = True
                return self._answer(run)
        except Unusable as error:
            return Failure(kind="not_found", reason=str(error))
        except Exception as error:  # any error that is not a provider's is raised again, and counts as a crash
            return failure_of(error, self._chosen.provider)
        finally:
            self._over = True

    async def _helper(self, stack: AsyncExitStack) -> Agent[None, Any]:
        agent = self._request.agent
        schema = schema_of(agent.outputs)
        output: Any = str
        if schema is not None:
            form = StructuredDict(schema, name=TOOL, description="Give the wanted outputs, once, when all is done.")
            output = [str, ToolOutput(form, name=TOOL, max_retries=_MISTAKES)]
        return Agent(
            self._model,
            output_type=output,
            instructions=INSTRUCTION if schema is not None else None,
            tools=[
                *tools_of(self._options.get("python_tools", {}), self._request.here),
                *built_in_tools(self._request, self._secrets, self._on_event, stack),
            ],
            toolsets=await self._servers(stack),
            model_settings=self._settings(),
            retries={"tools": _MISTAKES, "output": 0},  # an empty answer fails the attempt: the run asks again
        )

    async def _servers(self, stack: AsyncExitStack) -> list[AbstractToolset[None]]:
        """Start the declared MCP servers, which run until *stack* unwinds, and return their tools."""
        toolsets: list[AbstractToolset[None]] = []
        declared: Mapping[str, Any] = self._options.get("mcp_servers", {})
        if not declared:
            return toolsets
        from coterie.backends.models.servers import Server  # imports FastMCP, which takes a second

        for name, said in declared.items():
            server = Server(name, said)
            toolset = server.toolset(self._request, self._log(name, stack))
            try:
                await stack.enter_async_context(toolset)
            except Exception as error:  # a server is a foreign program: it may fail in any way
                what = "started" if server.is_process else "reached"
                raise Unusable(f"the MCP server {name!r} could not be {what}: {_first_message(error)}") from error
            toolsets.append(toolset)
        return toolsets

    def _log(self, name: str, stack: AsyncExitStack) -> IO[str]:
        """The file for a server's standard error, in the attempt's folder if it has one."""
        if self._request.folder is not None:
            files.make_folder(self._request.folder)
            log = files.open_fd(self._request.folder / f"mcp-{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            return stack.enter_context(open(log, "a", encoding="utf-8"))
        return stack.enter_context(open(os.devnull, "a", encoding="utf-8"))

    def _settings(self) -> Any:
        """The model settings in the options. One that the provider does not have is left out, and the log says so."""
        for name in self._dialect.IGNORED:
            if name in self._options:
                word = name.replace("_", "-")
                self._report("log", f"{self._chosen.provider} has no setting {word!r}: it is left out\n")
        return settings_of(self._options, self._dialect)

    async def _listen(self, run: "AgentRun[None, Any]") -> None:
        """Carry the conversation on to its end, and report each event."""
        async for node in run:
            if Agent.is_model_request_node(node):
                self._texts.append("")
                redactors = {channel: StreamRedactor(self._secrets) for channel in ("answer", "thinking")}
                async with AsyncExitStack() as stack:
                    with guard_request():
                        stream = await stack.enter_async_context(node.stream(run.ctx))
                    async for event in guard_events(stream):
                        self._received(event, redactors)
                for channel, redactor in redactors.items():
                    self._report(channel, redactor.feed("", final=True))
                self._on_event(Used(usage=self.used))
            elif Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for called in events:
                        self._tool_event(called)

    def _received(self, event: Any, redactors: Mapping[str, StreamRedactor]) -> None:
        """Pass on a piece of the model's text."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                channel = "answer"
                if isinstance(event, PartStartEvent) and any(self._texts) and not self._texts[-1]:
                    self._report(channel, "\n\n")
                self._texts[-1] += text
            case PartStartEvent(part=ThinkingPart(content=text)):
                channel = "thinking"
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
                channel = "thinking"
            case _:
                return
        self._report(channel, redactors[channel].feed(text))

    def _tool_event(self, event: Any) -> None:
        """Report a call of a tool, or its result."""
        match event:
            case FunctionToolCallEvent(part=part):
                self._on_event(Tool(name=part.tool_name, detail=self._detail(part.args_as_json_str())))
            case FunctionToolResultEvent(part=ToolReturnPart() as part) if part.outcome == "success":
                self._on_event(
                    Tool(name=part.tool_name, state="finished", detail=self._detail(part.model_response_str()))
                )
            case FunctionToolResultEvent(part=part):
                detail = self._detail(str(part.content))
                self._on_event(Tool(name=part.tool_name or "", state="failed", detail=detail))
            case _:
                pass

    def _answer(self, run: "AgentRun[None, Any]") -> Result:
        assert run.result is not None
        used = self.used
        if failure := incomplete(run.result.response, self._chosen.provider, "max-tokens"):
            return replace(failure, usage=used)
        if used.unpriced:
            reason = f"the price of {self._chosen.model} is not known and counts as 0: give price-in and price-out\n"
            self._report("log", reason)
        text = next((text for text in reversed(self._texts) if text), "")
        given = run.result.output
        outputs = given if isinstance(given, dict) else None
        return Answer(text=self._secrets.hide(text), outputs=outputs, usage=used)

    def _note(self, note: str) -> None:
        """Report *note*, once."""
        if note not in self._notes:
            self._notes.add(note)
            self._report("log", note)

    def _report(self, channel: str, text: str) -> None:
        if text:
            self._on_event(Text(text=text, channel=channel))

    def _detail(self, text: str) -> str:
        text = self._secrets.hide(text)
        return text if len(text) <= _DETAIL else f"{text[:_DETAIL]}…"


def _first_message(error: BaseException) -> str:
    """The message of *error*; of a group, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _message(role: str, text: str) -> ModelMessage:
    """One message of the history, for the model."""
    if role == "assistant":
        return ModelResponse(parts=[TextPart(text)])
    return ModelRequest(parts=[SystemPromptPart(text) if role == "system" else UserPromptPart(text)])
