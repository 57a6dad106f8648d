"""The end of a run's work tree: its work is merged and its files are removed."""

from pathlib import Path

from msgspec.structs import replace

from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.leftovers import Leftovers, find_leftovers
from coterie.agents.workspace.trees.merge import commit_all, merge_tree
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base.shortages import shortage
from coterie.errors import CoterieError
from coterie.history.journal.records import TreeCleared, TreeMerged


def merge_at_end(state_dir: Path, tree: WorkTree) -> TreeMerged:
    """Merge the work of a run that completed. If git fails, the tree becomes `blocked` and its work stays there."""
    try:
        tree = merge_tree(state_dir, tree)
    except (CoterieError, OSError) as error:
        if shortage(error):
            raise
        tree = worktree.write(state_dir, replace(tree, status="blocked", reason=str(error)))
    return TreeMerged(
        status=tree.status,
        path=tree.path,
        branch=tree.branch,
        into=tree.base_branch,
        commit=tree.commit if tree.status == "merged" else "",
        files=tree.files,
        reason=tree.reason,
    )


def set_status(state_dir: Path, tree: WorkTree, status: str) -> WorkTree:
    """Store that the run of *tree* ended with *status* and its work is not merged."""
    return tree if tree.status == status else worktree.write(state_dir, replace(tree, status=status))


def is_removal_due(tree: WorkTree) -> bool:
    """Whether the settings of *tree*, whose run has ended, ask for removing its files; never after a conflict."""
    if tree.removed or tree.status in ("conflict", "blocked"):
        return False
    return tree.cleanup == "always" or (tree.cleanup == "on_success" and tree.status == "merged")


def remove_at_end(state_dir: Path, tree: WorkTree) -> TreeCleared:
    """Remove the files of *tree* when its run ends; an unmerged branch stays, and so does what is nowhere else."""
    problem = ignored = ""
    try:
        found = Leftovers() if tree.removed or tree.leaving else find_leftovers(tree)
        if problem := found.obstacle:
            problem += f"; coterie worktree clean {tree.run} removes it"
        else:
            ignored = found.describe()
            remove_files(state_dir, tree)
    except (CoterieError, OSError) as error:
        if shortage(error):
            raise
        problem = str(error)
    return TreeCleared(
        path=tree.path, branch=tree.branch, kept=tree.status != "merged", problem=problem, ignored=ignored
    )


def remove_files(state_dir: Path, tree: WorkTree, *, recorded: bool = True) -> WorkTree:
    """Remove the files of *tree*. Work that is not merged is committed first, and its branch stays.

    Args:
        recorded: Whether its branch is known from a journal; another one is not deleted.

    Raises:
        GitFailed: If git cannot.
    """
    if tree.removed:
        return tree
    disposable = tree.status in ("merged", "making")
    if not disposable and not tree.leaving and Path(tree.path).exists():
        commit_all(tree, state_dir, f"Work of run {tree.run}, not merged\n")
    return remove_tree(state_dir, tree, branch=disposable and recorded)


def remove_tree(state_dir: Path, tree: WorkTree, *, branch: bool) -> WorkTree:
    """Remove the files of *tree*, its private repository, and with *branch* also its branch; its `meta.json` stays.

    Raises:
        GitFailed: If they cannot be removed, or what only the private repository has cannot be fetched.
    """
    private.remove(tree)
    (worktree.folder(state_dir, tree.run) / worktree.INDEX).unlink(missing_ok=True)
    return worktree.remove(state_dir, tree, branch=branch)
