"""Loops that work in git work trees of their own, from their start to what becomes of their work."""

import asyncio
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from loop_projects import STATE, project, records, run
from msgspec.structs import replace
from repositories import commit, git, holds, put, repository

from coterie.agents.backends.git_variables import LOCAL
from coterie.agents.backends.sandbox.choice import working
from coterie.agents.workspace.trees import preparation, private, worktree
from coterie.agents.workspace.trees.confinement import guards_of, strictest_sandbox
from coterie.agents.workspace.trees.disposal import remove_files
from coterie.agents.workspace.trees.fork_tree import files_after
from coterie.agents.workspace.trees.git import Repository, require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.snapshots import run_ref
from coterie.base import files
from coterie.errors import GitFailed, RetryRefused, UsageError
from coterie.execution.runs import finalizers, launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.isolation import decide, is_used
from coterie.execution.runs.removal import remove
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.stale_trees import is_over
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import (
    RunReopened,
    RunStarted,
    TreeAttested,
    TreeMade,
    TreePrepared,
    TreeSaved,
    TreesJoined,
    TurnFinished,
)
from coterie.team.planning.plan import AgentPlan, Limits, Plan

WORKS = """
n = int(turn.split("#")[1])
pathlib.Path(f"made-{n}.txt").write_text(os.getcwd())
subprocess.run([emit, "emit", "done" if n == 2 else "next"], check=True, stdout=subprocess.DEVNULL)
"""
FAILS = WORKS + "sys.exit(3 if n == 1 else 0)\n"
APART = "worktree.enabled = true\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r", **{"__gitignore": ".autoloop\n"})
    monkeypatch.chdir(found)
    return found


GITS = (
    WORKS
    + """
commit = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "--quiet", "--message", turn]
subprocess.run(["git", "add", "--all"], check=True)
subprocess.run(commit, check=True)
said = subprocess.run(["git", "rev-parse", "--git-common-dir"], capture_output=True, text=True, check=True)
pathlib.Path(f"at-{n}.txt").write_text(said.stdout)
"""
)


def test_a_run_that_an_earlier_release_began_ends_as_it_began(folder: Path, tmp_path: Path) -> None:
    """Its agents go on with the user's repository, and its work is merged."""
    begun = run(project(tmp_path / "loop", GITS, APART + "event_loop.max_iterations = 1\n"))
    tree = worktree.read(STATE, begun.run)
    assert tree is not None
    home = Path(tree.path).parent
    private.fetch_back(tree)
    for name in (private.NAME, private.LINK, private.REFS):
        files.discard(home / name)
    worktree.write(STATE, replace(tree, git=""))
    ended = asyncio.run(launch.resume(begun.run, state_dir=STATE, limits=Limits(add_iterations=2)))

    assert ended.status == "completed", ended
    own = {name: (folder / name).read_text().strip() for name in ("at-1.txt", "at-2.txt")}
    assert own == {"at-1.txt": str(home / "git"), "at-2.txt": str(folder / ".git")}
    assert git(folder, "branch", "--format=%(refname:short)") == "main"
    assert git(folder, "worktree", "list").count("\n") == 0


def test_a_run_that_succeeds_is_merged_and_cleaned_up(folder: Path, tmp_path: Path) -> None:
    """Every agent works in the work tree, not in the checkout, and what they did is there afterwards (defect C)."""
    told: list[str] = []
    outcome = run(project(tmp_path / "loop", WORKS, APART), tell=told.append)
    tree = worktree.read(Path(".autoloop"), outcome.run)

    assert outcome.status == "completed"
    assert tree is not None
    assert (tree.status, tree.removed) == ("merged", True)
    assert [(folder / f"made-{n}.txt").read_text() for n in (1, 2)] == [tree.path, tree.path]
    assert git(folder, "log", "--format=%s") == f"Merge run {outcome.run}\nfirst"
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "worktree", "list").count("\n") == 0
    assert told == [f"working in {tree.path}, on the branch autoloop/{outcome.run}"]
    assert outcome.notices == (f"its work is merged into main of {folder}",)


def test_a_run_that_fails_keeps_its_work(folder: Path, tmp_path: Path) -> None:
    """In its work tree, and the checkout is as it was."""
    before = holds(folder)
    outcome = run(
        project(tmp_path / "loop", FAILS.replace('"emit", ', '"--help", '), APART + "event_loop.max_failures = 1\n")
    )
    tree = worktree.read(Path(".autoloop"), outcome.run)

    assert outcome.status == "failed"
    assert tree is not None
    assert (Path(tree.path) / "made-1.txt").exists()
    assert {name: was for name, was in holds(folder).items() if not name.startswith(".autoloop")} == before
    assert f"coterie worktree merge {outcome.run}" in outcome.notices[0]


def test_a_run_that_stopped_goes_on_in_its_work_tree(folder: Path, tmp_path: Path) -> None:
    """And is merged when it has completed at last; started below the top, it works there."""
    put(folder, "deep/er/x.txt", "x")
    commit(folder, "deeper")
    os.chdir(folder / "deep" / "er")
    loop = project(tmp_path / "loop", WORKS, APART + "event_loop.max_iterations = 1\n")
    outcome = run(loop)
    [started] = records(outcome.run, RunStarted)
    tree = worktree.read(Path(".autoloop"), outcome.run)

    assert (outcome.status, outcome.reason) == ("stopped", "max_iterations")
    assert "it works on the branch" in outcome.notices[0]
    assert tree is not None
    assert started.cwd == tree.cwd == str(Path(tree.path) / "deep" / "er")
    resumed = asyncio.run(launch.resume(outcome.run, state_dir=Path(".autoloop"), limits=Limits(add_iterations=2)))
    assert resumed.status == "completed"
    assert (folder / "deep" / "er" / "made-2.txt").read_text() == tree.cwd


def test_who_decides() -> None:
    """The command line and the settings, which the plan holds as one; only without a word do others count."""
    asked: list[bool] = []

    def others() -> bool:
        asked.append(True)
        return True

    assert [decide(True, others), decide(False, others)] == ["wanted", ""]
    assert not asked
    assert decide(None, others) == "auto"
    assert decide(None, lambda: False) == ""


def test_beside_another_run_a_run_works_apart_unless_told_otherwise(folder: Path, tmp_path: Path) -> None:
    """Said aloud; runs elsewhere and runs that have ended do not count."""
    loop = project(tmp_path / "loop", WORKS)
    other = run(loop)
    here = require(folder, "the test")
    assert not is_used(here, Path(".autoloop"))
    lock = RunLock(other.run, Path(".autoloop") / "runs" / other.run / "lock")
    try:
        assert is_used(here, Path(".autoloop"))
        assert not is_used(require(repository(tmp_path / "elsewhere"), "the test"), Path(".autoloop"))
        told: list[str] = []
        apart, together = run(loop, tell=told.append), run(loop, "worktree.enabled=false")
    finally:
        lock.release()

    assert "another run works in this git work tree" in told[0]
    assert worktree.read(Path(".autoloop"), apart.run) is not None
    assert worktree.read(Path(".autoloop"), together.run) is None


def test_what_the_user_has_not_committed_is_said_to_be_left_out(folder: Path, tmp_path: Path) -> None:
    """It is in the checkout only."""
    put(folder, "a.txt", "changed\n")
    told: list[str] = []
    run(project(tmp_path / "loop", WORKS, APART), tell=told.append)

    assert "1 file has uncommitted changes here, which the run does not see" in told[0]
    assert (folder / "a.txt").read_text() == "changed\n"


def test_where_there_can_be_no_work_tree_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of git, and without a commit to begin with; nothing was started."""
    loop = project(tmp_path / "loop", WORKS, APART)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="needs a git work tree: fatal: not a git repository"):
        run(loop)
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UsageError, match="commit something first"):
        run(loop)


def test_where_the_repository_is_read_only_a_run_does_without_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no snapshot, and confined agents have no private repository; a work tree is refused."""
    monkeypatch.setattr(Repository, "why_read_only", lambda self: f"{self.common} cannot be written")
    with pytest.raises(UsageError, match="needs a branch, and "):
        run(project(tmp_path / "apart", WORKS, APART))
    settings = 'backend.sandbox = "auto"\n' if working() is not None else ""
    outcome = run(project(tmp_path / "loop", WORKS, settings), snapshots=True)

    assert outcome.status == "completed"
    assert {one.problem for one in records(outcome.run, TreeSaved)} == {f"{folder}/.git cannot be written"}
    notes = [note for one in records(outcome.run, TreeAttested) for note in one.notes]
    is_hidden = (one := working()) is not None and one.PROTECTS
    said = f"it worked with your repository itself: {folder}/.git cannot be written"
    assert notes == ([said] * 2 if is_hidden else [])
    assert not (folder / ".git" / "coterie.lock").exists()


# -- time travel ------------------------------------------------------------------------------------------------------


def test_the_files_are_kept_at_each_turns_end(folder: Path, tmp_path: Path) -> None:
    """Before the turn's end is written, in a checkout as in a work tree; without the word nothing is."""
    outcome = run(project(tmp_path / "loop", WORKS), snapshots=True)
    first, second = records(outcome.run, TreeSaved)
    ends = records(outcome.run, TurnFinished)

    assert [one.seq for one in (first, second)] == [one.seq - 1 for one in ends]
    assert git(folder, "ls-tree", "--name-only", first.commit).split() == [".gitignore", "a.txt", "made-1.txt"]
    assert "made-2.txt" in git(folder, "ls-tree", "--name-only", second.commit)
    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie") == run_ref(outcome.run)
    assert {first.commit, second.commit} < set(git(folder, "rev-list", run_ref(outcome.run)).split())
    assert not records(run(project(tmp_path / "loop", WORKS)).run, TreeSaved)


def test_a_turn_that_failed_leaves_files_too(folder: Path, tmp_path: Path) -> None:
    """What a failed attempt did is what the next one finds."""
    outcome = run(project(tmp_path / "loop", FAILS.replace("exit(3", "exit(1")), snapshots=True)

    assert [one.turn for one in records(outcome.run, TreeSaved)] == ["iteration#1", "iteration#2"]


def test_a_disk_that_is_full_fails_no_turn(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written down, and the run goes on."""

    def full(*args: object) -> object:
        raise GitFailed(("add",), 128, "fatal: the disk is full")

    monkeypatch.setattr("coterie.agents.workspace.trees.snapshots.Snapshots.save", full)
    outcome = run(project(tmp_path / "loop", WORKS), snapshots=True)

    assert outcome.status == "completed"
    assert {(one.commit, one.problem) for one in records(outcome.run, TreeSaved)} == {
        ("", "git add failed (128): fatal: the disk is full")
    }


@pytest.mark.parametrize("settings", ["", APART])
def test_a_fork_has_the_files_of_its_record(folder: Path, tmp_path: Path, settings: str) -> None:
    """In a work tree of its own, wherever the original worked; its work comes back when somebody says so."""
    outcome = run(project(tmp_path / "loop", WORKS, settings), snapshots=True)
    ended = records(outcome.run, TurnFinished)[0].seq
    put(folder, "later.txt", "later\n")
    before = {name: was for name, was in holds(folder).items() if not name.startswith(".autoloop")}
    made = fork(outcome.run, state_dir=Path(".autoloop"), at=ended)

    assert set(holds(Path(made.cwd))) == {".gitignore", "a.txt", "made-1.txt"}
    resumed = asyncio.run(launch.resume(made.run, state_dir=Path(".autoloop")))
    assert resumed.status == "completed"
    assert (Path(made.cwd) / "made-2.txt").read_text() == made.cwd
    assert {name: was for name, was in holds(folder).items() if not name.startswith(".autoloop")} == before
    assert f"coterie worktree merge {made.run}" in resumed.notices[0]


def test_a_fork_before_any_turns_end_or_on_request_has_the_files_as_they_are(folder: Path, tmp_path: Path) -> None:
    """There is nothing to go back to, or nobody wants to."""
    outcome = run(project(tmp_path / "loop", WORKS), snapshots=True)

    assert fork(outcome.run, state_dir=Path(".autoloop"), at=3).cwd == ""
    assert fork(outcome.run, state_dir=Path(".autoloop"), files=False).cwd == ""
    assert git(folder, "worktree", "list").count("\n") == 0


def test_the_files_of_a_fork_are_never_those_of_a_branch() -> None:
    """Each branch of a wave has its own, and the loop has none of them until they are joined."""
    saved = [("r", "first", 1.0, False), ("r", "second", 2.0, False), ("r/wave-1.1#1.1", "branch", 3.0, True)]
    found = [
        (run, TreeSaved(turn="iteration#1", attempt=1, commit=commit, at=at, apart=apart))
        for run, commit, at, apart in saved
    ]

    first = RunStarted(run="r", engine="loop", snapshots=True)
    assert files_after(STATE, first, found) == files_after(STATE, first, reversed(found)) == found[1][1]
    assert files_after(STATE, first, found[2:]) is None


def test_snapshots_go_with_their_run_and_a_fork_keeps_those_before_it(folder: Path, tmp_path: Path) -> None:
    """Removing the original leaves to the fork what its records name; with the fork the last ref goes."""
    outcome = run(project(tmp_path / "loop", WORKS), snapshots=True)
    saved = records(outcome.run, TreeSaved)
    forked = fork(outcome.run, state_dir=Path(".autoloop"))
    remove(Runs(Path(".autoloop")), outcome.run)
    git(folder, "gc", "--quiet", "--prune=now")

    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie") == run_ref(forked.run)
    for one in saved:
        git(folder, "cat-file", "-e", one.commit)
    tree = worktree.read(Path(".autoloop"), forked.run)
    assert tree is not None
    remove_files(Path(".autoloop"), tree)
    remove(Runs(Path(".autoloop")), forked.run)
    assert git(folder, "for-each-ref", "refs/coterie") == ""


def test_files_that_are_gone_are_no_fork(folder: Path, tmp_path: Path) -> None:
    """It says how to do without, and leaves nothing behind."""
    outcome = run(project(tmp_path / "loop", WORKS), snapshots=True)
    for name in git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie").splitlines():
        git(folder, "update-ref", "-d", name)
    git(folder, "gc", "--quiet", "--prune=now")
    with pytest.raises(UsageError, match="--no-worktree"):
        fork(outcome.run, state_dir=Path(".autoloop"))

    assert git(folder, "worktree", "list").count("\n") == 0


def test_before_any_turns_end_a_run_with_a_tree_has_the_files_that_it_began_with(folder: Path, tmp_path: Path) -> None:
    """Its own tree may be gone, and what is in it is of a later time."""
    outcome = run(project(tmp_path / "loop", WORKS, APART), snapshots=True)
    base = records(outcome.run, TreeMade)[0].base
    put(folder, "later.txt", "later\n")
    made = fork(outcome.run, state_dir=STATE, at=3)

    assert set(holds(Path(made.cwd))) == {".gitignore", "a.txt"}
    tree = worktree.read(STATE, made.run)
    assert tree is not None
    assert (tree.base, tree.since) == (base, base)
    resumed = asyncio.run(launch.resume(made.run, state_dir=STATE))
    assert resumed.status == "completed"
    assert (Path(made.cwd) / "made-1.txt").read_text() == made.cwd


@pytest.mark.skipif(working() is None, reason="needs a sandbox")
def test_what_a_fork_of_confined_agents_changes_of_the_team_is_not_merged(folder: Path, tmp_path: Path) -> None:
    """Also if their run worked in the user's checkout; commands that prepare its tree are confined as they are."""
    outcome = run(project(tmp_path / "loop", WORKS, 'backend.sandbox = "auto"\n'), snapshots=True)
    made = fork(outcome.run, state_dir=STATE)

    tree = worktree.read(STATE, made.run)
    assert tree is not None
    assert tree.sandbox == "auto"
    put(Path(tree.path), "sub/autoloops.toml", "# evil\n")
    done = merge_tree(STATE, tree)
    assert (done.status, "sub/autoloops.toml" in done.reason) == ("blocked", True)


@pytest.mark.skipif(working() is None, reason="needs a sandbox")
def test_agents_of_a_team_at_a_node_are_confined_agents_of_the_run(folder: Path) -> None:
    coder = AgentPlan(name="coder", backend="command", options={"sandbox": "required"})
    team = AgentPlan(name="team", kind="topology", child=Plan(name="t", agents={"coder": coder}, coordination=None))
    plan = Plan(name="p", agents={"team": team}, coordination=None)
    tree = worktree.new_tree(require(folder, "the test"), STATE, "x", prefix="p", base="")
    assert (guards_of(plan, tree), strictest_sandbox(plan)) == ((), "required")


def test_a_fork_whose_folder_is_gone_is_refused_with_a_line_that_brings_it_back(folder: Path, tmp_path: Path) -> None:
    """It could never go on; nothing is left of it."""
    kept = run(project(tmp_path / "kept", WORKS, APART), snapshots=True)
    with pytest.raises(UsageError, match="fork without --no-worktree"):
        fork(kept.run, state_dir=STATE, files=False)
    outcome = run(project(tmp_path / "loop", WORKS, APART))
    with pytest.raises(UsageError, match="nor a snapshot") as refused:
        fork(outcome.run, state_dir=STATE)
    assert {one.name for one in (STATE / "runs").iterdir()} == {kept.run, outcome.run}
    line = str(refused.value).partition("files: ")[2].partition(", then")[0]
    subprocess.run(shlex.split(line), check=True)

    made = fork(outcome.run, state_dir=STATE, files=False)
    assert asyncio.run(launch.resume(made.run, state_dir=STATE)).status == "completed"


# -- waves ------------------------------------------------------------------------------------------------------------

WAVE = """
if "wave-" in os.environ["COTERIE_RUN"]:
    k = os.environ["COTERIE_RUN"].split("wave-1.")[1][0]
    assert pathlib.Path("before.txt").read_text() == "before"
    pathlib.Path(f"branch-{k}.txt").write_text(os.getcwd())
    pathlib.Path("same.txt").write_text(k if k != "3" else "1")
    subprocess.run([emit, "emit", "next"], check=True, stdout=subprocess.DEVNULL)
elif turn == "iteration#1":
    pathlib.Path("before.txt").write_text("before")
    subprocess.run([emit, "emit", "next.parallel", "- a\\n- b\\n- c"], check=True, stdout=subprocess.DEVNULL)
else:
    prompt = sys.stdin.read()
    pathlib.Path("prompt.txt").write_text(prompt)
    subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.slow
def test_each_branch_of_a_wave_works_apart_and_comes_back(folder: Path, tmp_path: Path) -> None:
    """They begin with what the loop had, committed or not; in the order of the branches they are merged, and who
    disagrees with an earlier one is kept and named, to the next agent too.
    """
    outcome = run(project(tmp_path / "loop", WAVE, APART + "parallel.enabled = true\n"), snapshots=True)
    [joined] = records(outcome.run, TreesJoined)

    assert outcome.status == "completed", outcome.reason
    assert joined.turns == ("wave-1.1#1", "wave-1.3#1")
    [kept] = joined.kept
    assert (kept.turn, kept.files) == ("wave-1.2#1", ("same.txt",))
    assert (folder / "same.txt").read_text() == "1"
    assert len({(folder / f"branch-{k}.txt").read_text() for k in (1, 3)}) == 2
    assert not (folder / "branch-2.txt").exists()
    assert (Path(kept.path) / "branch-2.txt").exists()
    assert git(folder, "show", f"{kept.branch}:same.txt") == "2"
    prompt = (folder / "prompt.txt").read_text()
    assert "The work of wave-1.2#1 was not merged (conflicts in same.txt)" in prompt
    assert [one.apart for one in records(outcome.run, TreeSaved)].count(True) == 3


# -- whoever wants to know --------------------------------------------------------------------------------------------


def test_the_end_of_a_run_is_told(folder: Path, tmp_path: Path) -> None:
    """As JSON on standard input, once, where the run was started."""
    note = "notify.command = ['sh', '-c', 'cat >> ../told.json; pwd > ../where']\n"
    outcome = run(project(tmp_path / "loop", WORKS, APART + note))
    told = json.loads((tmp_path / "told.json").read_text())

    assert (told["run"], told["status"], told["reason"]) == (outcome.run, "completed", "completion_event")
    assert (told["exit"], told["iterations"], told["worktree"]["status"]) == (0, 2, "merged")
    assert (tmp_path / "where").read_text().strip() == str(folder)

    (tmp_path / "told.json").unlink()
    run(project(tmp_path / "stopped", "pass\n", APART + note + "event_loop.max_iterations = 2\n"))
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["status"], told["reason"], told["iterations"]) == ("stopped", "max_iterations", 2)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("['no-such-program']", "no-such-program cannot be started"),
        ("['sh', '-c', 'echo no; exit 7']", "sh ended with 7: no"),
        ("['sleep', '60']", "sleep took longer than 0.2 s"),
    ],
)
def test_a_notification_that_fails_is_written_down_and_fails_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    """It cannot be started, says no, or never ends."""
    if "sleep" in command:
        monkeypatch.setattr(finalizers, "NOTIFY_WITHIN", 0.2)
    outcome = run(project(tmp_path / "loop", WORKS, f"notify.command = {command}\n"))
    kept = json.loads((Path(".autoloop/runs") / outcome.run / "notify.json").read_text())

    assert outcome.exit == 0
    assert said in outcome.notices[-1]
    assert said in kept["problem"]


HEALS = """
with open("made.txt", "a") as made:
    made.write("again " if made.tell() else "once ")
if not pathlib.Path(os.environ["HOME"], "healed").exists():
    sys.exit(3)
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.parametrize("cleanup", ["on_success", "always"])
def test_a_failed_run_that_is_retried_goes_on_in_its_work_tree(folder: Path, tmp_path: Path, cleanup: str) -> None:
    """Also if that was removed at its end, and it is merged when it has completed at last."""
    settings = f"{APART}event_loop.max_failures = 1\nworktree.cleanup = {cleanup!r}\n"
    outcome = run(project(tmp_path / "loop", HEALS, settings), snapshots=True)
    state = Path(".autoloop")
    before = worktree.read(state, outcome.run)
    assert (outcome.status, outcome.way_on) == ("failed", "retry")
    assert before is not None
    assert (before.status, before.removed) == ("failed", cleanup == "always")

    assert asyncio.run(launch.resume(outcome.run, state_dir=state, retry="")).status == "failed"
    Path(os.environ["HOME"], "healed").touch()
    runs = Runs(state)
    assert is_over(state, before)
    resumed = asyncio.run(launch.resume(outcome.run, state_dir=state, retry=""))
    after = worktree.read(state, outcome.run)
    assert resumed.status == "completed"
    assert after is not None
    assert (after.status, after.removed, after.path) == ("merged", True, before.path)
    assert (folder / "made.txt").read_text() == "once again again "
    assert sum(isinstance(one, RunReopened) for one in runs.read(outcome.run)) == 2


def test_a_failed_run_whose_work_was_merged_is_not_retried(folder: Path, tmp_path: Path) -> None:
    """The message says where it was merged, and which fork has the files of that moment."""
    outcome = run(project(tmp_path / "loop", HEALS, APART + "event_loop.max_failures = 1\n"))
    merge_tree(Path(".autoloop"), worktree.read(Path(".autoloop"), outcome.run))  # type: ignore[arg-type]
    says = f"its work was merged into main, .*`coterie fork {outcome.run} --at [0-9]+` begins a new run"
    with pytest.raises(RetryRefused, match=says):
        asyncio.run(launch.resume(outcome.run, state_dir=Path(".autoloop"), retry=""))
    assert Runs(Path(".autoloop")).status(outcome.run) == "failed"


WAVES = """
here = os.environ["COTERIE_TURN"]
if os.environ["COTERIE_RUN"].count("/") == 0:
    first = turn == "iteration#1"
    words = ["explore.parallel", "- a\\n- b"] if first else ["done"]
    subprocess.run([emit, "emit", *words], check=True, stdout=subprocess.DEVNULL)
    sys.exit(0)
branch = os.environ["COTERIE_RUN"].rpartition("/")[2].partition("#")[0]
with open(f"{branch}.txt", "a") as made:
    made.write("again " if made.tell() else "once ")
if not pathlib.Path(os.environ["HOME"], "healed").exists():
    sys.exit(3)
print("explored")
"""


def test_the_branches_of_a_failed_wave_are_retried_in_their_work_trees(folder: Path, tmp_path: Path) -> None:
    """The files for people say the wave once more, its work is merged, and the loop goes on."""
    settings = f"{APART}parallel.enabled = true\nevent_loop.max_failures = 1\n"
    outcome = run(project(tmp_path / "loop", WAVES, settings))
    state = Path(".autoloop")
    assert outcome.status == "failed", outcome
    assert "no branch succeeded" in outcome.reason
    [join] = (state / "waves").glob("*/join.md")
    assert "failed" in join.read_text()
    assert asyncio.run(launch.resume(outcome.run, state_dir=state, retry="wave-1.2#1")).status == "failed"
    Path(os.environ["HOME"], "healed").touch()
    resumed = asyncio.run(launch.resume(outcome.run, state_dir=state, retry=""))

    assert (resumed.status, resumed.reason) == ("completed", "completion_event"), resumed
    [first, second] = [one for one in Runs(state).read(outcome.run) if isinstance(one, RunReopened)]
    assert list(first.below) == ["wave-1.2#1.1"]
    assert sorted(second.below) == ["wave-1.1#1.1", "wave-1.2#1.1"]
    assert "explored" in join.read_text()
    assert "failed" not in join.read_text()
    made = {name: what[1] for name, what in holds(folder).items() if name.startswith("wave-1")}
    assert made == {"wave-1.1.txt": "once again ", "wave-1.2.txt": "once again again "}
    lines = [json.loads(line) for line in (state / "journal.jsonl").read_text().splitlines()]
    topics = [line["topic"] for line in lines if line["run"] == outcome.run]
    assert topics.count("wave.start") == 1
    assert topics.count("wave.failed") == 2
    assert [topic for topic in topics if topic.startswith(("loop.", "wave.join.finish"))] == [
        "loop.start",
        "loop.stop",
        "loop.resume",
        "loop.stop",
        "loop.resume",
        "wave.join.finish",
        "loop.complete",
    ]
    assert [line["fields"]["previous_stop_reason"] for line in lines if line["topic"] == "loop.resume"] == [
        "backend_failed"
    ] * 2


LISTS = """
import json as _json
pathlib.Path(os.environ["SEEN"], "agent").write_text(_json.dumps(dict(os.environ)))
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


def test_a_hook_of_git_that_starts_a_run_leads_none_of_its_programs_astray(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents, gates and `notify.command` have no variable that names the repository of the hook."""
    other = repository(tmp_path / "other")
    (seen := tmp_path / "seen").mkdir()
    monkeypatch.setenv("SEEN", str(seen))
    for name in LOCAL - {"GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"}:
        monkeypatch.setenv(name, str(other / ".git"))
    settings = APART + (
        f'event_loop.gates = [["sh", "-c", "env > {seen}/gate"]]\n'
        f'notify.command = ["sh", "-c", "env > {seen}/notify"]\nbackend.sandbox = "off"\n'
    )
    outcome = run(project(tmp_path / "loop", LISTS, settings))

    assert outcome.status == "completed", outcome.notices
    for who in ("agent", "gate", "notify"):
        text = (seen / who).read_text()
        assert "PATH" in text
        assert str(other / ".git") not in text, who


USES = """
assert pathlib.Path(".env").read_text() == "KEY=1" and pathlib.Path("deps/lib").read_text() == "lib"
pathlib.Path("done.txt").write_text(pathlib.Path("built").read_text())
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


def test_a_new_tree_is_prepared_before_the_first_turn(folder: Path, tmp_path: Path) -> None:
    """It gets ignored files of the checkout, and commands run in it; a failure stops the run, and `resume` goes on."""
    commit(folder, "ignores", __gitignore=".autoloop\n.env\ndeps/\nbuilt\nlog\n")
    put(folder, ".env", "KEY=1")
    put(folder, "deps/lib", "lib")
    setup = '[["sh", "-c", "echo hello; cat deps/lib > built; test -e ready"], ["sh", "-c", "pwd >> log"]]'
    settings = APART + f'worktree.copy = [".env", "de*", "*.txt", ".autoloop"]\nworktree.setup = {setup}\n'
    settings = settings.replace("test -e ready", f"test -e {tmp_path}/ready")
    loop = project(tmp_path / "loop", USES, settings)
    with pytest.raises(UsageError, match=r"worktree\.setup: `sh -c .* ended with status 1"):
        run(loop)
    [name] = [path.name for path in Path(".autoloop/runs").iterdir()]
    [failed] = records(name, TreePrepared)
    assert (failed.copied, failed.output) == ((".env", "deps"), "hello\n")
    assert records(name, TurnFinished) == []

    (tmp_path / "ready").touch()
    outcome = asyncio.run(launch.resume(name, state_dir=Path(".autoloop")))
    assert outcome.status == "completed", outcome
    assert (folder / "done.txt").read_text() == "lib"
    assert [one.problem for one in records(name, TreePrepared)] == [failed.problem, ""]
    assert not any("ignored" in line for line in outcome.notices)  # what it began with is not worth a word


def test_a_command_that_prepares_a_tree_has_a_time_limit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits for ever stops the run as one that fails does."""
    monkeypatch.setattr(preparation, "TIMEOUT", 0.05)
    loop = project(tmp_path / "loop", USES, APART + 'worktree.setup = [["sleep", "3600"]]\n')
    with pytest.raises(UsageError, match=r"worktree\.setup: .*0\.05 s"):
        run(loop)


def test_a_file_that_cannot_be_copied_to_a_new_tree_is_named_with_the_reason(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, ".env", "x")
    put(tmp_path, "bin/cp", "#!/bin/sh\necho cp: no room >&2\nexit 1\n")
    (tmp_path / "bin" / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "tree").mkdir()
    with pytest.raises(UsageError, match=r"\.env cannot be copied: cp: no room"):
        preparation.copy_files(folder, tmp_path / "tree", (".env",))
