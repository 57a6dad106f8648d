"""The interface between a supervisor and its children: their specs, and how they start and stop.

A supervisor knows its children only by name and incarnation. The `Supervised` object of a child knows where it runs.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import Struct

from coterie.agents.actors.exits import Change
from coterie.errors import CoterieError

RestartType = Literal["permanent", "transient", "temporary"]
"""Restarted after every end; only after a failure; never."""

RESTART = "restart"
"""A reason of `Supervised.stop`: another incarnation follows, so the mailbox is kept."""
SHUTDOWN = "shutdown"
"""A reason of `Supervised.stop`: no incarnation follows unless the supervisor itself is restarted."""
KILLED = "killed"
"""A reason of `Supervised.stop`: like `SHUTDOWN`, without waiting for `on_stop`."""
CRASHED = "crashed"
"""A reason of `Supervised.stop`: like `SHUTDOWN`, for a child that crashed and is not restarted."""


class ChildSpec(Struct, frozen=True, kw_only=True):
    """How to build and restart one child.

    Attributes:
        name: Its name, unique in its system.
        kind: `agent`, `supervisor`, or another kind of node, as written in a file.
        factory: Builds the process of one incarnation; a supervisor never calls it.
        restart: When the child is restarted.
        shutdown: Seconds it has to stop before it is cancelled; None: unlimited.
        spawner: The agent that spawned it, which is notified when it has ended for good.
    """

    name: str
    kind: str = "agent"
    factory: Callable[[], Any] | None = None
    restart: RestartType = "permanent"
    shutdown: float | None = 5.0
    spawner: str = ""


class WorkerAbsent(CoterieError):
    """Raised by `Supervised.start` if the child's worker is absent. This is not a failure; `Available` follows."""


class Supervised(Protocol):
    """A child as its supervisor sees it.

    Attributes:
        report: Set by the supervisor before the first start. It is called once when an incarnation ends by itself, but
            not for a start that raised nor after `stop` was called; and when a worker comes for a child that needs one.
    """

    report: Callable[[Change], None]

    @property
    def spec(self) -> ChildSpec:
        """Its name and rules."""

    async def start(self, incarnation: int) -> None:
        """Start an incarnation; return when it runs. If cancelled, nothing keeps running.

        Raises:
            WorkerAbsent: If it needs a worker and there is none.
            WorkerLost: If its worker was lost meanwhile.
            Exception: From building the process, restoring its state, or `on_start`.
        """

    async def stop(self, reason: str) -> None:
        """End the child within `spec.shutdown` seconds, for one of the reasons above; never raises.

        A supervisor also calls it for a child that has already ended and is not restarted, so that waiting asks are
        answered.
        """
