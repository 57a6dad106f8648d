"""`RunWorkflow`: one workflow for each root run, with the driver of every run inside.

The history of the workflow is the truth of a live run. What the driver writes lies in memory, since a replay makes the
same records again; an activity brings them to the export, which everyone else reads. Near the end of a history the
driver comes to rest, and the next link of the chain folds what was exported.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.base import AttemptRef
from coterie.agents.workspace.base import Workspace
from coterie.base.ids import child_run_id
from coterie.errors import CodeMissing, CoterieError, NotSigned
from coterie.execution.cluster.arrivals import Arrivals
from coterie.execution.cluster.files import bundles
from coterie.execution.cluster.labels import STATE, RunDetails
from coterie.execution.cluster.notes import RecordedNotes, plan_of
from coterie.execution.cluster.orders import Orders, ring_of_node
from coterie.execution.cluster.seals import Sealed, peek, read, read_charter
from coterie.execution.cluster.turns import ActivityTurns
from coterie.execution.cluster.wire import WORKFLOW, Begin, RunDone, read_begin, read_pages
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import Finalizers, RunExit, Step
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    ConfigAnswer,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    Record,
    RunNotified,
    TreeAttested,
    TreePosition,
    TreeSaved,
)
from coterie.history.journal.runs import RunRecord
from coterie.team.planning.plan import AgentPlan, Plan, from_json, to_json

EXPORT, LOAD, READ, REREAD, NOTIFY = "export", "load", "read", "reread", "notify"
HEARD, LEFT, AFFORDS = "heard", "left", "affords"
TEXT: Any = str | None
ANSWER: Any = ConfigChanged | ConfigKept | ConfigRejected
EXPORT_EVERY = 0.5
"""Seconds between two writes to the export."""


class WorkflowClock:
    """The time of the workflow, which a replay reads again."""

    def now(self) -> float:
        """The time in Unix seconds."""
        return workflow.time()

    def slept(self) -> None:
        """Return None: the timers of a workflow follow this time."""


@workflow.defn(name=WORKFLOW, sandboxed=False)
class RunWorkflow:
    """Drives a root run and its child runs, and answers those who speak to them."""

    @workflow.init
    def __init__(self, sealed: RawValue) -> None:
        self._begin, self._orders = begin, orders = _begun(sealed)
        self._store = MemoryStore()
        self._exporter, self._details = _Exporter(orders), RunDetails(begin.summary)
        self._turns = ActivityTurns(begin.backends, begin.files, orders)
        self._shell = Shell(
            RunPorts(
                store=self._store,
                turns=self._turns,
                clock=WorkflowClock(),
                make_kind=kind_of,
                files=_SaidFiles(self._turns.said),
                notes=RecordedNotes(lambda: self._shell.runs, begin.notes),
                workspace=_TurnWorkspace(begin.run, self._turns),
                finalizers=_ClusterFinalizers(self._turns),
                reload=self._reread,
                make_task=asyncio.create_task,
            ),
            OwnerOptions(limits=begin.limits, quota="wait", listens=True, stall_after=lambda agent: None),
        )
        self._shell.watch(self._appended)
        self._arrivals = Arrivals(self._takes_messages, self._judge, begin.withdrawals)
        self._left: list[RunMessage] = []
        self._hands_over = self._is_over = False

    @workflow.run
    async def run(self, sealed: RawValue) -> Sealed:
        """Drive the run until it has ended or stopped, or the next link takes it over."""
        begin = self._begin
        workflow.set_current_details(str(self._details))
        exporting = asyncio.create_task(self._exporter.run())
        driving = asyncio.create_task(self._drive(begin))
        exporting.add_done_callback(lambda _: driving.cancel())
        is_dropped = False
        try:
            ended = await asyncio.shield(driving)
        except asyncio.CancelledError:
            driving.cancel()
            ended = await driving
        except CodeMissing:  # another node may have it: the server tries again, and `runs` says why
            raise
        except CoterieError as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
        except GeneratorExit:  # dropped by a node that ends: nothing can be awaited any more
            is_dropped = True
            raise
        finally:
            self._is_over = True
            self._exporter.end()
            if not is_dropped:
                await exporting
                await workflow.wait_condition(workflow.all_handlers_finished)
        if self._hands_over and ended.status == "stopped" and not ended.reason:
            left, files, after = tuple(self._left), self._turns.files, self._orders.execution
            link = msgspec.structs.replace(
                begin, folds=True, plan="", reloaded=False, reopened=None, messages=left, files=files, after=after
            )
            link = msgspec.structs.replace(link, withdrawals=tuple(self._arrivals.spent))
            workflow.continue_as_new(
                self._orders.seal(link, "begin", begin.run),
                initial_versioning_behavior=workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE,
            )
        if workflow.info().typed_search_attributes.get(STATE) is not None:
            workflow.upsert_search_attributes([STATE.value_set(ended.status)])
        done = RunDone(ended=ended, files=self._turns.files)
        return self._orders.seal(done, "end", begin.run, self._orders.execution)

    async def _drive(self, begin: Begin) -> RunExit:
        run = begin.run
        opening = RootOpening(begun_by=begin.begun_by, is_reloaded=begin.reloaded, reopened=begin.reopened)
        for message in begin.messages:  # the link before has checked their senders
            sender = Sender("agent" if message.attempt or message.by else "operator")
            self._shell.post(lambda message=message, sender=sender: self._take(message, sender))  # type: ignore[misc]
        try:
            loaded = await self._load(begin)
            if not begin.folds:
                return await self._shell.start(run, from_json(begin.plan), begin.given, opening)
            for name, record in loaded:
                self._store.fill(name, [record])
            return await self._shell.resume(run, from_json(begin.plan) if begin.plan else plan_of(loaded, run), opening)
        except asyncio.CancelledError:
            if not self._shell.runs:
                raise
            return self._shell.ended(self._shell.runs[run])

    async def _load(self, begin: Begin) -> list[RunRecord]:
        """What was exported, if the run goes on from there; a beginning that was copied ends here."""
        return read_pages(await self._orders.ask(LOAD, begin.run, self._orders.begin, begin.folds, kind=list[str]))

    async def _reread(self, run: str, plan: Plan) -> ConfigAnswer:
        """Read the folder of a loop again, as its turns have left it."""
        if self._turns.files is None or "/" in run:
            return ConfigKept()
        words = run, to_json(plan).decode(), self._turns.files
        answer: ConfigAnswer = await self._orders.ask(REREAD, *words, kind=ANSWER)
        return answer

    # -- while it goes on ---------------------------------------------------------------------------------------------

    def _appended(self, run: str, record: Record) -> None:
        self._exporter.lines.append((run, record))
        if self._details.take(run, record):
            workflow.set_current_details(str(self._details))
        self._hands_over = self._hands_over or self._is_long()
        if self._hands_over:
            self._shell.hand_over()

    def _is_long(self) -> bool:
        info, most = workflow.info(), self._begin.link_events
        return info.is_continue_as_new_suggested() or (bool(most) and info.get_current_history_length() >= most)

    @workflow.update(name="message")
    async def message(self, sealed: RawValue) -> Sealed:
        """The verdict on a message to the run, recorded once however often it comes."""
        try:
            said, sender = self._opened(sealed)
        except NotSigned as error:
            raise ApplicationError(str(error), type="refused") from None
        return self._orders.seal(await self._arrivals.judge(said, sender), "verdict", self._begin.run, said.id)

    @workflow.signal(name=LEFT)
    async def leave(self, sealed: RawValue) -> None:
        """Take a message whose sender does not wait for the verdict, since no node drove the run."""
        with suppress(NotSigned):
            await self._arrivals.judge(*self._opened(sealed))

    def _opened(self, sealed: RawValue) -> tuple[RunMessage, Sender]:
        """A message, and its sender, by its signature: everyone who reaches the server can send one."""
        found = read(sealed.payload.data)
        said: RunMessage = peek(found, RunMessage)
        try:
            self._orders.read(found, RunMessage, "message", self._begin.run)
        except NotSigned as error:
            return said, Sender("agent", f"neither a node nor an operator signed it: {error}")
        return said, Sender("agent" if said.attempt or said.by else "operator")

    async def _takes_messages(self) -> None:
        await workflow.wait_condition(lambda: self._shell.opened.is_set() or self._is_over)

    async def _judge(self, said: RunMessage, sender: Sender) -> Verdict:
        while not self._is_over:
            judged: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
            self._shell.post(lambda judged=judged: judged.set_result(self._take(said, sender)))  # type: ignore[misc]
            await workflow.wait_condition(lambda judged=judged: judged.done() or self._is_over)  # type: ignore[misc]
            if judged.done() and judged.result().status != delivery.CHECKING:
                return judged.result()
            await workflow.wait_condition(lambda: self._is_over or not self._is_due(said.id))
        if self._hands_over and not sender.problem:
            self._left.append(said)
            return Verdict(status="queued", detail="the run is being handed over, and takes the message next")
        return Verdict(status="refused", detail="the run is over")

    def _take(self, said: RunMessage, sender: Sender) -> Verdict:
        return take(self._shell, said, workflow.time(), sender)[1]

    def _is_due(self, message: str) -> bool:
        gated = (held for live in self._shell.runs.values() for held in live.core.gated.values())
        return any(held.due.brought_by == message for held in gated)

    @workflow.signal(name=HEARD)
    def receive(self, sealed: RawValue) -> None:
        """Take what a running attempt does from its node."""
        with suppress(NotSigned):
            self._turns.receive(read(sealed.payload.data))

    @workflow.update(name=AFFORDS)
    async def affords(self, sealed: RawValue) -> Sealed | None:
        """Whether a running attempt may send a further request to a model, once what it has used is counted."""
        try:
            heard = self._turns.receive(read(sealed.payload.data))
        except NotSigned:
            return None
        if heard is None:
            return None
        asking = asyncio.create_task(self._turns.affords(*heard))
        await workflow.wait_condition(lambda: asking.done() or self._is_over)
        if asking.done():
            return asking.result()
        asking.cancel()
        return None

    @workflow.query(name="newest")
    def newest(self, known: dict[str, int]) -> Sealed:
        """The records of the runs in *known* after the last one that is known of each."""
        found = [
            (run, record)
            for run, seq in known.items()
            if self._store.has(run)
            for record in self._store.read(run, seq + 1)
        ]
        return self._orders.seal(found, "newest", self._begin.run)


def _begun(sealed: RawValue) -> tuple[Begin, Orders]:
    """The beginning of a link, and its orders.

    Raises:
        ApplicationError: If no charter proves it; the workflow fails then, wherever it is replayed.
        NotSigned: If the node that drives it does not trust its charter; another node may.
    """
    info, ring = workflow.info(), ring_of_node()
    try:
        found = read(sealed.payload.data)
        begin, charter = read_begin(found, info.workflow_id)
    except NotSigned as error:
        hint = f"`coterie resume {info.workflow_id}` goes on with a run of an earlier release, from its export"
        raise ApplicationError(f"{error}; {hint}", type="refused", non_retryable=True) from None
    assert begin.charter is not None
    read_charter(begin.charter, info.workflow_id, ring.trusted)
    return begin, Orders(found, begin.charter, charter, ring, info.run_id)


class _SaidFiles(AttemptFiles):
    """Keeps no files, but how far attempts came that were cut off."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said

    async def how_far(self, ref: AttemptRef) -> str:
        """The end of what an attempt had said."""
        return self._said.get(ref.marker, "").strip()


class _TurnWorkspace(Workspace):
    """The files that turns have left, on whatever nodes they worked."""

    def __init__(self, run: str, turns: ActivityTurns) -> None:
        self._run, self._turns = run, turns

    async def read(self, name: str) -> str | None:
        """The text of a file that an agent `reads`; a node looks it up."""
        if self._turns.files is None:
            return None
        text: str | None = await self._turns.orders.ask(READ, self._run, name, self._turns.files, kind=TEXT)
        return text

    def attests(self, place: str, agent: AgentPlan) -> bool:
        """Whether the run has files: the node of an attempt looks at its work tree."""
        return self._turns.files is not None

    async def attested(
        self, place: str, turn: str, attempt: int, agent: AgentPlan, before: TreePosition | None
    ) -> TreeAttested | None:
        """What the node of an attempt said of its work tree."""
        return self._turns.attested.pop(child_run_id(place.rpartition("/")[0], turn, attempt), None)

    async def saved(self, run: str, turn: str, attempt: int, *, cut_off: bool = False) -> TreeSaved | None:
        """The commit that the node of an attempt has kept; None if the run has no files, or it changed none."""
        begun, head = self._turns.kept.pop(child_run_id(run, turn, attempt), (None, None))
        if begun is None:
            return None
        if head is None:
            problem = "its node did not bring them to the export"
            return TreeSaved(turn=turn, attempt=attempt, problem=problem, lost=True)
        after = tuple(one.commit for one in begun.heads)
        if head.commit in after and {*head.bundles} <= {*bundles(begun)}:
            return None
        return TreeSaved(turn=turn, attempt=attempt, commit=head.commit, bundles=head.bundles, after=after)


class _ClusterFinalizers(Finalizers):
    """The call of `notify.command`, on a node."""

    def __init__(self, turns: ActivityTurns) -> None:
        self._turns = turns

    def closes(self, plan: Plan) -> bool:
        """Whether there is a command to call."""
        return kind_of(plan).project.notify != ()

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The call, unless it is *done*."""
        if not self.closes(plan) or any(isinstance(one, RunNotified) for one in done):
            return None
        words = ended, to_json(plan).decode(), self._turns.files
        return partial(self._turns.orders.ask, NOTIFY, *words, kind=RunNotified)


class _Exporter:
    """Brings records to the export, in order, in batches."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.lines: list[RunRecord] = []
        self._is_over = False

    async def run(self) -> None:
        """Export what comes, until `end` is called and nothing is left."""
        while True:
            await workflow.wait_condition(lambda: bool(self.lines) or self._is_over)
            if not self.lines:
                return
            lines, self.lines = self.lines, []
            await self._orders.ask(EXPORT, lines)
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._is_over, timeout=EXPORT_EVERY)

    def end(self) -> None:
        """Let `run` end once everything is exported."""
        self._is_over = True
