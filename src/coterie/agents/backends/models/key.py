"""The current turn and its attempt, for tools that must act once."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

TURN: ContextVar[tuple[str, int]] = ContextVar("coterie_turn")
"""The key of the turn, and which of its attempts is at work."""


_Function = TypeVar("_Function", bound=Callable[..., Any])


def once(function: _Function) -> _Function:
    """Mark a function that a model calls as a tool: it is called at most once for one request of the model.

    Other tools are called again with the same `turn_key` if the process ended while they were under way. Here the model
    reads that the effect of the call is unknown.
    """
    function.__coterie_once__ = True  # type: ignore[attr-defined]
    return function


def is_once(function: Any) -> bool:
    """Whether *function*, or the one that it wraps, is marked with `once`."""
    return bool(getattr(function, "__coterie_once__", False))


def turn_key() -> str:
    """The key of the turn that calls this tool: `run/turn`, the same in every attempt of the turn.

    A tool that pays, sends or publishes passes it on as an idempotency key, so that the other side acts once, however
    often the turn is retried after a crash.

    Raises:
        LookupError: If the caller is neither a tool that a model calls nor a function that is an agent.
    """
    return _turn("turn_key")[0]


def turn_attempt() -> int:
    """Which attempt of the turn calls this tool, from 1; above 1, an earlier one may have called it with this key.

    Raises:
        LookupError: As `turn_key`.
    """
    return _turn("turn_attempt")[1]


def _turn(asked: str) -> tuple[str, int]:
    try:
        return TURN.get()
    except LookupError:
        raise LookupError(
            f"{asked}() works only in a tool that a model calls, or in a function that is an agent"
        ) from None
