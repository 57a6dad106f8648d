"""What becomes of a run's work tree when the run ends, or when somebody says so; and how to say it to people."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from coterie import files
from coterie.errors import CoterieError, GitFailed
from coterie.runs.trees import worktree
from coterie.runs.trees.git import find
from coterie.runs.trees.merging import commit_all, merge
from coterie.runs.trees.snapshots import LARGEST_INDEX, excluded, write_files
from coterie.runs.trees.worktree import Tree

DIFF = ("diff", "--no-ext-diff", "--no-textconv")
"""Shows what git itself finds, without the programs that a repository names for showing differences."""


def settle(state_dir: Path, run: str, status: str) -> Tree | None:
    """Bring the work of *run* back if it has `completed`, and remove its tree as its settings say.

    A run that has only stopped keeps its tree: it goes on there. Nothing is lost: what is removed without having been
    merged is committed on its branch, which stays.

    Args:
        status: How the run ended: `completed`, `failed` or `stopped`.
    """
    tree = worktree.read(state_dir, run)
    if tree is None or tree.removed or tree.status == "merged" or status == "stopped":
        return tree
    if not tree.by_itself:
        return worktree.write(state_dir, replace(tree, status=status))
    try:
        tree = (
            merge(state_dir, tree) if status == "completed" else worktree.write(state_dir, replace(tree, status=status))
        )
        return clean(state_dir, tree)
    except (CoterieError, OSError) as error:
        return worktree.write(state_dir, replace(tree, status="blocked", reason=str(error)))


def clean(state_dir: Path, tree: Tree, *, now: bool = False) -> Tree:
    """Remove the files of *tree* if its settings say so of how it stands, or *now*; an unmerged branch stays.

    Raises:
        GitFailed: If git cannot.
    """
    merged = tree.status == "merged"
    if tree.removed or not (now or tree.cleanup == "always" or (tree.cleanup == "on_success" and merged)):
        return tree
    if not merged and Path(tree.path).exists():
        commit_all(tree, state_dir, f"Work of run {tree.run}, not merged\n")
    return worktree.remove(state_dir, tree, branch=merged)


def changes(state_dir: Path, tree: Tree) -> str:
    """What differs in *tree* from the commit it began with, as git shows it; what is not committed counts.

    Raises:
        GitFailed: If git cannot.
    """
    own = find(Path(tree.path))
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
        case "running":
            yield f"it works on {where}"
        case _:
            yield f"its files are on {where}; to bring them back: coterie worktree merge {tree.run}"
