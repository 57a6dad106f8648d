"""The cost of writing a run as rows: a pattern with its journal in memory, with and without rows.

A call of an ensemble makes a result and a new state of its instance; a call of a pipeline also a message. `run` lasts
until the run is over, while rows are written in the background; `written` until the last row is in the SQLite file. The
agents answer at once, so the writing gets no pause. Each figure is the median of several rounds in which all sides take
turns.

    python benchmarks/rows.py
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from turns import Stub, in_memory, rounds, timed, us

from coterie.base.clock import SystemClock
from coterie.execution.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import Observe, kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record
from coterie.history.journal.runs import history
from coterie.patterns.rows.fold import RowFold
from coterie.patterns.rows.projection import Projection
from coterie.patterns.rows.tables import upgrade
from coterie.team.planning.plan import Limits, Plan
from patterns import ensemble, of

CASES: dict[str, tuple[Plan, int]] = {
    "pipeline of 10": (of("pipeline", *(f"s{k}" for k in range(10))), 10),
    "pipeline of 100": (of("pipeline", *(f"s{k}" for k in range(100))), 100),
    "ensemble of 1,000": (ensemble(1_000), 1_000),
}


async def _play(plan: Plan, store: MemoryStore, observe: Observe | None = None) -> None:
    limits = Limits(max_parallel=None)
    shell = Shell(
        RunPorts(store=store, turns=Stub(), clock=SystemClock(), make_kind=kind_of),
        OwnerOptions(limits=limits or Limits()),
        Observers(observe=[observe] if observe is not None else []),
    )
    await shell.start("r", plan, {"prompt": "go"})


def with_rows(plan: Plan, n: int, folder: Path) -> tuple[float, float]:
    """Seconds a call of a run of *n* calls whose rows are written behind it: until it is over, and until they are."""

    async def main(path: Path) -> tuple[float, float]:
        await upgrade(path)
        async with Projection(path) as rows:
            await rows.flush()
            began = time.perf_counter()
            await _play(plan, MemoryStore(), rows.observe)
            over = time.perf_counter() - began
            await rows.flush()
            return over / n, (time.perf_counter() - began) / n

    with tempfile.TemporaryDirectory(dir=folder) as root:
        return asyncio.run(main(Path(root) / "rows.sqlite"))


def news_of(plan: Plan) -> list[tuple[str, Record]]:
    """The records of a whole run."""
    store = MemoryStore()
    asyncio.run(_play(plan, store))
    return list(history(store.read, "r"))


def told(news: list[tuple[str, Record]], n: int) -> float:
    """Seconds a call to turn records into rows."""

    def tell() -> None:
        fold = RowFold()
        for run, record in news:
            for _ in fold.apply(run, record):
                pass

    return timed(tell) / n


def observed(news: list[tuple[str, Record]], folder: Path) -> float:
    """Seconds to take note of a record."""
    rows = Projection(folder / "never.sqlite")

    def observe() -> None:
        for run, record in news:
            rows.observe(run, record)

    return timed(observe) / len(news)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the databases are written")
    given = parser.parse_args()
    for name, (plan, n) in CASES.items():
        news = news_of(plan)
        both = [with_rows(plan, n, given.folder) for _ in range(given.rounds)]
        run, written = (statistics.median(column) for column in zip(*both, strict=True))
        memory, fold, note = rounds(
            given.rounds, partial(in_memory, plan, n), partial(told, news, n), partial(observed, news, given.folder)
        )
        print(
            f"{name:18} without rows {us(memory)} a call  with rows: run {us(run)}, written {us(written)}"
            f"  (told as rows {us(fold)} a call, noted {us(note)} a record)"
        )


if __name__ == "__main__":
    main()
