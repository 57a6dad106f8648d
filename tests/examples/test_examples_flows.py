"""The examples of flows in Python run as their pages say."""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "flows"


def test_the_review_prints_its_typed_result(tmp_path: Path) -> None:
    """The program of the example prints a review of its own type."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "review.py"), str(FOLDER)], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Review(title=")


def test_the_example_is_short() -> None:
    """A typed review flow fits into 60 lines of code."""
    lines = (FOLDER / "review.py").read_text().partition('"""\n\n')[2].splitlines()

    assert len([line for line in lines if line.strip()]) <= 60


def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    """A user's own tests of a team run under unittest and pytest."""
    command = [sys.executable, "-m", "unittest", "discover", "-s", str(FOLDER)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_the_endpoint_streams_the_run_and_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each durable record is an event; the last is the review."""
    httpx = pytest.importorskip("httpx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    server = importlib.import_module("server")

    async def call() -> str:
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://coterie") as client:
            return str((await client.post("/reviews", params={"folder": str(FOLDER)}, timeout=60)).text)

    pieces = filter(None, asyncio.run(call()).split("\n\n"))
    events = [dict(line.split(": ", 1) for line in one.splitlines()) for one in pieces]
    assert [events[0]["event"], events[-2]["event"], events[-1]["event"]] == ["run.started", "run.finished", "result"]
    assert json.loads(events[-1]["data"])["title"].endswith("findings")
