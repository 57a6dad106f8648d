"""Find, follow and answer requests in runs that need a person, from another process."""

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec

from coterie.agents.workspace.trees import worktree
from coterie.base.clock import SystemClock
from coterie.errors import CoterieError
from coterie.execution.runs import control, messages
from coterie.execution.runs.ended import EndedRuns
from coterie.execution.runs.messages import Verdict
from coterie.execution.runs.repository import Runs, Where, location_at
from coterie.history.journal.rules import root_of
from coterie.history.journal.status import ENDS, RunStatus
from coterie.history.views.attention import OF_OWNERS, Attention, AttentionView
from coterie.history.views.recoveries import MOST

CHECK_EVERY = 0.1
"""Seconds between two checks of `follow` for changes in the runs that it follows."""
FIND_EVERY = 5
"""The number of checks of `follow` between two searches for further runs."""
NO_FURTHER = f"it was recovered {MOST} times without getting further"


def open_in(runs: Runs, run: str) -> list[Attention]:
    """List open requests of *run* and its child runs that need a person, oldest first; *run* may be a child run.

    Questions whose answer waits for the next owner are left out.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
    """
    return unanswered(runs, root_of(run), _recorded(runs, run))


def _recorded(runs: Runs, run: str) -> list[Attention]:
    """List open requests of *run* and its child runs by their records, oldest first."""
    root = root_of(run)
    return with_prompts(runs, [one for one in _open(runs, root, _read(runs, root)) if _is_in(one, run)])


def unanswered(runs: Runs, root: str, found: list[Attention]) -> list[Attention]:
    """The requests in *found* without the questions whose answer is already in the inbox of the root run *root*."""
    asked = [one.id for one in found if one.kind in ("question", "parked")]
    if not asked:
        return found
    from coterie.execution.runs.messages.verdicts import addressed  # imports every engine

    answered = {addressed(turn, asked) for turn in messages.answered_turns(runs.inbox(root))}
    return [one for one in found if one.id not in answered or one.id not in asked]


def find(where: Where, *, everywhere: bool = False) -> Iterator[Attention]:
    """Find open requests in the runs at *where*; with *everywhere* also in runs of other directories.

    Unreadable runs are left out; `coterie runs` shows them.
    """
    location = location_at(where)
    with EndedRuns() as ended:
        for entry in location.newest(everywhere=everywhere):
            runs, run = location.open(entry)
            status = ended.status(entry.folder) if os.path.isabs(entry.folder) else runs.store.status(run)
            if _may_need(runs, run, status):
                with suppress(OSError, CoterieError):
                    yield from open_in(runs, run)


def answer(runs: Runs, run: str, id: str, word: str) -> Verdict:
    """Answer an open request of *run*.

    Args:
        id: The id of the request, with or without the address of *run* if that is a child run; for a parked turn also
            that of the permission for which it was parked. Empty: the only open request.
    """
    root, _, below = run.partition("/")
    found = _recorded(runs, run)
    ids = [one.id for one in found]
    names = {id, f"{below}/{id}", *(one.partition("?")[0] for one in (id, f"{below}/{id}"))}
    named = [one for one in found if not id or one.id in names]
    if not ids:
        return Verdict(status="refused", detail=f"nothing in {run} needs a person")
    if not named:
        return Verdict(status="refused", detail=f"nothing with the id {id!r} needs a person; {_listed(ids)}")
    if len(named) > 1:
        return Verdict(status="refused", detail=f"say which one the answer is for; {_listed(ids)}")
    [one] = named
    match one.kind:
        case "permission" | "stall" | "config":
            return control.send(runs, root, messages.permission(word, one.id))
        case "question" | "parked":
            return control.answer(runs, root, one.id, word)
        case _:
            return Verdict(status="refused", detail=f"no word answers {one.id}; when it is resolved: {one.command}")


def _listed(ids: list[str]) -> str:
    return f"open: {', '.join(ids) or 'none'}"


class AttentionChange(NamedTuple):
    """A request that needs a person *is_open* now, or no longer is."""

    is_open: bool
    attention: Attention


async def follow(
    where: Where, only: tuple[Runs, str] | None = None, *, everywhere: bool = False
) -> AsyncGenerator[AttentionChange, None]:
    """Yield the open requests, as `find` does, and then each change.

    Args:
        only: Follow only this run, and end when no process drives it any more.
    """
    location, checks, known = location_at(where), 0, dict[tuple[str, str, float], Attention]()
    followed: dict[tuple[str, str], _Followed] = {}
    try:
        while True:
            if only is not None:
                names = [("", root_of(only[1]))]
                followed.setdefault(names[0], _Followed(only[0], root_of(only[1])))
            elif checks % FIND_EVERY == 0:
                entries = {(entry.folder, entry.run): entry for entry in location.newest(everywhere=everywhere)}
                names = list(entries)
                followed |= {name: _Followed(*location.open(entries[name])) for name in names if name not in followed}
            for name in names:  # an ended run is seldom opened again
                if checks % FIND_EVERY == 0 or not followed[name].has_ended:
                    followed[name].check()
            checks += 1
            found = [(followed[name].runs, one) for name in names for one in followed[name].unanswered]
            if only is not None:
                found = [(location, one) for location, one in found if _is_in(one, only[1])]
            now = {(one.run, one.id, one.since): (location, one) for location, one in found}
            for key in [key for key in known if key not in now]:
                yield AttentionChange(False, known.pop(key))
            new = {key: one for key, one in now.items() if key not in known}
            for key, asked in zip(new, _with_prompts(new.values()), strict=True):
                known[key] = asked
                yield AttentionChange(True, asked)
            if only is not None and not followed[names[0]].is_running:
                return
            await asyncio.sleep(CHECK_EVERY)
    finally:
        for one in followed.values():
            one.stop()


class _Followed:
    """A root run that is followed while a process drives it, and read once after that.

    Attributes:
        open: Its open requests at the last check.
    """

    def __init__(self, runs: Runs, run: str) -> None:
        self.runs, self._run = runs, run
        self._status: RunStatus | None = None
        self._view = AttentionView()
        self._task: asyncio.Task[None] | None = None
        self._unowned = 0.0
        """When it was last seen without an owner; earlier requests of attempts are void."""
        self.open: list[Attention] = []

    @property
    def is_running(self) -> bool:
        """Whether a process drives it, or did at the last check so that there may be more to read."""
        return self._task is not None

    @property
    def has_ended(self) -> bool:
        """Whether it had ended at the last check."""
        return self._task is None and self._status is not None and self._status.state in ENDS

    @property
    def unanswered(self) -> list[Attention]:
        """The open requests, without questions whose answer waits for the next owner."""
        return self.open if self.is_running else unanswered(self.runs, self._run, self.open)

    def check(self) -> None:
        """Read new records."""
        if not self.runs.is_owned(self._run):
            self._unowned = SystemClock().now()
        if self._task is not None:
            if not self._task.done():
                found = _open(self.runs, self._run, self._view)
                self.open = [one for one in found if one.since >= self._unowned or one.kind not in OF_OWNERS]
                return
            self._task = None
        with suppress(OSError, CoterieError):
            status = self.runs.store.status(self._run)
            if status.state == "running":
                self._view = AttentionView()
                self._task = asyncio.create_task(self._follow())
            elif status != self._status:
                may_need = _may_need(self.runs, self._run, status)
                found = _open(self.runs, self._run, _read(self.runs, self._run)) if may_need else iter(())
                self.open = [one for one in found if one.kind not in OF_OWNERS]  # an owner may start just now
            self._status = status

    def stop(self) -> None:
        """Stop following it."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        with suppress(CoterieError):  # it is unreadable, as `coterie runs` shows
            async with aclosing(self.runs.follow(self._run)) as news:
                async for run, record in news:
                    self._view.apply(run, record)


def _may_need(runs: Runs, run: str, status: RunStatus) -> bool:
    """Whether *run* may need a person: an ended run only if it has work in a work tree."""
    return status.state not in ENDS or worktree.folder(runs.root, run).is_dir()


def _read(runs: Runs, root: str) -> AttentionView:
    view = AttentionView()
    for run, record in runs.history(root):
        view.apply(run, record)
    return view


def _is_in(one: Attention, run: str) -> bool:
    """Whether *one* is in *run* or in a child run of it."""
    return f"{one.run}/".startswith(f"{run}/")


def _open(runs: Runs, root: str, view: AttentionView) -> Iterator[Attention]:
    """The open requests in *view* of the root run *root*, without resolved conflicts.

    The last one is a problem that keeps a cluster, or `coterie recover`, from continuing the run, if there is one.
    """
    for one in view.open(is_owned=runs.is_owned(root)):
        if one.kind == "conflict":
            tree = worktree.read(runs.root, one.run)
            if tree is None or tree.removed or tree.status == "merged":
                continue
        yield one
    status = runs.store.status(root)
    if status.state == "running" and status.reason:
        command = f"coterie cluster releases, or terminate the workflow {root} and `coterie resume {root}`"
        yield Attention(kind="stuck", run=root, id="", since=status.at, text=status.reason, command=command)
    elif status.state not in ("running", *ENDS) and view.recoveries.were_enough:
        yield Attention(
            kind="stuck", run=root, id="", since=status.at, text=NO_FURTHER, command=f"coterie resume {root}"
        )


def with_prompts(runs: Runs, found: Sequence[Attention]) -> list[Attention]:
    """Add the texts of the questions in *found*, which are not in the journals; each journal is folded once."""
    asked: dict[str, set[str]] = {}
    for one in found:
        if one.kind == "question":
            asked.setdefault(one.run, set()).add(one.turn)
    if not asked:
        return [*found]
    from coterie.execution.runs.turn_detail import prompts  # imports every engine

    texts: dict[tuple[str, str], str] = {}
    for run, turns in asked.items():
        with suppress(CoterieError):
            texts |= {(run, turn): text for turn, text in prompts(runs, run, turns).items()}
    return [
        msgspec.structs.replace(one, text=f"{one.turn} asks: {texts[one.run, one.turn]}")
        if one.kind == "question" and (one.run, one.turn) in texts
        else one
        for one in found
    ]


def _with_prompts(found: Collection[tuple[Runs, Attention]]) -> Iterator[Attention]:
    """As `with_prompts`, of runs of several places, in the same order."""
    for runs, group in groupby(found, key=itemgetter(0)):
        yield from with_prompts(runs, [one for _, one in group])
