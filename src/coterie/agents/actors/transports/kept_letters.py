"""What is known of messages that may come again: how far each agent is, and at which messages processes died.

It is kept by the NATS server, in buckets beside the stream of the messages, so that every process sees it. A stored
value outlasts a server that is killed, other than what the server knows of deliveries and acknowledgements.
"""

import secrets
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig
from nats.js.errors import KeyNotFoundError, NotFoundError
from nats.js.kv import KeyValue

from coterie.agents.actors.message import Message
from coterie.agents.actors.transports import wire
from coterie.agents.actors.transports.names import plain_name

MAX_DELIVER = 3
"""How many processes may die while they handle one message, not counting its first delivery."""

REMEMBERED = 24 * 3600.0
"""Seconds for which a process that began to handle a message is remembered."""


LAST = 32
"""Messages of an agent whose ids its mark holds."""


class Mark(Struct, frozen=True, array_like=True):
    """How far an agent is: it takes its messages one at a time, in the order of their numbers in the stream.

    Attributes:
        stream: When the stream was created that *number* is of.
        number: The highest number of a message that a process has begun to handle.
        ids: The ids of the last ones. The last was begun, and may have been handled; those before it were.
    """

    stream: str = ""
    number: int = 0
    ids: tuple[str, ...] = ()

    def after(self, number: int, id: str) -> "Mark":
        """The mark once a process begins to handle the message *id*, which has *number*: the same if one had."""
        if id in self.ids:
            return self
        return Mark(self.stream, max(self.number, number), (*self.ids, id)[-LAST:])

    def is_handled(self, id: str) -> bool:
        """Whether the message *id* was handled."""
        return id in self.ids[:-1]

    def may_be_handled(self, number: int, id: str) -> bool:
        """Whether the message *id*, which has *number*, may have been handled; it may be stored twice."""
        return number <= self.number or id in self.ids


class KeptLetter(Struct, frozen=True):
    """A message that is no longer handled, with the reason.

    Attributes:
        at: When it became a dead letter, in Unix seconds.
    """

    message: Message
    reason: str
    at: float


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptLetter).decode
_decode_mark = msgspec.msgpack.Decoder(Mark).decode
_decode_nodes = msgspec.msgpack.Decoder(list[str]).decode


class KeptLetters:
    """The dead letters of one system, the deaths that led to them, and the marks of its agents.

    All methods raise errors of the NATS client if the server is unavailable.

    Args:
        system: The name of the system, encoded by `plain_name`.
    """

    def __init__(self, js: JetStreamContext, stream: str, system: str) -> None:
        self._js, self._stream, self._system = js, stream, system
        self._subjects = subjects_of(stream)
        self._buckets: dict[str, KeyValue] = {}

    async def open(self) -> None:
        """Make room for what is always needed."""
        await self._bucket("marks")

    async def mark(self, agent: str, stream: str) -> Mark:
        """The mark of *agent*; that of a stream that was deleted since is no more."""
        data = await self._value("marks", plain_name(agent))
        kept = Mark() if data is None else _decode_mark(data)
        return kept if kept.stream == stream else Mark(stream)

    async def put_mark(self, agent: str, mark: Mark) -> None:
        """Keep the *mark* of *agent*."""
        await (await self._bucket("marks")).put(self._key(plain_name(agent)), _encode(mark))

    async def deaths(self, message: Message) -> int:
        """How many processes have begun but not ended handling *message*."""
        return len(await self._begun(message.id))

    async def begin(self, message: Message, node: str) -> None:
        """Record that *node* begins to handle *message*."""
        nodes = {*await self._begun(message.id), node}
        await (await self._bucket("begun")).put(self._key(message.id), _encode(sorted(nodes)))

    async def end(self, message: Message, node: str) -> None:
        """Record that *node* survived *message*."""
        nodes = {*await self._begun(message.id)} - {node}
        bucket = await self._bucket("begun")
        if nodes:
            await bucket.put(self._key(message.id), _encode(sorted(nodes)))
        else:
            await bucket.purge(self._key(message.id))

    async def add(self, letter: KeptLetter) -> None:
        """Store *letter*, and delete the deaths that led to it."""
        await (await self._bucket("letters")).put(self._key(letter.message.id), _encode(letter))
        await (await self._bucket("begun")).purge(self._key(letter.message.id))

    async def kept(self) -> list[KeptLetter]:
        """All letters of the system, oldest first.

        The server lists them, since the client's `KeyValue.keys` finds none if they arrive too early.
        """
        await self._bucket("letters")
        name = self._name("letters")
        stored = await self._js.stream_info(f"KV_{name}", subjects_filter=f"$KV.{name}.{self._key('*')}")
        found = [await self.get(subject.rpartition(".")[2]) for subject in stored.state.subjects or ()]
        return sorted((one for one in found if one is not None), key=lambda one: one.at)

    async def get(self, id: str) -> KeptLetter | None:
        """The letter of the message *id*."""
        data = await self._value("letters", id)
        return None if data is None else _decode(data)

    async def send_again(self, letter: KeptLetter) -> Message:
        """Store the message again under a new id, and drop the letter; return the message."""
        message = replace(letter.message, id=secrets.token_hex(8), attempt=1, reply_to=None)
        frame: Any = msgspec.msgpack.encode(wire.PostFrame(message))
        subject = f"{self._subjects}.{self._system}.{plain_name(message.recipient)}"
        await self._js.publish(subject, frame, stream=self._stream, headers={"Nats-Msg-Id": message.id})
        await self.drop(letter)
        return message

    async def drop(self, letter: KeptLetter) -> None:
        """Delete *letter*."""
        await (await self._bucket("letters")).purge(self._key(letter.message.id))

    async def _begun(self, id: str) -> list[str]:
        data = await self._value("begun", id)
        return [] if data is None else _decode_nodes(data)

    async def _value(self, bucket: str, id: str) -> bytes | None:
        try:
            return (await (await self._bucket(bucket)).get(self._key(id))).value
        except KeyNotFoundError:
            return None

    def _key(self, id: str) -> str:
        return f"{self._system}.{id}"

    def _name(self, name: str) -> str:
        """The name of the bucket *name* on the server."""
        return f"coterie-{plain_name(self._stream)}-{name}".replace("=", "_")

    async def _bucket(self, name: str) -> KeyValue:
        """A bucket, created on first use."""
        if name not in self._buckets:
            bucket = self._name(name)
            try:
                found = await self._js.key_value(bucket)
            except NotFoundError:
                ttl = None if name == "letters" else REMEMBERED
                found = await self._js.create_key_value(KeyValueConfig(bucket=bucket, ttl=ttl))
            self._buckets[name] = found
        return self._buckets[name]


def subjects_of(stream: str) -> str:
    """The prefix of the subjects of messages in *stream*."""
    return f"coterie-mail.{plain_name(stream)}"
