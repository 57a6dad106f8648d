"""The wrapper of an attempt: what a program in a turn finds as `autoloops`, `autoloop` and `coterie`."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.backends import wrapper
from coterie.agents.backends.coding.allowed import commands_of
from coterie.agents.backends.coding.command_policy import refusal
from coterie.agents.backends.coding.permissions import ApprovalRequest, ToolPermissions
from coterie.base import files
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.interfaces.cli.app import main
from coterie.team.planning.plan import AgentPlan

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

    tool = wrapper.link_of(project / "state/runs" / run / "turns/iteration#1.1") / "autoloops"
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


@bundle("name", ["a folder's bin", "a\\N{x} \\134 'b", 'a "$HOME"\n#; b', "été `x`  \\"])
def test_an_interpreter_in_a_folder_of_any_name_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel takes no path with blanks behind `#!`, and the script is one of a shell and of Python then."""
    python = tmp_path / name / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))

    tool = wrapper.write(tmp_path, {"COTERIE_RUN_DIR": str(tmp_path)})
    done = subprocess.run([tool, "emit", ""], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr.split(":")[0]) == (2, "coterie")


HOSTILE = " '\"#$\\\n\t;&|<>()[]{}*?!~`:=,%^@-é💥ab."
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "ksh", "fish") if shutil.which(shell)]


@given(
    st.text(HOSTILE, min_size=1, max_size=20).filter(lambda name: name.strip(".")),
    st.sampled_from(["turns/iteration#1.1", "turns/it's#2.1", "a b"]),
)
def test_the_path_of_the_command_is_one_word_to_every_reader(name: str, attempt: str) -> None:
    """Whatever the folder of the project is called: to every shell, to the policy, and to what allows it."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top, name, attempt)
        folder.mkdir(parents=True)
        wrapper.write(folder, {"COTERIE_RUN_DIR": "/"})
        try:
            tool = wrapper.link(folder, folder) / wrapper.NAME
            line = f"{tool} emit go.on 'it is done'"
            decided = asyncio.run(_permissions(folder).decide(ApprovalRequest(id="1", tool="Bash", command=line)))
            assert (decided.is_allowed, refusal(line)) == (True, None)
            for shell in SHELLS:
                script = f"printf '%s|' {tool} emit; test -x {tool}"
                done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
                assert done.stdout == f"{tool}|emit|"
        finally:
            wrapper.unlink(wrapper.link_of(folder))
    assert not wrapper.link_of(folder).is_symlink()


def test_a_link_through_that_of_its_run_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep the run's folder is, and also if it is named from the current one; a folder elsewhere is not."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / ("x" * 90)
    folder, elsewhere = run / "turns/a#1.1", Path(f"{run}er") / "a#1.1"
    for one in (folder, elsewhere):
        one.mkdir(parents=True)
    made = [wrapper.link(folder, folder, run)]
    assert os.readlink(made[0]) == str(folder)
    made.append(wrapper.link(run, run))
    for top in (run, Path(run.name)):
        wrapper.link(folder, folder, top)
        assert len(os.readlink(made[0])) < 60
        assert made[0].samefile(folder)
    made.append(wrapper.link(elsewhere, elsewhere, run))
    assert os.readlink(made[2]) == str(elsewhere)
    for one in made:
        wrapper.unlink(one)


@bundle("name", ["a b", "it's", "#1", "$HOME", "x" * 90])
def test_a_runtime_folder_that_is_no_short_plain_word_is_not_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next place is, or in the end none: then the folder itself is named."""
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as short:
        for base, is_used in ((Path(short, "plain"), True), (Path(short, name), False)):
            base.mkdir()
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
            home = files.runtime_folder()
            assert home is not None
            assert home.is_relative_to(base.resolve()) == is_used

    monkeypatch.setattr(files, "runtime_folder", lambda: None)
    assert wrapper.link(tmp_path, tmp_path) == wrapper.link_of(tmp_path) == tmp_path
    wrapper.unlink(tmp_path)
    assert tmp_path.is_dir()


def test_a_script_that_is_written_again_has_all_its_names(tmp_path: Path) -> None:
    """At first they are names of one file: another would take space for each attempt."""
    found = [tmp_path / name for name in (wrapper.NAME, *wrapper.ALIASES)]
    for epoch, count in (("1", 1), ("2", 3)):
        wrapper.write(tmp_path, {"COTERIE_EPOCH": epoch})
        assert all(f"'COTERIE_EPOCH': '{epoch}'" in one.read_text() for one in found)
        assert len({one.lstat().st_ino for one in found}) == count


def _permissions(folder: Path) -> ToolPermissions:
    """Those of an agent that nothing but coterie's own commands is allowed."""
    agent = AgentPlan(name="a", backend="claude-sdk", options={"trust_all_tools": False})
    return ToolPermissions(agent, lambda _: None, contextlib.nullcontext, folder, folder)


@given(st.lists(st.sampled_from(["a", "b#", "#c", "'#d'", '"#e"', "f'#'g", "h#i#", "./x#1.1/y", "''#"]), min_size=1))
def test_a_hash_within_a_word_begins_no_comment(words: list[str]) -> None:
    """What is read as commands is what a shell runs."""
    line = " ".join(words)
    if commands := commands_of(line):
        script = f"set -- {line}\nfor word; do printf '%s\\0' \"$word\"; done"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        assert commands == [done.stdout.split("\0")[:-1]]


def test_an_agent_emits_by_the_path_of_its_prompt_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """It types what it is told; the link is gone with its attempt."""
    folder = tmp_path / 'we\'re "$HOME" #1: \\n\n;& (é)'
    folder.mkdir()
    agent = folder / "agent.py"
    agent.write_text(TYPIST)
    (folder / "topology.toml").write_text(TOPOLOGY.replace("emit tasks.ready", "emit task.complete"))
    settings = ["kind = 'command'", f"command = {json.dumps(sys.executable)}", f"args = [{json.dumps(str(agent))}]"]
    lines = [*(f"backend.{one}" for one in (*settings, "prompt_mode = 'file'")), "review.enabled = false"]
    (folder / "autoloops.toml").write_text("\n".join(lines))
    with contextlib.chdir(folder):
        assert main(["run", ".", "Do it", "--max-iterations", "1"]) == 0

    link = Path((folder / "typed").read_text())
    assert link.name == wrapper.NAME
    assert not link.parent.is_symlink()


TYPIST = """
import os, pathlib, re, subprocess
prompt = pathlib.Path(os.environ["COTERIE_PROMPT_FILE"]).read_text()
tool, *_ = re.findall(r"Plan, then: (.*) emit task.complete", prompt)
pathlib.Path("typed").write_text(tool)
subprocess.run(f"cat {os.environ['COTERIE_PROMPT_FILE']} > read; {tool} emit task.complete", shell=True, check=True)
"""


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
