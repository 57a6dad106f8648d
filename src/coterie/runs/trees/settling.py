"""What becomes of a run's work tree when the run ends, or when somebody says so; and how to say it to people."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from coterie import files
from coterie.errors import CoterieError, GitFailed, shortage
from coterie.journal.records import TreeCleared, TreeMerged
from coterie.runs.trees import merging, worktree
from coterie.runs.trees.git import find
from coterie.runs.trees.merging import commit_all
from coterie.runs.trees.snapshots import LARGEST_INDEX, excluded, write_files
from coterie.runs.trees.worktree import Tree

DIFF = ("diff", "--no-ext-diff", "--no-textconv")
"""Shows what git itself finds, without the programs that a repository names for showing differences."""


def merge(state_dir: Path, tree: Tree) -> TreeMerged:
    """Bring the work of a run that completes back; if git fails, the work is kept as it is."""
    try:
        tree = merging.merge(state_dir, tree)
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


def close(state_dir: Path, tree: Tree, status: str) -> Tree:
    """Note that the run of *tree* ended with *status*, and that its work is not merged."""
    return tree if tree.status == status else worktree.write(state_dir, replace(tree, status=status))


def is_due(tree: Tree) -> bool:
    """Whether the settings of *tree* want its files removed, now that its run has ended; a conflict keeps them."""
    if tree.removed or tree.status in ("conflict", "blocked"):
        return False
    return tree.cleanup == "always" or (tree.cleanup == "on_success" and tree.status == "merged")


def clear(state_dir: Path, tree: Tree) -> TreeCleared:
    """Remove the files of *tree*; an unmerged branch stays."""
    problem = ""
    try:
        clean(state_dir, tree)
    except (CoterieError, OSError) as error:
        if shortage(error):
            raise
        problem = str(error)
    return TreeCleared(path=tree.path, branch=tree.branch, kept=tree.status != "merged", problem=problem)


def clean(state_dir: Path, tree: Tree) -> Tree:
    """Remove the files of *tree*, committed first if they are not merged; then the branch stays.

    Raises:
        GitFailed: If git cannot.
    """
    if tree.removed:
        return tree
    disposable = tree.status in ("merged", "making")
    if not disposable and not tree.leaving and Path(tree.path).exists():
        commit_all(tree, state_dir, f"Work of run {tree.run}, not merged\n")
    return worktree.remove(state_dir, tree, branch=disposable)


def kept(state_dir: Path, tree: Tree) -> Iterator[str]:
    """What to say of the branches of waves whose work is not in *tree*, the work tree of their loop."""
    for one in worktree.below(worktree.folder(state_dir, tree.run)):
        if one.status in ("conflict", "blocked", "failed"):
            why = f"conflicts in {', '.join(one.files)}" if one.files else one.reason
            yield f"the work of {one.run} is not merged ({why}): it is on the branch {one.branch}; when that is mended:"
            yield f"  coterie worktree merge {one.run}"


def changes(state_dir: Path, tree: Tree) -> str:
    """What differs in *tree* from the commit it began with, as git shows it; what is not committed counts.

    Raises:
        GitFailed: If git cannot.
    """
    own, tree = find(Path(tree.path)), worktree.returning(state_dir, tree)
    if own is None or own.top.resolve() != Path(tree.path).resolve():
        origin = find(Path(tree.origin))
        if origin is None or not origin.commit_of(f"refs/heads/{tree.branch}"):
            raise GitFailed(("diff",), 1, f"{tree.path} and the branch {tree.branch} are gone: {tree.status}")
        return origin.ask(*DIFF, tree.base, f"refs/heads/{tree.branch}")
    index = worktree.folder(state_dir, tree.run) / "diff.index"
    try:
        with suppress(FileNotFoundError):
            files.write(index, files.read(own.own / "index", LARGEST_INDEX))
        written, _ = write_files(own, excluded(own, [state_dir]), {"GIT_INDEX_FILE": str(index)})
    finally:
        index.unlink(missing_ok=True)
    return own.ask(*DIFF, tree.base, written)


def told(tree: Tree) -> Iterator[str]:
    """How it stands with *tree*, and what to do next, in lines for people."""
    into = tree.base_branch or "HEAD"
    where = f"the branch {tree.branch}" + ("" if tree.removed else f", in {tree.path}")
    match tree.status:
        case "merged":
            yield f"its work is merged into {into} of {tree.origin}" + ("" if tree.removed else f"; {tree.path} stays")
        case "conflict":
            yield f"its work is not merged: it and {into} changed the same places in {', '.join(tree.files)}"
            yield f"it is on {where}; to go on:"
            again = "rebase" if tree.strategy == "rebase" else "merge"
            yield f"  git -C {tree.path} {again} {into}    # solve the conflicts there, and commit"
            yield f"  coterie worktree merge {tree.run}"
        case "blocked":
            yield f"its work is not merged: {tree.reason}"
            yield f"it is on {where}; when that is mended: coterie worktree merge {tree.run}"
        case "failed":
            yield f"what it did is on {where}; to have it all the same: coterie worktree merge {tree.run}"
        case "making":
            yield f"it was being made, with {where}; to go on: coterie resume {tree.run}"
        case "running":
            yield f"it works on {where}"
        case _:
            yield f"its files are on {where}; to bring them back: coterie worktree merge {tree.run}"
