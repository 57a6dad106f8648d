"""A turn of a function of Python beside a bare `await` of it, in memory: `python benchmarks/functions.py`."""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import coterie
from coterie import agent, flow

TURNS = 200


async def step(prompt: str) -> int:
    return len(prompt)


async def bare() -> float:
    began = time.perf_counter()
    for _ in range(TURNS):
        await asyncio.create_task(step("tea"))
    return (time.perf_counter() - began) / TURNS


def of_turns() -> float:
    """Seconds a turn of a chain of functions takes, with its journal on disk."""
    import functions  # by its name, under which an actor finds the function

    agents = [agent(functions.step) for _ in range(1)]
    one = agents[0]
    team = flow("chain", [one], [(one >> one).when(one.result == 3).max(TURNS - 1)])
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        outcome = asyncio.run(coterie.run(team, "tea", state_dir=Path(folder)))
        assert outcome.usage.turns == TURNS, outcome
        return (time.perf_counter() - began) / TURNS


def main() -> None:
    """Print the medians of alternating rounds, and their ratio."""
    rounds = [(asyncio.run(bare()), of_turns()) for _ in range(7)]
    limit, turn = (statistics.median(side) * 1e6 for side in zip(*rounds, strict=True))
    print(f"await of the function {limit:.1f} µs, turn of it {turn:.0f} µs, durable on disk: ratio {turn / limit:.1f}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
