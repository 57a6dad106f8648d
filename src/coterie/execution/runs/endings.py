"""Why a run on disk or on a cluster does not go on; `coterie.history.views.ending` has the sentences."""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from coterie.base.ids import child_run_id
from coterie.errors import CoterieError, RetryRefused
from coterie.execution.runs import control
from coterie.execution.runs.attention import unanswered
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import STREAM
from coterie.history.journal.records import MERGE_CONFLICT, Record
from coterie.history.views.attention import Attention
from coterie.history.views.ending import EndFacts, Ending
from coterie.history.views.live import LiveRun


def ending_of(
    runs: Runs, run: str, facts: EndFacts, asked: Iterable[Attention], *, is_owned: bool | None = None
) -> Ending | None:
    """Why the root run *run* does not go on; None: it works, or it completed.

    Args:
        facts: Those of its records.
        asked: Its open requests by its records; answers in its inbox are looked for.
    """
    waiting = [one.id for one in unanswered(runs, run, list(asked))] if facts.state == "stopped" else []
    way_on = _way_on(runs, run, facts) if facts.state == "failed" else ""
    is_owned = runs.is_owned(run) if is_owned is None else is_owned
    return facts.ending(run, way_on=way_on, is_owned=is_owned, waiting=waiting)


class Standing(Struct, frozen=True, kw_only=True):
    """What the records of a run do not tell of it.

    Attributes:
        owned: Whether a process drives it.
        ending: Why it does not go on.
        answered: The ids of questions whose answers wait for the next owner.
        heard: When an attempt last printed anything, in whole Unix seconds; 0: not known.
    """

    owned: bool
    ending: Ending | None
    answered: tuple[str, ...] = ()
    heard: int = 0


def standing(runs: Runs, live: LiveRun) -> Standing:
    """The present state of the root run of *live*; *live* learns whether it has an owner."""
    run = live.run
    is_owned = runs.is_owned(run)
    live.own(is_owned)
    if is_owned:
        return Standing(owned=True, ending=None, heard=_heard(runs, live))
    asked = live.open_attention(is_owned=False)
    left = unanswered(runs, run, asked)
    ending = ending_of(runs, run, live.ends, left, is_owned=False)
    return Standing(owned=False, ending=ending, answered=tuple(one.id for one in asked if one not in left))


def _heard(runs: Runs, live: LiveRun) -> int:
    marks = [child_run_id(run, turn.id, turn.attempt) for run, known in live.runs.items() for turn in known.working()]
    times = [0.0]
    for mark in marks if runs.is_here else ():
        with suppress(OSError):
            times.append((runs.folder(mark) / STREAM).stat().st_mtime)
    return int(max(times))


def facts_of(records: Iterable[Record]) -> EndFacts:
    """The facts of the *records* of a root run."""
    facts = EndFacts()
    for record in records:
        facts.apply(record)
    return facts


def _way_on(runs: Runs, run: str, facts: EndFacts) -> str:
    """How a failed run can be continued; see `coterie.execution.kernel.run_exit.RunExit`."""
    if facts.reason == MERGE_CONFLICT:
        return "merge"
    try:
        control.retriable(runs, run)
    except RetryRefused:
        return "fork"
    except (OSError, CoterieError):
        return ""
    return "retry"
