"""An agent in a worker, and the worker that has it, as its supervisor sees them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from coterie.actors.exits import Change
from coterie.actors.life import AgentHealth
from coterie.actors.supervision.spec import KILLED, RESTART, ChildSpec, WorkerAbsent
from coterie.actors.workers.requests import ABSENT, StartAgent, StopAgent, call, raise_refusal
from coterie.actors.workers.signal import ChangeSignal
from coterie.errors import ActorError

if TYPE_CHECKING:
    from coterie.actors.transports.peer_transport import PeerTransport

PATIENCE = 5.0
"""Seconds beyond its shutdown time in which a worker confirms that an agent has ended, unless it is cut off."""


class WorkerSlot:
    """A process name and the workers that can have it.

    Attributes:
        active: The address of the worker that hosts the agents; empty: none does.
        leaving: The address of the worker that stops them, in order.
        was_lost: The latest worker was lost, and no other has come since.
        leased_to, leased_until: The worker that was lost last, and when its agents have ended; until then no other
            worker gets them.
        present: The addresses of the workers of that name, in the order in which they came.
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
        slot: Its process name and the worker that has it now.

    Attributes:
        host: The address of the worker that has its mailbox; empty: none has.
        is_up: Whether its incarnation has not ended, as far as this process knows.
        stopped: Why its supervisor has stopped it for good; None: it has not.
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
        """Have the worker start an incarnation; return when it runs there."""
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
        """Have the worker end it; return when it has ended or the worker is gone."""
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
        """How it was when its worker reported last."""
        return self._health

    def update(self, health: AgentHealth) -> None:
        """Take a report of its worker."""
        self._health = health
