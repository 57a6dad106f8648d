"""The workspace of a running run and its child runs: git work trees, and snapshots at each turn's end."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path

from coterie.agents.backends.base import OwnRepository
from coterie.agents.workspace.base import Workspace
from coterie.agents.workspace.trees import attestation, branches, checkout, private, worktree
from coterie.agents.workspace.trees.checkout import Checkout
from coterie.agents.workspace.trees.confinement import confines, mounts
from coterie.agents.workspace.trees.git import find, in_thread, require
from coterie.agents.workspace.trees.preparation import Begin, prepare
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.agents.workspace.trees.visits import Visits
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base import files
from coterie.base.shortages import shortage
from coterie.base.waits import waiting
from coterie.errors import CoterieError, UsageError
from coterie.history.journal.jsonl import folder_of
from coterie.history.journal.records import TreeAttested, TreeMade, TreePosition, TreePrepared, TreeSaved, TreesJoined
from coterie.team.options.backends import CODING, REGISTRY
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.team_files import team_files

READ_MOST = 20_000
"""Characters of a file that an agent `reads` which join its prompt."""


class GitWorkspace(Workspace):
    """Makes the work trees of a root run and its branches of waves, and takes snapshots of their files.

    Args:
        run: The root run.
        cwd: Where its agents work.
        outcome: Gives the status of a run, see `coterie.history.journal.status.RunStatus`.
        tree: The work tree of the root run, if it has one; only then do branches of waves get work trees.
        saves: Whether to take a snapshot at the end of each turn.
        begin: Starts the commands that prepare a new work tree.
        place: Settings for work trees of turns, if the root run has none.
    """

    def __init__(
        self,
        state_dir: Path,
        run: str,
        cwd: Path,
        outcome: Callable[[str], str],
        *,
        tree: WorkTree | None = None,
        saves: bool = False,
        begin: Begin | None = None,
        place: RunPlace | None = None,
    ) -> None:
        self._state_dir, self._run, self._cwd, self._outcome = state_dir, run, cwd, outcome
        self._folder = folder_of(state_dir, run)
        self._tree, self.saves, self._begin, self._place = tree, saves, begin, place or RunPlace()
        self._snapshots: dict[str, Snapshots | None] = {}
        home = (self._folder / checkout.FOLDER).absolute()
        self._checkout = Checkout(home, run, f"{self._place.branch_prefix}/{run}")
        """The user's checkout, in which the agents of the run work that have no work tree."""
        self._visits = Visits()

    @cached_property
    def _trees(self) -> dict[str, WorkTree]:
        """The work trees of branches and turns by place, those that an earlier owner made included."""
        found = worktree.trees_below(worktree.folder(self._state_dir, self._run))
        return {tree.run: tree for tree in found if not tree.removed}

    async def read(self, name: str) -> str | None:
        """The text of a file in the root's folder, shortened to a limit; None if it cannot be shown."""
        return read_below(self._cwd, name)

    def cwd(self, place: str) -> Path:
        """Where the agents of *place* work."""
        owner = _owner(place, self._trees)
        return Path(self._trees[owner].cwd) if owner else self._cwd

    def team_files(self, place: str, plan: Plan, *, texts: bool) -> tuple[Path, ...]:
        """The files of *plan*, and in a work tree of the run's own also their copies, which are merged."""
        found = tuple(team_files(plan, os.environ, texts=texts))
        if (tree := self._tree_of(place)) is None:
            return (*found, *self._checkout.obeyed)
        origin = (self._tree or tree).origin
        return (*found, *(Path(tree.path) / path.relative_to(origin) for path in found if path.is_relative_to(origin)))

    def confines(self, agent: AgentPlan) -> bool:
        """Whether *agent* runs in a sandbox, or is a model without programs."""
        return confines(agent)

    async def saved(self, run: str, turn: str, attempt: int, *, cut_off: bool = False) -> TreeSaved | None:
        """Take a snapshot after an attempt; None if snapshots are off, it was cut off, or there is no git work tree."""
        if cut_off or not self.saves:
            return None
        with waiting("git to save a snapshot of the files"):
            return await in_thread(self._save, run, turn, attempt)

    def attests(self, place: str, agent: AgentPlan) -> bool:
        """Whether *agent* is a coding agent, or a program in a work tree of the run's own."""
        is_program = agent.kind == "agent" and agent.backend == "command"
        if (tree := self._tree_of(place)) is not None and tree.git:
            return agent.kind != "human" and REGISTRY[agent.backend].uses_files
        is_attested = agent.backend in CODING or (is_program and tree is not None)
        return is_attested or _hides_git(tree, agent)

    async def position(self, place: str, agent: AgentPlan, team: Iterable[Path] = ()) -> TreePosition | None:
        """Where the work tree of *place* is, in whose private repository *agent* begins to work; None if it has none.

        While work is being merged into that tree, it waits.
        """
        tree, private_tree = self._tree_of(place), self._private_tree(place)
        await self._visits.begin(place, tree.path if tree is not None else "", mounts=mounts(agent))
        with waiting("git to look at the work tree"):
            if private_tree is None:
                if _hides_git(tree, agent):
                    await in_thread(self._checkout.enter, self.cwd(place), tuple(team))
                return await in_thread(attestation.position, self.cwd(place))
            private.link(private_tree, private=self._visits.links(private_tree.path))
            alone = self._visits.is_alone(private_tree.path)
            found = await in_thread(attestation.private_position, private_tree, partial(private.enter, alone=alone))
            return found if not isinstance(found, str) else None

    async def attested(
        self, place: str, turn: str, attempt: int, agent: AgentPlan, before: TreePosition | None
    ) -> TreeAttested | None:
        """Where an attempt has left its work tree, and how that is a problem; None if there was no work tree."""
        tree = self._tree_of(place)
        if before is None and tree is None and not _hides_git(tree, agent):
            return None
        after: TreePosition | str | None
        notes: tuple[str, ...] = ()
        with waiting("git to fetch what the attempt left"):
            if (own := self._private_tree(place)) is None:
                after = None
                if _hides_git(tree, agent):
                    notes, after = await in_thread(attestation.taken_over, self._checkout.leave)
                if before is None and tree is None and after is None:
                    return None
                after = after or await in_thread(attestation.position, self.cwd(place))
            else:
                after = await in_thread(attestation.private_position, own, private.look)
        problem = attestation.problem(before, after, tree)
        left = after if not isinstance(after, str) else None
        return TreeAttested(
            turn=turn, attempt=attempt, before=before, after=left, problem=problem, voids=bool(problem), notes=notes
        )

    def leave(self, place: str) -> None:
        """Give `.git` in the tree of *place* back to people, unless another attempt needs the agents'."""
        self._visits.end(place)
        if (tree := self._private_tree(place)) is not None and not self._visits.links(tree.path):
            private.link(tree, private=False)

    def repository(self, place: str) -> OwnRepository | None:
        """The private repository of the work tree of *place*; None if it has none."""
        if self._tree_of(place) is None:
            return self._checkout.repository
        tree = self._private_tree(place)
        own = worktree.repository_of(tree) if tree is not None else None
        if tree is None or own is None:
            return None
        return OwnRepository(
            tree=Path(tree.path),
            git=private.folder_of(tree),
            link=private.folder_of(tree).with_name(private.LINK),
            common=own.common,
            read=(*private.objects_of(own.common), own.common / "lfs"),
        )

    def _private_tree(self, place: str) -> WorkTree | None:
        """The work tree of *place* whose agents have a private repository."""
        tree = self._tree_of(place)
        return tree if tree is not None and tree.git else None

    async def end(self) -> None:
        """Take over what attempts that were cut off left in the user's checkout."""
        await in_thread(self._checkout.end)

    def _tree_of(self, place: str) -> WorkTree | None:
        return self._trees.get(_owner(place, self._trees), self._tree) if self._trees else self._tree

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the work tree of the root run still has to be made; *made* are the paths of those made."""
        tree = self._tree
        if tree is not None and tree.unprepared:
            return True
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

    async def prepare_tree(self, run: str) -> TreePrepared | None:
        """Copy what the settings name into the new work tree of *run*, and run their commands there."""
        tree = self._tree_of(run)
        if tree is None or self._begin is None or not tree.unprepared:
            return None
        with waiting("the work tree to be prepared (worktree.setup)"):
            await in_thread(private.enter, tree)
            tree, prepared = await prepare(self._state_dir, tree, self.repository(run), self._begin)
        if run in self._trees:
            self._trees[run] = tree
        else:
            self._tree = tree
        return prepared

    async def begin_tree(self, place: str, agent: AgentPlan, plan: Plan) -> TreeMade | None:
        """Make the work tree of *place*, a branch of a wave or a turn, if *agent* may change files.

        Raises:
            GitFailed, UsageError: If git cannot.
        """
        if (self._tree is None and not agent.isolation) or not branches.changes_files(agent):
            return None
        parent = self._tree_of(place.rpartition("/")[0])
        make = partial(branches.make_turn_tree, self._state_dir, self._cwd, plan, place, self._place)
        if parent is not None:
            make = partial(branches.make_branch_tree, self._state_dir, parent, place)
        with waiting(f"git to make the work tree of {place}"):
            tree = self._trees[place] = await in_thread(make)
        if (prepared := await self.prepare_tree(place)) is not None and prepared.problem:
            raise UsageError(prepared.problem)
        return _made(tree)

    async def merge_tree(self, place: str) -> str:
        """Merge the work of the turn at *place*, once no attempt works where it goes; returns why it cannot."""
        if (tree := self._trees.get(place)) is None:
            return ""
        above = self._tree_of(place.rpartition("/")[0])
        try:
            async with self._visits.alone(above.path if above is not None else ""):
                with waiting(f"git to merge the work of {place}"):
                    tree = await in_thread(branches.merge_turn, self._state_dir, tree)
        except (CoterieError, OSError) as error:
            if shortage(error):
                raise
            return str(error)
        self._trees[place] = tree
        return branches.why_unmerged(self._state_dir, tree)

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

    async def end_trees(self, run: str) -> TreesJoined | None:
        """Commit what is left in the work trees of turns of *run*; None if all is merged."""
        try:
            with waiting("git to commit the work of turns that did not complete"):
                return await in_thread(branches.end_turns, self._state_dir, run)
        except CoterieError as error:
            if shortage(error):
                raise
            return TreesJoined(problem=str(error))

    def _save(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        place = f"{run}/{turn}"
        owner = _owner(place, self._trees)
        if owner not in self._snapshots:
            tree = self._private_tree(place)
            repository = worktree.repository_of(tree) if tree is not None else find(self.cwd(place))
            folder = worktree.folder(self._state_dir, owner) if owner else self._folder
            index = (folder / worktree.INDEX).absolute()  # git works elsewhere
            without = [self._state_dir]
            self._snapshots[owner] = Snapshots(repository, index, without) if repository is not None else None
        snapshots = self._snapshots[owner]
        if snapshots is None:
            return None
        if why := snapshots.repository.why_read_only():
            return TreeSaved(turn=turn, attempt=attempt, problem=why, apart=owner != "")
        try:
            saved = snapshots.save(run, turn, attempt)
        except (CoterieError, OSError) as error:
            if shortage(error):
                raise
            return TreeSaved(turn=turn, attempt=attempt, problem=str(error), apart=owner != "")
        return TreeSaved(turn=turn, attempt=attempt, commit=saved.commit, problem=saved.incomplete, apart=owner != "")


def _hides_git(tree: WorkTree | None, agent: AgentPlan) -> bool:
    """Whether *agent*, which works in *tree*, has a sandbox that can show it a private repository in the user's
    checkout.
    """
    entry = REGISTRY.get(agent.backend)
    uses = agent.kind != "human" and entry is not None and entry.uses_files
    return uses and tree is None and mounts(agent)


def _owner(place: str, trees: Mapping[str, WorkTree]) -> str:
    """The place at or above *place* that has one of *trees*; empty if there is none."""
    while trees and place and place not in trees:
        place = place.rpartition("/")[0]
    return place if trees else ""


def read_below(folder: Path, name: str, top: Path | None = None) -> str | None:
    """The text of the file *name* in *folder*, cut at `READ_MOST` characters; None if it cannot be read.

    Neither can a file outside of *top*, by default *folder*, wherever links lead.
    """
    path = files.inside(folder, name, top)
    if path is None:
        return None
    try:
        real = (top or folder).resolve()
        *above, last = path.relative_to(real).parts or ("",)
        with files.folder_below(real, above) as fd, open(files.open_fd(last, dir_fd=fd), encoding="utf-8") as file:
            text = file.read(READ_MOST + 1)
    except (OSError, UnicodeDecodeError) as error:
        if shortage(error):
            raise
        return None
    return text if len(text) <= READ_MOST else text[:READ_MOST] + f"\n… (cut at {READ_MOST} characters)"


def _made(tree: WorkTree) -> TreeMade:
    return TreeMade(run=tree.run, path=tree.path, branch=tree.branch, base=tree.base)
