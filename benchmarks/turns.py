"""The cost of a run per turn, beside `asyncio.create_task` + `await` of the same stub.

Chain and fan-out of 100 and 10,000 turns, with the journal in memory and durable on disk; the durable chain beside one
bare `write` + `fdatasync` a turn; the resume of a run of 10,000 turns. Each figure is the median of several rounds in
which all sides take turns.

    python benchmarks/turns.py
"""

import argparse
import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from coterie.agents.backends.base import NO_ABILITIES, Abilities, Answer, AttemptRef, OnEvent, Request, Unknown
from coterie.base.clock import SystemClock
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.kinds import kind_of
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptLaunched
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup

ANSWER = Answer(text="done")


class Stub:
    """A backend that answers at once."""

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        return CompletedSession(ANSWER)

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None: ...

    async def close(self) -> None: ...


async def stub() -> Answer:
    return ANSWER


def chain(n: int) -> Plan:
    names = [f"a{i}" for i in range(n)]
    groups = tuple(ArrowGroup(source=a, targets=(b,)) for a, b in pairwise(names))
    return plan(names, groups)


def fan_out(n: int) -> Plan:
    middle = [f"b{i}" for i in range(n - 2)]
    groups = (
        ArrowGroup(source="a", targets=tuple(middle)),
        *(ArrowGroup(source=name, targets=("z",)) for name in middle),
    )
    return plan(["a", *middle, "z"], groups)


def plan(names: list[str], groups: tuple[ArrowGroup, ...]) -> Plan:
    agents = {name: AgentPlan(name=name, backend="stub") for name in names}
    return Plan(name="bench", agents=agents, coordination=FlowPlan(mentions=tuple(names), groups=groups))


def shell(store: object, limits: Limits | None = None) -> Shell:
    return Shell(
        RunPorts(store=store, turns=Stub(), clock=SystemClock(), make_kind=kind_of),
        OwnerOptions(limits=limits or Limits(max_parallel=None)),
    )


def timed(run: Callable[[], object]) -> float:
    gc.collect()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def bare(n: int, *, parallel: bool) -> float:
    async def one_by_one() -> None:
        for _ in range(n):
            await asyncio.create_task(stub())

    async def at_once() -> None:
        for task in [asyncio.create_task(stub()) for _ in range(n)]:
            await task

    return timed(lambda: asyncio.run(at_once() if parallel else one_by_one())) / n


def run(team: Plan, store: object) -> None:
    async def main() -> None:  # what it gives back stays here: `asyncio.run` would have it as a text, twice
        await shell(store).start("r", team, {"prompt": "go"})

    asyncio.run(main())


def in_memory(team: Plan, n: int) -> float:
    return timed(lambda: run(team, MemoryStore())) / n


def durable(team: Plan, n: int, folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as root:
        return timed(lambda: run(team, JsonlStore(Path(root)))) / n


def bare_sync(n: int, folder: Path) -> float:
    line = b"x" * 300 + b"\n"
    with tempfile.NamedTemporaryFile(dir=folder) as file:

        def write() -> None:
            for _ in range(n):
                os.write(file.fileno(), line)
                os.fdatasync(file.fileno())

        return timed(write) / n


def rounds(count: int, *sides: Callable[[], float]) -> list[float]:
    got = [[side() for side in sides] for _ in range(count + 1)][1:]
    return [statistics.median(column) for column in zip(*got, strict=True)]


def resumed(team: Plan, n: int, folder: Path) -> float:
    """Seconds from opening the journal of a run of *n* turns, all but one done, to its end."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        asyncio.run(shell(JsonlStore(Path(root)), Limits(max_turns=n - 1, max_parallel=None)).start("r", team, {}))
        return timed(lambda: asyncio.run(shell(JsonlStore(Path(root))).resume("r", team)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where durable journals are written")
    given = parser.parse_args()
    for shape, make in (("chain", chain), ("fan-out", fan_out)):
        cost = {n: memory_beside_tasks(shape, make(n), n, given.rounds) for n in (100, 10_000)}
        print(f"{shape:8} cost per turn at 10,000 / at 100 = {cost[10_000] / cost[100]:.2f} (≤ 1.3)")
    for n in (100, 1_000):
        team = fan_out(n)
        memory, disk = rounds(given.rounds * 2, partial(in_memory, team, n), partial(durable, team, n, given.folder))
        print(f"fan-out  {n:6}  memory {us(memory)}  durable {us(disk)} a turn = {disk / memory:.2f}x (≤ 2)")
    team = chain(1_000)
    sync, disk = rounds(  # a sync takes 130 to 230 µs: more rounds
        given.rounds * 5, partial(bare_sync, 1_000, given.folder), partial(durable, team, 1_000, given.folder)
    )
    print(f"chain     1,000  write+fdatasync {us(sync)}  durable {us(disk)} a turn = {disk / sync:.2f}x (≤ 1.5)")
    [seconds] = rounds(2, partial(resumed, chain(10_000), 10_000, given.folder))
    print(f"resume of a run of 10,000 turns: {seconds:.2f} s (≤ 1)")


def memory_beside_tasks(shape: str, team: Plan, n: int, count: int) -> float:
    """Print a run's cost per turn beside tasks that are awaited one by one, and all at once; return it."""
    count = count * 3 if n == 100 else count
    one, at_once, memory = rounds(
        count, partial(bare, n, parallel=False), partial(bare, n, parallel=True), partial(in_memory, team, n)
    )
    print(
        f"{shape:8} {n:6}  create_task+await {us(one)}, all at once {us(at_once)}  memory {us(memory)} a turn"
        f" = {memory / one:5.2f}x (≤ 12), {memory / at_once:5.2f}x of all at once"
    )
    return memory


def us(seconds: float) -> str:
    return f"{seconds * 1e6:6.1f} µs"


if __name__ == "__main__":
    main()
