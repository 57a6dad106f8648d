"""Messages at which processes died: how often each did, and those that became dead letters because of it.

Both are kept by the NATS server, in buckets beside the stream of the messages, so that every process sees them.
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

from coterie.actors.message import Message
from coterie.actors.transports import wire
from coterie.actors.transports.names import plain_name

MAX_DELIVER = 3
"""Processes that may die while they handle one message, not counting its first delivery."""

REMEMBERED = 24 * 3600.0
"""Seconds for which a process that began to handle a message is remembered."""


class KeptLetter(Struct, frozen=True):
    """A message that is handled no more, with the reason.

    Attributes:
        at: When it became a dead letter, in Unix seconds.
    """

    message: Message
    reason: str
    at: float


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptLetter).decode
_decode_nodes = msgspec.msgpack.Decoder(list[str]).decode


class KeptLetters:
    """The dead letters of one system, and the deaths that led to them.

    All methods raise the errors of the NATS client if the server is away.

    Args:
        system: Its name, as `plain_name` writes it.
    """

    def __init__(self, js: JetStreamContext, stream: str, system: str) -> None:
        self._js, self._stream, self._system = js, stream, system
        self._subjects = subjects_of(stream)
        self._buckets: dict[str, KeyValue] = {}

    async def deaths(self, message: Message) -> int:
        """How many processes have begun to handle *message* and not ended."""
        return len(await self._begun(message.id))

    async def begin(self, message: Message, node: str) -> None:
        """Note that *node* begins to handle *message*."""
        nodes = {*await self._begun(message.id), node}
        await (await self._bucket("begun")).put(self._key(message.id), _encode(sorted(nodes)))

    async def end(self, message: Message, node: str) -> None:
        """Note that *node* has not died of *message*."""
        nodes = {*await self._begun(message.id)} - {node}
        bucket = await self._bucket("begun")
        if nodes:
            await bucket.put(self._key(message.id), _encode(sorted(nodes)))
        else:
            await bucket.purge(self._key(message.id))

    async def add(self, letter: KeptLetter) -> None:
        """Keep *letter*, and forget the deaths that led to it."""
        await (await self._bucket("letters")).put(self._key(letter.message.id), _encode(letter))
        await (await self._bucket("begun")).purge(self._key(letter.message.id))

    async def kept(self) -> list[KeptLetter]:
        """All of the system, oldest first.

        They are listed by the server: `KeyValue.keys` of the client finds none if they arrive before it looks.
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
        """Store its message for its recipient, under a new id, and drop the letter; return the message."""
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
        """The bucket *name* as the server knows it."""
        return f"coterie-{plain_name(self._stream)}-{name}".replace("=", "_")

    async def _bucket(self, name: str) -> KeyValue:
        """A bucket, which is created when it is first needed."""
        if name not in self._buckets:
            bucket = self._name(name)
            try:
                found = await self._js.key_value(bucket)
            except NotFoundError:
                ttl = REMEMBERED if name == "begun" else None
                found = await self._js.create_key_value(KeyValueConfig(bucket=bucket, ttl=ttl))
            self._buckets[name] = found
        return self._buckets[name]


def subjects_of(stream: str) -> str:
    """What the subjects of the messages in *stream* begin with."""
    return f"coterie-mail.{plain_name(stream)}"
