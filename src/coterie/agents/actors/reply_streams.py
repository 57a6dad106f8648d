"""Streamed replies: their records, as they become durable, for their readers.

They are no stream of a run (`coterie.execution.runs.run_stream`): each piece is itself a record, so a position is one
seq, and the owner hands them over in its own process, which may have no journal.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from coterie.agents.actors.dead_letters import Sink
from coterie.agents.actors.message import REFUSED, TURN_FAILED, AskRefusal, Message
from coterie.agents.actors.plain import plain
from coterie.history.journal.records import Record, ReplyEnded, ReplyPiece

ReplyRecord = ReplyPiece | ReplyEnded
Past = Callable[[str], Awaitable[Sequence[ReplyRecord]]]
"""Reads the records of a streamed reply from a journal."""

KEPT = 256
"""How many ended streams are kept in memory without a journal."""
HEARTBEAT = 15.0
"""Seconds of silence after which a reader is notified."""


class ReplyStreams:
    """The records of streamed replies, as they become durable.

    Args:
        past: Reads records that are no longer in memory; None: there is no journal.
    """

    def __init__(self, past: Past | None = None) -> None:
        self._past = past
        self._streams: dict[str, _Stream] = {}
        self._seq = 0

    def begin(self, ask: str, agent: str) -> None:
        """Expect the records of *ask*."""
        self._streams[ask] = _Stream(agent)

    def take(self, record: Record) -> None:
        """Handle a durable record."""
        if isinstance(record, ReplyPiece | ReplyEnded) and (stream := self._streams.get(record.ask)) is not None:
            stream.add(record)
            if isinstance(record, ReplyEnded):
                self._forget(record.ask)

    def numbering(self, sink: Sink | None) -> Sink:
        """Wrap *sink*, for a system without a journal, so that records of replies are numbered and handled here."""

        def take(record: Record) -> None:
            if isinstance(record, ReplyPiece | ReplyEnded):
                self._seq += 1
                self.take(replace(record, seq=self._seq))
            if sink is not None:
                sink(record)

        return take

    def silence(self, ask: str) -> float:
        """Seconds since the last record of *ask*; infinite if it has ended."""
        stream = self._streams.get(ask)
        return math.inf if stream is None else asyncio.get_running_loop().time() - stream.changed_at

    def has_ended(self, ask: str) -> bool:
        """Whether *ask* has its last record."""
        stream = self._streams.get(ask)
        return stream is None or stream.has_ended

    async def ended(self, ask: str, within: float) -> None:
        """Wait for the last record of *ask*, at most *within* seconds."""
        stream = self._streams.get(ask)
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while stream is not None and not stream.has_ended:
                    await stream.changed.wait()

    def _forget(self, ask: str) -> None:
        if self._past is not None:
            del self._streams[ask]  # its followers have it
            return
        ended = [name for name, stream in self._streams.items() if stream.has_ended]
        for name in ended[:-KEPT]:
            del self._streams[name]

    async def follow(self, ask: str, agent: str, after: int = 0) -> "AsyncIterator[ReplyRecord | None] | None":
        """The existing and further records of *ask* to *agent* after *after*, to its end; None if there is no such ask.

        After `HEARTBEAT` seconds of silence it yields None.
        """
        stream = self._streams.get(ask)
        if stream is None and self._past is not None and (records := await self._past(ask)):
            stream = _Stream(records[0].agent)
            for record in records:
                stream.add(record)
            if not stream.has_ended:  # its process ended before it did
                last = records[-1].seq
                stream.add(
                    ReplyEnded(seq=last, ask=ask, agent=stream.agent, kind="lost", reason="the system restarted")
                )
        return None if stream is None or stream.agent != agent else stream.follow(after)


class _Stream:
    """The records of one ask; each reader keeps its own position."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.records: list[ReplyRecord] = []
        self.changed, self.changed_at = asyncio.Event(), asyncio.get_running_loop().time()

    @property
    def has_ended(self) -> bool:
        return bool(self.records) and isinstance(self.records[-1], ReplyEnded)

    def add(self, record: ReplyRecord) -> None:
        if not self.has_ended:
            self.records.append(record)
            self.changed.set()
            self.changed, self.changed_at = asyncio.Event(), asyncio.get_running_loop().time()

    async def follow(self, after: int) -> AsyncIterator[ReplyRecord | None]:
        at = 0
        while True:
            while at < len(self.records):
                record = self.records[at]
                at += 1
                if record.seq > after or isinstance(record, ReplyEnded):
                    yield record
            if self.has_ended:
                return
            changed = self.changed
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await changed.wait()
            except TimeoutError:
                yield None


def end_of(message: Message, answer: Message) -> ReplyEnded:
    """The record of *answer*, the streamed reply to *message*."""
    payload, kind, reason = answer.payload, "", ""
    if answer.type == REFUSED:
        refusal: AskRefusal = answer.payload
        payload, kind, reason = None, refusal.kind, refusal.reason
    elif answer.type == TURN_FAILED:
        payload, kind, reason = None, str(answer.payload["kind"]), str(answer.payload["reason"])
    try:
        payload = plain(payload, "the reply")
    except ValueError as error:
        payload, kind, reason = None, "failed", str(error)
    return ReplyEnded(ask=message.stream, agent=message.recipient, payload=payload, kind=kind, reason=reason)
