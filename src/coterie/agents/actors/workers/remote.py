"""An agent in a worker, and its worker, from the supervisor's side."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from coterie.agents.actors.exits import Change
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.supervision.spec import KILLED, RESTART, ChildSpec, WorkerAbsent
from coterie.agents.actors.workers.requests import ABSENT, StartAgent, StopAgent, call, raise_refusal
from coterie.agents.actors.workers.signal import ChangeSignal
from coterie.errors import ActorError

if TYPE_CHECKING:
    from coterie.agents.actors.transports.peer_transport import PeerTransport

PATIENCE = 5.0
"""Seconds beyond an agent's shutdown time in which its worker must confirm the end."""


class WorkerSlot:
    """A process name and the workers that can have it.

    Attributes:
        active: The address of the worker that hosts the agents; empty: none.
        leaving: The address of a worker that is stopping them in order.
        was_lost: Whether the latest worker was lost and no other has come since.
        leased_to, leased_until: The last lost worker, and when its agents have ended; until then no other worker gets
            them.
        present: The addresses of the workers of that name, in order of arrival.
        children: The agents, in start order.
    """

    def __init__(self, process: str, transport: "PeerTransport", signal: ChangeSignal) -> None:
        self.process, self.transport, self.signal = process, transport, signal
        self.active = self.leaving = self.leased_to = ""
        self.leased_until = 0.0
        self.was_lost = False
        self.present: list[str] = []
        self.children: list[RemoteChild] = []
        self.filling: asyncio.Task[None] | None = None


class RemoteChild:
    """Starts and stops an agent in the worker of its process name, by name and incarnation.

    Args:
        slot: Its process name and its present worker.

    Attributes:
        host: The address of the worker with its mailbox; empty: none.
        is_up: Whether its incarnation is alive, as far as this process knows.
        stopped: Why its supervisor stopped it for good; None if it did not.
    """

    def __init__(self, spec: ChildSpec, slot: WorkerSlot, type_: str = "") -> None:
        self.spec = spec
        self.report: Callable[[Change], None] = lambda change: None
        self.slot = slot
        self.incarnation = 0
        self.host, self.is_up = "", False
        self.stopped: str | None = None
        self._health = AgentHealth(name=spec.name, type=type_, phase="stopped", queued=0, handled=0, restarts=0)

    async def start(self, incarnation: int) -> None:
        """Make the worker start an incarnation; return when it runs there."""
        self.stopped = None
        if not self.slot.active:
            raise WorkerAbsent(f"no worker {self.slot.process!r} for agent {self.spec.name!r}")
        host = self.host = self.slot.active
        self.incarnation, self.is_up = incarnation, True
        try:
            refusal = await call(self.slot.transport, host, StartAgent(self.spec.name, incarnation))
        except asyncio.CancelledError:
            await self.stop(RESTART)
            raise
        if refusal is not None:
            self.is_up = False
            if refusal.kind == ABSENT:
                raise WorkerAbsent(refusal.reason)
            raise_refusal(refusal)

    async def stop(self, reason: str) -> None:
        """Make the worker end it; return when it has ended or the worker is gone."""
        if reason != RESTART:
            self.stopped = reason
        if host := self.host:
            limit = 0.0 if reason == KILLED else self.spec.shutdown
            request = call(
                self.slot.transport,
                host,
                StopAgent(self.spec.name, reason),
                None if limit is None else limit + PATIENCE,
            )
            work = asyncio.get_running_loop().create_task(request, name=f"stop {self.spec.name}")
            with suppress(ActorError):  # lost, and the agent with it
                await asyncio.shield(work)
        self.is_up = False
        self.slot.signal.fire()

    def health(self) -> AgentHealth:
        """Its health in the worker's last report."""
        return self._health

    def update(self, health: AgentHealth) -> None:
        """Store a report of its worker."""
        self._health = health
