"""Watching a run from another process: its records and those of its child runs, as they become durable."""

import asyncio
from collections.abc import AsyncGenerator

from coterie.ids import child_run_id
from coterie.journal.jsonl import JOURNAL, JsonlStore
from coterie.journal.records import Record, TurnStarted

LOOK_EVERY = 0.1
"""Seconds between two looks for child runs that have begun, and at whether somebody still owns the run."""
ENOUGH = 2
"""Looks in a row, at a run that nobody owns, at which there was nothing new: then all has been read."""

News = tuple[str, Record]
"""A record, with the id of its run."""


async def follow(store: JsonlStore, run: str, look_every: float = LOOK_EVERY) -> AsyncGenerator[News, None]:
    """Every record of *run* and its child runs, and then each that comes; ends when nobody owns the run.

    Each run's records come in order, and a child's begin after the record that its turn started with.

    Raises:
        NoSuchRun, JournalUnreadable: If one cannot be read.
    """
    news: asyncio.Queue[News] = asyncio.Queue()
    readers = [asyncio.create_task(_read(store, run, news))]
    children: list[str] = []
    quiet = 0
    try:
        while quiet < ENOUGH:
            owned, heard = store.owned(run), False
            while not news.empty():
                which, record = news.get_nowait()
                heard = True
                if isinstance(record, TurnStarted):
                    children.append(child_run_id(which, record.turn, record.attempt))
                yield which, record
            for child in [one for one in children if (store.folder(one) / JOURNAL).exists()]:
                heard = True
                children.remove(child)
                readers.append(asyncio.create_task(_read(store, child, news)))
            for reader in readers:
                if reader.done():
                    reader.result()  # a journal that cannot be read
            quiet = 0 if owned or heard else quiet + 1
            await asyncio.sleep(look_every)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read(store: JsonlStore, run: str, news: "asyncio.Queue[News]") -> None:
    async for record in store.follow(run):
        news.put_nowait((run, record))
