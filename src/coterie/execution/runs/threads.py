"""Threads: conversations over runs of one team.

A thread is a file in `threads` beside the runs, with the ids of its runs, one a line, in the order in which they were
begun. A run's id is written before the run begins, and counts once its journal does, so a kill in between leaves
nothing. The process that begins a run holds the lock of the file until then: a second one is refused, or waits.

What a run continues is copied into its first record (`ThreadStart`) from the run before it, which has in its own what
came earlier. So only one journal is read for a message, however long the thread is, and a run needs none of the others.
"""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from msgspec import Struct

from coterie.base import files
from coterie.base.ids import folder_name
from coterie.errors import CoterieError, RunIsOwned, ThreadBusy, UsageError
from coterie.execution.kernel.threads import readers, within
from coterie.execution.kinds import Observe
from coterie.execution.runs import given_ids, index
from coterie.execution.runs.mutual_waits import is_within
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import (
    AttemptSession,
    Record,
    RunFinished,
    RunStarted,
    ThreadExchange,
    ThreadStart,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.status import ENDS
from coterie.history.views import words
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import Plan

_LOOK_EVERY = 0.2
"""Seconds between two looks whether the run before has ended."""
_NAME = re.compile(r"\w[\w .:@+-]{0,99}")
_LARGEST = 16 << 20
"""The largest file of a thread that is read, in bytes, from its end."""


class Continues(Struct, frozen=True):
    """What a new run continues: the thread *name*, behind its latest run or *after*.

    Attributes:
        waits: Wait while that has no end; *waits_if_driven*: while a process works on it.
        leaves: The latest run, which has no end and is left out.
    """

    name: str
    after: str = ""
    waits: bool = False
    leaves: str = ""
    waits_if_driven: bool = False


def continued(thread: str, after: str, *, wait: bool) -> Continues | None:
    """What a new run continues, as it is given; None: nothing.

    Raises:
        UsageError: If *after* or *wait* is given without a thread.
    """
    if not thread and (after or wait):
        given = "after" if after else "wait"
        raise UsageError(f"{given!r} is about a thread: name it, as in --thread NAME or thread=NAME")
    return Continues(thread, after, wait) if thread else None


class OpenThread(Struct, frozen=True):
    """A thread in which a run is about to begin: what the run continues, and the lock until it has begun."""

    start: ThreadStart
    lock: RunLock


def _let_go(opening: "asyncio.Future[OpenThread]") -> None:
    """Release the thread that *opening* has opened for a caller that has gone."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().lock.release()


class ThreadRow(Struct, frozen=True, kw_only=True):
    """A thread in a list: how many runs it has, and its latest one."""

    name: str
    runs: int
    topology: str
    latest: str
    state: str
    at: float
    prompt: str


class ThreadMessage(Struct, frozen=True, kw_only=True):
    """A run of a thread: what it was given, how it ended, its result, and that as text."""

    run: str
    at: float
    prompt: str
    state: str
    result: Any = None
    answer: str = ""


class Thread:
    """The thread *name* of the state directory of *runs*, whether it exists or not.

    Raises:
        UsageError: If it cannot have that name.
    """

    def __init__(self, runs: Runs, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a thread: begin with a letter or a digit, then up to 99 letters, "
                "digits, blanks or any of _ . : @ + -"
            )
        self.name, self._runs = name, runs
        self.path = runs.root / "threads" / folder_name(name)

    def newest(self) -> Iterator[str]:
        """The runs that have begun and still exist, newest first."""
        found = [line.decode() for line in reversed(self._lines()) if re.fullmatch(rb"[!-~]+", line)]
        return (run for run in dict.fromkeys(found) if self._runs.has_begun(run))

    def folder(self, run: str) -> Path:
        """The folder of *run*."""
        return self._runs.folder(run)

    def checked(self) -> Self:
        """This thread.

        Raises:
            UsageError: If it does not exist.
        """
        if not self.path.exists():
            raise UsageError(f"there is no thread {self.name!r}: `coterie threads` lists them")
        return self

    def row(self) -> ThreadRow | None:
        """It in a list; None if none of its runs exists."""
        found = [*self.newest()]
        if not found:
            return None
        first, state = self._runs.first(found[0]), self._runs.status(found[0])
        return ThreadRow(
            name=self.name,
            runs=len(found),
            topology=first.topology,
            latest=found[0],
            state=state,
            at=first.at,
            prompt=_as_text(first),
        )

    def message(self, run: str) -> ThreadMessage:
        """*run* as a message of it."""
        first, result = self._runs.first(run), None
        for record in self._runs.read(run):
            if isinstance(record, RunFinished):
                result = record.result
        state = self._runs.status(run)
        prompt, answer = _as_text(first), words.result(result)
        return ThreadMessage(run=run, at=first.at, prompt=prompt, state=state, result=result, answer=answer)

    def remove(self) -> None:
        """Forget the thread; its runs stay.

        Raises:
            ThreadBusy: If a run is just beginning in it.
        """
        lock = self.checked()._locked()
        self.path.unlink()
        lock.release()

    async def open(self, run: str, plan: Plan, asked: Continues, tell: Callable[[str], object]) -> OpenThread:
        """Have *run* of *plan* follow as *asked*; the caller releases the lock once the run has begun.

        Raises:
            ThreadBusy: If the run before it has no end, and it does not wait.
            UsageError: If that is a run of another team, or there is none.
        """
        told = ""
        while True:
            opening = asyncio.get_running_loop().run_in_executor(None, copy_context().run, self._open, run, plan, asked)
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:  # no thread can be cancelled: what it locks is let go
                opening.add_done_callback(_let_go)
                raise
            except ThreadBusy as busy:
                if not asked.waits and not (asked.waits_if_driven and busy.is_driven):
                    raise
                if busy.why != told:
                    tell(f"{busy.why}; waiting for its end")
                told = busy.why
            await asyncio.sleep(_LOOK_EVERY)

    def _open(self, run: str, plan: Plan, asked: Continues) -> OpenThread:
        files.make_folder(self.path.parent)
        lock = self._locked()
        try:
            after, latest = asked.after, next((one for one in self.newest() if one != run), "")
            is_left = latest != "" and latest == asked.leaves and not self._runs.is_owned(latest)
            if after and not self._runs.has_begun(after):
                raise UsageError(f"there is no run {after!r} here to continue: `coterie runs` lists them")
            for one in filter(None, ("" if is_left else latest, after)):
                self._check_end(one)
            start, before = ThreadStart(name=self.name), after or ("" if is_left else latest)
            if before:
                start = self._after(before, plan, is_latest=before == latest)
            self._append(run)
        except BaseException:
            lock.release()
            raise
        return OpenThread(start, lock)

    def _check_end(self, run: str) -> None:
        state = self._runs.status(run)
        if state not in ENDS:
            if is_within(run):
                why = f"run {run}, the latest of thread {self.name!r}, has this as a part of it, and cannot end before"
                raise UsageError(f"{why}: name another thread")
            resumes = "" if state == "running" else f": coterie resume {run}"
            why = f"thread {self.name!r} goes on behind run {run}, which is {state}{resumes}"
            raise ThreadBusy(run, why, is_driven=state == "running")

    def _after(self, before: str, plan: Plan, is_latest: bool) -> ThreadStart:
        """What a run of *plan* behind the run *before* continues."""
        first = self._runs.first(before)
        if first.topology != plan.name:
            raise UsageError(
                f"run {before} is of the team {first.topology!r}, not of {plan.name!r}: a thread has one team; "
                "begin another with --thread NAME"
            )
        answers, sessions = _ends(self._runs, before)
        known = first.thread or ThreadStart(name="")
        exchanges = (*known.exchanges, ThreadExchange(run=before, prompt=_as_text(first), answers=answers))
        budgets = readers(plan.agents)
        shown = {name: len(within(exchanges, name, budget)) for name, budget in budgets.items()}
        kept, most = max(shown.values(), default=0), max(budgets.values(), default=0)
        is_own = is_latest and first.forked_from is None
        return ThreadStart(
            name=self.name,
            after=before,
            earlier=known.earlier + 1,
            exchanges=tuple(
                ThreadExchange(
                    run=one.run,
                    prompt=one.prompt[:most],
                    answers={name: one.answers[name][:most] for name in budgets if name in one.answers},
                )
                for one in exchanges[len(exchanges) - kept :]
            ),
            sessions=_continued(sessions, self._runs.plan(before), plan) if is_own else {},
            left_out={name: left for name, n in shown.items() if (left := known.earlier + 1 - n)},
        )

    def _locked(self) -> RunLock:
        """The lock of the file, which is made if it is not there, or no longer."""
        while True:
            try:
                lock = RunLock(self.name, self.path)
            except RunIsOwned:
                why = f"a message to thread {self.name!r} is just beginning"
                raise ThreadBusy("", why) from None
            try:
                lock.check()
            except CoterieError:
                lock.release()
            else:
                return lock

    def _lines(self) -> list[bytes]:
        try:
            return files.read_end(self.path, _LARGEST).split(b"\n")[:-1]  # the last line may be torn
        except FileNotFoundError:
            return []

    def _append(self, run: str) -> None:
        with files.open_private(self.path, "r+b") as file:
            data = file.read()
            file.truncate(len(data[: data.rfind(b"\n") + 1]))
            file.seek(0, os.SEEK_END)
            file.write(f"{run}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def named(state_dir: Path, name: str) -> Thread:
    """The thread *name* of *state_dir*, or of the state directory of loops beside it.

    Raises:
        UsageError: If there is none.
    """
    found = [Thread(Runs(home), name) for home in index.homes(state_dir)]
    return next((one for one in found if one.path.exists()), found[0]).checked()


def listed(state_dir: Path) -> list[ThreadRow]:
    """The threads of *state_dir*, the one with the latest run first; those without a run are left out."""
    found = [row for home in index.homes(state_dir) for one in threads(Runs(home)) if (row := one.row()) is not None]
    return sorted(found, key=lambda row: row.at, reverse=True)


def messages(thread: Thread, most: int | None = None) -> list[ThreadMessage]:
    """The runs of *thread* that still exist, oldest first; the latest *most*, if given."""
    return [thread.message(run) for run in reversed([*islice(thread.newest(), most)])]


async def follow(
    runs: Runs,
    run: str,
    plan: Plan,
    asked: Continues,
    begin: Callable[..., Awaitable[Outcome]],
    *,
    observe: Observe | None = None,
    tell: Callable[[str], object],
) -> Outcome:
    """The outcome of *run* of *plan*, which follows in a thread as *asked*.

    Args:
        begin: Begins the run, with its `thread` and an `observe` that releases the thread once it has begun.
        tell: Called with why this waits, if it does.

    Raises:
        ThreadBusy, UsageError: See `Thread.open`.
    """
    with given_ids.claimed(runs.folder(run)):
        thread = await Thread(runs, asked.name).open(run, plan, asked, tell)

    def seen(which: str, record: Record) -> None:
        thread.lock.release()
        if observe is not None:
            observe(which, record)

    if not readers(plan.agents):
        tell("no agent of this team has `thread: true`, so none is shown what came before")
    try:
        return await begin(thread=thread.start, observe=seen)
    finally:
        thread.lock.release()


def threads(runs: Runs) -> list[Thread]:
    """The threads in the state directory of *runs*, by name."""
    folder = runs.root / "threads"
    names = sorted(unquote(path.name) for path in folder.iterdir()) if folder.is_dir() else []
    return [Thread(runs, name) for name in names if _NAME.fullmatch(name)]


def latest(runs: Runs) -> dict[str, str]:
    """The latest run of each thread in the state directory of *runs*, with the name of the thread."""
    return {run: one.name for one in threads(runs) if (run := next(one.newest(), ""))}


def _ends(runs: Runs, run: str) -> tuple[dict[str, str], dict[str, str]]:
    """The last answer of each agent of *run*, and the session in which it gave that."""
    answers, sessions, working = dict[str, str](), dict[str, str](), dict[str, str]()
    for record in runs.read(run):
        match record:
            case TurnStarted() | AttemptSession():
                working[record.turn] = record.session
            case TurnFinished(turn=turn, text=text, outputs=outputs):
                agent = turn.rpartition("#")[0]
                answers[agent] = text or (json.dumps(outputs, ensure_ascii=False) if outputs else "")
                sessions[agent] = working.get(turn, "")
            case _:
                pass
    return answers, sessions


def _continued(sessions: dict[str, str], before: Plan, plan: Plan) -> dict[str, str]:
    """Those of *sessions* in which coding agents of *plan* go on that had the same backend *before*."""
    known = {name: agent.backend for name, agent in before.agents.items()}
    return {
        name: session
        for name, session in sessions.items()
        if session and name in readers(plan.agents) and known.get(name) == plan.agents[name].backend in CODING
    }


def _as_text(first: RunStarted) -> str:
    """The input of a run as one text: its prompt, then each named value on a line."""
    named = ((name, value) for name, value in first.input.items() if name != "prompt")
    lines = (f"- {name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in named)
    return "\n".join(filter(None, (str(first.input.get("prompt") or ""), *lines)))
