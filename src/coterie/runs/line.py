"""What happens to the runs of one owner, in line: one thing after the other, whoever it comes from."""

import asyncio
from collections.abc import Callable
from operator import itemgetter

Event = Callable[[], object]
"""Something that happened, as what is to be done about it: in one piece, without an `await`."""


class Line:
    """Keeps what has happened until its owner takes it, and wakes the owner up.

    Once it is closed nobody takes anything any more: an event is handled when it comes, and finds that nobody may
    write. The time of others never comes.
    """

    def __init__(self) -> None:
        self._events: list[tuple[int, Event]] = []
        self._rang = False
        self._bell: asyncio.Future[None] | None = None
        self._closed = False

    def __bool__(self) -> bool:
        """Whether something stands in line."""
        return bool(self._events)

    def put(self, order: int, event: Event) -> None:
        """Put *event* in line; of those that came together, the one with the lower *order* is handled first."""
        if self._closed:
            event()
            return
        self._events.append((order, event))
        self.ring()

    def put_later(self, wait: float, event: Event) -> None:
        """Put *event* in line after *wait* seconds; at once if there is nothing to wait for."""
        if wait <= 0:
            self.put(0, event)
        else:
            asyncio.get_running_loop().call_later(wait, self._put_in_time, event)

    def _put_in_time(self, event: Event) -> None:
        if not self._closed:
            self.put(0, event)

    def ring(self) -> None:
        """Wake the owner up: something has changed, though nothing may have come."""
        self._rang = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def rung(self) -> None:
        """Wait until something happens."""
        if not self._rang:
            await asyncio.sleep(0)  # what was just started may answer at once
        if not self._rang:
            self._bell = asyncio.get_running_loop().create_future()
            await self._bell
        self._rang = False

    def handle(self) -> bool:
        """Handle what stands in line now; what comes meanwhile waits for the next time. Whether there was anything."""
        if not self._events:
            return False
        events, self._events = self._events, []
        if len(events) > 1:
            events.sort(key=itemgetter(0))
        handled = 0
        try:
            for _, event in events:
                handled += 1
                event()
        finally:
            if handled < len(events):  # one raised; the others have still happened
                self._events[:0] = events[handled:]
        return True

    def clear(self) -> None:
        """Forget what stands in line."""
        self._events.clear()

    def close(self) -> None:
        """Let nobody wait in line any more."""
        self._closed = True
