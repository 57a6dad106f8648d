"""The releases of nodes: a run stays with the one that drives it until the next link of its chain.

A release that decides otherwise cannot go on with a history of another one, so the name of a release is its version
and a digest of its files, the server gives each run to nodes of its release, and new runs and new links to the current
one. The first release that serves is current; from then on only `coterie cluster releases set` changes that.
"""

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentResponse,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import WorkerDeploymentConfig

from coterie.base import version
from coterie.errors import UsageError
from coterie.execution.cluster.address import passes
from coterie.execution.cluster.wire import QUEUE

ASK_EVERY = 1.0
"""Seconds between two questions to a server that does not say which release is current."""


class Release(Struct, frozen=True):
    """A release that has served.

    Attributes:
        current: Whether new runs, and new links of long ones, go to it.
        nodes: Nodes of it that have asked for work in the last minutes.
        runs: Runs under way that wait for it to decide.
        since: When it first served, in Unix seconds.
    """

    name: str
    current: bool
    nodes: int
    runs: int
    since: float


@cache
def build_id() -> str:
    """The name of this release: the version of coterie, and a digest of its files, the presets among them."""
    folder, digest = Path(version.__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix != ".pyc" and path.is_file():
            digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"{version.__version__}-{digest.hexdigest()[:12]}"


def pinned(release: str) -> WorkerDeploymentConfig:
    """How the worker of a node of *release* takes runs: those of that release, to their end or their next link."""
    version = WorkerDeploymentVersion(deployment_name=QUEUE, build_id=release)
    return WorkerDeploymentConfig(version, True, VersioningBehavior.PINNED)


async def current(client: Client) -> str:
    """The current release; empty: no node has served yet."""
    return _current(await _described(client))


async def claim_current(client: Client, release: str, tell: Callable[[str], object] = lambda notice: None) -> str:
    """Make *release* current if no other one is, and return the one that is.

    A server that cannot say so now, as when many nodes start at once, gets the question again.

    Args:
        tell: Called with a notice when that happens first.

    Raises:
        RPCError: If the server refuses it for good.
    """
    is_told = False
    while True:
        try:
            found = await _described(client)
            if not (known := _current(found)):
                await _set(
                    client, release, found.conflict_token
                )  # of nodes that claim it at once, the first one has it
            return known or release
        except RPCError as error:
            if not passes(error) and error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            if not is_told:
                tell(f"the server does not say which release is current; this node asks again: {error}")
            is_told = True
        await asyncio.sleep(ASK_EVERY)


async def set_current(client: Client, release: str) -> None:
    """Have new runs and new links given to nodes of *release*.

    Raises:
        UsageError: If no node of it has ever served.
    """
    known = [one.name for one in await releases(client)]
    if release not in known:
        raise UsageError(f"no node of the release {release!r} has served; known: {', '.join(known) or 'none'}")
    await _set(client, release)


async def releases(client: Client) -> list[Release]:
    """The releases that have served, the newest first."""
    described = await _described(client)
    now, nodes = _current(described), await serving(client)
    found = []
    for one in described.worker_deployment_info.version_summaries:
        name = one.deployment_version.build_id
        query = f"TemporalWorkerDeploymentVersion = '{QUEUE}:{name}' AND ExecutionStatus = 'Running'"
        under_way = (await client.count_workflows(query)).count
        found.append(Release(name, name == now, nodes.count(name), under_way, one.create_time.ToNanoseconds() / 1e9))
    return sorted(found, key=lambda one: -one.since)


async def serving(client: Client) -> list[str]:
    """The release of each node that drives runs and has asked for work in the last minutes."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    asked = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=QUEUE), task_queue_type=kind)
    pollers = (await client.workflow_service.describe_task_queue(asked, retry=True)).pollers
    return list({one.identity: one.deployment_options.build_id for one in pollers}.values())


async def _described(client: Client) -> DescribeWorkerDeploymentResponse:
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=QUEUE)
    try:
        return await client.workflow_service.describe_worker_deployment(asked, retry=True)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return DescribeWorkerDeploymentResponse()


def _current(found: DescribeWorkerDeploymentResponse) -> str:
    return found.worker_deployment_info.routing_config.current_deployment_version.build_id


async def _set(client: Client, release: str, token: bytes = b"") -> None:
    wanted = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=QUEUE,
        build_id=release,
        conflict_token=token,
        allow_no_pollers=True,
        ignore_missing_task_queues=True,  # a node may have just begun to ask for work
    )
    await client.workflow_service.set_worker_deployment_current_version(wanted, retry=True)
