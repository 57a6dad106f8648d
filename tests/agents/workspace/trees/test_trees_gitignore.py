"""What runs write is ignored by git as a whole, so no agent commits it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from loop_projects import project, run
from repositories import git, put, repository

from coterie.agents.workspace.trees.gitignore import hide, hide_state
from coterie.base import files
from coterie.execution.kinds import kind_of
from coterie.execution.runs import launch
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan

COMMITS = """
subprocess.run([emit, "memory", "add", "learning", "--project", "all of it"], check=True, stdout=subprocess.DEVNULL)
pathlib.Path("work.txt").write_text("work")
commit = ["git", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "--quiet", "--message", turn]
subprocess.run(["git", "add", "--all"], check=True)
subprocess.run([*commit, "--allow-empty"], check=True)
if "wave-" not in os.environ["COTERIE_RUN"]:
    words = ["next.parallel", "- a\\n- b"] if turn == "iteration#1" else ["done"]
    subprocess.run([emit, "emit", *words], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r")
    monkeypatch.chdir(found)
    return found


@pytest.mark.parametrize(
    ("before", "state"),
    [
        pytest.param(before, state, marks=() if j == k else pytest.mark.long)
        for j, before in enumerate(["", "runs/\n.gitignore\n", "*\n!memory.jsonl\n"])
        for k, state in enumerate([".autoloop", ".state", "deep/er/state"])
    ],
)
def test_an_agent_that_adds_all_files_commits_only_its_work(
    folder: Path, tmp_path: Path, state: str, before: str
) -> None:
    """No journal, memory or wave, wherever the state lies; an incomplete `.gitignore` there is mended."""
    if before:
        put(folder, f"{state}/.gitignore", before)
    loop = project(tmp_path / "loop", COMMITS, f"core.state_dir = {state!r}\nparallel.enabled = true\n")
    outcome = run(loop, state_dir=Path(state))

    assert outcome.status == "completed", outcome.reason
    assert git(folder, "ls-files").splitlines() == ["a.txt", "work.txt"]
    assert git(folder, "status", "--porcelain") == ""
    written = {path.name for path in (folder / state).iterdir()}
    assert {"runs", "waves", "journal.jsonl", "memory.jsonl", ".gitignore"} <= written


def test_a_resumed_run_mends_what_an_agent_removed(folder: Path, tmp_path: Path) -> None:
    """The agents that it starts add files, too."""
    stopped = run(project(tmp_path / "loop", "pass\n", "event_loop.max_iterations = 1\n"))
    (folder / ".autoloop/.gitignore").unlink()
    asyncio.run(launch.resume(stopped.run, state_dir=Path(".autoloop")))

    assert stopped.status == "stopped"
    assert git(folder, "status", "--porcelain") == ""


def test_a_state_directory_that_holds_the_project_hides_what_runs_write(folder: Path) -> None:
    """The project itself stays visible."""
    put(folder, ".gitignore", "build\n")
    plan = Plan(name="p", agents={"a": AgentPlan(name="a")}, coordination=FlowPlan(mentions=("a",), groups=()))
    hide_state(folder, kind_of(plan).project.place, folder)
    put(folder, "runs/x/journal.jsonl", "{}")

    assert (folder / ".gitignore").read_text() == "build\n"
    assert git(folder, "status", "--porcelain") == "?? .gitignore"


def test_what_is_complete_is_not_written_again(tmp_path: Path) -> None:
    """A link in its place is replaced, not followed."""
    hide(tmp_path / "state")
    ignore = tmp_path / "state" / ".gitignore"
    first = ignore.stat()
    hide(tmp_path / "state")
    assert ignore.stat().st_ino == first.st_ino
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    ignore.unlink()
    ignore.symlink_to(elsewhere)
    hide(tmp_path / "state")

    assert ignore.read_text() == "*\n"
    assert elsewhere.read_text() == "mine"


def test_trees_that_are_made_at_once_hide_their_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns side by side do so in threads of one process, and none takes the file that another one writes."""
    meet, write = threading.Barrier(2), files.write

    def written(path: Path, data: bytes) -> None:
        write(path, data)
        meet.wait(30)

    monkeypatch.setattr(files, "write", written)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(hide, [tmp_path / "state"] * 2))
    assert {path.name: path.read_text() for path in (tmp_path / "state").iterdir()} == {".gitignore": "*\n"}
