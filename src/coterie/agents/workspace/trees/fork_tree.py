"""The work tree of a fork, with the files of its original at an earlier moment."""

import os
import shlex
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.confinement import guards_of, strictest_sandbox
from coterie.agents.workspace.trees.disposal import remove_tree
from coterie.agents.workspace.trees.git import Repository, find
from coterie.agents.workspace.trees.snapshots import forget, keep, run_ref
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import GitFailed, UsageError
from coterie.history.journal.records import Record, RunStarted, TreeSaved
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan


def files_after(state_dir: Path, first: RunStarted, records: Iterable[tuple[str, Record]]) -> TreeSaved | None:
    """The snapshot of the files after *records* of the run that *first* began; None if there is none.

    Before any snapshot was due, the work tree of the run is as the commit that it began with. The records of child runs
    may come in any order. Snapshots of a wave's branches, which work apart, do not count, nor those of a cluster, which
    are in its export.
    """
    found = [one for _, one in records if isinstance(one, TreeSaved)]
    saved = [one for one in found if one.commit and not (one.apart or one.bundles)]
    if saved:
        return max(saved, key=lambda one: (one.at, one.seq))
    known = worktree.read(state_dir, first.run) if first.snapshots and not found else None
    return TreeSaved(turn="", attempt=0, commit=known.base) if known is not None else None


def make_fork_tree(state_dir: Path, first: RunStarted, fork: str, commit: str, plan: Plan, place: RunPlace) -> WorkTree:
    """Make a work tree for the run *fork*, with the files of *commit*, a snapshot of the original.

    It is merged only by command, because the work of the original may have been merged already.

    Args:
        first: The first record of the original.
        plan: That of the fork; *place* has its settings for work trees.

    Raises:
        UsageError: If those files are gone.
        GitFailed: If git cannot.
    """
    known = worktree.read(state_dir, first.run)
    origin = find(Path(known.origin if known is not None else first.cwd))
    if origin is None or not origin.commit_of(commit):
        raise UsageError(
            f"the files of run {first.run!r} were kept in the commit {commit[:12]}, which is gone: "
            f"{how_to_go_on(state_dir, first)} to continue with the current files"
        )
    if known is not None:
        origin = replace(origin, prefix=os.path.relpath(known.cwd, known.path).removeprefix("."))
    base = commit if known is not None and commit == known.base else origin.commit_of(f"{commit}^") or commit
    tree = worktree.new_tree(origin, state_dir, fork, prefix=place.branch_prefix, base=base)
    since = base if known is None else known.since or (known.base if known.by_itself else "")
    tree = replace(tree, strategy=place.merge_strategy, cleanup=place.cleanup, by_itself=False, since=since)
    earlier = known.guards if known is not None else None  # it has the commits of the original's agents, too
    found = [one for one in (earlier, guards_of(plan, tree)) if one is not None]
    guards = tuple(dict.fromkeys(chain.from_iterable(found))) if found else None
    tree = replace(tree, copy=place.copy, setup=place.setup, sandbox=strictest_sandbox(plan), guards=guards)
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


def how_to_go_on(state_dir: Path, first: RunStarted) -> str:
    """How a fork can work where the run worked that *first* began."""
    tree = worktree.read(state_dir, first.run)
    if Path(first.cwd).is_dir():
        return "fork with --no-worktree"
    if tree is None:
        return f"bring {first.cwd} back, then fork with --no-worktree"
    kept = tree.commit if tree.status == "merged" else tree.branch
    again = shlex.join(["git", "-C", tree.origin, "worktree", "add", "--detach", tree.path, kept])
    return f"{again}, then fork with --no-worktree"


def remove_fork_tree(state_dir: Path, tree: WorkTree) -> None:
    """Remove the work tree of a fork that could not be made."""
    origin: Repository | None = find(Path(tree.origin))
    if origin is not None:
        remove_tree(state_dir, tree, branch=True)
        forget(origin, tree.run)
