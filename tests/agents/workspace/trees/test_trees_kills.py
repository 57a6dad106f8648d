"""Owners that are killed before or after any call of git: what they were at is done once, and nothing is lost."""

from pathlib import Path

import pytest
from git_killer import kill_at_every_call
from private_trees import agent, committed, kept, opened
from repositories import commit, git, put, repository

from coterie.agents.workspace.trees import branches, private, worktree
from coterie.agents.workspace.trees.disposal import remove_files
from coterie.agents.workspace.trees.fork_tree import make_fork_tree
from coterie.agents.workspace.trees.merge import STRATEGIES, merge_tree
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.history.journal.records import RunStarted
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.long
def test_a_kill_at_any_call_of_git_loses_nothing(
    tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after it: who carries on ends where an owner that was not killed does."""

    def begin(n: int) -> tuple[WorkTree, Path, str]:
        folder, state = repository(tmp_path / f"{n}" / "r", b__txt="b\n"), tmp_path / f"{n}" / "state"
        tree = opened(folder, state, strategy=strategy)
        committed(tree, "work", new__txt="new\n")
        gone = committed(tree, "dropped", gone__txt="x")
        agent(tree, "reset", "--quiet", "--hard", "HEAD^")
        put(Path(tree.path), "more.txt", "more\n")
        commit(folder, "mine", mine__txt="mine\n")
        return tree, folder, gone

    def end(stage: tuple[WorkTree, Path, str]) -> None:
        tree, folder, _ = stage
        state = folder.with_name("state")
        tree = worktree.read(state, "x") or tree
        private.enter(tree) if tree.status == "running" else None
        remove_files(state, merge_tree(state, tree) if tree.status != "merged" else tree)

    def look(stage: tuple[WorkTree, Path, str]) -> object:
        _, folder, gone = stage
        assert gone in kept(folder, "refs/coterie/x/lost/")
        return merged_into(folder)

    kills = kill_at_every_call(monkeypatch, begin, end, look)
    print(kills, "kills")
    assert kills > 40


def merged_into(folder: Path) -> object:
    """What a run may have changed in the checkout *folder*."""
    return (
        sorted(git(folder, "log", "--format=%s", "main").splitlines()),
        sorted(path.name for path in folder.iterdir()),
        git(folder, "status", "--porcelain"),
        git(folder, "for-each-ref", "--format=%(refname)", "refs/heads"),
    )


@pytest.mark.long
def test_a_kill_at_any_call_of_git_for_the_tree_of_a_turn_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From making it to merging it, which is done once."""
    name, plan = "x/one#1", Plan(name="x", coordination=None, agents={})

    def begin(n: int) -> Path:
        (tmp_path / f"{n}").mkdir()
        return repository(tmp_path / f"{n}" / "r", b__txt="b\n")

    def work(folder: Path) -> None:
        state = folder.with_name("state")
        tree = worktree.read(state, name)
        if tree is None or tree.status != "merged":
            tree = branches.make_turn_tree(state, folder, plan, name, RunPlace(branch_prefix="coterie"))
            private.enter(tree)
            if not (Path(tree.path) / "new.txt").exists():
                committed(tree, "work", new__txt="new\n")
                put(Path(tree.path), "more.txt", "more\n")
            private.fetch_back(tree)
        assert branches.merge_turn(state, tree).removed
        assert branches.end_turns(state, "x") is None

    kills = kill_at_every_call(monkeypatch, begin, work, merged_into)
    print(kills, "kills")
    assert kills > 40


@pytest.mark.long
def test_a_kill_at_any_call_of_git_for_a_fork_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with the files of the snapshot, and its original stays as it is."""

    def begin(n: int) -> tuple[Path, str]:
        folder, state = repository(tmp_path / f"{n}" / "r", b__txt="b\n"), tmp_path / f"{n}" / "state"
        tree = opened(folder, state)
        committed(tree, "work", new__txt="new\n")
        private.fetch_back(tree)
        own = worktree.repository_of(tree)
        assert own is not None
        put(Path(tree.path), "more.txt", "more\n")
        return folder, Snapshots(own, tree_index(state)).save("x", "a#1", 1).commit

    def work(stage: tuple[Path, str]) -> None:
        folder, snapshot = stage
        state, first = folder.with_name("state"), RunStarted(run="x", engine="loop", cwd=str(folder))
        tree = worktree.read(state, "fork")
        if tree is None or tree.status != "merged":
            tree = make_fork_tree(
                state,
                first,
                "fork",
                snapshot,
                Plan(name="x", agents={}, coordination=None),
                RunPlace(branch_prefix="coterie"),
            )
            private.enter(tree)
        if not tree.removed:
            remove_files(state, tree if tree.status == "merged" else merge_tree(state, tree))

    def look(stage: tuple[Path, str]) -> object:
        folder, _ = stage
        assert git(folder, "show", "main:more.txt") == "more"
        assert git(folder.with_name("state") / "worktrees/x/tree", "status", "--porcelain") == "?? more.txt"
        return merged_into(folder)

    kills = kill_at_every_call(monkeypatch, begin, work, look)
    print(kills, "kills")
    assert kills > 40


def tree_index(state: Path) -> Path:
    """The index with which snapshots of the run `x` are taken."""
    return worktree.folder(state, "x") / worktree.INDEX
