"""Tell answers that nobody can make sense of from defects: providers' clients check little of what servers send.

They trip over it with whatever error comes first. The same errors may be a mistake of ours in asking, so what fails
before the server began to answer is left as it is.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_SHAPE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What reading data of another shape than expected raises."""

_ANSWERS: ContextVar[list[object] | None] = ContextVar("coterie-answers", default=None)


class Malformed(Exception):
    """A server sent what its protocol does not allow."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


async def answering(response: object) -> None:
    """Take note that a server begins to answer; a hook of the HTTP client."""
    if (answers := _ANSWERS.get()) is not None:
        answers.append(response)


@contextmanager
def beginning() -> Iterator[None]:
    """Ask, and read the beginning of the answer, inside.

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


async def understood(events: AsyncIterable[T]) -> AsyncIterator[T]:
    """*events*, which are read from an answer; what whoever takes them does wrong is not looked at.

    Raises:
        Malformed: If the answer cannot be read.
    """
    try:
        async for event in events:
            yield event
    except _SHAPE as error:
        raise Malformed(error) from error
