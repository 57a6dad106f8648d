"""The processor time until `coterie` answers, beside `python -c pass`, and until its first agent starts.

    python benchmarks/startup.py [ROUNDS] [SRC …]

Prints the least of each and its ratio to the bare interpreter, in turns for each *SRC*, a folder `src` of a checkout:
by default that of the installed package. Processor time hardly depends on what else the machine does. That of a run
is the time of its process when the agent's program begins, from `/proc`, so that this needs Linux.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TEAM = """
topology startup : [pipeline] {{
  agent clock {{ extensions {{ coterie {{ command: ["sh", "-c", "cat /proc/$PPID/task/*/schedstat > {out}"] }} }} }}
  agent end {{ extensions {{ coterie {{ command: ["true"] }} }} }}
  flow {{ clock -> end }}
}}
"""
COTERIE = Path(sys.executable).with_name("coterie")
TARGETS = {"coterie --version": 2, "coterie --help": 7, "run to first agent": 14}
"""The largest ratio to the bare interpreter."""


def took(environment: dict[str, str], *command: str) -> float:
    """Seconds of processor time that *command* takes."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=tempfile.gettempdir()
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


def to_first_agent(environment: dict[str, str]) -> float:
    """Seconds of processor time of `coterie run` until its first agent's program begins."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        (Path(folder) / "team.at").write_text(TEAM.format(out=out))
        subprocess.run([COTERIE, "run", "team.at"], cwd=folder, check=True, capture_output=True, env=environment)
        return sum(int(line.split()[0]) for line in out.read_text().splitlines()) / 1e9


def main(rounds: int, sources: list[str]) -> None:
    """Measure and print."""
    least: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as state:
        for _ in range(rounds + 1):  # the first one writes bytecode
            for source in sources:
                environment = os.environ | {"XDG_STATE_HOME": state, "PYTHONDONTWRITEBYTECODE": ""}
                environment |= {"PYTHONPATH": source} if source else {}
                found = {
                    "python -c pass": took(environment, sys.executable, "-c", "pass"),
                    "coterie --version": took(environment, str(COTERIE), "--version"),
                    "coterie --help": took(environment, str(COTERIE), "--help"),
                    "coterie run -h": took(environment, str(COTERIE), "run", "-h"),
                    "coterie runs": took(environment, str(COTERIE), "runs"),
                    "run to first agent": to_first_agent(environment),
                }
                for name, seconds in found.items():
                    least[source, name] = min(seconds, least.get((source, name), seconds))
    for (source, name), seconds in least.items():
        ratio = seconds / min(one for (_, other), one in least.items() if other == "python -c pass")
        target = f"at most {TARGETS[name]} x" if name in TARGETS else ""
        print(f"{source:30} {name:20} {seconds * 1000:7.1f} ms  {ratio:5.1f} x  {target}".strip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15, sys.argv[2:] or [""])
