"""`coterie serve`: a node of the cluster, which drives runs and performs the turns of its queues."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from coterie.cluster.activities import HEARTBEAT_EVERY, DriverActivities, TurnActivities
from coterie.cluster.cleanup import keep_clean
from coterie.cluster.guard import guarded
from coterie.cluster.labels import register
from coterie.cluster.releases import build_id, claim_current, pinned
from coterie.cluster.wire import QUEUE, node_queue, turn_queue
from coterie.cluster.workflow import RunWorkflow
from coterie.journal.export import Export
from coterie.kernel.turns import Turns
from coterie.runs.backend_setup import local_turns

POLLS = 2
"""Requests for work that a node has open at a time: if it freezes, the server gives it as many tasks all the same."""
STICKY = timedelta(seconds=2)
"""How long the server waits for the node that has a run in memory, before another one replays it."""
KEEP = 7 * 86_400.0
"""Seconds for which a node keeps files of ended runs."""

LOOK_EVERY = 2.0
"""Seconds between two looks whether the server answers, and for which an answer is waited for."""


class TaskFailures(logging.Handler):
    """Notices about workflow tasks that fail here: the server gives them to nodes again, and the run does not go on.

    Args:
        tell: Called with each.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Report the failure that *record* describes; a replay that differs is only logged as an eviction."""
        error = record.exc_info[1] if record.exc_info else None
        said = f"{record.getMessage()}: {error!r}" if error is not None else record.getMessage()
        if error is not None or "ondeterminism" in said:
            self._tell(f"a workflow task failed and is tried again: {' '.join(said.split())}")

    @contextmanager
    def listens(self) -> Iterator[None]:
        """Take what the library logs, in place of its tracebacks, until the block ends."""
        logger = logging.getLogger("temporalio.worker")
        before = logger.propagate
        logger.addHandler(self)
        logger.propagate = False
        logging.getLogger("temporalio.worker._workflow").setLevel(logging.DEBUG)  # evictions
        try:
            yield
        finally:
            logging.getLogger("temporalio.worker._workflow").setLevel(logging.NOTSET)
            logger.propagate = before
            logger.removeHandler(self)


async def watch_server(client: Client, tell: Callable[[str], object]) -> None:
    """Call *tell* when the server stops answering, and when it answers again, until this is cancelled."""
    answers = True
    while True:
        await asyncio.sleep(LOOK_EVERY)
        was = answers
        try:
            within = timedelta(seconds=LOOK_EVERY)
            await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=within)
            answers = True
        except RPCError:
            answers = False
        if answers != was:
            tell("the server answers again" if answers else "the server does not answer; this node waits for it")


@asynccontextmanager
async def node(
    client: Client,
    export: Export,
    queues: Sequence[str],
    home: Path,
    *,
    turns: Turns | None = None,
    drives: bool = True,
    release: str = "",
    most: int = 16,
    drain: float = 10.0,
    hidden: Sequence[Path] = (),
    keep: float = KEEP,
    tell: Callable[[str], object] = lambda notice: None,
) -> AsyncIterator[None]:
    """Serve until the block ends: drive runs, and perform the turns of *queues* with files below *home*.

    Args:
        turns: Who starts attempts; by default the backends of this process.
        drives: Whether it drives runs, too.
        release: The name of its release, by default that of its code. See `coterie.cluster.releases`.
        most: Turns that this node performs at once.
        hidden: Files and folders that the sandbox hides from the agents here.
        drain: Seconds that turns have to end when the node is left; they are interrupted then.
        keep: Seconds for which files of ended runs are kept below *home*.
        tell: Called with notices for the people who operate the node.

    Raises:
        ClusterFailed: If the export cannot be written.
    """
    await export.put_blob(b"")  # what cannot be written shows here, not in the first turn
    turns = turns or local_turns()
    name, release = secrets.token_hex(6), release or build_id()
    driving = DriverActivities(export, home)
    async with AsyncExitStack() as stack:
        stack.enter_context(TaskFailures(tell).listens())
        guard = await stack.enter_async_context(guarded(tell))
        performing = TurnActivities(client, export, turns, home, name, guard, tuple(hidden))
        stack.push_async_callback(turns.close)
        stack.callback(asyncio.create_task(keep_clean(client, home, keep)).cancel)
        if drives:
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=QUEUE,
                    workflows=[RunWorkflow],
                    activities=[
                        driving.export,
                        driving.sender,
                        driving.load,
                        driving.read,
                        driving.reread,
                        driving.notify,
                    ],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    sticky_queue_schedule_to_start_timeout=STICKY,
                    max_concurrent_workflow_task_polls=POLLS,
                    max_concurrent_activity_task_polls=POLLS,
                    deployment_config=pinned(release),
                    debug_mode=True,  # without it a slow machine fails the tasks of a long history
                )
            )
            await register(client)
            if (current := await claim_current(client, release)) != release:
                change = f"`coterie cluster releases set {release}` gives them to this one"
                tell(f"this node is of the release {release}, and new runs go to {current}: {change}")
        await stack.enter_async_context(
            Worker(client, task_queue=node_queue(name), activities=[performing.steer, performing.permit])
        )
        for queue in queues:
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=turn_queue(queue),
                    activities=[performing.turn],
                    max_concurrent_activities=most,
                    max_concurrent_activity_task_polls=POLLS,
                    graceful_shutdown_timeout=timedelta(seconds=drain),
                    max_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_EVERY),  # a cancellation comes with one
                )
            )
        yield
