"""The files of one run and its child runs while it is driven: where each works, and what is kept at a turn's end."""

from collections.abc import Callable, Collection
from pathlib import Path

from coterie.errors import CoterieError, shortage
from coterie.journal.records import TreeMade, TreeSaved, TreesJoined
from coterie.planning.plan import Plan
from coterie.runs.trees import branches, worktree
from coterie.runs.trees.git import find, in_thread, need
from coterie.runs.trees.snapshots import Snapshots
from coterie.runs.trees.worktree import Tree


class Trees:
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
        self._tree, self.saves = tree, saves
        self._apart: dict[str, Tree] = {}
        self._snapshots: dict[str, Snapshots | None] = {}

    def cwd(self, run: str) -> Path:
        """Where the agents of *run* work."""
        tree = self._apart.get(self._owner(run))
        return Path(tree.cwd) if tree is not None else self._cwd

    async def saved(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        """Keep the files as an attempt leaves them. None: nothing is to be kept, or there is no git work tree."""
        if not self.saves:
            return None
        return await in_thread(self._save, run, turn, attempt)

    @property
    def has_own(self) -> bool:
        """Whether the root has a work tree, made or not."""
        return self._tree is not None

    def lacks_own(self, made: Collection[str]) -> bool:
        """Whether the root is to have a work tree that is not among those *made*, by path."""
        tree = self._tree
        return tree is not None and tree.path not in made and tree.status in ("making", "running")

    def make_own(self) -> TreeMade | None:
        """Make the root's work tree, if it is to have one.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        if self._tree is None:
            return None
        if self._tree.status == "making":
            origin = need(Path(self._tree.origin), f"the work tree of run {self._tree.run!r} wants its repository")
            self._tree = worktree.make(origin, self._state_dir, self._tree)
        return _made(self._tree)

    async def begin(self, run: str, plan: Plan) -> TreeMade | None:
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

    async def join(self, run: str, wave: int) -> TreesJoined | None:
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


def _made(tree: Tree) -> TreeMade:
    return TreeMade(run=tree.run, path=tree.path, branch=tree.branch, base=tree.base)
