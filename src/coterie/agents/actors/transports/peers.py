"""The connections of a node to other nodes: frames, heartbeats, and the detection of lost nodes.

`coterie.agents.actors.transports.peer_transport`, which explains the design, adds the messages of agents.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count, islice
from math import inf
from typing import Any, ClassVar

import msgspec

from coterie.agents.actors.transports import wire
from coterie.agents.actors.transports.base import Carrier, Endpoint
from coterie.agents.actors.transports.channel import Channel
from coterie.agents.actors.transports.heartbeats import BEATS, Heartbeats
from coterie.agents.actors.transports.remote import Peer, RemoteNode
from coterie.errors import ActorError, AskTimedOut, WorkerLost, error_line

SETTLED = 5000
"""The largest number of message ids in one frame."""

TICK = 0.05
"""Seconds after which an acknowledgement is sent if no other packet has carried it."""

Handler = Callable[[Peer, Any], Awaitable[Any]]
_LOG = logging.getLogger("coterie")


class PeerConnections:
    """Greets the other nodes, carries frames to them once and in order, and detects lost nodes.

    Args:
        process: The process name of a worker; empty: this is the supervisor.
        fingerprint: The fingerprint of the plan.
        now: The clock of the heartbeats; by default that of the event loop.

    Attributes:
        beats: The heartbeats of this node.
        peers: The other nodes by address.
        broken: How many packets could not be read.
    """

    _handlers: ClassVar[dict[Any, Callable[[Any, RemoteNode, Any], None]]]
    """The handlers of frames, by class."""

    def __init__(
        self,
        carrier: Carrier,
        *,
        process: str = "",
        fingerprint: str = "",
        heartbeat_timeout: float = 3.0,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.peers: dict[str, Peer] = {}
        self.broken = 0
        self._carrier = carrier
        self._process, self._fingerprint = process, fingerprint
        self.beats = Heartbeats(heartbeat_timeout, now or (lambda: self._loop.time()))
        self._node: Endpoint
        self._loop: asyncio.AbstractEventLoop
        self._remotes: dict[str, RemoteNode] = {}
        self._left: OrderedDict[str, tuple[int, int] | None] = (
            OrderedDict()
        )  # epochs of lost nodes; None: the node said goodbye
        self._dirty: dict[str, RemoteNode] = {}
        self._wake, self._beat_now = asyncio.Event(), asyncio.Event()
        self._tick: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: dict[str, Handler] = {}
        self._call_numbers = count(1)
        self._watchers: list[Callable[[Peer, str], None]] = []
        self._is_stopping = False
        self._back_at = self._heard_itself_at = -inf

    # Between nodes

    def on_peer(self, callback: Callable[[Peer, str], None]) -> None:
        """Call *callback* with each peer that `joined`, `changed` its names or is `lost`; known peers have joined."""
        self._watchers.append(callback)
        for peer in list(self.peers.values()):
            callback(peer, "joined")

    def serve(self, kind: str, handler: Handler) -> None:
        """Answer the requests of *kind* with *handler*, started in the order in which a node sent them."""
        self._servers[kind] = handler

    async def request(self, address: str, kind: str, payload: Any = None, timeout: float | None = 30.0) -> Any:  # noqa: ASYNC109
        """Send a request to the node *address*, and return the result of its handler.

        Raises:
            WorkerLost: If the node is lost, or unknown.
            AskTimedOut: If it did not answer in time.
            ActorError: If its handler failed, or it has none for *kind*.
        """
        remote = self._remotes.get(address)
        if remote is None or remote.peer is None:
            raise WorkerLost(kind, address)
        number = next(self._call_numbers)
        frame = self._encoded(wire.CallFrame(number, kind, payload), kind)
        future: asyncio.Future[Any] = self._loop.create_future()
        remote.calls[number] = (future, kind)
        self._put(remote, frame)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise AskTimedOut(kind, timeout or 0.0) from None
        finally:
            remote.calls.pop(number, None)

    def confirmed_at(self, address: str) -> float:
        """When this node sent its last heartbeat that the node *address* has confirmed; `-inf`: none."""
        remote = self._remotes.get(address)
        return self.beats.sent_at(0 if remote is None else remote.confirmed)

    def connected_for(self) -> float:
        """Seconds for which this node's heartbeats have come back without a gap; 0 while they do not."""
        now = self.beats.now()
        return now - self._back_at if now - self._heard_itself_at <= 2 * self.beats.every else 0.0

    def give_up(self, address: str) -> None:
        """Treat the node *address* as lost, because it confirms no heartbeats, and greet it anew."""
        if (remote := self._remotes.get(address)) is not None:
            self._lose(remote)
            if (again := self._remote(address)) is not None:
                again.heard_at = self._loop.time()

    # Sending

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, remote: RemoteNode, frame: wire.Frame) -> None:
        self._put(remote, self._encoded(frame, remote.address))

    def _encoded(self, frame: wire.Frame, recipient: str) -> bytes:
        return wire.encode(frame, recipient, self._carrier.limit)

    def _put(self, remote: RemoteNode, frame: bytes) -> None:
        remote.channel.send(frame)
        self._touch(remote)

    def _touch(self, remote: RemoteNode) -> None:
        """Schedule *remote* for `_write`."""
        self._dirty[remote.address] = remote
        self._wake.set()

    async def _write(self) -> None:
        """Send the frames in the channels, grouped into packets."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._dirty:
                address, remote = self._dirty.popitem()
                self._confirm(remote)
                now = self._loop.time()
                while (packet := remote.channel.next_packet(self._node.address, self.beats.number, now)) is not None:
                    await self._carrier.publish(address, packet)
                self._arm()

    def _confirm(self, remote: RemoteNode) -> None:
        """Queue confirmations for messages of *remote*."""
        while remote.taken or remote.handled:
            settled = wire.SettledFrame(list(islice(remote.taken, SETTLED)), remote.handled[:SETTLED])
            for id in settled.taken:
                del remote.taken[id]
            del remote.handled[:SETTLED]
            remote.channel.send(self._encoded(settled, remote.address))

    async def _beat(self) -> None:
        while True:
            await self._carrier.publish("", wire.heartbeat(self._node.address, self.beats.next()))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.beats.every):
                    await self._beat_now.wait()
            self._beat_now.clear()

    def _is_old(self, packet: wire.Packet) -> bool:
        """Whether *packet* is so old that its sender may have given up this node.

        Its messages may have been reported as lost, so they must not be handled; otherwise its sender sends them again.
        """
        return self.beats.age(packet.heard) > self.beats.lease

    def _arm(self) -> None:
        if self._tick is None:
            self._tick = self._loop.call_later(TICK, self._look)

    def _look(self) -> None:
        """Send pending acknowledgements, and resend unacknowledged frames."""
        self._tick = None
        now = self._loop.time()
        for remote in self._remotes.values():
            channel = remote.channel
            if channel.resend(now) or channel.owes_ack or remote.taken:
                self._touch(remote)
            if channel.is_waiting:
                self._arm()

    # Receiving

    def _receive(self, data: bytes) -> None:
        try:
            packet = wire.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.broken += 1
            return
        if packet.sender == self._node.address:
            if (
                self.beats.age(packet.beat) <= 2 * self.beats.every
            ):  # when a broker is back, older ones arrive all at once
                self._heard_itself()
        elif (remote := self._remote(packet.sender)) is not None:
            now = self._loop.time()
            if now - remote.heard_at > 2 * self.beats.every:
                remote.channel.hurry()
                self._arm()
            remote.silent, remote.heard_at = 0, now
            remote.channel.heard = max(remote.channel.heard, packet.beat)
            if isinstance(packet, wire.Packet):
                self._accept(remote, packet)
            elif not self._process and remote.peer is not None and remote.peer.process:
                remote.channel.owes_ack = True  # the worker's lease begins with the sending of this heartbeat
                self._touch(remote)

    def _remote(self, address: str) -> RemoteNode | None:
        """The node *address*, greeted if it is new; None if it has said goodbye."""
        remote = self._remotes.get(address)
        if remote is not None:
            return remote
        epochs = self._left.pop(address, (0, 0))
        if epochs is None or self._is_stopping:
            self._left[address] = epochs
            return None
        remote = self._remotes[address] = RemoteNode(address, Channel(epochs[0] + 1, epochs[1]))
        names = self._node.names()
        for first in range(0, len(names), 1000):
            self._send(remote, wire.NamesFrame(names[first : first + 1000], {}))
        role = "worker" if self._process else "supervisor"
        self._send(remote, wire.HelloFrame(self._process, role, self._fingerprint))
        return remote

    def _accept(self, remote: RemoteNode, packet: wire.Packet) -> None:
        if self._is_old(packet):
            self._beat_now.set()  # the sender learns the new number
            return
        begins_anew = remote.channel.begins_anew(packet)
        if begins_anew and packet.ack_epoch == remote.channel.epoch:
            self._follow(remote, packet)
        elif begins_anew:
            self._lose(remote)
            if (again := self._remote(packet.sender)) is not None:
                self._accept(again, packet)
            return
        if begins_anew is None:
            return
        remote.confirmed = max(remote.confirmed, packet.heard)
        frames = remote.channel.accept(packet, self._loop.time())
        for frame in frames:
            try:
                self._handlers[type(frame)](self, remote, frame)
            except Exception:  # a failure must not block the frames after it
                _LOG.exception("a frame of node %s could not be handled", remote.address)
        if not frames and packet.frames:  # repeated, or after a gap: the sender waits for the acknowledgement
            self._touch(remote)
        elif remote.channel.owes_ack:
            self._arm()

    def _heard_itself(self) -> None:
        """Count this node's heartbeat for each peer; peers that are silent or acknowledge nothing for long are lost."""
        if self.connected_for() == 0.0:
            self._back_at = self.beats.now()
        self._heard_itself_at = self.beats.now()
        recently = self._loop.time() - (BEATS - 1) * self.beats.every
        for remote in list(self._remotes.values()):
            channel = remote.channel
            remote.silent += 1
            channel.stuck = 0 if channel.is_idle else channel.stuck + 1
            if (remote.silent >= BEATS and remote.heard_at <= recently) or channel.stuck > BEATS:
                self._lose(remote)

    def _lose(self, remote: RemoteNode, *, for_good: bool = False) -> None:
        """Remove a node that is lost, or that has said goodbye."""
        raise NotImplementedError

    def _follow(self, remote: RemoteNode, packet: wire.Packet) -> None:
        """Start anew with a node that lost this one but knows its epoch; frames sent in that epoch stay valid."""
        raise NotImplementedError

    def _lost(self, peer: Peer, remote: RemoteNode, *, for_good: bool = False) -> None:
        peer.leased_until = 0.0 if for_good else remote.heard_at + BEATS * self.beats.every
        self._report(peer, "lost")

    def _report(self, peer: Peer, what: str) -> None:
        for callback in self._watchers:
            callback(peer, what)

    def _on_call(self, remote: RemoteNode, frame: wire.CallFrame) -> None:
        self._begin(self._answer(remote, frame))

    async def _answer(self, remote: RemoteNode, frame: wire.CallFrame) -> None:
        handler, peer = self._servers.get(frame.kind), remote.peer
        try:
            if handler is None or peer is None:
                raise LookupError(f"no handler for requests {frame.kind!r}")
            reply = self._encoded(wire.CallReplyFrame(frame.number, await handler(peer, frame.payload)), frame.kind)
        except Exception as error:  # becomes an error of the requesting node
            why = str(error) if handler is None or peer is None else error_line(error)
            reply = self._encoded(wire.CallReplyFrame(frame.number, None, why), frame.kind)
        if self._remotes.get(remote.address) is remote:
            self._put(remote, reply)

    def _on_called(self, remote: RemoteNode, frame: wire.CallReplyFrame) -> None:
        future, kind = remote.calls.get(frame.number, (None, ""))
        if future is None or future.done():
            return
        if frame.error:
            future.set_exception(ActorError(kind, frame.error))
        else:
            future.set_result(frame.payload)
