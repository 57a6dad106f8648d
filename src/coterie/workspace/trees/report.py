"""The state of a work tree for people: its differences, unmerged branches, and the next steps."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie import files
from coterie.errors import GitFailed
from coterie.workspace.trees import worktree
from coterie.workspace.trees.git import find
from coterie.workspace.trees.snapshots import LARGEST_INDEX, excluded, write_files
from coterie.workspace.trees.worktree import WorkTree

"""Shows what git itself finds, without the programs that a repository configures for showing differences."""


def describe(tree: WorkTree) -> Iterator[str]:
    """The state of *tree* and what to do next, as lines for people."""
    into = tree.base_branch or "HEAD"
    where = f"the branch {tree.branch}" + ("" if tree.removed else f", in {tree.path}")
    match tree.status:
        case "merged":
            yield f"its work is merged into {into} of {tree.origin}" + ("" if tree.removed else f"; {tree.path} stays")
        case "conflict":
            yield f"its work is not merged: it conflicts with {into} in {', '.join(tree.files)}"
            yield f"it is on {where}; to go on:"
            again = "rebase" if tree.strategy == "rebase" else "merge"
            yield f"  git -C {tree.path} {again} {into}    # solve the conflicts there, and commit"
            yield f"  coterie worktree merge {tree.run}"
        case "blocked":
            yield f"its work is not merged: {tree.reason}"
            yield f"it is on {where}; when that is resolved: coterie worktree merge {tree.run}"
        case "failed":
            yield f"what it did is on {where}; to merge it anyway: coterie worktree merge {tree.run}"
        case "making":
            yield f"it was being made, with {where}; to go on: coterie resume {tree.run}"
        case "running":
            yield f"it works on {where}"
        case _:
            yield f"its files are on {where}; to bring them back: coterie worktree merge {tree.run}"


def unmerged_branches(state_dir: Path, tree: WorkTree) -> Iterator[str]:
    """Lines about the branches of waves whose work is not merged into *tree*, the work tree of their loop."""
    for one in worktree.trees_below(worktree.folder(state_dir, tree.run)):
        if one.status in ("conflict", "blocked", "failed"):
            why = f"conflicts in {', '.join(one.files)}" if one.files else one.reason
            yield f"the work of {one.run} is not merged ({why}): it is on the branch {one.branch}"
            yield f"when that is resolved: coterie worktree merge {one.run}"


def diff(state_dir: Path, tree: WorkTree) -> str:
    """The output of `git diff` between the commit that *tree* began with and its files, committed or not.

    Raises:
        GitFailed: If git cannot.
    """
    own, tree = find(Path(tree.path)), worktree.with_current_origin(state_dir, tree)
    if own is None or own.top.resolve() != Path(tree.path).resolve():
        origin = find(Path(tree.origin))
        if origin is None or not origin.commit_of(f"refs/heads/{tree.branch}"):
            raise GitFailed(("diff",), 1, f"{tree.path} and the branch {tree.branch} are gone: {tree.status}")
        return origin.output("diff", tree.base, f"refs/heads/{tree.branch}")
    index = worktree.folder(state_dir, tree.run) / "diff.index"
    try:
        with suppress(FileNotFoundError):
            files.write(index, files.read(own.own / "index", LARGEST_INDEX))
        written, _ = write_files(own, excluded(own, [state_dir]), {"GIT_INDEX_FILE": str(index)})
    finally:
        index.unlink(missing_ok=True)
    return own.output("diff", tree.base, written)
