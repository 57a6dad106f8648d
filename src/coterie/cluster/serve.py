"""`coterie serve`: a node of the cluster, which drives runs and performs the turns of its queues."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from coterie import __version__
from coterie.cluster.activities import HEARTBEAT_EVERY, DriverActivities, TurnActivities
from coterie.cluster.guard import guarded
from coterie.cluster.releases import make_current, pinned
from coterie.cluster.wire import QUEUE, node_queue, turn_queue
from coterie.cluster.workflow import RunWorkflow
from coterie.journal.export import Export
from coterie.runs.backend_setup import local_turns
from coterie.runs.driver.turns import Turns

POLLS = 2
"""Requests for work that a node has open at a time: if it freezes, the server gives it as many tasks all the same."""
STICKY = timedelta(seconds=2)
"""How long the server waits for the node that has a run in memory, before another one replays it."""

LOOK_EVERY = 2.0
"""Seconds between two looks whether the server answers, and for which an answer is waited for."""


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
    release: str = __version__,
    most: int = 16,
    drain: float = 10.0,
) -> AsyncIterator[None]:
    """Serve until the block ends: drive runs, and perform the turns of *queues* with files below *home*.

    Args:
        turns: Who starts attempts; by default the backends of this process.
        drives: Whether it drives runs, too.
        release: The name of its release. See `coterie.cluster.releases`.
        most: Turns that this node performs at once.
        drain: Seconds that turns have to end when the node is left; they are interrupted then.

    Raises:
        ClusterFailed: If the export cannot be written.
    """
    await export.put_blob(b"")  # what cannot be written shows here, not in the first turn
    turns = turns or local_turns()
    name = secrets.token_hex(6)
    driving = DriverActivities(export, home)
    async with AsyncExitStack() as stack:
        guard = await stack.enter_async_context(guarded())
        performing = TurnActivities(client, export, turns, home, name, guard)
        stack.push_async_callback(turns.close)
        if drives:
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=QUEUE,
                    workflows=[RunWorkflow],
                    activities=[driving.export, driving.load, driving.read, driving.reread, driving.notify],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    sticky_queue_schedule_to_start_timeout=STICKY,
                    max_concurrent_workflow_task_polls=POLLS,
                    max_concurrent_activity_task_polls=POLLS,
                    deployment_config=pinned(release),
                    debug_mode=True,  # without it a slow machine fails the tasks of a long history
                )
            )
            await make_current(client, release)
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
