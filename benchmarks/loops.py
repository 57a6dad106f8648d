"""The cost of an iteration of a loop above a bare spawn of the same command, and whether it grows.

A loop of 1,000 iterations whose agent is a program that prints 5 kB: the cost of the last hundred iterations beside
that of the first, the growth of memory and journal, and bare spawns of the same command with its output read.

    python benchmarks/loops.py --folder /path/on/the/disk
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from coterie.execution.runs import launch
from coterie.history.journal import records as r
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven

SETTINGS = """
event_loop.max_iterations = {n}
backend.kind = "command"
backend.command = "sh"
backend.args = ["-c", "head -c 3700 /dev/urandom | base64"]
review.enabled = false
"""
COMMAND = ("sh", "-c", "head -c 3700 /dev/urandom | base64")
PAGE = os.sysconf("SC_PAGESIZE")


def spawned(n: int) -> float:
    """Seconds for one spawn of the command, its output read."""
    begin = time.perf_counter()
    for _ in range(n):
        subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return (time.perf_counter() - begin) / n


def processor() -> float:
    """Seconds of processor time that this process and its children have used, the spawner and its programs included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15] for pid in living]
    own = sum(one.ru_utime + one.ru_stime for one in used)
    return own + sum(sum(map(int, each)) for each in ticks) / os.sysconf("SC_CLK_TCK")


def resident() -> int:
    """Bytes that this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def run(n: int, folder: Path) -> None:
    """Run the loop, and print what it took."""
    (folder / "loop").mkdir()
    (folder / "loop" / "autoloops.toml").write_text(SETTINGS.format(n=n))
    os.chdir(folder)
    plan, _ = plan_for_a_run(str(folder / "loop"), LoopGiven())
    began: list[float] = []
    used: list[float] = []
    held: list[int] = []

    def observe(name: str, record: r.Record) -> None:
        if isinstance(record, r.IterationStarted):
            began.append(time.perf_counter())
            used.append(processor())
            held.append(resident())

    before = processor()
    bare = spawned(n // 10)
    bare_used = (processor() - before) / (n // 10)
    outcome = asyncio.run(launch.start(plan, {"prompt": "go"}, state_dir=folder / "state", observe=observe))
    bare = min(bare, spawned(n // 10))
    assert outcome.iterations == n, outcome
    took = [after - before for before, after in pairwise(began)]
    tenth = n // 10
    first, last = statistics.median(took[:tenth]), statistics.median(took[-tenth:])
    size = (folder / "state" / "runs" / outcome.run / "journal.jsonl").stat().st_size
    in_processor = (used[-1] - used[tenth]) / (n - 1 - tenth)
    print(f"processor time, in bare spawns {in_processor / bare_used:8.2f}")
    print(f"bare spawn                     {bare * 1e3:8.2f} ms")
    print(f"iteration, median              {statistics.median(took) * 1e3:8.2f} ms")
    print(f"above the bare spawn           {(statistics.median(took) - bare) * 1e3:8.2f} ms")
    print(f"last tenth beside the first    {last / first:8.2f}")
    print(f"memory, a tenth in and at end  {held[tenth] / 1e6:8.1f} MB {held[-1] / 1e6:8.1f} MB")
    print(f"journal, an iteration          {size / n / 1e3:8.2f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured; a temporary one")
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        home = os.getcwd()
        try:
            run(options.iterations, Path(folder))
        finally:
            os.chdir(home)


if __name__ == "__main__":
    main()
