"""The edge between a supervisor and its children: their specs, and how they start and stop.

A supervisor knows its children by name and incarnation only. Where a child runs is the business of the `Supervised`
that stands for it.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import Struct

from coterie.actors.exits import Change
from coterie.errors import CoterieError

RestartType = Literal["permanent", "transient", "temporary"]
"""Restarted after every end; only after a failure; never."""

RESTART = "restart"
"""Reason of `Supervised.stop`: another incarnation follows, so the mailbox is kept."""
SHUTDOWN = "shutdown"
"""Reason of `Supervised.stop`: no incarnation follows unless its supervisor itself is restarted."""
KILLED = "killed"
"""Reason of `Supervised.stop`: like `SHUTDOWN`, without waiting for `on_stop`."""
CRASHED = "crashed"
"""Reason of `Supervised.stop`: like `SHUTDOWN`, for a child that crashed and is not restarted."""


class ChildSpec(Struct, frozen=True, kw_only=True):
    """How to build and restart one child.

    Attributes:
        name: Unique in its system.
        kind: `agent`, `supervisor`, or the word of another kind of node, as a file writes it.
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
    """Raised by `Supervised.start`: the worker of the child is not there. No failure; `Available` follows."""


class Supervised(Protocol):
    """A child as its supervisor sees it.

    Attributes:
        report: Set by the supervisor before the first start; called once when an incarnation ends by itself, never for
            a start that raised nor after `stop` was called; and when a worker comes for a child that needs one.
    """

    report: Callable[[Change], None]

    @property
    def spec(self) -> ChildSpec:
        """Its name and rules."""

    async def start(self, incarnation: int) -> None:
        """Start an incarnation; return when it runs. Cancelled, it leaves nothing running.

        Raises:
            WorkerAbsent: It runs in a worker, and there is none.
            WorkerLost: Its worker was lost meanwhile.
            Exception: What building the process, restoring its state, or `on_start` raised.
        """

    async def stop(self, reason: str) -> None:
        """End the child within `spec.shutdown` seconds, for one of the reasons above; never raises.

        A supervisor also calls it for a child that has ended already and is not restarted, so that the askers in its
        mailbox get their answer.
        """
