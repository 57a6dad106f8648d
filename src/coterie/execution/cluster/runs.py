"""The runs of a cluster, as `coterie.execution.runs.repository` has those of this machine.

Their journals, and what agents print, are read from the export; the workflow that drives a run knows its newest
records. A message is an update of that workflow, with the message's id, so that it is recorded once.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from coterie.agents.workspace.notes import EntryFiles, NoteSettings
from coterie.agents.workspace.notes.entries import read
from coterie.base.ids import child_run_id, new_run_id
from coterie.errors import (
    ClusterFailed,
    JournalUnreadable,
    NotSigned,
    NotTheOperator,
    RunIsFinished,
    RunIsOwned,
    UsageError,
)
from coterie.execution.cluster.address import ClusterAddress, connect, reason
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.kinds import Observe
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.control import RemoteRuns, fork
from coterie.execution.runs.fork import Forked
from coterie.execution.runs.index import Entry
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.outcome import Outcome, outcome_of
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.retry import reopening
from coterie.history.journal.background import BackgroundLoop
from coterie.history.journal.base import Archive
from coterie.history.journal.export import FolderArchive, FolderExport, folder_of, open_export
from coterie.history.journal.postgres import FOLLOW_WITHIN, PostgresArchive, PostgresExport
from coterie.history.journal.records import Record, RunFinished, TreeSaved, TurnStarted
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import RunRecord, history
from coterie.history.journal.status import RunStatus
from coterie.team.planning.plan import Limits, Plan

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

    from coterie.execution.cluster.files import RunFiles
    from coterie.execution.kernel.run_exit import RunExit

T = TypeVar("T")

ASK_WITHIN = timedelta(seconds=2)
"""How long a workflow has to answer a query: without a node that drives it, what was exported is all."""
TELL_WITHIN = timedelta(seconds=10)
NODE = "node"
"""The folder of a state directory in which `coterie serve` keeps its files."""
BEGINS_WITHIN = 10.0
"""Seconds that a node has to begin a run that was submitted, and to export its first record."""
KNOWN_FOR = 0.3
"""Seconds for which it is remembered whether a run is driven, and *KNOWN_FOR_EACH* for each run that is known."""
KNOWN_FOR_EACH = 0.01
STUCK_AFTER = 10.0
"""Seconds without a decision after which a run counts as stuck: the next node takes over sooner."""
FAILURE_WITHIN = 20
"""The last events of a history among which the failure of its workflow task is looked for."""


class ClusterServer:
    """Speaks to the server that drives the runs of *address*, for callers that do not await.

    Attributes:
        export: The export; it is used on *background* alone.
    """

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.background = BackgroundLoop()
        self.export = open_export(address.export)
        self.ring = KeyRing.of_user()
        self._client: Client | None = None
        self._driven: dict[str, tuple[float, RunStatus | None]] = {}
        self._unanswered = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of *work*.

        Raises:
            ClusterFailed: If the server does not answer.
        """
        return self.background.call(self._answered(work))

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of *work*; see `call`."""
        return await self.background.wait(self._answered(work))

    def is_driven(self, run: str) -> bool:
        """Whether a workflow drives the root run *run*."""
        return self.status(run) is not None

    def status(self, run: str) -> RunStatus | None:
        """The status of the root run *run* if a workflow drives it, with what keeps that from going on; else None."""
        at, driven = self._driven.get(run, (-inf, None))
        if time.monotonic() - at >= max(KNOWN_FOR, len(self._driven) * KNOWN_FOR_EACH):
            driven = self.call(self._status(run))
            self._driven[run] = (time.monotonic(), driven)
        return driven

    def newest(self, run: str, last: int) -> list[Record]:
        """The records of *run* after *last* that are not exported yet; none if no workflow says."""
        root = root_of(run)
        try:
            if self._unanswered or not self.is_driven(root):
                return []
            return [record for _, record in self.call(self._newest(root, {run: last}))]
        except NotSigned:  # a workflow of an earlier release, or of someone else
            return []
        except ClusterFailed:  # no node drives runs now: a list of many would wait for each of them
            self._unanswered = True
            return []

    async def catch_up(self, run: str) -> None:
        """Export what the last workflow of *run* has written and not exported, as one that was terminated leaves it.

        Of one that cannot be replayed nothing more is to be had.
        """
        known: dict[str, int] = {}
        found = await self.export.load(run)
        while found:
            for name, record in found:
                known[name] = record.seq
                if isinstance(record, TurnStarted):
                    known.setdefault(_mark(name, record), 0)
            try:
                found = await self._answered(self._newest(run, known))
            except (ClusterFailed, NotSigned):
                return
            await self.export.put(found)

    def send(self, run: str, message: RunMessage) -> Verdict:
        """The verdict on *message* to the root run *run*."""
        return self.call(self._send(run, message))

    async def restart(self, run: str, **how: Any) -> None:
        """Have a workflow drive *run* from the end of its exported journal; *how*: see
        `coterie.execution.cluster.submit`."""
        from coterie.execution.cluster.submit import restart

        await restart(await self.client(), self.export, run, **how)
        self._driven.pop(run, None)

    async def end(self, run: str) -> "tuple[RunExit, tuple[str, ...]]":
        """How *run* ended, and notices of what it brought to this machine."""
        from coterie.execution.cluster.submit import bring_home, done

        left = await done(await self.client(), run)
        return left.ended, await bring_home(run, left.files, self.export)

    async def files(self, run: str) -> "RunFiles | None":
        """The files of *run*, as its turns have left them; None if no node knows any."""
        from coterie.execution.cluster.submit import files_of

        return await files_of(await self.client(), run, await self.export.load(run), self.ring)

    async def client(self) -> "Client":
        """The client, which connects at its first call."""
        if self._client is None:
            from coterie.execution.cluster.wire import MsgspecConverter

            self._client = await connect(self.address, self.export, MsgspecConverter, lazy=True)
        return self._client

    def close(self) -> None:
        """Close the connections."""
        self.background.call(self.export.close())
        self.background.close()

    async def _answered(self, work: Coroutine[Any, Any, T]) -> T:
        from temporalio.client import WorkflowFailureError, WorkflowQueryFailedError, WorkflowUpdateFailedError
        from temporalio.service import RPCError

        try:
            return await work
        except (RPCError, WorkflowQueryFailedError, WorkflowFailureError, WorkflowUpdateFailedError) as error:
            said = error.cause if isinstance(error, WorkflowFailureError | WorkflowUpdateFailedError) else error
            raise ClusterFailed(f"temporal://{self.address.host}", reason(said)) from None
        except RuntimeError as error:
            raise ClusterFailed(f"temporal://{self.address.host}", reason(error)) from None

    async def _handle(self, run: str) -> "WorkflowHandle[Any, Any]":
        return (await self.client()).get_workflow_handle(run)

    async def _status(self, run: str) -> RunStatus | None:
        from temporalio.client import WorkflowExecutionStatus
        from temporalio.service import RPCError, RPCStatusCode

        handle = await self._handle(run)
        try:
            found = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        if found.status is not WorkflowExecutionStatus.RUNNING:
            return None
        task, info = found.raw_description.pending_workflow_task, found.raw_description.workflow_execution_info
        since = (task.original_scheduled_time.ToNanoseconds() or task.scheduled_time.ToNanoseconds()) / 1e9
        if not since or time.time() - since < STUCK_AFTER:
            return RunStatus("running")
        release = info.versioning_info.deployment_version.build_id
        failed = await self._failure(run) if task.attempt > 1 else ""
        problem = f"its workflow task failed {task.attempt - 1} times: {failed}" if failed else "no node takes it up"
        return RunStatus("running", f"{problem} (release {release})" if release else problem, since)

    async def _failure(self, run: str) -> str:
        """Why the workflow task of *run* that is tried again failed; empty if its nodes died or did not answer."""
        from temporalio.api.common.v1 import WorkflowExecution
        from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest

        client = await self.client()
        asked = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=run), maximum_page_size=FAILURE_WITHIN
        )
        found = await client.workflow_service.get_workflow_execution_history_reverse(asked)
        for event in found.history.events:
            if event.HasField("workflow_task_failed_event_attributes"):
                return " ".join(event.workflow_task_failed_event_attributes.failure.message.split())
            if event.HasField("workflow_task_completed_event_attributes"):
                break
        return ""

    async def _newest(self, root: str, known: dict[str, int]) -> list[RunRecord]:
        """What the workflow of *root* has written after the last record that is known of each run."""
        from temporalio.common import RawValue

        from coterie.execution.cluster.seals import read, unseal
        from coterie.execution.cluster.wire import RECORDS

        handle = await self._handle(root)
        answer: RawValue = await handle.query("newest", known, result_type=RawValue, rpc_timeout=ASK_WITHIN)
        found: list[RunRecord] = unseal(read(answer.payload.data), self.ring.trusted, RECORDS, "newest", root)
        return found

    async def _send(self, run: str, message: RunMessage) -> Verdict:
        """The verdict on *message*; one that no node takes in time is left to the next node, in the history."""
        from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
        from temporalio.service import RPCError, RPCStatusCode

        from coterie.execution.cluster.relay import ENDED, signed, update
        from coterie.execution.cluster.workflow import LEFT

        proved, handle = signed(self.ring, run, message), await self._handle(run)
        try:
            try:
                async with asyncio.timeout(TELL_WITHIN.total_seconds()):
                    return await update(handle, run, proved, message, self.ring)
            except NotSigned as error:
                raise ClusterFailed(f"run {run}", f"whether it has taken the message is not known: {error}") from None
            except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
                why = f"no node has taken it within {TELL_WITHIN.seconds} s"
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise
                why = reason(error)
            await handle.signal(LEFT, proved, rpc_timeout=TELL_WITHIN)
            return Verdict(status="queued", detail=f"{why}; it waits on the cluster for the next node that has the run")
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            hint = f"`coterie resume {run}` goes on with it"
            return Verdict(status="refused", detail=f"nothing on the cluster drives the run: {hint}")
        except WorkflowUpdateFailedError:
            return Verdict(status="refused", detail=ENDED)


class ClusterRuns(RemoteRuns):
    """The runs of a cluster.

    Args:
        state_dir: Of this machine: a run that is brought here goes there.
    """

    def __init__(self, server: ClusterServer, state_dir: Path) -> None:
        self.server, self._state_dir = server, state_dir
        self._over: set[str] = set()
        self._files: dict[str, RunFiles] = {}
        """Of forks that were not resumed yet."""
        super().__init__(state_dir / NODE, archive=self._archive())

    def _archive(self) -> Archive:
        if (folder := folder_of(self.server.address.export)) is not None:
            return FolderArchive(folder, self._is_driven, self._running)
        assert isinstance(self.server.export, PostgresExport)
        return PostgresArchive(self.server.export, self._is_driven, self.server.background, self._running)

    def _running(self, run: str) -> RunStatus:
        """The status of *run*, which is driven."""
        try:
            return self.server.status(run) or RunStatus("running")
        except ClusterFailed:
            return RunStatus("running")

    def _is_driven(self, run: str) -> bool | None:
        """Whether a workflow drives *run*, and None while the server is away; once read to its end it is not."""
        try:
            return run not in self._over and self.server.is_driven(run)
        except ClusterFailed:
            return None

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on; those that are not exported yet come from its workflow."""
        stored = super().read(run, from_seq)

        def all_of_them() -> Iterator[Record]:
            last, record = from_seq - 1, None
            for record in stored:
                last = record.seq
                yield record
            if isinstance(record, RunFinished):
                self._over.add(run)
            else:
                yield from self.server.newest(run, last)

        return all_of_them()

    def be_patient(self) -> None:
        """Wait as long for the export as a follower does."""
        if isinstance(self.server.export, PostgresExport):
            self.server.export.patience = FOLLOW_WITHIN

    def printed(self, attempt: str, begin: int) -> bytes:
        """The lines that *attempt* has printed from that byte on; they are exported every second."""
        return self.server.background.call(self.server.export.output(attempt, begin))

    def notes(self, run: str, settings: NoteSettings | None, kind: str) -> EntryFiles:
        """The entries of the `memory`, or of the `task`s, of *run*, by its records, after those in the project here."""
        from coterie.execution.cluster.notes import recorded

        before = [] if settings is None else read(settings.memory if kind == "memory" else settings.tasks)
        owner = run.rpartition("/")[0] if settings is not None and settings.of_parent else run
        return recorded(self.history(root_of(run)), owner, kind, before)

    def send(self, run: str, message: RunMessage) -> Verdict:
        """Send the root run *run* a message, and wait for the verdict of its workflow."""
        try:
            marks = check_operator(self, run)
        except NotTheOperator as error:
            return Verdict(status="refused", detail=str(error))
        return self.server.send(run, msgspec.structs.replace(message, by=marks[0] if marks else ""))

    async def resume(
        self,
        run: str,
        *,
        reload: Plan | None = None,
        retry: str | None = None,
        limits: Limits | None = None,
        observe: Observe | None = None,
        recall: Any = None,
        **local: Any,
    ) -> Outcome:
        """Have the cluster go on with *run* from its export, and follow it to its end; cancelling leaves it alone.

        Args:
            local: What concerns a run that this process drives; of these only a recording of model calls is refused.
        """
        if local.get("cassette") is not None:
            raise UsageError("a cluster's workers call the models: --cassette needs --here")
        await self.server.wait(self.server.catch_up(run))
        marks = check_operator(self, run)
        journals = [one async for one in self.load_tree(run)]
        earlier = [(one.run, record) for one in journals for record in one.records]
        known = {name: record.seq for name, record in earlier}
        if self.server.is_driven(run):
            raise RunIsOwned(run, cluster=str(self.server.address))
        reopened = None
        if retry is not None:
            reopened = reopening(journals, time.time(), retry, marks[0] if marks else "")
        elif isinstance(last := earlier[known[run] - 1][1], RunFinished):
            raise RunIsFinished(run, last.outcome)
        if recall is not None:
            recall(iter(earlier))
        server = self.server
        files = self._files.pop(run, None)
        await server.wait(server.restart(run, limits=limits, reload=reload, reopened=reopened, files=files))
        self._over.discard(run)
        async with aclosing(self.follow(run)) as news:
            async for name, record in news:
                if observe is not None and record.seq > known.get(name, 0):
                    observe(name, record)
        ended, notices = await server.wait(server.end(run))
        return msgspec.structs.replace(outcome_of(ended), notices=notices)

    def fork(self, run: str, *, files: bool = True, **how: Any) -> Forked:
        """Make a fork of *run* in the export; its files begin as they were then, by the records of *run*."""
        with tempfile.TemporaryDirectory() as folder:
            self._bring(run, Path(folder))
            made = fork(Runs(Path(folder)), run, files=False, run_id=how.pop("run_id", None) or new_run_id(), **how)
            copied = list(history(Runs(Path(folder)).read, made.run))
            self.server.call(self.server.export.put(copied))
        if files and (left := self.server.call(self.server.files(run))) is not None:
            from coterie.execution.cluster.files import files_after

            is_recorded = any(isinstance(one, TreeSaved) for _, one in self.history(run))  # older releases did not
            self._files[made.run] = files_after(left, [one for _, one in copied]) if is_recorded else left
        return made

    def here(self, run: str, tell: Callable[[str], object]) -> Runs:
        """The runs in the state directory of this machine, with a copy of *run* among them.

        Raises:
            RunIsOwned: If the cluster drives it.
            UsageError: If its files are a branch that is not in the checkout.
            ExportConflict: If it was brought here before, and has gone on on both sides.
        """
        if self.server.is_driven(run):
            raise RunIsOwned(run, cluster=str(self.server.address))
        from coterie.execution.cluster.files import how_to_merge
        from coterie.execution.cluster.submit import bring_home

        kept = FolderExport(self._state_dir)
        for name, record in self._bring(run, self._state_dir):
            if isinstance(record, TurnStarted) and (lines := self.printed(mark := _mark(name, record), 0)):
                self.server.background.call(kept.put_output(mark, 0, lines))
        left = self.server.call(self.server.files(run))
        for notice in self.server.call(bring_home(run, left, self.server.export)):
            tell(notice)
        if left is not None and (command := how_to_merge(run, left)):
            todo = f"`{command}`, then resume it here again"
            raise UsageError(f"run {run!r} would go on without the files of its turns, which {left.root} lacks: {todo}")
        return Runs(self._state_dir)

    def _bring(self, run: str, state_dir: Path) -> list[RunRecord]:
        self.server.call(self.server.catch_up(run))
        found = self.server.call(self.server.export.load(run))
        self.server.background.call(FolderExport(state_dir).put(found))
        return found


def _mark(run: str, start: TurnStarted) -> str:
    return child_run_id(run, start.turn, start.attempt)


class ClusterLocation:
    """A cluster as a place that keeps runs; see `coterie.execution.runs.repository.RunLocation`."""

    def __init__(self, address: ClusterAddress, state_dir: Path, option: str = "") -> None:
        self.runs = ClusterRuns(ClusterServer(address), state_dir)
        self.option = option
        self._entries: dict[str, Entry] = {}

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs of the cluster whose id begins with *beginning*, newest first.

        Raises:
            ClusterFailed: If a run with that id was submitted, and no node begins it.
        """
        for run in self._listed(beginning):
            if run not in self._entries:
                self._entries[run] = self._entry(run)
            yield self._entries[run]

    def _listed(self, beginning: str) -> list[str]:
        """The ids that begin with *beginning*, newest first; waits for the first export of a run that just began."""
        late = time.monotonic() + BEGINS_WITHIN
        while True:
            found = [run for run in reversed(self.runs.list()) if run.startswith(beginning)]
            if found or not beginning or not self.runs.server.is_driven(beginning):
                return found
            if time.monotonic() > late:
                hint = "`coterie serve` makes this machine one"
                place = str(self.runs.server.address)
                raise ClusterFailed(place, f"run {beginning!r} was submitted, and no node has begun it", hint)
            time.sleep(KNOWN_FOR)

    def _entry(self, run: str) -> Entry:
        place = str(self.runs.server.address)
        try:
            first = self.runs.first(run)
        except JournalUnreadable:
            return Entry(run=run, folder=place)
        shared = first.forked_from.seq if first.forked_from is not None else 0
        own = next(self.runs.store.read(run, shared + 1), first)
        return Entry(run=run, folder=place, topology=first.topology, started=own.at, cwd=first.cwd)

    def open(self, entry: Entry) -> tuple[Runs, str]:
        """The runs of the cluster, and the id of *entry* there."""
        return self.runs, entry.run

    def close(self) -> None:
        """Close the connections."""
        self.runs.server.close()
