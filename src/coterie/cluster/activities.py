"""What a node does for runs: their turns, by the local form of `Turns`, and what drivers need from outside."""

import asyncio
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from coterie import files
from coterie.backends.base import (
    Answer,
    Asking,
    Event,
    Failure,
    Launched,
    Permission,
    Request,
    Result,
    Session,
    Text,
    Used,
    decode_request,
    encode_request,
)
from coterie.backends.processes import end_orphans
from coterie.backends.secrets import Secrets
from coterie.cluster.address import passes
from coterie.cluster.files import FilesConflict, Head, RunFiles, TurnFiles, WorkTrees
from coterie.cluster.guard import GRACE, Guard
from coterie.cluster.relay import Relay
from coterie.cluster.turns import PERMIT, STEER, TURN
from coterie.cluster.wire import TurnBeat, TurnDone, TurnHeard, pages
from coterie.cluster.workflow import EXPORT, HEARD, LOAD, NOTIFY, READ, REREAD, SENDER
from coterie.errors import ClusterFailed, CoterieError, ExportConflict, GitFailed
from coterie.journal.export import Export
from coterie.journal.jsonl import STREAM
from coterie.journal.records import AnyRecord, AttemptLaunched, ConfigAnswer, ConfigChanged, ConfigKept, RunNotified
from coterie.journal.rules import root_of
from coterie.kernel.run_exit import RunExit
from coterie.kernel.stall import stall_after, watch_signs
from coterie.kernel.turns import Turns, ask
from coterie.kinds import LastReading, kind_of
from coterie.planning.plan import from_json
from coterie.runs import finalizers
from coterie.runs.attempt_folders import HOW_FAR_MOST, AttemptFolders
from coterie.runs.messages import RunMessage
from coterie.runs.messages.tokens import Tokens
from coterie.runs.messages.verdicts import Sender
from coterie.runs.repository import Runs
from coterie.shortages import shortage
from coterie.workspace.trees.git import in_thread
from coterie.workspace.trees.workspace import read_below

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
_PROBE = 1 << 16
"""Bytes that a disk must take, else it is full."""
_CUT_OFF = "its node was cut off from the server"
_SHOWN = ("text", "outputs", "reason", "log", "detail", "tool", "payload", "event")


class TurnActivities:
    """Performs turns on this machine.

    Args:
        turns: Starts their attempts.
        home: Where the files of attempts are kept, in a folder for each run.
        node: The name of the queue on which this node is spoken to.
        guard: Ends what attempts leave behind if this process dies.
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
        hidden: tuple[Path, ...] = (),
        tell: Callable[[str], object] = lambda notice: None,
        beat: float = BEAT,
    ) -> None:
        self._home, self._hidden, self._tell, self._beat = home, hidden, tell, beat
        self._client, self._export, self._turns, self._node, self._guard = client, export, turns, node, guard
        self._files, self._trees = AttemptFolders(Runs(home)), WorkTrees(home / "files", export)
        self._relay = Relay(client, export)
        self._sessions: dict[str, Session] = {}
        self._running: dict[str, asyncio.Future[Result]] = {}
        self._ending: set[asyncio.Future[Any]] = set()
        self._lost: set[str] = set()
        self.is_cut_off = False

    def cut_off(self) -> bool:
        """Interrupt all attempts, and begin none until *is_cut_off* is false: the server no longer hears this node.

        Returns:
            Whether there were any.
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

    @activity.defn(name=TURN)
    async def turn(self, request: Request, place: RunFiles | None) -> TurnDone:
        """Run one attempt to its result; cancelling it interrupts the attempt and waits for its end."""
        await self._begin()
        attempt = _Attempt(self._client, self._node, request, self._files)
        beating = asyncio.create_task(attempt.beat(self._beat))
        sending = asyncio.create_task(attempt.keep_sending(self._export))
        head: Head | None = None
        try:
            try:
                async with AsyncExitStack() as stack:
                    stack.enter_context(self._guard.over(request.ref.marker))
                    at: TurnFiles | None = None
                    if place is not None:
                        at = await stack.enter_async_context(self._trees.of(request.run, request.ref.marker, place))
                    request = self._placed(request, place, at)
                    await stack.enter_async_context(self._relay.of(request))
                    result = await self._perform(request, attempt)
                    is_cut = isinstance(result, Failure) and result.kind == "interrupted"
                    if not is_cut and self._guard.has_ended(request.ref.marker):
                        reason = "its node was frozen, and its guard ended the agent"
                        result = Failure(kind="lost", reason=reason, text=attempt.said, usage=result.usage)
                    elif isinstance(result, Failure) and result.kind in ("lost", "shortage"):
                        pass  # what it left is left out, as where its node dies: the turn begins anew
                    elif at is not None and place is not None:
                        result = _as_submitted(result, place, at)
                        head = await at.end(f"{request.turn}, attempt {request.attempt}")
            except (CoterieError, OSError) as error:
                if lacks := shortage(error) or (self._full() if isinstance(error, GitFailed) else ""):
                    result = Failure(kind="shortage", reason=lacks)
                elif isinstance(error, FilesConflict | GitFailed):
                    result = Failure(kind="failed", reason=str(error))
                else:
                    raise
            if isinstance(result, Failure) and result.kind == "shortage":
                result = await self._short(request, result)
            sending.cancel()
            await asyncio.wait([sending])
            await attempt.send_output(self._export)
            done = attempt.done(result, head)
            await self._client.data_converter.encode([done])  # its long texts are safe while the turn still beats
            return done
        finally:
            beating.cancel()
            sending.cancel()

    def _full(self) -> str:
        """What a write here lacks, if it fails: git does not always say that the disk is full."""
        try:
            with tempfile.TemporaryFile(dir=self._home) as file:
                file.write(bytes(_PROBE))
                file.flush()
        except OSError as error:
            return shortage(error)
        return ""

    async def _short(self, request: Request, result: Failure) -> Failure:
        """Give the turn back after a while, for this machine lacks what *result* says, and others may have it."""
        self._tell(f"{request.ref.marker} is given back, for this machine lacks something: {result.reason}")
        await asyncio.sleep(SHORT_PAUSE * min(request.attempt, SHORT_MOST))
        return Failure(kind="interrupted", reason=f"its node: {result.reason}", text=result.text, usage=result.usage)

    async def _begin(self) -> None:
        """Make sure that the server still wants the turn from this node, before anything of it is begun.

        A node that was frozen, or cut off, may get it late; another one has it then. It asks for as long as the server
        does not answer.
        """
        details = Payloads(payloads=await self._client.data_converter.encode([TurnBeat()]))
        beat = RecordActivityTaskHeartbeatRequest(
            task_token=activity.info().task_token, namespace=self._client.namespace, details=details
        )
        while True:
            try:
                await self._client.workflow_service.record_activity_task_heartbeat(beat, retry=True)
                return
            except RPCError as error:
                if not passes(error):
                    raise ApplicationError(f"the turn came too late: {error}", type="lost") from None
            await asyncio.sleep(HEARTBEAT_EVERY)

    async def _perform(self, request: Request, attempt: "_Attempt") -> Result:
        name = request.ref.marker
        if self.is_cut_off:
            return Failure(kind="lost", reason=_CUT_OFF)

        def began(session: Session) -> None:
            self._sessions[name] = session
            abilities = self._turns.abilities(request.agent)
            if abilities.steer or abilities.permission:
                attempt.tell()

        after, folder = stall_after(request.agent), (request.cwd or Path()) / request.agent.cwd
        watching = asyncio.create_task(attempt.watch(self._turns, folder, after)) if after is not None else None
        running = asyncio.ensure_future(ask(self._turns.start(request, attempt.on_event), began))
        self._running[name] = running
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            result = await _interrupted(running, self._sessions.get(name))
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

    @activity.defn(name=STEER)
    async def steer(self, name: str, text: str) -> bool:
        """Give *text* to the attempt *name*, if it still runs here."""
        session = self._sessions.get(name)
        return session is not None and await session.steer(text)

    @activity.defn(name=PERMIT)
    async def permit(self, name: str, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the *question* of the attempt *name*, if it still runs here."""
        session = self._sessions.get(name)
        return isinstance(session, Asking) and await session.permit(question, allowed, message)

    def _placed(self, request: Request, place: RunFiles | None, at: TurnFiles | None) -> Request:
        """*request* with the places that its attempt has on this machine."""
        run, turn, attempt = request.run, request.turn, request.attempt
        if place is not None and at is not None:
            moved = _moved(encode_request(request).decode(), place.root, at.root)
            request = msgspec.structs.replace(decode_request(moved.encode()), cwd=at.cwd)
        files.make_folder(self._files.run_folder(root_of(run)))
        kept = self._files.place(run, turn, attempt, request.epoch, lambda run, turn: f"stream.{turn}")
        return msgspec.structs.replace(request, hidden=self._hidden, **msgspec.structs.asdict(kept))


class _Attempt:
    """What is kept of an attempt while it runs here, and what of it the workflow hears before its result."""

    def __init__(self, client: Client, node: str, request: Request, kept: AttemptFolders) -> None:
        self._client, self._node, self._request, self._files = client, node, request, kept
        self._secrets = Secrets(os.environ, request.agent.env)
        self.said, self._used = "", TurnBeat().usage
        self._count, self._sent, self._reported_cost = 0, 0, 0.0
        self._launched: list[AttemptLaunched] = []
        self._asks: set[str] = set()
        self._kept: list[Event] = []
        self._telling: list[asyncio.Task[None]] = []

    def on_event(self, event: Event) -> None:
        """Take an event of the attempt."""
        request = self._request
        self._count += 1
        event = self._secrets.hide_fields(event, *_SHOWN)
        with suppress(OSError):  # who watches sees less
            self._files.stream(request.run, request.turn, request.attempt, event)
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

    def tell(self, *events: Event) -> None:
        """Let the workflow hear of *events*, and on which node the attempt runs."""
        heard = TurnHeard(attempt=self._request.ref.marker, node=self._node, events=events)
        earlier = self._telling[-1:]

        async def signal() -> None:
            for one in earlier:
                await asyncio.wait([one])
            while True:
                try:
                    await self._client.get_workflow_handle(root_of(self._request.run)).signal(HEARD, heard)
                    return
                except RPCError as error:
                    if not passes(error):  # the run is over
                        return
                await asyncio.sleep(HEARTBEAT_EVERY)

        self._telling.append(asyncio.create_task(signal()))

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
        path = self._files.attempt_folder(request.run, request.turn, request.attempt) / STREAM
        while lines := files.read_lines(path, self._sent, OUTPUT_AT_ONCE):
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
            activity.heartbeat(TurnBeat(said=self.said, usage=self._used))

    def done(self, result: Result, head: Head | None) -> TurnDone:
        """What became of it."""
        result = self._secrets.hide_fields(result, *_SHOWN)
        if isinstance(result, Answer):
            return TurnDone(answer=result, events=tuple(self._kept), head=head)
        return TurnDone(failure=result, events=tuple(self._kept), head=head)


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


class DriverActivities:
    """What drivers need from outside: the export, and the files of their runs."""

    def __init__(self, export: Export, home: Path) -> None:
        self._export, self._home, self._trees = export, home, WorkTrees(home / "read", export)

    @activity.defn(name=EXPORT)
    async def export(self, records: list[tuple[str, AnyRecord]]) -> None:
        """Return once *records* are durable.

        Raises:
            ApplicationError: For good, if another owner has written other records there.
        """
        try:
            await self._export.put(records)
        except ExportConflict as error:
            raise ApplicationError(str(error), type="fenced", non_retryable=True) from error

    @activity.defn(name=SENDER)
    async def sender(self, run: str, message: RunMessage) -> Sender:
        """The sender of *message* to *run*, by its signature: everyone who reaches the server can send an update."""
        tokens = Tokens(await self._export.secret(run))
        for source, signature in ("agent", tokens.node), ("operator", tokens.operator):
            if bool(message.attempt) == (source == "agent") and tokens.match(message.token, signature(message.signed)):
                return Sender("agent" if message.by else source)
        return Sender("agent", "neither a node nor an operator signed it: use `coterie control` with --cluster")

    @activity.defn(name=LOAD)
    async def load(self, run: str) -> list[str]:
        """Every record of a root run and its child runs, in pages."""
        return pages(await self._export.load(run))

    @activity.defn(name=READ)
    async def read(self, run: str, name: str, place: RunFiles) -> str | None:
        """The text of the file *name* among those of *run*, by the rules of a run on one machine."""
        async with self._tree(run, place) as at:
            return read_below(at.cwd, name, at.root)

    @activity.defn(name=REREAD)
    async def reread(self, run: str, plan: str, place: RunFiles) -> ConfigAnswer:
        """Read the folder of the loop *plan* again, as turns have left it."""
        async with self._tree(run, place) as at:
            here = from_json(_moved(plan, place.root, at.root))
            answer: ConfigAnswer = kind_of(here).reread(run, here, lambda found: found, LastReading())
            if not isinstance(answer, ConfigChanged):
                return answer
            there = _moved(answer.plan, str(at.root), Path(place.root))
            found = from_json(there).content_hash()
            if found == from_json(plan).content_hash():
                return ConfigKept()  # only its places here were others
            return msgspec.structs.replace(answer, plan=there, plan_hash=found)

    @activity.defn(name=NOTIFY)
    async def notify(self, ended: RunExit, plan: str, place: RunFiles | None) -> RunNotified:
        """Call `notify.command` of *plan* here, among the files of the run."""
        async with AsyncExitStack() as stack:
            cwd = self._home
            if place is not None:
                at = await stack.enter_async_context(self._tree(ended.run, place))
                plan, cwd = _moved(plan, place.root, at.root), at.cwd
            return await in_thread(partial(finalizers.notified, from_json(plan), ended, self._home, cwd))

    @asynccontextmanager
    async def _tree(self, run: str, place: RunFiles) -> AsyncIterator[TurnFiles]:
        async with self._trees.of(run, f"{run}/{activity.info().activity_id}", place) as at:
            yield at


def _as_submitted(result: Result, place: RunFiles, at: TurnFiles) -> Result:
    """*result* with the places of the submitted files for those that they have here."""
    text = _moved(msgspec.json.encode(result).decode(), str(at.root), Path(place.root))
    return msgspec.json.decode(text, type=type(result))


def _moved(text: str, there: str, here: Path) -> str:
    """*text*, JSON, with paths below *here* in place of those below *there*."""
    return re.sub(re.escape(there) + r"""(?=[/"'\\:;,\s]|$)""", lambda _: str(here), text)
