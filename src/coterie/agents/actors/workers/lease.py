"""The lease of a worker: how long its agents may live without a confirmation from their supervisor."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.agents.actors.transports.peer_transport import PeerTransport
    from coterie.agents.actors.workers.guard import GuardProcess

CHECKS = 4
"""The number of checks between two heartbeats."""


class Lease:
    """The lease, which begins when this process sends a heartbeat that the supervisor then confirms.

    Supervisors give the agents to another worker only some time after the lease has ended. Within that time the worker
    stops its agents, or the guard process kills the worker.

    Args:
        ended: Called when the lease ends while the worker serves the supervisor that gave it.
        guard: Kills this process if the lease ends and `release` does not follow; None: no guard.
    """

    def __init__(
        self, transport: "PeerTransport", ended: Callable[[], None], guard: "GuardProcess | None" = None
    ) -> None:
        self._transport, self._ended, self._guard = transport, ended, guard
        self._supervisor = ""
        self._until = -inf
        self._check: asyncio.TimerHandle | None = None

    @property
    def at_once(self) -> float:
        """Seconds for stopping, and for cancelling, agents after the lease has ended."""
        return self._transport.beats.every / 4

    def begin(self, supervisor: str) -> None:
        """Count the heartbeats that *supervisor* confirms."""
        self._supervisor, self._until = supervisor, -inf
        self._renew()
        self._look()

    def holds(self) -> bool:
        """Whether agents may handle messages. If the lease has just ended, this reports its end."""
        if self._transport.beats.now() < self._until:
            return True
        self._renew()
        if self.left() > 0.0:
            return True
        if self._supervisor:
            self.freeze()
            self._ended()
        return False

    def left(self) -> float:
        """Seconds until it ends if no heartbeat is confirmed meanwhile; 0 if it has ended."""
        return max(self._until - self._transport.beats.now(), 0.0)

    def freeze(self) -> None:
        """Stop renewing it, because the worker is stopping its agents."""
        self._supervisor = ""

    def release(self) -> None:
        """End it, because no agent runs any more."""
        self._supervisor, self._until = "", -inf
        if self._check is not None:
            self._check.cancel()
        if self._guard is not None:
            self._guard.disarm()

    def _renew(self) -> None:
        if not self._supervisor:
            return
        until = self._transport.confirmed_at(self._supervisor) + self._transport.beats.lease
        if until > self._until:
            self._until = until
            if self._guard is not None:
                self._guard.arm(until, self._transport.beats.every / 2)

    def _look(self) -> None:
        self._check = asyncio.get_running_loop().call_later(self._transport.beats.every / CHECKS, self._look)
        self._renew()
        self.holds()
