"""Remove runs from disk."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, UsageError
from coterie.ids import folder_name
from coterie.journal.lock import RunLock
from coterie.journal.status import ENDS
from coterie.runs import index
from coterie.runs.authority import check_operator
from coterie.runs.repository import Runs, run_in
from coterie.workspace.trees import worktree
from coterie.workspace.trees.git import Repository, find
from coterie.workspace.trees.snapshots import forget
from coterie.workspace.trees.worktree import WorkTree

_REMOVED = ".removed"
"""The folder, among those of the runs, into which a run is moved before its files are removed."""


def remove(runs: Runs, run: str) -> None:
    """Remove the root run *run*, all its files and its snapshots.

    If that is interrupted, the run is complete or no longer listed; snapshots that are left are removed by
    `coterie worktree clean`.

    Raises:
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
    repository = _repository(runs, run, tree)
    folder = runs.folder(run)
    bin_ = folder.parent / _REMOVED
    lock = RunLock(run, folder / "lock")
    try:
        files.make_folder(bin_)
        folder.rename(bin_ / f"{folder_name(run)}-{secrets.token_hex(4)}")
    finally:
        lock.release()
    clear_removed(runs.root)
    if repository is not None and not index.is_shared(run):
        with suppress(CoterieError):
            forget(repository, run)


def _repository(runs: Runs, run: str, tree: WorkTree | None) -> Repository | None:
    """The repository with the snapshots of *run*, if it is known and still there."""
    with suppress(CoterieError, OSError):
        if place := tree.origin if tree is not None else runs.first(run).cwd:
            return find(Path(place))
    return None


def clear_removed(state_dir: Path) -> None:
    """Remove the files of runs whose removal was interrupted, too."""
    left = state_dir / "runs" / _REMOVED
    while left.exists():
        with suppress(FileNotFoundError):  # another process removes them as well
            shutil.rmtree(left)


def prune(state_dir: Path, before: float) -> Iterator[tuple[str, str]]:
    """Remove the runs of the directory of *state_dir* that ended before the time *before*.

    Yields each with the reason why it could not be removed; empty if it was. Runs that can be resumed stay.
    """
    for home in index.homes(state_dir):
        clear_removed(home)
    for entry in list(index.newest(state_dir)):
        runs, run = run_in(Path(entry.folder))
        status = runs.store.status(run)
        if status.state in ENDS and status.at < before:
            try:
                remove(runs, run)
                yield run, ""
            except CoterieError as error:
                yield run, str(error)
