"""The state of a work tree for people: its differences, unmerged branches, and the next steps."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import Repository, find
from coterie.agents.workspace.trees.refs import refs_of
from coterie.agents.workspace.trees.signing import lacks_signature
from coterie.agents.workspace.trees.snapshots import LARGEST_INDEX, excluded, write_files
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base import files
from coterie.errors import GitFailed


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


def lost_commits(origin: Repository | None, run: str) -> Iterator[str]:
    """A line about the commits of agents of *run* that were in no branch of the run when an attempt ended."""
    top = f"{refs_of(run)}/lost/"
    found = origin.lines("for-each-ref", "--format=%(refname)", top) if origin is not None else []
    if found and origin is not None:
        what = "a commit is kept" if len(found) == 1 else f"{len(found)} commits are kept"
        shown = f"git -C {origin.top} log --no-walk --glob={top}*"
        yield f"{what} that its agents stashed or left behind, in no branch: {shown}"


def unsigned(tree: WorkTree) -> Iterator[str]:
    """A line if the merge is not signed although `commit.gpgsign` wants it, since signing would have asked the user."""
    origin = find(Path(tree.origin)) if tree.status == "merged" else None
    if origin is not None and tree.commit:
        yield from unsigned_commit(origin, tree.commit)


def unsigned_commit(repository: Repository, commit: str) -> Iterator[str]:
    """A line if *commit* is not signed although `commit.gpgsign` wants it."""
    if lacks_signature(repository, commit):
        yield (
            "its commits are not signed, although commit.gpgsign says so, since that needs a question or a program "
            "that the repository names: git commit --amend --no-edit -S"
        )


def unmerged_branches(state_dir: Path, run: str) -> Iterator[str]:
    """Lines about the branches of waves, and the turns, whose work is not merged into the files of *run*."""
    for one in worktree.trees_below(worktree.folder(state_dir, run)):
        if one.status in ("conflict", "blocked", "failed"):
            why = f"conflicts in {', '.join(one.files)}" if one.files else one.reason
            yield f"the work of {one.run} is not merged ({why}): it is on the branch {one.branch}"
            yield f"when that is resolved: coterie worktree merge {one.run}"


def diff(state_dir: Path, tree: WorkTree) -> str:
    """The output of `git diff` between the commit that *tree* began with and its files, committed or not.

    Raises:
        GitFailed: If git cannot.
    """
    own, tree = worktree.repository_of(tree), worktree.with_current_origin(state_dir, tree)
    if own is None:
        origin = worktree.origin_of(state_dir, tree)
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
