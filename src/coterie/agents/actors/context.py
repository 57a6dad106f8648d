"""What a function knows of its turn, and what it may say while it works."""

import asyncio
import dis
from contextlib import suppress
from contextvars import ContextVar
from types import ModuleType
from typing import Any, ClassVar

from coterie.agents.backends.base import Event, OnEvent, Request, Text, Used
from coterie.agents.backends.models.key import TURN
from coterie.history.journal.records import NO_USAGE, Usage

_CURRENT: ContextVar["Context"] = ContextVar("coterie_context")
_MODELS = frozenset({"anthropic", "autogen", "crewai", "google.genai", "langchain", "langgraph", "litellm", "openai"})
_MODELS |= {"dspy", "langchain_anthropic", "langchain_core", "langchain_openai", "ollama", "pydantic_ai"}
_MODELS |= {"agents.agent", "agents.run"}  # `agents` alone is what many programs call a module of theirs
"""The modules of libraries that ask models."""
_SILENT: dict[str, set[str]] = {}
"""The functions of each root run that use such a library and reported no usage."""


class Context:
    """Where a function is, and what it may say while it works; a parameter `context: coterie.Context` gets it.

    Its methods may be called in any thread. After the end of the turn they do nothing.

    Attributes:
        run: The id of the run, or of the child run.
        turn: The turn; *attempt* counts its attempts from 1.
        agent: The name of the function's node.
        item: The element that the turn is for, in a mapped node; empty if there is none.
        thread: The earlier runs of the thread, oldest first, each with `run`, `prompt` and the `answer` of this node;
            empty unless the node has `thread: true`.
        key: The same in every attempt of the turn, for effects that must happen once.
        cancelled: Whether the turn was interrupted or took too long: a thread should return.
    """

    is_context_of_a_turn: ClassVar[bool] = True

    def __init__(self, request: Request, on_event: OnEvent) -> None:
        self.run, self.turn, self.attempt = request.run, request.turn, request.attempt
        self.agent, self.key = request.agent.name, request.key
        self.item: Any = request.context.get("item", "")
        self.thread = request.thread
        self.cancelled = False
        self.used = NO_USAGE
        self._on_event: OnEvent | None = on_event
        self._loop = asyncio.get_running_loop()

    def note(self, text: str) -> None:
        """Write a line into the log of the turn, which `coterie logs` shows."""
        self._tell(Text(text=f"{text}\n", channel="log"))

    def emit(self, text: str) -> None:
        """Show watchers a piece of the output that is being made; what the function returns is the answer."""
        self._tell(Text(text=text))

    def report(self, usage: Any = None, *, cost: float = 0.0) -> None:
        """Count what models that the function itself asked have used, for budgets and statistics.

        Args:
            usage: A `Usage`, or what a library calls so, with `input_tokens` and `output_tokens`, or `prompt_tokens`
                and `completion_tokens`, as attributes or entries.
            cost: US dollars.
        """
        self.used += Usage(
            input_tokens=_count(usage, "input_tokens", "prompt_tokens"),
            output_tokens=_count(usage, "output_tokens", "completion_tokens"),
            cost=float(cost or getattr(usage, "cost", None) or 0.0),
        )
        self._tell(Used(usage=self.used))

    def close(self) -> None:
        """End it: what comes from now on is not heard."""
        self._on_event = None

    def _tell(self, event: Event) -> None:
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            self._said(event)
        elif self._on_event is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._said, event)

    def _said(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


def current() -> Context:
    """The context of the function that calls this, and of what it calls.

    Raises:
        LookupError: If no function of a run is at work here.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise LookupError("current() works only in a function that is an agent of a run") from None


def enter(context: Context) -> None:
    """Make *context* the current one, in this task or thread."""
    _CURRENT.set(context)
    TURN.set((context.key, context.attempt))


def model_library(function: Any) -> str:
    """The library that asks models and that *function* imports, or its module; empty if there is none."""
    used = getattr(function, "__globals__", {}).values()
    names = [one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", None) for one in used]
    names += [one.argval for one in dis.get_instructions(function) if one.opname == "IMPORT_NAME"]
    for name in names:
        parts = name.split(".") if isinstance(name, str) else []
        for known in (".".join(parts[:1]), ".".join(parts[:2])):
            if known in _MODELS:
                return known
    return ""


def note_silence(context: Context, library: str) -> None:
    """Remember that the function of *context* uses *library* and has reported no usage."""
    _SILENT.setdefault(context.run.partition("/")[0], set()).add(
        f"{context.agent}() uses {library} and reported no usage: call context.report(usage, cost=…)"
    )


def silent_functions(run: str) -> list[str]:
    """The notices about functions of the root *run*; each is returned once."""
    return sorted(_SILENT.pop(run, ()))


def _count(usage: Any, *names: str) -> int:
    for name in names:
        value = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
        if isinstance(value, int):
            return value
    return 0
