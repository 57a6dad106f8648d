"""`coterie serve`: a node of the cluster, which drives runs and performs the turns of its queues."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from coterie.base import files
from coterie.errors import ClusterFailed, RunIsOwned, UsageError
from coterie.execution.cluster.activities import BEAT, HEARTBEAT_EVERY, TurnActivities
from coterie.execution.cluster.cleanup import keep_clean
from coterie.execution.cluster.driver_activities import DriverActivities
from coterie.execution.cluster.guard import SILENCE, guarded
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.labels import register
from coterie.execution.cluster.orders import Desk, Signing
from coterie.execution.cluster.releases import build_id, claim_current, pinned
from coterie.execution.cluster.wire import QUEUE, node_queue, turn_queue
from coterie.execution.cluster.workflow import RunWorkflow
from coterie.execution.kernel.turns import Turns
from coterie.execution.runs.backend_setup import local_turns
from coterie.history.journal.export import Export
from coterie.history.journal.lock import RunLock

POLLS = 2
"""Requests for work that a node has open at a time: if it freezes, the server gives it as many tasks all the same."""
STICKY = timedelta(seconds=2)
"""How long the server waits for the node that has a run in memory, before another one replays it."""
KEEP = 7 * 86_400.0
"""Seconds for which a node keeps files of ended runs."""

LOOK_EVERY = 1.0
"""Seconds between two looks whether the server answers, and for which an answer is waited for."""
SAID_AFTER = 2
"""Looks without an answer, one after the other, after which the server counts as away."""
CUT_OFF = 7.0
"""Seconds without an answer after which the turns of this node are lost: their agents are gone when the server gives
them to others, nine seconds or more after this node was cut off."""


def claim_home(given: Path | None) -> tuple[Path, RunLock]:
    """The folder for the files of this node: *given*, or the first free one of `.coterie/node`, `.coterie/node-2` …

    Two nodes in one folder would take each other's turns for those of a run with another owner.

    Returns:
        The folder, and the lock that keeps it for as long as this process lives.

    Raises:
        UsageError: If another node has the one that is given.
        ClusterFailed: If it cannot be made.
    """
    for number in count(1):
        home = (
            given or Path(".coterie", "node" if number == 1 else f"node-{number}")
        ).absolute()  # git works elsewhere
        try:
            files.make_folder(home)
            return home, RunLock("of this node", home / "lock")
        except RunIsOwned:
            if given is not None:
                raise UsageError(f"another node keeps its files in {given}: name another folder, --home DIR") from None
        except OSError as error:
            raise ClusterFailed(str(home), error.strerror or str(error)) from error
    raise AssertionError("numbers never end")


def _shortened(message: str) -> str:
    """*message* with the run and the activity for all that the library says of them."""
    head, _, fields = message.partition(" ({")
    names = [found[1] for key in ("workflow_id", "activity_id") if (found := re.search(rf"'{key}': '([^']*)'", fields))]
    return f"{head} ({' '.join(names)})" if names else message


class Failures(logging.Handler):
    """Notices, each of one line, about what the library logs as failed here and the server gives to nodes again.

    A run whose workflow task fails does not go on.

    Args:
        tell: Called with each.
    """

    _LOGGERS = ("temporalio.worker", "temporalio.activity", "temporalio.workflow")

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Report the failure that *record* describes; a replay that differs is only logged as an eviction."""
        error = record.exc_info[1] if record.exc_info else None
        message = _shortened(record.getMessage())
        said = f"{message}: {error!r}" if error is not None else message
        what = "an activity" if record.name.startswith("temporalio.activity") else "a workflow task"
        if record.name == "temporalio.workflow":
            self._tell(message)
        elif (error is not None and not isinstance(error, asyncio.CancelledError)) or "ondeterminism" in said:
            self._tell(f"{what} failed and is tried again: {' '.join(said.split())}")

    @contextmanager
    def listens(self) -> Iterator[None]:
        """Take what the library logs, in place of its tracebacks, until the block ends."""
        loggers = [logging.getLogger(name) for name in self._LOGGERS]
        before = [logger.propagate for logger in loggers]
        for logger in loggers:
            logger.addHandler(self)
            logger.propagate = False
        logging.getLogger("temporalio.worker._workflow").setLevel(logging.DEBUG)  # evictions
        try:
            yield
        finally:
            logging.getLogger("temporalio.worker._workflow").setLevel(logging.NOTSET)
            for logger, propagates in zip(loggers, before, strict=True):
                logger.propagate = propagates
                logger.removeHandler(self)


async def keep_contact(client: Client, turns: TurnActivities, tell: Callable[[str], object], within: float) -> None:
    """Look whether the server answers, until this is cancelled; *tell* when it stops and when it answers again.

    After *within* seconds without an answer *turns* are lost: the server gives them to other nodes if it is only this
    one that is cut off.
    """
    heard, failed = time.monotonic(), 0
    while True:
        began = time.monotonic()
        try:
            patience = timedelta(seconds=LOOK_EVERY)
            await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=patience)
        except RPCError:
            failed += 1
            if failed == SAID_AFTER:
                tell("the server does not answer; this node waits for it")
            if failed >= SAID_AFTER and time.monotonic() - heard >= within and not turns.is_cut_off and turns.cut_off():
                tell("its turns are interrupted: other nodes may have them by now")
        else:
            if failed >= SAID_AFTER:
                tell("the server answers again")
            heard, failed, turns.is_cut_off = began, 0, False
        await asyncio.sleep(max(0.0, began + LOOK_EVERY - time.monotonic()))


class ServingState:
    """What a node tells about itself.

    Attributes:
        why_not: Why it takes no work; empty: it does.
        turns: Counts the turns under way.
    """

    def __init__(self) -> None:
        self.why_not = "starting"
        self.turns: Callable[[], int] = lambda: 0


@asynccontextmanager
async def node(
    client: Client,
    export: Export,
    queues: Sequence[str],
    home: Path,
    *,
    turns: Turns | None = None,
    ring: KeyRing | None = None,
    drives: bool = True,
    release: str = "",
    most: int = 16,
    drain: float = 10.0,
    hidden: Sequence[Path] = (),
    keep: float = KEEP,
    beat: float = BEAT,
    tell: Callable[[str], object] = lambda notice: None,
) -> AsyncIterator[Callable[[], int]]:
    """Serve until the block ends: drive runs, and perform the turns of *queues* with files below *home*.

    Gives a function that counts the turns under way.

    Args:
        turns: Who starts attempts; by default the backends of this process.
        ring: The keys of this machine; by default those of the user.
        drives: Whether it drives runs, too.
        release: The name of its release, by default that of its code. See `coterie.execution.cluster.releases`.
        most: Turns that this node performs at once.
        hidden: Files and folders that the sandbox hides from the agents here.
        drain: Seconds that turns have to end when the node is left; they are interrupted then.
        keep: Seconds for which files of ended runs are kept below *home*.
        beat: The most seconds between two signs of life of a turn, each of which the server writes down. Its agents are
            ended sooner by what this exceeds `BEAT`, once this node is frozen or cut off.
        tell: Called with notices for the people who operate the node.

    Raises:
        ClusterFailed: If the export cannot be written.
    """
    await export.put_blob(b"")  # what cannot be written shows here, not in the first turn
    turns = turns or local_turns()
    later = max(0.0, beat - BEAT)
    name, release = secrets.token_hex(6), release or build_id()
    driving, ring = DriverActivities(export, home), ring or KeyRing.of_user()
    desk = Desk(ring, export, tell)
    async with AsyncExitStack() as stack:
        stack.enter_context(Failures(tell).listens())
        guard = await stack.enter_async_context(guarded(tell, SILENCE - later))
        performing = TurnActivities(client, export, turns, home, name, guard, ring, tuple(hidden), tell, beat)
        stack.push_async_callback(turns.close)
        for beside in keep_clean(client, home, keep), keep_contact(client, performing, tell, CUT_OFF - later):
            stack.callback(asyncio.create_task(beside).cancel)
        if drives:
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=QUEUE,
                    workflows=[RunWorkflow],
                    activities=[
                        desk.performing(driving.export),
                        desk.performing(driving.load),
                        desk.performing(driving.read),
                        desk.performing(driving.reread),
                        desk.performing(driving.notify, once=True),
                    ],
                    interceptors=[Signing(ring)],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    sticky_queue_schedule_to_start_timeout=STICKY,
                    max_concurrent_workflow_task_polls=POLLS,
                    max_concurrent_activity_task_polls=POLLS,
                    deployment_config=pinned(release),
                    debug_mode=True,  # without it a slow machine fails the tasks of a long history
                )
            )
            await register(client)
        await stack.enter_async_context(
            Worker(
                client,
                task_queue=node_queue(name),
                activities=[
                    desk.performing(one, once=True) for one in (performing.steer, performing.permit, performing.turn)
                ],
                graceful_shutdown_timeout=timedelta(seconds=drain),
                max_heartbeat_throttle_interval=timedelta(seconds=min(beat, HEARTBEAT_EVERY)),
            )
        )
        for queue in queues:
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=turn_queue(queue),
                    activities=[desk.performing(performing.turn, once=True)],
                    max_concurrent_activities=most,
                    max_concurrent_activity_task_polls=POLLS,
                    graceful_shutdown_timeout=timedelta(seconds=drain),
                    max_heartbeat_throttle_interval=timedelta(seconds=min(beat, HEARTBEAT_EVERY)),
                )
            )
        if drives and (current := await claim_current(client, release, tell)) != release:
            change = f"`coterie cluster releases set {release}` gives them to this one"
            tell(f"this node is of the release {release}, and new runs go to {current}: {change}")
        yield performing.running
