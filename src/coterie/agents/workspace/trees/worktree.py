"""The git work tree of a run: make, find and remove it. Each step can be repeated after a kill.

    <state_dir>/worktrees/<run>/tree       the files; its branch is `<prefix>/<run>`
                                meta.json  the `WorkTree`, which stays when the files are removed

`coterie.agents.workspace.trees.merge` merges its work.
"""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.agents.workspace.trees.git import Repository, checked_out, find, is_sparse, require
from coterie.agents.workspace.trees.gitignore import hide
from coterie.agents.workspace.trees.refs import refs_of
from coterie.agents.workspace.trees.repository_lock import locked
from coterie.base import files
from coterie.base.ids import folder_name
from coterie.errors import GitFailed, UsageError
from coterie.history.journal.lines import sync_data, sync_folder

FOLDER = "worktrees"
META = "meta.json"
FILES = "tree"
INDEX = "tree.index"
"""The index with which snapshots are taken."""
_LARGEST = 1 << 24
ENDED = frozenset({"completed", "failed"})
"""The statuses of a tree whose run has ended and whose work is not merged; it is `running` again once that goes on."""


class WorkTree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The work tree of a run.

    Attributes:
        path: Its topmost folder; *cwd* is the one that the agents work in.
        git: The owner's git folder for it, in the user's repository; its agents have another. Empty: they share it, as
            in earlier releases.
        origin: The work tree that it was made from.
        base_branch: The branch that was checked out there; empty if there was none.
        base: The commit it began with; *since* is the one of the user's that the work began with, if that is another:
            of a fork, that of its original.
        strategy: How its work is merged: `squash`, `merge` or `rebase`.
        cleanup: When it is removed: `on_success`, `always` or `never`.
        by_itself: Whether it is merged and removed when the run completes; else only by command.
        status: `making` (no agent has worked in it yet), `running`, `completed`, `failed`, `conflict`, `blocked` or
            `merged`.
        commit: The commit that the branch of the origin moves to, stored before it moves.
        files: The files with conflicts.
        reason: Why it is not merged.
        copy, setup: What a new tree gets, and the commands that prepare it, in the *sandbox* of its agents.
        unprepared: Whether that is still to be done.
        brought: The ignored files and folders that were there before an agent worked in it.
        guards: The team's files, relative to *path*, that its agents may not change; None: they are not confined.
        leaving: Whether its work is committed and its files are being removed.
        removed: Whether its files are gone.
    """

    run: str
    path: str
    cwd: str
    branch: str
    origin: str
    base: str
    git: str = ""
    since: str = ""
    base_branch: str = ""
    strategy: str = "squash"
    cleanup: str = "on_success"
    by_itself: bool = True
    status: str = "running"
    commit: str = ""
    files: tuple[str, ...] = ()
    reason: str = ""
    copy: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
    sandbox: str = "off"
    unprepared: bool = False
    brought: tuple[str, ...] = ()
    guards: tuple[str, ...] | None = None
    leaving: bool = False
    removed: bool = False


def folder(state_dir: Path, run: str) -> Path:
    """The folder of the work tree of *run*."""
    return Path(files.real_path(state_dir), FOLDER, *(folder_name(part) for part in run.split("/")))


def read(state_dir: Path, run: str) -> WorkTree | None:
    """The work tree of *run*; None if it never had one.

    Raises:
        UsageError: If its `meta.json` is damaged.
    """
    path = folder(state_dir, run) / META
    return _decoded(path) if path.is_file() else None


def trees(state_dir: Path) -> Iterator[WorkTree]:
    """The work trees of the runs in *state_dir*, by run, each before those of its waves' branches."""
    yield from trees_below(state_dir.resolve() / FOLDER)


def trees_below(home: Path) -> Iterator[WorkTree]:
    """The work trees in the folder *home*, at any depth."""
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        if folder.name == FILES or not folder.is_dir():
            continue
        if (folder / META).is_file():
            yield _decoded(folder / META)
        yield from trees_below(folder)


def _decoded(path: Path) -> WorkTree:
    try:
        tree = msgspec.json.decode(files.read(path, _LARGEST), type=WorkTree)
        return tree if tree.path == str(path.with_name(FILES)) else _relocated(tree, path.with_name(FILES))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({error}): `git worktree list` shows where the files are") from None


def _relocated(tree: WorkTree, path: Path) -> WorkTree:
    """*tree* with its paths, now that its files are in *path*; git learns the new path."""
    old, new, origin = Path(tree.path).parts, path.parts, Path(tree.origin)
    same = next((n for n, (a, b) in enumerate(zip(reversed(old), reversed(new), strict=False)) if a != b), 1)
    before, now = Path(*old[:-same]), Path(*new[:-same])
    is_near = Path(tree.path).is_relative_to(origin) or origin.name == FILES  # a branch begins with its loop's tree
    if is_near and origin.is_relative_to(before):
        origin = now / origin.relative_to(before)
    cwd = path / Path(tree.cwd).relative_to(tree.path)
    repository = find(origin)
    if path.exists():
        _link(path, repository, tree.run)
    own = repository.common.resolve() / "worktrees" / Path(tree.git).name if repository is not None else ""
    git = str(own) if tree.git else ""
    return msgspec.structs.replace(tree, path=str(path), cwd=str(cwd), origin=str(origin), git=git)


def _link(path: Path, origin: Repository | None, run: str) -> None:
    """Connect the work tree in *path* to the repository of *origin*, which has the record of it.

    By hand: `git worktree repair` would take the work tree from the repository that it was copied from.
    """
    link = path / ".git"
    name = _text(link).rpartition("/")[2]
    own = origin.common.resolve() / "worktrees" / name if origin is not None else path
    earlier = Path(_text(own / "gitdir") or link)
    if earlier == link and _text(link) == f"gitdir: {own}":
        return
    if origin is None or not own.is_dir() or (earlier != link and _text(earlier) == f"gitdir: {own}"):
        raise UsageError(
            f"the work tree of run {run!r} was moved or copied to {path} without its git repository: move or copy the "
            "repository with it, or remove that folder"
        )
    files.write(own / "gitdir", f"{link}\n".encode())
    files.write(link, f"gitdir: {own}\n".encode())


def _text(path: Path) -> str:
    return files.read(path, _LARGEST).decode().strip() if path.is_file() else ""


def write(state_dir: Path, tree: WorkTree) -> WorkTree:
    """Store *tree* atomically and durably."""
    home = folder(state_dir, tree.run)
    files.make_folder(home)
    part = home / f".{META}"
    files.write(part, msgspec.json.format(msgspec.json.encode(tree)) + b"\n")
    with files.open_private(part, "rb") as file:
        sync_data(file.fileno())
    part.replace(home / META)
    sync_folder(home)
    return tree


def make(repository: Repository, state_dir: Path, tree: WorkTree) -> WorkTree:
    """Make the files of *tree*, at the commit `tree.base` on a new branch.

    The tree is stored first. After a kill the same tree is used if it is complete, else it is made again; one whose
    files were removed later gets those of its branch.

    Raises:
        GitFailed: If git cannot.
    """
    hide(state_dir.resolve() / FOLDER)
    with locked(repository.common):
        known = read(state_dir, tree.run)
        if known is None:
            known = write(state_dir, msgspec.structs.replace(tree, branch=free_branch(repository, tree.branch)))
        if known.status == "merged" and known.removed:  # there was no work to merge
            known = write(state_dir, msgspec.structs.replace(known, status="making"))
        if known.status in ENDED:
            known = write(state_dir, msgspec.structs.replace(known, status="running", leaving=False, removed=False))
        if known.status == "making":
            known = _made(repository, state_dir, known)
        elif repository_of(known) is None:
            if (where := _elsewhere(repository, known)) is not None:
                reason = f"{known.branch}, the branch of run {known.run}, is checked out in {where}: check out another"
                raise GitFailed(("worktree", "add"), 1, reason)
            repository.output("worktree", "add", "--quiet", "--force", "--force", known.path, known.branch)
            known = write(state_dir, _with_git(known)) if known.git else known
        Path(known.cwd).mkdir(parents=True, exist_ok=True)
    return known


def _made(repository: Repository, state_dir: Path, tree: WorkTree) -> WorkTree:
    """*tree* with its files: those that a killed owner made, or new ones."""
    tip = repository.commit_of(f"refs/heads/{tree.branch}")
    if tip and tip != tree.base:  # another process made a branch of that name meanwhile
        tip, tree = "", msgspec.structs.replace(tree, branch=free_branch(repository, tree.branch))
        write(state_dir, tree)
    if not tip or not _is_whole(tree):
        files.discard(tree.path)
        place = (tree.path, tree.branch) if tip else ("-b", tree.branch, tree.path, tree.base)
        repository.output("worktree", "add", "--quiet", "--force", "--force", *place)
    return write(state_dir, msgspec.structs.replace(_with_git(tree), status="running", leaving=False, removed=False))


def _with_git(tree: WorkTree) -> WorkTree:
    """*tree*, in whose files no agent has worked, with the owner's git folder for it."""
    own = find(Path(tree.path))
    git, waits = str(own.own) if own is not None else "", bool(tree.copy or tree.setup)
    return msgspec.structs.replace(tree, git=git, unprepared=waits)


def _is_whole(tree: WorkTree) -> bool:
    """Whether *tree*, in which no agent has worked, has all files of its branch."""
    own = find(Path(tree.path))
    if own is None or own.top.resolve() != Path(tree.path).resolve() or own.branch() != tree.branch:
        return False
    listed = own.call("status", "--porcelain")
    return listed.status == 0 and not listed.out and not (own.own / "index.lock").exists()


def unlock(own: Repository) -> None:
    """Remove the locks that a killed git left in the work tree *own* of a run whose agents have ended."""
    for name in ("index.lock", "HEAD.lock"):
        (own.own / name).unlink(missing_ok=True)
    if branch := own.branch():
        (own.common / "refs" / "heads" / f"{branch}.lock").unlink(missing_ok=True)


def new_tree(repository: Repository, state_dir: Path, run: str, *, prefix: str, base: str) -> WorkTree:
    """The description of a work tree for *run* that begins at the commit *base*; nothing is made."""
    path = folder(state_dir, run) / FILES
    return WorkTree(
        run=run,
        status="making",
        path=str(path),
        cwd=str(path / repository.prefix),
        branch=f"{prefix}/{run}",
        origin=str(repository.top),
        base=base,
        base_branch=repository.branch(),
    )


def repository_of(tree: WorkTree) -> Repository | None:
    """The owner's repository for *tree*, whatever its agents did to `.git` there; None if it or the files are gone."""
    if not tree.git:
        found = find(Path(tree.path))
        return found if found is not None and found.top.resolve() == Path(tree.path).resolve() else None
    own = Path(tree.git)
    if not Path(tree.path).is_dir() or not (own / "HEAD").is_file():
        return None
    common = (own / os.fsdecode(files.read(own / "commondir", 1 << 16)).strip()).resolve()
    prefix = os.path.relpath(tree.cwd, tree.path).removeprefix(".")
    return Repository(top=Path(tree.path), own=own, common=common, prefix=prefix, bound=True)


def owner_of(tree: WorkTree) -> Repository:
    """The owner's repository for *tree*.

    Raises:
        GitFailed: If it or the files are gone.
    """
    if (own := repository_of(tree)) is None:
        raise GitFailed(("rev-parse",), 1, f"{tree.path} or {tree.git} is gone")
    return own


def origin_of(state_dir: Path, tree: WorkTree) -> Repository | None:
    """The repository that the work in *tree* is merged into: the user's, or that of a run's work tree."""
    above = _above(state_dir, tree.run)
    if above is not None and above.git and above.path == tree.origin:
        return repository_of(above)
    return find(Path(tree.origin))


def _above(state_dir: Path, run: str) -> WorkTree | None:
    """The nearest work tree of a run above *run*; None if none has one."""
    while run := run.rpartition("/")[0]:
        if (above := read(state_dir, run)) is not None:
            return above
    return None


def needed(folder: Path, why: str) -> Repository:
    """The repository around *folder*, which has a commit.

    Raises:
        UsageError: If there is none; the message begins with *why*.
    """
    repository = require(folder, f"{why} needs a git work tree")
    if not repository.commit_of("HEAD"):
        raise UsageError(f"{why} needs a commit, and {repository.top} has none: commit something first")
    if reason := repository.why_read_only():
        raise UsageError(f"{why} needs a branch, and {reason}: allow that, or do without it")
    return repository


def restore(tree: WorkTree, commit: str) -> None:
    """Check out the files of *commit* in the new *tree*, as changes that are not committed.

    Raises:
        GitFailed: If git cannot.
    """
    repository = owner_of(tree)
    repository.output("read-tree", "--reset", "-u", commit)
    if is_sparse(repository):  # what agents wrote outside of the patterns, too
        changed = repository.output("diff-tree", "-r", "-z", "--name-only", "--diff-filter=d", "HEAD", commit)
        words = ("checkout", "--quiet", "--ignore-skip-worktree-bits", "--pathspec-from-file=-", "--pathspec-file-nul")
        repository.output(*words, commit, stdin=changed, env={"GIT_LITERAL_PATHSPECS": "1"})
    repository.output("read-tree", "--reset", "HEAD")


def remove(state_dir: Path, tree: WorkTree, *, branch: bool) -> WorkTree:
    """Remove the files of *tree*, and with *branch* also its branch; its `meta.json` stays.

    Raises:
        GitFailed: If the files cannot be removed.
    """
    origin = find(Path(with_current_origin(state_dir, tree).origin))
    write(state_dir, msgspec.structs.replace(tree, leaving=True))
    with locked(origin.common) if origin is not None else nullcontext():
        words = ("worktree", "remove", "--force", "--force", tree.path)
        if origin is not None:
            origin.call(*words)
        if os.path.lexists(tree.path):  # git was killed while it removed them, or is gone
            files.discard(tree.path)
            if os.path.lexists(tree.path):
                raise GitFailed(words, 1, f"{tree.path} cannot be removed: check its permissions")
            if origin is not None:
                origin.call(*words)
        if origin is not None and branch:
            _delete_branch(origin, tree)
    return write(state_dir, msgspec.structs.replace(tree, leaving=True, removed=True))


def _elsewhere(repository: Repository, tree: WorkTree) -> Path | None:
    """The work tree of a person in which the branch of *tree* is checked out; None if there is none."""
    where = checked_out(repository, f"refs/heads/{tree.branch}")
    return where if where is not None and where.exists() and where != Path(tree.path) else None


def _delete_branch(origin: Repository, tree: WorkTree) -> None:
    """Delete the branch of *tree*; commits that no other branch has, as after a squash, stay in a ref of the run."""
    ref = f"refs/heads/{tree.branch}"
    tip = origin.commit_of(ref)
    if (tree.status == "making" and tip != tree.base) or _elsewhere(origin, tree) is not None:
        return
    if tip and tip != tree.base and not origin.is_ancestor(tip, f"refs/heads/{tree.base_branch}"):
        origin.output("update-ref", f"{refs_of(tree.run)}/work/{tree.branch}/{tip[:12]}", tip)
    origin.call("update-ref", "-d", ref, tip)


def with_current_origin(state_dir: Path, tree: WorkTree) -> WorkTree:
    """*tree* with the origin that its work is merged into: that of its loop's tree, if this one was removed."""
    above = _above(state_dir, tree.run)
    if above is None or not above.removed:
        return tree
    above = with_current_origin(state_dir, above)
    return msgspec.structs.replace(tree, origin=above.origin, base_branch=above.base_branch)


def free_branch(repository: Repository, branch: str) -> str:
    """*branch*, with a number appended if that name is taken.

    Raises:
        GitFailed: If it is not a valid name, or a branch of the user's is in its way.
    """
    listed = repository.lines("for-each-ref", "--format=%(refname)", "refs/heads/")
    taken = {name.removeprefix("refs/heads/") for name in listed}
    above = [name for name in taken if branch.startswith(f"{name}/")]
    if above:
        reason = f"the branch {above[0]!r} is in the way of {branch!r}: set worktree.branch_prefix to another name"
        raise GitFailed(("branch",), 1, reason)
    folders = {os.path.dirname(name) for name in taken}
    taken |= {"/".join(parts[:n]) for parts in (one.split("/") for one in folders) for n in range(1, len(parts) + 1)}
    names = (branch if n == 1 else f"{branch}-{n}" for n in range(1, len(taken) + 3))
    free = next(name for name in names if name not in taken)
    if repository.call("check-ref-format", "--branch", free).status:
        raise GitFailed(("worktree", "add"), 1, f"{free!r} is not a valid branch name: set worktree.branch_prefix")
    return free
