"""What a run costs per turn, beside `asyncio.create_task` + `await` of the same stub.

Chain and fan-out of 100 and 10,000 turns, with the journal in memory and durable on disk; the durable chain beside one
bare `write` + `fdatasync` a turn. Every figure is the median of several rounds in which both sides take turns.

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
from pathlib import Path

from coterie.backends.base import Answer, OnEvent, Request
from coterie.clock import SystemClock
from coterie.journal.jsonl import JsonlStore
from coterie.journal.memory import MemoryStore
from coterie.journal.records import AttemptLaunched
from coterie.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.runs.engines import make_engine
from coterie.runs.shell import Shell
from coterie.runs.turns import Settled
from coterie.topology.model import ArrowGroup

ANSWER = Answer(text="done")


class Stub:
    """Everybody answers at once."""

    async def start(self, request: Request, on_event: OnEvent) -> Settled:
        return Settled(ANSWER)

    async def find(self, run: str, turn: str, attempt: int) -> None:
        return None

    async def reap(self, run: str, launched: Sequence[AttemptLaunched]) -> None: ...

    async def close(self) -> None: ...


async def stub() -> Answer:
    return ANSWER


def chain(n: int) -> Plan:
    names = [f"a{i}" for i in range(n)]
    groups = tuple(ArrowGroup(source=a, targets=(b,)) for a, b in zip(names, names[1:], strict=False))
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


def shell(store: object) -> Shell:
    return Shell(
        store=store,  # type: ignore[arg-type]
        turns=Stub(),
        make_engine=make_engine,
        clock=SystemClock(),
        limits=Limits(max_parallel=None),
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


def in_memory(team: Plan, n: int) -> float:
    return timed(lambda: asyncio.run(shell(MemoryStore()).start("r", team, {"prompt": "go"}))) / n


def durable(team: Plan, n: int, folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as root:
        return timed(lambda: asyncio.run(shell(JsonlStore(Path(root))).start("r", team, {"prompt": "go"}))) / n


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where durable journals are written")
    given = parser.parse_args()
    per_turn: dict[tuple[str, int], float] = {}
    for shape, make in (("chain", chain), ("fan-out", fan_out)):
        for n in (100, 10_000):
            team = make(n)
            count = given.rounds * 3 if n == 100 else given.rounds
            limit, memory = rounds(
                count, lambda n=n, s=shape: bare(n, parallel=s != "chain"), lambda n=n, t=team: in_memory(t, n)
            )
            per_turn[shape, n] = memory
            print(
                f"{shape:8} {n:6}  task+await {limit * 1e6:7.2f} µs  memory {memory * 1e6:7.2f} µs a turn"
                f"  = {memory / limit:5.2f}x (≤ 12)"
            )
        print(f"{shape:8} cost per turn at 10,000 / at 100 = {per_turn[shape, 10_000] / per_turn[shape, 100]:.2f} (≤ 1.3)")
    for n in (100, 1_000):
        team = fan_out(n)
        memory, disk = rounds(
            given.rounds * 2, lambda n=n, t=team: in_memory(t, n), lambda n=n, t=team: durable(t, n, given.folder)
        )
        print(f"fan-out  {n:6}  memory {memory * 1e6:7.2f} µs  durable {disk * 1e6:7.2f} µs a turn = {disk / memory:.2f}x (≤ 2)")
    n = 300
    team = chain(n)
    sync, disk = rounds(given.rounds, lambda: bare_sync(n, given.folder), lambda: durable(team, n, given.folder))
    print(f"chain    {n:6}  one fdatasync {sync * 1e6:7.1f} µs  durable {disk * 1e6:7.1f} µs a turn = {disk / sync:.2f}x (≤ 1.5)")


if __name__ == "__main__":
    main()
