"""Payloads between processes arrive as they were sent, or are refused with the place of what would not."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.actors.message import AskRefusal, Message
from coterie.agents.actors.transports import wire
from coterie.errors import PayloadRefused


class Colour(Enum):
    RED = "red"


class Shade(StrEnum):
    DARK = "dark"


def posted(payload: Any) -> bytes:
    return wire.encode(wire.PostFrame(Message("1", "message", "a", "b", payload)), "b", 1 << 20)


@dataclass
class Place:
    name: str = "here"


class Point(NamedTuple):
    a: int = 1


@bundle(
    ("value", "fault"),
    [
        ({1, 2}, "set: send a sorted list"),
        (frozenset({1}), "frozenset: send a sorted list"),
        ((1, 2), "tuple: send a list"),
        (Point(), "Point: send plain data"),
        (Decimal("1.10"), "Decimal: send its text"),
        (UUID(int=1), "UUID: send its text"),
        (date(2026, 1, 2), "date: send its isoformat()"),
        (time(1, 2), "time: send its isoformat()"),
        (timedelta(1), "timedelta: send plain data"),
        (Colour.RED, "Colour: send plain data"),
        (Shade.DARK, "Shade: send str(…) of it"),
        (Place(), "Place: send plain data"),
        (bytearray(b"x"), "bytearray: send bytes(…) of it"),
        (memoryview(b"x"), "memoryview: send plain data"),
        (defaultdict(int), "defaultdict: send dict(…) of it"),
        (msgspec.Raw(b"\x01"), "Raw: send plain data"),
        (msgspec.msgpack.Ext(1, b"x"), "Ext: send plain data"),
        (AskRefusal("crashed", "a"), "AskRefusal: send plain data"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_another_type_is_refused_with_its_place(value: Any, fault: str) -> None:
    """It would arrive as another type, and the recipient would find out much later, or never."""
    for payload, place in (
        (value, "payload"),
        ({"a": [0, {"b": value}]}, "payload['a'][1]['b']"),
        ([None, value], "payload[1]"),
    ):
        for frame in (
            wire.PostFrame(Message("1", "message", "a", "b", payload)),
            wire.ReplyFrame(Message("1", "", "a", "b", payload)),
        ):
            with pytest.raises(PayloadRefused) as refused:
                wire.encode(frame, "b", 1 << 20)
            assert refused.value.fault == f"{place} is of type {fault}"


@bundle(
    ("payload", "fault"),
    [
        ({"at": datetime(2026, 1, 2)}, "payload['at'] is a time that is not in UTC"),
        ([datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))], "payload[0] is a time that is not in UTC"),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC, fold=1)}, "payload['at'] is a time that is not in UTC"),
        ({"n": [1 << 64]}, "payload['n'][0] is a whole number of more than 64 bits"),
        ({"n": -(1 << 63) - 1}, "payload['n'] is a whole number of more than 64 bits"),
        ({"half": "\ud800"}, "payload['half'] has half of a surrogate pair"),
        ({"\ud800": 1}, "payload has the key '\\ud800', which is not text"),
        ({(1, 2): 1}, "payload has the key (1, 2), which is not text"),
        ({Shade.DARK: 1}, "payload has the key <Shade.DARK: 'dark'>, which is not text"),
    ],
    ids=str,
)
def test_a_value_that_would_not_arrive_as_it_is_is_refused_with_its_place(payload: Any, fault: str) -> None:
    with pytest.raises(PayloadRefused) as refused:
        posted(payload)
    assert refused.value.fault.startswith(fault)


def test_a_payload_that_contains_itself_is_refused() -> None:
    """Before it fills the stack; its place is cut."""
    payload: list[Any] = []
    payload.append(payload)
    with pytest.raises(PayloadRefused, match="is nested deeper than 100 levels, or contains itself") as refused:
        posted(payload)
    assert len(str(refused.value)) < 500


_KEYS = st.text(max_size=5) | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=3) | st.booleans() | st.none()
_TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda one: one.replace(fold=0))
_LEAVES = _KEYS | _TIMES | st.floats(allow_nan=False)
_NESTED = st.recursive(_LEAVES, lambda some: st.lists(some) | st.dictionaries(_KEYS, some), max_leaves=6)


@given(_NESTED)
def test_what_is_carried_arrives_as_it_was(payload: Any) -> None:
    """Values and types, at every place."""
    packet = wire.decode(wire.pack(wire.Packet("a", 1, 1, 1, 1, 1, 1, []), [posted(payload)]))
    assert isinstance(packet, wire.Packet)
    [arrived] = packet.frames
    assert isinstance(arrived, wire.PostFrame)
    assert repr(arrived.message.payload) == repr(payload)
