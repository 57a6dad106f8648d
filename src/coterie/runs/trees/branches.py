"""The work trees of a wave's branches: each begins with what its loop has, and goes back there when the wave is joined.

They are tried in the order of the branches. One that disagrees with what is there by then stays as it is, and is named;
so does what a branch did that failed.
"""

import re
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.journal.records import KeptTree, TreesJoined
from coterie.planning.plan import Plan
from coterie.runs.trees import worktree
from coterie.runs.trees.git import need
from coterie.runs.trees.merging import commit_all, merge
from coterie.runs.trees.worktree import Tree

_LEAVE_FILES_ALONE = ("human", "model", "scripted", "")
"""Backends that cannot change files by themselves."""


def wants_tree(plan: Plan) -> bool:
    """Whether an agent of a branch with this plan may change files."""
    return any(
        wants_tree(agent.child)
        if agent.child is not None
        else agent.kind != "human" and agent.backend not in _LEAVE_FILES_ALONE
        for agent in plan.agents.values()
    )


def open_tree(state_dir: Path, parent: Tree, run: str) -> Tree:
    """The work tree of the branch that the child run *run* is; made, if it is not there yet.

    It begins with all that is in *parent*, which is committed there.

    Raises:
        GitFailed, UsageError: If git cannot.
    """
    repository = need(Path(parent.cwd), f"a branch of {parent.run} wants its work tree")
    if (known := worktree.read(state_dir, run)) is not None:
        return worktree.make(repository, state_dir, known)
    base = commit_all(parent, state_dir, f"Work of run {parent.run} before {run.rpartition('/')[2]}\n")
    tree = worktree.described(repository, state_dir, run, prefix="", base=base)
    name = f"{parent.branch}.{run.rpartition('/')[2].replace('#', '.')}"
    return worktree.make(repository, state_dir, replace(tree, branch=name, strategy="squash"))


def join(state_dir: Path, run: str, wave: int, outcome: Callable[[str], str]) -> TreesJoined | None:
    """Bring the work of the branches of a *wave* of *run* back; None: they have no work trees.

    Asked again after a crash it says the same.

    Args:
        outcome: How a child run stands: only the work of those that `completed` is merged.

    Raises:
        GitFailed: If git cannot.
    """
    merged, kept = list[str](), list[KeptTree]()
    for tree in _trees(state_dir, run, wave):
        name = tree.run.rpartition("/")[2].rpartition(".")[0]
        if tree.status == "making":  # git could not make it, so nothing has worked in it
            worktree.remove(state_dir, tree, branch=True)
            continue
        if tree.status == "running":
            tree = _brought_back(state_dir, tree, outcome(tree.run) == "completed")
        if tree.status == "merged":
            merged.append(name)
            if not tree.removed:
                worktree.remove(state_dir, tree, branch=True)
        else:
            kept.append(KeptTree(turn=name, path=tree.path, branch=tree.branch, reason=tree.reason, files=tree.files))
    return TreesJoined(turns=tuple(merged), kept=tuple(kept)) if merged or kept else None


def _brought_back(state_dir: Path, tree: Tree, completed: bool) -> Tree:
    """What is known of *tree* once its work was brought back, or kept because the branch did not complete."""
    if completed:
        return merge(state_dir, tree)
    tip = commit_all(tree, state_dir, f"Work of {tree.run}, which did not complete\n")
    if tip == tree.base:
        return worktree.write(state_dir, replace(tree, status="merged"))
    return worktree.write(state_dir, replace(tree, status="failed", reason="the branch did not complete"))


def _trees(state_dir: Path, run: str, wave: int) -> list[Tree]:
    """The work trees of the branches of a wave, in the order of the branches."""
    home = worktree.folder(state_dir, run)
    found = [(int(match[1]), path.name) for path in home.iterdir() if (match := _branch(wave).match(path.name))]
    trees = [worktree.read(state_dir, f"{run}/{name}") for _, name in sorted(found)]
    return [tree for tree in trees if tree is not None]


def _branch(wave: int) -> re.Pattern[str]:
    return re.compile(rf"wave-{wave}\.(\d+)#")
