"""`coterie worktree`: where the work of runs is, and bringing it back by hand."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from repositories import commit, git, put, repository

from coterie.agents.backends.processes import MARK
from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.git import require
from coterie.execution.runs import index
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import RunFinished, RunOwned, RunStarted, TreeMade
from coterie.interfaces.cli.app import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r", **{"__gitignore": ".coterie\n"})
    monkeypatch.chdir(found)
    return found


def call(*words: str, status: int = 0) -> str:
    """What `coterie` says to *words*, on both streams."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert main(words) == status, said.getvalue()
    return said.getvalue()


def ended(
    folder: Path, run: str, *, finished: bool = True, kept_in: str = ".coterie", shared: bool = False, **files: str
) -> worktree.WorkTree:
    """A run that has ended, or was cut off, with *files* in its work tree.

    Args:
        shared: It is one of an earlier release, whose agents share the user's repository.
    """
    state = folder / kept_in
    writer = JsonlStore(state).claim(run)
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, state, run, prefix="autoloop", base=origin.commit_of("HEAD"))
    tree = worktree.make(origin, state, tree)
    if shared:
        tree = worktree.write(state, replace(tree, git=""))
    else:
        private.enter(tree)
    made = TreeMade(seq=3, run=run, path=tree.path, branch=tree.branch, base=tree.base)
    writer.append([RunStarted(seq=1, run=run, engine="loop"), RunOwned(seq=2, epoch=1), made])
    if finished:
        writer.append([RunFinished(seq=4, outcome="failed")])
    writer.flush()
    writer.give_up()
    if finished:
        tree = worktree.write(state, replace(tree, status="failed"))
    for name, text in files.items():
        put(Path(tree.path), name.replace("__", "."), text)
    return tree


@pytest.mark.parametrize("shared", [False, True])
def test_work_is_looked_at_and_brought_back(folder: Path, shared: bool) -> None:
    """What is not committed counts; afterwards the work tree is gone, in the form of earlier releases, too."""
    tree = ended(folder, "calm-brook", shared=shared, new__txt="new\n", a__txt="changed\n")
    listed, shown, differs = (
        call("worktree", "list"),
        call("worktree", "show", "calm"),
        call("worktree", "diff", "calm"),
    )
    said = call("worktree", "merge", "calm")

    assert f"calm-brook  failed  autoloop/calm-brook  {tree.path}" in listed
    assert "to merge it anyway: coterie worktree merge calm-brook" in shown
    assert "+changed" in differs
    assert "+++ b/new.txt" in differs
    assert "its work is merged into main" in said
    assert (folder / "new.txt").read_text() == "new\n"
    assert not Path(tree.path).exists()
    assert json.loads(call("worktree", "list", "--json"))[0]["removed"]
    assert "merged" in call("worktree", "merge", "calm")


def test_a_tree_of_an_earlier_release_is_removed_with_its_work_on_its_branch(folder: Path) -> None:
    """As one of today."""
    tree = ended(folder, "calm-brook", shared=True, new__txt="new\n")
    call("worktree", "clean", "calm")

    assert not Path(tree.path).exists()
    assert git(folder, "show", f"{tree.branch}:new.txt") == "new"
    assert git(folder, "worktree", "list").count("\n") == 0


def test_a_conflict_has_status_1_and_says_how_to_go_on(folder: Path) -> None:
    """Another strategy can be asked for."""
    tree = ended(folder, "calm-brook", a__txt="theirs\n")
    commit(folder, "mine", a__txt="mine\n")
    said = call("worktree", "merge", "calm", "--strategy", "merge", status=1)

    assert "conflicts with main in a.txt" in said
    assert f"git -C {tree.path} merge main" in said
    assert (folder / "a.txt").read_text() == "mine\n"
    assert "not one of squash, merge, rebase" in call("worktree", "merge", "calm", "--strategy", "octopus", status=2)


def test_a_run_under_way_is_not_merged(folder: Path) -> None:
    """Its agents work there."""
    ended(folder, "calm-brook", finished=False)
    lock = RunLock("calm-brook", folder / ".coterie" / "runs" / "calm-brook" / "lock")
    try:
        for command in ("merge", "clean"):
            assert "owned by a living process" in call("worktree", command, "calm", status=1)
    finally:
        lock.release()


def test_an_agent_neither_merges_nor_removes_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the operator's; an agent looks at it."""
    tree = ended(folder, "calm-brook", new__txt="new\n")
    monkeypatch.setenv(MARK, "other/agent#1.1")
    for words in (["merge", "calm"], ["clean", "calm"], ["clean"]):
        assert "an agent is not the operator" in call("worktree", *words, status=1)
    assert "+++ b/new.txt" in call("worktree", "diff", "calm")
    assert Path(tree.path).exists()


def test_cleaning_loses_no_work(folder: Path) -> None:
    """Trees of runs that have ended go, their work is on its branch; a run that can go on keeps its tree."""
    over, cut_off = ended(folder, "calm-brook", new__txt="new\n"), ended(folder, "wild-fern", finished=False)
    said = call("worktree", "clean")

    assert f"calm-brook: removed {over.path}; kept autoloop/calm-brook" in said
    assert not Path(over.path).exists()
    assert git(folder, "show", "autoloop/calm-brook:new.txt") == "new"
    assert Path(cut_off.path).exists()
    assert call("worktree", "clean") == ""
    call("worktree", "clean", "wild-fern")
    assert not Path(cut_off.path).exists()
    assert "+new" in call("worktree", "diff", "calm")


def test_a_branch_that_no_journal_names_is_neither_merged_nor_deleted(folder: Path, tmp_path: Path) -> None:
    """What a `meta.json` says of a repository and a branch could be an agent's; the files in its folder are removed."""
    victim = repository(tmp_path / "victim")
    git(victim, "checkout", "-q", "-b", "feature")
    tree = ended(folder, "calm-brook")
    names = {"origin": str(victim), "branch": "main", "base": "x"}
    worktree.write(folder / ".coterie", replace(tree, status="failed", **names))
    assert "does not say that its branch is 'main'" in call("worktree", "merge", "calm", status=2)

    for run, status in (("evil", "merged"), ("main", "making"), ("calm-brook", "merged")):
        path = worktree.folder(folder / ".coterie", run) / "tree"
        base = git(victim, "rev-parse", "main") if run == "evil" else "x"
        forged = replace(tree, run=run, path=str(path), cwd=str(path), status=status, **(names | {"base": base}))
        worktree.write(folder / ".coterie", forged)
    call("worktree", "clean")

    assert git(victim, "rev-parse", "main") == git(victim, "rev-parse", "feature")


def test_a_run_without_a_work_tree_is_told_so(folder: Path) -> None:
    """And where there are none at all."""
    assert "no run kept in" in call("worktree", "list")
    writer = JsonlStore(folder / ".coterie").claim("plain")
    writer.append([RunStarted(seq=1, run="plain", engine="flow")])
    writer.flush()
    writer.give_up()
    assert "has no git work tree" in call("worktree", "show", "plain", status=2)


def test_every_state_directory_is_known(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual ones, that of the project's settings, and those of runs that were started elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "index"))
    (folder / "autoloops.toml").write_text('core.state_dir = ".settings"\n')
    for kept_in in (".coterie", ".autoloop", ".settings", "indexed"):
        ended(folder, f"in-{kept_in.strip('.')}", kept_in=kept_in, new__txt=kept_in)
    index.add(index.Entry(run="gone", folder=str(folder / "indexed" / "runs" / "gone")))
    other = ended(repository(tmp_path / "other"), "in-other")
    index.add(index.Entry(run="in-other", folder=str(tmp_path / "other" / ".coterie" / "runs" / "in-other")))
    listed = {one["run"] for one in json.loads(call("worktree", "list", "--json"))}

    assert listed == {"in-coterie", "in-autoloop", "in-settings", "in-indexed", "in-other"}
    for run in sorted(listed):
        assert f"run {run}: failed" in call("worktree", "show", run)
    assert "is merged into main" in call("worktree", "merge", "in-settings")
    call("worktree", "clean")
    assert git(folder, "worktree", "list").count("\n") == 0
    assert Path(other.path).exists(), "clean removed a work tree of another repository"


def test_a_tree_of_a_run_that_never_began_is_known_and_cleared(folder: Path) -> None:
    """Its making was cut off: nothing has worked in it, so its branch goes, too."""
    state, origin = folder / ".autoloop", require(folder, "the test")
    tree = worktree.new_tree(origin, state, "calm-brook", prefix="autoloop", base=origin.commit_of("HEAD"))
    worktree.write(state, tree)
    git(folder, "worktree", "add", "--quiet", "-b", tree.branch, tree.path)

    assert "calm-brook  making" in call("worktree", "list")
    assert call("worktree", "clean").strip() == f"calm-brook: removed {tree.path}"
    assert git(folder, "branch", "--format=%(refname:short)") == "main"
    assert git(folder, "worktree", "list").count("\n") == 0


def test_a_run_that_was_cut_off_is_told_how_to_go_on(folder: Path) -> None:
    """It works there no more, and no process brings its work back."""
    ended(folder, "calm-brook", finished=False)

    assert "to continue: coterie resume calm-brook" in call("worktree", "show", "calm-brook")


def test_the_list_has_the_state_that_runs_has(folder: Path) -> None:
    """Of a run that was cut off, too; one that has ended says what became of its work."""
    ended(folder, "cut", finished=False)
    ended(folder, "over")
    states = {line.split("  ")[0]: line.split("  ")[1] for line in call("worktree", "list").splitlines()}
    listed = call("runs", "--wide")
    assert states["cut"] in listed
    assert states["cut"] != "running"
    assert f"run cut: {states['cut']}" in call("worktree", "show", "cut")


FLOW = """
topology one : [pipeline] {
  agent writer { extensions { coterie { command: ["sh", "work.sh"] } } }
  flow { writer }
}
"""
WORK = """
echo made > made.txt; git add -A; git -c user.name=A -c user.email=a@b commit -qm made; echo more > more.txt; exit %d
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_flow_works_in_a_tree_too(folder: Path, *, fails: bool) -> None:
    """And is merged when it completes; the checkout of one that fails is as it was."""
    put(folder, "team.at", FLOW)
    put(folder, "work.sh", WORK % (3 if fails else 0))
    said = call("run", "team.at", "go", "--worktree", "--merge-strategy", "merge", status=1 if fails else 0)

    assert "on the branch coterie/" in said
    assert (folder / "made.txt").exists() is (folder / "more.txt").exists() is not fails
    subjects = git(folder, "log", "--format=%s", "main").splitlines()
    assert ("made" in subjects) is not fails
    assert len(subjects) == (1 if fails else 4)
