"""The time that `coterie runs` takes beside the number of runs that it does not show.

    python benchmarks/run_list.py [RUNS]

Makes copies of one small run, in this directory and in another, and measures the list of the newest 20 beside the same
list where there are no others.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from coterie.execution.runs import index
from coterie.execution.runs.statistics import newest

TEAM = """
topology small : [pipeline] {
  agent a { extensions { coterie { command: ["true"] } } }
  agent b { extensions { coterie { command: ["true"] } } }
  flow { a -> b }
}
"""
SHOWN = 20
COTERIE = str(Path(sys.executable).with_name("coterie"))


def make(folder: Path, count: int) -> Path:
    """Make *count* runs in *folder* and return its state directory."""
    folder.mkdir()
    (folder / "team.at").write_text(TEAM)
    subprocess.run([COTERIE, "run", "team.at"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    [entry] = index.newest(folder / ".coterie")
    journal = Path(entry.folder, "journal.jsonl").read_bytes()
    for number in range(1, count):
        place = folder / ".coterie" / "runs" / f"run-{number}"
        place.mkdir()
        (place / "journal.jsonl").write_bytes(journal.replace(entry.run.encode(), place.name.encode()))
        index.add(index.Entry(run=place.name, folder=str(place), topology="small", started=entry.started + number))
    return folder / ".coterie"


def median(work: Callable[[], object], rounds: int = 9) -> float:
    """The median time of *work*, in milliseconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def list_newest(state_dir: Path) -> None:
    """List the newest runs in this process."""
    assert len(list(newest(state_dir, SHOWN))) == SHOWN


def list_by_command(state_dir: Path) -> None:
    """List them by the command."""
    subprocess.run([COTERIE, "runs", "--state-dir", str(state_dir)], check=True, capture_output=True)


def main(count: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        base = Path(home).resolve()
        for number in (SHOWN, count):
            place = make(base / str(number), number)
            listed = median(partial(list_newest, place))
            whole = median(partial(list_by_command, place))
            print(f"{number:7,} runs here, {SHOWN} shown: {listed:7.1f} ms, as a command {whole:7.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
