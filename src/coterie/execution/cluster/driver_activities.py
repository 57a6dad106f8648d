"""What drivers need from outside of their workflows: the export, and the files of their runs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError

from coterie.agents.workspace.trees.git import in_thread
from coterie.agents.workspace.trees.workspace import read_below
from coterie.errors import ExportConflict
from coterie.execution.cluster.files import RunFiles
from coterie.execution.cluster.paths import moving, placed_plan
from coterie.execution.cluster.turn_files import TurnFiles, WorkTrees
from coterie.execution.cluster.wire import pages
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kinds import kind_of
from coterie.execution.runs import finalizers
from coterie.history.journal.export import Export
from coterie.history.journal.records import AnyRecord, ConfigAnswer, ConfigChanged, ConfigKept, RunNotified
from coterie.team.planning.plan import from_json, to_json


class DriverActivities:
    """The activities of drivers; *home* is the folder of the node."""

    def __init__(self, export: Export, home: Path) -> None:
        self._export, self._home, self._trees = export, home, WorkTrees(home / "read", export)

    async def export(self, records: list[tuple[str, AnyRecord]]) -> None:
        """Return once *records* are durable.

        Raises:
            ApplicationError: For good, if another owner has written other records there.
        """
        try:
            await self._export.put(records)
        except ExportConflict as error:
            raise ApplicationError(str(error), type="fenced", non_retryable=True) from error

    async def load(self, run: str, begin: str, folds: bool) -> list[str]:
        """Every record of a root run and its child runs, in pages; none unless the run *folds* what was exported.

        Args:
            begin: The hash of the beginning, which begins one execution of a workflow alone.

        Raises:
            ApplicationError: For good, if it has begun another one.
        """
        execution = (activity.info().workflow_run_id or "").encode()
        if await self._export.claim(f"begin {begin}", execution) != execution:
            raise ApplicationError(f"run {run!r} was begun before: this is a copy", type="fenced", non_retryable=True)
        return pages(await self._export.load(run)) if folds else []

    async def read(self, run: str, name: str, place: RunFiles) -> str | None:
        """The text of the file *name* among those of *run*, by the rules of a run on one machine."""
        async with self._tree(run, place) as at:
            return read_below(at.cwd, moving(Path(place.root), at.root)(name), at.root)

    async def reread(self, run: str, plan: str, place: RunFiles) -> ConfigAnswer:
        """Read the folder of the loop *plan* again, as turns have left it."""
        async with self._tree(run, place) as at:
            here = placed_plan(from_json(plan), Path(place.root), at.root)
            answer = kind_of(here).project.reading(run, lambda found: found)(run, here)
            if not isinstance(answer, ConfigChanged):
                return answer
            there = placed_plan(from_json(answer.plan), at.root, Path(place.root))
            found = there.content_hash()
            if found == from_json(plan).content_hash():
                return ConfigKept()  # only its places here were others
            return msgspec.structs.replace(answer, plan=to_json(there).decode(), plan_hash=found)

    async def notify(self, ended: RunExit, plan: str, place: RunFiles | None) -> RunNotified:
        """Call `notify.command` of *plan* here, among the files of the run."""
        async with AsyncExitStack() as stack:
            cwd, made = self._home, from_json(plan)
            if place is not None:
                at = await stack.enter_async_context(self._tree(ended.run, place))
                made, cwd = placed_plan(made, Path(place.root), at.root), at.cwd
            return await in_thread(partial(finalizers.notified, made, ended, self._home, cwd))

    @asynccontextmanager
    async def _tree(self, run: str, place: RunFiles) -> AsyncIterator[TurnFiles]:
        async with self._trees.of(run, f"{run}/{activity.info().activity_id}", place) as at:
            yield at
