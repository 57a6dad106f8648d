"""Ask a human, at the terminal of the run or through the run's inbox."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from coterie.agents.backends.base import Abilities, Answer, Failure, OnEvent, Request, Session
from coterie.agents.backends.pending import Pending
from coterie.base.user_code import CANCELLED, contained, is_cancelled

AskHuman = Callable[[Request], Awaitable[Any]]
"""Shows a prompt to a person and returns their answer: a text, or values by name."""


class HumanBackend:
    """Asks people.

    Without a *terminal* nothing is shown, and the session waits until it is interrupted or the wait is cancelled: the
    answer comes through the inbox of the run, which then cancels the wait. The run enforces the time-out of a human,
    which may exceed the life of this process.

    Args:
        terminal: Asks the person at the terminal; cancelled if the answer comes through the inbox.
    """

    abilities = Abilities()

    def __init__(self, terminal: AskHuman | None = None) -> None:
        self._terminal = terminal
        self._sessions: set[Pending] = set()

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Show the prompt, and return at once."""
        session = Pending()
        self._sessions.add(session)
        session.when_over(lambda: self._sessions.discard(session))
        if self._terminal is not None:
            session.when_over(asyncio.create_task(_ask(self._terminal, request, session)).cancel)
        return session

    async def close(self) -> None:
        """Interrupt all waiting sessions. Idempotent."""
        for session in list(self._sessions):
            await session.interrupt()


async def _ask(terminal: AskHuman, request: Request, session: Pending) -> None:
    try:
        with contained():
            said = await terminal(request)
        session.settle(Answer(text=said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)))
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        session.settle(Failure(kind="crashed", reason=CANCELLED))
    except Exception as error:  # a failure becomes a result here: no other task awaits this one
        session.settle(Failure(kind="crashed", reason=f"{type(error).__name__}: {error}"))
