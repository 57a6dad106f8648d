"""The cost of a turn on a cluster, beside a bare Temporal activity and beside a durable run on this machine.

One node in this process, Temporal's dev server with its file, and PostgreSQL as the export; agents answer at once. A
chain shows what a turn adds to the time of its agent, many runs at a time how many turns the cluster takes in a second,
and the database files what a turn costs on the disk.

    python benchmarks/cluster.py
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from turns import Stub, chain

from coterie.base.clock import SystemClock
from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.serve import node
from coterie.execution.cluster.submit import ended, submit
from coterie.execution.cluster.wire import MsgspecConverter
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.export import Export
from coterie.history.journal.jsonl import JsonlStore
from coterie.team.planning.plan import Limits, Plan

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))


@activity.defn
async def answer() -> str:
    return "done"


@workflow.defn(sandboxed=False)
class Bare:
    """As many activities, one after the other."""

    @workflow.run
    async def run(self, count: int) -> None:
        for _ in range(count):
            await workflow.execute_activity(answer, start_to_close_timeout=timedelta(seconds=10))


def team(turns: int) -> Plan:
    """A chain of agents with a backend that a node has; the stub answers for it."""
    plan = chain(turns)
    agents = {name: replace(agent, backend="command", argv=("true",)) for name, agent in plan.agents.items()}
    return replace(plan, agents=agents)


@asynccontextmanager
async def cluster(url: str, home: Path) -> AsyncIterator[tuple[Client, Export]]:
    async with (
        connected(ClusterAddress.parse(url), MsgspecConverter) as (client, export),
        node(client, export, ["default"], home, turns=Stub(), most=100),
        Worker(
            client,
            task_queue="bare",
            workflows=[Bare],
            activities=[answer],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ),
    ):
        yield client, export


async def bare(client: Client, turns: int) -> float:
    began = time.perf_counter()
    await client.execute_workflow(Bare.run, turns, id=uuid4().hex, task_queue="bare")
    return time.perf_counter() - began


async def there(client: Client, export: Export, turns: int) -> float:
    began = time.perf_counter()
    run, *_ = await submit(client, export, team(turns), {"prompt": "go"}, run=uuid4().hex)
    assert (await ended(client, run)).status == "completed"
    return time.perf_counter() - began


async def here(folder: Path, turns: int) -> float:
    began = time.perf_counter()
    shell = Shell(
        RunPorts(store=JsonlStore(folder), turns=Stub(), clock=SystemClock(), make_kind=kind_of),
        OwnerOptions(limits=Limits(max_parallel=None)),
    )
    await shell.start(uuid4().hex, team(turns), {"prompt": "go"})
    return time.perf_counter() - began


async def main(turns: int, runs: int, server: str, database: str, folder: Path) -> None:
    import asyncpg

    url = f"{server}?export={database}"
    async with cluster(url, folder / "node") as (client, export):
        await there(client, export, 3)
        await bare(client, 3)
        print(f"{'':28}{'Temporal':>10}{'cluster':>10}{'ratio':>8}{'local':>10}")
        limit, ours, local = (
            await bare(client, turns),
            await there(client, export, turns),
            await here(folder / "a", turns),
        )
        ms = [f"{1e3 * seconds / turns:.1f} ms" for seconds in (limit, ours, local)]
        print(f"{f'chain of {turns}, a turn':28}{ms[0]:>10}{ms[1]:>10}{ours / limit:8.2f}{ms[2]:>10}")

        reading = await asyncpg.connect(database)
        size = "select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = 'coterie'::regnamespace"
        size += " and relkind = 'r'"
        await reading.execute("vacuum coterie.record, coterie.blob")
        before = await reading.fetchval(size), history_bytes(folder)
        each = 20
        rates = []
        for play in (lambda: bare(client, each), lambda: there(client, export, each), lambda: here(folder / "b", each)):
            began = time.perf_counter()
            await asyncio.gather(*(play() for _ in range(runs)))
            rates.append(runs * each / (time.perf_counter() - began))
            if len(rates) == 1:
                before = before[0], history_bytes(folder)
            if len(rates) == 2:
                after = await reading.fetchval(size), history_bytes(folder)
        shown = [f"{rate:.0f}/s" for rate in rates]
        print(
            f"{f'{runs} runs of {each}, turns':28}{shown[0]:>10}{shown[1]:>10}{rates[1] / rates[0]:8.2f}{shown[2]:>10}"
        )
        stored = [(now - then) / (runs * each * 1000) for now, then in zip(after, before, strict=True)]
        local_kb = sum(one.stat().st_size for one in (folder / "b").rglob("journal.jsonl")) / (runs * each * 1000)
        print(f"stored for a turn: export {stored[0]:.1f} kB, Temporal {stored[1]:.1f} kB, local {local_kb:.1f} kB")
        await reading.close()


def history_bytes(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.glob("temporal.db*"))


if __name__ == "__main__":
    import cluster_stage
    import postgres_server

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--runs", type=int, default=50)
    given = parser.parse_args()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        temporal = stack.enter_context(cluster_stage.server(work))
        postgres = stack.enter_context(postgres_server.server()).replace("+asyncpg", "").format("postgres")
        asyncio.run(main(given.turns, given.runs, temporal.url, postgres, work))
