"""Resuming a run ends what its dead owner left alive, and nothing else."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from bundles import bundle
from until import until

from coterie.agents.backends.processes import MARK, alive, started
from coterie.execution.runs import finalizers, index
from coterie.execution.runs.local_turns import LocalTurns


@pytest.mark.parametrize(("places", "status"), [(["here"], -15), (["here", "there"], None)])
def test_a_process_of_another_run_of_the_same_name_is_left_alone(
    tmp_path: Path, places: list[str], status: int | None
) -> None:
    """Runs that are counted have the same names in every project: `run-1` here must not end the agents of one there."""
    run = f"run-{os.getpid()}"  # no other test's processes bear its mark
    for place in places:
        folder = tmp_path / place / "runs" / run
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").touch()
        index.add(index.Entry(run=run, folder=str(folder)))
    stray = subprocess.Popen(["sleep", "60"], env=os.environ | {MARK: f"{run}/a#1.1"})
    try:
        asyncio.run(LocalTurns({}).end(run, []))

        assert stray.poll() == status
    finally:
        stray.kill()
        stray.wait()


@bundle(("rest", "said"), [("", ""), ("; exit 3", "sh ended with 3"), ("; sleep 60", "sh took longer than 0.3 s")])
def test_nothing_that_a_notification_started_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, said: str
) -> None:
    """Whether it succeeds, fails, or takes too long."""
    monkeypatch.setattr(finalizers, "NOTIFY_WITHIN", 0.3)
    pid = tmp_path / "pid"
    script = f"cat >/dev/null; sleep 60 >/dev/null 2>&1 & echo $! >{pid}{rest}"
    problem = finalizers.notify(("sh", "-c", script), {}, tmp_path, tmp_path)

    assert problem.startswith(said)
    assert bool(problem) == bool(said)
    left = int(pid.read_text())
    until(lambda: not alive(left, started(left)))
