"""The files that agents work on: what a run needs of them."""

from collections.abc import Collection
from pathlib import Path

from coterie.journal.records import TreeAttested, TreeMade, TreePosition, TreeSaved, TreesJoined
from coterie.planning.plan import AgentPlan, Plan


class Workspace:
    """Where the agents of a root run and its child runs work. By default all work where the run was started.

    Attributes:
        saves: Whether the files are kept at each turn's end.
    """

    saves = False

    def cwd(self, run: str) -> Path | None:
        """The folder in which the agents of *run* work; None: the one in which everything was started."""
        return None

    def team_files(self, run: str, plan: Plan, *, texts: bool) -> tuple[Path, ...]:
        """The files that *plan* is read from, also where *run* works; see `coterie.planning.team_files`."""
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

    def attests(self, run: str, agent: AgentPlan) -> bool:
        """Whether the work tree of *run* is looked at before and after an attempt of *agent*."""
        return False

    async def position(self, run: str) -> TreePosition | None:
        """Where the work tree of *run* is; None: it has none."""
        return None

    async def attested(self, run: str, turn: str, attempt: int, before: TreePosition | None) -> TreeAttested | None:
        """Where an attempt has left the work tree of *run*, which was at *before*; None: it had none."""
        return None

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the root run is to have a work tree that is not among those *made*, by path."""
        return False

    async def make_tree(self) -> TreeMade | None:
        """Make the work tree of the root run; None: it has none."""
        return None

    async def begin_branch(self, run: str, plan: Plan) -> TreeMade | None:
        """Make the work tree of *run*, a branch of a wave; None: it works where its loop does."""
        return None

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Merge the work of the branches of a *wave* of *run*; None: there is nothing to merge."""
        return None
