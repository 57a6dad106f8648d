"""The packets between nodes: frames as MessagePack.

A frame always has one of the types below, and payloads are plain data: decoding never chooses a class. Values that
would arrive changed, or as another type, are refused.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from coterie.agents.actors.exact import consists_of, fault_of
from coterie.agents.actors.message import REFUSED, AskRefusal, Message
from coterie.errors import PayloadRefused

HEADER = 1024
"""The largest number of bytes in a packet beside frames."""


class MessageFrame(Struct, frozen=True, array_like=True):
    """A message of an agent."""

    message: Message


class PostFrame(MessageFrame, frozen=True, tag="post"):
    """A message for the mailbox of an agent."""


class ReplyFrame(MessageFrame, frozen=True, tag="reply"):
    """The reply to an ask."""


class RefusalFrame(Struct, frozen=True, array_like=True, tag="refuse"):
    """A message did not get into the mailbox."""

    id: str
    refusal: AskRefusal


class SettledFrame(Struct, frozen=True, array_like=True, tag="settled"):
    """Ids of messages that are in their mailboxes, and of sends that were handled or became dead letters."""

    taken: list[str]
    handled: list[str]


class RecallFrame(Struct, frozen=True, array_like=True, tag="recall"):
    """The sender of a message no longer waits."""

    id: str


class CallFrame(Struct, frozen=True, array_like=True, tag="call"):
    """A request between nodes."""

    number: int
    kind: str
    payload: Any


class CallReplyFrame(Struct, frozen=True, array_like=True, tag="called"):
    """The answer to a request between nodes; *error* is empty, or why there is no payload."""

    number: int
    payload: Any
    error: str = ""


class NamesFrame(Struct, frozen=True, array_like=True, tag="names"):
    """The node has these agents now; others have stopped, with the reason of each."""

    added: list[str]
    stopped: dict[str, str]


class HelloFrame(Struct, frozen=True, array_like=True, tag="hello"):
    """The first frames of a node are the names of its agents and this one."""

    process: str
    role: str
    fingerprint: str


class ByeFrame(Struct, frozen=True, array_like=True, tag="bye"):
    """The last frame of a node that stops."""


Frame = (
    PostFrame
    | ReplyFrame
    | RefusalFrame
    | SettledFrame
    | RecallFrame
    | CallFrame
    | CallReplyFrame
    | NamesFrame
    | HelloFrame
    | ByeFrame
)


class Packet(Struct, frozen=True, array_like=True, tag="packet"):
    """Frames of one node for another.

    Attributes:
        epoch: Increased when the sender has lost the receiver; frames are numbered from 1 in each epoch.
        first: The number of the first frame.
        ack_epoch, ack: The last frame up to which the sender has all frames of the receiver's epoch.
        beat: The number of the sender's last heartbeat.
        heard: The number of the receiver's last heartbeat known to the sender, which limits the age of the packet.
    """

    sender: str
    beat: int
    heard: int
    epoch: int
    first: int
    ack_epoch: int
    ack: int
    frames: list[Frame]


class Beat(Struct, frozen=True, array_like=True, tag="beat"):
    """A heartbeat for all nodes of the system."""

    sender: str
    beat: int


def refuse_extension(code: int, data: memoryview) -> Any:
    """Decode no extension of MessagePack but its time.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"extension {code} of MessagePack is not plain data")


_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Packet | Beat] = msgspec.msgpack.Decoder(Packet | Beat, ext_hook=refuse_extension)


def encode(frame: Frame, agent: str, limit: int) -> bytes:
    """Encode a frame; *agent* is the name in the error.

    Raises:
        PayloadRefused: If the payload would arrive changed, or is too large.
    """
    payload = frame.message.payload if isinstance(frame, MessageFrame) and frame.message.type != REFUSED else None
    if not consists_of(payload, _PLAIN):  # for plain values the encoder itself refuses what it cannot write
        check(payload, agent)
    try:
        data = _encoder.encode(frame)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        check(payload, agent)  # names the place, which the encoder does not
        raise PayloadRefused(agent, str(error)) from None
    if len(data) > limit - HEADER:
        raise PayloadRefused(agent, f"it has {len(data):,} bytes, and the transport carries at most {limit - HEADER:,}")
    return data


def check(payload: Any, agent: str) -> None:
    """Check that *payload* arrives unchanged.

    Raises:
        PayloadRefused: If it would not; the error names the place.
    """
    if fault := fault_of("payload", payload, _leaf, _PLAIN, "send"):
        raise PayloadRefused(agent, fault) from None


def _leaf(value: Any) -> str | None:
    kind = type(value)
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "has half of a surrogate pair, which is not Unicode"
    if kind is int and not -(2**63) <= value < 2**64:
        return "is a whole number of more than 64 bits: send its text"
    if kind is datetime and (value.tzinfo is not UTC or value.fold):
        return "is a time that is not in UTC: send its astimezone(timezone.utc), or its isoformat()"
    return "" if kind in _PLAIN or kind is datetime else None


def pack(packet: Packet, frames: list[bytes]) -> bytes:
    """Encode *packet* with the already encoded *frames*."""
    raw: list[Any] = [msgspec.Raw(frame) for frame in frames]
    packet.frames.extend(raw)
    return _encoder.encode(packet)


def heartbeat(sender: str, number: int) -> bytes:
    """Encode a heartbeat."""
    return _encoder.encode(Beat(sender, number))


def decode(data: bytes) -> Packet | Beat:
    """Decode a packet or heartbeat.

    Raises:
        msgspec.MsgspecError: If *data* is neither.
    """
    return _decoder.decode(data)


def with_refusal(answer: Message) -> Message:
    """Convert the refusal in a reply, if it has one, from a dictionary, its form on the wire."""
    if answer.type != REFUSED:
        return answer
    return msgspec.structs.replace(answer, payload=msgspec.convert(answer.payload, AskRefusal))
