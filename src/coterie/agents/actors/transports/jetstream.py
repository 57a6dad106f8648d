"""Durable mailboxes: messages to agents of other processes wait in a NATS stream until they are handled."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace
from nats import errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import APIError, BadBucketError
from nats.js.errors import Error as JetStreamError

from coterie.agents.actors.message import TURN_CONTROLS, Message
from coterie.agents.actors.transports import wire
from coterie.agents.actors.transports.base import Endpoint
from coterie.agents.actors.transports.kept_letters import MAX_DELIVER, KeptLetter, KeptLetters, Mark, subjects_of
from coterie.agents.actors.transports.names import plain_name
from coterie.agents.actors.transports.nats import NatsCarrier
from coterie.agents.actors.transports.peer_transport import GOODBYE, PeerTransport
from coterie.agents.actors.transports.remote import HandOver, RemoteNode, trim
from coterie.errors import ActorError, AgentStopped, CannotStart, WorkerLost

PULL = 30.0
"""Seconds that a request for the next message waits in the server."""

FULL = 1000
"""How many messages may wait for one agent; further sends wait for room."""

ANSWER = 2.0
"""Seconds to wait for the server to store a message; then it is sent again under the same id."""

SAME = 120.0
"""Seconds within which a message with the same id is stored only once."""

UNUSED = 24 * 3600.0
"""Seconds after which the server forgets the position of an agent without a process; its messages stay."""

AWAY = (errors.Error, JetStreamError, OSError, TimeoutError)
"""Errors of a temporarily unavailable server."""

TAKEN = 10058
"""The server's error code for a stream with different settings."""

_LOG = logging.getLogger("coterie")
_decode = msgspec.msgpack.Decoder(wire.PostFrame, ext_hook=wire.refuse_extension).decode


class JetStreamTransport(PeerTransport):
    """A `PeerTransport` that stores messages to agents before `send` returns, and acknowledges them once handled.

    A process takes one message of an agent at a time, and notes in the server that it begins with it. So a message that
    was handled is not handled again, although the server forgets acknowledgements when it is killed; one that may have
    been handled, by a process that died or was cut off, has a higher `attempt`. Priority messages, turn controls and
    what the runtime itself sends are not stored: they go ahead.

    Args:
        stream: The name of the stream; created if there is none.
        system: The name of the system.
        options: The arguments of a `PeerTransport`.
    """

    def __init__(self, carrier: NatsCarrier, *, stream: str, system: str, **options: Any) -> None:
        super().__init__(carrier, **options)
        self._nats, self._stream, self._system = carrier, stream, plain_name(system)
        self._subjects = subjects_of(stream)
        self._wait = max(self.beats.timeout, 1.0)
        self._outgoing: dict[str, deque[HandOver]] = {}
        self._stored: dict[str, int] = {}  # unanswered asks
        self._in_hand: dict[str, tuple[Msg, asyncio.Event]] = {}
        self._handled: OrderedDict[str, None] = OrderedDict()
        self._marks: dict[str, Mark] = {}
        self._pulls: dict[str, asyncio.Task[None]] = {}
        self._requests: set[asyncio.Task[Any]] = set()
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Lock()
        self._letters: KeptLetters
        self._js: JetStreamContext

    async def start(self, node: Endpoint) -> None:
        """Connect, and create the stream if there is none."""
        await super().start(node)
        self._nats.on_reconnect = self._ask_again
        self._js = self._nats.client.jetstream(timeout=5)
        self._letters = KeptLetters(self._js, self._stream, self._system)
        config = StreamConfig(
            name=self._stream,
            subjects=[f"{self._subjects}.>"],
            retention=RetentionPolicy.WORK_QUEUE,
            duplicate_window=SAME,
            max_msgs_per_subject=FULL,
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
        )
        try:
            self._created = str((await self._js.add_stream(config)).created)
            await self._letters.open()
        except (JetStreamError, errors.Error, TimeoutError) as error:
            await super().stop()
            why = "JetStream is not enabled: start it with `nats-server -js`"
            if isinstance(error, BadBucketError) or (isinstance(error, APIError) and error.err_code == TAKEN):
                why = "a stream of that name is there for something else: choose another stream_name"
            elif isinstance(error, APIError) and error.description:
                why = error.description
            raise CannotStart(f"the NATS server cannot keep the stream {self._stream!r}: {why}") from None
        for name in node.names():
            self.announce(name)

    async def stop(self) -> None:
        """Stop; unhandled messages stay in the stream."""
        for task in list(self._pulls.values()):
            task.cancel()
        for waiting in self._outgoing.values():
            for entry in list(waiting):
                self._fail(entry, AgentStopped(entry.message.recipient, "the system has stopped"))
            waiting.clear()
        if self._acknowledging:
            for late in (await asyncio.wait(self._acknowledging, timeout=GOODBYE))[1]:
                late.cancel()
        await super().stop()

    def announce(self, name: str) -> None:
        """Announce the agent, and take its messages from the stream."""
        super().announce(name)
        task = self._pulls[name] = self._loop.create_task(self._pull(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def withdraw(self, name: str, reason: str) -> None:
        """Withdraw the agent, and leave its messages in the stream."""
        super().withdraw(name, reason)
        if (task := self._pulls.pop(name, None)) is not None:
            task.cancel()

    # Sending

    def _hand_over(self, remote: RemoteNode, entry: HandOver) -> None:
        if _is_urgent(entry.message):
            super()._hand_over(remote, entry)
            return
        entry.remote = remote
        self._keep(entry)

    def _keep(self, entry: HandOver) -> None:
        name = entry.message.recipient
        if name not in self._outgoing:
            self._outgoing[name] = deque()
            self._begin(self._store(name, self._outgoing[name]))
        self._outgoing[name].append(entry)

    def _wait_for_host(self, entry: HandOver) -> None:
        name = entry.message.recipient
        gone = self._gone.get(name)
        if _is_durable(entry) and (isinstance(gone, WorkerLost) or (gone is None and name in self.planned)):
            self._keep(entry)
        else:
            super()._wait_for_host(entry)

    async def _store(self, name: str, waiting: deque[HandOver]) -> None:
        """Store messages to one agent, one after the other, so that their order survives the server."""
        while waiting:
            entry = waiting[0]
            message = entry.message
            headers = {"Nats-Msg-Id": message.id}
            try:
                done = await self._js.publish(self._subject(name), entry.frame, ANSWER, self._stream, headers)
            except AWAY:
                await asyncio.sleep(ANSWER / 20)
                continue
            if waiting and waiting[0] is entry:
                waiting.popleft()
            if message.id not in self._sent:  # the sender gave up meanwhile
                self._delete(done.seq)
            elif entry.taken is None:
                self._stored[message.id] = done.seq
            else:
                del self._sent[message.id]
                if not entry.taken.done():
                    entry.taken.set_result(None)
        del self._outgoing[name]

    def recall(self, message: Message) -> None:
        """Remove a message, also from the stream."""
        entry = self._sent.get(message.id)
        waiting = self._outgoing.get(message.recipient, deque())
        is_homeless = entry is not None and entry.remote is None and entry not in waiting
        if entry is None or _is_urgent(message) or (is_homeless and message.id not in self._stored):
            super().recall(message)
            return
        del self._sent[message.id]
        if entry in waiting and waiting[0] is not entry:  # the first one is on its way to the stream
            waiting.remove(entry)
        elif (number := self._stored.pop(message.id, None)) is not None:
            self._delete(number)
            if entry.remote is not None:
                self._send(entry.remote, wire.RecallFrame(message.id))

    def _fail(self, entry: HandOver, error: ActorError) -> None:
        if _is_durable(entry) and isinstance(error, WorkerLost):
            if entry.remote is None:
                self._keep(entry)
            return
        if (number := self._stored.pop(entry.message.id, None)) is not None:
            self._delete(number)
        super()._fail(entry, error)

    def _learn(self, remote: RemoteNode, names: Iterable[str]) -> None:
        super()._learn(remote, names)
        for entry in self._sent.values():
            name = entry.message.recipient
            if entry.remote is None and entry.message.id in self._stored and self._hosts.get(name) is remote:
                entry.remote = remote

    def _unlearn(self, remote: RemoteNode, name: str, error: ActorError | None) -> None:
        if error is None:  # messages that its node has not taken from the stream are for the next node
            for entry in self._sent.values():
                if entry.message.recipient == name and not _is_urgent(entry.message):
                    entry.remote = None
        super()._unlearn(remote, name, error)

    def _forget(self, name: str, error: ActorError) -> None:
        super()._forget(name, error)
        for entry in [one for one in self._sent.values() if one.message.recipient == name and one.taken is None]:
            self._fail(entry, error)

    def _delete(self, number: int) -> None:
        async def delete() -> None:
            with suppress(*AWAY):  # already handled, or no longer in the stream when its turn comes
                await self._js.delete_msg(self._stream, number)

        self._begin(delete())

    def _done(self, remote: RemoteNode, id: str) -> HandOver | None:
        self._stored.pop(id, None)
        return super()._done(remote, id)

    # Receiving

    def _subject(self, name: str) -> str:
        return f"{self._subjects}.{self._system}.{plain_name(name)}"

    def _ask_again(self) -> None:
        """Request next messages again, since the server lost the requests with the connection."""
        for task in list(self._requests):
            task.cancel()

    async def _pull(self, name: str) -> None:
        """Handle the messages of one agent, one at a time."""
        consumer = f"{self._system}_{plain_name(name)}"
        config = ConsumerConfig(
            durable_name=consumer,
            filter_subject=self._subject(name),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._wait,
            max_ack_pending=1,
            inactive_threshold=UNUSED,
        )
        while True:
            try:
                await self._js.add_consumer(self._stream, config)
                self._marks[name] = await self._letters.mark(name, self._created)
                source = await self._js.pull_subscribe_bind(consumer, self._stream)
                try:
                    while True:
                        await self._pull_one(source)
                finally:
                    with suppress(*AWAY):
                        await source.unsubscribe()
            except AWAY:
                await asyncio.sleep(ANSWER / 20)
            except Exception:
                _LOG.exception("messages of %r could not be taken from the stream; trying again", name)
                await asyncio.sleep(ANSWER)

    async def _pull_one(self, source: JetStreamContext.PullSubscription) -> None:
        request = self._loop.create_task(source.fetch(1, PULL))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        try:
            await asyncio.wait({request})
        except asyncio.CancelledError:
            request.cancel()
            request.add_done_callback(self._give_back)
            raise
        if not request.cancelled():
            with suppress(TimeoutError):
                for taken in request.result():
                    await self._handle(taken)

    def _give_back(self, request: "asyncio.Task[list[Msg]]") -> None:
        """Return messages that arrived when they were no longer wanted."""
        if not request.cancelled() and request.exception() is None:
            for taken in request.result():
                self._begin(taken.nak())

    async def _handle(self, taken: Msg) -> None:
        """Put a message into its mailbox; return when it has been handled or reported."""
        try:
            message = _decode(taken.data).message
            if message.recipient not in self._marks:
                raise ValueError("it is for another agent")
        except (ValueError, RecursionError):  # anyone who reaches the server may have put it there
            self.broken += 1
            with suppress(*AWAY):
                await taken.term()
            return
        name, number = message.recipient, taken.metadata.sequence.stream
        mark = self._marks[name]
        if message.id in self._handled or mark.is_handled(message.id):  # and the acknowledgement was lost
            await _ack(taken)
            return
        again = mark.may_be_handled(number, message.id)
        if (now := mark.after(number, message.id)) is not mark:
            self._marks[name] = now
            await _retried(partial(self._letters.put_mark, name, self._marks[name]))
        delivered = max(taken.metadata.num_delivered, 1 + again)
        message = replace(message, attempt=max(message.attempt, delivered), origin=message.origin or message.id)
        if message.reply_to is not None and not await self._meets(message.reply_to):
            self._node.letters.add(message, "lost", "its asker is gone")
            self._handled[message.id] = None  # the server may have redelivered it meanwhile
            await _ack(taken)
            return
        if delivered > 1:
            await self._handle_again(taken, message)
        else:
            await self._give(taken, message)

    async def _handle_again(self, taken: Msg, message: Message) -> None:
        """Handle a redelivered message: mark it, and handle no other redelivered message at the same time.

        If the process dies meanwhile, the cause is this message or chance, but no other marked message. If this happens
        too often, the message becomes a dead letter.
        """
        if not await self._is_alone(taken):
            return
        here = self._node.address
        try:
            deaths = await self._letters.deaths(message)
            if deaths >= MAX_DELIVER:
                await self._bury(taken, message, deaths)
                return
            await self._letters.begin(message, here)
            try:
                await self._give(taken, message)
            finally:
                self._finish(_retried(partial(self._letters.end, message, here)))
        finally:
            self._alone.release()

    async def _is_alone(self, taken: Msg) -> bool:
        """Wait until this process handles no other redelivered message."""
        while True:
            try:
                async with asyncio.timeout(self._wait / 3):
                    return await self._alone.acquire()
            except TimeoutError:
                await taken.in_progress()

    async def _bury(self, taken: Msg, message: Message, deaths: int) -> None:
        reason = f"{deaths} processes died while they handled it"
        await self._letters.add(KeptLetter(message, reason, self._node.now()))
        _LOG.error(
            "the message %s to agent %r is a dead letter: %s; see `coterie state letters`",
            message.id,
            message.recipient,
            reason,
        )
        if (remote := self._remotes.get(message.reply_to or "")) is not None:
            self._refuse(remote, message, ActorError(message.recipient, reason))
        self._node.letters.add(message, "killed", reason)
        self._handled[message.id] = None
        await _ack(taken)

    async def _give(self, taken: Msg, message: Message) -> None:
        """Put a message into its mailbox; return when it has been handled or reported."""
        settled = asyncio.Event()
        self._in_hand[message.id] = (taken, settled)
        if message.reply_to in self._remotes:
            self._open[message.id] = (self._remotes[message.reply_to], message)
        try:
            waits = self._node.receive(message)
        except ActorError as error:
            self._refuse_stored(message, error)
        else:
            if waits is not None:
                waits.add_done_callback(partial(self._has_room, message))
        while not settled.is_set():
            try:
                async with asyncio.timeout(self._wait / 3):
                    await settled.wait()
            except TimeoutError:
                with suppress(*AWAY):
                    await taken.in_progress()

    def _has_room(self, message: Message, taken: "asyncio.Future[None]") -> None:
        if not taken.cancelled() and (error := taken.exception()) is not None:
            self._refuse_stored(message, error)

    def _refuse_stored(self, message: Message, error: BaseException) -> None:
        """Refuse an ask; leave a send in the stream for the agent's next process."""
        remote = self._remotes.get(message.reply_to or "")
        if remote is not None:
            self._refuse(remote, message, error)
            self._acknowledge(message.id)
        elif (held := self._in_hand.pop(message.id, None)) is not None:
            held[1].set()
            self._begin(held[0].nak())

    async def _meets(self, address: str) -> bool:
        """Whether the node *address* is known, or becomes known within the heartbeat timeout."""
        deadline = self._loop.time() + self._wait
        while not (known := address == self._node.address or address in self._remotes):
            if self._loop.time() > deadline:
                break
            await asyncio.sleep(self._wait / 50)
        return known

    def _settled(self, message: Message) -> None:
        if not self._acknowledge(message.id):
            super()._settled(message)

    def _acknowledge(self, id: str) -> bool:
        held = self._in_hand.pop(id, None)
        if held is None:
            return False
        self._open.pop(id, None)
        self._handled[id] = None
        trim(self._handled)
        taken, settled = held
        settled.set()
        self._finish(_ack(taken))
        return True

    def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work*, for which `stop` waits a moment."""
        task = self._loop.create_task(work)
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)

    def reply(self, address: str, message: Message) -> None:
        """Send the reply, and acknowledge the ask."""
        super().reply(address, message)
        self._acknowledge(message.correlation_id or "")


async def _retried(work: Callable[[], Awaitable[None]]) -> None:
    """Do *work*, and retry while the server is unavailable."""
    while True:
        try:
            return await work()
        except AWAY:
            await asyncio.sleep(ANSWER / 20)


async def _ack(taken: Msg) -> None:
    with suppress(*AWAY):
        await taken.ack()


def _is_durable(entry: HandOver) -> bool:
    """Whether a message waits for its recipient without limit, as a stored send does."""
    return entry.taken is not None and not _is_urgent(entry.message)


def _is_urgent(message: Message) -> bool:
    """Whether *message* goes ahead of stored messages."""
    asks_state = isinstance(message.payload, dict) and message.payload.get("__op__") == "state"
    return message.priority > 0 or message.type in TURN_CONTROLS or message.type.startswith("_") or asks_state
