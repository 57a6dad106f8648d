"""`emit`, `memory` and `task` outside of a turn."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import RunOwned, RunStarted
from coterie.interfaces.cli.app import main

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Calls coterie in a folder of its own: the exit status, what it printed, what it complained of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def call(*words: str) -> tuple[int, str, str]:
        status = main(words)
        told = capsys.readouterr()
        return status, told.out, told.err

    return call


def test_the_memory_of_a_project_that_nobody_runs(said: Said, tmp_path: Path) -> None:
    """Is changed where its settings say it lies."""
    (tmp_path / "autoloops.toml").write_text('core.memory_file = "kept/memory.jsonl"\n')

    assert said("memory", "list") == (0, "Nothing is remembered.\n", "")
    assert said("memory", "add", "learning", "uses", "tabs", "--source", "review")[0] == 0
    assert said("memory", "add", "preference", "short", "lines", "--category", "Style")[0] == 0
    assert said("memory", "add", "meta", "port", "8080", "or", "8081")[0] == 0
    out = said("memory", "list")[1]
    assert [line.split("  ", 1)[1] for line in out.splitlines()] == [
        "learning  uses tabs (review)",
        "preference  [Style] short lines",
        "meta  port: 8080 or 8081",
    ]
    assert (tmp_path / "kept/memory.jsonl").exists()
    assert said("memory", "find", "TABS")[0] == 0
    assert said("memory", "find", "spaces") == (1, "", "")
    assert said("memory", "remove", "meta-")[0] == 0
    assert said("memory", "compact")[1] == "forgot 0 in kept/memory.jsonl\n"
    assert said("memory", "prune", "--max-age", "1d")[1] == "forgot 0 in kept/memory.jsonl\n"
    assert said("memory", "promote", "mem-x")[0] == 1
    assert len(said("memory", "list")[1].splitlines()) == 2


def test_the_tasks_of_a_project_that_nobody_runs(said: Said) -> None:
    """Lie in the state directory of loops, unless settings say otherwise."""
    assert said("task", "list") == (0, "No tasks.\n", "")
    assert said("task", "add", "write", "tests", "-p", "high")[0] == 0
    assert said("task", "add", "x", "-p", "urgent") == (
        1,
        "",
        "coterie: 'urgent' is not a priority: write high, normal or low\n",
    )
    assert said("task", "update", "task-", "write", "more")[0] == 0
    assert said("task", "list")[1].splitlines()[1].endswith(": write more (high)")
    assert said("task", "complete", "task-")[0] == 0
    assert said("task", "list")[1].startswith("Done:")
    assert said("task", "remove", "task-")[0] == 0
    assert Path(".autoloop/tasks.jsonl").exists()


def test_tasks_outside_of_a_run_are_those_that_the_next_run_reads(said: Said, tmp_path: Path) -> None:
    """The settings of the loop that was last started here say where they lie, and so does --state-dir."""
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / "topology.toml").write_text('completion = "done"\n[[role]]\nid = "a"\nemits = ["done"]\nprompt = "Go."\n')
    settings = 'event_loop.max_iterations = 1\nbackend.kind = "command"\nbackend.command = "cat"\n'
    settings += 'backend.prompt_mode = "stdin"\nreview.enabled = false\n'
    (loop / "autoloops.toml").write_text(settings + 'core.tasks_file = "notes/todo.jsonl"\n')

    assert said("run", "loop", "go")[0] == 3
    assert said("task", "add", "mend", "it")[1].endswith(" in notes/todo.jsonl\n")
    assert said("run", "loop", "go")[0] == 3
    assert "mend it" in said("inspect", "last", "prompt", "1")[1]
    (loop / "autoloops.toml").write_text(settings + 'core.tasks_file = "notes/later.jsonl"\n')
    assert said("task", "list")[1] == "No tasks.\n"
    (loop / "autoloops.toml").write_text(settings)
    assert said("task", "add", "kept", "elsewhere", "--state-dir", "st")[1].endswith(" in st/tasks.jsonl\n")
    assert said("run", "loop", "go", "--state-dir", "st")[0] == 3
    assert "kept elsewhere" in said("inspect", "last", "prompt", "1", "--state-dir", "st")[1]
    assert "kept elsewhere" in said("task", "list", "--state-dir", "st")[1]


def test_an_event_needs_a_run(said: Said) -> None:
    """Nobody could be told: exit 2, as for words that make no sense."""
    status, _, complaint = said("emit", "go")
    assert (status, "name one with --run" in complaint) == (2, True)
    assert said("emit")[0] == 2
    assert said("memory", "add", "thought", "x")[0] == 2


def test_a_run_that_is_named_hears_it_beside_its_turns(said: Said, tmp_path: Path) -> None:
    """One that nobody owns and that has no turn says so; what changes its memory waits."""
    writer = JsonlStore(tmp_path / ".coterie").claim("r1")
    plan = '{"name":"t","coordination":{"engine":"loop"}}'
    writer.append([RunStarted(seq=1, at=1.0, run="r1", engine="loop", plan=plan), RunOwned(seq=2, at=1.0, epoch=1)])
    asyncio.run(writer.close())

    status, _, complaint = said("emit", "go", "- it", "--run", "r1")
    assert (status, complaint) == (1, "an event must belong to a turn, and no turn is running\n")
    status, _, complaint = said("task", "add", "later", "--run", "r1")
    assert (status, "the message waits" in complaint) == (2, True)
    assert len(list((tmp_path / ".coterie/runs/r1/inbox").iterdir())) == 1


def test_an_agent_that_speaks_imports_next_to_nothing(tmp_path: Path) -> None:
    """No command line, no msgspec, no argparse: it waits for an interpreter and for its run."""
    code = f"""
import os, sys
os.environ["COTERIE_RUN_DIR"] = {str(tmp_path)!r}
sys.argv = ["coterie", "emit", ""]
import coterie.__main__ as way_in
assert way_in.main() == 2
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-IS", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    loaded = set(done.stdout.split())
    assert not loaded & {"argparse", "asyncio", "msgspec", "pathlib", "socket", "subprocess", "typing"}
    assert {name for name in loaded if name.startswith("coterie.")} == {
        "coterie.__main__",
        "coterie.agents",
        "coterie.agents.backends",
        *(f"coterie.agents.backends.agentside{part}" for part in ("", ".client", ".delivery", ".words")),
    }
