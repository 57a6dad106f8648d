"""An attempt that leaves its git work tree has failed, with the facts; one that stays is recorded, too."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loop_projects import project, records, run
from repositories import commit, git, repository

from coterie.agents.workspace.trees import git as calls
from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.attestation import position, problem
from coterie.agents.workspace.trees.workspace import GitWorkspace
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.history.journal import records as r
from coterie.team.planning.plan import AgentPlan

CODER = AgentPlan(name="coder", backend="acp")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r", **{"__gitignore": ".autoloop\n"})
    monkeypatch.chdir(found)
    return found


def own_tree(folder: Path, state: Path) -> WorkTree:
    origin = calls.require(folder, "the test")
    return worktree.make(
        origin, state, worktree.new_tree(origin, state, "x", prefix="coterie", base=origin.commit_of("HEAD"))
    )


def test_a_position_is_one_call_of_git(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = own_tree(folder, tmp_path / "state")
    commit(Path(tree.path), "work", b__txt="2")
    seen: list[tuple[str, ...]] = []
    call = calls.call
    monkeypatch.setattr(calls, "call", lambda folder, *words: seen.append(words) or call(folder, *words))
    found = position(Path(tree.path))

    assert len(seen) == 1
    head, main = git(Path(tree.path), "rev-parse", "HEAD"), git(folder, "rev-parse", "HEAD")
    assert found == r.TreePosition(
        top=tree.path, repository=str(folder / ".git"), head=head, branch="coterie/x", main=main
    )
    assert position(folder) == r.TreePosition(
        top=str(folder), repository=str(folder / ".git"), head=main, branch="main"
    )


def test_where_there_is_no_commit_or_no_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    assert position(tmp_path / "new") == r.TreePosition(
        top=str(tmp_path / "new"), repository=str(tmp_path / "new" / ".git")
    )
    (tmp_path / "plain").mkdir()
    assert position(tmp_path / "plain") is None
    assert position(tmp_path / "gone") is None


def removed(tree: Path) -> None:
    shutil.rmtree(tree)


def replaced(tree: Path) -> None:
    (tree / ".git").unlink()
    git(tree, "init", "--quiet")


def switched(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "-b", "feature")


def detached(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--detach")


@pytest.mark.parametrize(
    ("leave", "says"),
    [
        (removed, "is gone, or is no git work tree any more"),
        (replaced, "belongs to another repository now"),
        (switched, "is on the branch feature, and only the branch coterie/x is merged: `git checkout coterie/x` there"),
        (detached, "on no branch, and only the branch coterie/x is merged"),
    ],
)
def test_an_attempt_that_leaves_the_work_tree_of_its_run(folder: Path, tmp_path: Path, leave: Any, says: str) -> None:
    tree = own_tree(folder, tmp_path / "state")
    before = position(Path(tree.path))
    leave(Path(tree.path))
    after = position(Path(tree.path))

    assert says in problem(before, after, tree)
    if leave is switched:  # the next attempt begins on that branch, and has not stayed either
        assert says in problem(after, after, tree)


def test_in_the_users_checkout_a_branch_may_be_switched(folder: Path) -> None:
    before = position(folder)
    switched(folder)
    assert problem(before, position(folder), None) == ""
    removed(folder / ".git")
    assert "is gone" in problem(before, position(folder), None)


def test_which_agents_are_attested(folder: Path, tmp_path: Path) -> None:
    """Coding agents everywhere, programs only in a work tree of the run's own, people never."""
    tree = own_tree(folder, tmp_path / "state")
    shared, own = (GitWorkspace(tmp_path / "state", "x", folder, str, tree=each) for each in (None, tree))
    command = AgentPlan(name="c", backend="command")
    action, human = (AgentPlan(name="c", kind=kind, backend="command") for kind in ("action", "human"))
    of_python = AgentPlan(name="c")

    assert [shared.attests("x", each) for each in (CODER, command, action, of_python)] == [True, False, False, False]
    assert not shared.attests("x", human)
    assert [own.attests("x", each) for each in (CODER, command, action, human)] == [True, True, True, False]


LEAVES = """
def git(*words): subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words], check=True)
prompt = sys.stdin.read()
if turn == "iteration#1":
    git("checkout", "--quiet", "-b", "feature")
else:
    branch = prompt.split("`git checkout ")[1].split("`")[0]
    git("checkout", "--quiet", branch)
pathlib.Path(f"{turn}.txt").write_text("done")
git("add", "--all")
git("commit", "--quiet", "--message", turn)
if turn != "iteration#1":
    git("merge", "--quiet", "feature")
    subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


def test_a_run_whose_agent_left_is_given_the_way_back(folder: Path, tmp_path: Path) -> None:
    """The attempt fails, the next prompt says how to return, and nothing that was committed is lost."""
    outcome = run(project(tmp_path / "loop", LEAVES, "worktree.enabled = true\n"))

    assert (outcome.status, outcome.iterations) == ("completed", 2)
    [failed] = records(outcome.run, r.AttemptFailed)
    assert (failed.kind, "is on the branch feature" in failed.reason) == ("failed", True)
    first, second = records(outcome.run, r.TreeAttested)
    assert (first.problem, second.problem) == (failed.reason, "")
    assert (first.before.branch, first.after.branch) == (f"autoloop/{outcome.run}", "feature")
    assert second.after.branch == f"autoloop/{outcome.run}"
    assert (folder / "iteration#1.txt").exists()
    assert (folder / "iteration#2.txt").exists()


TASKS = """
objective = json.loads(pathlib.Path(os.environ["COTERIE_TURN_FILE"]).read_text())["task"]
if not objective.startswith("task "):
    n = int(turn.partition("#")[2])
    if n > WAVES:
        subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
    else:
        lines = "\\n".join(f"- task {n}-{k}" for k in range(BRANCHES))
        subprocess.run([emit, "emit", "explore.parallel", lines], check=True, stdout=subprocess.DEVNULL)
    sys.exit()
def git(*words):
    words = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
name = objective.replace(" ", "-")
before = sorted(path.name for path in pathlib.Path().iterdir())
for step in ("begun", "half", "done"):
    pathlib.Path(f"{name}.txt").write_text(f"{step} in {os.getcwd()}")
    git("add", "--all")
    git("commit", "--quiet", "--message", f"{name} {step}")
after = sorted(path.name for path in pathlib.Path().iterdir())
foreign = set(after) - set(before) - {f"{name}.txt"}
commits = [line for line in git("log", "--format=%s", "-3").splitlines() if line.startswith(name + " ")]
assert not foreign and len(commits) == 3, (foreign, commits)
print("well done")
"""
"""A loop that opens waves, and branches that each commit three times what only they write."""


@pytest.mark.parametrize(
    ("branches", "waves"), [(2, 1), pytest.param(16, 13, marks=pytest.mark.long)], ids=["2 agents", "16 agents"]
)
def test_agents_in_work_trees_neither_edit_what_is_anothers_nor_lose_a_commit(
    folder: Path, tmp_path: Path, branches: int, waves: int
) -> None:
    script = f"BRANCHES, WAVES = {branches}, {waves}\n{TASKS}"
    settings = f"worktree.enabled = true\nparallel.enabled = true\nparallel.max_branches = {branches}\n"
    loop = project(tmp_path / "loop", script, settings)
    outcome = run(loop, "event_loop.max_iterations=99")

    assert outcome.status == "completed", outcome
    names = [f"task-{n}-{k}" for n in range(1, waves + 1) for k in range(branches)]
    texts = {name: (folder / f"{name}.txt").read_text() for name in names}
    assert all(text.startswith("done in ") for text in texts.values())
    assert len(set(texts.values())) == len(names)  # each worked in a tree of its own
    attested = records(outcome.run, r.TreeAttested)
    assert not [one for one in attested if one.problem or one.before.main != one.after.main]
    moved = [one for one in attested if one.before.head != one.after.head]
    assert len(moved) == len(names)
    joined = records(outcome.run, r.TreesJoined)
    assert sum(len(one.turns) for one in joined) == len(names)
    assert not [one.kept for one in joined if one.kept]
    assert git(folder, "status", "--porcelain") == ""
    assert subprocess.run(["git", "fsck", "--connectivity-only"], cwd=folder, capture_output=True).returncode == 0


EMITS_ELSEWHERE = """
def git(*words): subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words], check=True)
git("checkout", "--quiet", *(["-b", "wip"] if turn == "iteration#1" else [f"autoloop/{os.environ['COTERIE_RUN']}"]))
pathlib.Path(f"{turn}.txt").write_text("x")
git("add", "--all")
git("commit", "--quiet", "--message", turn)
subprocess.run([emit, "emit", EVENT if turn == "iteration#1" else "done"], check=True, stdout=subprocess.DEVNULL)
if turn == "iteration#1" and FAILS:
    sys.exit(3)
print("LOOP_COMPLETE")
"""


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("event", ["done", "next"])
def test_what_an_attempt_emitted_that_left_its_tree_is_void(
    folder: Path, tmp_path: Path, event: str, fails: bool
) -> None:
    """Neither its event nor its promise counts, whatever else became of it; the next attempt is given the reason."""
    script = f"EVENT, FAILS = {event!r}, {fails}\n{EMITS_ELSEWHERE}"
    outcome = run(project(tmp_path / "loop", script, "worktree.enabled = true\n"))

    assert (outcome.status, outcome.iterations) == ("completed", 2)
    [failed] = records(outcome.run, r.AttemptFailed)
    assert "is on the branch wip" in failed.reason
    assert [one.event for one in records(outcome.run, r.IterationStarted)] == ["loop.start", "loop.start"]
    assert (folder / "iteration#2.txt").exists()
    assert not (folder / "iteration#1.txt").exists()
