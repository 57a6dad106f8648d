"""Decide whether a run gets a git work tree, which is made once the run has begun."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.workspace.trees.git import Repository, find
from coterie.agents.workspace.trees.worktree import WorkTree, free_branch, needed, new_tree
from coterie.errors import CoterieError
from coterie.execution.runs import index
from coterie.execution.runs.repository import run_in
from coterie.team.planning.place import RunPlace


def decide(wanted: bool | None, others: Callable[[], bool]) -> str:
    """Why a run gets a work tree: `wanted`, or `auto` because *others* use the same files; empty if it gets none.

    Args:
        wanted: The option of the command line, else the setting; None if neither is given.
    """
    if wanted is not None:
        return "wanted" if wanted else ""
    return "auto" if others() else ""


def isolate(run: str, cwd: Path, state_dir: Path, place: RunPlace, tell: Callable[[str], object]) -> WorkTree | None:
    """Describe the work tree for *run*, started in *cwd*; None if it works in *cwd*. Nothing is created yet.

    Args:
        tell: Called with messages for the user.

    Raises:
        UsageError: If a work tree is wanted but not possible.
        GitFailed: If its branch would have no valid name.
    """
    repository = find(cwd)
    reason = decide(place.worktree, lambda: repository is not None and is_used(repository, state_dir))
    if not reason:
        return None
    why = "worktree.enabled (or --worktree)"
    if reason == "auto" and repository is not None and not repository.commit_of("HEAD"):
        tell("another run works in this git work tree, which has no commit yet: both change the same files")
        return None
    repository = needed(cwd, why)
    base = repository.commit_of("HEAD")
    tree = new_tree(repository, state_dir, run, prefix=place.branch_prefix, base=base)
    branch = free_branch(repository, tree.branch)
    tree = replace(tree, branch=branch, strategy=place.merge_strategy, cleanup=place.cleanup)
    tree = replace(tree, copy=place.copy, setup=place.setup)
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
    """A note about uncommitted changes, which are not in a new work tree."""
    changed = repository.call("status", "--porcelain", "--untracked-files=no").out.splitlines()
    if not changed:
        return ""
    files = f"{len(changed)} files have" if len(changed) > 1 else "1 file has"
    return f"; {files} uncommitted changes here, which the run does not see"
