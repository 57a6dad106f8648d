"""The work trees of a wave's branches: each begins with the files of its loop and is merged when the wave is joined.

They are merged in the order of the branches. Work that conflicts, and that of a branch that failed, stays in its tree
and is reported.
"""

import re
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.journal.records import KeptTree, TreesJoined
from coterie.planning.plan import Plan
from coterie.workspace.trees import worktree
from coterie.workspace.trees.git import require
from coterie.workspace.trees.merge import commit_all, merge_tree
from coterie.workspace.trees.worktree import WorkTree

_WITHOUT_FILES = ("human", "model", "scripted", "")
"""Backends that cannot change files."""


def wants_tree(plan: Plan) -> bool:
    """Whether an agent of *plan*, the plan of a branch, may change files."""
    return any(
        wants_tree(agent.child)
        if agent.child is not None
        else agent.kind != "human" and agent.backend not in _WITHOUT_FILES
        for agent in plan.agents.values()
    )


def make_branch_tree(state_dir: Path, parent: WorkTree, run: str) -> WorkTree:
    """Make the work tree of *run*, a branch of a wave, unless it exists.

    It begins with the files of *parent*, where all changes are committed first.

    Raises:
        GitFailed, UsageError: If git cannot.
    """
    repository = require(Path(parent.cwd), f"a branch of {parent.run} needs its work tree")
    if (known := worktree.read(state_dir, run)) is not None:
        return worktree.make(repository, state_dir, known)
    base = commit_all(parent, state_dir, f"Work of run {parent.run} before {run.rpartition('/')[2]}\n")
    tree = worktree.new_tree(repository, state_dir, run, prefix="", base=base)
    name = f"{parent.branch}.{run.rpartition('/')[2].replace('#', '.')}"
    return worktree.make(repository, state_dir, replace(tree, branch=name, strategy="squash"))


def merge_branches(state_dir: Path, run: str, wave: int, outcome: Callable[[str], str]) -> TreesJoined | None:
    """Merge the work of the branches of a *wave* of *run*; None if they have no work trees.

    A call after a crash has the same result.

    Args:
        outcome: Gives the status of a child run; only the work of those that `completed` is merged.

    Raises:
        GitFailed: If git cannot.
    """
    merged, kept = list[str](), list[KeptTree]()
    for tree in _trees(state_dir, run, wave):
        name = tree.run.rpartition("/")[2].rpartition(".")[0]
        if tree.status == "making":  # git could not make it, so no agent has worked in it
            worktree.remove(state_dir, tree, branch=True)
            continue
        if tree.status == "running":
            tree = _merged(state_dir, tree, outcome(tree.run) == "completed")
        if tree.status == "merged":
            merged.append(name)
            if not tree.removed:
                worktree.remove(state_dir, tree, branch=True)
        else:
            kept.append(KeptTree(turn=name, path=tree.path, branch=tree.branch, reason=tree.reason, files=tree.files))
    return TreesJoined(turns=tuple(merged), kept=tuple(kept)) if merged or kept else None


def _merged(state_dir: Path, tree: WorkTree, completed: bool) -> WorkTree:
    """*tree* after its work was merged, or was kept because the branch did not complete."""
    if completed:
        return merge_tree(state_dir, tree)
    tip = commit_all(tree, state_dir, f"Work of {tree.run}, which did not complete\n")
    if tip == tree.base:
        return worktree.write(state_dir, replace(tree, status="merged"))
    return worktree.write(state_dir, replace(tree, status="failed", reason="the branch did not complete"))


def _trees(state_dir: Path, run: str, wave: int) -> list[WorkTree]:
    """The work trees of the branches of a wave, in the order of the branches."""
    home, branch = worktree.folder(state_dir, run), re.compile(rf"wave-{wave}\.(\d+)#")
    found = [(int(match[1]), path.name) for path in home.iterdir() if (match := branch.match(path.name))]
    trees = [worktree.read(state_dir, f"{run}/{name}") for _, name in sorted(found)]
    return [tree for tree in trees if tree is not None]
