"""Execute and resume topology objects: definitions, plan, journal, rows, and the outcome as an execution."""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec import Struct

from coterie.agents.backends.human import AskHuman
from coterie.base.clock import Clock, SystemClock
from coterie.base.ids import new_run_id
from coterie.errors import NoSuchRun, PatternRefused, ReplayMismatch, RowsFailed
from coterie.execution.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Observe, kind_of
from coterie.execution.runs import launch, run_ids
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record, RunFinished, RunStarted
from coterie.patterns.identity import execution_id
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.definitions import engine_of, prepare
from coterie.patterns.reference.host import Host
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.reference.plans import plan_of
from coterie.patterns.rows.enums import ExecutionStatus
from coterie.patterns.rows.models import Execution
from coterie.team.planning.plan import Limits
from coterie.team.planning.program import ProgramPlan


class Options(Struct, frozen=True, kw_only=True):
    """Options of an execution; see `BaseTopology.execute`."""

    state_dir: Path
    durable: bool = True
    limits: Limits | None = None
    human: AskHuman | None = None
    clock: Clock | None = None


async def execute(
    topology: Collaboration, given: dict[str, Any], correlation: str | None, options: Options
) -> Execution:
    """Run *topology* for *given*; see `BaseTopology.execute`."""
    if not isinstance(given, dict):
        raise PatternRefused(f"the input of an execution must be a dictionary, not {type(given).__name__}")
    given = plain_object(given, "the input")
    if options.limits is not None and not isinstance(options.limits, Limits):
        raise PatternRefused(f"limits must be coterie.Limits, not {type(options.limits).__name__}")
    if correlation is not None and not isinstance(correlation, str):
        raise PatternRefused(f"the correlation_id of an execution must be a text, not {correlation!r}")
    await prepare(topology)
    plan = plan_of(topology, correlation or "")
    run = run_ids.choose_id(plan, options.state_dir) if options.durable else new_run_id()
    if not options.durable:
        store = MemoryStore()

        def begin(turns: Host, attach: Callable[[Shell], object], observe: Observe, clock: Clock) -> Awaitable[Any]:
            shell = Shell(
                RunPorts(store=store, turns=turns, clock=clock, make_kind=kind_of, environment=os.environ),
                OwnerOptions(limits=options.limits or Limits()),
                Observers(observe=[observe]),
            )
            attach(shell)
            return shell.start(run, plan, given)

        return await launch.until_stopped(_drive(topology, run, options, begin, store.read, correlation))
    start = partial(launch.start, plan, given, state_dir=options.state_dir, limits=options.limits, run_id=run)
    read = Runs(options.state_dir).read
    return await launch.until_stopped(_drive(topology, run, options, start, read, correlation))


async def resume(topology: Collaboration, wanted: UUID | str, options: Options) -> Execution:
    """Continue an execution of *topology*; see `BaseTopology.resume`."""
    runs = Runs(options.state_dir)
    known = runs.list()
    run = next((run for run in known if str(wanted) in (run, str(execution_id(run)))), None)
    if run is None:
        raise NoSuchRun(str(wanted), known)
    recorded = runs.journal(run, is_claimed_next=True).plan().coordination
    if not isinstance(recorded, ProgramPlan):
        raise PatternRefused(
            f"run {run!r} is not an execution of a topology class: continue it with `coterie resume {run}`"
        )
    if recorded.program.partition(":")[2] != type(topology).__qualname__ or recorded.name != topology._defined.name:
        raise PatternRefused(
            f"run {run!r} is an execution of {recorded.name!r} by {recorded.program}, not of "
            f"{topology._defined.name!r} by {type(topology).__module__}:{type(topology).__qualname__}"
        )
    await prepare(topology)

    again = partial(launch.resume, run, state_dir=options.state_dir, limits=options.limits, runs=runs)
    driven = _drive(topology, run, options, again, runs.read, recorded.correlation or None)
    return await launch.until_stopped(driven)


async def _drive(
    topology: Collaboration,
    run: str,
    options: Options,
    begin: Callable[..., Awaitable[Any]],
    read: Callable[[str], Any],
    correlation: str | None,
) -> Execution:
    clock = options.clock or SystemClock()
    seen = dict[type[Record], Record]()  # the last of the root run, by class and of all
    async with _rows(topology, run, read) as write_rows:

        def observe(name: str, record: Record) -> None:
            if name == run:
                seen[type(record)] = seen[Record] = record
            write_rows(name, record)

        host = Host(topology, clock, observe, options.human)
        driven = begin(turns=host, attach=host.attach, observe=host.observe, clock=clock)
        host.main = main = asyncio.ensure_future(driven)
        try:
            with suppress(asyncio.CancelledError):  # whether it is ours is looked at below
                await main
        finally:
            await host.close()
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError
    if host.error is not None and (RunFinished in seen or isinstance(host.error, ReplayMismatch)):
        raise host.error
    started = seen.get(RunStarted) or next(iter(read(run)))
    assert isinstance(started, RunStarted)
    return _as_execution(topology, main.result(), started, seen[Record].at, correlation)


@asynccontextmanager
async def _rows(topology: Collaboration, run: str, read: Callable[[str], Any]) -> AsyncIterator[Observe]:
    """What writes the rows of *run*, on separate connections to the database of the caller's session."""
    if topology.db_session is None:
        yield lambda name, record: None
        return
    from coterie.patterns.rows.projection import Projection

    rows = Projection(engine_of(topology.db_session), read=read)
    await rows.open()
    try:
        yield rows.observe
    finally:
        try:
            await rows.close()
        except RowsFailed as failed:  # it does not fail the run
            warnings.warn(f"{failed}; `await coterie.patterns.project({run!r}, …)` writes them later", stacklevel=2)


def _as_execution(
    topology: Collaboration, ended: Outcome | RunExit, started: RunStarted, last: float, name: str | None
) -> Execution:
    """The execution as a value, loaded and detached from any session."""
    execution = Execution(
        id=execution_id(ended.run),
        topology_id=topology._defined.id or 0,
        input_data=started.input,
        correlation_id=name,
        metadata_={"run": ended.run},
        started_at=datetime.fromtimestamp(started.at, UTC),
    )
    if ended.status == "completed":
        execution.mark_complete(topology.output_of(ended.result))
        execution.completed_at = datetime.fromtimestamp(last, UTC)
    else:
        execution.status = ExecutionStatus.PAUSED
        execution.error = f"stopped: {ended.reason}; resume({str(execution.id)!r}) carries it on"
    return execution
