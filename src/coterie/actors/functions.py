"""A function as an agent: each turn calls it with the outputs that its parameters name."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from coterie.actors.classes import load_function
from coterie.actors.message import Message
from coterie.actors.process import AgentProcess
from coterie.errors import TurnFailure, error_line
from coterie.topology.typed.functions import PROMPT, signature_of
from coterie.topology.typed.values import as_outputs, converted, value_of


class FunctionAgent(AgentProcess):
    """Calls a function for each turn; a synchronous one in a thread.

    A parameter gets, of this name: the whole answer of an agent, an output of the agents that it follows or reads, the
    latest first, a value of the run's input, or its default. Its output is the value that it returns.

    Args:
        path: Where the function is: `module:name`.
    """

    def __init__(self, name: str, *, path: str) -> None:
        super().__init__(name)
        self._function: Callable[..., Any] = load_function(path)
        self._signature = signature_of(self._function)
        self._waits = inspect.iscoroutinefunction(self._function)

    async def handle(self, message: Message) -> Message | None:
        """Call the function for the turn in *message*."""
        turn = message.payload
        arguments = {}
        for name, type_ in self._signature.parameters.items():
            found, value = _given(name, type_, turn)
            if found:
                arguments[name] = value
            elif name not in self._signature.optional:
                raise TurnFailure("failed", f"no agent gives {name!r}, which {self.name}() reads, nor does the input")
        if self._waits:
            answer = await self._function(**arguments)
        else:
            answer = await asyncio.to_thread(self._function, **arguments)
        try:
            outputs = as_outputs(answer)
        except (TypeError, ValueError) as error:
            raise TurnFailure("invalid_output", f"what {self.name}() returned is not JSON: {error}") from None
        return self.reply({"outputs": outputs, "text": answer if isinstance(answer, str) else None})


def _given(name: str, type_: Any, turn: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether the parameter *name* is given in *turn*, and its value.

    Raises:
        TurnFailure: If the value does not have the type.
    """
    results = [*reversed(turn["inputs"]), *turn["reads"]]
    try:
        for one in results:
            if _word(one["agent"]) == name:
                return True, value_of(type_, one["outputs"], one["text"])
        for one in results:
            for output, value in one["outputs"].items():
                if _word(output) == name:
                    return True, converted(value, type_)
        if name in turn["input"]:
            return True, converted(turn["input"][name], type_)
    except ValueError as error:
        raise TurnFailure("failed", f"the parameter {name!r} does not have its type: {error_line(error)}") from None
    return (True, turn["task"]) if name == PROMPT else (False, None)


def _word(name: str) -> str:
    return name.replace("-", "_")
