"""The files that agents work on: what a run needs of them."""

from collections.abc import Collection, Iterable
from pathlib import Path

from coterie.agents.backends.base import OwnRepository
from coterie.base.ids import child_run_id
from coterie.history.journal.records import TreeAttested, TreeMade, TreePosition, TreePrepared, TreeSaved, TreesJoined
from coterie.team.planning.plan import AgentPlan, Plan


class Workspace:
    """Where the agents of a root run and its child runs work. By default all work where the run was started.

    A *place* is a run, or a turn of one as `RUN/TURN`: it has its own work tree, or else that of the run above it.

    Attributes:
        saves: Whether the files are kept at each turn's end.
    """

    saves = False

    def cwd(self, place: str) -> Path | None:
        """The folder in which the agents of *place* work; None: the one in which everything was started."""
        return None

    def team_files(self, place: str, plan: Plan, *, texts: bool) -> tuple[Path, ...]:
        """The files that *plan* is read from, also where *place* works; see `coterie.team.planning.team_files`."""
        return ()

    def confines(self, agent: AgentPlan) -> bool:
        """Whether the processes of *agent* cannot change those files."""
        return False

    async def read(self, name: str) -> str | None:
        """The text of a file that an agent `reads`, or None."""
        return None

    async def saved(self, run: str, turn: str, attempt: int, *, cut_off: bool = False) -> TreeSaved | None:
        """Keep the files as an attempt leaves them, perhaps *cut_off*; None: nothing is kept."""
        return None

    def attests(self, place: str, agent: AgentPlan) -> bool:
        """Whether the work tree of *place* is looked at before and after an attempt of *agent*."""
        return False

    async def position(self, place: str, agent: AgentPlan, team: Iterable[Path] = ()) -> TreePosition | None:
        """Where the work tree of *place* is, in which an attempt of *agent* begins to work; None: it has none.

        Args:
            team: The files that it must not write.
        """
        return None

    async def attested(
        self, place: str, turn: str, attempt: int, agent: AgentPlan, before: TreePosition | None
    ) -> TreeAttested | None:
        """Where an attempt has left the work tree of *place*, which was at *before*; None: it had none."""
        return None

    def leave(self, place: str) -> None:
        """End what `position` began at *place*, whether its attempt was attested or cancelled."""

    def repository(self, place: str) -> OwnRepository | None:
        """What the agents of *place* have for git; None: what git finds where they work."""
        return None

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the root run is to have a work tree that is not among those *made*, by path."""
        return False

    async def make_tree(self) -> TreeMade | None:
        """Make the work tree of the root run; None: it has none."""
        return None

    async def prepare_tree(self, run: str) -> TreePrepared | None:
        """Prepare the new work tree of *run* for its agents; None: there is nothing to do."""
        return None

    async def begin_tree(self, place: str, agent: AgentPlan, plan: Plan) -> TreeMade | None:
        """Make the work tree of *place*, where *agent* of *plan* is about to work; None: it works where its run does.

        Raises:
            CoterieError: If it cannot be made or prepared.
        """
        return None

    async def merge_tree(self, place: str) -> str:
        """Merge the work of the turn at *place*, which has a separate work tree; returns why it cannot be merged."""
        return ""

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Merge the work of the branches of a *wave* of *run*; None: there is nothing to merge."""
        return None

    async def end(self) -> None:
        """Take over what attempts that were cut off left, once nothing of the run works any more."""

    async def end_trees(self, run: str) -> TreesJoined | None:
        """Commit what is left in the work trees of turns of the root run *run*, which ends; None: nothing is."""
        return None


def place_of(run: str, turn: str, attempt: int, agent: AgentPlan) -> str:
    """The place of an attempt: its child run, or else its turn, whose attempts share their files."""
    return f"{run}/{turn}" if agent.child is None else child_run_id(run, turn, attempt)
