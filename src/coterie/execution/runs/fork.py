"""Fork a run: make a new run that shares its first records and continues from there, possibly with a changed plan.

A fork is a copy: it never changes the original. It begins with the original's records up to a given one. Then follow
the records of the fork itself: the changed plan, an interruption for each attempt that was running there, since it
belongs to the original and is retried here, and `run.stopped`. So a fork is first written completely and then resumed
like any other run.

Child runs are copied up to the same time: completely if their turn had ended, otherwise with their records before the
time of the last shared record. Every prefix of a journal is a state that a crash could have left, so the run can
continue from it. A fork at the last record copies its child runs as they are.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.workspace.trees.fork_tree import files_after, how_to_go_on, make_fork_tree, remove_fork_tree
from coterie.base.clock import Clock, SystemClock
from coterie.base.files import discard, open_private
from coterie.errors import JournalFailed, UsageError
from coterie.execution.kernel.plan_secrets import hold
from coterie.execution.kernel.plan_secrets import read as read_held
from coterie.execution.runs import given_ids, index, run_ids, what_if
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.notifications import own_settings, tree_place
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.retry import before_failure
from coterie.execution.runs.run_copy import ChangedRecords, RunCopy
from coterie.history.journal.lines import make_folder, sync_folder
from coterie.history.journal.records import (
    Record,
    RunFinished,
    RunNotified,
    RunStarted,
    TreeCleared,
    TreeMerged,
)
from coterie.history.journal.runs import Journal, history
from coterie.team.planning.plan import Plan

PARTS = "forks"
"""The folder beside `runs` for forks that are not complete yet; a kill can leave some there."""
_CHILDREN_KEPT = 16
"""How many child runs are kept in memory, since each is read twice."""


class Forked(Struct, frozen=True, kw_only=True):
    """A fork, ready to be resumed.

    Attributes:
        run: Its id.
        origin: The run that it was forked from; *seq* is the last shared record.
        again: The turns that were running there and are retried; in a child run `<turn>.<attempt>/<turn>`.
        cwd: Its working directory, with the files of that time; empty: that of *origin*, with the present files.
        left_out: The files of shared attempts, and of the working directory, that it lacks, and why.
    """

    run: str
    origin: str
    seq: int
    again: tuple[str, ...] = ()
    cwd: str = ""
    left_out: tuple[str, ...] = ()


def fork(
    run: str,
    *,
    state_dir: Path,
    at: int | None = None,
    change: Callable[[Plan], Plan] | None = None,
    given: Mapping[str, Any] | None = None,
    answers: what_if.Answers | None = None,
    run_id: str | None = None,
    files: bool = True,
    clock: Clock | None = None,
) -> Forked:
    """Make a run that shares the records of *run* up to and including *at*; no backend is called yet.

    Args:
        run: A root run; it may have ended or be running.
        at: The last record to share. The default is the last record; for a failed run the last one before the turn that
            failed it, for a completed run the last one before its end.
        change: Makes the plan of the fork from the plan that *run* had at that record.
        given: Values of the input to change; the default of *at* is then the last record before the first turn.
        answers: Answers to change, by turn or agent; the default of *at* is then the latest of them.
        run_id: The id of the fork.
        files: Restore the files of that time, if there are snapshots, in a separate git work tree for the fork.

    Raises:
        NoSuchRun, JournalUnreadable: If there is no such run, or it cannot be read.
        UsageError: If it cannot be forked there, or its files, or the folder in which it would work, are gone.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
        GitFailed: If git cannot restore the files.
        ReplayMismatch: If those records do not agree with the fork's plan.
        JournalFailed: If the fork could not be written; nothing is left of it.
    """
    if "/" in run:
        raise UsageError(f"{run!r} is a child run, which is forked with its root: fork {run.split('/')[0]!r}")
    runs = Runs(state_dir)
    begun_by = check_operator(runs, run)
    records = _settled(runs, run)
    read = lru_cache(_CHILDREN_KEPT)(lambda name: records if name == run else runs.journal(name).records)
    journal = Journal(runs, run, records)
    if at is None:
        at = what_if.place_for(records, given, answers) or before_failure([journal]) or None
    seq = _place(run, records, at)
    recorded = journal.plan(seq)
    plan = change(recorded) if change is not None else recorded
    changes = what_if.changes(records, seq, plan, given, answers)
    is_altered = any(records[at - 1] != one for at, one in changes.items())
    fork = run_id or run_ids.choose_id(plan, state_dir)
    first = changes.get(1, records[0])
    assert isinstance(first, RunStarted)
    first = replace(first, cwd=journal.relocation.path(first.cwd))
    prefix = ChangedRecords(records[:seq], {**changes, 1: first})
    before = records[seq - 1].at if seq < len(records) else inf
    shared = (  # for child runs only times are known
        (name, one) for name, one in history(read, run) if (one.seq <= seq if name == run else one.at < before)
    )
    part, folder = state_dir / PARTS / fork, runs.folder(fork)
    tree, made = None, False
    try:
        saved = files_after(state_dir, first, shared)
        if not files or saved is None:
            _check_folder(state_dir, first, is_kept=saved is not None)
        else:
            started_in = Path(journal.relocation.project or first.cwd)
            place = tree_place(plan, own_settings(plan, started_in, os.environ))
            tree = make_fork_tree(state_dir, first, fork, saved.commit, plan, place)
        plan = hold(plan, part / "runs" / folder.name, held=read_held(runs.folder(run)))
        copy = RunCopy(runs, read, Runs(part), plan, changed=plan != recorded, clock=clock or SystemClock())
        copy.altered = is_altered
        copy.left_out += [saved.problem] if tree is not None and saved is not None and saved.problem else []
        cwd = tree.cwd if tree is not None else ""
        copy.root(run, fork, prefix, begun_by, is_all=seq == len(records), cwd=cwd)
        make_folder(folder.parent)
        (part / "runs" / folder.name).rename(folder)
        made = True
        sync_folder(folder.parent)
    except OSError as error:
        raise JournalFailed(fork, f"{error.filename or part}: {error.strerror or error}", began=False) from error
    finally:
        if not made:
            given_ids.unclaim(folder)
        if tree is not None and not made:
            remove_fork_tree(state_dir, tree)
        discard(part)
        with suppress(OSError):  # another fork is being made there, or the folder could not be made at all
            part.parent.rmdir()
    here = os.path.realpath(".")
    index.add(index.Entry(run=fork, folder=str(folder.resolve()), topology=plan.name, started=copy.now, cwd=here))
    cwd = tree.cwd if tree is not None else ""
    return Forked(run=fork, origin=run, seq=seq, again=tuple(copy.again), cwd=cwd, left_out=tuple(copy.left_out))


def _check_folder(state_dir: Path, first: RunStarted, *, is_kept: bool) -> None:
    """Refuse a fork that would work where the run of *first* did, if that folder is gone.

    Args:
        is_kept: Whether a snapshot has its files.
    """
    if not first.cwd or Path(first.cwd).is_dir():
        return
    gone = f"run {first.run!r} worked in {first.cwd}, and there is no such folder"
    if is_kept:
        raise UsageError(f"{gone}: fork without --no-worktree, in a new work tree with its files as of that record")
    raise UsageError(f"{gone}, nor a snapshot of its files: {how_to_go_on(state_dir, first)}")


def _settled(runs: Runs, run: str) -> Sequence[Record]:
    """The durable records of *run*: a living owner may have written some without a sync."""
    records = runs.journal(run).records
    with open_private(runs.file(run), "rb") as file:
        os.fsync(file.fileno())
    return records


def _place(run: str, records: Sequence[Record], at: int | None) -> int:
    """The record to fork at: *at*, if the run can continue from it."""
    ended = bool(records) and isinstance(records[-1], RunFinished)
    last = len(records) - ended
    while ended and last and isinstance(records[last - 1], TreeMerged | TreeCleared | RunNotified):
        last -= 1  # a fork has its own closing steps
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
