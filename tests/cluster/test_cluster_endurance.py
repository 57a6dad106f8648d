"""Runs of all kinds on three nodes over Temporal and PostgreSQL, while nodes and the server are killed and frozen."""

import asyncio
import contextlib
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_stage import Server, server, serving
from pattern_play import pattern
from stage import flow

from coterie.clock import SystemClock
from coterie.cluster.address import ClusterAddress, connected
from coterie.cluster.submit import ended, submit
from coterie.cluster.wire import MsgspecConverter
from coterie.journal.export import Export
from coterie.journal.memory import MemoryStore
from coterie.journal.records import TurnFinished
from coterie.journal.runs import RunReader, RunRecord
from coterie.kernel.fold import Fold
from coterie.kernel.shell import Shell
from coterie.kinds import kind_of
from coterie.planning.loop import LoopPlan, RolePlan
from coterie.planning.plan import AgentPlan, Plan
from coterie.runs.backend_setup import local_turns

pytestmark = pytest.mark.long

SAYS = 'cat > /dev/null; echo "$COTERIE_RUN/$COTERIE_TURN.$COTERIE_ATTEMPT" >> "{log}"; sleep {seconds}; echo "{says}"'


def agent(name: str, log: Path, seconds: float, says: str = "done", **fields: Any) -> AgentPlan:
    words = ("sh", "-c", SAYS.format(log=log, seconds=seconds, says=says))
    return AgentPlan(name=name, backend="command", argv=words, **fields)


def plans(log: Path, length: int, seconds: float) -> dict[str, Callable[[], Plan]]:
    """A team of each kind."""

    def chain() -> Plan:
        names = [f"a{k}" for k in range(length)]
        return flow(" -> ".join(names), **{name: agent(name, log, seconds) for name in names})

    def fan() -> Plan:
        names = ["go", *(f"w{k}" for k in range(length)), "join"]
        wide = ", ".join(names[1:-1])
        return flow(f"go -> [{wide}] -> join", **{name: agent(name, log, seconds) for name in names})

    def debate() -> Plan:
        return pattern("debate", {name: agent(name, log, seconds) for name in ("proponent", "opponent", "mediator")})

    def nest() -> Plan:
        inner = AgentPlan(name="team", kind="topology", child=debate())
        return flow("first -> team -> last", first=agent("first", log, seconds), team=inner, last=agent("last", log, 0))

    def loop() -> Plan:
        roles = (RolePlan(id="worker", emits=("more", "done")),)
        handoff = (("loop.start", ("worker",)), ("more", ("worker",)))
        plan = LoopPlan(roles=roles, handoff=handoff, promise="DONE", max_iterations=5)
        agents = {"worker": agent("worker", log, seconds, says="DONE"), "@review": agent("@review", log, 0.0)}
        return Plan(name="loop", agents=agents, coordination=plan)

    return {"chain": chain, "fan": fan, "debate": debate, "nest": nest, "loop": loop}


def alone(plan: Plan, run: str) -> list[RunRecord]:
    """The journals of *plan* on this machine alone."""
    store = MemoryStore()
    asyncio.run(
        Shell(store=store, turns=local_turns(), clock=SystemClock(), make_kind=kind_of).start(
            run, plan, {"prompt": "go"}
        )
    )
    return list(RunReader(store).history(run))


def ends(records: list[RunRecord]) -> list[tuple[str, str, str]]:
    """What each finished turn said, and how each run ended."""
    found = [(run.partition("/")[2], one.turn, one.text) for run, one in records if isinstance(one, TurnFinished)]
    last = dict(records)
    found += [(run.partition("/")[2], "", getattr(one, "outcome", "")) for run, one in last.items()]
    return sorted(found)


class Nodes:
    """Three nodes, to which things happen."""

    def __init__(self, folder: Path, cluster: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._cluster, self._stack = folder, cluster, stack
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("one", "two", "three"):
            self.start(name)

    def start(self, name: str) -> None:
        self._nodes[name] = self._stack.enter_context(serving(self._folder, self._cluster, name=name))

    async def suffer(self, dice: random.Random, one: Server, times: int) -> None:
        """Kill a node and start it again, several times; the server once, and freeze one node once."""
        for time in range(times):
            await asyncio.sleep(dice.uniform(2.0, 4.0))
            name = dice.choice(list(self._nodes))
            if time == 1:
                one.kill()
                await asyncio.sleep(1.0)
                one.start()
            elif time == 2:
                self._nodes[name].send_signal(signal.SIGSTOP)
                await asyncio.sleep(12)
                self._nodes[name].send_signal(signal.SIGCONT)
            else:
                self._nodes[name].kill()
                await asyncio.sleep(0.5)
                self.start(name)


@contextlib.contextmanager
def _cluster(folder: Path, export: str) -> Iterator[tuple[str, Server, Nodes]]:
    with server(folder) as one, contextlib.ExitStack() as stack:
        cluster = f"{one.url}?export={export}"
        yield cluster, one, Nodes(folder, cluster, stack)


def test_all_runs_complete_whatever_is_killed(tmp_path: Path, new_export: Callable[[], str]) -> None:
    """Workflows have short links, so that they hand over many times meanwhile."""
    log, dice = tmp_path / "log", random.Random(7)
    made = plans(log, 60, 0.1)
    names = {f"{kind}-{k}": kind for k in range(15) for kind in [list(made)[k % len(made)]]}

    async def main(cluster: str, one: Server, nodes: Nodes) -> dict[str, list[RunRecord]]:
        async with connected(ClusterAddress.parse(cluster), MsgspecConverter) as (client, export):
            for run, kind in names.items():
                await submit(client, export, made[kind](), {"prompt": "go"}, run=run, link_events=200)
            suffering = asyncio.create_task(nodes.suffer(dice, one, 8))
            for run in names:
                assert (await asyncio.wait_for(ended(client, run), 300)).status == "completed", run
            await suffering
            return {run: await _loaded(export, run) for run in names}

    with _cluster(tmp_path, new_export()) as (cluster, one, nodes):
        found = asyncio.run(main(cluster, one, nodes))
    began = Counter(log.read_text().split())
    assert [name for name, count in began.items() if count > 1] == []
    log.unlink()
    expected = {kind: ends(alone(made[kind](), kind)) for kind in made}
    for run, kind in names.items():
        plan = made[kind]()
        finished = {f"{name}/{one.turn}": one.attempt for name, one in found[run] if isinstance(one, TurnFinished)}
        later = [name for name in began if (at := name.rpartition("."))[0] in finished and int(at[2]) > finished[at[0]]]
        assert later == []  # nothing of a turn began after its result
        fold = Fold(run, kind_of(plan))
        fold.fold(record for name, record in found[run] if name == run)
        assert fold.finished is not None
        assert ends(found[run]) == expected[kind], run


async def _loaded(export: Export, run: str) -> list[RunRecord]:
    return list(await export.load(run))
