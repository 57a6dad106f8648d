"""Functions as agents: each turn calls the function with the outputs that its parameters name.

A function has no state, so there is no actor to supervise: the turn calls it.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.actors.classes import load_function
from coterie.agents.actors.context import Context, enter, model_library, note_silence
from coterie.agents.actors.crashes import trace
from coterie.agents.actors.plain import plain
from coterie.agents.backends.attempt_timeout import ABANDONED, InlineAttempt
from coterie.agents.backends.base import Answer, Failure, OnEvent, Request, Result
from coterie.agents.backends.models.threads import in_thread
from coterie.base.user_code import EndableCall, is_cancelled, leaves_loop, line_and_place
from coterie.errors import TurnFailure, UsageError, error_line
from coterie.history.journal.records import NO_USAGE
from coterie.team.topology.typed.functions import PROMPT, QUESTION, Signature, is_context, signature_of, singular
from coterie.team.topology.typed.values import RESULT, as_outputs, converted, fields_of, lost, value_of

_AS_TEXT = json.JSONEncoder(ensure_ascii=False, default=str)


class AgentFunction(Struct, frozen=True):
    """A function and its inputs; a synchronous function is called in a thread."""

    call: Callable[..., Any]
    signature: Signature
    is_async: bool
    gives_fields: bool
    library: str = ""
    """The library that asks models and that its module uses."""

    @classmethod
    def at(cls, path: str) -> "AgentFunction":
        """The function at `module:name`.

        Raises:
            ClassNotFound: If it cannot be imported.
        """
        call = load_function(path)
        signature = signature_of(call)
        gives_fields = fields_of(signature.result) is not None
        return cls(call, signature, inspect.iscoroutinefunction(call), gives_fields, model_library(call))

    def keeps(self, answer: Any, name: str, *, whole: bool) -> str:
        """Why those who read *answer* would get another value; empty if they get the same.

        A subclass would lose its own fields, and a secret would become asterisks.
        """
        declared, numbers = self.signature.result, (int, float)
        if type(answer) in numbers and declared in numbers:
            return ""
        try:
            at = lost(answer, declared, whole=whole)
        except (TypeError, ValueError) as error:
            return f"what {name}() returned does not have its type: {error_line(error)}"
        return f"{name}() returned {at}" if at else ""


class FunctionTurn(InlineAttempt):
    """A turn that calls a function.

    A parameter gets, of this name: the argument of a program's question, the whole answer of an agent, an output of the
    agents that it follows or reads, the latest first, a value of the run's input, the same of the runs above, or its
    default. `prompt` is the request: the question of a pattern, or the prompt of the run, which is `task` too.
    What a synchronous function does in its thread goes on when the turn is interrupted; an asynchronous one is
    cancelled, and abandoned if it ignores that.
    """

    def __init__(self, function: AgentFunction, request: Request, on_event: OnEvent) -> None:
        super().__init__()
        self._function, self._request = function, request
        self._context = Context(request, on_event)
        self._is_cut_off = True

    async def interrupt(self) -> None:
        """Interrupt it; a thread learns it from its context."""
        self._context.cancelled = True
        await super().interrupt()

    async def _run(self) -> Result:
        context = self._context
        try:
            result = await self._worked()
        finally:
            context.cancelled = context.cancelled or self._is_cut_off
            context.close()
        if self._function.library and context.used is NO_USAGE:
            note_silence(context, self._function.library)
        return result if context.used is NO_USAGE else replace(result, usage=context.used)

    async def _worked(self) -> Result:
        """Call the function, within the time that a turn may take; `sys.exit` in it is an error like any other."""
        timeout, result = self._request.agent.timeout, None
        limit = None if timeout is None else asyncio.timeout(timeout)
        try:
            if limit is None:
                answer = await self._called()
            else:
                async with limit:
                    answer = await self._called()
        except TurnFailure as failure:
            result = Failure(kind=failure.kind, reason=failure.reason)
        except BaseException as error:
            if leaves_loop(error) or (isinstance(error, asyncio.CancelledError) and is_cancelled()):
                raise
            reason = f"{self._request.agent.name} crashed: {line_and_place(error)}"
            result = Failure(kind="crashed", reason=reason, log=trace(error, __file__))
        self._is_cut_off = limit is not None and limit.expired()
        if self._is_cut_off:
            reason = f"no answer within {timeout:g} s"
            return Failure(kind="timeout", reason=f"{reason}; {ABANDONED}" if self.abandoned else reason)
        return result or self._read(answer)

    async def _called(self) -> Any:
        function, arguments = self._function, dict[str, Any]()
        name = self._request.agent.name
        for parameter, type_ in function.signature.parameters.items():
            if is_context(type_):
                arguments[parameter] = self._context
                continue
            found, value = _given(parameter, type_, self._request.context)
            if found:
                arguments[parameter] = value
            elif parameter not in function.signature.optional:
                raise TurnFailure("failed", f"no agent gives {parameter!r}, which {name}() reads, nor does the input")
        enter(self._context)
        if function.is_async:
            return await EndableCall(function.call(**arguments))
        answer, error = await in_thread(partial(self._returned, arguments), name)
        if error is not None:
            raise error
        return await EndableCall(answer) if inspect.isawaitable(answer) else answer

    def _returned(self, arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
        """Call it, in a thread: its answer, or its error; a future could not hold every error."""
        try:
            return self._function.call(**arguments), None
        except BaseException as error:
            return None, error

    def _read(self, answer: Any) -> Result:
        if type(answer) in (str, int, bool) and self._function.signature.result in (type(answer), Any):
            text = answer if isinstance(answer, str) else f'{{"{RESULT}": {msgspec.json.encode(answer).decode()}}}'
            return Answer(text=text, outputs={RESULT: answer})
        what = f"what {self._request.agent.name}() returned"
        try:
            declared = [want.name for want in self._request.agent.outputs]
            whole = declared == [RESULT] and not self._function.gives_fields
            outputs = plain(as_outputs(answer, whole=whole), what)
        except (TypeError, ValueError, RecursionError) as error:
            said = str(error)
            return Failure(
                kind="invalid_output", reason=said if said.startswith(what) else f"{what} is not JSON: {said}"
            )
        if why := self._function.keeps(answer, self._request.agent.name, whole=whole):
            return Failure(kind="invalid_output", reason=why)
        return Answer(text=answer if isinstance(answer, str) else text_of(outputs), outputs=outputs or None)


def text_of(outputs: Mapping[str, Any]) -> str:
    """The text of an answer that consists only of *outputs*."""
    return _AS_TEXT.encode(outputs) if outputs else ""


def _given(name: str, type_: Any, context: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether the parameter *name* is given in the *context* of a turn, and its value.

    Raises:
        TurnFailure: If the value does not have the type.
    """
    values = context.get("given") or {"prompt": context.get("task", ""), "input": context.get("input", {})}
    try:
        if name == PROMPT:
            return True, converted(values["prompt"], type_)
        items = _word(context.get("item_of", ""))
        if "item" in context and name in ("item", items if "items" in context else singular(items)):
            return True, converted(context["item"], type_)
        own = [*reversed(context.get("inputs", ())), *context.get("reads", ())]
        sources: tuple[tuple[Callable[[str, Any, Any], tuple[bool, Any]], Any], ...] = (
            (_named, values.get("own", {})),
            (_answered, own),
            (_named, context.get("input", {})),
            (_answered, values.get("answers", ())),
            (_named, values["input"]),
        )
        for look, where in sources:  # what comes after the first need not have the type
            found, value = look(name, type_, where)
            if found:
                return True, value
        return (True, converted(values["prompt"], type_)) if name == QUESTION else (False, None)
    except (ValueError, TypeError, NameError, UsageError) as error:
        raise TurnFailure("failed", f"the parameter {name!r} does not have its type: {error_line(error)}") from None


def _answered(name: str, type_: Any, results: Sequence[Mapping[str, Any]]) -> tuple[bool, Any]:
    """The answer of the agent *name* among *results*, else the output of that name."""
    for one in results:
        if _word(one["agent"]) == name:
            return True, value_of(type_, one["outputs"], one["text"], is_none="is_none" in one)
    for one in results:
        for output, value in one["outputs"].items():
            if _word(output) == name:
                return True, converted(value, type_)
    return False, None


def _named(name: str, type_: Any, given: Mapping[str, Any]) -> tuple[bool, Any]:
    return (True, converted(given[name], type_)) if name in given else (False, None)


def _word(name: str) -> str:
    return name.replace("-", "_")
