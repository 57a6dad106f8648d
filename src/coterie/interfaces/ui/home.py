"""The list of all runs: runs that need a person, running ones, and ended ones."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import msgspec

from coterie.errors import CoterieError
from coterie.execution.runs.attention import open_in
from coterie.execution.runs.index import Entry
from coterie.execution.runs.rows import RunEntry, RunRows
from coterie.interfaces.ui.feeds import Feed, FeedEvent, to_its_end
from coterie.interfaces.ui.places import ServedRuns, key_of
from coterie.interfaces.ui.questions import Forms
from coterie.team.planning.plan import Plan

EVERY = 1.0
"""Seconds between two readings of the runs; more if a reading takes long."""
SHARE = 0.1
"""The share of the time that readings may take."""
ROWS = 60
"""The number of runs to show by default; *MOST* is the maximum."""
MOST = 1000
ASKED = 50
"""The number of runs whose open questions are listed."""
OF_RUN = ("turns", "done", "iteration", "most_iterations", "max_turns", "cost", "max_cost", "epoch")
"""The fields of `coterie.history.views.rows.RunRow` in a row; null if the journal is long and was not read."""
GROUPS = ("person", "running", "stopped", "failed", "completed")


class HomeList:
    """All runs of some places, cached between readings; one reading at a time.

    Args:
        bound: Gives the maximum number of turns of a plan.
    """

    def __init__(self, places: ServedRuns, bound: Callable[[Plan], int | None]) -> None:
        self.bound = bound
        self._rows = [RunRows(home, bound) for home in places.homes]
        self._homes = places.homes
        self._entries: list[tuple[str, RunRows, RunEntry]] = []
        self._prompts: dict[str, str] = {}
        self._asked: dict[str, tuple[tuple[str, float, int], list[dict[str, Any]]]] = {}
        self._lock = asyncio.Lock()
        self._at = -1e9
        self.took = 0.0

    async def shown(self, query: str) -> dict[str, Any]:
        """The content of the page with *query* now."""
        return await to_its_end(self._shown_now(query))

    async def _shown_now(self, query: str) -> dict[str, Any]:
        async with self._lock:
            begin = time.monotonic()
            if begin - self._at >= EVERY / 2:
                await asyncio.to_thread(self._look)
                self._at = time.monotonic()
            shown = await asyncio.to_thread(self._shown, query)
            self.took = time.monotonic() - begin
            return shown

    def _look(self) -> None:
        found = [(rows, entry) for rows in self._rows for entry in rows.listing(everywhere=True)]
        ids: dict[str, set[str]] = {}
        for _, entry in found:
            ids.setdefault(entry.run, set()).add(entry.folder)
        named = [(key_of(one.run, one.folder, is_shared=len(ids[one.run]) > 1), rows, one) for rows, one in found]
        self._entries = sorted(named, key=lambda one: GROUPS.index(one[2].group))
        self._prompts = {key: self._prompts[key] for key, _, _ in named if key in self._prompts}

    def _shown(self, query: str) -> dict[str, Any]:
        given = {name: values[-1] for name, values in parse_qs(query).items()}
        words, group = given.get("q", "").lower().split(), given.get("state", "")
        limit = int(given["limit"]) if given.get("limit", "").isdecimal() else ROWS
        counts = dict.fromkeys(GROUPS, 0)
        attention, fitting, found = self._attention(), [], set[str]()
        for key, rows, entry in self._entries:
            if words and not all(word in self._text(key, entry) for word in words):
                continue
            found.add(key)
            counts[entry.group] += 1
            if group in ("", entry.group):
                fitting.append((key, rows, entry))
        top = fitting[: min(limit, MOST)]
        details: dict[str, Any] = {}
        for rows in self._rows:
            details |= rows.details(entry.key for _, its, entry in top if its is rows)
        shown = {}
        for key, _, entry in top:
            detail = details.get(entry.key)
            more: dict[str, Any] = (
                msgspec.to_builtins(detail, enc_hook=str) if detail is not None else {"problem": True}
            )
            row = more.pop("row", None) or {}
            more |= {name: row.get(name) for name in OF_RUN}
            self._prompts[key] = more.get("prompt", "")
            shown[key] = msgspec.to_builtins(entry) | more | {"key": key}
        return {
            "counts": counts,
            "order": list(shown),
            "rows": shown,
            "attention": [one for one in attention if not words or one["key"] in found],
            "of": len(fitting),
        }

    def _text(self, key: str, entry: RunEntry) -> str:
        """The text that a search examines, with that of the run's questions."""
        asked = " ".join(f"{one['id']} {one['text']}" for one in self._asked.get(key, (None, []))[1])
        return f"{entry.run} {entry.team} {entry.cwd} {entry.words} {self._prompts.get(key, '')} {asked}".lower()

    def _attention(self) -> list[dict[str, Any]]:
        """All open requests for a person in all runs, oldest first."""
        asked: dict[str, tuple[tuple[str, float, int], list[dict[str, Any]]]] = {}
        for key, rows, entry in [one for one in self._entries if one[2].group == "person"][:ASKED]:
            sign = (entry.state, entry.at, entry.answers)
            if self._asked.get(key, (None, []))[0] == sign:
                asked[key] = self._asked[key]
                continue
            found: list[dict[str, Any]] = []
            with suppress(OSError, CoterieError):
                home = self._homes[self._rows.index(rows)]
                runs, run = home.open(Entry(run=entry.run, folder=entry.folder))
                forms = Forms(runs)
                more = {"key": key, "team": entry.team, "driven": entry.state == "running"}
                found = [
                    msgspec.to_builtins(one)
                    | more
                    | ({"fields": forms.fields(one.run, one.turn)} if one.kind == "question" else {})
                    for one in open_in(runs, run)
                ]
            asked[key] = (sign, found)
        self._asked = asked
        return sorted((one for _, found in asked.values() for one in found), key=lambda one: float(one["since"]))


class HomeFeed(Feed):
    """The list as a page shows it, with its search and filters; the id of an event is a number."""

    def __init__(self, runs: HomeList, query: str) -> None:
        super().__init__()
        self._runs, self._query = runs, query
        self._shown: dict[str, Any] | None = None
        self._opening = asyncio.Lock()
        self._n = 0

    async def state(self, last: str) -> tuple[FeedEvent | None, int]:
        """The whole list, which is short."""
        async with (
            self._opening
        ):  # a second page must not replace the state of the first one without sending it the changes
            if self._shown is None:
                self._shown = await self._runs.shown(self._query)
                self._fill()
        return FeedEvent("state", str(self._n), msgspec.json.encode(self._shown)), self.end

    def _every(self) -> float:
        return max(EVERY, self._runs.took / SHARE)

    async def _look(self) -> None:
        try:
            now = await self._runs.shown(self._query)
        except (OSError, CoterieError) as error:  # other runs may be read again
            self.put(FeedEvent("problem", str(self._n), msgspec.json.encode({"error": str(error)})))
            self.wake()
            return
        assert self._shown is not None
        if changes := _changes(self._shown, now):
            self._n += 1
            self._shown = now
            self.put(FeedEvent("changes", str(self._n), msgspec.json.encode(changes)))
            self.wake()


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The differences of *now* from *before*; of the rows only the changed ones."""
    changes = {name: value for name, value in now.items() if name != "rows" and value != before[name]}
    rows = {key: row for key, row in now["rows"].items() if row != before["rows"].get(key)}
    rows |= dict.fromkeys(before["rows"].keys() - now["rows"].keys())
    return changes | ({"rows": rows} if rows else {})
