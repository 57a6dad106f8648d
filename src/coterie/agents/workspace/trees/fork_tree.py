"""The work tree of a fork, with the files of its original at an earlier moment."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.disposal import remove_tree
from coterie.agents.workspace.trees.git import Repository, find
from coterie.agents.workspace.trees.snapshots import forget, keep, run_ref
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import GitFailed, UsageError
from coterie.history.journal.records import Record, RunStarted, TreeSaved
from coterie.team.planning.place import RunPlace


def last_snapshot(records: Iterable[tuple[str, Record]]) -> str:
    """The commit of the last snapshot in *records*; empty if there is none.

    The records of child runs may come in any order. Snapshots of a wave's branches, which work apart, do not count,
    nor those of a cluster, which are in its export.
    """
    saved = [one for _, one in records if isinstance(one, TreeSaved) and one.commit and not (one.apart or one.bundles)]
    return max(saved, key=lambda one: (one.at, one.seq)).commit if saved else ""


def make_fork_tree(state_dir: Path, first: RunStarted, fork: str, commit: str, place: RunPlace | None) -> WorkTree:
    """Make a work tree for the run *fork*, with the files of *commit*, a snapshot of the original.

    It is merged only by command, because the work of the original may have been merged already.

    Args:
        first: The first record of the original.
        place: The settings of the fork.

    Raises:
        UsageError: If those files are gone.
        GitFailed: If git cannot.
    """
    known = worktree.read(state_dir, first.run)
    origin = find(Path(known.origin if known is not None else first.cwd))
    if origin is None or not origin.commit_of(commit):
        raise UsageError(
            f"the files of run {first.run!r} were kept in the commit {commit[:12]}, which is gone: "
            "fork with --no-worktree to continue with the current files"
        )
    if known is not None:
        origin = replace(origin, prefix=os.path.relpath(known.cwd, known.path).removeprefix("."))
    place = place or RunPlace(branch_prefix="coterie")
    base = origin.commit_of(f"{commit}^") or commit
    tree = worktree.new_tree(origin, state_dir, fork, prefix=place.branch_prefix, base=base)
    since = base if known is None else known.since or (known.base if known.by_itself else "")
    tree = replace(tree, strategy=place.merge_strategy, cleanup=place.cleanup, by_itself=False, since=since)
    tree = replace(tree, copy=place.copy, setup=place.setup, sandbox=known.sandbox if known is not None else "off")
    tree = replace(tree, guards=known.guards if known is not None else None)
    tree = worktree.make(origin, state_dir, tree)
    try:
        worktree.restore(tree, commit)
        kept = origin.commit_of(run_ref(first.run))  # the fork keeps the snapshots before it, should the original go
        keep(origin, fork, origin.tree_of(commit), commit, *filter(None, (kept,)))
    except GitFailed:
        remove_tree(state_dir, tree, branch=True)
        raise
    Path(tree.cwd).mkdir(parents=True, exist_ok=True)
    return tree


def remove_fork_tree(state_dir: Path, tree: WorkTree) -> None:
    """Remove the work tree of a fork that could not be made."""
    origin: Repository | None = find(Path(tree.origin))
    if origin is not None:
        remove_tree(state_dir, tree, branch=True)
        forget(origin, tree.run)
