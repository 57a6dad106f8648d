"""The port through which a run starts turns, and its local form.

A run knows nothing of processes, models or machines: it starts an attempt and gets a `Session`. The local form asks
a backend in this process.
"""

from typing import Protocol

from coterie.backends.base import OnEvent, Request, Session


class Turns(Protocol):
    """Starts attempts, wherever they run."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt that *request* describes."""

    async def find(self, run: str, turn: str, attempt: int) -> Session | None:
        """The session of an attempt that an earlier owner started, if it still lives somewhere and can be adopted."""

    async def close(self) -> None:
        """End what still runs. Idempotent."""
