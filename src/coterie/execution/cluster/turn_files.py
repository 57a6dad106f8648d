"""The files of a run on one node: the work trees of its turns.

A node keeps the commits of a run in a repository, the *store*, of which the tree of a turn is a work tree. As on one
machine (`coterie.agents.workspace.trees`), the agent of the turn has a private repository beside its tree, and what it
leaves comes back only by a confined fetch:

    <home>/<run>/files.git               the store
                 trees/<attempt>/tree    the files
                                 git     the private repository
                 copied/<archive>        what `worktree.copy` brings to each tree

A gate that decides on an event works in the tree of the attempt that waits for it, as on one machine.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.backends.base import OwnRepository, Request
from coterie.agents.workspace.trees import git
from coterie.agents.workspace.trees.git import Repository, in_thread, readable
from coterie.agents.workspace.trees.leftovers import find_leftovers
from coterie.agents.workspace.trees.preparation import as_prepared, copy_files, setup_agent
from coterie.agents.workspace.trees.refs import REFS, refs_of
from coterie.agents.workspace.trees.workspace import GitWorkspace
from coterie.agents.workspace.trees.worktree import WorkTree, repository_of
from coterie.base import files
from coterie.base.ids import folder_name
from coterie.execution.cluster.files import (
    BRANCHES,
    SHOWN,
    Head,
    RunFiles,
    add_tree,
    bundles,
    call,
    checked,
    fetch,
    read_bundle,
    written,
)
from coterie.execution.cluster.preparation import NO_NEEDS, unpack
from coterie.history.journal.export import Export
from coterie.history.journal.records import TreeAttested, TreePosition
from coterie.history.journal.rules import root_of
from coterie.team.planning.plan import AgentPlan

_MOST_BUNDLES = 40
"""Bundles that lead to a head; then one holds all since the beginning."""
_LOST = f"{REFS}/lost/"
"""In the store and in bundles: the commits that agents left in no branch."""
_GITLINK = "160000"


class WorkTrees:
    """The work trees of the turns on one node, below *home*; what it needs and leaves goes through *export*."""

    def __init__(self, home: Path, export: Export) -> None:
        self._home, self._export = home, export
        self._locks: dict[Path, asyncio.Lock] = {}
        self._open: dict[str, TurnFiles] = {}
        """Those of attempts that are under way, by their marks."""

    @asynccontextmanager
    async def of(
        self, run: str, name: str, place: RunFiles, request: Request | None = None
    ) -> AsyncIterator["TurnFiles"]:
        """A work tree for the attempt *name* of *run*, until the block ends; its gates are given the same.

        Args:
            request: The attempt that works there; None: the files are only read.

        Raises:
            FilesConflict: If what earlier turns left cannot be merged.
            GitFailed, ClusterFailed: If it cannot be had.
            UsageError: If the files of `worktree.copy` cannot be copied.
        """
        known = self._open.get(request.ref.marker) if request is not None and request.clean else None
        at = known or await self._made(run, name, place, request)
        at.users += 1
        if request is not None and not request.clean:
            self._open[name] = at
        try:
            if at is not known:
                await at.enter(request)
            yield at
        finally:
            if self._open.get(name) is at:
                del self._open[name]
            at.users -= 1
            if not at.users:
                await at.discard()

    async def _made(self, run: str, name: str, place: RunFiles, request: Request | None) -> "TurnFiles":
        root = self._home / folder_name(root_of(run))
        store, home = root / "files.git", root / "trees" / folder_name(name)
        files.make_folder(root)
        lock = self._locks.setdefault(store, asyncio.Lock())
        async with lock:
            # again, if it is there: a node may have been killed while it made it
            await in_thread(checked, root, "init", "--quiet", "--bare", str(store))
            files.make_folder(store / "info")
            files.write(store / "info" / "exclude", place.needs.ignored.encode())
            await fetch(store, place, self._export, REFS)
            tree = await in_thread(_make, store, home, run, place)
            copied = root / "copied" / place.needs.archive
            if request is not None and place.needs.archive and not copied.is_dir():
                await in_thread(unpack, await self._export.blob(place.needs.archive), copied)
        return TurnFiles(store, tree, place, self._export, lock, copied)


class TurnFiles:
    """The files that one attempt works on.

    Attributes:
        cwd: Where it works; *root* is the folder that has the submitted one's place here.
        repository: What its agent has for git; None: no private repository.
        is_kept: Whether the files stay on this node, since they hold some that cannot travel.
        users: How many work there: the attempt, and its gates.
        is_prepared: Whether agents may begin to work there.
    """

    def __init__(
        self, store: Path, tree: WorkTree, place: RunFiles, export: Export, lock: asyncio.Lock, copied: Path
    ) -> None:
        self._store, self._tree, self._place, self._export, self._lock = store, tree, place, export, lock
        self._copied, self.users, self.is_prepared = copied, 0, False
        self._had: tuple[str, ...] = ()
        """The repositories that came into the tree with its preparation."""
        self.root, self.cwd = Path(tree.path), Path(tree.cwd)
        self.repository: OwnRepository | None = None
        self.is_kept = False
        self._workspace = GitWorkspace(store, tree.run, self.cwd, lambda run: "", tree=tree)
        self._begun: tuple[str, AgentPlan, TreePosition | None] | None = None

    async def enter(self, request: Request | None) -> None:
        """Let the attempt of *request* begin to work, with a private repository if its agent works on files."""
        if request is None or not self._workspace.attests(turn := f"{request.run}/{request.turn}", request.agent):
            return
        self._begun = turn, request.agent, await self._workspace.position(turn, request.agent)
        self.repository = self._workspace.repository(turn)
        await in_thread(copy_files, self._copied, self.root, self._place.needs.copy)

    def setup(self) -> Iterator[AgentPlan]:
        """The agents whose attempts prepare the tree, if an agent works on its files."""
        needs = self._place.needs if self._begun is not None else NO_NEEDS
        for argv in needs.setup:
            yield setup_agent(argv, needs.sandbox)

    async def prepared(self) -> None:
        """Take what git ignores in the tree now for what it begins with."""
        if self._begun is not None and (self._place.needs.copy or self._place.needs.setup):
            self._tree = await in_thread(as_prepared, self._tree)
            self._had = (await in_thread(find_leftovers, self._tree)).repositories
        self.is_prepared = True

    async def discard(self) -> None:
        """Remove the files, unless they are to stay."""
        if not self.is_kept:
            async with self._lock:
                await in_thread(_discard, self._store, self._tree)

    async def end(self, turn: str, attempt: int) -> "LeftFiles":
        """Commit what an attempt left."""
        attested, is_gate = None, False
        if self._begun is not None:
            place, agent, before = self._begun
            is_gate = agent.kind == "gate"
            attested = await self._workspace.attested(place, turn, attempt, agent, before)
            self._workspace.leave(place)
        async with self._lock:
            commit, attested = await in_thread(self._commit, f"{turn}, attempt {attempt}\n", attested)
            bundle, begins, done = await in_thread(self._bundle, commit)
        known = bundles(self._place)
        if bundle:
            known = (*(self._place.heads[0].bundles[:1] if begins else known), await self._export.put_blob(bundle))
            for name in done:
                await in_thread(checked, self._store, "update-ref", "-d", name)
        return LeftFiles(Head(commit, known), attested if not is_gate else None)

    def _commit(self, message: str, attested: TreeAttested | None) -> tuple[str, TreeAttested | None]:
        """The commit of the attempt's branch with its files; if it has left that, they are kept in a lost commit."""
        tree, own = self._tree, repository_of(self._tree)
        if own is None:
            return tree.base, attested
        tip = own.commit_of(f"refs/heads/{tree.branch}") or tree.base
        after = attested.after if attested is not None else None
        on = after.head if after is not None and after.branch != tree.branch else tip
        left, commit = written(own, (), {}), on
        if not on or left != own.tree_of(on):
            commit = own.commit(left, (on,) if on else (), message, git.identity())
        if attested is not None:
            attested = self._with_ignored(self._with_repositories(own, commit, attested))
        if attested is None or not attested.problem:
            own.output("update-ref", f"refs/heads/{tree.branch}", commit)
            return commit, attested
        counts = tree.base if self.is_kept else tip
        for one in {commit, tip} - {counts}:
            own.output("update-ref", f"{refs_of(tree.run)}/lost/{one}", one)
        return counts, replace(
            attested, problem=f"{attested.problem}; the next attempt begins without it, on its branch"
        )

    def _with_repositories(self, own: Repository, commit: str, attested: TreeAttested) -> TreeAttested:
        """*attested*, with what is to be said about the repositories inside the tree, of which only commits travel."""
        links, top = _links(own, commit), self.root
        held = [name for name in links if (top / name).is_dir() and any((top / name).iterdir())]
        if not held:
            return attested
        self.is_kept = True
        note = f"{', '.join(map(readable, held[:SHOWN]))}: the files there cannot travel, and stay in {top} of its node"
        attested = replace(attested, notes=(*attested.notes, note))
        if attested.problem or (
            links == _links(own, self._tree.base) and all((top / one / ".git").exists() for one in held)
        ):
            return attested
        return replace(attested, problem=f"{note}; remove .git there, or let git ignore it", voids=True)

    def _with_ignored(self, attested: TreeAttested) -> TreeAttested:
        """*attested*, with the ignored files that go with the tree, but for repositories, which stay."""
        found = find_leftovers(self._tree)
        repositories = [one for one in found.repositories if one not in self._had]
        if self.is_kept or not (repositories or found.ignored):
            return attested
        self.is_kept = bool(repositories)
        if self.is_kept:
            note = f"{', '.join(repositories[:SHOWN])}: repositories, which stay in {self.root} of its node"
        else:
            note = f"ignored files do not travel, and are removed with the tree of the turn: {found.describe()}"
        return replace(attested, notes=(*attested.notes, note))

    def _bundle(self, commit: str) -> tuple[bytes, bool, list[str]]:
        """A bundle of *commit* and of commits that agents left elsewhere, if any is new.

        Returns:
            Also whether it holds all since the beginning, and the refs of the store that are not needed then.
        """
        store, heads = self._store, [head.commit for head in self._place.heads]
        words = ("for-each-ref", "--format=%(objectname) %(refname)")
        lost = dict(
            line.split(" ") for line in checked(store, *words, f"{refs_of(self._tree.run)}/lost/").out.splitlines()
        )
        begins = len(bundles(self._place)) >= _MOST_BUNDLES
        if commit in heads and not lost:
            return b"", False, []
        for one in lost:
            checked(store, "update-ref", f"{_LOST}{one}", one)
        refs = [f"{_LOST}{one}" for one in lost]
        if begins:
            refs = checked(store, "for-each-ref", "--format=%(refname)", _LOST).out.split()
        checked(store, "update-ref", ref := f"{REFS}/{commit}", commit)
        known = [self._place.base] if begins else heads
        with tempfile.TemporaryDirectory() as work:
            wanted = (*([ref] if commit not in known else []), *refs, *(f"^{one}" for one in known))
            checked(store, "bundle", "create", "--quiet", f"{work}/b", *wanted)
            return read_bundle(Path(f"{work}/b")), begins, list(lost.values())


class LeftFiles(Struct, frozen=True):
    """What an attempt has left: its *head*, and what git says of its work tree; None: nothing."""

    head: Head | None = None
    attested: TreeAttested | None = None


def _make(store: Path, home: Path, run: str, place: RunFiles) -> WorkTree:
    """Make the tree of an attempt in *home*, on a branch of the store; what a killed node left there is removed."""
    tree = WorkTree(
        run=root_of(run),
        path=str(home / "tree"),
        cwd=str(home / "tree" / place.cwd),
        branch=f"{BRANCHES}/{home.name}",
        origin=str(store),
        base="",
    )
    _discard(store, tree)
    add_tree(store, place, path := Path(tree.path))
    checked(path, "checkout", "--quiet", "-B", tree.branch)
    own = git.require(path, "a turn")
    return replace(tree, base=own.commit_of("HEAD"), git=str(own.own))


def _discard(store: Path, tree: WorkTree) -> None:
    files.discard(Path(tree.path).parent)
    call(store, "worktree", "prune")
    call(store, "update-ref", "-d", f"refs/heads/{tree.branch}")


def _links(own: Repository, commit: str) -> dict[str, str]:
    """The commits of repositories inside *commit*, by their paths."""
    lines = own.output("ls-tree", "-r", "-z", commit).split("\0")
    return {line.partition("\t")[2]: line.split()[2] for line in lines if line.startswith(_GITLINK)}
