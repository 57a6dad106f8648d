"""What agents print while they work, from the files of their attempts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie import files
from coterie.backends.base import Text
from coterie.ids import child_run_id
from coterie.journal.records import TurnStarted
from coterie.runs.attempt_folders import STREAM_MOST, AttemptFolders
from coterie.runs.repository import Runs

CHECK_EVERY = 0.1
"""Seconds between two looks at the files of attempts that are followed."""
QUIET_CHECKS = 2
"""After so many looks in a row without an owner and without new output, all was read."""


class Printed(Struct, frozen=True, kw_only=True):
    """What an attempt printed on one channel: `answer`, `thinking` or `log`."""

    run: str
    turn: str
    attempt: int
    channel: str
    text: str


class StreamReader:
    """Reads what the attempts of a run have printed since it read last.

    Args:
        turn: Only this turn's; a turn that is a child run has all turns in it.
    """

    def __init__(self, runs: Runs, run: str, turn: str = "") -> None:
        self._runs, self._folders = runs, AttemptFolders(runs)
        self._run, self._turn = run, turn
        self._seen: dict[Path, int] = {}
        self._attempts: dict[str, list[TurnStarted]] = {}

    def read(self) -> list[Printed]:
        """What is new, in the order in which attempts began."""
        return self._news(self._run, self._turn)

    async def follow(self) -> AsyncIterator[Printed]:
        """What is there and what comes, until the run has no owner."""
        quiet = 0
        while quiet < QUIET_CHECKS:
            owned, news = self._runs.is_owned(self._run), self.read()
            for one in news:
                yield one
            quiet = 0 if owned or news else quiet + 1
            await asyncio.sleep(CHECK_EVERY)

    def _news(self, run: str, turn: str) -> list[Printed]:
        known = self._attempts.setdefault(run, [])
        last = known[-1].seq + 1 if known else 1
        known += [record for record in self._runs.read(run, last) if isinstance(record, TurnStarted)]
        found = []
        for start in known:
            if turn in ("", start.turn):
                found += self._of_attempt(run, start)
                child = child_run_id(run, start.turn, start.attempt)
                if self._runs.has(child):
                    found += self._news(child, "")
        return found

    def _of_attempt(self, run: str, start: TurnStarted) -> list[Printed]:
        """What is new in the file of an attempt, up to its last whole line."""
        path = self._folders.attempt_folder(run, start.turn, start.attempt) / "stream.jsonl"
        begin = self._seen.get(path, 0)
        try:
            if path.stat().st_size <= begin:
                return []
            with files.open_private(path, "rb") as file:
                file.seek(begin)
                data = file.read(2 * STREAM_MOST)
        except FileNotFoundError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self._seen[path] = begin + len(data)
        found = []
        for line in data.splitlines():
            try:
                event = msgspec.json.decode(line, type=Text)
            except msgspec.DecodeError:
                continue  # a tool or its usage
            found.append(
                Printed(
                    run=run,
                    turn=start.turn,
                    attempt=start.attempt,
                    channel=event.channel,
                    text=event.text,
                )
            )
        return found
