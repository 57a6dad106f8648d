"""Waiting for a change."""

import asyncio


class ChangeSignal(asyncio.Event):
    """Wakes all that wait for the next change."""

    def fire(self) -> None:
        """Something has changed."""
        self.set()
        self.clear()
