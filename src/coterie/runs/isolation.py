"""Decide whether a run gets a git work tree; it is made once the run has begun."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.errors import CoterieError, UsageError
from coterie.planning.place import RunPlace
from coterie.runs import index
from coterie.runs.repository import run_in
from coterie.workspace.trees.git import Repository, find, require
from coterie.workspace.trees.worktree import WorkTree, free_branch, new_tree


def decide(wanted: bool | None, others: Callable[[], bool]) -> str:
    """Why a run gets a work tree: `wanted`, or `auto` because *others* work in the same files; empty if it gets none.

    Args:
        wanted: The option of the command line, else the setting; None if neither is given.
    """
    if wanted is not None:
        return "wanted" if wanted else ""
    return "auto" if others() else ""


def isolate(run: str, cwd: Path, state_dir: Path, place: RunPlace, tell: Callable[[str], object]) -> WorkTree | None:
    """Describe the work tree for *run*, started in *cwd*; None if it works in *cwd*. Nothing is made yet.

    Args:
        tell: Takes messages for the user.

    Raises:
        UsageError: If a work tree is wanted and not possible.
        GitFailed: If its branch would have no valid name.
    """
    repository = find(cwd)
    reason = decide(place.worktree, lambda: repository is not None and is_used(repository, state_dir))
    if not reason:
        return None
    why = "worktree.enabled (or --worktree)"
    repository = repository or require(cwd, f"{why} needs a git work tree")
    base = repository.commit_of("HEAD")
    if not base and reason == "auto":
        tell("another run works in this git work tree, which has no commit yet: both change the same files")
        return None
    if not base:
        raise UsageError(f"{why} needs a commit, and {repository.top} has none: commit something first")
    tree = new_tree(repository, state_dir, run, prefix=place.branch_prefix, base=base)
    branch = free_branch(repository, tree.branch)
    tree = replace(tree, branch=branch, strategy=place.merge_strategy, cleanup=place.cleanup)
    if reason == "auto":
        tell("another run works in this git work tree, so this one gets its own (--no-worktree shares it)")
    tell(f"working in {tree.path}, on the branch {tree.branch}{_left_out(repository)}")
    return tree


def is_used(repository: Repository, state_dir: Path) -> bool:
    """Whether a live process drives a run in the same git work tree."""
    for entry in index.entries(state_dir):
        runs, run = run_in(Path(entry.folder))
        if runs.is_owned(run):
            try:
                cwd = runs.first(run).cwd
            except (CoterieError, OSError):  # it has not begun yet
                continue
            there = find(Path(cwd)) if cwd else None
            if there is not None and there.top.resolve() == repository.top.resolve():
                return True
    return False


def _left_out(repository: Repository) -> str:
    """A note about uncommitted changes, which a new work tree does not have."""
    changed = repository.call("status", "--porcelain", "--untracked-files=no").out.splitlines()
    if not changed:
        return ""
    files = f"{len(changed)} files have" if len(changed) > 1 else "1 file has"
    return f"; {files} uncommitted changes here, which the run does not see"
