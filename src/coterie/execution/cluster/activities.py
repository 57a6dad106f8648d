"""The turns that a node performs, by the local form of `Turns`."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatRequest
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from coterie.agents.backends.base import (
    Answer,
    Asking,
    Failure,
    Launched,
    Permission,
    Request,
    Result,
    Session,
    Text,
    Used,
)
from coterie.agents.backends.processes import end_orphans
from coterie.agents.backends.secrets import Secrets
from coterie.base import files
from coterie.base.shortages import shortage, write_shortage
from coterie.base.user_code import is_cancelled
from coterie.errors import ClusterFailed, CoterieError, GitFailed, NotSigned, UsageError
from coterie.execution.cluster.address import passes
from coterie.execution.cluster.files import FilesConflict, RunFiles
from coterie.execution.cluster.guard import GRACE, Guard
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.orders import Performance, performed
from coterie.execution.cluster.paths import moving, placed_request
from coterie.execution.cluster.relay import Outbox, Relay
from coterie.execution.cluster.seals import Sealed, read
from coterie.execution.cluster.turn_files import LeftFiles, TurnFiles, WorkTrees
from coterie.execution.cluster.wire import TurnBeat, TurnDone, TurnHeard
from coterie.execution.cluster.workflow import AFFORDS, HEARD
from coterie.execution.kernel.stall import stall_after, watch_signs
from coterie.execution.kernel.turns import TurnEvent, Turns, ask
from coterie.execution.runs.attempt_folders import HOW_FAR_MOST, AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.journal.export import Export
from coterie.history.journal.jsonl import STREAM
from coterie.history.journal.records import (
    AttemptLaunched,
)
from coterie.history.journal.rules import root_of

T = TypeVar("T")
HEARTBEAT_EVERY, BEAT = 1.0, 4.0
"""The least and the most seconds between two signs of life of a turn, each of which the server writes down."""
COST_LEAST = 0.01
COST_GROWTH = 1.25
"""The cost of an attempt, in USD, that its node reports first, and its growth until the next report."""
OUTPUT_EVERY = 1.0
"""Seconds between two exports of what an attempt prints."""
OUTPUT_AT_ONCE = 4 << 20
SHORT_PAUSE, SHORT_MOST = 3.0, 20
"""Seconds, for each attempt that a turn has had by now, and so many at most, until a machine that lacks space gives the
turn back: without a pause it would get it again at once."""
_CUT_OFF = "its node was cut off from the server"
_SHOWN = ("text", "outputs", "reason", "log", "detail", "tool", "payload", "event")


class TurnActivities:
    """Performs turns on this machine.

    Args:
        turns: Starts their attempts.
        home: Where the files of attempts are kept, in a folder for each run.
        node: The name of the queue on which this node is spoken to.
        guard: Ends what attempts leave behind if this process dies.
        ring: The keys of this machine.
        hidden: See `Request.hidden`.
        tell: Called with notices for the people who operate the node.
        beat: The most seconds between two signs of life of a turn.
    """

    def __init__(
        self,
        client: Client,
        export: Export,
        turns: Turns,
        home: Path,
        node: str,
        guard: Guard,
        ring: KeyRing,
        hidden: tuple[Path, ...] = (),
        tell: Callable[[str], object] = lambda notice: None,
        beat: float = BEAT,
    ) -> None:
        self._home, self._hidden, self._tell, self._beat = home, hidden, tell, beat
        self._client, self._export, self._turns, self._node, self._guard = client, export, turns, node, guard
        self._files, self._trees = AttemptFolders(Runs(home)), WorkTrees(home / "files", export)
        self._relay = Relay(client, ring)
        self._sessions: dict[str, Session] = {}
        self._running: dict[str, asyncio.Future[Result]] = {}
        self._ending: set[asyncio.Future[Any]] = set()
        self._lost: set[str] = set()
        self.is_cut_off = False

    def cut_off(self) -> bool:
        """Interrupt all attempts, and begin none until *is_cut_off* is false: the server no longer hears this node.

        Returns whether there were any.
        """
        self.is_cut_off = True
        self._lost.update(self._running)
        for name, running in self._running.items():
            interrupting = _interrupted(running, self._sessions.get(name))
            ending = asyncio.gather(interrupting, end_orphans(name, (), grace=GRACE), return_exceptions=True)
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        return bool(self._running)

    def running(self) -> int:
        """How many turns are under way here."""
        return len(self._running)

    async def turn(self, request: Request, place: RunFiles | None, reserved: float | None = None) -> TurnDone:
        """Run one attempt to its result; cancelling it interrupts the attempt and waits for its end.

        Args:
            reserved: As for `Budgeted`.
        """
        await self._begin()
        order = performed()
        attempt = _Attempt(self._client, self._node, request, self._files, order, reserved)
        beating = asyncio.create_task(attempt.beat(self._beat))
        sending = asyncio.create_task(attempt.keep_sending(self._export))
        left, marker = LeftFiles(), request.marker
        try:
            try:
                async with AsyncExitStack() as stack:
                    stack.enter_context(self._guard.over(marker))
                    at: TurnFiles | None = None
                    if place is not None:
                        at = await stack.enter_async_context(self._trees.of(request.run, marker, place, request))
                    is_guest = at is not None and at.is_prepared  # a gate, in the files of its attempt
                    request = self._placed(request, place, at)
                    # a gate decides on a message of its attempt, so it must not wait for the verdicts on these
                    outbox = None if request.clean else await stack.enter_async_context(self._relay.of(request))
                    if request.agent.gates and at is not None:  # its gates come to its files
                        await attempt.tell()
                    result = await self._prepare(request, attempt, at) or await self._perform(request, attempt, outbox)
                    is_cut = isinstance(result, Failure) and result.kind == "interrupted"
                    if not is_cut and self._guard.has_ended(marker):
                        reason = "its node was frozen, and its guard ended the agent"
                        result = Failure(kind="lost", reason=reason, text=attempt.said, usage=result.usage)
                    elif isinstance(result, Failure) and result.kind in ("lost", "shortage"):
                        pass  # what it left is left out, as where its node dies: the turn begins anew
                    elif at is not None and not is_guest:
                        left = await at.end(request.turn, request.attempt)
            except (CoterieError, OSError) as error:
                if lacks := shortage(error) or (write_shortage(self._home) if isinstance(error, GitFailed) else ""):
                    result = Failure(kind="shortage", reason=lacks)
                elif isinstance(error, FilesConflict | GitFailed | UsageError):
                    result = Failure(kind="failed", reason=str(error))
                else:
                    raise
            if isinstance(result, Failure) and result.kind == "shortage":
                result = await self._short(request, result)
            sending.cancel()
            await asyncio.wait([sending])
            await attempt.send_output(self._export)
            done = attempt.done(result, left)
            await self._client.data_converter.encode([done])  # its long texts are safe while the turn still beats
            return done
        finally:
            beating.cancel()
            sending.cancel()

    async def _short(self, request: Request, result: Failure) -> Failure:
        """Give the turn back after a while, for this machine lacks what *result* says, and others may have it."""
        self._tell(f"{request.marker} is given back, for this machine lacks something: {result.reason}")
        await asyncio.sleep(SHORT_PAUSE * min(request.attempt, SHORT_MOST))
        return Failure(kind="interrupted", reason=f"its node: {result.reason}", text=result.text, usage=result.usage)

    async def _begin(self) -> None:
        """Make sure that the server still wants the turn from this node, before anything of it is begun.

        A node that was frozen or cut off may get it late; another one has it then. It asks until the server answers.
        """
        details = Payloads(payloads=await self._client.data_converter.encode([TurnBeat()]))
        beat = RecordActivityTaskHeartbeatRequest(
            task_token=activity.info().task_token, namespace=self._client.namespace, details=details
        )
        try:
            await _insist(lambda: self._client.workflow_service.record_activity_task_heartbeat(beat, retry=True))
        except RPCError as error:
            raise ApplicationError(f"the turn came too late: {error}", type="lost") from None

    async def _prepare(self, request: Request, attempt: "_Attempt", at: TurnFiles | None) -> Failure | None:
        """Run the commands of `worktree.setup` in the new tree *at*; why the attempt cannot begin there."""
        if at is None or at.is_prepared:
            return None
        replace = msgspec.structs.replace
        begins = replace(request, prompt="", folder=None, root=None, token="", env={}, clean=False)
        for agent in at.setup():
            with self._guard.over(begins.marker) if request.clean else nullcontext():
                result = await self._perform(replace(begins, agent=agent), attempt, None)
            if isinstance(result, Failure) and result.kind in ("interrupted", "lost", "shortage"):
                return result
            if isinstance(result, Failure):
                return replace(result, kind="failed", reason=f"worktree.setup: {result.reason}")
        await at.prepared()
        attempt.said = ""
        return None

    async def _perform(self, request: Request, attempt: "_Attempt", outbox: Outbox | None) -> Result:
        name = request.marker
        if self.is_cut_off:
            return Failure(kind="lost", reason=_CUT_OFF)

        def began(session: Session) -> None:
            self._sessions[name] = session
            abilities = self._turns.abilities(request.agent)
            if abilities.steer or abilities.permission:
                attempt.tell()

        after, folder = stall_after(request.agent), (request.cwd or Path()) / request.agent.cwd
        watching = asyncio.create_task(attempt.watch(self._turns, folder, after)) if after is not None else None
        running = asyncio.ensure_future(ask(self._turns.start(request, attempt), began))
        self._running[name] = running
        try:
            result = await asyncio.shield(running)
            if outbox is not None and name not in self._lost:
                await outbox.deliver()
        except asyncio.CancelledError:
            result = await _interrupted(running, self._sessions.get(name))
            if outbox and isinstance(result, Answer) and outbox.waits():  # it would come before what its agent emitted
                result = Failure(kind="interrupted", reason="stopped", text=attempt.said, usage=result.usage)
            if (details := activity.cancellation_details()) is not None and details.worker_shutdown:
                raise ApplicationError("its worker was shut down", type="lost") from None
        finally:
            self._sessions.pop(name, None)
            del self._running[name]
            if watching is not None:
                watching.cancel()
        if name in self._lost and isinstance(result, Failure):
            result = Failure(kind="lost", reason=_CUT_OFF, text=attempt.said, usage=result.usage)
        self._lost.discard(name)
        return result

    async def steer(self, name: str, text: str) -> bool:
        """Give *text* to the attempt *name*, if it still runs here."""
        session = self._sessions.get(name)
        return session is not None and await session.steer(text)

    async def permit(self, name: str, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the *question* of the attempt *name*, if it still runs here."""
        session = self._sessions.get(name)
        return isinstance(session, Asking) and await session.permit(question, allowed, message)

    def _placed(self, request: Request, place: RunFiles | None, at: TurnFiles | None) -> Request:
        """*request* with the places that its attempt has on this machine."""
        if place is not None and at is not None:
            request = placed_request(request, moving(Path(place.root), at.root), at.cwd, at.repository)
        files.make_folder(self._files.run_folder(root_of(request.run)))
        kept = self._files.place(request.ref, lambda run, turn: f"stream.{turn}")
        kept = kept.of_gate() if request.clean else kept
        return msgspec.structs.replace(request, hidden=self._hidden, **msgspec.structs.asdict(kept))


class _Attempt:
    """What is kept of an attempt while it runs here, and what of it the workflow hears before its result.

    It is what the attempt calls with its events (`Budgeted`).
    """

    def __init__(
        self,
        client: Client,
        node: str,
        request: Request,
        kept: AttemptFolders,
        order: Performance,
        reserved: float | None = None,
    ) -> None:
        self.reserved, self._run = reserved, client.get_workflow_handle(root_of(request.run))
        self._node, self._request, self._files, self._order = node, request, kept, order
        self._secrets = Secrets(os.environ, request.agent.env)
        self.said, self._used = "", TurnBeat().usage
        self._count, self._sent, self._heard, self._reported_cost = 0, 0, 0, 0.0
        self._launched: list[AttemptLaunched] = []
        self._asks: set[str] = set()
        self._kept: list[TurnEvent] = []
        self._telling: list[asyncio.Task[None]] = []

    def __call__(self, event: TurnEvent) -> None:
        """Take an event of the attempt."""
        request = self._request
        self._count += 1
        event = self._secrets.hide_fields(event, *_SHOWN)
        if not request.clean:  # the record of a gate has its output
            with suppress(OSError):  # who watches sees less
                self._files.stream(self._files.attempt_folder(request.ref), event)
        match event:
            case Text(text=text, channel="answer"):
                self.said = (self.said + text)[-HOW_FAR_MOST:]
            case Text():
                pass
            case Used(usage=usage):
                self._used = usage
                if usage.cost >= max(COST_LEAST, self._reported_cost * COST_GROWTH):
                    self._reported_cost = usage.cost
                    self.tell(event)
            case Permission(id=question, decision=decision):
                (self._asks.discard if decision else self._asks.add)(question)
                self.tell(event)
            case Launched():
                launched = AttemptLaunched(turn=request.turn, attempt=request.attempt, **msgspec.structs.asdict(event))
                self._launched.append(launched)
                self._kept.append(event)
            case _:
                self._kept.append(event)

    def tell(self, *events: TurnEvent) -> "asyncio.Task[None]":
        """Let the workflow hear of *events*, and on which node the attempt runs; ends once it has."""
        _, heard = self._sealed(*events)
        earlier = self._telling[-1:]

        async def signal() -> None:
            for one in earlier:
                await asyncio.wait([one])
            with suppress(RPCError):  # the run is over
                await _insist(lambda: self._run.signal(HEARD, heard))

        self._telling.append(telling := asyncio.create_task(signal()))
        return telling

    async def affords(self) -> bool:
        """Ask the workflow, which reserved so much for the attempt that it need not be asked before that is spent."""
        if self.reserved is None or self._used.cost < self.reserved:
            return True
        self._reported_cost = self._used.cost
        seq, heard = self._sealed(Used(usage=self._used))
        for one in self._telling[-1:]:  # what it has told before comes first
            await asyncio.wait([one])
        try:
            found = await _insist(lambda: self._run.execute_update(AFFORDS, heard, result_type=RawValue))
            affords: bool = self._order.read(read(found.payload.data), bool, "affords", str(seq))
        except (RPCError, WorkflowUpdateFailedError, NotSigned):  # the run is over, or another program answers for it
            return False
        return affords

    def _sealed(self, *events: TurnEvent) -> tuple[int, Sealed]:
        """What the workflow hears next, sealed, and its number."""
        self._heard += 1
        heard = TurnHeard(attempt=self._request.marker, node=self._node, seq=self._heard, events=events)
        return self._heard, self._order.seal(heard, "heard")

    async def watch(self, turns: Turns, folder: Path, after: float) -> None:
        """Let the workflow hear which signs of life the attempt lacks."""
        await watch_signs(
            after,
            folder,
            lambda: self._count,
            lambda: turns.activity(self._launched),
            lambda: bool(self._asks),
            self.tell,
        )

    async def send_output(self, export: Export) -> None:
        """Export what the attempt has printed since the last time."""
        request = self._request
        path = self._files.attempt_folder(request.ref) / STREAM
        while not request.clean and (lines := files.read_lines(path, self._sent, OUTPUT_AT_ONCE)):
            await export.put_output(request.ref.marker, self._sent, lines)
            self._sent += len(lines)

    async def keep_sending(self, export: Export) -> None:
        """Export what the attempt prints, every second; a failed export is tried again.

        All attempts of the node do that at the same moment, so that the export can write it at once.
        """
        while True:
            await asyncio.sleep(OUTPUT_EVERY - time.monotonic() % OUTPUT_EVERY)
            with suppress(ClusterFailed):
                await self.send_output(export)

    async def beat(self, most: float) -> None:
        """Say that the attempt, which has just shown its first sign of life, is alive, and how far it has come.

        Args:
            most: The most seconds between two of these signs.
        """
        began = time.monotonic()
        while True:
            await asyncio.sleep(beats_after(time.monotonic() - began, most))
            activity.heartbeat(self._order.seal(TurnBeat(said=self.said, usage=self._used), "beat"))

    def done(self, result: Result, left: LeftFiles) -> TurnDone:
        """What became of it."""
        result = self._secrets.hide_fields(result, *_SHOWN)
        answer, failure = (result, None) if isinstance(result, Answer) else (None, result)
        events = tuple(self._kept)
        return TurnDone(answer=answer, failure=failure, events=events, head=left.head, attested=left.attested)


async def _insist(call: Callable[[], Awaitable[T]]) -> T:
    """The result of *call*, which is made again for as long as the server is away.

    Raises:
        RPCError: If the server refuses it.
    """
    while True:
        try:
            return await call()
        except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCError) as error:
            if is_cancelled():  # the client says so in its own words
                raise asyncio.CancelledError from error
            if isinstance(error, RPCError) and not passes(error):
                raise
        await asyncio.sleep(HEARTBEAT_EVERY)


def beats_after(age: float, most: float) -> float:
    """Seconds until the next sign of life of a turn: a tenth of its *age*, for a cancellation comes with a sign."""
    return min(most, max(HEARTBEAT_EVERY, age / 10))


async def _interrupted(attempt: "asyncio.Future[Result]", session: Session | None) -> Result:
    """End *attempt*, by its session if it has one by now, and return its result."""
    if session is not None:
        await session.interrupt()
        return await attempt
    attempt.cancel()
    await asyncio.wait([attempt])
    return Failure(kind="interrupted", reason="it was interrupted before it began")
