"""Going back to the files of an earlier moment of a run: a fork gets them in a work tree of its own."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from coterie.errors import GitFailed, UsageError
from coterie.journal.records import Record, RunStarted, TreeSaved
from coterie.planning.place import RunPlace
from coterie.planning.plan import Plan
from coterie.runs.kinds import kind_of
from coterie.runs.trees import worktree
from coterie.runs.trees.git import Repository, find
from coterie.runs.trees.worktree import Tree


def last_saved(records: Iterable[tuple[str, Record]]) -> str:
    """The commit that holds the files as the last of *records* that kept any left them; empty: none did.

    The records of child runs may come in any order; those of a wave's branches, which work apart, do not count.
    """
    saved = [one for _, one in records if isinstance(one, TreeSaved) and one.commit and not one.apart]
    return max(saved, key=lambda one: (one.at, one.seq)).commit if saved else ""


def reopen(state_dir: Path, first: RunStarted, fork: str, commit: str, plan: Plan) -> Tree:
    """A work tree for *fork*, with the files of *commit*, which its original, begun with *first*, had once.

    Its work goes back only when somebody says so: that of the original may be there already.

    Raises:
        UsageError: If those files are gone.
        GitFailed: If git cannot.
    """
    known = worktree.read(state_dir, first.run)
    origin = find(Path(known.origin if known is not None else first.cwd))
    if origin is None or not origin.commit_of(commit):
        raise UsageError(
            f"the files of run {first.run!r} were kept as {commit[:12]}, and that is gone: "
            "fork with --no-worktree, to go on with the files as they are"
        )
    if known is not None:
        origin = replace(origin, prefix=os.path.relpath(known.cwd, known.path).removeprefix("."))
    place = kind_of(plan).place or RunPlace(branch_prefix="coterie")
    base = origin.commit_of(f"{commit}^") or commit
    tree = worktree.described(origin, state_dir, fork, prefix=place.branch_prefix, base=base)
    tree = replace(tree, strategy=place.merge_strategy, cleanup=place.cleanup, by_itself=False)
    tree = worktree.make(origin, state_dir, tree)
    try:
        worktree.restore(tree, commit)
    except GitFailed:
        worktree.remove(state_dir, tree, branch=True)
        raise
    Path(tree.cwd).mkdir(parents=True, exist_ok=True)
    return tree


def drop(state_dir: Path, tree: Tree) -> None:
    """Take the work tree of a fork back that could not be made."""
    origin: Repository | None = find(Path(tree.origin))
    if origin is not None:
        worktree.remove(state_dir, tree, branch=True)
