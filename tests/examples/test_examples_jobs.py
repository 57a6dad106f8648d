"""Small programs that others write as well: each does its job, in at most 1.2 times the lines of the shortest."""

import ast
import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Say

JOBS = Path(__file__).parents[2] / "examples" / "jobs"
SHORTEST = {
    "approval": 21,  # LangGraph and DBOS
    "many": 16,  # LangGraph and DBOS
    "router": 17,  # LangGraph
    "steps": 21,  # LangGraph and DBOS
    "stream": 22,  # LangGraph
    "tools": 21,  # pydantic-ai
    "what_if": 18,  # LangGraph
}
"""Lines of the same program with LangGraph 1.2.24, pydantic-ai 2.68 or DBOS 3.4, formatted alike; see `lines`."""

pytestmark = pytest.mark.slow


def lines(text: str) -> int:
    """The lines of a program that are neither empty nor its docstring, as ruff formats it with 120 columns."""
    docstring = ast.parse(text).body[0]
    first = docstring.end_lineno or 0 if isinstance(docstring, ast.Expr) else 0
    return sum(bool(line.strip()) for line in text.splitlines()[first:])


def run(folder: Path, *words: str, status: int = 0, **environment: str) -> str:
    """What a job prints in *folder*."""
    command = [sys.executable, str(JOBS / words[0]), *words[1:]]
    own = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done.stdout.strip()


def test_each_is_as_short_as_the_shortest() -> None:
    found = {path.stem: lines(path.read_text()) for path in JOBS.glob("*.py")}

    assert found.keys() == SHORTEST.keys()
    assert {name: count for name, count in found.items() if count > 1.2 * SHORTEST[name]} == {}


def test_a_killed_process_repeats_one_step(tmp_path: Path) -> None:
    run(tmp_path, "steps.py", status=-signal.SIGKILL, KILL_AT="7")

    assert run(tmp_path, "steps.py") == "20"
    assert (tmp_path / "did").read_text().split() == [str(n) for n in (*range(8), *range(7, 20))]


def test_a_person_approves_in_another_process(tmp_path: Path) -> None:
    run(tmp_path, "approval.py", "start")

    assert run(tmp_path, "approval.py", "gladly") == "sent: Dear customer, about tea (gladly)"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("many.py", "39800"),
        ("router.py", "fixed by log of 'it crashes'"),
        ("what_if.py", "tea is good, coffee is bad, tea is bad"),
    ],
)
def test_a_job_says(job: str, says: str, tmp_path: Path) -> None:
    assert run(tmp_path, job) == says


def test_a_model_calls_its_tools_and_answers_with_a_type(tmp_path: Path) -> None:
    found = {"claim": "It came in 1610.", "source": "dutch-trade", "year": 1610}
    replies = [
        Say(calls=[("find", {"word": "tea"})]),
        Say(calls=[("read", {"title": "dutch-trade"})]),
        Say(calls=[("give_outputs", found)]),
    ]
    with FakeModels(*replies) as models:
        said = run(tmp_path, "tools.py", "When did tea come to Amsterdam?", **models.environment)

    assert said == "Finding(claim='It came in 1610.', source='dutch-trade', year=1610)"


def test_what_a_function_writes_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("stream", JOBS / "stream.py")
    assert spec is not None
    assert spec.loader is not None
    stream: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "stream", stream)
    spec.loader.exec_module(stream)

    async def heard() -> list[str]:
        return [line async for line in stream.lines("tea")]

    assert asyncio.run(heard()) == [f"data: {word}\n\n" for word in ("Dear", "customer,", "about", "tea")]
