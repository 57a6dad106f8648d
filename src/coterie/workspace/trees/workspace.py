"""The workspace of a running run and its child runs: git work trees, and snapshots at each turn's end."""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from coterie import files
from coterie.backends.needs import sandbox_of
from coterie.errors import CoterieError
from coterie.journal.records import TreeAttested, TreeMade, TreePosition, TreeSaved, TreesJoined
from coterie.options.backends import CODING
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.team_files import team_files
from coterie.shortages import shortage
from coterie.waits import waiting
from coterie.workspace.base import Workspace
from coterie.workspace.trees import attestation, branches, worktree
from coterie.workspace.trees.git import find, in_thread, require
from coterie.workspace.trees.snapshots import Snapshots
from coterie.workspace.trees.worktree import WorkTree

READ_MOST = 20_000
"""Characters of a file that an agent `reads` which join its prompt."""


class GitWorkspace(Workspace):
    """Makes the work trees of a root run and its branches of waves, and takes snapshots of their files.

    Args:
        cwd: Where the agents of the root run work.
        folder: Gives the folder of a run.
        outcome: Gives the status of a run, see `coterie.journal.status.RunStatus`.
        tree: The work tree of the root run, if it has one; only then do branches of waves get work trees.
        saves: Whether to take a snapshot at the end of each turn.
    """

    def __init__(
        self,
        state_dir: Path,
        cwd: Path,
        folder: Callable[[str], Path],
        outcome: Callable[[str], str],
        *,
        tree: WorkTree | None = None,
        saves: bool = False,
    ) -> None:
        self._state_dir, self._cwd, self._folder, self._outcome = state_dir, cwd, folder, outcome
        self._tree, self.saves = tree, saves
        self._branch_trees: dict[str, WorkTree] = {}
        self._snapshots: dict[str, Snapshots | None] = {}

    async def read(self, name: str) -> str | None:
        """The text of a file in the root's folder, shortened to a limit; None if it cannot be shown."""
        return read_below(self._cwd, name)

    def cwd(self, run: str) -> Path:
        """Where the agents of *run* work."""
        tree = self._branch_trees.get(self._owner(run))
        return Path(tree.cwd) if tree is not None else self._cwd

    def team_files(self, run: str, plan: Plan, *, texts: bool) -> tuple[Path, ...]:
        """The files of *plan*, and in a work tree of the run's own also their copies, which are merged."""
        found = tuple(team_files(plan, os.environ, texts=texts))
        if self._tree is None or (tree := self._tree_of(run)) is None:
            return found
        origin = self._tree.origin
        return (*found, *(Path(tree.path) / path.relative_to(origin) for path in found if path.is_relative_to(origin)))

    def confines(self, agent: AgentPlan) -> bool:
        """Whether *agent* runs in a sandbox, or is a model without programs."""
        if agent.backend == "model":
            return "Bash" not in agent.options.get("built_in_tools", ()) and not agent.options.get("mcp_servers")
        from coterie.backends.sandbox.choice import working  # it loads ctypes, and most runs save files without it

        return sandbox_of(agent) != "off" and working() is not None

    async def saved(self, run: str, turn: str, attempt: int, *, cut_off: bool = False) -> TreeSaved | None:
        """Take a snapshot after an attempt; None if snapshots are off, it was cut off, or there is no git work tree."""
        if cut_off or not self.saves:
            return None
        with waiting("git to save a snapshot of the files"):
            return await in_thread(self._save, run, turn, attempt)

    def attests(self, run: str, agent: AgentPlan) -> bool:
        """Whether *agent* is a coding agent, or a program in a work tree of the run's own."""
        is_program = agent.kind == "agent" and agent.backend == "command"
        return agent.backend in CODING or (is_program and self._tree_of(run) is not None)

    async def position(self, run: str) -> TreePosition | None:
        """Where the work tree of *run* is; None if it has none. One call of git."""
        with waiting("git to look at the work tree"):
            return await in_thread(attestation.position, self.cwd(run))

    async def attested(self, run: str, turn: str, attempt: int, before: TreePosition | None) -> TreeAttested | None:
        """Where an attempt has left its work tree, and how that is a problem; None if there was no work tree."""
        tree = self._tree_of(run)
        if before is None and tree is None:
            return None
        after = await self.position(run)
        problem = attestation.problem(before, after, tree)
        return TreeAttested(turn=turn, attempt=attempt, before=before, after=after, problem=problem)

    def _tree_of(self, run: str) -> WorkTree | None:
        return self._branch_trees.get(self._owner(run), self._tree)

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the work tree of the root run still has to be made; *made* are the paths of those made."""
        tree = self._tree
        if tree is None or (tree.path in made and not tree.removed and tree.status not in worktree.ENDED):
            return False
        return tree.status in ("making", "running", *worktree.ENDED)

    async def make_tree(self) -> TreeMade | None:
        """Make the work tree of the root run, if it has one.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        with waiting("git to make the work tree"):
            return await in_thread(self._make_own)

    def _make_own(self) -> TreeMade | None:
        if self._tree is None:
            return None
        if self._tree.status == "making" or self._tree.status in worktree.ENDED:
            origin = require(Path(self._tree.origin), f"the work tree of run {self._tree.run!r} needs its repository")
            self._tree = worktree.make(origin, self._state_dir, self._tree)
        return _made(self._tree)

    async def begin_branch(self, run: str, plan: Plan) -> TreeMade | None:
        """Make the work tree of *run*, a branch of a wave, if it needs one.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        if self._tree is None or not branches.wants_tree(plan):
            return None
        if run not in self._branch_trees:
            parent = self._branch_trees.get(self._owner(run), self._tree)
            with waiting(f"git to make the work tree of {run}"):
                self._branch_trees[run] = await in_thread(branches.make_branch_tree, self._state_dir, parent, run)
        return _made(self._branch_trees[run])

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Merge the work of the branches of a *wave* of *run*; None if they have no work trees."""
        if self._tree is None or not worktree.folder(self._state_dir, run).is_dir():
            return None
        try:
            with waiting(f"git to merge the branches of wave {wave}"):
                return await in_thread(branches.merge_branches, self._state_dir, run, wave, self._outcome)
        except CoterieError as error:
            if shortage(error):
                raise
            return TreesJoined(problem=str(error))

    def _owner(self, run: str) -> str:
        """The run at or above *run* that is a branch with its own work tree; empty if there is none."""
        while run and run not in self._branch_trees:
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


def read_below(folder: Path, name: str, top: Path | None = None) -> str | None:
    """The text of the file *name* in *folder*, cut at `READ_MOST` characters; None if it cannot be read.

    Neither can a file outside of *top*, by default *folder*, wherever links lead.
    """
    path = files.inside(folder, name, top)
    if path is None:
        return None
    try:
        with open(files.open_fd(path), encoding="utf-8") as file:
            text = file.read(READ_MOST + 1)
    except (OSError, UnicodeDecodeError) as error:
        if shortage(error):
            raise
        return None
    return text if len(text) <= READ_MOST else text[:READ_MOST] + f"\n… (cut at {READ_MOST} characters)"


def _made(tree: WorkTree) -> TreeMade:
    return TreeMade(run=tree.run, path=tree.path, branch=tree.branch, base=tree.base)
