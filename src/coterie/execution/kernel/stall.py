"""Watch an attempt for several signs of life: an agent that waits for its provider lacks some of them for long.

An attempt that shows no sign of life for some time needs a person; it is never ended for that reason. Its time-out
still applies.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from coterie.history.views.words import duration
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import AgentPlan

AFTER = 600.0
"""Seconds without a sign of life after which a coding agent may be stuck."""
EVERY = 15.0
"""The longest time between two checks, in seconds."""
SIGNS = ("event", "cpu", "process", "file")
_IDLE = 0.01
"""The share of one processor below which a process counts as idle; timers and garbage collection use less."""
_FILES_MOST = 5_000
"""How many files and folders of a working directory are checked, at most: the event loop waits meanwhile."""


class Quiet(Struct, frozen=True, kw_only=True, tag="quiet", tag_field="kind"):
    """The set of missing signs of life of an attempt has changed.

    Attributes:
        signs: The missing signs.
        seconds: How long none of them was seen.
        facts: Why it may be stuck; empty if some signs are present.
    """

    signs: tuple[str, ...] = ()
    seconds: float = 0.0
    facts: str = ""


def stall_after(agent: AgentPlan) -> float | None:
    """Seconds without a sign of life after which *agent* may be stuck; None: the agent is not watched.

    Coding agents are watched, and every agent with the option `stall_after`; 0 turns it off.
    """
    after = agent.options.get("stall_after", AFTER if agent.backend in CODING else 0)
    return float(after) if after else None


async def watch_signs(
    after: float,
    folder: Path,
    events: Callable[[], int],
    activity: Callable[[], tuple[float, frozenset[int]] | None],
    waits: Callable[[], bool],
    tell: Callable[[Quiet], object],
) -> None:
    """Call *tell* whenever the set of missing signs of life changes, until this is cancelled.

    Args:
        after: Seconds after which an unseen sign is missing.
        folder: Its working directory.
        events: Returns the number of its events so far.
        activity: Returns the CPU seconds of its processes and their pids; None if they are not known.
        waits: Whether it now waits for a person or for its gates, which is not a stall.
    """
    now = asyncio.get_running_loop().time
    watch = StallWatch(now(), after)
    while True:
        cpu, pids = activity() or (None, None)
        seen = {"event": events(), "cpu": cpu, "process": pids, "file": newest(folder)}
        if waits():
            watch.restart(now())
        if watch.look(at := now(), seen):
            facts = watch.facts(at) if watch.is_stuck else ""
            tell(Quiet(signs=watch.missing, seconds=round(watch.quiet(at), 3), facts=facts))
        await asyncio.sleep(watch.every)


class StallWatch:
    """Remembers when each sign of life of an attempt was last seen.

    Args:
        after: Seconds after which an unseen sign is missing.
    """

    def __init__(self, now: float, after: float) -> None:
        self.after = after
        self.every = min(EVERY, after / 4)
        self.missing: tuple[str, ...] = ()
        self._seen: dict[str, object] = {}
        self._last = dict.fromkeys(SIGNS, now)
        self._looked = now

    def look(self, now: float, seen: Mapping[str, object]) -> bool:
        """Update each sign with its value *seen* now; return whether the set of missing signs has changed.

        A sign without a value cannot be observed and counts as seen.
        """
        for sign in SIGNS:
            was, value = self._seen.get(sign), seen.get(sign)
            if sign == "cpu" and isinstance(value, float) and isinstance(was, float):
                changed = abs(value - was) >= _IDLE * (now - self._looked)
            else:
                changed = value != was
            if changed or value is None:
                self._last[sign] = now
        self._seen, self._looked = dict(seen), now
        before, self.missing = self.missing, tuple(one for one in SIGNS if now - self._last[one] >= self.after)
        return self.missing != before

    def restart(self, now: float) -> None:
        """Restart all timers, because the attempt waited for a person or for its gates."""
        self._last = dict.fromkeys(SIGNS, now)

    @property
    def is_stuck(self) -> bool:
        """Whether all signs are missing."""
        return self.missing == SIGNS

    def quiet(self, now: float) -> float:
        """Seconds without any of the missing signs."""
        return now - max((self._last[one] for one in self.missing), default=now)

    def facts(self, now: float) -> str:
        """Why the attempt may be stuck."""
        return (
            f"for {duration(self.quiet(now))} it has said nothing, its processes have computed nothing, none began or "
            "ended, and no file in its working directory changed"
        )


def newest(folder: Path) -> tuple[int, int] | None:
    """When a file below *folder* last changed, and how many files it has, without hidden folders; None: no folder."""
    count = at = 0
    try:
        for entry in _entries(folder):
            count += 1
            at = max(at, entry.stat(follow_symlinks=False).st_mtime_ns)
            if count >= _FILES_MOST:
                break
    except OSError:
        return None
    return at, count


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    left = [os.fspath(folder)]
    while left:
        with os.scandir(left.pop()) as found:
            for entry in found:
                if entry.name.startswith("."):
                    continue
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
