"""Stand-ins for the client of a cluster's server: workflows that answer as a test says, and nodes that serve."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from google.protobuf.json_format import ParseDict
from sealing import EXECUTION, raw
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentResponse
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.releases import QUEUE
from coterie.execution.cluster.seals import Sealed, seal, unseal
from coterie.execution.cluster.wire import Begin, read_begin
from coterie.execution.runs.messages import RunMessage


def fails(status: RPCStatusCode, said: str = "raw words") -> RPCError:
    return RPCError(said, status, b"")


GONE = fails(RPCStatusCode.NOT_FOUND, "workflow not found for ID: r")
AWAY = fails(RPCStatusCode.UNAVAILABLE, "Timeout expired")


class Answers:
    """A client and the handle of each workflow: what is done on it, and what comes of it.

    Attributes:
        done: What was asked for.
        update: What becomes of an update: a verdict, an error, or None if nobody answers.
        signal: The error of a signal.
        state: How a workflow is described.
        known: The runs that were started.
    """

    namespace = "default"

    def __init__(self, update: Any = None, signal: Exception | None = None, state: Any = None) -> None:
        self.done, self.update, self.signal_fails, self.state = list[tuple[str, Any]](), update, signal, state
        self.known: dict[str, Begin] = {}
        self.operator_service = SimpleNamespace(list_search_attributes=self._refused)

    async def _refused(self, *given: object) -> None:
        raise fails(RPCStatusCode.PERMISSION_DENIED)

    def get_workflow_handle(self, run: str, **how: object) -> Any:
        self.id = run
        return self

    def _opened(self, sealed: Sealed) -> RunMessage:
        said: RunMessage = unseal(sealed, KeyRing.of_user().trusted, RunMessage, "message", self.id)
        return said

    async def execute_update(self, name: str, sealed: Sealed, *, id: str, result_type: type) -> Any:
        said = self._opened(sealed)
        assert (name, id) == ("message", said.id)
        self.done.append(("update", said))
        if self.update is None:
            await asyncio.Event().wait()
        if isinstance(self.update, Exception):
            raise self.update
        return raw(seal(self.update, KeyRing.of_user(), "verdict", self.id, id))

    async def signal(self, name: str, sealed: Sealed, *, rpc_timeout: timedelta) -> None:
        self.done.append((name, self._opened(sealed)))
        if self.signal_fails is not None:
            raise self.signal_fails

    async def describe(self) -> Any:
        if isinstance(self.state, Exception):
            raise self.state
        task = SimpleNamespace(original_scheduled_time=Never(), scheduled_time=Never())
        described = SimpleNamespace(pending_workflow_task=task, workflow_execution_info=None)
        return SimpleNamespace(status=self.state, raw_description=described, run_id=EXECUTION)

    async def start_workflow(self, kind: str, sealed: Sealed, *, id: str, id_reuse_policy: Any, **how: object) -> None:
        begin, _ = read_begin(sealed, id, KeyRing.of_user().trusted)
        self.done.append(("again" if id_reuse_policy is WorkflowIDReusePolicy.ALLOW_DUPLICATE else "new", begin))
        if id in self.known and id_reuse_policy is not WorkflowIDReusePolicy.ALLOW_DUPLICATE:
            raise WorkflowAlreadyStartedError(id, kind)
        self.known[id] = begin

    async def fetch_history_events(self, **how: object) -> Any:
        raise GONE
        yield


class Never:
    def ToNanoseconds(self) -> int:
        return 0


class Nodes:
    """What the server knows of nodes: one of each release in *driving* drives runs, one of each queue performs turns.

    Attributes:
        current: The release that takes new runs.
    """

    def __init__(self, driving: Sequence[str] = (), queues: Sequence[str] = ()) -> None:
        self.driving, self.queues, self.current = driving, queues, driving[0] if driving else ""

    async def describe_task_queue(self, asked: Any, retry: bool) -> Any:
        if asked.task_queue.name == QUEUE:
            options = [SimpleNamespace(build_id=name) for name in self.driving]
            pollers = [SimpleNamespace(identity=f"node {n}", deployment_options=one) for n, one in enumerate(options)]
            return SimpleNamespace(pollers=pollers)
        return SimpleNamespace(pollers=[asked.task_queue.name for one in self.queues if one in asked.task_queue.name])

    async def describe_worker_deployment(self, asked: Any, retry: bool) -> DescribeWorkerDeploymentResponse:
        version = {"buildId": self.current, "deploymentName": QUEUE}
        summaries = [
            {"deploymentVersion": {"buildId": name}, "createTime": f"2026-11-2{n}T00:00:00Z"}
            for n, name in enumerate(self.driving, 1)
        ]
        info = {"versionSummaries": summaries, "routingConfig": {"currentDeploymentVersion": version}}
        return ParseDict({"workerDeploymentInfo": info}, DescribeWorkerDeploymentResponse())

    async def set_worker_deployment_current_version(self, asked: Any, retry: bool) -> None:
        self.current = asked.build_id
