"""Whether a run gets a work tree of its own, and which; it is made once the run has begun."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.errors import CoterieError, UsageError
from coterie.planning.place import RunPlace
from coterie.runs import index
from coterie.runs.repository import run_in
from coterie.runs.trees.git import Repository, find, need
from coterie.runs.trees.worktree import Tree, described, free_branch


def decide(wanted: bool | None, others: Callable[[], bool]) -> str:
    """By whose word a run gets a work tree of its own: `wanted`, or `auto` for *others* at work; empty: it gets none.

    Args:
        wanted: What the command line says, else the settings; None: neither does.
    """
    if wanted is not None:
        return "wanted" if wanted else ""
    return "auto" if others() else ""


def isolate(run: str, cwd: Path, state_dir: Path, place: RunPlace, tell: Callable[[str], object]) -> Tree | None:
    """The work tree that *run*, started in *cwd*, is to have; None: it works in *cwd*. Nothing is made yet.

    Args:
        tell: Takes what has to be said of it before the run begins.

    Raises:
        UsageError: If it must have one and cannot.
        GitFailed: If its branch cannot have a name.
    """
    repository = find(cwd)
    word = decide(place.worktree, lambda: repository is not None and is_used(repository, state_dir))
    if not word:
        return None
    why = "worktree.enabled (or --worktree)"
    repository = repository or need(cwd, f"{why} wants a git work tree")
    base = repository.commit_of("HEAD")
    if not base and word == "auto":
        tell("another run works in this git work tree, which has no commit yet: both work in the same files")
        return None
    if not base:
        raise UsageError(f"{why} wants a commit to begin with, and {repository.top} has none: commit something first")
    tree = described(repository, state_dir, run, prefix=place.branch_prefix, base=base)
    branch = free_branch(repository, tree.branch)
    tree = replace(tree, branch=branch, strategy=place.merge_strategy, cleanup=place.cleanup)
    if word == "auto":
        tell("another run works in this git work tree, so this one gets its own (--no-worktree: the same)")
    tell(f"working in {tree.path}, on the branch {tree.branch}{_left_out(repository)}")
    return tree


def is_used(repository: Repository, state_dir: Path) -> bool:
    """Whether a living process runs a run in the same git work tree."""
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
    """A word on what the user has not committed, which a fresh work tree does not have."""
    changed = repository.call("status", "--porcelain", "--untracked-files=no").out.splitlines()
    if not changed:
        return ""
    files = f"{len(changed)} files are" if len(changed) > 1 else "1 file is"
    return f"; {files} changed here and not committed: the run does not see that"
