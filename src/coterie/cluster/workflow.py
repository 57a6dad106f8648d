"""`RunWorkflow`: one workflow for each root run, with the driver of every run inside.

The history of the workflow is the truth of a live run. What the driver writes lies in memory, since a replay makes the
same records again; an activity brings them to the export, which everyone else reads. Near the end of a history the
driver comes to rest, and the next link of the chain folds what was exported.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.workflow import ActivityConfig

from coterie.backends.agentside import delivery
from coterie.cluster.labels import STATE, RunDetails
from coterie.cluster.notes import RecordedNotes, plan_of
from coterie.cluster.turns import ActivityTurns
from coterie.cluster.wire import WORKFLOW, Begin, RunDone, TurnHeard, read_pages
from coterie.errors import CoterieError
from coterie.ids import child_run_id
from coterie.journal.memory import MemoryStore
from coterie.journal.records import (
    AnyRecord,
    ConfigAnswer,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    Record,
    RunNotified,
    TreeSaved,
)
from coterie.journal.runs import RunRecord
from coterie.kernel.attempt_files import AttemptFiles
from coterie.kernel.opening import RootOpening
from coterie.kernel.owner import OwnerOptions, RunPorts
from coterie.kernel.run_exit import Finalizers, RunExit, Step
from coterie.kernel.shell import Shell
from coterie.kinds import kind_of
from coterie.planning.plan import Plan, from_json, to_json
from coterie.runs.messages import RunMessage, Verdict
from coterie.runs.messages.verdicts import Sender, take
from coterie.workspace.base import Workspace

EXPORT, LOAD, READ, REREAD, NOTIFY, SENDER = "export", "load", "read", "reread", "notify", "sender"
HEARD = "heard"
TEXT: Any = str | None
ANSWER: Any = ConfigChanged | ConfigKept | ConfigRejected
EXPORT_EVERY = 0.5
"""Seconds between two writes to the export."""
_PATIENT = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=60), retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10))
)


class WorkflowClock:
    """The time of the workflow, which a replay reads again."""

    def now(self) -> float:
        """The time in Unix seconds."""
        return workflow.time()


@workflow.defn(name=WORKFLOW, sandboxed=False)
class RunWorkflow:
    """Drives a root run and its child runs, and answers those who speak to them."""

    @workflow.init
    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._store = MemoryStore()
        self._exporter, self._details = _Exporter(), RunDetails(begin.summary)
        self._turns = ActivityTurns(begin.backends, begin.files)
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
        self._left: list[RunMessage] = []
        self._hands_over = self._is_over = False

    @workflow.run
    async def run(self, begin: Begin) -> RunDone:
        """Drive the run until it has ended or stopped, or the next link takes it over."""
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
            left, files = tuple(self._left), self._turns.files
            workflow.continue_as_new(
                msgspec.structs.replace(
                    begin, folds=True, plan="", reloaded=False, reopened=None, messages=left, files=files
                ),
                initial_versioning_behavior=workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE,
            )
        if workflow.info().typed_search_attributes.get(STATE) is not None:
            workflow.upsert_search_attributes([STATE.value_set(ended.status)])
        return RunDone(ended=ended, files=self._turns.files)

    async def _drive(self, begin: Begin) -> RunExit:
        run = begin.run
        opening = RootOpening(begun_by=begin.begun_by, is_reloaded=begin.reloaded, reopened=begin.reopened)
        for message in begin.messages:  # the link before has checked their senders
            sender = Sender("agent" if message.attempt or message.by else "operator")
            self._shell.post(lambda message=message, sender=sender: self._take(message, sender))  # type: ignore[misc]
        try:
            if not begin.folds:
                return await self._shell.start(run, from_json(begin.plan), begin.given, opening)
            return await self._shell.resume(run, await self._load(begin), opening)
        except asyncio.CancelledError:
            if not self._shell.runs:
                raise
            return self._shell.ended(self._shell.runs[run])

    async def _load(self, begin: Begin) -> Plan:
        """Fill the store with what was exported, and return the plan under which the run goes on."""
        loaded = read_pages(await workflow.execute_activity(LOAD, begin.run, result_type=list[str], **_PATIENT))
        for run, record in loaded:
            self._store.fill(run, [record])
        return from_json(begin.plan) if begin.plan else plan_of(loaded, begin.run)

    async def _reread(self, run: str, plan: Plan) -> ConfigAnswer:
        """Read the folder of a loop again, as its turns have left it."""
        if self._turns.files is None or "/" in run:
            return ConfigKept()
        words = [run, to_json(plan).decode(), self._turns.files]
        answer: ConfigAnswer = await workflow.execute_activity(REREAD, args=words, result_type=ANSWER, **_PATIENT)
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
    async def message(self, said: RunMessage) -> Verdict:
        """The verdict on a message to the run, recorded once however often it comes."""
        words = [self._begin.run, said]
        sender = await workflow.execute_activity(SENDER, args=words, result_type=Sender, **_PATIENT)
        await workflow.wait_condition(lambda: self._shell.opened.is_set() or self._is_over)
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
    def receive(self, heard: TurnHeard) -> None:
        """Take what a running attempt does from its node."""
        self._turns.receive(heard)

    @workflow.query(name="newest")
    def newest(self, known: dict[str, int]) -> list[tuple[str, AnyRecord]]:
        """The records of the runs in *known* after the last one that is known of each."""
        return [
            (run, record)
            for run, seq in known.items()
            if self._store.has(run)
            for record in self._store.read(run, seq + 1)
        ]


class _SaidFiles(AttemptFiles):
    """Keeps no files, but how far attempts came that were cut off."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said

    async def how_far(self, run: str, turn: str, attempt: int) -> str:
        """The end of what an attempt had said."""
        return self._said.get(child_run_id(run, turn, attempt), "").strip()


class _TurnWorkspace(Workspace):
    """The files that turns have left, on whatever nodes they worked."""

    def __init__(self, run: str, turns: ActivityTurns) -> None:
        self._run, self._turns = run, turns

    async def read(self, name: str) -> str | None:
        """The text of a file that an agent `reads`; a node looks it up."""
        if self._turns.files is None:
            return None
        words = [self._run, name, self._turns.files]
        text: str | None = await workflow.execute_activity(READ, args=words, result_type=TEXT, **_PATIENT)
        return text

    async def saved(self, run: str, turn: str, attempt: int, *, cut_off: bool = False) -> TreeSaved | None:
        """The commit that the node of an attempt has kept; None if the run has no files, or it changed none."""
        begun, head = self._turns.kept.pop(child_run_id(run, turn, attempt), (None, None))
        if begun is None:
            return None
        if head is None:
            problem = "its node did not bring them to the export"
            return TreeSaved(turn=turn, attempt=attempt, problem=problem, lost=True)
        after = tuple(one.commit for one in begun.heads)
        if head.commit in after:
            return None
        return TreeSaved(turn=turn, attempt=attempt, commit=head.commit, bundles=head.bundles, after=after)


class _ClusterFinalizers(Finalizers):
    """The call of `notify.command`, on a node."""

    def __init__(self, turns: ActivityTurns) -> None:
        self._turns = turns

    def closes(self, plan: Plan) -> bool:
        """Whether there is a command to call."""
        return kind_of(plan).notify != ()

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The call, unless it is *done*."""
        if not self.closes(plan) or any(isinstance(one, RunNotified) for one in done):
            return None
        words = [ended, to_json(plan).decode(), self._turns.files]
        return partial(workflow.execute_activity, NOTIFY, args=words, result_type=RunNotified, **_PATIENT)


class _Exporter:
    """Brings records to the export, in order, in batches."""

    def __init__(self) -> None:
        self.lines: list[RunRecord] = []
        self._is_over = False

    async def run(self) -> None:
        """Export what comes, until `end` is called and nothing is left."""
        while True:
            await workflow.wait_condition(lambda: bool(self.lines) or self._is_over)
            if not self.lines:
                return
            lines, self.lines = self.lines, []
            await workflow.execute_activity(EXPORT, lines, **_PATIENT)
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._is_over, timeout=EXPORT_EVERY)

    def end(self) -> None:
        """Let `run` end once everything is exported."""
        self._is_over = True
