"""Fork a run: make a new one that shares its first records and continues from there, perhaps with a changed plan.

A fork is a copy: nothing of the original is touched, and what the fork does never reaches it. It begins with the
original's records up to one of them. Then follows what sets it apart: the changed plan, the attempts
that were under way there, which belong to the original and are retried here, and `run.stopped`. So a fork is made
whole, and then resumed like any other run.

Child runs come along as far as they had come by then: those whose turn had ended whole, those under way with what they
had done before the record's time. Every prefix of a journal is a state that a crash could have left, so the run goes on
from these. A fork at the last record takes its child runs as they are.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie import files
from coterie.clock import Clock, SystemClock
from coterie.errors import JournalFailed, UsageError
from coterie.journal.lines import make_folder, sync_folder
from coterie.journal.records import Record, RunFinished, RunNotified, RunStarted, TreeCleared, TreeMerged
from coterie.journal.runs import Journal, Read, history
from coterie.kernel.plan_secrets import hold
from coterie.kernel.plan_secrets import read as read_held
from coterie.kinds import kind_of
from coterie.planning.plan import Plan
from coterie.runs import index, run_ids
from coterie.runs.authority import check_operator
from coterie.runs.repository import Runs
from coterie.runs.retry import before_failure
from coterie.runs.run_copy import RunCopy
from coterie.workspace.trees.fork_tree import last_snapshot, make_fork_tree, remove_fork_tree

PARTS = "forks"
"""The folder beside `runs` in which forks are made until they are complete; a kill can leave incomplete ones there."""


class Forked(Struct, frozen=True, kw_only=True):
    """A fork, ready to be resumed.

    Attributes:
        run: Its id.
        origin: The run that it was forked from, and *seq* the last record that it shares.
        again: The turns that were under way there and are retried; in a child run `<turn>.<attempt>/<turn>`.
        cwd: Where it works, with the files as they were; empty: where *origin* did, with the files as they are.
    """

    run: str
    origin: str
    seq: int
    again: tuple[str, ...] = ()
    cwd: str = ""


def fork(
    run: str,
    *,
    state_dir: Path,
    at: int | None = None,
    change: Callable[[Plan], Plan] | None = None,
    run_id: str | None = None,
    files: bool = True,
    clock: Clock | None = None,
) -> Forked:
    """Make a run that shares the records of *run* up to the record *at*, that one included; no backend is called yet.

    Args:
        run: A root run; it may have ended, and it may be under way.
        at: By default the last record, of a failed run the last one before the turn that failed it, of a completed one
            the last one before its end.
        change: Gives the plan of the fork, from the one that *run* obeyed at that record.
        run_id: The id of the fork.
        files: Where they were kept, have the files as they were then, in a git work tree of the fork's own.

    Raises:
        NoSuchRun, JournalUnreadable: If there is no such run, or it cannot be read.
        UsageError: If it cannot be forked there, or its files are gone.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
        GitFailed: If git cannot bring the files back.
        ReplayMismatch: If under the fork's plan those records would have been decided otherwise.
        JournalFailed: If the fork could not be written; nothing is left of it.
    """
    if "/" in run:
        raise UsageError(f"{run!r} is a child run, which is forked with its root: fork {run.split('/')[0]!r}")
    runs = Runs(state_dir)
    begun_by = check_operator(runs, run)
    read = cache(lambda name: tuple(runs.read(name)))
    records = _settled(runs, run, read)
    journal = Journal(runs, run, records)
    seq = _place(run, records, (before_failure([journal]) or None) if at is None else at)
    recorded = journal.plan(seq)
    plan = change(recorded) if change is not None else recorded
    fork = run_id or run_ids.choose_id(plan, state_dir)
    first = records[0]
    if isinstance(first, RunStarted):
        first = replace(first, cwd=journal.relocation.path(first.cwd))
    before = records[seq - 1].at if seq < len(records) else inf
    shared = (  # child runs have only times to go by
        (name, one) for name, one in history(read, run) if (one.seq <= seq if name == run else one.at < before)
    )
    commit = last_snapshot(shared) if files else ""
    tree = None
    if commit and isinstance(first, RunStarted):
        tree = make_fork_tree(state_dir, first, fork, commit, kind_of(plan).place)
    part, folder = state_dir / PARTS / fork, runs.folder(fork)
    made = False
    try:
        plan = hold(plan, part / "runs" / folder.name, held=read_held(runs.folder(run)))
        copy = RunCopy(runs, read, Runs(part), plan, changed=plan != recorded, clock=clock or SystemClock())
        cwd = tree.cwd if tree is not None else ""
        copy.root(run, fork, [first, *records[1:seq]], begun_by, is_all=seq == len(records), cwd=cwd)
        make_folder(folder.parent)
        (part / "runs" / folder.name).rename(folder)
        made = True
        sync_folder(folder.parent)
    except OSError as error:
        raise JournalFailed(fork, f"{error.filename or part}: {error.strerror or error}", began=False) from error
    finally:
        if tree is not None and not made:
            remove_fork_tree(state_dir, tree)
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # another fork is made there, or it could not be made at all
            part.parent.rmdir()
    here = os.path.realpath(".")
    index.add(index.Entry(run=fork, folder=str(folder.resolve()), topology=plan.name, started=copy.now, cwd=here))
    cwd = tree.cwd if tree is not None else ""
    return Forked(run=fork, origin=run, seq=seq, again=tuple(copy.again), cwd=cwd)


def _settled(runs: Runs, run: str, read: Read) -> Sequence[Record]:
    """The records of *run*, each safe from a power cut: a living owner may have written some and not synced them."""
    records = tuple(read(run))
    with files.open_private(runs.file(run), "rb") as file:
        os.fsync(file.fileno())
    return records


def _place(run: str, records: Sequence[Record], at: int | None) -> int:
    """The record to fork at: *at*, if there is a way on from it."""
    ended = bool(records) and isinstance(records[-1], RunFinished)
    last = len(records) - ended
    while ended and last and isinstance(records[last - 1], TreeMerged | TreeCleared | RunNotified):
        last -= 1  # a fork closes by itself
    if last == 0:
        raise UsageError(f"run {run!r} never began: there is nothing to fork")
    if at is None:
        return last
    if ended and last < at <= len(records):
        raise UsageError(f"record {at} is the end of run {run!r}, nothing follows from it: fork it at {last} or before")
    if 0 < at <= last and isinstance(records[at - 1], RunFinished):
        raise UsageError(
            f"at record {at}, run {run!r} had failed: fork it at {at + 1}, where it was reopened, or before"
        )
    if not 1 <= at <= last:
        known = f"the last one is {last}; `coterie inspect {run}` numbers them"
        raise UsageError(f"run {run!r} has no record {at} to be forked at: {known}")
    return at
