"""A function as an agent: each turn calls it with the outputs that its parameters name.

It has no state, so there is no actor and nothing to supervise: the turn calls it in the run's own task.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.actors.classes import load_function
from coterie.actors.crashes import trace
from coterie.actors.owned_work import leaves_loop
from coterie.actors.plain import plain
from coterie.backends.attempt_task import InlineAttempt
from coterie.backends.base import Answer, Failure, Request, Result
from coterie.errors import TurnFailure, error_line
from coterie.topology.typed.functions import PROMPT, Signature, signature_of
from coterie.topology.typed.values import RESULT, as_outputs, converted, fields_of, value_of

_AS_TEXT = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class AgentFunction:
    """A function and what it reads; a synchronous one is called in a thread."""

    call: Callable[..., Any]
    signature: Signature
    is_async: bool
    gives_fields: bool

    @classmethod
    def at(cls, path: str) -> "AgentFunction":
        """The function at `module:name`.

        Raises:
            ClassNotFound: It cannot be imported.
        """
        call = load_function(path)
        signature = signature_of(call)
        return cls(call, signature, inspect.iscoroutinefunction(call), fields_of(signature.result) is not None)


class FunctionTurn(InlineAttempt):
    """A turn that a function works on.

    A parameter gets, of this name: the whole answer of an agent, an output of the agents that it follows or reads, the
    latest first, a value of the run's input, or its default. The output is the value that the function returns.
    What a synchronous function does in its thread goes on when the turn is interrupted.
    """

    def __init__(self, function: AgentFunction, request: Request) -> None:
        super().__init__()
        self._function, self._request = function, request

    async def _run(self) -> Result:
        """Call the function, within the time that a turn may take; `sys.exit` in it is an error like any other."""
        limit, task = self._request.agent.timeout, asyncio.current_task()
        try:
            if limit is None:
                answer = await self._called()
            else:
                async with asyncio.timeout(limit) as bound:
                    answer = await self._called()
        except TurnFailure as failure:
            return Failure(kind=failure.kind, reason=failure.reason)
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
            if leaves_loop(error) or is_cancelled:
                raise
            if limit is not None and bound.expired():
                return Failure(kind="timeout", reason=f"no answer within {limit:g} s")
            reason = f"{self._request.agent.name} crashed: {error_line(error)}"
            return Failure(kind="crashed", reason=reason, log=trace(error, __file__))
        return self._read(answer)

    async def _called(self) -> Any:
        function, arguments = self._function, dict[str, Any]()
        name = self._request.agent.name
        for parameter, type_ in function.signature.parameters.items():
            found, value = _given(parameter, type_, self._request.context)
            if found:
                arguments[parameter] = value
            elif parameter not in function.signature.optional:
                raise TurnFailure("failed", f"no agent gives {parameter!r}, which {name}() reads, nor does the input")
        if function.is_async:
            return await function.call(**arguments)
        answer, error = await asyncio.to_thread(self._ended, arguments)
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer  # of an `async def` under a decorator

    def _ended(self, arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
        """Call it, in a thread: its answer, or its error; a future could not hold every error."""
        try:
            return self._function.call(**arguments), None
        except BaseException as error:
            return None, error

    def _read(self, answer: Any) -> Result:
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
        return Answer(text=answer if isinstance(answer, str) else text_of(outputs), outputs=outputs or None)


def text_of(outputs: Mapping[str, Any]) -> str:
    """The text of an answer that is only *outputs*."""
    return _AS_TEXT.encode(outputs) if outputs else ""


def _given(name: str, type_: Any, context: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether the parameter *name* is given in the *context* of a turn, and its value.

    Raises:
        TurnFailure: If the value does not have the type.
    """
    results = [*reversed(context.get("inputs", ())), *context.get("reads", ())]
    given = context.get("input", {})
    try:
        for one in results:
            if _word(one["agent"]) == name:
                return True, value_of(type_, one["outputs"], one["text"])
        for one in results:
            for output, value in one["outputs"].items():
                if _word(output) == name:
                    return True, converted(value, type_)
        if name in given:
            return True, converted(given[name], type_)
    except ValueError as error:
        raise TurnFailure("failed", f"the parameter {name!r} does not have its type: {error_line(error)}") from None
    return (True, context.get("task", "")) if name == PROMPT else (False, None)


def _word(name: str) -> str:
    return name.replace("-", "_")
