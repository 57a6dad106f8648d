"""Submit runs to a cluster: what cannot run there is refused here, before anything is started."""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from coterie.agents.backends.base import Request
from coterie.agents.backends.processes import marks_of
from coterie.agents.workspace.trees.confinement import files_below, strictest_sandbox
from coterie.base.ids import new_run_id
from coterie.base.waits import waiting
from coterie.errors import ClusterFailed, NotSigned, UsageError
from coterie.execution.cluster import seals
from coterie.execution.cluster.address import passes
from coterie.execution.cluster.files import RunFiles, bring_back, files_after, merged, pack, works_on_files
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.labels import attributes, summary
from coterie.execution.cluster.notes import bring_back_notes, plan_of, submitted
from coterie.execution.cluster.orders import NodeOrder
from coterie.execution.cluster.releases import current, serving
from coterie.execution.cluster.turns import TURN
from coterie.execution.cluster.wire import (
    DEFAULT_QUEUE,
    QUEUE,
    WORKFLOW,
    BackendFacts,
    Begin,
    RunDone,
    TurnDone,
    read_begin,
    turn_queue,
)
from coterie.execution.kernel import plan_secrets
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kinds import check_start, kind_of
from coterie.execution.runs import run_ids
from coterie.execution.runs.backend_setup import local_turns
from coterie.execution.runs.notifications import own_settings, tree_place
from coterie.history.journal.export import Export
from coterie.history.journal.records import RunReopened, RunStarted, TreeSaved
from coterie.history.journal.runs import RunRecord
from coterie.team.planning.loops.folder import planned_for_copies
from coterie.team.planning.plan import Limits, Plan, TreePlan, from_json, to_json
from coterie.team.planning.program import ProgramPlan
from coterie.team.planning.system import SystemPlan

FILES: Any = RunFiles | None
TASK_TIMEOUT = timedelta(seconds=5)
"""After so long without an answer another node takes a run over."""
RUN_ID = re.compile(r"(?!.*\.lock$)[a-z0-9_](\.?[a-z0-9_@+=-]){0,99}", re.IGNORECASE | re.ASCII)
"""An id that can be given to a run: it also names folders and a git branch."""
LOOKS, LOOK_EVERY = 25, 0.2
"""How often, and at which interval in seconds, a node is looked for: the server notices one after a moment."""
AWAY_EVERY = 1.0
"""Seconds between two attempts to reach a server that is away, beside those of its client."""


async def submit(
    client: Client,
    export: Export,
    plan: Plan,
    given: dict[str, Any],
    *,
    run: str = "",
    limits: Limits | None = None,
    link_events: int = 0,
    folder: Path | None = None,
    include: Sequence[Path] = (),
    ring: KeyRing | None = None,
) -> tuple[str, bool, list[str]]:
    """Have the cluster run *plan*, asked *given*.

    Args:
        run: Its id; the same again is no second run. Empty: a new one.
        folder: Its files, if its agents may need some: those around this folder travel with it.
        include: Files and folders that travel although they look like secrets.
        ring: The keys of this machine; by default those of the user.
        link_events: For tests: events of the history after which the next link of the chain follows.

    Returns:
        The run's id, whether it was begun now, and the files that were left out since they look like secrets.

    Raises:
        UsageError: If the plan cannot run on a cluster, an input is missing, or *run* is no id or another run's.
    """
    if run and not RUN_ID.fullmatch(run):
        rule = "at most 100 letters, digits and . _ - + = @, with a letter, digit or _ first and no two dots in a row"
        raise UsageError(f"{run!r} cannot be the id of a run, which also names folders and a git branch: use {rule}")
    check_start(plan, given)
    check(plan)
    packed = None
    if folder is not None and works_on_files(plan):
        tree = tree_place(plan, own_settings(plan, folder, os.environ))
        wanted = TreePlan(copy=tree.copy, setup=tree.setup)
        packed = await pack(folder, export, include, wanted, strictest_sandbox(plan))
        plan = planned_for_copies(plan, packed[0].root)
    begin = Begin(
        run=run,
        plan=to_json(plan).decode(),
        given=given,
        limits=limits or Limits(),
        backends=backends_of(plan),
        link_events=link_events,
        files=packed[0] if packed else None,
        begun_by=marks_of() or (),
        notes=submitted(plan),
        summary=summary(plan, given),
    )
    ring = ring or KeyRing.of_user()
    for name in [run] if run else _ids(plan):
        if await export.load(name):
            began = False
        else:
            began = await _start(client, ring, msgspec.structs.replace(begin, run=name), plan, folder, again=False)
        if not began and run:
            await _check_same(client, export, begin, ring)
        if began or run:
            return name, began, packed[1] if packed else []
    raise AssertionError("ids never end")


async def _check_same(client: Client, export: Export, begin: Begin, ring: KeyRing) -> None:
    """Check that the run with the id of *begin* has the same plan, the same input and the same export.

    Raises:
        UsageError: If it was not.
    """
    handle = client.get_workflow_handle(begin.run)
    running = True
    if (first := await _first(export, begin.run)) is None:  # it began a moment ago, or has another export
        running = (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        first = await _first(export, begin.run)
    if first is not None:
        plan_hash, given = first.plan_hash, first.input
    elif not running or (known := await _begun(client, handle, ring)) is None:
        raise UsageError(
            f"there is a run {begin.run!r} whose journal is in another export, or that no key trusted here began: "
            "choose another --id, or use the address of a cluster (--cluster) that it was submitted with"
        )
    else:
        plan_hash, given = from_json(known.plan).content_hash(), known.given
    if plan_hash != from_json(begin.plan).content_hash():
        raise UsageError(f"there is a run {begin.run!r} of another plan: choose another --id")
    if given != begin.given:
        raise UsageError(f"there is a run {begin.run!r} with another input: choose another --id")


async def _first(export: Export, run: str) -> RunStarted | None:
    return next((one for name, one in await export.load(run) if name == run and isinstance(one, RunStarted)), None)


async def _begun(client: Client, handle: WorkflowHandle[Any, Any], ring: KeyRing) -> Begin | None:
    """How the run began, by its history, which needs no node; None if its texts are in another export.

    None, too, if no key that is trusted here began it.
    """
    event = await anext(handle.fetch_history_events(page_size=1))
    read = client.data_converter.decode
    try:
        sealed = await read(event.workflow_execution_started_event_attributes.input.payloads, [RawValue])
        begin, _ = read_begin(seals.read(sealed[0].payload.data), handle.id, ring.trusted)
    except (ClusterFailed, NotSigned):
        return None
    return begin if begin.plan else None


async def unserved(client: Client, plan: Plan) -> list[str]:
    """What a run of *plan* needs and no node has offered in the last minutes: driving, or the turns of a queue."""
    agents = [agent for part in _parts(plan) for agent in part.agents.values()]
    named = sorted({agent.queue or DEFAULT_QUEUE for agent in agents if agent.kind not in ("human", "topology")})
    needed = {f"serves the queue {queue!r}": turn_queue(queue) for queue in named}
    drives = False
    with waiting("a node of the cluster"):
        for _ in range(LOOKS):
            release, nodes = await current(client), await serving(client)
            drives = drives or release in nodes
            for what, name in list(needed.items()):
                asked = DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=name),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
                )
                if (await client.workflow_service.describe_task_queue(asked, retry=True)).pollers:
                    del needed[what]
            if drives and not needed:
                break
            await asyncio.sleep(LOOK_EVERY)
    others = f" of the current release {release} (see `coterie cluster releases`)" if nodes else ""
    return [*([] if drives else [f"drives runs{others}"]), *needed]


async def restart(
    client: Client,
    export: Export,
    run: str,
    *,
    limits: Limits | None = None,
    reload: Plan | None = None,
    reopened: RunReopened | None = None,
    files: RunFiles | None = None,
    ring: KeyRing | None = None,
) -> None:
    """Resume *run* on the cluster, from the end of its journal in the export.

    Args:
        reopened: The record that reopens the run, if it has failed.
        files: The files of the run; by default as its last workflow left them.
        ring: The keys of this machine; by default those of the user.

    Raises:
        UsageError: If a workflow drives it already, or its plan cannot run on a cluster.
    """
    known = await export.load(run)
    ring = ring or KeyRing.of_user()
    files = files or await files_of(client, run, known, ring)
    if reload is not None and files is not None:
        reload = planned_for_copies(reload, files.root)
    plan = reload or plan_of(known, run)
    check(plan)
    first = next((one for name, one in known if name == run), None)
    begin = Begin(
        run=run,
        plan="" if reload is None else to_json(reload).decode(),
        limits=limits or Limits(),
        folds=True,
        reloaded=reload is not None,
        reopened=reopened,
        backends=backends_of(plan),
        files=files,
        notes=submitted(plan),
        summary=summary(plan, first.input if isinstance(first, RunStarted) else {}),
    )
    folder = Path(begin.files.root) if begin.files is not None else None
    if not await _start(client, ring, begin, plan, folder, again=True):
        raise UsageError(f"run {run!r} is running on the cluster")


async def ended(client: Client, run: str) -> RunExit:
    """Wait until *run* has ended or stopped.

    Raises:
        ClusterFailed: If its workflow failed, or was terminated.
    """
    return (await done(client, run)).ended


async def done(client: Client, run: str, ring: KeyRing | None = None) -> RunDone:
    """As `ended`, with the files that the run has left."""
    handle: WorkflowHandle[Any, RawValue] = client.get_workflow_handle(run, result_type=RawValue)
    ring = ring or KeyRing.of_user()
    while True:
        try:
            sealed = seals.read((await handle.result()).payload.data)
            found: RunDone = seals.unseal(sealed, ring.trusted, RunDone, "end", run, (await handle.describe()).run_id)
            return found
        except NotSigned as error:
            hint = f"its journal says more: `coterie inspect {run}`"
            raise ClusterFailed(f"the workflow of run {run}", str(error), hint) from error
        except WorkflowFailureError as error:
            hint = f"`coterie resume {run}` continues it from its export"
            raise ClusterFailed(f"the workflow of run {run}", str(error.cause), hint) from error
        except RPCError as error:
            if not passes(error):
                raise
            with waiting("the server of the cluster to answer"):
                await asyncio.sleep(AWAY_EVERY)


async def bring_home(run: str, files: RunFiles | None, export: Export) -> tuple[str, ...]:
    """Bring what *run* has left to this machine: its *files*, and what it added to its project's memory and tasks.

    Returns:
        Notices for people: where its work is, and what is in no branch.
    """
    records = await export.load(run)
    await asyncio.to_thread(bring_back_notes, run, records)
    if files is None:
        return ()
    return tuple(await bring_back(run, files, export, files_below(plan_of(records, run), files.root)))


async def files_of(
    client: Client, run: str, records: Sequence[RunRecord], ring: KeyRing | None = None
) -> RunFiles | None:
    """The files of *run*, as its turns have left them by its last workflow's history; None if it has none.

    It needs no node, which may all be of another release by now. Results without a trusted signature are left out.

    Args:
        records: The journal of *run*.

    Raises:
        ClusterFailed: As for `files_of_begin`.
    """
    place: RunFiles | None = None
    begun: dict[int, tuple[str, RunFiles | None]] = {}
    ring, execution = ring or KeyRing.of_user(), ""

    async def data(payloads: Any) -> bytes:
        found: RawValue = (await client.data_converter.decode(payloads.payloads, [RawValue]))[0]
        return found.payload.data

    try:
        async for event in client.get_workflow_handle(run).fetch_history_events():
            if event.HasField("workflow_execution_started_event_attributes"):
                started = event.workflow_execution_started_event_attributes
                execution = started.original_execution_run_id
                place = files_of_begin(await data(started.input), run, ring, records)
            elif event.HasField("activity_task_scheduled_event_attributes"):
                scheduled = event.activity_task_scheduled_event_attributes
                if scheduled.activity_type.name == TURN and place is not None:
                    about = "order", TURN, execution, scheduled.activity_id
                    with suppress(NotSigned):
                        order = seals.unseal(seals.read(await data(scheduled.input)), ring.trusted, NodeOrder, *about)
                        words = seals.read(to_json(order.args), tuple[Request, FILES, float | None])
                        begun[event.event_id] = scheduled.activity_id, words[1]
            elif event.HasField("activity_task_completed_event_attributes"):
                completed = event.activity_task_completed_event_attributes
                name, before = begun.get(completed.scheduled_event_id, ("", None))
                if before is not None and place is not None:
                    with suppress(NotSigned):
                        sealed = seals.read(await data(completed.result))
                        done = seals.unseal(sealed, ring.trusted, TurnDone, "result", execution, name)
                        place = merged(place, before, done.head) if done.head is not None else place
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return place


def files_of_begin(data: bytes, run: str, ring: KeyRing, records: Iterable[RunRecord]) -> RunFiles | None:
    """The files with which a workflow of *run* began that had *data*.

    A release before the cluster's keys signed nothing: where the journal, *records*, knows the files, it says the rest.

    Raises:
        ClusterFailed: If no key that is trusted here signed it, and the journal does not know the files.
    """
    try:
        return read_begin(seals.read(data), run, ring.trusted)[0].files
    except NotSigned as error:
        why, said = error, [one for _, one in records]
    with suppress(NotSigned):
        place = seals.read(data, Begin).files
        first = place.heads[0].bundles[:1] if place is not None else ()
        if place is None or any(isinstance(one, TreeSaved) and one.bundles[:1] == first for one in said):
            return place and files_after(place, said)
    raise ClusterFailed(f"the files of run {run}", str(why), "submit it again with another --id") from why


async def _start(client: Client, ring: KeyRing, begin: Begin, plan: Plan, folder: Path | None, *, again: bool) -> bool:
    begin = msgspec.structs.replace(begin, charter=seals.new_charter(begin.run, ring))
    policy = WorkflowIDReusePolicy.ALLOW_DUPLICATE if again else WorkflowIDReusePolicy.REJECT_DUPLICATE
    try:
        await client.start_workflow(
            WORKFLOW,
            seals.seal(begin, ring, "begin", begin.run),
            id=begin.run,
            task_queue=QUEUE,
            id_reuse_policy=policy,
            task_timeout=TASK_TIMEOUT,
            static_summary=begin.summary,
            search_attributes=await attributes(client, plan, folder),
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


def check(plan: Plan) -> None:
    """Check that *plan* can run on a cluster.

    Raises:
        UsageError: If a program or actors decide in it, or it holds a secret.
    """
    for part in _parts(plan):
        if isinstance(part.coordination, ProgramPlan):
            raise UsageError(
                f"{part.name!r} is a Python program that decides, which a cluster cannot take over: use `coterie run`"
            )
        if isinstance(part.coordination, SystemPlan):
            raise UsageError(
                f"{part.name!r} is a supervised system: its agents answer messages for as long as it is up, which is "
                "no work that ends; use `coterie run`, with workers on other machines"
            )
    if held := plan_secrets.literal(plan):
        raise UsageError(
            f"the file holds a value that looks secret, which would be stored on the cluster: {', '.join(held)}; "
            "write ${NAME}, which the node that works fills in from its environment"
        )


def backends_of(plan: Plan) -> dict[str, BackendFacts]:
    """What a driver must know of the backends of *plan*, by name."""
    turns = local_turns()
    agents = {agent.backend: agent for part in _parts(plan) for agent in part.agents.values()}
    return {
        name: BackendFacts(uses_context=turns.uses_context(agent), abilities=turns.abilities(agent))
        for name, agent in agents.items()
        if agent.backend
    }


def _parts(plan: Plan) -> Iterator[Plan]:
    yield plan
    for agent in plan.agents.values():
        if agent.child is not None:
            yield from _parts(agent.child)


def _ids(plan: Plan) -> Iterator[str]:
    """Ids for a new run of *plan*, without end."""
    place = kind_of(plan).project.place
    if place is None or not place.project:
        while True:
            yield new_run_id()
    yield from run_ids.candidates("human" if place.run_id_format == "counter" else place.run_id_format, (), ())
