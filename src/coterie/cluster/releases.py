"""The release of a node: a run stays with the one that drives it until the next link of its chain.

A release that decides otherwise cannot go on with a history of another one, so nodes say which they are, the server
gives each run to nodes of its release, and new runs and new links to the newest that has ever served.
"""

import re
from itertools import zip_longest

from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import WorkerDeploymentConfig

from coterie.cluster.wire import QUEUE

_PARTS = re.compile(r"\d+|[^\d.+-]+")


def pinned(release: str) -> WorkerDeploymentConfig:
    """How the worker of a node of *release* takes runs: those of that release, to their end or their next link."""
    version = WorkerDeploymentVersion(deployment_name=QUEUE, build_id=release)
    return WorkerDeploymentConfig(version, True, VersioningBehavior.PINNED)


async def make_current(client: Client, release: str) -> None:
    """Have new runs and new links given to nodes of *release*, unless a newer one serves already."""
    service, space = client.workflow_service, client.namespace
    try:
        asked = DescribeWorkerDeploymentRequest(namespace=space, deployment_name=QUEUE)
        found = (await service.describe_worker_deployment(asked)).worker_deployment_info.routing_config
        known = found.current_deployment_version.build_id
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        known = ""
    if not known or is_newer(release, known):
        wanted = SetWorkerDeploymentCurrentVersionRequest(
            namespace=space,
            deployment_name=QUEUE,
            build_id=release,
            allow_no_pollers=True,
            ignore_missing_task_queues=True,  # this node has just begun to ask for work
        )
        await service.set_worker_deployment_current_version(wanted)


def is_newer(release: str, than: str) -> bool:
    """Whether *release* comes after *than*: numbers are compared as numbers, and a word comes before none (1.0rc1)."""
    for one, other in zip_longest(_PARTS.findall(release), _PARTS.findall(than), fillvalue=""):
        if one != other:
            return _rank(one) > _rank(other)
    return False


def _rank(part: str) -> tuple[int, int, str]:
    if not part:
        return 1, 0, ""
    return (2, int(part), "") if part.isdecimal() else (0, 0, part)
