"""Remove runs from disk."""

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from coterie.agents.backends.agentside.delivery import BELL
from coterie.agents.backends.models import steps
from coterie.agents.backends.wrapper import link_of
from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import Repository, find
from coterie.agents.workspace.trees.snapshots import forget
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base import agent_writes, files
from coterie.base.ids import child_run_id, folder_name
from coterie.errors import CoterieError, NoSuchRun, UsageError
from coterie.execution.runs import ended, index
from coterie.execution.runs.attempt_folders import clear_attempt
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.given_ids import keep_id
from coterie.execution.runs.messages.dispatch import attempts_live
from coterie.execution.runs.messages.doorbell import CONTROL, socket_path
from coterie.execution.runs.repository import Runs, run_in
from coterie.execution.runs.threads import latest
from coterie.history.journal.jsonl import JOURNAL
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import TurnFinished
from coterie.history.journal.status import ENDS, last_line

_REMOVED = ".removed"
"""The folder, beside those of the runs, into which a run is moved before its files are removed."""
_BEGINS_WITHIN = 3600.0
"""Seconds that a run may take until its journal begins."""


def remove(runs: Runs, run: str) -> None:
    """Remove the root run *run*, all its files and its snapshots.

    After an interruption the run is either complete or no longer listed; `coterie worktree clean` removes leftover
    snapshots.

    Raises:
        NoSuchRun: If there is none, for example because another process has just removed it.
        RunIsOwned: If a living process drives it.
        UsageError: If it is a child run, or has a git work tree.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
    """
    if "/" in run:
        raise UsageError(f"{run!r} is a child run, which is a part of its run")
    check_operator(runs, run)
    tree = worktree.read(runs.root, run)
    if tree is not None and not tree.removed:
        raise UsageError(f"run {run!r} has a git work tree; `coterie worktree clean {run}` removes it first")
    repository = None if index.is_shared(run) else _repository(runs, run, tree)
    is_over = _is_over(runs, run)
    keep_id(run, runs.root)
    _discard(run, folder := runs.folder(run))
    if is_over:  # or the user's later changes would count as those of agents that a kill has ended
        agent_writes.end(folder.absolute())
    clear_removed(runs.root)
    if repository is not None:
        with suppress(CoterieError):
            forget(repository, run)


def _is_over(runs: Runs, run: str) -> bool:
    """Whether attempts of *run* are noted as writing whose processes have ended."""
    with suppress(OSError, CoterieError):
        return agent_writes.is_open(runs.folder(run).absolute()) and not attempts_live(runs, run)
    return False


def _discard(run: str, folder: Path) -> None:
    """Move the *folder* of *run*, which has no owner, to those whose files are to be removed."""
    bin_ = folder.parent / _REMOVED
    try:
        lock = RunLock(run, folder / "lock")
    except FileNotFoundError:
        raise NoSuchRun(run) from None
    try:
        files.make_folder(bin_)
        folder.rename(bin_ / f"{folder_name(run)}-{secrets.token_hex(4)}")
    finally:
        lock.release()


def clear_ended(runs: Runs, run: str) -> None:
    """Remove what killed processes have left in the folder of *run*, which has ended; see `docs/running.md`, Files.

    Nothing is removed while a process owns the run.
    """
    folder = runs.folder(run)
    with suppress(OSError, CoterieError):
        lock = RunLock(run, folder / "lock")
        try:
            attempts = [*_attempts_in(folder)]
            for attempt in attempts:
                clear_attempt(attempt)
            if any(map(steps.are_in, attempts)):
                _forget(runs, run, attempts)
            names = (".*.part", "inbox/.*.part", "inbox/*.json", "agents/pi-*/*")
            found = [path for name in names for path in folder.glob(name)]
            for path in (*found, folder / CONTROL, folder / BELL, socket_path(folder), link_of(folder)):
                if path.is_symlink() or not path.is_dir():
                    path.unlink(missing_ok=True)
        finally:
            lock.release()


def _forget(runs: Runs, run: str, attempts: Iterable[Path]) -> None:
    """Remove the conversations in the folders of *attempts* that nothing continues: of a failed run, other turns'."""
    match last_line(runs.file(run)):
        case {"topic": "run.finished", "outcome": "failed"}:  # a retry continues turns without a result
            for which, one in runs.history(run):
                if isinstance(one, TurnFinished):
                    its = [runs.folder(child_run_id(which, one.turn, n)) for n in range(1, one.attempt + 1)]
                    steps.remove(chain(its, *map(_attempts_in, its)))
        case {"topic": "run.finished"}:
            steps.remove(attempts)


def _attempts_in(folder: Path) -> Iterator[Path]:
    """The folders of the attempts of the run in *folder*, and of its child runs."""
    turns = folder / "turns"
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(turns):
            if not os.path.islink(attempt := turns / name):
                yield attempt
                yield from _attempts_in(attempt)


def _repository(runs: Runs, run: str, tree: WorkTree | None) -> Repository | None:
    """The repository with the snapshots of *run*, if it is known and still there."""
    with suppress(CoterieError, OSError):
        if place := tree.origin if tree is not None else runs.first(run).cwd:
            return find(Path(place))
    return None


def clear_removed(state_dir: Path) -> None:
    """Remove the files of runs whose removal was interrupted."""
    left = state_dir / "runs" / _REMOVED
    while left.exists():
        with suppress(FileNotFoundError):  # another process is removing them, too
            files.remove(left)


def prune(state_dir: Path, before: float) -> Iterator[tuple[str, str]]:
    """Remove the runs of the directory of *state_dir* that ended before the time *before*, or have never begun.

    Yields each with the reason why it could not be removed; empty if it was. Runs that can be resumed stay, and the
    latest run of each thread.
    """
    for home in index.homes(state_dir):
        for folder in _never_begun(home, min(before, time.time() - _BEGINS_WITHIN)):
            with suppress(OSError, CoterieError):
                check_operator()
                _discard(run := unquote(folder.name), folder)
                yield run, ""
        clear_removed(home)
    homes = map(Runs, index.homes(state_dir))
    kept = {str(home.folder(run).resolve()): name for home in homes for run, name in latest(home).items()}
    for entry in list(index.newest(state_dir)):
        runs, run = run_in(Path(entry.folder))
        status = runs.store.status(run)
        if status.state in ENDS and status.at < before and (thread := kept.get(str(runs.folder(run).resolve()))):
            yield run, f"the thread {thread!r} goes on from it; `coterie thread rm` forgets that"
        elif status.state in ENDS and status.at < before:
            try:
                with suppress(NoSuchRun):  # another process has removed it meanwhile
                    remove(runs, run)
                yield run, ""
            except CoterieError as error:
                yield run, str(error)
        elif status.state in ENDS:
            with suppress(CoterieError):
                check_operator(runs, run)
                clear_ended(runs, run)
    index.forget_removed()
    ended.forget_removed()


def _never_begun(home: Path, before: float) -> list[Path]:
    """The folders of runs in *home* without a journal that were last changed before the time *before*."""
    folders = [folder for folder in (home / "runs").glob("*/") if folder.name != _REMOVED]
    return [one for one in folders if not (one / JOURNAL).exists() and one.stat().st_mtime < before]
