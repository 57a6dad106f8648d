"""One attempt with a model: prompt, tools, answer.

Imports pydantic-ai: load it late. Tasks and time-outs are left to `coterie.agents.backends.models.backend`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

import httpx2
from pydantic_ai import Agent, StructuredDict, ToolOutput, UsageLimits
from pydantic_ai import __version__ as LIBRARY
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
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
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from coterie.agents.backends.base import Failure, OnEvent, Request, Result, Stepped, Text, Tool, Used
from coterie.agents.backends.log_file import LogFile
from coterie.agents.backends.models.attempt_rules import limit_reached, result_of
from coterie.agents.backends.models.built_in import built_in_tools
from coterie.agents.backends.models.failures import failure_of
from coterie.agents.backends.models.functions import Unusable, server_prefix, tools_of
from coterie.agents.backends.models.key import TURN, is_once
from coterie.agents.backends.models.malformed import guard_events, guard_request
from coterie.agents.backends.models.metered import MeteredModel
from coterie.agents.backends.models.outputs import INSTRUCTION, TOOL, schema_of
from coterie.agents.backends.models.response_guard import ON_NOTE
from coterie.agents.backends.models.settings import settings_of
from coterie.agents.backends.models.step_tools import RecordedTools, parts_of
from coterie.agents.backends.models.steps import AnswerLine, EndLine, HeadLine, Steps, digest
from coterie.agents.backends.secrets import Secrets, StreamRedactor
from coterie.history.journal.records import NO_USAGE, Usage
from coterie.team.planning.providers import Chosen

_DETAIL = 200
_MISTAKES = 5
"""How many invalid tool calls a model may make in an attempt."""


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
        self._dialect: Any = import_module(f"coterie.agents.backends.models.{chosen.api}")
        self._model = MeteredModel(
            self._dialect.model(chosen.model, base_url=base_url, key=key, http=http),
            provider=chosen.provider,
            options=self._options,
            refuse=self._refuse,
            on_answer=self._answered,
            say=self._note,
        )
        self._run: AgentRun[None, Any] | None = None
        self._steps = Steps()
        self._kept: int | None = None
        self._counted = request.answered
        self._uncounted: Usage | None = None
        self._acting: ModelResponse | None = None
        self._reported: set[str] = set()
        self._guidance: list[str] = []
        self._notes_due: list[str] = []
        self._texts: list[str] = []
        self._notes: set[str] = set()
        self._over = False

    @property
    def used(self) -> Usage:
        """Its usage so far."""
        return self._model.used

    @property
    def said(self) -> str:
        """The text of the model so far, with secrets redacted."""
        return self.hide("\n\n".join(filter(None, self._texts)))

    def steer(self, text: str) -> bool:
        """Pass *text* to the model with its next request; False if there will be none."""
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
        TURN.set((self._request.key, self._request.attempt))
        ON_NOTE.set(self._note)
        try:
            async with AsyncExitStack() as stack:
                helper = await self._helper(stack)
                prompt, history = self._beginning()
                if prompt is None and _is_answer(history[-1]):
                    self._steps.append(EndLine(attempt=self._request.attempt, messages=self._steps.closing or []))
                    return self._answer(None)
                asked = helper.iter(
                    prompt, message_history=history or None, usage_limits=UsageLimits(request_limit=None)
                )
                run = await stack.enter_async_context(asked)
                self._run = run
                if not self._steps.paused:
                    self._give_guidance(run)
                await self._listen(run)
                self._over = True
                return self._ended(run)
        except Unusable as error:
            return Failure(kind="not_found", reason=str(error))
        except Exception as error:  # any error that is not from a provider is raised again, and counts as a crash
            failure = failure_of(error, self._chosen.provider)
            if failure.kind == "invalid_output":
                self._reject(failure.reason)
            return failure
        finally:
            self._over = True
            self._count()

    async def _helper(self, stack: AsyncExitStack) -> Agent[None, Any]:
        agent = self._request.agent
        schema = schema_of(agent.outputs)
        functions = tools_of(self._options.get("python_tools", {}), self._request.here)
        own = [*functions, *built_in_tools(self._request, self._secrets, self._on_event, stack)]
        servers = await self._servers(stack)
        once = [*self._options.get("once", ()), *(tool.name for tool in functions if is_once(tool.function))]
        schemas = [(tool.name, tool.function_schema.json_schema) for tool in own]
        begin = HeadLine(
            library=LIBRARY,
            model=f"{self._chosen.provider}/{self._chosen.model}",
            question=digest(self._request.question, self._request.messages),
            tools=digest(schemas, self._options.get("mcp_servers", {}), schema),
            guidance=self._request.tail.guidance,
        )
        self._steps = Steps.open(self._request, begin, self._secrets)
        stack.callback(self._steps.close)
        output: list[Any] = [str, None]  # with None a turn without text ends the conversation
        if schema is not None:
            form = StructuredDict(schema, name=TOOL, description="Give the wanted outputs, once, when all is done.")
            output.append(ToolOutput(form, name=TOOL, max_retries=_MISTAKES))
        return Agent(
            self._model,
            output_type=output,
            instructions=INSTRUCTION if schema is not None else None,
            toolsets=[
                RecordedTools(
                    tools,
                    self._steps,
                    self._secrets,
                    self._note,
                    once if not server else _of_server(server, once),
                    server,
                )
                for server, tools in (({"": FunctionToolset(own)} if own else {}) | servers).items()
            ],
            model_settings=self._settings(),
            retries={"tools": _MISTAKES, "output": 0},
        )

    def _beginning(self) -> tuple[str | None, list[ModelMessage]]:
        """The prompt if the conversation begins, and the messages before it.

        A continued one has no prompt. What is new to it comes with its next request: guidance, why an answer did not
        count, and that it was interrupted, unless the answer is already there.
        """
        steps, tail = self._steps, self._request.tail
        if steps.is_empty:
            if steps.void:
                self._report("log", f"the conversation begins anew: {steps.void}\n")
            before = [_message(role, text) for role, text in self._request.messages]
            return "\n\n".join(filter(None, (self._request.latest, _anew(steps)))), before
        history: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python(steps.messages)
        self._texts = [one.text or "" for one in history if isinstance(one, ModelResponse)]
        given = Counter(steps.guidance)
        said = (part.content for one in history for part in one.parts if isinstance(part, UserPromptPart))
        given.update(text for text in said if isinstance(text, str))
        news = [text for text, n in Counter(tail.guidance).items() for _ in range(n - given[text])]
        notes = [tail.refusal] if tail.refusal and steps.is_refused(tail.refused, self._request.attempt) else []
        if steps.closing is None and not _is_answer(history[-1]):
            self._guidance = [*news, *self._guidance]
            self._notes_due = [*notes, tail.interruption] if tail.interruption else notes
            return None, history
        news += [*self._guidance, *notes]
        self._guidance = []
        closing: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python(steps.closing or [])
        if news or steps.dropped:
            parts: list[Any] = [part for message in closing for part in message.parts]
            history.append(ModelRequest(parts=[*parts, *map(UserPromptPart, news)]))
        return None, history

    async def _servers(self, stack: AsyncExitStack) -> dict[str, AbstractToolset[None]]:
        """Start the declared MCP servers, which run until *stack* unwinds, and return the tools of each."""
        toolsets: dict[str, AbstractToolset[None]] = {}
        declared: Mapping[str, Any] = self._options.get("mcp_servers", {})
        if not declared:
            return toolsets
        from coterie.agents.backends.models.servers import Server  # imports FastMCP, which takes a second

        for name, said in declared.items():
            server = Server(name, said)
            path = self._request.folder and self._request.folder / f"mcp-{name}.log"
            log = LogFile(path, self._secrets)
            stack.callback(log.close)
            toolset = server.toolset(self._request, log, self._secrets, self._on_event)
            try:
                await stack.enter_async_context(toolset)
            except Exception as error:  # a server is a foreign program: it may fail in any way
                what = "started" if server.is_process else "reached"
                raise Unusable(f"the MCP server {name!r} could not be {what}: {_first_message(error)}") from error
            toolsets[name] = toolset
        return toolsets

    def _settings(self) -> Any:
        """The model settings in the options; settings that the provider does not support are left out and logged."""
        for name in self._dialect.IGNORED:
            if name in self._options:
                word = name.replace("_", "-")
                self._report("log", f"{self._chosen.provider} has no setting {word!r}: it is left out\n")
        return settings_of(self._options, self._dialect)

    async def _listen(self, run: "AgentRun[None, Any]") -> None:
        """Continue the conversation to its end, and report each event."""
        async for node in run:
            self._acting = None
            if self._kept is None and not Agent.is_user_prompt_node(node):
                self._kept = 0 if self._steps.is_empty else len(run.all_messages()) - len(self._steps.paused)
            if Agent.is_model_request_node(node):
                if self._notes_due and node.request.parts:  # there are none where the provider is asked to go on
                    node.request.parts = [*node.request.parts, *map(UserPromptPart, self._notes_due)]
                    self._notes_due = []
                if node.request.parts or not self._texts:  # else the provider is asked to go on with its last text
                    self._texts.append("")
                redactors = {channel: StreamRedactor(self._secrets) for channel in ("answer", "thinking")}
                async with AsyncExitStack() as stack:
                    with guard_request():
                        stream = await stack.enter_async_context(node.stream(run.ctx))
                    async for event in guard_events(stream):
                        self._received(event, redactors)
                for channel, redactor in redactors.items():
                    self._report(channel, redactor.feed("", final=True))
            elif Agent.is_call_tools_node(node):
                await self._keep(run, node.model_response)
                self._reported = {*self._steps.returned}
                self._give_guidance(run)
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
        """Report a call of a tool, or its result, unless an earlier attempt did."""
        if getattr(getattr(event, "part", None), "tool_call_id", None) in self._reported:
            return
        match event:
            case FunctionToolCallEvent(part=part):
                detail = self._detail(part.args_as_json_str())
                self._on_event(Tool(id=part.tool_call_id, name=part.tool_name, detail=detail))
            case FunctionToolResultEvent(part=ToolReturnPart(outcome="success") as part):
                result = self._detail(part.model_response_str())
                self._on_event(Tool(id=part.tool_call_id, name=part.tool_name, state="finished", result=result))
            case FunctionToolResultEvent(part=part):
                result = self._detail(str(part.content))
                self._on_event(Tool(id=part.tool_call_id, name=part.tool_name or "", state="failed", result=result))
            case _:
                pass

    def _give_guidance(self, run: "AgentRun[None, Any]") -> None:
        """Have *run* send the guidance that waits with its next request."""
        for text in self._guidance:
            run.enqueue(text)
        self._guidance = []

    async def _refuse(self, sent: int, messages: Sequence[ModelMessage]) -> Failure | None:
        """Why another request may not be sent, once the results in *messages* are on disk."""
        if isinstance(messages[-1], ModelResponse):  # the provider has paused, and is asked to go on
            self._steps.append(AnswerLine(messages=_dumped(messages[self._kept :]), paused=True))
        await self._steps.sync()
        asked = self._request
        return await limit_reached(sent, self._options, self._on_event, asked.answered - asked.spared)

    async def _keep(self, run: "AgentRun[None, Any]", answer: ModelResponse) -> None:
        """Keep *answer* with its request before anything that it calls is called."""
        messages = run.all_messages()
        if new := messages[self._kept :]:
            kept = AnswerLine(messages=_dumped(new), usage=self._uncounted or NO_USAGE)
            self._count(self._steps.append(kept), [call.tool_name for call in answer.tool_calls])
            self._kept = len(messages)
        if any(call.tool_name != TOOL for call in answer.tool_calls):
            await self._steps.sync()
        self._acting = answer

    def _answered(self, used: Usage, is_complete: bool) -> None:
        """Report what an answer *used*; one that is complete is counted once it is kept."""
        self._on_event(Used(usage=self.used))
        self._uncounted = used
        if not is_complete:
            self._count()

    def _count(self, hash: str = "", calls: Sequence[str] = ()) -> None:
        """Count the latest request, unless it is counted."""
        if self._uncounted is not None:
            self._counted += 1
            step = Stepped(n=self._counted, usage=self._uncounted, calls=tuple(calls), hash=hash)
            self._uncounted = None
            self._on_event(step)

    def _ended(self, run: "AgentRun[None, Any]") -> Result:
        """The result of *run*, whose last answer is kept as the end of the attempt."""
        assert run.result is not None
        result = self._answer(run.result.output)
        ended = EndLine(attempt=self._request.attempt, messages=_dumped(run.all_messages()[self._kept :]))
        if isinstance(result, Failure):
            ended = EndLine(attempt=self._request.attempt, dropped=True)
        self._steps.append(ended)
        return result

    def _reject(self, reason: str) -> None:
        """Keep that the last answer cannot be used; if it acted, what its calls gave is kept."""
        answer, kept = self._acting, self._steps.returned
        if answer is not None and kept:
            parts: list[Any] = []
            for call in answer.tool_calls:
                if (returned := kept.get(call.tool_call_id)) is not None:
                    parts += parts_of(returned)
                else:
                    parts.append(ToolReturnPart(call.tool_name, reason, call.tool_call_id, outcome="failed"))
            messages = _dumped([ModelRequest(parts=parts)])
            self._steps.append(EndLine(attempt=self._request.attempt, messages=messages))
        elif answer is not None:
            self._steps.append(EndLine(attempt=self._request.attempt, dropped=True))

    def _answer(self, given: Any) -> Result:
        """The result with the output *given* by the library."""
        used = self.used
        if used.unpriced:
            reason = f"the price of {self._chosen.model} is not known and counts as 0: give price-in and price-out\n"
            if self._model.unreported == used.unpriced:
                reason = f"{self._chosen.provider} did not report the usage of an answer, which counts as 0\n"
            self._report("log", reason)
        texts = [self.hide(text) for text in self._texts]
        return result_of(texts, given if isinstance(given, dict) else None, used)

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


def _of_server(server: str, names: Iterable[str]) -> list[str]:
    """The names, for the model, of the tools of *server* that *names* has as `mcp.SERVER.TOOL`."""
    own = f"mcp.{server}."
    return [f"{server_prefix(server)}_{name.removeprefix(own)}" for name in names if name.startswith(own)]


def _is_answer(message: ModelMessage) -> bool:
    """Whether *message* is an answer that calls nothing, and that the provider has finished."""
    return isinstance(message, ModelResponse) and not message.tool_calls and message.state != "suspended"


def _dumped(messages: Sequence[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def _anew(steps: Steps) -> str:
    """A note for the model on an earlier attempt whose conversation does not continue, but which acted."""
    if not steps.void:
        return ""
    called = f"It called {', '.join(dict.fromkeys(steps.tools))}" if steps.tools else "It may have called tools"
    return (
        "# This turn begins anew\n\n"
        f"The conversation of an earlier attempt does not go on here: {steps.void}. {called}: check what is done "
        "before you do it again."
    )


def _first_message(error: BaseException) -> str:
    """The message of *error*; for a group, that of the first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _message(role: str, text: str) -> ModelMessage:
    """Convert one message of the history for the model."""
    if role == "assistant":
        return ModelResponse(parts=[TextPart(text)])
    return ModelRequest(parts=[SystemPromptPart(text) if role == "system" else UserPromptPart(text)])
