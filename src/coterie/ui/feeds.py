"""What is sent to pages as it changes: a run, the list of runs, the output of a turn.

A feed keeps its newest events. A page that names the last one that it has gets those after it; one that names an older
one, or none, gets the whole state first.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from coterie.errors import CoterieError, JournalUnreadable
from coterie.journal.runs import RunRecord
from coterie.runs.attempt_output import StreamReader
from coterie.runs.attention import with_prompt
from coterie.runs.news import NewRecords
from coterie.runs.repository import Runs
from coterie.shortages import shortage
from coterie.ui.places import ServedRun
from coterie.ui.questions import fields
from coterie.views.attention import Attention
from coterie.views.live import LiveRun, Tables, position_text, read_position

T = TypeVar("T")

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
    """Events in order, and the pages that wait for them.

    Attributes:
        is_over: Nothing comes any more; who asks again needs another one.
    """

    is_over = False

    def __init__(self) -> None:
        self.watchers: set[asyncio.Event] = set()
        self._kept: deque[FeedEvent] = deque()
        self._first = self._bytes = 0
        self._base: str | None = None
        """The id before the first event that is kept."""
        self._task: asyncio.Task[None] | None = None
        """Fills it, once somebody has asked for its state."""

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self._first + len(self._kept)

    def put(self, event: FeedEvent) -> None:
        """Keep *event*; `wake` tells those that wait."""
        self._kept.append(event)
        self._bytes += len(event.data)
        while self._bytes > KEPT and len(self._kept) > 1:
            gone = self._kept.popleft()
            self._bytes -= len(gone.data)
            self._base = gone.id
            self._first += 1

    def wake(self) -> None:
        """Wake those that wait; call it in the event loop."""
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
        return self._first if id == self._base else None

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """What a page that has the state *last* lacks as one event, and the number of the event that follows it."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what fills it."""
        if self._task is not None:
            self._task.cancel()


class RunFeed(Feed):
    """A root run and its child runs as tables; see `coterie.views.live`.

    Everything that reads or folds is done on a thread, one call at a time.
    """

    def __init__(self, place: ServedRun) -> None:
        super().__init__()
        self.place, self.runs, self.run = place, place.runs, place.run
        self.live = LiveRun(place.run)
        self._news: NewRecords | None = None
        self._lock = asyncio.Lock()
        self._asked: dict[str, dict[str, Any]] = {}
        self._here: dict[str, Any] = {}
        self._problem = ""

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The tables, or what changed in them since the position *last*."""
        async with self._lock:
            if self._task is None:
                changes = await asyncio.to_thread(self._begin, last)
                self._task = asyncio.create_task(self._follow())
                self._base = self.id
                if changes is not None:
                    return self._event("changes", changes), self.end
                return self._event("state", await asyncio.to_thread(self._whole)), self.end
            if last and last == self.id:
                return None, self.end
            if last and (number := self.number_after(last)) is not None:
                return None, number
            event = self._event("state", await asyncio.to_thread(self._state))
            self.wake()
            return event, self.end

    @property
    def id(self) -> str:
        """The position of the tables."""
        return position_text(self.live.position)

    async def with_live(self, work: Callable[[LiveRun], T]) -> T:
        """The result of *work*, which has the newest state for itself."""
        async with self._lock:
            if self._task is None:
                await asyncio.to_thread(self._begin, "")
                self._task = asyncio.create_task(self._follow())
            found = await asyncio.to_thread(self._read_and, work)
            self.wake()
            return found

    def _begin(self, last: str) -> Tables | None:
        """Fold the run; what changed since *last*, if the fold came past it."""
        self._news = NewRecords(self.runs, self.run)
        position = read_position(last, self.run) if last else {}
        later: list[RunRecord] = []
        for run, record in self._news.read():
            if not position or record.seq <= position.get(run, 0):
                self.live.apply(run, record)
            else:
                later.append((run, record))
        is_past = bool(position) and self.live.position == position
        if later:
            self.live.changes()
        for run, record in later:
            self.live.apply(run, record)
        if self.run not in self.live.runs:
            raise JournalUnreadable(*self.runs.store.place(self.run), "the run has not begun")
        self._here = self._about()
        return self._changes(whole=True) if is_past else None

    def _read_and(self, work: Callable[[LiveRun], T]) -> T:
        self._put_news()
        return work(self.live)

    def _state(self) -> Tables:
        self._put_news()
        return self._whole()

    def _whole(self) -> Tables:
        return self._told(self.live.state() | {"here": {"run": self._here}})

    def _put_news(self) -> None:
        """Take in what is new, and put it for those that wait."""
        assert self._news is not None
        for run, record in self._news.read():
            self.live.apply(run, record)
        if changes := self._changes():
            self.put(self._event("changes", changes))

    def _changes(self, *, whole: bool = False) -> Tables:
        changes, here = self.live.changes(), self._about()
        if whole or here != self._here:
            self._here = here
            changes["here"] = {"run": here}
        return self._told(changes)

    async def _follow(self) -> None:
        """Put changes, until the run is gone."""
        while True:
            await asyncio.sleep(EVERY if self._here["owned"] else IDLE)
            try:
                async with self._lock:
                    await asyncio.to_thread(self._put_news)
                self.wake()
            except (OSError, CoterieError) as error:
                if isinstance(error, OSError) and shortage(error):
                    continue
                gone = not self.runs.has(self.run)
                why = f"run {self.run} was removed" if gone else str(error)
                self.is_over = True
                self.put(FeedEvent("problem", self.id, _encoded({"error": why, "gone": gone})))
                self.wake()
                return

    def _event(self, kind: str, tables: Tables) -> FeedEvent:
        return FeedEvent(kind, self.id, _encoded(tables))

    def _about(self) -> dict[str, Any]:
        return self.place.about() | {"owned": self.runs.is_owned(self.run)}

    def _told(self, tables: Tables) -> Tables:
        """*tables* with the texts and fields of questions, which attention does not have, and without each cost.

        The page asks for the sums of costs, `Api._cost`.
        """
        tables.pop("costs", None)
        for key, row in tables.get("attention", {}).items():
            if row is not None and row["kind"] == "question":
                if key not in self._asked:
                    text = with_prompt(self.runs, msgspec.convert(row, Attention)).text
                    self._asked[key] = {"text": text, "fields": fields(self.runs, row["run"], row["turn"])}
                row.update(self._asked[key])
        return tables


class OutputFeed(Feed):
    """What a turn prints and does; the id of an event is the number of those up to it."""

    def __init__(self, runs: Runs, run: str, turn: str) -> None:
        super().__init__()
        self._runs, self._run, self._turn = runs, run, turn
        self._reader = StreamReader(runs, run, turn)
        self._count = 0

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """What was printed after the event *last*."""
        if self._task is not None:  # asked again, from the beginning
            self._task.cancel()
            self._reader, self._count = await asyncio.to_thread(StreamReader, self._runs, self._run, self._turn), 0
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
                    self.wake()


def _listed(events: list[bytes], *, is_cut: bool = False, is_first: bool = False) -> bytes:
    head = b'{"first":%s,"cut":%s,"events":[' % (str(is_first).lower().encode(), str(is_cut).lower().encode())
    return head + b",".join(events) + b"]}"


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)
