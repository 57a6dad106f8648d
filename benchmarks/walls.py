"""What confinement costs beside another checkout: a spawn, a turn and a gate, of both in alternation.

    python benchmarks/walls.py --beside OTHER/.venv/bin/python [--rounds 20]

*OTHER* is a checkout of the commit to compare with, installed in an environment of its own. Each round measures this
one and the other one after the other. Processor time (user and system, children included) is the measure on a machine
that others use, and the least of the rounds is the value that they disturb least.

- spawn: confine, start and end `true` in a repository, in a process that has done it before.
- turn: one more confined agent, which runs `true`, in a flow of `coterie run`; the least of long runs, less that of
  short ones.
- gate: one more gate, `true`, of a loop's turn in `coterie run`; likewise.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MORE = 10
"""How many turns, or gates, the longer of two runs has more; their difference is divided by it."""
SHARES = ("spawn", "turn", "gate")
AGENT = 'cat > /dev/null; "$AUTOLOOP_BIN" emit done\n'
TOPOLOGY = 'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Work."\n'
SETTINGS = """
event_loop.max_iterations = 1
event_loop.gates = [{gates}]
backend.kind = 'command'
backend.command = '/bin/sh'
backend.args = ['{top}/agent.sh']
backend.prompt_mode = 'stdin'
backend.sandbox = 'auto'
"""


def used() -> tuple[float, float]:
    """The processor time of this process and its ended children, and the wall time, in milliseconds."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return 1000 * sum(one.ru_utime + one.ru_stime for one in spent), 1000 * time.perf_counter()


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """What *work* uses: processor time and wall time, in milliseconds."""
    before = used()
    work()
    after = used()
    return after[0] - before[0], after[1] - before[1]


def prepare(top: Path) -> None:
    """Make a repository with flows and loops of both lengths."""
    work = top / "work"
    work.mkdir()
    (top / "agent.sh").write_text(AGENT)
    for count in (1, 1 + MORE):
        names = [f"a{n}" for n in range(count)]
        agents = "".join(
            f'  agent {name} {{ extensions {{ coterie {{ command: ["true"] sandbox: auto }} }} }}\n' for name in names
        )
        flow = f"topology t : [pipeline] {{\n{agents}  flow {{ {' -> '.join(names)} }}\n}}\n"
        (work / f"turns{count}.at").write_text(flow)
        (loop := work / f"gates{count}").mkdir()
        (loop / "topology.toml").write_text(TOPOLOGY)
        gates = ", ".join(f"['true', '{n}']" for n in range(count))
        (loop / "autoloops.toml").write_text(SETTINGS.format(top=top, gates=gates))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], cwd=work, check=True)


def runs(python: str, top: Path, name: str) -> list[tuple[float, float]]:
    """What `coterie run` with one turn, or gate, uses, and what it uses with more."""
    found = []
    for count in (1, 1 + MORE):
        target = f"turns{count}.at" if name == "turn" else f"gates{count}"
        words = [python, "-P", "-m", "coterie", "run", target, "go"]
        found.append(
            spent(lambda words=words: subprocess.run(words, cwd=top / "work", check=True, capture_output=True))
        )
    return found


def load(name: str) -> Any:
    """The module *name* of coterie, in the storey in which it is now or in the earlier layout."""
    for storey in ("agents.", "team.", ""):
        with suppress(ModuleNotFoundError):
            return import_module(f"coterie.{storey}{name}")
    raise ModuleNotFoundError(name)


def serve(top: Path) -> None:
    """Spawn `true` confined for each line that is read, and print what that took."""
    attempt, base, plan = (load(name) for name in ("backends.attempt", "backends.base", "planning.plan"))
    agent = plan.AgentPlan(name="a", backend="command", options={"sandbox": "auto"}, argv=("true",))
    root = top / "work" / ".coterie" / "runs" / "r"
    request = base.Request(
        run="r", turn="a#1", attempt=1, agent=agent, prompt="", root=root, folder=root / "turns" / "a#1.1",
        cwd=top / "work",
    )  # fmt: skip

    def spawn() -> None:
        with attempt.prepared(request) as environment:
            subprocess.run(environment.confine(["true"]), env=environment.env, cwd=environment.cwd, check=True)

    spawn()
    for _ in sys.stdin:
        print(*spent(spawn), flush=True)


class Side:
    """One of the two environments.

    Args:
        top: The folder of its repository and its home.
    """

    def __init__(self, python: str, top: Path) -> None:
        self.python, self.top = python, top
        self.found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in SHARES}
        prepare(top)
        words = [python, "-P", __file__, "--serve", str(top)]
        self.spawner = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, name: str) -> None:
        """Take one figure of the share *name*."""
        if name != "spawn":
            self.found[name].append(runs(self.python, self.top, name))
            return
        assert self.spawner.stdin is not None
        assert self.spawner.stdout is not None
        self.spawner.stdin.write("\n")
        self.spawner.stdin.flush()
        processor, wall = self.spawner.stdout.readline().split()
        self.found[name].append([(float(processor), float(wall))])

    def least(self, name: str, which: int) -> float:
        """The least processor time (*which* 0) or wall time of the share *name*."""
        least = [min(times[which] for times in column) for column in zip(*self.found[name], strict=True)]
        return least[0] if name == "spawn" else (least[1] - least[0]) / MORE


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--beside", help="Python of the other environment", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--serve", type=Path)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve()
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            os.environ[name] = str(top / "home")
        (top / "home").mkdir()
        sides = []
        for name, python in (("here", sys.executable), ("beside", options.beside)):
            (top / name).mkdir()
            sides.append(Side(python, top / name))
        for number in range(options.rounds):
            for name in SHARES:
                if name == "spawn" or number % 4 == 0:
                    for side in sides if number % 8 else sides[::-1]:
                        side.measure(name)
        for name in SHARES:
            for which, unit in enumerate(("processor", "wall")):
                here, beside = (side.least(name, which) for side in sides)
                more = f"{here - beside:+5.1f} ms, {here / beside:.2f} times"
                print(f"{name:>5}, {unit:>9}: {here:6.1f} ms, {beside:6.1f} ms beside: {more}")
        for side in sides:
            side.spawner.terminate()
            side.spawner.wait()


if __name__ == "__main__":
    main()
