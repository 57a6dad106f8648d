"""The time that `coterie` takes to answer, beside `python -c pass`, and to start its first agent.

    python benchmarks/startup.py [ROUNDS]

Prints the median of each and its ratio to the bare interpreter, measured in turns so that a busy machine affects all
alike. `run to first agent` is from the call of `coterie run` until the agent's process reads the clock.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TEAM = """
topology startup : [pipeline] {
  agent clock { extensions { coterie { command: ["date", "+%s.%N"] } } }
  agent end { extensions { coterie { command: ["true"] } } }
  flow { clock -> end }
}
"""
COTERIE = [str(Path(sys.executable).with_name("coterie"))]
TARGETS = {"coterie --version": "at most 2 x", "coterie --help": "at most 15 x", "run to first agent": "at most 300 ms"}


def took(*command: str) -> float:
    """Seconds that *command* takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def to_first_agent(folder: Path) -> float:
    """Seconds from calling `coterie run` until its first agent's process reads the clock."""
    (folder / "team.at").write_text(TEAM)
    began = time.time()
    subprocess.run([*COTERIE, "run", "team.at"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shown = subprocess.run(
        [*COTERIE, "inspect", "last", "turn", "clock#1", "--json"], cwd=folder, check=True, capture_output=True
    )
    return float(json.loads(shown.stdout)["text"]) - began


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        measures: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: took(sys.executable, "-c", "pass"),
            "coterie --version": lambda: took(*COTERIE, "--version"),
            "coterie --help": lambda: took(*COTERIE, "--help"),
            "run to first agent": lambda: to_first_agent(Path(folder)),
        }
        times: dict[str, list[float]] = {name: [] for name in measures}
        for _ in range(rounds):
            for name, measure in measures.items():
                times[name].append(measure())
    bare = statistics.median(times["python -c pass"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:20} {median * 1000:7.1f} ms  {median / bare:5.2f} x  {TARGETS.get(name, '')}".rstrip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
