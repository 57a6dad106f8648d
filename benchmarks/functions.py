"""A turn of a function of Python, with its journal in memory, beside `create_task` + `await` of the function.

python benchmarks/functions.py
"""

import asyncio
import statistics
import time

import functions  # this module, by the name under which an actor finds the function

import coterie
from coterie import agent, flow
from coterie.base.clock import SystemClock
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.backend_setup import local_turns
from coterie.history.journal.memory import MemoryStore
from coterie.team.planning.plan import Limits, Plan

TURNS = 1000


async def step(prompt: str) -> int:
    return len(prompt)


def bare() -> float:
    async def one_by_one() -> None:
        for _ in range(TURNS):
            await asyncio.create_task(step("tea"))

    return timed(one_by_one())


def of_turns(plan: Plan) -> float:
    turns = local_turns()
    shell = Shell(
        RunPorts(store=MemoryStore(), turns=turns, clock=SystemClock(), make_kind=kind_of),
        OwnerOptions(limits=Limits(max_parallel=None)),
    )

    async def run() -> None:
        ended = await shell.start("r", plan, {"prompt": "tea"})
        assert ended.usage.turns == TURNS, ended
        await turns.close()

    return timed(run())


def timed(main: "asyncio._CoroutineLike[None]") -> float:
    begin = time.perf_counter()
    asyncio.run(main)  # type: ignore[arg-type]
    return (time.perf_counter() - begin) / TURNS


def main() -> None:
    one = agent(functions.step)
    plan = coterie.plan(flow("chain", [one], [(one >> one).when(one.result == 3).max(TURNS - 1)]))
    rounds = [(bare(), of_turns(plan)) for _ in range(8)][1:]
    limit, turn = (statistics.median(side) * 1e6 for side in zip(*rounds, strict=True))
    print(f"create_task+await {limit:.1f} µs, a turn of the function {turn:.0f} µs = {turn / limit:.1f}x")


if __name__ == "__main__":
    main()
