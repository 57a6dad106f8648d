"""Ask a human: at the terminal the run was started from, or through the run's inbox."""

import asyncio
from collections.abc import Awaitable, Callable

from coterie.backends.base import Answer, Failure, OnEvent, Request, Session
from coterie.backends.pending import Pending

AskHuman = Callable[[Request], Awaitable[str]]
"""Shows a question to somebody and returns what they answered."""


class HumanBackend:
    """Asks people, who take their time.

    Without a *terminal* nothing is shown and the session waits until it is interrupted or its wait cancelled: the
    answer comes through the inbox of the run, which then calls the wait off. How long a human may take is kept by the
    run as well, since that outlives the process.

    Args:
        terminal: Asks whoever sits at the terminal; called off when the answer comes from elsewhere.
    """

    def __init__(self, terminal: AskHuman | None = None) -> None:
        self._terminal = terminal
        self._sessions: set[Pending] = set()

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Ask, and return at once."""
        session = Pending()
        self._sessions.add(session)
        session.when_over(lambda: self._sessions.discard(session))
        if self._terminal is not None:
            session.when_over(asyncio.create_task(_ask(self._terminal, request, session)).cancel)
        return session

    async def close(self) -> None:
        """Call every question off. Idempotent."""
        for session in list(self._sessions):
            await session.interrupt()


async def _ask(terminal: AskHuman, request: Request, session: Pending) -> None:
    try:
        session.settle(Answer(text=await terminal(request)))
    except Exception as error:  # a failure becomes a result here: nobody else waits for this task
        session.settle(Failure(kind="crashed", reason=f"{type(error).__name__}: {error}"))
