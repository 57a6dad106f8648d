"""A run's own git work tree: made, found again, removed. Each can be repeated after a kill.

    <state_dir>/worktrees/<run>/tree       the files; its branch is `<prefix>/<run>`
                                meta.json  what is known of it, which stays when the files are removed

How its work gets back is in `coterie.runs.trees.merging`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie import files
from coterie.errors import GitFailed, UsageError
from coterie.ids import folder_name
from coterie.journal.lines import sync_data, sync_folder
from coterie.runs.trees.git import Repository, find
from coterie.runs.trees.hiding import hide
from coterie.runs.trees.repository_lock import locked

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
        status: `making` (nothing has worked in it yet), `running`, `completed`, `failed`, `conflict`, `blocked` or
            `merged`.
        commit: What the origin's branch is to be moved to, written before it is moved.
        files: Where its work and the origin's disagree; *reason* says why it is not merged.
        leaving: Whether its work is committed and its files are being removed; *removed*: they are gone.
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
    leaving: bool = False
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
    yield from below(state_dir.resolve() / FOLDER)


def below(home: Path) -> Iterator[Tree]:
    """The work trees whose folders lie in the folder *home*, at any depth."""
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        if folder.name == FILES or not folder.is_dir():
            continue
        if (folder / META).is_file():
            yield _decoded(folder / META)
        yield from below(folder)


def _decoded(path: Path) -> Tree:
    try:
        return msgspec.json.decode(files.read(path, _LARGEST), type=Tree)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({error}): `git worktree list` shows where the files are") from None


def write(state_dir: Path, tree: Tree) -> Tree:
    """Keep what is known of *tree*, whole or not at all; it survives a power cut."""
    home = folder(state_dir, tree.run)
    files.make_folder(home)
    part = home / f".{META}"
    files.write(part, msgspec.json.format(msgspec.json.encode(tree)) + b"\n")
    with files.open_private(part, "rb") as file:
        sync_data(file.fileno())
    part.replace(home / META)
    sync_folder(home)
    return tree


def make(repository: Repository, state_dir: Path, tree: Tree) -> Tree:
    """Make the files of *tree*, at the commit `tree.base` on a new branch.

    What is known of it is written first. After a kill the same tree is adopted if it is complete, else it is made anew;
    one whose files were removed later gets those of its branch.

    Raises:
        GitFailed: If git cannot.
    """
    hide(state_dir.resolve() / FOLDER)
    with locked(repository.common):
        known = read(state_dir, tree.run)
        if known is None:
            known = write(state_dir, msgspec.structs.replace(tree, branch=free_branch(repository, tree.branch)))
        if known.status == "making":
            known = _made(repository, state_dir, known)
        elif find(Path(known.path)) is None:
            repository.ask("worktree", "add", "--quiet", "--force", "--force", known.path, known.branch)
        Path(known.cwd).mkdir(parents=True, exist_ok=True)
    return known


def _made(repository: Repository, state_dir: Path, tree: Tree) -> Tree:
    """*tree* with its files: those that an owner made which was killed, or new ones."""
    tip = repository.commit_of(f"refs/heads/{tree.branch}")
    if tip and tip != tree.base:  # somebody else made a branch of that name meanwhile
        tip, tree = "", msgspec.structs.replace(tree, branch=free_branch(repository, tree.branch))
        write(state_dir, tree)
    if not tip or not _is_whole(tree):
        shutil.rmtree(tree.path, ignore_errors=True)
        place = (tree.path, tree.branch) if tip else ("-b", tree.branch, tree.path, tree.base)
        repository.ask("worktree", "add", "--quiet", "--force", "--force", *place)
    return write(state_dir, msgspec.structs.replace(tree, status="running", leaving=False, removed=False))


def _is_whole(tree: Tree) -> bool:
    """Whether all files of *tree*, which nothing has worked in, are there, on its branch."""
    own = find(Path(tree.path))
    if own is None or own.top.resolve() != Path(tree.path).resolve() or own.branch() != tree.branch:
        return False
    said = own.call("status", "--porcelain")
    return said.status == 0 and not said.out and not (own.own / "index.lock").exists()


def unlock(own: Repository) -> None:
    """Remove the locks that a killed git left in the work tree *own* of a run; its agents have ended."""
    for name in ("index.lock", "HEAD.lock"):
        (own.own / name).unlink(missing_ok=True)
    if branch := own.branch():
        (own.common / "refs" / "heads" / f"{branch}.lock").unlink(missing_ok=True)


def described(repository: Repository, state_dir: Path, run: str, *, prefix: str, base: str) -> Tree:
    """The work tree of *run* that is to be made, beginning at the commit *base*."""
    path = folder(state_dir, run) / FILES
    return Tree(
        run=run,
        status="making",
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
        GitFailed: If the files cannot be removed.
    """
    origin = find(Path(returning(state_dir, tree).origin))
    write(state_dir, msgspec.structs.replace(tree, leaving=True))
    with locked(origin.common) if origin is not None else nullcontext():
        words = ("worktree", "remove", "--force", "--force", tree.path)
        if origin is not None:
            origin.call(*words)
        if os.path.lexists(tree.path):  # git was killed while it removed them, or is gone
            shutil.rmtree(tree.path, ignore_errors=True)
            if os.path.lexists(tree.path):
                raise GitFailed(words, 1, f"{tree.path} cannot be removed: check its permissions")
            if origin is not None:
                origin.call(*words)
        if origin is not None and branch:
            was = (tree.base,) if tree.status == "making" else ()
            origin.call("update-ref", "-d", f"refs/heads/{tree.branch}", *was)
    return write(state_dir, msgspec.structs.replace(tree, leaving=True, removed=True))


def returning(state_dir: Path, tree: Tree) -> Tree:
    """*tree* with the place that its work goes back to: that of its loop's tree, once this one was removed."""
    above = read(state_dir, tree.run.rpartition("/")[0]) if "/" in tree.run else None
    if above is None or not above.removed:
        return tree
    above = returning(state_dir, above)
    return msgspec.structs.replace(tree, origin=above.origin, base_branch=above.base_branch)


def free_branch(repository: Repository, branch: str) -> str:
    """*branch*, or with a number behind it if there is one of that name.

    Raises:
        GitFailed: If it cannot name a branch.
    """
    taken = set(repository.ask("for-each-ref", "--format=%(refname:short)", "refs/heads/").splitlines())
    names = (branch if n == 1 else f"{branch}-{n}" for n in range(1, len(taken) + 3))
    free = next(name for name in names if name not in taken)
    if repository.call("check-ref-format", "--branch", free).status:
        raise GitFailed(("worktree", "add"), 1, f"{free!r} is no name for a branch: set worktree.branch_prefix")
    return free
