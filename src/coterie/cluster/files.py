"""The files of a run on a cluster: packed when it is submitted, worked on in git work trees, brought back.

What was submitted is one commit without parents, in a git bundle. A turn begins at the merge of what the turns before
it left (its heads), in a separate work tree, and leaves a commit behind, whose bundle holds what is new in it. So
turns side by side do not see each other's files; what they leave is merged when the next turn begins.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie import files
from coterie.errors import CoterieError, GitFailed, UsageError
from coterie.ids import folder_name
from coterie.journal.export import Export
from coterie.journal.records import Record, TreeSaved
from coterie.journal.rules import root_of
from coterie.kinds import kind_of
from coterie.options.backends import REGISTRY
from coterie.options.secret_files import is_secret
from coterie.planning.plan import Plan
from coterie.workspace.trees import git
from coterie.workspace.trees.git import CompletedCall, Repository, in_thread
from coterie.workspace.trees.snapshots import excluded, outside, write_files

LARGEST = 200 << 20
"""Bytes of the files of a run, as they are packed."""
_MOST_BUNDLES = 40
"""Bundles that lead to a head; then one holds all since the beginning."""
_REF = "refs/coterie/{}"
_USING_FILES = frozenset(name for name, entry in REGISTRY.items() if entry.uses_files)


class Head(Struct, frozen=True):
    """A state of the files: a commit, and the bundles that lead to it from the beginning, in order."""

    commit: str
    bundles: tuple[str, ...]


class RunFiles(Struct, frozen=True, kw_only=True):
    """The files of a run.

    Attributes:
        root: Their folder where the run was submitted; *cwd* is the folder below it in which agents work.
        heads: What turns have left that no later one has taken up.
    """

    root: str
    cwd: str = ""
    base: str
    heads: tuple[Head, ...]


def works_on_files(plan: Plan) -> bool:
    """Whether a program of *plan* may need the files around it: not if only models and people work."""
    if kind_of(plan).place is not None:
        return True
    return any(
        agent.backend in _USING_FILES
        or agent.steps
        or agent.reads
        or agent.gates
        or (agent.child is not None and works_on_files(agent.child))
        for agent in plan.agents.values()
    )


def around(plan: Plan, cwd: Path) -> Path:
    """The folder whose files the agents of *plan* need: *cwd*, unless the team's file lies elsewhere."""
    repository = git.find(cwd)
    root = repository.top if repository is not None else cwd
    return cwd if not plan.folder or Path(plan.folder).is_relative_to(root) else Path(plan.folder)


# -- where it is submitted --------------------------------------------------------------------------------------------


async def pack(folder: Path, export: Export, include: Sequence[Path] = ()) -> tuple[RunFiles, list[str]]:
    """Put the files around *folder* into the export: its git work tree with what is not committed, or else the folder.

    A file that git does not know and that looks like a secret is left out, unless it is or lies in one of *include*.

    Returns:
        The files, and the paths of what was left out, relative to *folder*.

    Raises:
        UsageError: If they are too large, or one of *include* is not there.
    """
    root, base, bundle, secrets = await in_thread(_pack, folder, [_there(path) for path in include])
    head = Head(base, (await export.put_blob(bundle),))
    cwd = str(folder.relative_to(root)) if folder != root else ""
    return RunFiles(root=str(root), cwd=cwd, base=base, heads=(head,)), secrets


def _there(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"--include {path}: there is no such file or folder")
    path = Path(os.path.abspath(path))
    return path.parent.resolve() / path.name  # a link travels as one


def _pack(folder: Path, include: Sequence[Path]) -> tuple[Path, str, bytes, list[str]]:
    with tempfile.TemporaryDirectory() as work:
        env = {"GIT_INDEX_FILE": f"{work}/index"} | git.identity()
        repository = git.find(folder)
        root = repository.top if repository is not None else folder
        if repository is None:
            _refuse_large(folder)
            _checked(folder, "init", "--quiet", "--bare", f"{work}/git")
            env |= {"GIT_DIR": f"{work}/git", "GIT_WORK_TREE": str(folder)}
        elif repository.commit_of("HEAD"):
            _checked(root, "read-tree", "HEAD", env=env)
        place = repository or Repository(top=folder, own=Path(), common=Path())
        own = excluded(place, [root / name for name in (".coterie", ".autoloop")])
        listing = ("ls-files", "--others", "--exclude-standard", "-z", "--", ":/", *own)
        others = _checked(root, *listing, env=env if repository is None else {})
        secrets = [
            name
            for name in filter(None, others.out.split("\0"))
            if is_secret(name) and not any((root.resolve() / name).is_relative_to(path) for path in include)
        ]
        tree = _written(place, (*own, *map(outside, secrets)), env)
        base = _checked(root, "commit-tree", tree, "-m", "as it was submitted", env=env).out.strip()
        ref = _REF.format(f"base/{base}")
        _checked(root, "update-ref", ref, base, env=env)
        _checked(root, "bundle", "create", "--quiet", f"{work}/bundle", ref, env=env)
        left_out = [os.path.relpath(root / name, folder) for name in secrets]
        return root, base, _read(Path(f"{work}/bundle")), left_out


def _refuse_large(folder: Path) -> None:
    size = 0
    for above, _, names in os.walk(folder):
        size += sum(os.lstat(os.path.join(above, name)).st_size for name in names)
        if size > LARGEST:
            raise UsageError(
                f"{folder} holds more than {LARGEST >> 20} MB, and is in no git work tree: put it into one"
            )


async def bring_back(run: str, place: RunFiles, export: Export) -> str:
    """Make a branch of what *run* left, on the commit that is checked out, or a folder where there is no git work tree.

    Returns:
        Where it is, for people; empty if the run changed nothing, or was submitted from another machine.

    Raises:
        FilesConflict: If its parts cannot be merged.
    """
    root = Path(place.root)
    there, repository = await in_thread(_look, root)
    if repository is not None and repository.commit_of(place.base):
        await _fetch(repository.top, place, export)
        return await in_thread(_branch, repository, run, place)
    if not there or repository is not None or place.heads[-1].commit == place.base:
        return ""
    target = root / ".coterie" / "work" / folder_name(run)
    with tempfile.TemporaryDirectory() as store:
        await in_thread(_checked, root, "init", "--quiet", "--bare", store)
        await _fetch(Path(store), place, export)
        files.make_folder(target.parent)
        await in_thread(_add_tree, Path(store), place, target)
        (target / ".git").unlink()
    return f"in {target}"


def unmerged(run: str, place: RunFiles) -> str:
    """The branch that `bring_back` made for *run*, if what is checked out lacks it; else empty."""
    repository, name = _look(Path(place.root))[1], f"coterie/{run}"
    commit = repository.commit_of(name) if repository is not None else ""
    return name if repository is not None and commit and not repository.is_ancestor(commit, "HEAD") else ""


def _look(root: Path) -> tuple[bool, Repository | None]:
    return root.is_dir(), git.find(root) if root.is_dir() else None


def _branch(repository: Repository, run: str, place: RunFiles) -> str:
    with _work_tree(repository.top, place, Path(tempfile.mkdtemp()) / "tree") as tree:
        left = _checked(tree, "rev-parse", "HEAD^{tree}").out.strip()
    if left == repository.tree_of(place.base):
        return ""
    name = f"coterie/{run}"
    if not repository.commit_of(name) or repository.tree_of(name) != left:
        head = repository.commit_of("HEAD")
        commit = repository.commit(left, (head,) if head else (), f"The work of {run}", repository.identity())
        _checked(repository.top, "branch", "--force", name, commit)
    return f"on the branch {name}"


# -- where turns work -------------------------------------------------------------------------------------------------


class WorkTrees:
    """The work trees of the turns on one node, below *home*; what it needs and leaves goes through *export*."""

    def __init__(self, home: Path, export: Export) -> None:
        self._home, self._export = home, export
        self._locks: dict[Path, asyncio.Lock] = {}

    @asynccontextmanager
    async def of(self, run: str, name: str, place: RunFiles) -> AsyncIterator["TurnFiles"]:
        """A work tree for the attempt *name* of *run*, until the block ends.

        Raises:
            FilesConflict: If what earlier turns left cannot be merged.
            GitFailed, ClusterFailed: If it cannot be had.
        """
        root = self._home / folder_name(root_of(run))
        store = root / "files.git"
        files.make_folder(root)
        tree, lock = root / "trees" / folder_name(name), self._locks.setdefault(store, asyncio.Lock())
        async with lock:
            # again, if it is there: a node may have been killed while it made it
            await in_thread(_checked, root, "init", "--quiet", "--bare", str(store))
            await _fetch(store, place, self._export)
            await in_thread(_add_tree, store, place, tree)
        try:
            yield TurnFiles(store, tree, place, self._export, lock)
        finally:
            async with lock:
                await in_thread(_remove_tree, store, tree)


class TurnFiles:
    """The files that one attempt works on.

    Attributes:
        cwd: Where it works; *root* is the folder that has the submitted one's place here.
    """

    def __init__(self, store: Path, tree: Path, place: RunFiles, export: Export, lock: asyncio.Lock) -> None:
        self._store, self.root, self._place, self._export, self._lock = store, tree, place, export, lock
        self.cwd = tree / place.cwd

    async def end(self, what: str) -> Head:
        """Commit what the attempt left."""
        async with self._lock:
            commit, bundle, begins = await in_thread(self._end, what)
        known = _bundles(self._place)
        if not bundle:
            return Head(commit, known)
        added = await self._export.put_blob(bundle)
        return Head(commit, (*(self._place.heads[0].bundles[:1] if begins else known), added))

    def _end(self, what: str) -> tuple[str, bytes, bool]:
        own = Repository(top=self.root, own=Path(), common=Path())
        tree, commit = _written(own, (), {}), own.commit_of("HEAD")
        if tree != own.tree_of(commit):
            commit = own.commit(tree, (commit,), f"{what}\n", git.identity())
            _checked(self.root, "update-ref", "HEAD", commit)
        if commit in (head.commit for head in self._place.heads):
            return commit, b"", False
        begins = len(_bundles(self._place)) >= _MOST_BUNDLES
        known = [self._place.base] if begins else [head.commit for head in self._place.heads]
        with tempfile.TemporaryDirectory() as work:
            ref = _REF.format(commit)
            _checked(self._store, "update-ref", ref, commit)
            _checked(self._store, "bundle", "create", "--quiet", f"{work}/b", ref, *(f"^{one}" for one in known))
            return commit, _read(Path(f"{work}/b")), begins


def merged(place: RunFiles, begun: RunFiles, left: Head) -> RunFiles:
    """*place* once a turn that began at *begun* has left a head."""
    heads = [head for head in place.heads if head not in begun.heads and head != left]
    return RunFiles(root=place.root, cwd=place.cwd, base=place.base, heads=(*heads, left))


def files_after(place: RunFiles, records: Iterable[Record]) -> RunFiles:
    """The files of the run that *place* belongs to after *records* of it and its child runs, in any order."""
    first = Head(place.base, place.heads[0].bundles[:1])
    found = RunFiles(root=place.root, cwd=place.cwd, base=place.base, heads=(first,))
    saved = [one for one in records if isinstance(one, TreeSaved) and one.bundles]
    for one in sorted(saved, key=lambda one: (one.at, one.seq)):
        begun = tuple(head for head in found.heads if head.commit in one.after)
        found = merged(found, replace(found, heads=begun), Head(one.commit, one.bundles))
    return found


async def _fetch(store: Path, place: RunFiles, export: Export) -> None:
    """Bring the commits of the heads of *place*, which *store* may have already."""
    for head in place.heads:
        if (await in_thread(_call, store, "cat-file", "-e", f"{head.commit}^{{commit}}")).status == 0:
            continue
        for bundle in head.bundles:
            data = await export.blob(bundle)
            await in_thread(_unbundle, store, data)


def _unbundle(store: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        _checked(store, "fetch", "--quiet", "--no-tags", file.name, "+refs/coterie/*:refs/coterie/*")


@contextmanager
def _work_tree(store: Path, place: RunFiles, tree: Path) -> Iterator[Path]:
    _add_tree(store, place, tree)
    try:
        yield tree
    finally:
        _remove_tree(store, tree)


def _add_tree(store: Path, place: RunFiles, tree: Path) -> None:
    """Check out at *tree* the merge of the heads of *place*."""
    if tree.exists():
        _remove_tree(store, tree)
    first, *others = sorted(head.commit for head in place.heads)
    _checked(store, "worktree", "add", "--quiet", "--force", "--detach", str(tree), first)
    for other in others:
        if _call(tree, "merge", "--quiet", "--no-verify", "-m", "what turns left side by side", other).status:
            names = _call(tree, "diff", "--name-only", "--diff-filter=U").out.split()
            _remove_tree(store, tree)
            raise FilesConflict(names)


def _remove_tree(store: Path, tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    _call(store, "worktree", "prune")


class FilesConflict(CoterieError):
    """Turns that worked side by side left different lines in the same files."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"turns side by side changed the same lines of {', '.join(names) or 'a file'}")


def _bundles(place: RunFiles) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bundle for head in place.heads for bundle in head.bundles))


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    if len(data) > LARGEST:
        raise UsageError(f"the files of the run are {len(data) >> 20} MB, and at most {LARGEST >> 20} MB can travel")
    return data


def _call(folder: Path, *words: str, env: dict[str, str] | None = None) -> CompletedCall:
    return git.call(folder, *words, env=git.identity() | (env or {}))


def _written(repository: Repository, without: tuple[str, ...], env: dict[str, str]) -> str:
    """The id of a git tree with all files of *repository*."""
    tree, incomplete = write_files(repository, without, env)
    if incomplete:
        raise GitFailed(("add",), 1, incomplete)
    return tree


def _checked(folder: Path, *words: str, env: dict[str, str] | None = None) -> CompletedCall:
    done = _call(folder, *words, env=env)
    if done.status:
        raise GitFailed(words, done.status, done.err or done.out)
    return done
