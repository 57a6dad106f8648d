"""Fork a run: a new one that shares its first records and goes on from there, perhaps under other words.

A fork is a copy: nothing of the original is touched, and what the fork does never reaches it. It begins with the
original's records up to one of them. Behind those stands what makes it a run of its own: the changed plan, the attempts
that were under way there, which belong to the original and are asked again here, and `run.stopped`. So a fork is made
whole, and then resumed like any other run.

Child runs come along as far as they had come by then: those whose turn had ended whole, those under way with what they
had done before the record's time. Every prefix of a journal is a state that a crash could have left, so the run goes on
from these. A fork at the last record takes its child runs as they are.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.clock import Clock, SystemClock
from coterie.errors import JournalFailed, JournalUnreadable, NoSuchRun, ReplayMismatch, UsageError
from coterie.ids import child_run_id, new_run_id
from coterie.journal.jsonl import JOURNAL, JsonlStore
from coterie.journal.lines import make_folder, sync_folder
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    ForkedFrom,
    PlanReloaded,
    Record,
    RunFinished,
    RunStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.journal.writer import JsonlWriter
from coterie.planning.plan import Plan, from_json, to_json
from coterie.runs import index
from coterie.runs.commands import Turn
from coterie.runs.core import Core
from coterie.runs.engines import make_engine

PARTS = "forks"
"""Where forks are made, beside `runs`, until they are whole; what a kill leaves there is not a run."""


class Forked(Struct, frozen=True, kw_only=True):
    """A fork, ready to be resumed.

    Attributes:
        run: Its id.
        origin: The run that it was forked from, and *seq* the last record that it shares.
        again: The turns that were under way there and are asked again; in a child run `<turn>.<attempt>/<turn>`.
    """

    run: str
    origin: str
    seq: int
    again: tuple[str, ...] = ()


def fork(
    run: str,
    *,
    state_dir: Path,
    at: int | None = None,
    change: Callable[[Plan], Plan] | None = None,
    run_id: str | None = None,
    clock: Clock | None = None,
) -> Forked:
    """Make a run that shares the records of *run* up to the record *at*, that one included; nobody is asked yet.

    Args:
        run: A root run; it may have ended, and it may be under way.
        at: By default the last record, in a run that has ended the last before its end.
        change: Gives the plan of the fork, from the one that *run* obeyed at that record.
        run_id: The id of the fork.

    Raises:
        NoSuchRun, JournalUnreadable: If there is no such run, or it cannot be read.
        UsageError: If it cannot be forked there.
        ReplayMismatch: If under the fork's plan those records would have been decided otherwise.
        JournalFailed: If the fork could not be written; nothing is left of it.
    """
    if "/" in run:
        raise UsageError(f"{run!r} is a child run, which is forked with its root: fork {run.split('/')[0]!r}")
    store = JsonlStore(state_dir)
    records = list(_settled(store, run))
    seq = _place(run, records, at)
    recorded = _recorded(store, run, records[:seq])
    plan = change(recorded) if change is not None else recorded
    fork = run_id or new_run_id()
    part, folder = state_dir / PARTS / fork, store.folder(fork)
    try:
        copy = _Copy(store, JsonlStore(part), plan, changed=plan != recorded, clock=clock or SystemClock())
        copy.root(run, fork, records[:seq], is_all=seq == len(records))
        make_folder(folder.parent)
        (part / "runs" / folder.name).rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise JournalFailed(fork, f"{error.filename or part}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # another fork is made there, or it could not be made at all
            part.parent.rmdir()
    index.add(index.Entry(run=fork, folder=str(folder.resolve()), topology=plan.name, started=copy.now))
    return Forked(run=fork, origin=run, seq=seq, again=tuple(copy.again))


def _settled(store: JsonlStore, run: str) -> Iterator[Record]:
    """The records of *run*, each safe from a power cut: a living owner may have written some and not synced them."""
    records = store.read(run)
    with (store.folder(run) / JOURNAL).open("rb") as file:
        os.fsync(file.fileno())
    return records


def _recorded(store: JsonlStore, run: str, prefix: Sequence[Record]) -> Plan:
    """The plan that *run* obeyed at the end of *prefix*."""
    *_, text = [record.plan for record in prefix if isinstance(record, RunStarted | PlanReloaded)]
    try:
        return from_json(text)
    except ValueError as error:
        reason = f"the plan in it is damaged, or of another coterie ({error})"
        raise JournalUnreadable(str(store.folder(run) / JOURNAL), 1, reason) from error


def _place(run: str, records: Sequence[Record], at: int | None) -> int:
    """The record to fork at: *at*, if there is a way on from it."""
    ended = bool(records) and isinstance(records[-1], RunFinished)
    last = len(records) - ended
    if last == 0:
        raise UsageError(f"run {run!r} never began: there is nothing to fork")
    if at is None:
        return last
    if ended and at == len(records):
        raise UsageError(f"record {at} is the end of run {run!r}, nothing follows from it: fork it at {last} or before")
    if not 1 <= at <= last:
        raise UsageError(f"run {run!r} has no record {at} to be forked at: the last one is {last}")
    return at


class _Copy:
    """Writes a fork, under *plan*, into the store *there*.

    Attributes:
        now: When.
        again: The turns that are asked again.
    """

    def __init__(self, here: JsonlStore, there: JsonlStore, plan: Plan, *, changed: bool, clock: Clock) -> None:
        self._here, self._there, self._plan, self._changed = here, there, plan, changed
        self.now = clock.now()
        self.again: list[str] = []

    def root(self, origin: str, fork: str, prefix: Sequence[Record], *, is_all: bool) -> None:
        """Write the fork and its child runs; *is_all*: *prefix* is all that there is of *origin*."""
        first, *rest = prefix
        assert isinstance(first, RunStarted)
        first = msgspec.structs.replace(first, run=fork, forked_from=ForkedFrom(run=origin, seq=len(prefix)))
        writer = self._there.claim(fork)
        try:
            core = self._write(_Journal(origin, fork, self._plan, writer), [first, *rest], 0)
            self._children(origin, fork, self._plan, prefix, None if is_all else prefix[-1].at)
            if self._changed:
                plan = to_json(self._plan).decode()
                reloaded = PlanReloaded(plan=plan, plan_hash=self._plan.content_hash())
                core.write(self.now, reloaded, source="operator")
            self._let_go(core)
            writer.sync()
        finally:
            writer.give_up()

    def _children(
        self, origin: str, fork: str, plan: Plan, prefix: Sequence[Record], before: float | None, began: int = 0
    ) -> None:
        """Bring along what lies below the attempts in *prefix*.

        Args:
            before: What child runs under way had done by then counts; None: all that they have done.
            began: The record of the root that began all this; 0: these are its own attempts.
        """
        over = _over(prefix)
        for started in prefix:
            if not isinstance(started, TurnStarted):
                continue
            ended = started.turn in over or (started.turn, started.attempt) in over
            child = plan.agents[started.agent].child if started.agent in plan.agents else None
            source, target = (child_run_id(run, started.turn, started.attempt) for run in (origin, fork))
            if child is not None:
                cut = before if not ended else None
                self._child(source, target, child, cut, ended, began or started.seq)
            elif ended and self._here.folder(source).is_dir():
                _copy_files(self._here.folder(source), self._there.folder(target))

    def _child(self, origin: str, fork: str, plan: Plan, before: float | None, ended: bool, began: int) -> None:
        """Bring a child run along, if it had begun; one whose turn had not *ended* goes on in the fork."""
        try:
            records = [one for one in self._here.read(origin) if before is None or one.at < before]
        except NoSuchRun:
            return
        if not records:
            return
        first, *rest = records
        assert isinstance(first, RunStarted)
        first = msgspec.structs.replace(first, run=fork, parent=fork.rpartition("/")[0])
        writer = self._there.claim(fork)
        core = self._write(_Journal(origin, fork, plan, writer), [first, *rest], began)
        self._children(origin, fork, plan, records, before, began)
        if not ended:
            self._let_go(core)
        writer.sync()
        writer.give_up()

    def _write(self, journal: "_Journal", records: Sequence[Record], began: int) -> Core:
        """Write *records* and fold them, which shows whether the fork's plan agrees with them."""
        engine, agents = make_engine(journal.plan)
        core = Core(
            journal.fork,
            engine,
            agents,
            lambda record: journal.writer.append((record,)),
            lambda fold, turn: "",
            lambda prompt: "",
        )
        journal.writer.append([_as_history(record) for record in records])
        try:
            core.fold(records)
        except ReplayMismatch as found:
            hint = ""
            if self._changed:
                earlier = (began or found.seq) - 1
                hint = f"the changes would have decided this otherwise: fork the run at {earlier} or earlier"
            raise ReplayMismatch(journal.origin, found.seq, found.found, found.wanted, hint) from None
        return core

    def _let_go(self, core: Core) -> None:
        """End the time of the original's owner: what was under way belongs to it, and is asked again here.

        A question to a human stands, and a child run goes on; one that had not begun is asked all the same.
        """
        if core.finished is not None:
            return
        below = core.run.partition("/")[2]
        for name, turn in core.turns.items():
            if turn.status != "running":
                continue
            if core.takes_a_slot(turn.ask.agent):
                core.write(self.now, AttemptInterrupted(turn=name, attempt=turn.attempt, reason="forked"))
                self.again.append(f"{below}/{name}".lstrip("/"))
            elif core.kind(turn.ask.agent) == "topology" and not self._has_begun(core.run, turn):
                self.again.append(f"{below}/{name}".lstrip("/"))
        core.stop(self.now, "forked")

    def _has_begun(self, fork: str, turn: Turn) -> bool:
        return (self._there.folder(child_run_id(fork, turn.ask.turn, turn.attempt)) / JOURNAL).exists()


class _Journal(Struct, frozen=True):
    """The journal of a run that is being copied."""

    origin: str
    fork: str
    plan: Plan
    writer: JsonlWriter


def _over(records: Iterable[Record]) -> set[str | tuple[str, int]]:
    """The turns that have ended, and the attempts that have."""
    over: set[str | tuple[str, int]] = set()
    for record in records:
        match record:
            case TurnFinished(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                over.add(turn)
            case AttemptFailed(turn=turn, attempt=attempt) | AttemptInterrupted(turn=turn, attempt=attempt):
                over.add((turn, attempt))
    return over


def _as_history(record: Record) -> Record:
    """*record* as the fork keeps it: a process that ran is the original's, so the fork must not know it as its own."""
    if isinstance(record, AttemptLaunched):
        return msgspec.structs.replace(record, started="")  # no process has that start time: none is ended for it
    return record


def _copy_files(source: Path, target: Path) -> None:
    """Copy what an attempt left in its folder; sockets and pipes, which belong to who made them, stay."""

    def special(folder: str, names: list[str]) -> list[str]:
        paths = {name: Path(folder, name) for name in names}
        return [n for n, path in paths.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]

    shutil.copytree(source, target, symlinks=True, ignore=special)
