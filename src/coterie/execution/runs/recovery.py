"""Recovery: resume the runs of a directory that were cut off without anyone wanting them to stop."""

import asyncio
import time
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.agents.actors.turns import missing
from coterie.errors import CoterieError, NoSuchRun, RunIsFinished, RunIsOwned
from coterie.execution.runs import attention, index, launch
from coterie.execution.runs.ended import EndedRuns
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.journal.status import ENDS
from coterie.history.views.recoveries import Recoveries


class Recovery(Struct, frozen=True, kw_only=True):
    """A run that was recovered, or why it was not.

    Attributes:
        outcome: How it ended or stopped; None: it was not resumed.
        why: Why it was not resumed; empty: it was, or another process is at it.
    """

    run: str
    outcome: Outcome | None = None
    why: str = ""


async def recover(state_dir: str | Path = index.STATE_DIR, *, at_once: int = 8, **how: Any) -> tuple[Recovery, ...]:
    """Resume the root runs of *state_dir* that were cut off, or stopped by the end of their process.

    A run that waited goes on as well if its quota has opened, the time of its question is over, or its answer has come.
    A run that a person or a limit has stopped stays stopped. Two processes may recover the same directory at once.

    Args:
        at_once: How many runs are driven at the same time.
        how: Further arguments of `resume`, such as `limits`, `observe` and `human`.

    Returns:
        What became of each run that could go on, in the order in which they began.
    """
    runs, slots = Runs(Path(state_dir)), asyncio.Semaphore(at_once)

    async def one(run: str) -> Recovery | None:
        async with slots:
            return await _recovered(runs, run, how)

    with EndedRuns() as ended:
        found = [entry.run for entry in _kept_in(runs.root) if ended.status(entry.folder).state not in ENDS]
    due = [run for run in found if _is_due(runs, run)]
    return tuple(filter(None, await asyncio.gather(*map(one, due))))


def _kept_in(state_dir: Path) -> list[index.Entry]:
    """The runs that are kept in *state_dir* itself, oldest first."""
    entries, real = index.oldest_first(index.newest(state_dir)), state_dir.resolve()
    homes = {home for home in {index.home_of(Path(one.folder)) for one in entries} if home.resolve() == real}
    return [one for one in entries if index.home_of(Path(one.folder)) in homes]


def _is_due(runs: Runs, run: str) -> bool:
    """Whether *run* can go on, or cannot be read, which its own recovery says: others do not depend on it."""
    with suppress(OSError, CoterieError):
        return goes_on(runs, run)
    return True


def goes_on(runs: Runs, run: str) -> bool:
    """Whether *run* can go on: no process drives it, and neither a person nor a limit stopped it."""
    status = runs.store.status(run)
    if status.state == "running" or status.state in ENDS or not (records := runs.journal(run).records):
        return False
    owners = (one for one in records if isinstance(one, r.RunStopped | r.RunOwned))
    last = max(owners, key=attrgetter("seq"), default=None)
    if not isinstance(last, r.RunStopped) or last.by == "process":
        return True
    if last.by:
        return False
    now = time.time()
    if 0 < last.until <= now or any(runs.inbox(run).glob("*.json")):
        return True
    return any(one.due is not None and one.due <= now for one in attention.open_in(runs, run))


async def _recovered(runs: Runs, run: str, how: dict[str, Any]) -> Recovery | None:
    try:
        past = Recoveries()
        for one in runs.history(run):
            past.apply(*one)
        if past.were_enough:
            why = f"{attention.NO_FURTHER}; `coterie resume {run}` tries once more"
            return Recovery(run=run, why=why)
        if absent := next(missing(runs.plan(run)), None):
            return Recovery(run=run, why=absent.message)
        return Recovery(run=run, outcome=await launch.resume(run, state_dir=runs.root, **how))
    except (RunIsOwned, RunIsFinished, NoSuchRun):
        return None  # another process was faster
    except (OSError, CoterieError) as error:
        return Recovery(run=run, why=str(error))
