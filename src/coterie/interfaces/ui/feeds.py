"""Feeds of changes for pages: of a run, of the list of runs, of the output of a turn.

A feed keeps its newest events. A page names the last event that it has, and gets the later ones. If the feed no longer
keeps this event, or the page names none, the page gets the whole state first.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from coterie.base.shortages import shortage
from coterie.errors import CoterieError, JournalUnreadable, NoSuchRun, UsageError
from coterie.execution.runs.attempt_output import StreamReader
from coterie.execution.runs.attention import with_prompts
from coterie.execution.runs.endings import Standing, standing
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_stream import RunStream
from coterie.history.journal.runs import RunRecord
from coterie.history.journal.status import ENDS
from coterie.history.views.attention import Attention
from coterie.history.views.live import LiveRun, Position, Tables, position_text, read_position
from coterie.interfaces.ui.places import ServedRun
from coterie.interfaces.ui.questions import Forms
from coterie.team.planning.plan import Plan

T = TypeVar("T")

EVERY = 0.15
"""Seconds between two checks for changes; *IDLE* if no process drives the run."""
IDLE = 0.7
KEPT = 4 << 20
"""Bytes of events that a feed keeps."""
NAMED = 100
"""The most runs of a tree whose positions the id of an event names."""
LONGEST = 1 << 20
"""Bytes of output that a page gets at once, from the end."""


class FeedEvent(NamedTuple):
    """An event of a feed: *kind* is `state`, `changes`, `output` or `problem`; *id* names the state after it."""

    kind: str
    id: str
    data: bytes

    @property
    def size(self) -> int:
        """Its size in bytes; the id of a run with many child runs is long."""
        return len(self.id) + len(self.data)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of *work*, which goes on if its caller is cancelled, as when a page is loaded again.

    A thread cannot be cancelled: what it reads and changes stays locked until it has ended.
    """
    return await asyncio.shield(asyncio.ensure_future(work))


class Feed:
    """Events in order, and the pages that wait for them.

    Attributes:
        is_over: Whether no more events will come; later requests then need a new feed.
    """

    is_over = _is_closed = False

    def __init__(self) -> None:
        self.watchers: set[asyncio.Event] = set()
        self._kept: deque[FeedEvent] = deque()
        self._first = self._bytes = 0
        self._base: str | None = None
        """The id of the state before the first kept event."""
        self._task: asyncio.Task[None] | None = None
        """The task that fills the feed, once its state was requested."""

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self._first + len(self._kept)

    def put(self, event: FeedEvent) -> None:
        """Keep *event*; `wake` then wakes the waiting pages."""
        self._kept.append(event)
        self._bytes += event.size
        while self._bytes > KEPT and len(self._kept) > 1:
            gone = self._kept.popleft()
            self._bytes -= gone.size
            self._base = gone.id
            self._first += 1

    def wake(self) -> None:
        """Wake the waiting pages; call it in the event loop."""
        for one in self.watchers:
            one.set()

    def after(self, number: int) -> list[FeedEvent] | None:
        """The events from *number* on; None if some of them are no longer kept."""
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
        """One event with all changes since the state *last*, and the number of the next event."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop filling the feed."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    def _every(self) -> float:
        """Seconds until the next `_look`."""
        raise NotImplementedError

    async def _look(self) -> None:
        """Put what has changed."""
        raise NotImplementedError

    def _problem(self, error: OSError | CoterieError) -> FeedEvent:
        """The event that ends the feed after *error*."""
        return FeedEvent("problem", "", _encoded({"error": str(error)}))

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._every())
            try:
                await self._look()
            except (OSError, CoterieError) as error:
                if not shortage(error):
                    self.put(self._problem(error))
                    return

    def _fill(self) -> None:
        """Start to fill the feed; however that ends, the waiting pages are woken, and see that it is over."""
        if self._is_closed:
            return

        def ended(task: asyncio.Task[None]) -> None:
            if task is self._task and not task.cancelled():
                self.is_over = True
                self.wake()

        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(ended)


class RunFeed(Feed):
    """A root run and its child runs as tables; see `coterie.history.views.live`.

    Reading and folding take place on a thread, one call at a time.

    Args:
        bound: Gives the maximum number of turns of a plan.
    """

    def __init__(self, place: ServedRun, bound: Callable[[Plan], int | None] = lambda plan: None) -> None:
        super().__init__()
        self.place, self.runs, self.run, self._bound = place, place.runs, place.run, bound
        self.live = LiveRun(place.run)
        self._news: RunStream | None = None
        self._lock = asyncio.Lock()
        self._asked: dict[str, dict[str, Any]] = {}
        self._here: dict[str, Any] = {}
        self._stands: tuple[Any, Standing] | None = None
        self._proved: tuple[Plan, int | None] | None = None
        self._mark, self._changed = secrets.token_hex(4), 0

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The tables, or their changes since the position *last*."""
        return await to_its_end(self._state_after(last))

    async def _state_after(self, last: str) -> tuple[FeedEvent | None, int]:
        async with self._lock:
            if self._task is None:
                changes = await asyncio.to_thread(self._begin, last)
                self._fill()
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
        """The position of the tables, and how often they changed here: also without a record, as when a run is killed.

        So a page that was away at that moment has another id than the one that saw it. The position of very many runs
        is left out, and no later feed knows it.
        """
        position = self.live.position
        return f"{position_text(position) if len(position) <= NAMED else ''}@{self._mark}.{self._changed}"

    async def with_live(self, work: Callable[[LiveRun], T]) -> T:
        """The result of *work*, which has exclusive access to the newest state."""
        return await to_its_end(self._with_live(work))

    async def _with_live(self, work: Callable[[LiveRun], T]) -> T:
        async with self._lock:
            if self._task is None:
                await asyncio.to_thread(self._begin, "")
                self._fill()
            found = await asyncio.to_thread(self._read_and, work)
            self.wake()
            return found

    def _begin(self, last: str) -> Tables | None:
        """Fold the run, and return the changes since *last* if the fold passed that position."""
        self.live, self._news = LiveRun(self.run), RunStream(self.runs, self.run, text=False)  # anew after a failure
        position: Position = {}
        with suppress(UsageError):  # a browser may send anything as the last id that it knows
            position = read_position(last.partition("@")[0], self.run)
        later: list[RunRecord] = []
        for run, record in self._news.records():
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
        """Read new records, and put the changes for the waiting pages."""
        assert self._news is not None
        for run, record in self._news.records():
            self.live.apply(run, record)
        if changes := self._changes():
            self._changed += 1
            self.put(self._event("changes", changes))

    def _changes(self, *, whole: bool = False) -> Tables:
        here = self._about()
        changes = self.live.changes()
        if whole or here != self._here:
            self._here = here
            changes["here"] = {"run": here}
        return self._told(changes)

    def _every(self) -> float:
        return EVERY if self._here["owned"] else IDLE

    async def _look(self) -> None:
        async with self._lock:
            await asyncio.to_thread(self._put_news)
        self.wake()

    def _problem(self, error: OSError | CoterieError) -> FeedEvent:
        return _end_of(self.runs, self.run, error, self.id)

    def _event(self, kind: str, tables: Tables) -> FeedEvent:
        return FeedEvent(kind, self.id, _encoded(tables))

    def _about(self) -> dict[str, Any]:
        """What the records do not tell; it is determined again only after a record, an answer or a change of owner."""
        answers = 0
        with suppress(OSError):
            answers = self.runs.inbox(self.run).stat().st_mtime_ns
        sign = (sum(self.live.position.values()), self.runs.is_owned(self.run), answers)
        if self._stands is None or self._stands[0] != sign or sign[1]:
            self._stands = sign, standing(self.runs, self.live)
        stands: dict[str, Any] = msgspec.to_builtins(self._stands[1])
        return self.place.about() | stands | {"most": self._most()}

    def _most(self) -> int | None:
        """The proved maximum of turns of a run that has not ended."""
        root = self.live.runs[self.run]
        if (plan := root.plan.plan) is None or root.view.state in ENDS:
            return None
        if self._proved is None or self._proved[0] is not plan:
            self._proved = plan, self._bound(plan)
        return self._proved[1]

    def _told(self, tables: Tables) -> Tables:
        """Add the texts and fields of questions to *tables*, as attention does not have them, and remove single costs.

        The page requests the sums of costs; see `Api._cost`.
        """
        tables.pop("costs", None)
        rows = tables.get("attention", {}).items()
        for key in [key for key, row in rows if row is None]:
            self._asked.pop(key, None)
        asked = {key: row for key, row in rows if row is not None and row["kind"] == "question"}
        new = [key for key in asked if key not in self._asked]
        texts = with_prompts(self.runs, [msgspec.convert(asked[key], Attention) for key in new])
        forms = Forms(self.runs)
        for key, one in zip(new, texts, strict=True):
            self._asked[key] = {"text": one.text, "fields": forms.fields(one.run, one.turn)}
        for key, row in asked.items():
            row.update(self._asked[key])
        return tables


class OutputFeed(Feed):
    """The output and actions of a turn; the id of an event is the number of events up to it."""

    def __init__(self, runs: Runs, run: str, turn: str) -> None:
        super().__init__()
        self._runs, self._run, self._turn = runs, run, turn
        self._reader = StreamReader(runs, run, turn)
        self._count = 0

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The output after the event *last*."""
        if self._task is not None:  # requested again, so read from the beginning
            self._task.cancel()
            self._reader, self._count = await asyncio.to_thread(StreamReader, self._runs, self._run, self._turn), 0
        found = await self._read()
        left = found[int(last) if last.isdecimal() else 0 :]
        size, first = 0, len(left)
        while first and size < LONGEST:
            first -= 1
            size += len(left[first])
        self._fill()
        event = FeedEvent("output", str(self._count), _listed(left[first:], is_cut=first > 0, is_first=not last))
        return event, self.end

    async def _read(self) -> list[bytes]:
        heard = await asyncio.to_thread(lambda: list(self._reader.read()))
        self._count += len(heard)
        return [msgspec.json.encode({"attempt": one.attempt, "event": one.event}) for one in heard]

    def _every(self) -> float:
        return EVERY

    async def _look(self) -> None:
        if found := await self._read():
            self.put(FeedEvent("output", str(self._count), _listed(found)))
            self.wake()

    def _problem(self, error: OSError | CoterieError) -> FeedEvent:
        return _end_of(self._runs, self._run, error, str(self._count))


def _end_of(runs: Runs, run: str, error: OSError | CoterieError, id: str) -> FeedEvent:
    """Why *run* is not followed any more: it was removed, or *error*."""
    gone = isinstance(error, NoSuchRun) and error.run == run
    why = f"run {run} was removed" if gone else str(error)
    return FeedEvent("problem", id, _encoded({"error": why, "gone": gone}))


def _listed(events: list[bytes], *, is_cut: bool = False, is_first: bool = False) -> bytes:
    head = b'{"first":%s,"cut":%s,"events":[' % (str(is_first).lower().encode(), str(is_cut).lower().encode())
    return head + b",".join(events) + b"]}"


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)
