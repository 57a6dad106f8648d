"""A program that runs teams for a long time, and many at once: nothing grows."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import value_agents as values
from held import held

import coterie
from coterie import agent, flow

PROGRAM = """
import asyncio, sys
from test_runs_for_long import of_many
asyncio.run(of_many(int(sys.argv[1])))
"""


def team() -> coterie.Topology:
    """A function in the loop, one in a thread, and a flow in the flow."""
    inner = flow("inner", [keep := agent("keep", values.sees_kind)], result=keep)
    first, desk, last = agent(values.classify), agent("desk", inner), agent(values.counts)
    return flow("long", [first, desk, last], [first >> desk >> last], result=last)


async def of_many(count: int) -> None:
    """Run a team *count* times, and print what is held after each tenth, and the processor time of that tenth."""
    built, found = team(), []
    for _ in range(10):
        began = time.process_time()
        for _ in range(count // 10):
            outcome = await coterie.run(built, "tea", limits=coterie.Limits(max_turns=9))
            assert outcome.result == 3, outcome
        found.append({**held(), "seconds": time.process_time() - began})
    print(json.dumps(found))


def tenths(count: int, folder: Path) -> list[dict[str, float]]:
    """What a process of its own held after each tenth of *count* runs."""
    paths = [str(Path(values.__file__).parent), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, float]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("count", "share"),
    [pytest.param(200, 0.02, marks=pytest.mark.slow), pytest.param(5_000, 0.005, marks=pytest.mark.long)],
)
def test_runs_one_after_another_leave_nothing(count: int, share: float, tmp_path: Path) -> None:
    """After the first tenth, no run adds memory, tasks, threads or descriptors."""
    found = tenths(count, tmp_path)
    second, last = found[1], found[-1]

    for what in ("descriptors", "tasks", "threads"):
        assert last[what] <= second[what], found
    assert last["blocks"] - second["blocks"] <= share * second["blocks"], found


@pytest.mark.slow
def test_200_runs_at_once_end_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its result; what they opened is closed."""
    monkeypatch.chdir(tmp_path)

    async def at_once() -> tuple[dict[str, float], dict[str, float]]:
        built = team()
        await coterie.run(built, "tea")
        before = held()
        outcomes = await asyncio.gather(*(coterie.run(built, "tea") for _ in range(200)))
        assert [one.result for one in outcomes] == [3] * 200
        assert len({one.run for one in outcomes}) == 200
        return before, held()

    before, after = asyncio.run(at_once())
    assert after["descriptors"] <= before["descriptors"] + 1
    assert after["tasks"] == before["tasks"]
