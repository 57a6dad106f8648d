"""What commands and the page show of the runs in `tests/data/shown/state`, word by word.

What people and programs read is a promise of its own: a change of it is a change of the texts in `tests/data/shown`.
Look at the difference, then take it: `TAKE_SHOWN=1 pytest tests/interfaces/test_views_shown.py`.
"""

import asyncio
import contextlib
import difflib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from page_runs import client_of

from coterie.interfaces.cli.app import main

DATA = Path(__file__).parents[1] / "data" / "shown"
EXAMPLES = Path(__file__).parents[2] / "examples"
RUNS = sorted(path.name for path in (DATA / "state" / "runs").iterdir())
OF_ALL = (
    "runs",
    "runs --json",
    "runs --limit 2",
    "runs --wide",
    "runs overview",
    "runs diff review limited",
    "runs diff review fails --json",
    "runs rm none",
    "inspect none",
    "inspect r",
    "logs loop-polite none#1",
    "fork none",
    "resume review",
    "resume limited --retry",
    "control stop fails",
    "control guide review more",
    "control interrupt map reader#1",
    "control respond waits boss#1 perhaps",
    "control respond review boss#1 approve",
    "attention waits boss#2 approve",
    "attention review",
    "worktree list",
    "worktree show review",
    "worktree merge review",
    "config show",
    "stats",
    "stats --json",
    "attention",
    "attention --json",
    "threads",
    "memory list",
    "task list",
)
OF_RUN = (
    *("timeline", "plan", "cost", "failure", "usage", "topology", "memory", "tasks"),
    *("timeline --json", "plan --json", "cost --json", "failure --json", "usage --by role --json"),
    *("usage --by backend", "timeline --from 3 --limit 4", "journal --json --limit 3"),
)
OF_TURN = ("turn", "turn --json", "prompt", "output", "why", "why --json", "files")
OF_FILE = (
    *("validate", "validate --json", "check", "check --json", "check --price 0.5", "simulate --seeds 3 --jobs 1"),
    *("graph", "graph -f dot", "topology show", "fmt --check", "fmt --diff", "run --rehearse"),
)
PLACELESS = ("validate", "check", "graph", "topology", "fmt", "config")
FILES = ("code-review.at", "human-gate.at", "repo-review/review.at", "patterns/debate.pattern.yaml", "greeting")
ACTIONS = (
    {"do": "answer", "id": "boss#1", "since": 1795880317.0, "text": "approve", "go": True},
    {"do": "answer", "id": "boss#1", "since": 0, "outputs": {"verdict": "revise"}, "text": "-x"},
    {"do": "guide", "text": " "},
    {"do": "guide", "text": "- mind the tests", "turn": "writer#1", "interrupt": True},
    {"do": "interrupt"},
    {"do": "interrupt", "turn": "writer#1"},
    {"do": "stop"},
    {"do": "resume", "retry": True, "turn": "writer#1", "max_cost": 2.5},
    {"do": "resume", "try_now": True, "max_turns": 9},
    {"do": "fork", "turn": "writer#1", "prompts": {"writer": "Be brief"}, "models": {"": "m"}, "go": False},
    {
        "do": "fork",
        "at": 3,
        "input": {"prompt": "-1"},
        "outputs": {"writer#1": "other", "reviewer#1": {"verdict": "x"}},
    },
)
DONE = (0, 1, 2, 3, 4, 5, 6, 8)
"""The actions that are not only previewed where no process drives the run: those that begin none."""
NOW = 1795880400.0
"""A moment after the last of the runs."""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state directory, at a fixed time in a fixed place."""
    shutil.copytree(DATA / "state", tmp_path / "state")
    for path in (tmp_path / "state").rglob("journal.jsonl"):
        os.utime(path, (NOW - 60, NOW - 60))  # git keeps no times of files
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr("coterie.base.clock.SystemClock.now", lambda self: NOW)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "state"
    monkeypatch.undo()
    time.tzset()


def said(state: Path, words: str) -> str:
    """What a command prints, and its status."""
    out = io.StringIO()
    given = [] if words.startswith(PLACELESS) else ["--state-dir", str(state)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main([*words.split(), *given])
    return f"$ coterie {words}\n{readable(out.getvalue())}[{status}]\n"


def readable(text: str) -> str:
    """JSON over several lines, other texts as they are."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    except ValueError:
        return text


def turns_of(state: Path, run: str) -> list[str]:
    """Three of its turns, and its sets."""
    journal = (state / "runs" / run / "journal.jsonl").read_text()
    records = [json.loads(line) for line in journal.splitlines()]
    turns = sorted({one["turn"] for one in records if one.get("topic") == "turn.started"})[:3]
    return turns + [one["set"] for one in records if one.get("topic") == "set.started"]


async def answered(state: Path, addresses: Sequence[Any]) -> str:
    """What the page's interface answers."""

    async def get(client: httpx.AsyncClient, asked: Any) -> str:
        address, action = asked if isinstance(asked, tuple) else (asked, None)
        answer = await (client.get(address) if action is None else client.post(address, json=action))
        return f"{address} {action or ''}\n{readable(answer.text)}[{answer.status_code}]\n"

    async with client_of(state) as (_, client):
        return "".join([await get(client, address) for address in addresses])


def compare(name: str, state: Path, text: str) -> None:
    """Compare with what is kept, or keep it."""
    text = text.replace(str(state.parent), "/home/ada").replace(os.path.realpath(state.parent), "/home/ada")
    text = re.sub(r"\d+ a second", "N a second", text)
    kept = DATA / f"{name}.txt"
    if os.environ.get("TAKE_SHOWN"):
        kept.write_text(text)
    changes = [
        *difflib.unified_diff(kept.read_text().splitlines(), text.splitlines(), "kept", "shown", lineterm="", n=1)
    ]
    assert not changes, "\n".join(["what is shown has changed; see the docstring of this file", *changes[:60]])


@pytest.mark.parametrize("run", RUNS)
def test_what_commands_show_of_a_run(state: Path, run: str) -> None:
    """Every view of a run, and of its turns."""
    turns = turns_of(state, run)
    words = [f"inspect {run} {view}" for view in OF_RUN]
    words += [
        f"inspect {run} {view} {turn}".replace(f"--json {turn}", f"{turn} --json") for view in OF_TURN for turn in turns
    ]
    words += [f"logs {run}", f"logs {run} --json", f"replay {run}"]
    compare(f"{run}-commands", state, "".join(said(state, one) for one in words))


@pytest.mark.parametrize("run", RUNS)
def test_what_the_page_is_told_of_a_run(state: Path, run: str) -> None:
    """Every address of the page's interface that only reads."""
    base = f"/api/runs/{run}"
    paths = ["", "/records?limit=50", "/record?seq=3", "/cost", "/failure", "/values"]
    turns = [f"/{what}?turn={turn.replace('#', '%23')}" for what in ("turn", "files") for turn in turns_of(state, run)]
    compare(f"{run}-page", state, asyncio.run(answered(state, [base + path for path in (*paths, *turns)])))


@pytest.mark.parametrize("run", RUNS)
def test_what_the_page_says_of_actions(state: Path, run: str) -> None:
    """What an action would do, its command, and why it is refused."""
    base = f"/api/runs/{run}"
    asked = [(f"{base}/preview", one) for one in ACTIONS]
    asked += [(f"{base}/act", ACTIONS[n] | {"epoch": 7 if n % 2 else None}) for n in DONE if run != "waits"]
    compare(f"{run}-actions", state, asyncio.run(answered(state, asked)))


@pytest.mark.parametrize("file", FILES)
def test_what_commands_say_of_a_file(state: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they find, prove, draw and rehearse."""
    monkeypatch.chdir(EXAMPLES)
    compare(f"file-{file.replace('/', '-')}", state, "".join(said(state, f"{one} {file}") for one in OF_FILE))


def test_what_commands_show_of_all_runs(state: Path) -> None:
    """The lists."""
    compare("all-commands", state, "".join(said(state, one) for one in OF_ALL))


def test_what_the_page_is_told_of_all_runs(state: Path) -> None:
    """Its home, in parts, and a comparison."""
    paths = [
        "/api/home",
        "/api/home?q=greet",
        "/api/home?state=failed",
        "/api/diff?a=review&b=limited",
        "/api/runs/none",
    ]
    compare("all-page", state, asyncio.run(answered(state, paths)))
