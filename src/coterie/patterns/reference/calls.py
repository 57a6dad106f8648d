"""One attempt to answer a call: the model, the tools it uses, and the hooks on its answer.

Tools are functions of the topology object, offered to agents with the capability `tool_use`. A model requests them with
`tool_calls` in its response, `[{"id": …, "name": …, "arguments": {…}}]`, and is called again with their results, at
most `max_tool_calls` times.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from coterie.agents.backends.base import Backend
from coterie.base.user_code import contained
from coterie.errors import CallFailed, PatternRefused
from coterie.patterns.reference.mixins.base import BaseMixin, Vetoed
from coterie.patterns.reference.plain import plain, plain_object
from coterie.team.topology.conditions import is_number

Model = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
Tool = Callable[..., Any]


Ask = Callable[[str, str, int], Awaitable[str]]
"""Asks a human on behalf of a turn the n-th question with these words, and waits for the answer, for days if need be;
after a crash, it returns the recorded one."""


class Call(Struct, frozen=True, kw_only=True):
    """The call that is being answered: `current_call()` returns it in `_call_llm`, tools and hooks.

    Attributes:
        turn: Its turn, `worker#2`; *attempt* is the number of the attempt.
        key: The same in every attempt, and unique: for tools that must act only once.
        interrupted: The number of earlier attempts that a crash interrupted.
        sent: The request to the agent, as recorded; read-only.
        timeout: Seconds that the model may take for one answer.
        models: Returns the backend of model providers, for a topology without its own `_call_llm`.
    """

    run: str
    slot: str
    turn: str
    attempt: int
    interrupted: int
    sent: dict[str, Any]
    model: Model
    human: Ask
    models: Callable[[], Backend | None]
    timeout: float | None = None
    spent: list[Any] = []
    questions: list[str] = []

    @property
    def request(self) -> dict[str, Any]:
        """The request to the agent; a copy that may be changed."""
        return plain_object(self.sent, "the request")

    @property
    def key(self) -> str:
        """The same in every attempt of this call, and in no other call."""
        return f"{self.run}/{self.turn}"

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The model's response to *request*.

        Raises:
            TimeoutError: If it takes longer than the agent's `timeout_seconds`.
            PatternRefused: If the response is not a dictionary of JSON values.
        """
        try:
            async with asyncio.timeout(self.timeout) as limit:
                answering = self.model(plain_object(request, "the request"))
                if not isawaitable(answering):
                    raise PatternRefused("_call_llm must be written with `async def`")
                response = plain_object(await answering, "what _call_llm gave")
        except CallFailed as error:
            self.spent.append(error.usage)
            raise
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"the model took longer than {self.timeout:g} s") from error
            raise
        self.spent.append(response.get("usage"))
        return response

    async def ask_human(self, question: str) -> str:
        """The answer of a human to *question*."""
        self.questions.append(question)
        return await self.human(self.turn, question, self.questions.count(question))

    @property
    def used(self) -> dict[str, Any]:
        """The total usage that the responses so far report."""
        return _added(self.spent)


_CURRENT: ContextVar[Call] = ContextVar("coterie_call")


def current_call() -> Call:
    """The call that is being answered here.

    Raises:
        LookupError: If there is none: only `_call_llm`, tools, and the hooks on responses and tools run in a call.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise LookupError("no call is being answered here: only _call_llm, tools and some hooks run in one") from None


async def answer(call: Call, mixins: Sequence[BaseMixin], tools: Mapping[str, Tool], most: int) -> dict[str, Any]:
    """The final response to *call*, after tools and hooks."""
    _CURRENT.set(call)
    response = await call.ask(call.sent)
    request, used = call.sent, 0
    while wanted := _tool_calls(response):
        if used >= most:
            raise CallFailed(f"it wants a further tool call, and may have {most} (max_tool_calls)")
        results = []
        for one in wanted[: most - used]:
            used += 1
            results.append(
                {"role": "tool", "tool_call_id": one.get("id", ""), "content": await _use(one, mixins, tools)}
            )
        said = {"role": "assistant", "content": response.get("content", ""), "tool_calls": wanted[: len(results)]}
        request = {**request, "messages": [*request["messages"], said, *results]}
        response = await call.ask(request)
    if not mixins and len(call.spent) == 1:
        return response
    for mixin in mixins:
        response = plain_object(await mixin.on_response(response), f"what on_response of {mixin.name!r} gave")
    return {**response, "usage": call.used} if call.used else response


def described(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """Describe *tools* for a model: name, description, and the JSON Schema of the arguments."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter  # it accepts functions and describes their arguments; its type hints do not say so
    return [
        {
            "name": name,
            "description": (tool.__doc__ or "").strip().partition("\n")[0],
            "input_schema": adapter(tool).json_schema(),
        }
        for name, tool in tools.items()
    ]


def _tool_calls(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted = response.get("tool_calls")
    return [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []


async def _use(wanted: Mapping[str, Any], mixins: Sequence[BaseMixin], tools: Mapping[str, Tool]) -> str:
    """The result of the *wanted* tool as text; otherwise why there is none."""
    name, args = str(wanted.get("name", "")), wanted.get("arguments")
    try:
        if isinstance(args, str):
            args = json.loads(args or "{}")
        if not isinstance(args, dict):
            return "error: the arguments are no JSON object"
        for mixin in mixins:
            changed = await mixin.on_tool_call(name, args)
            args = args if changed is None else changed
    except Vetoed as veto:
        return f"refused: {veto}"
    except json.JSONDecodeError as error:
        return f"error: the arguments are no JSON: {error}"
    tool = tools.get(name)
    if tool is None:
        return f"error: unknown tool {name!r}; known are {', '.join(tools) or 'none'}"
    seconds = next((s for one in mixins if (s := getattr(one.config, "tool_call_timeout_seconds", None))), None)
    try:
        with contained():
            async with asyncio.timeout(seconds):
                given = tool(**args)
                given = await given if isawaitable(given) else given
        return given if isinstance(given, str) else json.dumps(plain(given, f"what the tool {name!r} gave"))
    except TimeoutError:
        return f"error: {name} took longer than {seconds} s"
    except Exception as error:  # whatever a user's tool raises is for the model to know
        return f"error: {type(error).__name__}: {error}"


def _added(usages: Sequence[Any]) -> dict[str, Any]:
    """The total usage of several responses; numbers of one name are added."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items() if isinstance(usage, dict) else ():
            old = total.get(name)
            total[name] = old + value if is_number(value) and is_number(old) else value
    return total
