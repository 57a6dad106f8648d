"""The wrapper of an attempt: what a program in a turn finds as `autoloops`, `autoloop` and `coterie`."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.backends import wrapper
from coterie.cli.app import main
from coterie.journal import records as r
from coterie.journal.jsonl import JsonlStore

TOPOLOGY = """
name = "spoken"
completion = "task.complete"
[[role]]
id = "planner"
emits = ["tasks.ready", "task.complete"]
prompt = "Plan, then: {{TOOL_PATH}} emit tasks.ready"
[[role]]
id = "builder"
emits = ["review.ready", "task.complete"]
prompt = "Build."
[handoff]
"tasks.ready" = ["builder"]
"loop.start" = ["planner"]
"""
AGENT = """#!/bin/sh
cat >prompt.$AUTOLOOP_ITERATION
env >env.$AUTOLOOP_ITERATION
case $AUTOLOOP_ITERATION in
1)
  autoloops emit bogus; echo "rejected: $?"
  autoloops task add -p high write tests; echo "task: $?"
  autoloop memory add learning 'uses tabs'; echo "memory: $?"
  autoloop emit; echo "misused: $?"
  COTERIE_TURN=iteration#9 COTERIE_EPOCH=9 "$AUTOLOOP_BIN" emit tasks.ready 'go on'; echo "accepted: $?"
  ;;
2)
  coterie task list
  coterie emit task.complete; echo "open: $?"
  coterie task complete task-; echo "done: $?"
  "$AUTOLOOP_BIN" emit task.complete; echo "complete: $?"
  ;;
esac
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A loop whose agent is a shell script, after its run."""
    tmp_path = tmp_path_factory.mktemp("project")
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    agent = tmp_path / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    settings = f'backend.kind = "command"\nbackend.command = "{agent}"\nbackend.prompt_mode = "stdin"\n'
    (tmp_path / "autoloops.toml").write_text(settings + "review.enabled = false\nevent_loop.max_iterations = 4\n")
    with contextlib.chdir(tmp_path):
        assert main(["run", ".", "Do it", "--state-dir", "state"]) == 0
    return tmp_path


def test_an_agent_speaks_through_its_wrapper(project: Path) -> None:
    """Under each of its names, whatever it does to its environment; the verdict is its exit status."""
    store = JsonlStore(project / "state")
    (run,) = (path.name for path in (project / "state/runs").iterdir())
    said = {one.turn: one.text.splitlines() for one in store.read(run) if isinstance(one, r.TurnFinished)}
    assert [line for line in said["iteration#1"] if ": " in line] == [
        "rejected: 1",
        "task: 0",
        "memory: 0",
        "misused: 2",
        "accepted: 0",
    ]
    assert [line for line in said["iteration#2"] if ": " in line][1:] == ["open: 1", "done: 0", "complete: 0"]
    emitted = [(one.turn, one.event, one.payload) for one in store.read(run) if isinstance(one, r.EventEmitted)]
    assert emitted == [("iteration#1", "tasks.ready", "go on"), ("iteration#2", "task.complete", "")]

    tool = project / "state/runs" / run / "turns/iteration#1.1/autoloops"
    assert f"Plan, then: {tool} emit tasks.ready" in (project / "prompt.1").read_text()
    assert "- uses tabs" in (project / "prompt.2").read_text()
    found = dict(line.split("=", 1) for line in (project / "env.1").read_text().splitlines() if "=" in line)
    assert found["PATH"].startswith(f"{tool.parent}{os.pathsep}")
    expected = {
        "AUTOLOOP_BIN": str(tool),
        "AUTOLOOP_RUN_ID": run,
        "AUTOLOOP_PROJECT_DIR": str(project),
        "AUTOLOOP_RECENT_EVENT": "loop.start",
        "AUTOLOOP_ALLOWED_ROLES": "planner",
        "AUTOLOOP_ALLOWED_EVENTS": "tasks.ready,task.complete",
        "AUTOLOOP_COMPLETION_EVENT": "task.complete",
        "AUTOLOOP_COMPLETION_PROMISE": "LOOP_COMPLETE",
        "AUTOLOOP_PROMPT_PATH": str(tool.parent / "prompt.md"),
        "AUTOLOOP_REVIEW_MODE": "",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "AUTOLOOP_PROMPT" not in found


def test_what_is_said_when_the_run_is_over_is_rejected(project: Path) -> None:
    """By the command line, which the wrapper leads to; no message is left behind."""
    (run,) = (project / "state/runs").iterdir()

    done = subprocess.run(
        [run / "turns/iteration#1.1/autoloops", "emit", "tasks.ready"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the run has completed" in done.stderr
    assert list((run / "inbox").iterdir()) == []


def test_an_interpreter_in_a_folder_with_a_blank_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel takes no such path behind `#!`."""
    python = tmp_path / "a folder's bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))

    tool = wrapper.write(tmp_path, {"COTERIE_RUN_DIR": str(tmp_path)})
    done = subprocess.run([tool, "emit", ""], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr.split(":")[0]) == (2, "coterie")


def test_a_wrapper_takes_nothing_from_its_surroundings(tmp_path: Path) -> None:
    """No module that an agent wrote where it works is imported, and whoever is not the owner may not read it."""
    (tmp_path / "json.py").write_text("raise SystemExit(99)")
    tool = wrapper.write(tmp_path, {"COTERIE_RUN_DIR": str(tmp_path), "COTERIE_TURN": "a#1"})
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "COTERIE_RUN_DIR": "elsewhere"}
    subprocess.run([tool, "emit", "go", "--output", "n:=[1]"], cwd=tmp_path, env=env, check=False, capture_output=True)

    (message,) = (tmp_path / "inbox").glob("*.json")
    sent = json.loads(message.read_text())
    assert (sent["event"], sent["turn"], sent["outputs"]) == ("go", "a#1", {"n": [1]})
    assert tool.stat().st_mode & 0o077 == 0
