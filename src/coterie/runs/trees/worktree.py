"""A run's own git work tree: made, found again, removed.

    <state_dir>/worktrees/<run>/tree       the files; its branch is `<prefix>/<run>`
                                meta.json  what is known of it, which stays when the files are removed

How its work gets back is in `coterie.runs.trees.merging`.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie import files
from coterie.errors import GitFailed, UsageError
from coterie.ids import folder_name
from coterie.runs.trees.git import Repository, find
from coterie.runs.trees.hiding import hide

FOLDER = "worktrees"
META = "meta.json"
FILES = "tree"
_LARGEST = 1 << 24


class Tree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a run's work tree.

    Attributes:
        path: Its topmost folder, and *cwd* the one that the agents work in.
        origin: The work tree it comes from, and *base_branch* what was checked out there; empty: no branch was.
        base: The commit it began with.
        strategy: How its work gets back: `squash`, `merge` or `rebase`.
        cleanup: When it is removed: `on_success`, `always` or `never`.
        by_itself: Whether that happens when the run completes; else somebody has to say so.
        status: `running`, `completed`, `failed`, `conflict`, `blocked` or `merged`.
        commit: What the origin's branch is to be moved to, written before it is moved.
        files: Where its work and the origin's disagree; *reason* says why it is not merged.
        removed: Whether the files are gone.
    """

    run: str
    path: str
    cwd: str
    branch: str
    origin: str
    base: str
    base_branch: str = ""
    strategy: str = "squash"
    cleanup: str = "on_success"
    by_itself: bool = True
    status: str = "running"
    commit: str = ""
    files: tuple[str, ...] = ()
    reason: str = ""
    removed: bool = False


def folder(state_dir: Path, run: str) -> Path:
    """Where what belongs to the work tree of *run* lies."""
    return state_dir.resolve().joinpath(FOLDER, *(folder_name(part) for part in run.split("/")))


def read(state_dir: Path, run: str) -> Tree | None:
    """The work tree of *run*; None if it has, and had, none.

    Raises:
        UsageError: If what is known of it cannot be read.
    """
    path = folder(state_dir, run) / META
    return _decoded(path) if path.is_file() else None


def trees(state_dir: Path) -> Iterator[Tree]:
    """The work trees of the runs under *state_dir*, by run, each before those of its waves' branches."""
    yield from _below(state_dir.resolve() / FOLDER)


def _below(home: Path) -> Iterator[Tree]:
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        if (folder / META).is_file():
            yield _decoded(folder / META)
        if folder.is_dir() and folder.name != FILES:
            yield from _below(folder)


def _decoded(path: Path) -> Tree:
    try:
        return msgspec.json.decode(files.read(path, _LARGEST), type=Tree)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({error}): `git worktree list` shows where the files are") from None


def write(state_dir: Path, tree: Tree) -> Tree:
    """Keep what is known of *tree*, whole or not at all."""
    home = folder(state_dir, tree.run)
    files.make_folder(home)
    part = home / f".{META}"
    files.write(part, msgspec.json.format(msgspec.json.encode(tree)) + b"\n")
    part.replace(home / META)
    return tree


def make(repository: Repository, state_dir: Path, tree: Tree) -> Tree:
    """Make the files of *tree*, at the commit `tree.base` on a new branch, and keep what is known of it.

    What is there already is taken as it is, so this can be repeated after a crash.

    Raises:
        GitFailed: If git cannot.
    """
    known = read(state_dir, tree.run)
    if known is not None and find(Path(known.path)) is not None:
        return known
    home = folder(state_dir, tree.run)
    files.make_folder(home)
    hide(state_dir.resolve() / FOLDER, "*")
    branch = _free(repository, tree.branch)
    repository.ask("worktree", "add", "--quiet", "-b", branch, tree.path, tree.base)
    Path(tree.cwd).mkdir(parents=True, exist_ok=True)
    return write(state_dir, msgspec.structs.replace(tree, branch=branch))


def described(repository: Repository, state_dir: Path, run: str, *, prefix: str, base: str) -> Tree:
    """What a work tree of *run* would be, beginning at the commit *base*."""
    path = folder(state_dir, run) / FILES
    return Tree(
        run=run,
        path=str(path),
        cwd=str(path / repository.prefix),
        branch=f"{prefix}/{run}",
        origin=str(repository.top),
        base=base,
        base_branch=repository.branch(),
    )


def restore(tree: Tree, commit: str) -> None:
    """Give *tree*, which is fresh, the files of *commit*; to git they are changes that are not committed.

    Raises:
        GitFailed: If git cannot.
    """
    repository = Repository(top=Path(tree.path), own=Path(), common=Path())
    repository.ask("read-tree", "--reset", "-u", commit)
    repository.ask("read-tree", "--reset", "HEAD")


def remove(state_dir: Path, tree: Tree, *, branch: bool) -> Tree:
    """Remove the files of *tree*, and its *branch* if that is said; what is known of it stays.

    Raises:
        GitFailed: If git cannot.
    """
    origin = find(Path(tree.origin))
    if origin is None:
        shutil.rmtree(tree.path, ignore_errors=True)
    else:
        if os.path.lexists(tree.path):
            origin.ask("worktree", "remove", "--force", "--force", tree.path)
        else:
            origin.call("worktree", "remove", "--force", "--force", tree.path)
        if branch:
            origin.call("update-ref", "-d", f"refs/heads/{tree.branch}")
    return write(state_dir, msgspec.structs.replace(tree, removed=True))


def _free(repository: Repository, branch: str) -> str:
    """*branch*, or with a number behind it if there is one of that name."""
    taken = set(repository.ask("for-each-ref", "--format=%(refname:short)", "refs/heads/").splitlines())
    names = (branch if n == 1 else f"{branch}-{n}" for n in range(1, len(taken) + 3))
    free = next(name for name in names if name not in taken)
    if repository.call("check-ref-format", "--branch", free).status:
        raise GitFailed(("worktree", "add"), 1, f"{free!r} is no name for a branch: set worktree.branch_prefix")
    return free
