"""Runs of all kinds on a cluster whose nodes, guards, servers, networks and disks fail, against an outside ledger.

Each agent writes into the ledger when it begins, while it works and when it ends. Each run is checked to its end: it
completes as an unkilled one does, no attempt begins twice, none works beside another one of its turn, nothing of a turn
begins after its result, no failure is blamed on an agent, and its files hold what each turn wrote.

    python tests/support/cluster_killer.py --runs 100 --faults 60
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import postgres_server
from cluster_stage import Server, server, serving
from pattern_play import pattern
from stage import flow
from tcp_gate import TcpGate
from temporalio.service import RPCError

from coterie.agents.backends.processes import any_alive
from coterie.base.clock import SystemClock
from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.submit import done, submit
from coterie.execution.cluster.turn_files import WorkTrees
from coterie.execution.cluster.wire import MsgspecConverter, RunDone
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.backend_setup import local_turns
from coterie.history.journal.export import Export
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted, TurnFinished
from coterie.history.journal.runs import RunReader, RunRecord
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan

TICK = 0.2
AGENT = """
cat > /dev/null
me="$COTERIE_RUN/$COTERIE_TURN.$COTERIE_ATTEMPT"
say() {{ echo "$1 $me $(date +%s.%N)" >> "{ledger}"; }}
say begin
for tick in $(seq {ticks}); do sleep {tick}; say tick; done
{then}
say end
echo "{says}"
"""
"""It leaves its line in the ledger at once: a line this short is written whole."""
NODES = ("one", "two", "three")
FREEZE = (5.0, 15.0)
"""The least and the most seconds for which a node is frozen or cut off, or its disk full."""
FAULTS = ["kill", "freeze", "cut_off", "cut_off_export", "cut_off_both"]
FAULTS += ["fill_disk", "kill_guard", "freeze_guard", "kill_temporal", "kill_database"]
OVERLAP = 0.5
"""Seconds that the lines of two attempts may overlap: an agent may have asked for the time before it was ended."""


class Plans:
    """A team of each kind, whose agents write into *ledger*."""

    def __init__(self, ledger: Path, length: int, ticks: int) -> None:
        self._ledger, self._length, self._ticks = ledger, length, ticks

    def of(self, kind: str) -> Plan:
        found: Plan = getattr(self, kind)()
        return found

    def agent(self, name: str, says: str = "done", then: str = "") -> AgentPlan:
        text = AGENT.format(ledger=self._ledger, ticks=self._ticks, tick=TICK, says=says, then=then)
        return AgentPlan(name=name, backend="command", argv=("sh", "-c", text))

    def chain(self) -> Plan:
        names = [f"a{k}" for k in range(self._length)]
        return flow(" -> ".join(names), **{name: self.agent(name) for name in names})

    def fan(self) -> Plan:
        names = ["go", *(f"w{k}" for k in range(self._length - 2)), "join"]
        wide = ", ".join(names[1:-1])
        return flow(f"go -> [{wide}] -> join", **{name: self.agent(name) for name in names})

    def debate(self) -> Plan:
        return pattern("debate", {name: self.agent(name) for name in ("proponent", "opponent", "mediator")})

    def nest(self) -> Plan:
        inner = AgentPlan(name="team", kind="topology", child=self.debate())
        return flow("first -> team -> last", first=self.agent("first"), team=inner, last=self.agent("last"))

    def loop(self) -> Plan:
        roles = (RolePlan(id="worker", emits=("more", "done")),)
        handoff = (("loop.start", ("worker",)), ("more", ("worker",)))
        plan = LoopPlan(roles=roles, handoff=handoff, promise="DONE", max_iterations=5)
        agents = {"worker": self.agent("worker", says="DONE"), "@review": self.agent("@review")}
        return Plan(name="loop", agents=agents, coordination=plan)

    def files(self) -> Plan:
        names = [f"f{k}" for k in range(self._length)]
        then = 'until echo "$COTERIE_TURN" >> notes; do sleep 0.2; done'
        return flow(" -> ".join(names), **{name: self.agent(name, then=then) for name in names})


KINDS = ("chain", "fan", "debate", "nest", "loop", "files")


def ends(records: list[RunRecord]) -> list[tuple[str, str, str]]:
    """What each finished turn said, and how each run ended."""
    found = [(run.partition("/")[2], one.turn, one.text) for run, one in records if isinstance(one, TurnFinished)]
    found += [(run.partition("/")[2], "", getattr(one, "outcome", "")) for run, one in dict(records).items()]
    return sorted(found)


@cache
def ends_alone(kind: str, length: int) -> list[tuple[str, str, str]]:
    """The same of a run on this machine that nothing happens to."""
    with tempfile.TemporaryDirectory() as folder:
        plan, store = Plans(Path(folder) / "ledger", length, 0).of(kind), MemoryStore()
        before = os.getcwd()
        os.chdir(folder)
        try:
            shell = Shell(RunPorts(store=store, turns=local_turns(), clock=SystemClock(), make_kind=kind_of))
            asyncio.run(shell.start("r", plan, {"prompt": "go"}))
        finally:
            os.chdir(before)
        return ends(list(RunReader(store).history("r")))


class Node:
    """A node, with networks to both servers of its own and, where a file system can be mounted, a small disk."""

    def __init__(self, name: str, folder: Path, temporal: str, database: str, stack: contextlib.ExitStack) -> None:
        self.name, self._folder, self._stack = name, folder, stack
        self.temporal, self.database = TcpGate(f"tcp://{temporal}"), TcpGate(f"unix://{database}/.s.PGSQL.5432")
        stack.callback(self.temporal.end)
        stack.callback(self.database.end)
        self.busy = False
        self.home = folder / name
        self.home.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(self.home)]
        self.has_disk = os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0
        if self.has_disk:
            stack.callback(subprocess.run, ["umount", "-l", str(self.home)], capture_output=True)
        self.start()

    @property
    def url(self) -> str:
        export = f"postgresql://tester@{self.database.place}/postgres"
        return f"temporal://{self.temporal.place}/default?export={export}"

    def start(self) -> None:
        self.process = self._stack.enter_context(serving(self._folder, self.url, "--release", "killed", name=self.name))

    def says(self) -> str:
        return (self._folder / f"{self.name}.log").read_text()

    def guard(self) -> int:
        """The process that guards it; 0: none, for it has just died."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if (
                    parent == self.process.pid
                    and b"coterie.execution.cluster.guard" in (entry / "cmdline").read_bytes()
                ):
                    return int(entry.name)
        return 0


class Faults:
    """What happens to the nodes and the servers, as *dice* will have it."""

    def __init__(self, dice: random.Random, nodes: list[Node], temporal: Server, database: Path, pace: float) -> None:
        self._dice, self._nodes, self._temporal, self._database = dice, nodes, temporal, database
        self._pace = pace
        self.seen: Counter[str] = Counter()

    async def come(self, times: int) -> None:
        """Let *times* faults happen, those of different nodes beside each other."""
        order: list[str] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(times):
                order = order or self._dice.sample(FAULTS, len(FAULTS))
                kind = order.pop()
                await asyncio.sleep(self._dice.uniform(0.5, 1.5) * self._pace)
                while not (free := [node for node in self._nodes if not node.busy]):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                node = self._dice.choice(free)
                if kind == "fill_disk" and not node.has_disk:
                    continue
                self.seen[kind] += 1
                node.busy = True
                group.create_task(self._one(kind, node))

    async def keep_up(self) -> None:
        """Start nodes again that have ended by themselves, as a supervisor of processes does."""
        while True:
            await asyncio.sleep(0.5)
            for node in self._nodes:
                if not node.busy and node.process.poll() is not None:
                    self.seen["start again"] += 1
                    node.start()

    async def _one(self, kind: str, node: Node) -> None:
        try:
            await getattr(self, kind)(node)
        finally:
            node.busy = False

    async def _while(self) -> None:
        await asyncio.sleep(self._dice.uniform(*FREEZE))

    async def kill(self, node: Node) -> None:
        node.process.kill()
        await asyncio.sleep(0.5)
        node.start()

    async def freeze(self, node: Node) -> None:
        node.process.send_signal(signal.SIGSTOP)
        await self._while()
        node.process.send_signal(signal.SIGCONT)

    async def cut_off(self, node: Node) -> None:
        node.temporal.close()
        await self._while()
        node.temporal.open()

    async def cut_off_export(self, node: Node) -> None:
        node.database.close()
        await self._while()
        node.database.open()

    async def cut_off_both(self, node: Node) -> None:
        node.temporal.close()
        node.database.close()
        await self._while()
        node.temporal.open()
        node.database.open()

    async def freeze_guard(self, node: Node) -> None:
        await self._to_guard(node, signal.SIGSTOP)
        await asyncio.sleep(12)  # it is replaced by then

    async def kill_guard(self, node: Node) -> None:
        await self._to_guard(node, signal.SIGKILL)
        await asyncio.sleep(3)

    async def _to_guard(self, node: Node, number: signal.Signals) -> None:
        if pid := node.guard():
            os.kill(pid, number)

    async def fill_disk(self, node: Node) -> None:
        filler = node.home / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        await self._while()
        filler.unlink(missing_ok=True)

    async def kill_temporal(self, node: Node) -> None:
        self._temporal.kill()
        await asyncio.sleep(self._dice.uniform(0, 8))
        await asyncio.to_thread(self._temporal.start)

    async def kill_database(self, node: Node) -> None:
        await asyncio.to_thread(postgres_server.kill, self._database)
        await asyncio.sleep(1)
        for _ in range(60):
            with contextlib.suppress(AssertionError):  # what is left of the killed one may keep its memory for a moment
                await asyncio.to_thread(postgres_server.start, self._database)
                return
            await asyncio.sleep(1)
        raise AssertionError((self._database / "log").read_text()[-2000:])


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[Node], Server, Path]]:
    """A cluster of three nodes, and the address at which it is reached whatever happens to their networks."""
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(server(folder))
        database = Path(stack.enter_context(postgres_server.server()).partition("?host=")[2])
        nodes = [Node(name, folder, one.address, str(database), stack) for name in NODES]
        yield f"{one.url}?export=postgresql://tester@/postgres?host={database}", nodes, one, database


def play(
    folder: Path, *, runs: int, faults: int, length: int, ticks: int, pace: float, seed: int, within: float, links: int
) -> list[str]:
    """Have *runs* runs suffer *faults* faults, check each of them, and return what is wrong."""
    ledger, source, began = folder / "ledger", folder / "source", time.monotonic()
    source.mkdir()
    (source / "notes").write_text("begun\n")
    made = Plans(ledger, length, ticks)
    names = {f"{kind}-{k}": kind for k in range(runs) for kind in [KINDS[k % len(KINDS)]]}

    async def main(url: str, nodes: list[Node], suffering: Faults) -> dict[str, tuple[RunDone, list[RunRecord], str]]:
        async with connected(ClusterAddress.parse(url), MsgspecConverter) as (client, export):
            while not all("serving" in node.says() for node in nodes):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            keeping = asyncio.create_task(suffering.keep_up())
            faulting = asyncio.create_task(suffering.come(faults))
            for run, kind in names.items():
                place = source if kind == "files" else None
                while True:
                    try:
                        words = (client, export, made.of(kind), {"prompt": "go"})
                        await submit(*words, run=run, folder=place, link_events=links)
                        break
                    except RPCError:  # the server has just been killed
                        await asyncio.sleep(1)
            ending = {run: asyncio.create_task(done(client, run)) for run in names}
            await asyncio.wait([*ending.values(), faulting], timeout=within)
            keeping.cancel()
            found = {}
            for run, task in ending.items():
                if task.done():
                    left = task.result()
                    notes = await _notes(export, folder / "look", run, left) if left.files is not None else ""
                    found[run] = left, list(await export.load(run)), notes
                else:
                    task.cancel()
            await faulting
            return found

    with cluster(folder) as (url, nodes, temporal, database):
        suffering = Faults(random.Random(seed), nodes, temporal, database, pace)
        found = asyncio.run(main(url, nodes, suffering))
        wrong = [f"{run}: its agent is left" for run in names if any_alive(f"{run}/", ())]
    lines = [line.split() for line in ledger.read_text().splitlines()]
    wrong += repeated(lines)
    wrong += [f"{run} has not ended" for run in names if run not in found]
    for run, kind in names.items():
        if run not in found:
            continue
        wrong += [f"{run}: {one}" for one in _checked(run, kind, made, length, lines, *found[run])]
    cut = [one for _, records, _ in found.values() for _, one in records if isinstance(one, AttemptInterrupted)]
    print(
        f"{runs} runs, {sum(words[0] == 'end' for words in lines)} turns, {sum(suffering.seen.values())} faults "
        f"({', '.join(f'{count} {kind}' for kind, count in sorted(suffering.seen.items()))}) in "
        f"{time.monotonic() - began:.0f} s: {len(cut)} attempts interrupted, {len(wrong)} wrong"
    )
    return wrong


async def _notes(export: Export, home: Path, run: str, left: RunDone) -> str:
    assert left.files is not None
    async with WorkTrees(home, export).of(run, f"{run}/look", left.files) as at:
        return (at.cwd / "notes").read_text()


def repeated(lines: list[list[str]]) -> list[str]:
    began = Counter(words[1] for words in lines if words[0] == "begin")
    wrong = [f"{name} began {count} times" for name, count in began.items() if count > 1]
    times: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, name, at in lines:
        turn, _, attempt = name.rpartition(".")
        times[turn][int(attempt)].append(float(at))
    for turn, attempts in times.items():
        inner = sorted((min(at), max(at), attempt) for attempt, at in attempts.items())
        wrong += [
            f"{turn}: attempts {before[2]} and {after[2]} worked at once for {before[1] - after[0]:.1f} s"
            for before, after in itertools.pairwise(inner)
            if before[1] - after[0] > OVERLAP
        ]
    return wrong


def _checked(
    run: str,
    kind: str,
    made: Plans,
    length: int,
    lines: list[list[str]],
    left: RunDone,
    records: list[RunRecord],
    notes: str,
) -> Iterator[str]:
    if left.ended.status != "completed":
        yield f"{left.ended.status} {left.ended.reason}"
    accepted = {f"{name}/{one.turn}": one.attempt for name, one in records if isinstance(one, TurnFinished)}
    for what, name, _ in lines:
        turn, _, attempt = name.rpartition(".")
        if what == "begin" and turn in accepted and name.startswith(f"{run}/") and int(attempt) > accepted[turn]:
            yield f"{name} began after the result of its turn"
    ended = {name for what, name, _ in lines if what == "end"}
    ended |= {name for name, _ in records}  # a team within
    yield from (f"{turn} has a result and no end" for turn, at in accepted.items() if f"{turn}.{at}" not in ended)
    yield from (f"{one.turn} failed: {one}" for _, one in records if isinstance(one, AttemptFailed))
    fold = Fold(run, kind_of(made.of(kind)))
    fold.fold([record for name, record in records if name == run])
    if fold.finished is None:
        yield "its journal has no end"
    if ends(records) != ends_alone(kind, length):
        yield "it ended otherwise than alone"
    if kind == "files" and notes.split() != ["begun", *(f"f{k}#1" for k in range(length))]:
        yield f"its files hold {notes!r}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--length", type=int, default=6)
    parser.add_argument("--ticks", type=int, default=10)
    parser.add_argument("--pace", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--links", type=int, default=60, help="events of a link of a run's chain of workflows")
    parser.add_argument("--within", type=float, default=1200.0, help="seconds until which all runs end")
    parser.add_argument("--keep", help="the folder to work in, which is kept")
    given = vars(parser.parse_args())
    keep = given.pop("keep")
    with contextlib.ExitStack() as stack:
        place = Path(keep) if keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(exist_ok=True)
        problems = play(place, **given)
    print("\n".join(problems))
    sys.exit(bool(problems))
