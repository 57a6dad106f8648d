"""A signal for waiting on a change."""

import asyncio


class ChangeSignal(asyncio.Event):
    """Wakes all waiters at the next change."""

    def fire(self) -> None:
        """Wake all waiters."""
        self.set()
        self.clear()
