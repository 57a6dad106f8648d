"""The transport between processes: all parts that do not depend on the carrier of packets.

A *carrier* (ZeroMQ through a broker, or NATS) publishes packets to one node or to all. It may lose, repeat and reorder
them. The transport above it has four layers:



1. **Packets** (`wire`). A packet has its sender, the number of the sender's latest heartbeat, the number of the latest
   heartbeat that the sender got from the receiver, and frames. One task sends (`_write`); frames that are ready at the
   same time share packets.
2. **Channels** (`channel`). The frames to a node are numbered within an *epoch*, repeated until acknowledged, and
   dropped if they arrive twice. So frames arrive once and in order. If that fails, the node counts as lost and a new
   epoch begins, in which no frame of the old one is handled.
3. **Peers** (`peers`). A node greets every node that it hears, with the names of its agents, then `hello`. It publishes
   heartbeats and also receives its own through the carrier. A peer that is silent, or acknowledges nothing, during
   several of these is lost; while the carrier is unavailable, a node does not hear itself and loses no peer. A
   supervisor confirms the heartbeats of a worker. The agents of the worker live as long as the *lease* that began with
   the last confirmed one, so an agent never runs in two places. Packets older than a lease are refused.
4. **Messages** (here). A message is kept until its outcome is known:

       deliver ─▶ _sent ─┬─ host known ─▶ its lane, at most WINDOW at once ─▶ frame `post`
                         └─ no host yet ─▶ _homeless ─▶ `resolve` ─▶ its lane, or an error
       at the host:  waits for room in the mailbox ─▶ taken ─▶ handled: settled, a reply or a refusal
       back here:    taken frees the place in the lane and ends `send`; a reply, a refusal or a loss ends `ask`

   A place in the lane is free again once the message is in its mailbox, so a full mailbox delays only its own senders.
   If the host is lost, asks fail at once, and sends become dead letters unless they are known to be handled. Each
   message is therefore handled at most once, and never lost without a report. `JetStreamTransport` stores messages
   first, and handles each at least once.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container, Iterable
from functools import partial
from typing import Any, get_args

from coterie.agents.actors.answers import error_of
from coterie.agents.actors.message import TURN_CONTROLS, AskRefusal, Message
from coterie.agents.actors.transports import wire
from coterie.agents.actors.transports.base import Carrier, Endpoint, Transport
from coterie.agents.actors.transports.peers import TICK, PeerConnections
from coterie.agents.actors.transports.remote import HandOver, Lane, Peer, RemoteNode, trim
from coterie.errors import ActorError, AgentStopped, NoSuchAgent, WorkerLost

WINDOW = 1000
"""How many messages of this node to one agent may wait for room in the agent's mailbox; others wait here."""

GOODBYE = 1.0
"""Seconds that a stopping node waits until all its frames have been received."""


class PeerTransport(PeerConnections, Transport):
    """Carries messages to agents of other nodes, finds these nodes, and notices when one is lost.

    Nodes greet each other in any order. A node is lost when it is silent for *heartbeat_timeout* while this node's own
    heartbeats come back; if it returns later, it is a new peer with the same address. Asks to a lost node fail at once,
    sends become dead letters unless they are known to be handled.

    A supervisor confirms each heartbeat of a worker at once: the worker's agents live as long as the lease, which
    begins with the sending of the last confirmed heartbeat.

    Args:
        options: The arguments of `PeerConnections`; agents of nodes with another `fingerprint` are unknown here.

    Attributes:
        trusts: Returns whether messages for an agent may go to a peer that has it; None: always.
        resolve: Called for a name that no node has; returns when it should be looked up again, or raises the
            `ActorError` for the sender. Without it, such a name raises at once.
        planned: Agents that will have a host; a durable mailbox takes messages for them before.
    """

    def __init__(self, carrier: Carrier, **options: Any) -> None:
        super().__init__(carrier, **options)
        self.resolve: Callable[[str], Awaitable[None]] | None = None
        self.trusts: Callable[[Peer, str], bool] | None = None
        self.planned: Container[str] = ()
        self._hosts: dict[str, RemoteNode] = {}
        self._gone: OrderedDict[str, ActorError] = OrderedDict()
        self._sent: dict[str, HandOver] = {}
        self._homeless: dict[str, deque[HandOver]] = {}
        self._open: dict[str, tuple[RemoteNode, Message]] = {}  # received but not handled

    # The side of the node

    async def start(self, node: Endpoint) -> None:
        """Connect, and begin to greet other nodes.

        Raises:
            CannotStart: If there is no server or broker.
        """
        self._node, self._loop = node, asyncio.get_running_loop()
        node.on_settled(self._settled)
        await self._carrier.connect(node.address, self._receive)
        self._begin(self._write())
        self._begin(self._beat())

    async def stop(self) -> None:
        """Say goodbye, and report messages that are in no mailbox."""
        self._is_stopping = True
        for remote in self._remotes.values():
            self._confirm(remote)
            self._send(remote, wire.ByeFrame())
        self._hosts.clear()
        deadline = self._loop.time() + GOODBYE
        while self._loop.time() < deadline and any(not one.channel.is_idle for one in self._remotes.values()):  # noqa: ASYNC110
            await asyncio.sleep(TICK / 5)
        for entry in list(self._sent.values()):
            if entry.taken is not None and not entry.taken.done():
                self._fail(entry, AgentStopped(entry.message.recipient, "the system has stopped"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tick is not None:
            self._tick.cancel()
        await self._carrier.close()

    def names(self) -> Iterable[str]:
        """The known agents of other nodes."""
        return list(self._hosts)

    def deliver(self, message: Message) -> "asyncio.Future[None] | None":
        """Send *message* to the node of its recipient, or keep it until there is such a node."""
        frame = self._encoded(wire.PostFrame(message), message.recipient)
        taken: asyncio.Future[None] | None = self._loop.create_future() if message.reply_to is None else None
        entry = self._sent[message.id] = HandOver(message, frame, taken)
        remote = self._hosts.get(message.recipient)
        if remote is not None:
            self._hand_over(remote, entry)
        else:
            self._wait_for_host(entry)
        return taken

    def _wait_for_host(self, entry: HandOver) -> None:
        name = entry.message.recipient
        if self.resolve is None:
            del self._sent[entry.message.id]
            raise self._gone.get(name) or NoSuchAgent(name, self._hosts)
        if name not in self._homeless:
            self._homeless[name] = deque()
            self._begin(self._find(name))
        self._homeless[name].append(entry)

    def recall(self, message: Message) -> None:
        """Remove a message, here or from the mailbox of its recipient."""
        entry = self._sent.get(message.id)
        if entry is None:
            return
        remote, name = entry.remote, message.recipient
        if remote is None:
            self._homeless[name].remove(entry)
        elif entry.has_slot or entry not in (lane := remote.lanes.get(name, Lane())).waiting:
            self._send(remote, wire.RecallFrame(message.id))
            return
        else:
            lane.waiting.remove(entry)
        del self._sent[message.id]

    def reply(self, address: str, message: Message) -> None:
        """Send a reply; it is dropped if the asking node is lost."""
        asked = message.correlation_id or ""
        self._open.pop(asked, None)
        remote = self._remotes.get(address)
        if remote is not None:
            self._put(remote, self._encoded(wire.ReplyFrame(message), message.sender))
            remote.taken.pop(asked, None)  # the reply frees its place in the lane

    def announce(self, name: str) -> None:
        """Tell all peers that this node has the agent *name*."""
        self._tell([name], {})

    def withdraw(self, name: str, reason: str) -> None:
        """Tell all peers that the agent *name* has stopped."""
        self._tell([], {name: reason})

    def _tell(self, added: list[str], stopped: dict[str, str]) -> None:
        for remote in self._remotes.values():
            self._send(remote, wire.NamesFrame(added, stopped))

    # Messages

    def _hand_over(self, remote: RemoteNode, entry: HandOver) -> None:
        entry.remote = remote
        name = entry.message.recipient
        lane = remote.lanes.get(name) or remote.lanes.setdefault(name, Lane())
        if lane.waiting or lane.open >= WINDOW:
            lane.waiting.append(entry)
            return
        lane.open += 1
        entry.has_slot = True
        self._put(remote, entry.frame)

    def _free_slot(self, remote: RemoteNode, entry: HandOver) -> None:
        if not entry.has_slot:
            return
        entry.has_slot, entry.frame = False, b""
        name = entry.message.recipient
        lane = remote.lanes[name]
        if lane.waiting:
            following = lane.waiting.popleft()
            following.has_slot = True
            self._put(remote, following.frame)
            return
        lane.open -= 1
        if not lane.open:
            del remote.lanes[name]

    async def _find(self, name: str) -> None:
        """Wait until a node has the agent *name*, then send its messages, or fail their senders."""
        assert self.resolve is not None
        try:
            while name in self._homeless:
                await self.resolve(name)
                if name in self._node.names():
                    for entry in self._homeless.pop(name, ()):
                        self._deliver_here(entry)
                await asyncio.sleep(0)
        except ActorError as error:
            for entry in self._homeless.pop(name, ()):
                self._fail(entry, error)

    def _deliver_here(self, entry: HandOver) -> None:
        del self._sent[entry.message.id]
        try:
            waits = self._node.receive(entry.message)
        except ActorError as error:
            self._fail(entry, error)
            return
        if (taken := entry.taken) is None:
            return
        if waits is None:
            _resolve(taken)
        else:
            waits.add_done_callback(partial(_pass_on, taken))

    def _fail(self, entry: HandOver, error: ActorError) -> None:
        """Report a failed message: to its asker or sender, else as a dead letter."""
        self._sent.pop(entry.message.id, None)
        if entry.taken is None:
            self._node.fail(entry.message.id, error)
        elif not entry.taken.done():
            entry.taken.set_exception(error)
        elif not entry.taken.cancelled():
            self._node.letters.add(entry.message, "lost", str(error))

    # Agents elsewhere

    def _lose(self, remote: RemoteNode, *, for_good: bool = False) -> None:
        del self._remotes[remote.address]
        self._left[remote.address] = None if for_good else remote.channel.epochs
        trim(self._left)
        peer = self.peers.pop(remote.address, None)
        process = peer.process if peer is not None else ""
        for name in remote.names:
            self._unlearn(remote, name, WorkerLost(name, process))
        for future, kind in remote.calls.values():
            if not future.done():
                future.set_exception(WorkerLost(kind, process))
        for entry in [one for one in self._sent.values() if one.remote is remote]:
            self._fail(entry, WorkerLost(entry.message.recipient, process))
        if peer is not None:
            self._lost(peer, remote, for_good=for_good)

    def _follow(self, remote: RemoteNode, packet: wire.Packet) -> None:
        """Start anew with a node that lost this one but knows its epoch; frames sent in that epoch stay valid."""
        peer, remote.peer = self.peers.pop(remote.address, None), None
        process = "" if peer is None else peer.process
        for name in remote.names:
            self._unlearn(remote, name, WorkerLost(name, process))
        remote.names = set()
        remote.channel.follow(packet.epoch)
        remote.confirmed = 0
        for sender, message in list(self._open.values()):
            if sender is remote and self._node.recall(message):
                del self._open[message.id]  # the node has reported it
        if peer is not None:
            self._lost(peer, remote)

    def _unlearn(self, remote: RemoteNode, name: str, error: ActorError | None) -> None:
        """Note that *remote* no longer has the agent *name*, because of *error* or because it moves to another node."""
        if self._hosts.get(name) is not remote:
            return
        del self._hosts[name]
        for other in self._remotes.values():
            if other is not remote and other.peer is not None and name in other.names:
                self._learn(other, (name,))
        if name not in self._hosts and error is not None:
            self._forget(name, error)

    def _forget(self, name: str, error: ActorError) -> None:
        self._gone.pop(name, None)
        self._gone[name] = error
        trim(self._gone)

    # Frames

    def _on_post(self, remote: RemoteNode, frame: wire.PostFrame) -> None:
        message = frame.message
        self._open[message.id] = (remote, message)
        try:
            waits = self._node.receive(message)
        except (ActorError, ValueError) as error:
            self._refuse(remote, message, error)
            return
        if waits is not None:
            waits.add_done_callback(partial(self._waited, remote, message))
        elif message.type in TURN_CONTROLS:
            self._settled(message)
        else:
            self._took(remote, message)

    def _waited(self, remote: RemoteNode, message: Message, taken: "asyncio.Future[None]") -> None:
        if taken.cancelled():
            return
        if (error := taken.exception()) is not None:
            self._refuse(remote, message, error)
        else:
            self._took(remote, message)

    def _took(self, remote: RemoteNode, message: Message) -> None:
        """Report that *message* is in its mailbox; for an ask only together with other frames."""
        remote.taken[message.id] = None
        if message.reply_to is None:
            self._touch(remote)

    def _refuse(self, remote: RemoteNode, message: Message, error: BaseException) -> None:
        self._open.pop(message.id, None)
        self._send(remote, wire.RefusalFrame(message.id, _refusal_of(message.recipient, error)))

    def _settled(self, message: Message) -> None:
        """Confirm a message of another node; an ask is confirmed by its reply."""
        received = self._open.pop(message.id, None)
        if received is not None and message.reply_to is None:
            remote = received[0]
            remote.handled.append(message.id)
            self._touch(remote)

    def _on_reply(self, remote: RemoteNode, frame: wire.ReplyFrame) -> None:
        answer = wire.with_refusal(frame.message)
        asked = answer.correlation_id or ""
        self._done(remote, asked)
        self._node.receive_reply(asked, answer)

    def _on_refuse(self, remote: RemoteNode, frame: wire.RefusalFrame) -> None:
        entry = self._done(remote, frame.id)
        if entry is not None:
            self._fail(entry, error_of(frame.refusal))

    def _done(self, remote: RemoteNode, id: str) -> HandOver | None:
        entry = self._sent.pop(id, None)
        if entry is not None:
            self._free_slot(remote, entry)
        return entry

    def _on_settled(self, remote: RemoteNode, frame: wire.SettledFrame) -> None:
        for id in frame.taken:
            if (entry := self._sent.get(id)) is not None:
                self._free_slot(remote, entry)
                _resolve(entry.taken)
        for id in frame.handled:
            if (entry := self._done(remote, id)) is not None:
                _resolve(entry.taken)

    def _on_recall(self, remote: RemoteNode, frame: wire.RecallFrame) -> None:
        _, message = self._open.get(frame.id, (None, None))
        if message is not None and self._node.recall(message):
            del self._open[frame.id]
            remote.handled.append(frame.id)
            self._touch(remote)

    def _on_names(self, remote: RemoteNode, frame: wire.NamesFrame) -> None:
        remote.names.update(frame.added)
        remote.names.difference_update(frame.stopped)
        if remote.peer is None:
            return
        self._learn(remote, frame.added)
        for name, reason in frame.stopped.items():
            self._unlearn(remote, name, AgentStopped(name, reason) if reason else None)
        self._report(remote.peer, "changed")

    def _on_hello(self, remote: RemoteNode, frame: wire.HelloFrame) -> None:
        for sender, message in list(self._open.values()):
            if sender.address == remote.address and sender is not remote and self._node.recall(message):
                del self._open[message.id]  # the node reported it when it lost this one
        peer = Peer(remote.address, frame.process, frame.role, frame.fingerprint, remote.names)
        remote.peer = self.peers[remote.address] = peer
        self._learn(remote, remote.names)
        self._report(peer, "joined")

    def _learn(self, remote: RemoteNode, names: Iterable[str]) -> None:
        assert remote.peer is not None
        if remote.peer.fingerprint != self._fingerprint:
            return
        for name in names:
            if self.trusts is not None and not self.trusts(remote.peer, name):
                continue
            if self._hosts.setdefault(name, remote) is not remote:
                continue  # a node that was cut off has not yet stopped its agent
            self._gone.pop(name, None)
            for entry in self._homeless.pop(name, ()):
                self._hand_over(remote, entry)

    def _on_bye(self, remote: RemoteNode, frame: wire.ByeFrame) -> None:
        self._touch(remote)  # the last acknowledgement for it
        self._lose(remote, for_good=True)


PeerTransport._handlers = {
    kind: getattr(PeerTransport, f"_on_{kind.__struct_config__.tag}") for kind in get_args(wire.Frame)
}


def _refusal_of(agent: str, error: BaseException) -> AskRefusal:
    match error:
        case NoSuchAgent():
            return AskRefusal("unknown", agent)
        case AgentStopped():
            return AskRefusal("stopped", agent, error.reason)
        case _:
            return AskRefusal("stopped", agent, str(error))


def _resolve(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _pass_on(future: "asyncio.Future[None]", done: "asyncio.Future[None]") -> None:
    if done.cancelled() or future.done():
        return
    if (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(None)
