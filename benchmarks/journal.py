"""The cost of durability, beside the bare system calls.

* a chain: one task appends a record and awaits it, step by step, beside one `write` + `fdatasync` a step; with nothing
  else to do, and with 60 µs of other work a step on both sides;
* 50 writers: tasks that each append a record and await it, in one journal, beside batches of 50 encoded lines, each
  batch written and synced once.

Both sides take turns in every round; the figures are medians over the rounds, the ratio that of each round's pair.

    python benchmarks/journal.py [--rounds 9] [--folder where-to-write]
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import TurnFinished

STEPS = 400
WRITERS = 50
EACH = 100
OTHER_WORK = 60e-6


def record(seq: int) -> TurnFinished:
    return TurnFinished(seq=seq, at=1.8e9 + seq, turn="reviewer#12", attempt=1, text="as agreed", outputs={"ok": True})


def work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def bare_chain(folder: Path, other: float) -> float:
    """Seconds per step of `write` + `fdatasync`."""
    line = msgspec.json.encode(record(1)) + b"\n"
    fd = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    began = time.perf_counter()
    for _ in range(STEPS):
        work(other)
        os.write(fd, line)
        os.fdatasync(fd)
    took = time.perf_counter() - began
    os.close(fd)
    return took / STEPS


def chain(folder: Path, other: float) -> float:
    """Seconds per step of `append` + `durable`."""

    async def main() -> float:
        writer = JsonlStore(folder).claim("chain")
        began = time.perf_counter()
        for seq in range(1, STEPS + 1):
            work(other)
            await writer.durable(writer.append([record(seq)]))
        took = time.perf_counter() - began
        await writer.close()
        return took / STEPS

    return asyncio.run(main())


def bare_batches(folder: Path) -> float:
    """Seconds per record, encoded one by one, written and synced in batches of `WRITERS`."""
    encode = msgspec.json.Encoder().encode
    fd = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    began = time.perf_counter()
    for batch in range(EACH):
        lines = [encode(record(batch * WRITERS + n)) for n in range(WRITERS)]
        os.write(fd, b"\n".join(lines) + b"\n")
        os.fdatasync(fd)
    took = time.perf_counter() - began
    os.close(fd)
    return took / (EACH * WRITERS)


def writers(folder: Path) -> float:
    """Seconds per record of `WRITERS` tasks that append and wait."""

    async def main() -> float:
        writer = JsonlStore(folder).claim("writers")

        async def one() -> None:
            for _ in range(EACH):
                await writer.durable(writer.append([record(writer.last + 1)]))

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(WRITERS)))
        took = time.perf_counter() - began
        await writer.close()
        return took / (EACH * WRITERS)

    return asyncio.run(main())


def measure(side: Callable[[Path], float], where: Path | None) -> float:
    with tempfile.TemporaryDirectory(dir=where) as folder:
        return side(Path(folder))


def compare(
    title: str, bare: Callable[[Path], float], ours: Callable[[Path], float], args: argparse.Namespace
) -> tuple[float, float]:
    """Print both sides, and return their medians in µs."""
    pairs = [(measure(bare, args.folder), measure(ours, args.folder)) for _ in range(args.rounds)]
    low, high = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{title:34} bare {low:8.1f} µs   coterie {high:8.1f} µs   {ratio:5.2f} times the time", end="")
    print(f"   {1 / ratio:5.2f} of the throughput")
    return low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where to write; default is the system's temporary folder")
    args = parser.parse_args()
    compare("chain, a step", lambda f: bare_chain(f, 0.0), lambda f: chain(f, 0.0), args)
    compare(
        "chain, 60 µs of other work a step",
        lambda f: bare_chain(f, OTHER_WORK),
        lambda f: chain(f, OTHER_WORK),
        args,
    )
    compare(f"{WRITERS} writers, a record", bare_batches, writers, args)


if __name__ == "__main__":
    main()
