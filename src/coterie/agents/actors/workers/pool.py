"""The workers of a system, from the side of its supervisors' process.

All agents of a process name live in one worker, the first to come; further workers of that name are spare. The loss of
the active worker is one failure for each supervisor with children there, and the next worker takes over. A worker that
leaves in order is not a failure.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coterie.agents.actors.exits import Available, Change, Crashed, Down, Lost
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import AskRefusal
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.transports.heartbeats import BEATS
from coterie.agents.actors.workers.remote import RemoteChild, WorkerSlot
from coterie.agents.actors.workers.requests import (
    Attach,
    Despawn,
    Introduce,
    Leave,
    Resolve,
    Spawn,
    WorkerReport,
    call,
    read_item,
    serve,
    share_usage,
)
from coterie.agents.actors.workers.signal import ChangeSignal
from coterie.base.clock import Clock, SystemClock
from coterie.errors import ActorError, AgentStopped, CannotStart, WorkerLost
from coterie.history.journal.records import ActorCrashed, ActorStarted, LetterDead, Record, WorkerAwaited
from coterie.team.planning.system import ActorPlan, TurnActorPlan

if TYPE_CHECKING:
    from coterie.agents.actors.node import ActorNode
    from coterie.agents.actors.transports.peer_transport import PeerTransport
    from coterie.agents.actors.transports.remote import Peer
    from coterie.agents.actors.tree import SupervisionTree

AGAIN = 0.2
"""Seconds until a worker that is busy is tried again."""


class WorkerPool:
    """Finds the workers of a system, assigns each process name to one of them, and reports their ends.

    Args:
        patience: Seconds to listen for another supervisor at the start.
        sink: Receives the records of agents in workers.
        tree: The tree into which agents in workers spawn others.
    """

    def __init__(
        self,
        node: "ActorNode",
        transport: "PeerTransport",
        fingerprint: str,
        *,
        patience: float,
        sink: Callable[[Record], None],
        tree: "SupervisionTree",
        clock: Clock | None = None,
    ) -> None:
        self.node, self._transport, self._fingerprint, self._sink, self._tree = node, transport, fingerprint, sink, tree
        self._patience, self._clock = patience, clock or SystemClock()
        transport.trusts = self._is_host
        self._slots: dict[str, WorkerSlot] = {}
        self._children: dict[str, RemoteChild] = {}
        self._reported: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = 0.0
        self._is_established = False
        self._signal = ChangeSignal()
        self.displaced: asyncio.Future[str]
        """Done when another supervisor of this system continues instead, with a message about it."""

    def child(self, plan: ActorPlan | TurnActorPlan, spec: ChildSpec) -> RemoteChild:
        """The child for an agent in a worker."""
        slot = self._slots.get(plan.process)
        if slot is None:
            slot = self._slots[plan.process] = WorkerSlot(plan.process, self._transport, self._signal)
        child = RemoteChild(spec, slot, getattr(plan, "type", ""))
        slot.children.append(child)
        self._children[spec.name] = child
        return child

    async def start(self) -> None:
        """Begin to serve workers, after the transport was started.

        Raises:
            CannotStart: If the system already has a supervisor.
        """
        loop = asyncio.get_running_loop()
        self.displaced = loop.create_future()
        self._began = self._clock.now()
        self._transport.resolve, self._transport.planned = self.resolve, self._children
        self.node.reach = partial(self.resolve, is_patient=True)
        serve(self._transport, WorkerReport, self._take)
        serve(self._transport, Leave, self._let_go)
        serve(self._transport, Spawn, self._spawn)
        serve(self._transport, Despawn, self._despawn)
        serve(self._transport, Resolve, self._resolve_for)
        serve(self._transport, Introduce, self._meet)
        share_usage(self._transport, self.node)
        self._transport.on_peer(self._on_peer)
        await asyncio.sleep(self._patience)  # until others could have been heard
        rivals = [peer for peer in self._transport.peers.values() if peer.role == "supervisor"]
        await asyncio.gather(*(self._introduce(peer) for peer in rivals))
        if self.displaced.done():
            raise CannotStart(self.displaced.result())
        self._is_established = True
        for slot in self._slots.values():
            self._fill(slot)
            if not slot.present:
                self._await(slot)

    async def stop(self) -> None:
        """Fail everything that waits for workers."""
        for task in list(self._tasks):
            task.cancel()

    async def resolve(self, name: str, *, is_patient: bool = False) -> None:
        """Wait until a node has the agent *name*, for a sender whose message no node takes yet.

        Args:
            is_patient: Also wait if its worker was lost.

        Raises:
            ActorError: If it is unknown, has stopped, or its worker was lost.
        """
        child = self._children.get(name)
        if child is None:
            raise self.node.missing(name)
        while name not in self._transport.names():
            if child.stopped is not None:
                raise AgentStopped(name, child.stopped)
            if child.slot.was_lost and not child.slot.active and not is_patient:
                raise WorkerLost(name, child.slot.process)
            await self._signal.wait()

    def _is_host(self, peer: "Peer", name: str) -> bool:
        """Whether *peer* hosts the agent *name* for this process, and not for a supervisor that has died."""
        child = self._children.get(name)
        return child is None or child.slot.active == peer.address

    # Workers come and go

    def _on_peer(self, peer: "Peer", change: str) -> None:
        if peer.role == "supervisor":
            if change == "joined" and self._is_established:
                self._do(self._introduce(peer))
            elif change == "lost" and peer.leased_until:  # it has not stopped its agents, which also had a lease
                for each in self._slots.values():
                    each.leased_to, each.leased_until = "", max(each.leased_until, peer.leased_until)
            return
        slot = self._slots.get(peer.process)
        if slot is not None and peer.fingerprint == self._fingerprint:
            if change == "lost":
                if peer.address in (slot.active, slot.leaving):
                    slot.leased_to, slot.leased_until = peer.address, peer.leased_until
                self._lost(slot, peer.address)
            elif peer.address not in slot.present:
                slot.present.append(peer.address)
                self._fill(slot)
        self._signal.fire()

    def _lost(self, slot: WorkerSlot, address: str) -> None:
        if address in slot.present:
            slot.present.remove(address)
        if slot.leaving == address:
            slot.leaving = ""
        if slot.active == address:
            slot.active, slot.was_lost = "", True
            self._end_hosted(slot, address, is_failure=True)
        self._reported.pop(address, None)
        self._fill(slot)
        if not slot.present:
            self._await(slot)

    def _await(self, slot: WorkerSlot) -> None:
        """Record that there is no worker; nothing else reports this until one comes."""
        self._sink(WorkerAwaited(process=slot.process, names=tuple(child.spec.name for child in slot.children)))

    def _end_hosted(self, slot: WorkerSlot, address: str, *, is_failure: bool) -> None:
        """Report the end of the agents hosted by *address*, once to each supervisor."""
        ended: dict[Callable[[Change], None], list[Down]] = {}
        error = f"WorkerLost: its worker {slot.process!r} was lost"
        for child in slot.children:
            if child.host != address:
                continue
            was_up, child.host, child.is_up = child.is_up, "", False
            if not was_up:
                continue
            child.update(replace(child.health(), phase="restarting", queued=0, in_hand=""))
            ended.setdefault(child.report, []).append(Down(child.spec.name, child.incarnation, Crashed(error)))
            if is_failure:
                name, incarnation = child.spec.name, child.incarnation
                self._sink(ActorCrashed(name=name, incarnation=incarnation, error=error, during="worker"))
        for report, downs in ended.items():
            report(Lost(tuple(downs), is_failure))

    def _fill(self, slot: WorkerSlot) -> None:
        """Assign the process name to a worker, unless one has it."""
        if self._is_established and slot.filling is None and not slot.active and slot.present:
            slot.filling = self._do(self._attach(slot))
            slot.filling.add_done_callback(partial(self._filled, slot))

    def _filled(self, slot: WorkerSlot, attached: "asyncio.Task[None]") -> None:
        slot.filling = None
        if not attached.cancelled():
            self._fill(slot)  # the worker may already be lost, or another one may have come

    def _may_have_rival(self) -> bool:
        """Whether a worker may have a lease from another supervisor, earlier or while this one was disconnected."""
        others = any(peer.role == "supervisor" for peer in self._transport.peers.values())
        beats = self._transport.beats
        return others or self.displaced.done() or self._transport.connected_for() < BEATS * beats.every

    async def _attach(self, slot: WorkerSlot) -> None:
        while slot.present:
            is_leased = asyncio.get_running_loop().time() < slot.leased_until
            for address in () if slot.leaving or self._may_have_rival() else tuple(slot.present):
                if is_leased and address != slot.leased_to:
                    continue
                try:
                    refusal = await call(self._transport, address, Attach(), timeout=5.0)
                except ActorError:
                    continue
                if refusal is None and address in slot.present:
                    slot.active, slot.was_lost = address, False
                    for child in slot.children:
                        child.report(Available(child.spec.name))
                    self._signal.fire()
                    return
            await asyncio.sleep(AGAIN)  # it still serves a supervisor whose loss it has not noticed yet

    async def _let_go(self, peer: "Peer", request: Leave) -> None:
        slot = self._slots.get(peer.process)
        if slot is None or peer.address not in slot.present:
            return
        slot.present.remove(peer.address)
        if slot.active == peer.address:
            slot.active, slot.leaving = "", peer.address
            self._end_hosted(slot, peer.address, is_failure=False)
        self._signal.fire()

    # What workers report and ask for

    async def _take(self, peer: "Peer", request: WorkerReport) -> None:
        slot = self._slots.get(peer.process)
        known = self._reported.get(peer.address, 0)
        self._reported[peer.address] = max(known, request.first + len(request.items) - 1)
        if slot is None or peer.address not in (slot.active, slot.leaving):
            return
        for data in request.items[max(known + 1 - request.first, 0) :]:
            match item := read_item(data):
                case Down():
                    child = self._children.get(item.name)
                    if child is not None and child.slot is slot and child.incarnation == item.incarnation:
                        child.is_up = False
                        child.report(item)
                case AgentHealth():
                    child = self._children.get(item.name)
                    if child is not None and child.slot is slot:
                        child.update(item)
                case ActorStarted():
                    self._sink(replace(item, process=peer.process))
                case LetterDead():
                    self.node.letters.count_elsewhere(item)
                    self._sink(item)
                case _:
                    self._sink(item)

    async def _spawn(self, peer: "Peer", request: Spawn) -> None:
        await self._tree.spawn(request.parent, request.type, request.name, request.into, request.config)

    async def _despawn(self, peer: "Peer", request: Despawn) -> None:
        await self._tree.despawn(request.name)

    async def _resolve_for(self, peer: "Peer", request: Resolve) -> None:
        if request.name not in self.node.names():
            await self.resolve(request.name, is_patient=request.is_patient)

    # Another supervisor

    async def _introduce(self, peer: "Peer") -> None:
        """Agree with another supervisor of this system which of the two continues."""
        try:
            refusal = await call(
                self._transport, peer.address, Introduce(self._began, self._is_established), timeout=2.0
            )
        except ActorError:
            return  # it has ended
        if refusal is not None and not self.displaced.done():
            self.displaced.set_result(refusal.reason)

    async def _meet(self, peer: "Peer", request: Introduce) -> AskRefusal | None:
        mine = not self._is_established, self._began, self.node.address
        theirs = not request.is_established, request.began, peer.address
        if mine > theirs:
            return None
        since = f"since {int(self._clock.now() - self._began)} s"
        reason = (
            f"the system {self._tree.root.name!r} is supervised by another process already, {since} ({peer_host()}): "
            "stop that one first; two systems that share a broker or server need different names of their roots"
        )
        return AskRefusal("refused", self._tree.root.name, reason)

    def _do(self, work: "asyncio._CoroutineLike[None]") -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def peer_host() -> str:
    """Describe for people where this process runs."""
    import os
    import socket

    return f"process {os.getpid()} on {socket.gethostname()}"
