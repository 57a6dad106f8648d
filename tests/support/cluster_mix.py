"""Generated runs on a cluster, which are stopped, interrupted and guided at random, while nodes are killed.

Flows, loops, patterns and teams of them, whose agents answer, emit early or late, fail, and take too long, and whose
people are asked. Each run is compared with the same plan alone on one machine: every turn's answer or failure, every
event, and how it and its child runs ended; no attempt begins twice, and none works beside another one of its turn.

    python tests/support/cluster_mix.py --runs 60 --kills 12
"""

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from subprocess import Popen

from cluster_killer import repeated
from cluster_stage import Server, server, serving
from pattern_play import pattern
from stage import flow
from temporalio.client import Client
from temporalio.service import RPCError

from coterie.agents.backends.base import Request
from coterie.agents.backends.processes import any_alive
from coterie.errors import ClusterFailed
from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.relay import tell
from coterie.execution.cluster.submit import ended, restart, submit
from coterie.execution.cluster.wire import MsgspecConverter
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs import launch
from coterie.execution.runs.messages import RunMessage, guidance, interruption, stop
from coterie.execution.runs.repository import Runs
from coterie.history.journal.export import Export
from coterie.history.journal.records import (
    EventEmitted,
    RunFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.runs import RunRecord
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan

AGENT = """
cat > /dev/null
say() {{ echo "$1 $COTERIE_RUN/$COTERIE_TURN.$COTERIE_ATTEMPT $(date +%s.%N)" >> "$LEDGER"; }}
say begin
{early}
for tick in $(seq "$TICKS"); do sleep 0.2; say tick; done
{late}
say end
{ends}
"""
"""Its node says where the ledger is and how long an agent works: a run alone does not wait."""
EMITS = '"$AUTOLOOP_BIN" emit {} > /dev/null'
PAUSE = 0.3
"""Seconds between two looks at a run."""
NODES = ("one", "two")


class Work:
    """Makes the plan of *seed*; only if *early* some agents of its loops work on after they have emitted."""

    def __init__(self, seed: int, early: bool = True) -> None:
        self._dice = random.Random(f"work {seed}")
        self._emits = ("early", "late") if early else ("late",)
        self._count = 0

    def plan(self) -> Plan:
        return self._dice.choice([self._flow, self._flow, self._loop, self._pattern])(2)

    def _agent(self, name: str, early: str = "", late: str = "", ends: str = "", **fields: object) -> AgentPlan:
        text = AGENT.format(early=early, late=late, ends=ends or f'echo "{name} has done $COTERIE_TURN"')
        return AgentPlan(name=name, backend="command", argv=("sh", "-c", text), **fields)  # type: ignore[arg-type]

    def _flow(self, depth: int) -> Plan:
        steps, agents = list[str](), dict[str, AgentPlan]()
        for _ in range(self._dice.randint(2, 4)):
            made = self._dice.choice([self._one, self._one, self._fan, self._late, self._fails, self._person])(depth)
            steps.append(made[0].name if len(made) == 1 else f"[{', '.join(one.name for one in made)}]")
            agents |= {one.name: one for one in made}
            if len(made) > 1:
                steps.append(join := self._named("join"))
                agents[join] = self._agent(join)
        return flow(" -> ".join([*steps, "last"]), **agents, last=self._agent("last"))

    def _named(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _one(self, depth: int) -> list[AgentPlan]:
        if not depth or self._dice.random() < 0.5:
            return [self._agent(self._named("agent"))]
        child = self._dice.choice([self._flow, self._loop, self._pattern])(depth - 1)
        return [AgentPlan(name=self._named("team"), kind="topology", child=child)]

    def _fan(self, depth: int) -> list[AgentPlan]:
        return [one for _ in range(self._dice.randint(2, 3)) for one in self._one(depth)]

    def _late(self, depth: int) -> list[AgentPlan]:
        """An agent that never ends in time, or a team whose only agent never ends."""
        name, slow = self._named("late"), "exec sleep 600"
        if depth and self._dice.random() < 0.5:
            child = flow("stuck -> never", stuck=self._agent("stuck", late=slow), never=self._agent("never"))
            return [AgentPlan(name=name, kind="topology", child=child, timeout=4.0, on_fail="continue")]
        return [self._agent(name, late=slow, timeout=1.5, on_fail="continue")]

    def _fails(self, depth: int) -> list[AgentPlan]:
        return [self._agent(self._named("fails"), ends="exit 3", retry=self._dice.randint(0, 1), on_fail="continue")]

    def _person(self, depth: int) -> list[AgentPlan]:
        return [AgentPlan(name=self._named("person"), kind="human", backend="human")]

    def _loop(self, depth: int) -> Plan:
        names = [f"role{k}" for k in range(self._dice.randint(1, 3))]
        events = [*(f"{name}.ready" for name in names[1:]), "all.done"]
        agents, roles = {"@review": self._agent("@review")}, list[RolePlan]()
        for name, event in zip(names, events, strict=True):
            when = self._dice.choice(self._emits)
            agents[name] = self._agent(name, **{when: EMITS.format(event)})
            roles.append(RolePlan(id=name, emits=(event,)))
        handoff = tuple(zip(["loop.start", *events[:-1]], [(name,) for name in names], strict=True))
        loop = LoopPlan(roles=tuple(roles), handoff=handoff, completion="all.done", promise="", max_iterations=9)
        return Plan(name="loop", agents=agents, coordination=loop)

    def _pattern(self, depth: int) -> Plan:
        if self._dice.random() < 0.5:
            return pattern("debate", {name: self._agent(name) for name in ("proponent", "opponent", "mediator")})
        return pattern("pipeline", {f"stage_{k}": self._agent(f"stage_{k}") for k in range(self._dice.randint(2, 3))})


def ends(records: list[RunRecord]) -> list[tuple[str, ...]]:
    """How each turn of a run and its child runs ended, what it emitted, and how each run ended."""
    found = set[tuple[str, ...]]()
    for run, one in records:
        where = run.partition("/")[2]
        match one:
            case TurnFinished():
                found.add((where, one.turn, "said", one.text.strip()))
            case TurnFailed():
                found.add((where, one.turn, "failed", one.kind))
            case TurnCancelled():
                found.add((where, one.turn, "cancelled"))
            case EventEmitted():
                found.add((where, one.turn, "emitted", one.event))
            case RunFinished():
                found.add((where, "ended", one.outcome))
    return sorted(found)


def said_by(turn: str) -> str:
    return f"{turn} is fine"


async def alone(plan: Plan, run: str, folder: Path) -> list[tuple[str, ...]]:
    """The ends of *plan* on this machine, where nothing happens to it."""

    async def person(request: Request) -> str:
        return said_by(request.turn)

    given = {"prompt": "go"}
    outcome = await launch.start(plan, given, state_dir=folder, run_id=run, cwd=folder, human=person, park=False)
    assert outcome.status in ("completed", "failed"), outcome
    return ends(list(Runs(folder).history(run)))


class Driven:
    """A run on the cluster that is seen to its end, whatever *dice* do to it."""

    def __init__(self, client: Client, export: Export, run: str, plan: Plan, dice: random.Random) -> None:
        self._client, self._export, self.run, self.plan, self._dice = client, export, run, plan, dice
        self.seen: Counter[str] = Counter()

    async def to_its_end(self, harms: int, links: int) -> RunExit:
        await insist(
            lambda: submit(self._client, self._export, self.plan, {"prompt": "go"}, run=self.run, link_events=links)
        )
        harming = asyncio.create_task(self._harm(harms))
        try:
            while True:
                ending = asyncio.create_task(insist(lambda: ended(self._client, self.run)))
                while not (await asyncio.wait([ending], timeout=PAUSE))[0]:
                    await self._answer()
                if (left := ending.result()).status != "stopped":
                    return left
                self.seen["resumed"] += 1
                await insist(lambda: restart(self._client, self._export, self.run))
        finally:
            harming.cancel()

    async def _say(self, message: RunMessage) -> str:
        return (await tell(self._client, KeyRing.of_user(), self.run, message)).status

    async def _open(self) -> list[tuple[str, str]]:
        """The turns under way, each with its address; those of loops are named after iterations."""
        records = list(await self._export.load(self.run))
        over = {(run, one.turn) for run, one in records if isinstance(one, TurnFinished | TurnFailed | TurnCancelled)}
        return [
            ("/".join([*run.split("/")[1:], one.turn]), one.agent)
            for run, one in records
            if isinstance(one, TurnStarted) and (run, one.turn) not in over
        ]

    async def _answer(self) -> None:
        for turn, agent in await self._open():
            if agent.startswith("person"):
                words = said_by(turn.rpartition("/")[2])
                await self._say(
                    RunMessage(id=f"{self.run} {turn}".replace("/", "-"), kind="answer", turn=turn, text=words)
                )

    async def _harm(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(self._dice.uniform(0.5, 6.0))
            agents = [turn for turn, agent in await self._open() if not agent.startswith(("person", "role", "team"))]
            what = self._dice.choice(["stop", "interrupt", "guide"])
            message = stop()
            if what != "stop":
                if not agents:
                    continue
                turn = self._dice.choice(agents)
                message = interruption(turn) if what == "interrupt" else guidance("Mind the tests", turn)
            if await self._say(message) == "accepted":
                self.seen[what] += 1


async def insist(work: Callable[[], Awaitable[object]]) -> RunExit:
    """Do *work*, again while the server is away."""
    while True:
        try:
            return await work()  # type: ignore[return-value]
        except (RPCError, ClusterFailed):
            await asyncio.sleep(1)


def play(
    folder: Path,
    *,
    runs: int,
    kills: int,
    harms: int,
    ticks: int,
    seed: int,
    links: int,
    within: float,
    early: bool = True,
) -> list[str]:
    """Have *runs* runs be harmed, and nodes and the server be killed *kills* times; return what is wrong."""
    ledger, began, dice = folder / "ledger", time.monotonic(), random.Random(seed)
    ledger.touch()
    plans = {f"mix-{os.getpid()}-{seed}-{k}": Work(seed + k, early).plan() for k in range(runs)}
    seen: Counter[str] = Counter()

    async def expected() -> dict[str, list[tuple[str, ...]]]:
        found, gate = dict[str, list[tuple[str, ...]]](), asyncio.Semaphore(4)

        async def one(run: str, plan: Plan) -> None:
            async with gate:
                found[run] = await alone(plan, run, folder / "alone")

        await asyncio.gather(*(one(run, plan) for run, plan in plans.items()))
        return found

    async def main(url: str, nodes: "Nodes", temporal: Server) -> dict[str, tuple[RunExit, list[RunRecord]]]:
        found = {}
        async with connected(ClusterAddress.parse(url), MsgspecConverter) as (client, export):
            driven = [
                Driven(client, export, run, plan, random.Random(f"harm {seed + k}"))
                for k, (run, plan) in enumerate(plans.items())
            ]
            beside = [asyncio.create_task(one) for one in (nodes.killed(kills, temporal, dice), nodes.keep_up())]
            ending = {one.run: asyncio.create_task(one.to_its_end(harms, links)) for one in driven}
            await asyncio.wait(ending.values(), timeout=within)
            for one in beside:
                one.cancel()
            for run, task in ending.items():
                if task.done():
                    found[run] = task.result(), list(await export.load(run))
                else:
                    task.cancel()
            seen.update(sum((one.seen for one in driven), Counter()))
        return found

    with environment(LEDGER=str(folder / "ledger-alone"), TICKS="0"):
        alone_ends = asyncio.run(expected())
    with contextlib.ExitStack() as stack:
        temporal = stack.enter_context(server(folder))
        url = f"{temporal.url}?export={folder / 'export'}"
        stack.enter_context(environment(LEDGER=str(ledger), TICKS=str(ticks)))
        nodes = Nodes(folder, url, stack)
        found = asyncio.run(main(url, nodes, temporal))
        seen.update(nodes.seen)
        wrong = [f"{run}: its agent is left" for run in plans if any_alive(f"{run}/", ())]
    wrong += repeated([line.split() for line in ledger.read_text().splitlines()])
    wrong += [f"{run} has not ended" for run in plans if run not in found]
    turns = 0
    for run, (left, records) in found.items():
        here, there = alone_ends[run], ends(records)
        turns += len([one for one in here if one[1] != "ended"])
        wrong += [f"{run}: {left.status} {left.reason}"] if ("", "ended", left.status) not in here else []
        wrong += [f"{run}: {' '.join(one)}: only alone" for one in here if one not in there]
        wrong += [f"{run}: {' '.join(one)}: only there" for one in there if one not in here]
    print(
        f"{runs} runs, {turns} ends of turns and events compared, {dict(sorted(seen.items()))} in "
        f"{time.monotonic() - began:.0f} s: {len(wrong)} wrong"
    )
    return wrong


class Nodes:
    """The nodes, which are killed and start again."""

    def __init__(self, folder: Path, url: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._url, self._stack, self.seen = folder, url, stack, Counter[str]()
        self._processes: dict[str, Popen[bytes]] = {}
        for name in NODES:
            self._start(name)

    def _start(self, name: str) -> None:
        words = (self._folder, self._url, "--release", "mixed")
        self._processes[name] = self._stack.enter_context(serving(*words, name=name))

    async def keep_up(self) -> None:
        """Start nodes again that have ended by themselves, as one that starts while the server is away does."""
        while True:
            await asyncio.sleep(1)
            for name in NODES:
                if self._processes[name].poll() is not None:
                    self._start(name)

    async def killed(self, times: int, temporal: Server, dice: random.Random) -> None:
        for k in range(times):
            await asyncio.sleep(dice.uniform(3.0, 9.0))
            if k % 6 == 5:
                self.seen["server killed"] += 1
                temporal.kill()
                await asyncio.sleep(dice.uniform(0.0, 3.0))
                await asyncio.to_thread(temporal.start)
                continue
            self.seen["node killed"] += 1
            self._processes[dice.choice(NODES)].kill()


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--harms", type=int, default=3, help="what happens to each run at most")
    parser.add_argument("--ticks", type=int, default=4)
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
