"""What is sent to pages as it changes: a run, the list of runs, the output of a turn.

A feed keeps its newest events. A page that names the last one that it has gets those after it; one that names an older
one, or none, gets the whole state first.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import msgspec

from coterie.errors import CoterieError
from coterie.runs.attempt_output import StreamReader
from coterie.runs.attention import with_prompt
from coterie.runs.repository import Runs
from coterie.ui.places import Place
from coterie.views.attention import Attention
from coterie.views.live import LiveRun, Tables, position_text, read_position

EVERY = 0.15
"""Seconds between two looks at what changed; *IDLE* where nothing drives the run."""
IDLE = 0.7
KEPT = 4 << 20
"""Bytes of events that a feed keeps."""
LONGEST = 1 << 20
"""Bytes of output that a page gets at once; of more, the end."""


class FeedEvent(NamedTuple):
    """What happened: *kind* is `state`, `changes`, `output` or `problem`; *id* names the state after it."""

    kind: str
    id: str
    data: bytes


class Feed:
    """Events in order, and the pages that wait for them."""

    def __init__(self) -> None:
        self.watchers: set[asyncio.Event] = set()
        self._kept: deque[FeedEvent] = deque()
        self._first = self._bytes = 0

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self._first + len(self._kept)

    def put(self, event: FeedEvent) -> None:
        """Keep *event*, and wake those that wait."""
        self._kept.append(event)
        self._bytes += len(event.data)
        while self._bytes > KEPT and len(self._kept) > 1:
            self._bytes -= len(self._kept.popleft().data)
            self._first += 1
        for one in self.watchers:
            one.set()

    def after(self, number: int) -> list[FeedEvent] | None:
        """The events from *number* on; None if some of them are not kept any more."""
        if number < self._first:
            return None
        return [self._kept[k] for k in range(number - self._first, len(self._kept))]

    def number_after(self, id: str) -> int | None:
        """The number of the event after the one with this *id*; None if it is not kept."""
        for k in range(len(self._kept) - 1, -1, -1):
            if self._kept[k].id == id:
                return self._first + k + 1
        return None

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """What a page that has the state *last* lacks as one event, and the number of the event that follows it."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what fills it."""


class RunFeed(Feed):
    """A root run and its child runs as tables; see `coterie.views.live`."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.runs, self.run = place, place.runs, place.run
        self.live = LiveRun(place.run)
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._texts: dict[str, str] = {}
        self._here: dict[str, Any] = {}

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The tables, or what changed in them since the position *last*."""
        async with self._opening:
            if self._task is None:
                first = await self._begin(last)
                self._task = asyncio.create_task(self._follow())
                if first is not None:
                    return first, self.end
        if last and last == self.id:
            return None, self.end
        if last and (number := self.number_after(last)) is not None:
            return None, number
        self._flush()
        return FeedEvent("state", self.id, _encoded(await self._told(self.live.state()))), self.end

    @property
    def id(self) -> str:
        """The position of the tables."""
        return position_text(self.live.position)

    def tables(self) -> Tables:
        """All rows."""
        self._flush()
        return self.live.state()

    def close(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()

    async def _begin(self, last: str) -> FeedEvent | None:
        """Fold the run; what changed since *last*, if the fold came past it."""
        position = read_position(last, self.run) if last else {}

        def fold() -> Tables | None:
            later, live = [], self.live
            for run, record in self.runs.history(self.run):
                if not position or record.seq <= position.get(run, 0):
                    live.apply(run, record)
                else:
                    later.append((run, record))
            if not position:
                return None
            same = live.position == position
            live.state()
            for run, record in later:
                live.apply(run, record)
            return live.changes() if same else None

        changes = await asyncio.to_thread(fold)
        self._here = await self._about()
        if changes is None:
            return None
        changes["here"] = {"run": self._here}
        return FeedEvent("changes", self.id, _encoded(await self._told(changes)))

    async def _follow(self) -> None:
        """Put changes, until the run is gone."""
        try:
            while True:
                flusher = asyncio.create_task(self._flush_often())
                try:
                    if self._here.get("owned"):
                        await self._read()
                finally:
                    flusher.cancel()
                await self._flush_told()
                await asyncio.sleep(IDLE)
                if await asyncio.to_thread(self._has_more):
                    await self._read()
                await self._flush_told()
        except (OSError, CoterieError) as error:
            self.put(FeedEvent("problem", self.id, _encoded({"error": str(error)})))

    async def _read(self) -> None:
        position = self.live.position
        async with aclosing(self.runs.follow(self.run)) as news:
            async for run, record in news:
                if record.seq > position.get(run, 0):
                    self.live.apply(run, record)

    def _has_more(self) -> bool:
        """Whether something was written that was not read."""
        last = self.runs.store.status(self.run)
        seq = self.live.position.get(self.run, 0)
        return last.state == "running" or next(self.runs.read(self.run, seq + 1), None) is not None

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self._flush_told()

    async def _flush_told(self) -> None:
        here = await self._about()
        changes = self.live.changes()
        if here != self._here:
            self._here = changes.setdefault("here", {})["run"] = here
        if changes:
            self.put(FeedEvent("changes", self.id, _encoded(await self._told(changes))))

    def _flush(self) -> None:
        """Put what changed before the whole state is taken."""
        if changes := self.live.changes():
            self.put(FeedEvent("changes", self.id, _encoded(changes)))

    async def _about(self) -> dict[str, Any]:
        owned = await asyncio.to_thread(self.runs.is_owned, self.run)
        return self.place.about() | {"owned": owned}

    async def _told(self, tables: Tables) -> Tables:
        """*tables* with the texts of questions, which journals do not have."""
        for key, row in tables.get("attention", {}).items():
            if row is not None and row["kind"] == "question":
                if key not in self._texts:
                    one = msgspec.convert(row, Attention)
                    self._texts[key] = (await asyncio.to_thread(with_prompt, self.runs, one)).text
                row["text"] = self._texts[key]
        if "runs" in tables and "teams" in tables and "here" not in tables:
            tables["here"] = {"run": self._here}
        return tables


class OutputFeed(Feed):
    """What a turn prints and does; the id of an event is the number of those up to it."""

    def __init__(self, runs: Runs, run: str, turn: str) -> None:
        super().__init__()
        self._runs, self._run = runs, run
        self._reader = StreamReader(runs, run, turn)
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """What was printed after the event *last*."""
        found = await self._read()
        left = found[int(last) if last.isdecimal() else 0 :]
        size, first = 0, len(left)
        while first and size < LONGEST:
            first -= 1
            size += len(left[first])
        self._task = asyncio.create_task(self._follow())
        event = FeedEvent("output", str(self._count), _listed(left[first:], is_cut=first > 0, is_first=not last))
        return event, self.end

    async def _read(self) -> list[bytes]:
        heard = await asyncio.to_thread(self._reader.read)
        self._count += len(heard)
        return [msgspec.json.encode({"attempt": one.attempt, "event": one.event}) for one in heard]

    async def _follow(self) -> None:
        with suppress(OSError, CoterieError):
            while True:
                await asyncio.sleep(EVERY)
                if found := await self._read():
                    self.put(FeedEvent("output", str(self._count), _listed(found)))

    def close(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()


def _listed(events: list[bytes], *, is_cut: bool = False, is_first: bool = False) -> bytes:
    head = b'{"first":%s,"cut":%s,"events":[' % (str(is_first).lower().encode(), str(is_cut).lower().encode())
    return head + b",".join(events) + b"]}"


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


Events = AsyncIterator[FeedEvent]
