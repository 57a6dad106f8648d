"""A project that was copied or moved: its runs work where it is now."""

import asyncio
import shutil
from pathlib import Path

import pytest
from repositories import git, put, repository

import coterie
from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.report import diff
from coterie.errors import UsageError
from coterie.execution.runs import index, launch, statistics
from coterie.execution.runs.fork import fork
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import RunOwned
from coterie.history.journal.relocation import Relocation
from coterie.team.planning.plan import Limits

TEAM = """
topology t : [pipeline] { meta { version: "1" }
  agent one { extensions { coterie { command: ["sh", "-c", "pwd >> one.txt; echo {here}"] } } }
  agent two { extensions { coterie { command: ["sh", "-c", "pwd >> two.txt; echo {here}"] } } }
  flow { one -> two }
}
"""


def begun(project: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run of *project* that was stopped after its first turn."""
    project.mkdir(parents=True, exist_ok=True)
    (project / "team.at").write_text(TEAM)
    monkeypatch.chdir(project)
    made = coterie.plan(coterie.load("team.at"))
    outcome = asyncio.run(launch.start(made, {"prompt": "go"}, state_dir=state_dir, limits=Limits(max_turns=1)))
    assert (outcome.status, outcome.reason) == ("stopped", "max_turns")
    monkeypatch.chdir("/")
    return outcome.run


def resumed(run: str, state_dir: Path) -> Outcome:
    return asyncio.run(launch.resume(run, state_dir=state_dir, limits=Limits(max_turns=-1)))


def where(project: Path) -> list[str]:
    """The directories in which the second agent has worked, as files in *project* say."""
    file = project / "two.txt"
    return file.read_text().split() if file.exists() else []


def test_a_copied_run_goes_on_in_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agents, and the folder of its team; the original is left alone and can be resumed, too."""
    old, new = tmp_path / "old", tmp_path / "new"
    run = begun(old, Path(".coterie"), monkeypatch)
    shutil.copytree(old, new)

    outcome = resumed(run, new / ".coterie")
    assert outcome.status == "completed"
    assert (where(new), where(old)) == ([str(new)], [])
    assert outcome.result.text.strip() == str(new)
    [owned] = [one for one in Runs(new / ".coterie").read(run) if isinstance(one, RunOwned) and one.epoch == 2]
    assert owned.warnings == (f"the project was copied from {old}; the run goes on in {new}",)
    assert resumed(run, old / ".coterie").status == "completed"
    assert where(old) == [str(old)]


def test_a_copied_run_is_listed_with_the_folder_in_which_it_would_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original with its own."""
    old, new = tmp_path / "old", tmp_path / "new"
    begun(old, Path(".coterie"), monkeypatch)
    shutil.copytree(old, new)
    for project in (old, new):
        [listed] = statistics.newest(project / ".coterie", 9)
        assert (listed.state, listed.cwd) == ("stopped: max_turns", str(project))


def test_a_moved_run_is_resumed_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, into a folder of the earlier place as well; the index lists it there."""
    old, new, last = tmp_path / "old", tmp_path / "new", tmp_path / "old" / "inner"
    run = begun(old, Path(".coterie"), monkeypatch)
    old.rename(new)
    assert asyncio.run(launch.resume(run, state_dir=new / ".coterie", limits=Limits(max_turns=1))).status == "stopped"
    old.mkdir()
    new.rename(last)

    outcome = resumed(run, last / ".coterie")
    assert outcome.status == "completed"
    assert where(last) == [str(last)]
    assert outcome.result.text.strip() == str(last)
    assert index.find(run, Path("nowhere")) == last / ".coterie" / "runs" / run


def test_a_prompt_that_begins_with_the_path_of_a_moved_project_stays_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands follow the project, so that a copy does not work with the programs of the original; texts do not."""
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "b").parent.mkdir()
    (old / "b").write_text("beside\n")
    command = f'extensions {{ coterie {{ command: ["cat", "{old}/b", "-"] }} }}'
    agents = "  ".join(f'agent {name} {{ prompt: "{old}/a.py"  {command} }}' for name in ("one", "two"))
    monkeypatch.setattr(f"{__name__}.TEAM", f"topology t : [pipeline] {{ {agents}  flow {{ one -> two }} }}")
    run = begun(old, Path(".coterie"), monkeypatch)
    old.rename(new)

    text = resumed(run, new / ".coterie").result.text
    assert text.startswith(f"beside\n{old}/a.py")


def test_with_a_state_directory_elsewhere_the_recorded_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the state directory is no copy of the project."""
    project, state = tmp_path / "project", tmp_path / "state"
    run = begun(project, state, monkeypatch)
    shutil.copytree(state, tmp_path / "copied")

    assert resumed(run, tmp_path / "copied").status == "completed"
    assert where(project) == [str(project)]


@pytest.mark.parametrize("at", [1, None])
def test_a_fork_in_a_copy_works_in_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | None) -> None:
    """From its first record, too."""
    old, new = tmp_path / "old", tmp_path / "new"
    run = begun(old, Path(".coterie"), monkeypatch)
    shutil.copytree(old, new)

    made = fork(run, state_dir=new / ".coterie", at=at)
    assert resumed(made.run, new / ".coterie").status == "completed"
    assert (where(new), where(old)) == ([str(new)], [])


def with_tree(folder: Path) -> worktree.WorkTree:
    """A repository in *folder*, and a run that has left work in a work tree of it."""
    repository(folder, **{"__gitignore": ".coterie\n"})
    origin, state = require(folder, "the test"), folder / ".coterie"
    tree = worktree.new_tree(origin, state, "calm", prefix="coterie", base=origin.commit_of("HEAD"))
    tree = worktree.make(origin, state, tree)
    put(Path(tree.path), "new.txt", "work\n")
    return tree


@pytest.mark.parametrize("how", ["copied", "moved"])
def test_the_work_of_a_copy_is_merged_in_the_copy(tmp_path: Path, how: str) -> None:
    """And neither the files nor git's records of the original change."""
    old, new = tmp_path / "old", tmp_path / "new"
    tree = with_tree(old)
    if how == "copied":
        shutil.copytree(old, new, symlinks=True)
    else:
        old.rename(new)

    found = worktree.read(new / ".coterie", "calm")
    assert found is not None
    assert "+work" in diff(new / ".coterie", found)
    assert merge_tree(new / ".coterie", found).status == "merged"
    assert (new / "new.txt").read_text() == "work\n"
    if how == "copied":
        assert git(old, "log", "--format=%s", "--all") == "first"
        assert git(Path(tree.path), "status", "--porcelain") == "?? new.txt"
        assert str(old) not in git(new, "worktree", "list")
        assert str(new) not in git(old, "worktree", "list")


def test_a_work_tree_that_was_copied_without_its_repository_is_refused(tmp_path: Path) -> None:
    """Beside the repository, where git's record is the original's, and away from it."""
    tree = with_tree(tmp_path / "old")
    for state in (tmp_path / "new" / ".coterie", tmp_path / "old" / "copy" / ".coterie"):
        shutil.copytree(tmp_path / "old" / ".coterie", state, symlinks=True)
        with pytest.raises(UsageError, match="without its git repository"):
            worktree.read(state, "calm")
    assert git(Path(tree.path), "status", "--porcelain") == "?? new.txt"


def test_the_innermost_of_several_recorded_projects_counts() -> None:
    """A project was moved into a folder below the earlier one."""
    moved = Relocation("/now", ("/work", "/work/inner"))
    assert [moved.path(text) for text in ("/work/inner/a", "/work/b", "/work")] == ["/now/a", "/now/b", "/now"]
