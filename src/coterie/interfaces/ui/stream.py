"""The single stream of a browser: it names the topics of its tabs, and gets the state of each, then its changes.

A topic is `home?QUERY`, `run/KEY`, `output/KEY?turn=TURN` or `team`. Each event has the topic, and an id for the state
after it. A stream that names the last id of a topic gets the later events.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import parse_qs, unquote

import msgspec

from coterie.errors import CoterieError, UsageError
from coterie.interfaces.ui.feeds import Feed, FeedEvent, OutputFeed, RunFeed
from coterie.interfaces.ui.home import HomeFeed, HomeList
from coterie.interfaces.ui.places import ServedRuns

PING = 15.0
"""Seconds without an event before an empty one is sent, so that a page notices a lost server."""
KEPT = 60.0
"""Seconds for which a feed without readers is kept; at most *MANY* such feeds are kept."""
MANY = 12


class Feeds:
    """The feeds that pages read, shared by all of them.

    Attributes:
        streams: The number of open streams, one for each browser.
    """

    def __init__(self, places: ServedRuns, home: HomeList, others: Mapping[str, Callable[[], Feed]] = {}) -> None:
        self.places, self.home, self._others = places, home, others
        self._feeds: dict[str, Feed] = {}
        self._unread: dict[str, float] = {}
        self._opening = asyncio.Lock()
        self.closing = asyncio.Event()
        self.streams = 0

    async def run(self, key: str) -> RunFeed:
        """The feed of a run.

        Raises:
            NoSuchRun, UsageError: If *key* names none.
        """
        feed = await self._feed(f"run/{key}")
        assert isinstance(feed, RunFeed)
        if not feed.watchers:
            self._unread.setdefault(f"run/{key}", time.monotonic())
            self._close_old()
        return feed

    async def open(self, topic: str) -> Feed:
        """The feed of *topic*; `release` must follow."""
        if topic.startswith("output/"):
            key, _, query = topic.removeprefix("output/").partition("?")
            place = await asyncio.to_thread(self.places.find, unquote(key))
            below, _, turn = parse_qs(query).get("turn", [""])[-1].rpartition("/")
            run = f"{place.run}/{below}" if below else place.run
            return await asyncio.to_thread(OutputFeed, place.runs, run, turn)
        feed = await self._feed(topic)
        self._unread.pop(topic, None)
        return feed

    def release(self, topic: str, feed: Feed) -> None:
        """Note that a page no longer reads *feed*."""
        if topic.startswith("output/"):
            feed.close()
        elif not feed.watchers:
            self._unread[topic] = time.monotonic()
        self._close_old()

    def _close_old(self) -> None:
        """Close feeds that have had no readers for long, or if there are many."""
        old = sorted(self._unread, key=self._unread.__getitem__)
        for topic in old:
            if len(old) > MANY or time.monotonic() - self._unread[topic] > KEPT:
                old = old[1:]
                del self._unread[topic]
                if (gone := self._feeds.pop(topic, None)) is not None:
                    gone.close()

    def close(self) -> None:
        """End all streams and feeds."""
        self.closing.set()
        for feed in self._feeds.values():
            for one in feed.watchers:
                one.set()
            feed.close()

    async def _feed(self, topic: str) -> Feed:
        async with self._opening:
            if topic not in self._feeds or self._feeds[topic].is_over:
                name, _, rest = topic.partition("/")
                if name == "run":
                    self._feeds[topic] = RunFeed(
                        await asyncio.to_thread(self.places.find, unquote(rest)), self.home.bound
                    )
                elif topic.partition("?")[0] == "home":
                    self._feeds[topic] = HomeFeed(self.home, topic.partition("?")[2])
                elif topic in self._others:
                    self._feeds[topic] = self._others[topic]()
                else:
                    raise LookupError(topic)
            return self._feeds[topic]


async def events(feeds: Feeds, topics: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The events of *topics*, each given with the id that the page has of it."""
    sent: asyncio.Queue[bytes] = asyncio.Queue(maxsize=64)
    tasks = [asyncio.create_task(_pass_on(feeds, topic, last, sent.put)) for topic, last in topics.items()]
    tasks.append(asyncio.create_task(_end(feeds.closing, sent)))
    feeds.streams += 1
    try:
        yield b": coterie\n\n"
        while not feeds.closing.is_set():
            try:
                async with asyncio.timeout(PING):
                    yield await sent.get()
            except TimeoutError:
                yield b": ping\n\n"
    finally:
        feeds.streams -= 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(closing: asyncio.Event, sent: "asyncio.Queue[bytes]") -> None:
    """Wake the reader of *sent* when the server ends."""
    await closing.wait()
    await sent.put(b": end\n\n")


async def _pass_on(feeds: Feeds, topic: str, last: str, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send the state of *topic* and its changes, until cancelled."""
    try:
        feed = await feeds.open(topic)
    except (OSError, CoterieError, LookupError) as error:
        await send(_line(topic, FeedEvent("problem", last, msgspec.json.encode({"error": str(error), "gone": True}))))
        return
    wake = asyncio.Event()
    feed.watchers.add(wake)
    try:
        first, number = await feed.state(last)
        if first is not None:
            await send(_line(topic, first))
        while True:
            wake.clear()
            found = feed.after(number)
            if found is None:  # this page is too slow for single changes, so it gets the whole state
                first, number = await feed.state("")
                found = [first] if first is not None else []
            else:
                number += len(found)
            for event in found:
                await send(_line(topic, event))
            if feed.is_over:
                if not (found and found[-1].kind == "problem"):
                    raise UsageError("the changes could not be read any more; load the page again")
                return
            await wake.wait()
    except (OSError, CoterieError) as error:
        await send(_line(topic, FeedEvent("problem", last, msgspec.json.encode({"error": str(error)}))))
    finally:
        feed.watchers.discard(wake)
        feeds.release(topic, feed)


def _line(topic: str, event: FeedEvent) -> bytes:
    """*event* in the form of `text/event-stream`."""
    data = b'{"topic":%s,"data":%s}' % (msgspec.json.encode(topic), event.data)
    return b"event: %s\nid: %s\ndata: %s\n\n" % (event.kind.encode(), event.id.encode(), data)
