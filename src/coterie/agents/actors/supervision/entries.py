"""A supervisor's entries for its children and requests."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from coterie.agents.actors.supervision.spec import ChildSpec, Supervised


class ChildState(Enum):
    """The state of a child, as its supervisor knows it."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """It failed and restarts after a delay."""
    ABSENT = "absent"
    """It has no worker, and starts when one comes."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class ChildEntry:
    """A child in the list of its supervisor.

    Attributes:
        is_added: Whether it was started on request; it leaves the list when it has ended for good.
        incarnation: The number of the latest incarnation; 0 before the first start.
        restarts: Restarts since its supervisor was created.
        error: Why it last ended, in one line.
    """

    __slots__ = ("child", "error", "incarnation", "is_added", "restarts", "state", "timer")

    def __init__(self, child: Supervised, *, is_added: bool) -> None:
        self.child = child
        self.is_added = is_added
        self.incarnation = 0
        self.restarts = 0
        self.state = ChildState.STOPPED
        self.error = ""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def spec(self) -> ChildSpec:
        """Its name and rules."""
        return self.child.spec

    @property
    def name(self) -> str:
        """Its name."""
        return self.child.spec.name

    def cancel_timer(self) -> None:
        """Cancel its delayed restart."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StartFailed(Exception):
    """A child of a group did not start."""

    def __init__(self, entry: ChildEntry, error: Exception) -> None:
        self.entry, self.error = entry, error
        super().__init__(entry.name)


class ChildRequest:
    """Work requested by a caller who waits for it, done between two events."""

    def __init__(self, work: Callable[[], Awaitable[None]], caller: str) -> None:
        self.work, self.caller = work, caller
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        """Answer with *error*, unless the caller has gone."""
        if not self.done.done():
            self.done.set_exception(error)
