"""The steps around a run with a work tree are recorded, can be repeated, and say what could not be done."""

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from loop_projects import project, run
from msgspec.structs import replace
from repositories import commit, git, put, repository

from coterie.agents.workspace.trees import merge, repository_lock, worktree
from coterie.agents.workspace.trees.git import require
from coterie.errors import GitFailed
from coterie.execution.runs import launch
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import replay
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import (
    Record,
    RunFinished,
    RunNotified,
    TreeCleared,
    TreeMade,
    TreeMerged,
    TreesJoined,
)
from coterie.interfaces.cli.app import main
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven

STATE = Path(".autoloop")
APART = "worktree.enabled = true\n"
WORKS = """
pathlib.Path("made.txt").write_text("made")
pathlib.Path("a.txt").write_text("theirs")
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""
MEANWHILE = "root = pathlib.Path(os.environ['AUTOLOOP_STATE_DIR']).parent\n"
CONFLICTS = (
    MEANWHILE
    + """
(root / "a.txt").write_text("mine")
subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qam", "mine"], cwd=root, check=True)
"""
    + WORKS
)
IS_REFUSED = MEANWHILE + '(root / "made.txt").write_text("mine, not committed")\n' + WORKS
WAVE = """
if "wave-" in os.environ["COTERIE_RUN"]:
    k = os.environ["COTERIE_RUN"].split("wave-1.")[1][0]
    pathlib.Path("same.txt").write_text(k)
    pathlib.Path(f"branch-{k}.txt").write_text(k)
    if FAIL:
        sys.exit(7)
    subprocess.run([emit, "emit", "next"], check=True, stdout=subprocess.DEVNULL)
elif turn == "iteration#1":
    subprocess.run([emit, "emit", "next.parallel", "- a\\n- b"], check=True, stdout=subprocess.DEVNULL)
else:
    pathlib.Path("prompt.txt").write_text(sys.stdin.read())
    subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""
WAVES = APART + "parallel.enabled = true\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r")
    monkeypatch.chdir(found)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "index"))
    return found


def steps(run: str) -> list[Record]:
    """The records of the steps of *run*, in order."""
    kinds = (TreeMade, TreesJoined, TreeMerged, TreeCleared, RunNotified, RunFinished)
    return [one for which, one in Runs(STATE).history(run) if isinstance(one, kinds) and which == run]


def test_each_step_of_a_run_that_completes_is_recorded_before_its_end(folder: Path, tmp_path: Path) -> None:
    """Made, merged, cleared, notified, finished."""
    outcome = run(project(tmp_path / "loop", WORKS, APART + "notify.command = ['true']\n"))
    made, merged, cleared, notified, finished = steps(outcome.run)

    assert outcome.exit == 0, outcome.notices
    assert isinstance(made, TreeMade)
    assert isinstance(merged, TreeMerged)
    assert (merged.status, merged.into, merged.branch) == ("merged", "main", made.branch)
    assert merged.commit == git(folder, "rev-parse", "HEAD")
    assert cleared == TreeCleared(seq=cleared.seq, at=cleared.at, path=made.path, branch=made.branch)
    assert notified == RunNotified(seq=notified.seq, at=notified.at, status="completed")
    assert isinstance(finished, RunFinished)
    assert replay(outcome.run, state_dir=STATE).left == ()


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (CONFLICTS, "conflict", "conflicts with main in a.txt"),
        (IS_REFUSED, "blocked", "its work is not merged: "),
    ],
)
def test_work_that_cannot_be_merged_fails_the_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, status: str, said: str
) -> None:
    """The exit status is 1, files and branch are named and how to go on; `runs` names it, and merging by hand works."""
    told = "notify.command = ['sh', '-c', 'cat > ../told.json']\n"
    outcome = run(project(tmp_path / "loop", script, APART + told))
    made, merged, *_, finished = steps(outcome.run)

    assert (outcome.status, outcome.reason, outcome.exit) == ("failed", "merge_conflict", 1)
    assert isinstance(merged, TreeMerged)
    assert isinstance(made, TreeMade)
    assert merged.status == status
    assert isinstance(finished, RunFinished)
    assert (finished.outcome, finished.result["reason"]) == ("failed", "merge_conflict")
    notices = "\n".join(outcome.notices)
    assert said in notices
    assert made.branch in notices
    assert f"coterie worktree merge {outcome.run}" in notices
    assert json.loads((tmp_path / "told.json").read_text())["reason"] == "merge_conflict"
    assert replay(outcome.run, state_dir=STATE).left == ()
    assert main(["runs"]) == 0
    assert "failed: merge_conflict" in capsys.readouterr().out

    if status == "conflict":
        git(Path(made.path), "merge", "-X", "ours", "main", "--no-edit")
    else:
        (folder / "made.txt").unlink()
    assert main(["worktree", "merge", outcome.run]) == 0
    assert (folder / "a.txt").read_text() == "theirs"
    assert git(folder, "branch", "--format=%(refname:short)") == "main"


def test_a_conflict_keeps_the_tree_under_every_setting(folder: Path, tmp_path: Path) -> None:
    """It is solved there."""
    outcome = run(project(tmp_path / "loop", CONFLICTS, APART + "worktree.cleanup = 'always'\n"))
    tree = worktree.read(STATE, outcome.run)

    assert tree is not None
    assert (tree.status, Path(tree.path).is_dir()) == ("conflict", True)


@pytest.mark.slow
def test_branches_that_are_not_merged_are_named_everywhere(folder: Path, tmp_path: Path) -> None:
    """On the terminal, in `join.md` and in the next prompt; merging one by hand works after its loop's tree is gone."""
    outcome = run(project(tmp_path / "loop", WAVE.replace("FAIL", "False"), WAVES))
    [joined] = [one for one in steps(outcome.run) if isinstance(one, TreesJoined)]
    [kept] = joined.kept
    notices = "\n".join(outcome.notices)
    text = next(Path(".autoloop/waves").glob("*/join.md")).read_text()

    assert outcome.exit == 0
    assert kept.turn == "wave-1.2#1"
    for named in (notices, text, (folder / "prompt.txt").read_text()):
        assert "wave-1.2#1" in named
        assert "conflicts in same.txt" in named
        assert kept.branch in named
    name = f"{outcome.run}/wave-1.2#1.1"
    assert f"coterie worktree merge {name}" in notices
    assert main(["worktree", "merge", name]) == 1
    commit(folder, "give way", same__txt="1\n")
    put(Path(kept.path), "same.txt", "1\n")
    assert main(["worktree", "merge", name]) == 0
    assert (folder / "branch-2.txt").read_text() == "2"
    assert git(folder, "worktree", "list").count("\n") == 0
    assert git(folder, "branch", "--format=%(refname:short)") == "main"


def test_the_work_of_a_wave_that_fails_the_run_is_kept_and_named(folder: Path, tmp_path: Path) -> None:
    """Also when the loop does not go on after it."""
    loop = project(tmp_path / "loop", WAVE.replace("FAIL", "True"), WAVES + "event_loop.max_failures = 1\n")
    outcome = run(loop)
    [joined] = [one for one in steps(outcome.run) if isinstance(one, TreesJoined)]

    assert outcome.status == "failed"
    assert [one.turn for one in joined.kept] == ["wave-1.1#1", "wave-1.2#1"]
    assert git(folder, "show", f"{joined.kept[0].branch}:branch-1.txt") == "1"
    assert "wave-1.2#1" in "\n".join(outcome.notices)


def test_a_stop_is_notified_before_it_is_recorded(folder: Path, tmp_path: Path) -> None:
    """And a run that goes on is notified again."""
    note = "notify.command = ['sh', '-c', 'cat >> ../told; echo >> ../told']\nevent_loop.max_iterations = 1\n"
    outcome = run(project(tmp_path / "loop", "pass\n", note))
    asyncio.run(launch.resume(outcome.run, state_dir=STATE))
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]

    assert [(one["status"], one["reason"], one["exit"]) for one in told] == [("stopped", "max_iterations", 3)] * 2
    assert [one.status for one in steps(outcome.run) if isinstance(one, RunNotified)] == ["stopped", "stopped"]
    assert outcome.notices == ()


def test_a_notification_of_a_stop_that_fails_is_told(folder: Path, tmp_path: Path) -> None:
    """As one of an end is."""
    note = "notify.command = ['sh', '-c', 'exit 7']\nevent_loop.max_iterations = 1\n"
    outcome = run(project(tmp_path / "loop", "pass\n", note))

    assert (outcome.status, outcome.notices) == ("stopped", ("notify.command: sh ended with 7",))


def test_an_interruption_is_notified_and_one_of_the_last_steps_loses_none(folder: Path, tmp_path: Path) -> None:
    """Ctrl-C while the end is notified waits for that, stops the run, and the next owner only writes its end."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    told = f"echo >> {tmp_path}/told; echo > {ready}; cat {go}"
    plan, _ = plan_for_a_run(
        str(project(tmp_path / "loop", WORKS, APART + f"notify.command = ['sh', '-c', '{told}']\n")), LoopGiven()
    )

    async def interrupted() -> Outcome:
        task = asyncio.ensure_future(launch.start(plan, {"prompt": "go"}, state_dir=STATE))
        await asyncio.to_thread(ready.read_text)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.to_thread(go.write_text, "")
        return await task

    stopped = asyncio.run(interrupted())
    ended = asyncio.run(launch.resume(stopped.run, state_dir=STATE))

    assert (stopped.status, stopped.reason, stopped.exit) == ("stopped", "interrupted", 130)
    assert ended.status == "completed"
    assert (tmp_path / "told").read_text() == "\n"
    assert [type(one) for one in steps(ended.run)] == [TreeMade, TreeMerged, TreeCleared, RunNotified, RunFinished]


def test_a_work_tree_that_cannot_be_made_stops_the_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made at the next try, and no agent was started before."""

    def full(*args: object) -> worktree.WorkTree:
        raise GitFailed(("worktree", "add"), 128, "fatal: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(worktree, "make", full)
        with pytest.raises(GitFailed, match="the disk is full"):
            run(project(tmp_path / "loop", WORKS, APART), run_id="calm-brook")
    resumed = asyncio.run(launch.resume("calm-brook", state_dir=STATE))

    assert resumed.status == "completed"
    assert (folder / "made.txt").read_text() == "made"


# -- what a kill leaves -----------------------------------------------------------------------------------------------


def wanted(folder: Path, run: str = "x") -> worktree.WorkTree:
    """The work tree that *run* is to have; it is known, and not made yet."""
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, STATE, run, prefix="autoloop", base=origin.commit_of("HEAD"))
    return worktree.write(STATE, tree)


@pytest.mark.parametrize("left", ["nothing", "branch", "files", "no files", "half", "locked", "admin"])
def test_a_tree_without_its_record_is_adopted_or_made_anew(folder: Path, left: str) -> None:
    """Whatever a kill left of `git worktree add`, the tree is the one the run wants."""
    tree = wanted(folder)
    path = Path(tree.path)
    if left == "branch":
        git(folder, "branch", tree.branch)
    elif left != "nothing":
        git(folder, "worktree", "add", "--quiet", "-b", tree.branch, tree.path)
        os.utime(path / "a.txt", (1, 1))
    if left == "no files":
        shutil.rmtree(path)
    elif left == "half":
        (path / "a.txt").unlink()
    elif left == "locked":
        (folder / ".git/worktrees/tree/index.lock").touch()
        (folder / ".git/worktrees/tree/locked").write_text("initializing")
    elif left == "admin":
        shutil.rmtree(folder / ".git/worktrees/tree")
    made = worktree.make(require(folder, "the test"), STATE, tree)

    assert made == replace(tree, status="running", git=made.git)
    assert (Path(made.git) / "gitdir").read_text() == f"{path}/.git\n"
    assert git(path, "status", "--porcelain", "--branch") == f"## {tree.branch}"
    assert (path / "a.txt").read_text() == "one\n"
    assert git(folder, "worktree", "list").count("\n") == 1
    assert (path.joinpath("a.txt").stat().st_mtime == 1) is (left == "files")


def test_a_branch_that_somebody_made_meanwhile_is_left_alone(folder: Path) -> None:
    """The tree gets another one."""
    tree = wanted(folder)
    git(folder, "branch", tree.branch)
    git(folder, "checkout", "--quiet", tree.branch)
    commit(folder, "theirs", b__txt="b\n")
    git(folder, "checkout", "--quiet", "main")
    made = worktree.make(require(folder, "the test"), STATE, tree)

    assert made.branch == f"{tree.branch}-2"
    assert git(folder, "log", "-1", "--format=%s", tree.branch) == "theirs"


def test_locks_of_a_killed_git_do_not_keep_work_from_being_merged(folder: Path) -> None:
    """They lie in the run's own tree, whose agents have ended."""
    tree = worktree.make(require(folder, "the test"), STATE, wanted(folder))
    put(Path(tree.path), "new.txt", "new\n")
    for name in ("index.lock", "HEAD.lock"):
        (folder / ".git/worktrees/tree" / name).touch()
    (folder / ".git/refs/heads" / f"{tree.branch}.lock").touch()

    assert merge.merge_tree(STATE, tree).status == "merged"
    assert (folder / "new.txt").read_text() == "new\n"
    assert not [path for path in (folder / ".git").rglob("*.lock") if path.name != "coterie.lock"]


@pytest.mark.parametrize(("undo", "merges"), [("reset --hard HEAD~1", 2), ("revert --no-edit HEAD", 1)])
def test_a_merge_whose_record_was_lost_is_done_once_unless_it_was_undone(folder: Path, undo: str, merges: int) -> None:
    """The commit is known before the branch moves, so the next owner finds it there, or finds that it is gone."""
    tree = worktree.make(require(folder, "the test"), STATE, wanted(folder))
    put(Path(tree.path), "new.txt", "new\n")
    merged = merge.merge_tree(STATE, tree)
    before_its_end = worktree.write(STATE, replace(tree, commit=merged.commit))
    again = merge.merge_tree(STATE, before_its_end)

    assert (again.status, again.commit) == ("merged", merged.commit)
    assert git(folder, "log", "--format=%s").splitlines() == ["Merge run x", "first"]
    git(folder, *undo.split())
    assert merge.merge_tree(STATE, before_its_end).status == "merged"
    assert (folder / "new.txt").exists() is (merges == 2)


def test_files_that_are_half_removed_are_not_work(folder: Path) -> None:
    """Git was killed while it removed a tree: what was committed before is the work."""
    tree = worktree.make(require(folder, "the test"), STATE, wanted(folder))
    commit(Path(tree.path), "work", new__txt="new\n")
    tree = worktree.write(STATE, replace(tree, status="failed", leaving=True))
    (Path(tree.path) / "a.txt").unlink()
    (Path(tree.path) / ".git").unlink()

    assert main(["worktree", "clean", "x"]) == 0
    assert not Path(tree.path).exists()
    assert git(folder, "ls-tree", "--name-only", tree.branch).split() == ["a.txt", "new.txt"]


def test_the_next_owner_waits_for_a_git_that_outlived_the_one_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git inherits the lock of the repository; one that never ends is an error that says so."""
    common, ready = folder / ".git", tmp_path / "ready"
    os.mkfifo(ready)
    script = f"""
import os, subprocess
from pathlib import Path
from coterie.agents.workspace.trees.repository_lock import inherited, locked
with locked(Path({str(common)!r})):
    subprocess.Popen(["sh", "-c", "echo $$ > {ready}; exec sleep 600"], pass_fds=inherited())
    os._exit(9)
"""
    dead = subprocess.Popen([sys.executable, "-c", script])
    outlives = int(ready.read_text())
    assert dead.wait() == 9
    with monkeypatch.context() as patched:
        patched.setattr(repository_lock, "TIMEOUT", 0.0)
        with pytest.raises(GitFailed, match="another process has locked"), repository_lock.locked(common):
            pass
    os.kill(outlives, signal.SIGKILL)
    with repository_lock.locked(common), repository_lock.locked(common):
        assert len(repository_lock.inherited()) == 1
    assert repository_lock.inherited() == ()


@pytest.mark.parametrize(("mode", "wanted"), [(0o755, 0o600), (0o2775, 0o660)])
def test_users_who_share_a_repository_share_its_lock(tmp_path: Path, mode: int, wanted: int) -> None:
    """Git makes the folders of such a repository so that the group writes them."""
    tmp_path.chmod(mode)
    for _ in range(2):
        with repository_lock.locked(tmp_path):
            assert stat.S_IMODE((tmp_path / "coterie.lock").stat().st_mode) == wanted
