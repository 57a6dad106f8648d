"""The workspace of a run and its child runs where git keeps it: work trees, and what is kept at a turn's end."""

from collections.abc import Callable, Collection
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, shortage
from coterie.journal.records import TreeMade, TreeSaved, TreesJoined
from coterie.planning.plan import Plan
from coterie.runs.trees import branches, worktree
from coterie.runs.trees.git import find, in_thread, need
from coterie.runs.trees.snapshots import Snapshots
from coterie.runs.trees.worktree import Tree
from coterie.runs.workspace import Workspace

READ_MOST = 20_000
"""Characters of a file that an agent `reads` which join its prompt."""


class GitWorkspace(Workspace):
    """Knows where the runs below one root work, and keeps what the files are.

    Args:
        cwd: Where the root works.
        folder: Where the folder of a run lies.
        outcome: How a run stands, see `coterie.journal.status.RunStatus`.
        tree: The root's own work tree, if it has one; only then branches of waves have theirs.
        saves: Whether the files are kept at each turn's end.
    """

    def __init__(
        self,
        state_dir: Path,
        cwd: Path,
        folder: Callable[[str], Path],
        outcome: Callable[[str], str],
        *,
        tree: Tree | None = None,
        saves: bool = False,
    ) -> None:
        self._state_dir, self._cwd, self._folder, self._outcome = state_dir, cwd, folder, outcome
        self._tree, self._saves = tree, saves
        self._apart: dict[str, Tree] = {}
        self._snapshots: dict[str, Snapshots | None] = {}

    @property
    def saves(self) -> bool:
        """Whether the files are kept at each turn's end."""
        return self._saves

    def read(self, name: str) -> str | None:
        """The text of a file below the root's folder, cut at a bound; None if there is none to show."""
        return read_below(self._cwd, name)

    def cwd(self, run: str) -> Path:
        """Where the agents of *run* work."""
        tree = self._apart.get(self._owner(run))
        return Path(tree.cwd) if tree is not None else self._cwd

    async def saved(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        """Keep the files as an attempt leaves them. None: nothing is to be kept, or there is no git work tree."""
        if not self._saves:
            return None
        return await in_thread(self._save, run, turn, attempt)

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the root is to have a work tree that is not among those *made*, by path."""
        tree = self._tree
        return tree is not None and tree.path not in made and tree.status in ("making", "running")

    async def make_tree(self) -> TreeMade | None:
        """Make the root's work tree, if it is to have one.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        return await in_thread(self._make_own)

    def _make_own(self) -> TreeMade | None:
        if self._tree is None:
            return None
        if self._tree.status == "making":
            origin = need(Path(self._tree.origin), f"the work tree of run {self._tree.run!r} wants its repository")
            self._tree = worktree.make(origin, self._state_dir, self._tree)
        return _made(self._tree)

    async def begin_branch(self, run: str, plan: Plan) -> TreeMade | None:
        """Make the work tree of the branch that the child run *run* is, if it is to have one.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        if self._tree is None or not branches.wants_tree(plan):
            return None
        if run not in self._apart:
            parent = self._apart.get(self._owner(run), self._tree)
            self._apart[run] = await in_thread(branches.open_tree, self._state_dir, parent, run)
        return _made(self._apart[run])

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Bring back what the branches of a *wave* of *run* did. None: there is nothing to bring."""
        if self._tree is None or not worktree.folder(self._state_dir, run).is_dir():
            return None
        try:
            return await in_thread(branches.join, self._state_dir, run, wave, self._outcome)
        except CoterieError as error:
            if shortage(error):
                raise
            return TreesJoined(problem=str(error))

    def _owner(self, run: str) -> str:
        """The run at or above *run* that has a work tree apart; empty: none has."""
        while run and run not in self._apart:
            run = run.rpartition("/")[0]
        return run

    def _save(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        owner = self._owner(run)
        if owner not in self._snapshots:
            repository = find(self.cwd(run))
            index = (self._folder(owner or run.split("/")[0]) / "tree.index").absolute()  # git works elsewhere
            without = [self._state_dir]
            self._snapshots[owner] = Snapshots(repository, index, without) if repository is not None else None
        snapshots = self._snapshots[owner]
        if snapshots is None:
            return None
        try:
            saved = snapshots.save(run, turn, attempt)
        except (CoterieError, OSError) as error:
            if shortage(error):
                raise
            return TreeSaved(turn=turn, attempt=attempt, problem=str(error), apart=owner != "")
        return TreeSaved(turn=turn, attempt=attempt, commit=saved.commit, problem=saved.incomplete, apart=owner != "")


def read_below(folder: Path, name: str) -> str | None:
    """The text of the file *name* below *folder*, cut at `READ_MOST` characters; None if there is none to show."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        return None
    try:
        with open(files.open_fd(path), encoding="utf-8") as file:
            text = file.read(READ_MOST + 1)
    except (OSError, UnicodeDecodeError) as error:
        if shortage(error):
            raise
        return None
    return text if len(text) <= READ_MOST else text[:READ_MOST] + f"\n… (cut at {READ_MOST} characters)"


def _made(tree: Tree) -> TreeMade:
    return TreeMade(run=tree.run, path=tree.path, branch=tree.branch, base=tree.base)
