"""The streams of replies: what their readers get, how long, and what is kept; in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from coterie.agents.actors import reply_streams as module
from coterie.agents.actors.reply_streams import ReplyRecord, ReplyStreams
from coterie.base.clock import VirtualClock
from coterie.history.journal.records import ReplyEnded, ReplyPiece


def piece(seq: int, ask: str = "x") -> ReplyPiece:
    return ReplyPiece(seq=seq, ask=ask, agent="a", payload=seq)


def end(seq: int, ask: str = "x") -> ReplyEnded:
    return ReplyEnded(seq=seq, ask=ask, agent="a", payload="end")


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualClock(1000.0).run(scene())


async def read(streams: ReplyStreams, ask: str = "x", after: int = 0) -> list[Any]:
    """The payloads behind *after*; a heartbeat is `...`."""
    records = await streams.follow(ask, "a", after)
    assert records is not None
    return [... if one is None else getattr(one, "kind", "") or one.payload async for one in records]


def test_readers_get_the_records_behind_their_place_and_hear_of_silence() -> None:
    """From the beginning or later, those to come too; the end whatever their place is, and nothing after it."""

    async def scene() -> None:
        streams = ReplyStreams()
        streams.begin("x", "a")
        streams.take(piece(1))
        streams.take(piece(2))
        readers = [asyncio.create_task(read(streams, after=after)) for after in (0, 1, 9)]
        await asyncio.sleep(2.5 * module.HEARTBEAT)
        assert streams.silence("x") == 2.5 * module.HEARTBEAT
        assert not streams.has_ended("x")
        for record in (piece(3), end(4), piece(5), piece(6, "unknown")):
            streams.take(record)
        first, second, third = await asyncio.gather(*readers)
        assert first == [1, 2, ..., ..., 3, "end"]
        assert (second, third) == (first[1:], [..., ..., "end"])
        assert await read(streams, after=2) == [3, "end"]
        assert streams.has_ended("x")
        assert await streams.follow("x", "another agent") is None
        assert await streams.follow("unknown", "a") is None
        assert (streams.silence("unknown"), streams.has_ended("unknown")) == (float("inf"), True)

    play(scene)


def test_without_a_journal_the_latest_ends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """And every stream that has not ended; the records are numbered before they go on."""
    monkeypatch.setattr(module, "KEPT", 2)
    written: list[Any] = []

    async def scene() -> None:
        streams = ReplyStreams()
        sink = streams.numbering(written.append)
        for ask in ("open", "1", "2", "3"):
            streams.begin(ask, "a")
            sink(piece(0, ask))
        for ask in ("1", "2", "3"):
            sink(end(0, ask))
        assert await streams.follow("1", "a") is None
        assert [await read(streams, ask, after=3) for ask in ("2", "3")] == [["end"], [0, "end"]]
        assert await streams.follow("open", "a") is not None
        assert {one.seq for one in written} == {0}, "a journal would number them itself"

    play(scene)


def test_what_has_ended_is_read_from_the_journal() -> None:
    """A stream whose process ended first is lost."""
    journal: dict[str, Sequence[ReplyRecord]] = {"x": (piece(1), end(2)), "cut": (piece(5, "cut"),)}

    async def past(ask: str) -> Sequence[ReplyRecord]:
        return journal.get(ask, ())

    async def scene() -> None:
        streams = ReplyStreams(past)
        streams.begin("x", "a")
        following = await streams.follow("x", "a")
        for record in (piece(7), end(8)):
            streams.take(record)
        assert following is not None
        assert [one.payload async for one in following if one is not None] == [7, "end"]
        assert await read(streams) == [1, "end"]
        assert await read(streams, "cut", after=5) == ["lost"]
        assert await streams.follow("other", "a") is None

    play(scene)


def test_an_end_is_waited_for_no_longer_than_allowed() -> None:
    """Whatever other records come meanwhile."""

    async def scene() -> None:
        streams, loop = ReplyStreams(), asyncio.get_running_loop()
        streams.begin("x", "a")
        loop.call_later(1, streams.take, piece(1))
        began = loop.time()
        await streams.ended("x", 3)
        assert loop.time() - began == 3
        loop.call_later(1, streams.take, end(2))
        await streams.ended("x", 3)
        assert loop.time() - began == 4
        await streams.ended("x", 3)
        await streams.ended("unknown", 3)
        assert loop.time() - began == 4

    play(scene)
