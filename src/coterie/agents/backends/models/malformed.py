"""Distinguish malformed answers of servers from bugs, since providers' clients validate little.

The clients fail on a malformed answer with an arbitrary error. The same error can be a bug in making the request, so an
error that is raised before the server began to answer is not changed.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_SHAPE = (AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors from reading data of an unexpected shape."""

_ANSWERS: ContextVar[list[object] | None] = ContextVar("coterie-answers", default=None)


class Malformed(Exception):
    """A server sent an answer that its protocol does not allow."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


async def note_response(response: object) -> None:
    """Note that a server begins to answer; a hook of the HTTP client."""
    if (answers := _ANSWERS.get()) is not None:
        answers.append(response)


@contextmanager
def guard_request() -> Iterator[None]:
    """A context for sending the request and reading the beginning of the answer.

    Raises:
        Malformed: If a server answered, and its answer cannot be read.
    """
    answers: list[object] = []
    token = _ANSWERS.set(answers)
    try:
        yield
    except _SHAPE as error:
        if not answers:
            raise
        raise Malformed(error) from error
    finally:
        _ANSWERS.reset(token)


async def guard_events(events: AsyncIterable[T]) -> AsyncIterator[T]:
    """Pass on *events*, which are read from an answer; errors of the consumer are not changed.

    Raises:
        Malformed: If the answer cannot be read.
    """
    try:
        async for event in events:
            yield event
    except _SHAPE as error:
        raise Malformed(error) from error
