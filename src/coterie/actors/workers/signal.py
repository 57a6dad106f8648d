"""Waiting for a change."""

import asyncio


class ChangeSignal:
    """Wakes all that wait for the next change."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def fire(self) -> None:
        """Something has changed."""
        change, self._next = self._next, None
        if change is not None:
            change.set_result(None)

    async def wait(self) -> None:
        """Return at the next change."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next)
