"""What a sandbox adds to the start of a process: no sandbox, bubblewrap and Landlock in one run.

Each round starts `true` once in each way, in a work tree of a git repository, and waits for its end. The time contains
the policy, which looks at the home and the repository, and the removal of the attempt's files.

    python benchmarks/sandbox_spawn.py
"""

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from coterie.agents.backends.attempt import ProcessEnvironment, prepared
from coterie.agents.backends.base import Request
from coterie.agents.backends.child import spawn as spawn_child
from coterie.agents.backends.sandbox import choice
from coterie.team.planning.plan import AgentPlan


def spawn(top: Path, wanted: str) -> float:
    """Seconds to confine, start and end `true`."""
    agent = AgentPlan(name="a", backend="command", options={"sandbox": wanted}, argv=("true",))
    root, folder = top / ".coterie" / "runs" / "r", top / ".coterie" / "runs" / "r" / "turns" / "a#1.1"
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", root=root, folder=folder, cwd=top)
    with prepared(request) as environment:
        began = time.perf_counter()
        asyncio.run(started(environment))
    return time.perf_counter() - began


async def started(environment: ProcessEnvironment) -> None:
    child = await spawn_child(
        environment.confine(["true"]),
        stdin=environment.stdin,
        env=environment.env,
        cwd=environment.cwd,
        marker="benchmark/a#1.1",
        on_event=lambda event: None,
        on_output=lambda number, data: None,
    )
    await child.finished
    await child.end()
    child.close()
    assert child.status == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    ways = {"none": None, **{one.NAME: one for one in choice.IMPLEMENTATIONS if not choice.probe(one.NAME)}}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve()
        subprocess.run(["git", "init", "-q"], cwd=top, check=True)
        for _ in range(rounds):
            for name, one in ways.items():
                if one is not None:
                    choice.IMPLEMENTATIONS = (one,)
                seconds[name].append(spawn(top, "off" if one is None else "auto"))
    bare = statistics.median(seconds["none"])
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        worst = sorted(taken)[int(len(taken) * 0.95)]
        print(f"{name:>9}: {1000 * middle:6.1f} ms (95 %: {1000 * worst:.1f} ms), {middle / bare:.1f} × none")


if __name__ == "__main__":
    main()
