"""What needs a person in runs: found, followed and answered from another process."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from coterie.clock import SystemClock
from coterie.errors import CoterieError
from coterie.journal.rules import root_of
from coterie.journal.status import ENDS, RunStatus
from coterie.runs import control, messages
from coterie.runs.messages import Verdict
from coterie.runs.repository import Runs, Where, location_at
from coterie.views.attention import OF_OWNERS, Attention, AttentionView
from coterie.workspace.trees import worktree

CHECK_EVERY = 0.1
"""Seconds between two checks of `follow` for what is new in the runs that it follows."""
FIND_EVERY = 5
"""Checks of `follow` between two looks for other runs."""


def open_in(runs: Runs, run: str) -> list[Attention]:
    """What needs a person in *run* and its child runs, the oldest first; *run* may be a child run.

    Questions whose answer waits for the next owner are left out.

    Raises:
        NoSuchRun, JournalUnreadable: If it cannot be read.
    """
    return _unanswered(runs, root_of(run), _recorded(runs, run))


def _recorded(runs: Runs, run: str) -> list[Attention]:
    """What needs a person in *run* and its child runs by their records, the oldest first."""
    root = root_of(run)
    return [with_prompt(runs, one) for one in _open(runs, root, _read(runs, root)) if _is_in(one, run)]


def _unanswered(runs: Runs, root: str, found: list[Attention]) -> list[Attention]:
    """*found* without the questions of the root run *root* to which an answer is in its inbox."""
    asked = [one.id for one in found if one.kind in ("question", "parked")]
    if not asked:
        return found
    from coterie.runs.messages.verdicts import addressed  # imports every engine

    answered = {addressed(turn, asked) for turn in messages.answered_turns(runs.inbox(root))}
    return [one for one in found if one.id not in answered or one.id not in asked]


def find(where: Where, *, everywhere: bool = False) -> Iterator[Attention]:
    """What needs a person in the runs that *where* has; *everywhere*: also in those of other directories.

    Runs that cannot be read are left out; `coterie runs` shows them.
    """
    location = location_at(where)
    for runs, run in map(location.open, location.newest(everywhere=everywhere)):
        if _may_need(runs, run, runs.store.status(run)):
            with suppress(OSError, CoterieError):
                yield from open_in(runs, run)


def answer(runs: Runs, run: str, id: str, word: str) -> Verdict:
    """Answer what needs a person in *run*.

    Args:
        id: Its id, with or without the address of *run* if that is a child run; of a parked turn also that of the
            permission for which it was parked. Empty: the only one that is open.
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
    """Something that needs a person *is_open* now, or does not any more."""

    is_open: bool
    attention: Attention


async def follow(
    where: Where, only: tuple[Runs, str] | None = None, *, everywhere: bool = False
) -> AsyncGenerator[AttentionChange, None]:
    """What needs a person now, as `find` gives it, and then each change.

    Args:
        only: This run alone; then it ends when no process drives the run any more.
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
            checks += 1
            for name in names:
                followed[name].check()
            found = [(followed[name].runs, one) for name in names for one in followed[name].unanswered]
            if only is not None:
                found = [(location, one) for location, one in found if _is_in(one, only[1])]
            now = {(one.run, one.id, one.since): (location, one) for location, one in found}
            for key in [key for key in known if key not in now]:
                yield AttentionChange(False, known.pop(key))
            for key in [key for key in now if key not in known]:
                known[key] = with_prompt(*now[key])
                yield AttentionChange(True, known[key])
            if only is not None and not followed[names[0]].is_running:
                return
            await asyncio.sleep(CHECK_EVERY)
    finally:
        for one in followed.values():
            one.stop()


class _Followed:
    """A root run that is followed while a process drives it, and read once after that.

    Attributes:
        open: What needs a person in it, as of the last check.
    """

    def __init__(self, runs: Runs, run: str) -> None:
        self.runs, self._run = runs, run
        self._status: RunStatus | None = None
        self._view = AttentionView()
        self._task: asyncio.Task[None] | None = None
        self._unowned = 0.0
        """When it was last seen without an owner: what attempts asked before is void."""
        self.open: list[Attention] = []

    @property
    def is_running(self) -> bool:
        """Whether a process drives it, or did at the last check and not all of it was read."""
        return self._task is not None

    @property
    def unanswered(self) -> list[Attention]:
        """What is open, without questions whose answer waits for the next owner."""
        return self.open if self.is_running else _unanswered(self.runs, self._run, self.open)

    def check(self) -> None:
        """Take in what is new."""
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
                self.open = [one for one in found if one.kind not in OF_OWNERS]  # an owner may come just now
            self._status = status

    def stop(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        with suppress(CoterieError):  # it cannot be read, as `coterie runs` shows
            async with aclosing(self.runs.follow(self._run)) as news:
                async for run, record in news:
                    self._view.apply(run, record)


def _may_need(runs: Runs, run: str, status: RunStatus) -> bool:
    """Whether *run* may need a person: of those that have ended only one with work in a work tree."""
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
    """What is open in *view*, of the root run *root*; without conflicts that were resolved.

    Last comes what keeps a cluster from going on with it.
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


def with_prompt(runs: Runs, one: Attention) -> Attention:
    """*one*, a question with its text, which the journal does not hold."""
    if one.kind != "question":
        return one
    from coterie.runs.turn_detail import asked  # imports every engine

    with suppress(CoterieError):
        cwd = Path(runs.first(root_of(one.run)).cwd or ".")
        prompt = asked(runs.journal(one.run), one.turn, runs, cwd).prompt
        return msgspec.structs.replace(one, text=f"{one.turn} asks: {prompt}")
    return one
