"""A run's work comes back to its branch, whole or not at all, and never over what the user has changed."""

import os
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from repositories import commit, git, holds, put, repository, untouched

from coterie.agents.workspace.trees import merge, private, worktree
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.report import describe, diff
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import Shortage
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.finalizers import LocalFinalizers
from coterie.history.journal.records import Record
from coterie.team.planning.plan import Plan


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", b__txt="b\n")


def opened(folder: Path, state: Path, run: str = "x", **other: object) -> WorkTree:
    """A work tree of a run of *folder*."""
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, state, run, prefix="autoloop", base=origin.commit_of("HEAD"))
    return worktree.make(origin, state, replace(tree, **other))


def log(folder: Path, name: str = "main") -> list[str]:
    """The subjects of the commits of *name*, the latest first."""
    return git(folder, "log", "--format=%s", name).splitlines()


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("squash", ["Merge run x", "mine", "first"]),
        ("merge", ["Merge run x", "Work of run x", "by the agent", "mine", "first"]),
        ("rebase", ["Work of run x", "by the agent", "mine", "first"]),
    ],
)
def test_work_comes_back(folder: Path, state: Path, strategy: str, wanted: list[str]) -> None:
    """What was committed and what was not, behind or beside what the user did meanwhile."""
    tree = opened(folder, state, strategy=strategy)
    commit(Path(tree.path), "by the agent", new__txt="new\n")
    put(Path(tree.path), "a.txt", "changed\n")
    (Path(tree.path) / "b.txt").unlink()
    commit(folder, "mine", mine__txt="mine\n")
    done = merge_tree(state, tree)

    assert done.status == "merged"
    assert sorted(log(folder)) == sorted(wanted)
    assert log(folder)[0] == wanted[0]
    assert git(folder, "status", "--porcelain") == ""
    assert {path.name for path in folder.iterdir()} == {".git", "a.txt", "mine.txt", "new.txt"}
    assert (folder / "a.txt").read_text() == "changed\n"


@pytest.mark.parametrize("strategy", merge.STRATEGIES)
def test_conflicts_are_named_and_change_nothing(folder: Path, state: Path, strategy: str) -> None:
    """The work stays where it is; once they are solved there, it can be merged."""
    tree = opened(folder, state, strategy=strategy)
    put(Path(tree.path), "a.txt", "theirs\n")
    put(Path(tree.path), "ü b.txt", "new\n")
    commit(folder, "mine", a__txt="mine\n")
    before = untouched(folder)
    refused = merge_tree(state, tree)

    assert (refused.status, refused.files) == ("conflict", ("a.txt",))
    assert [line for line in before[0].splitlines() if "autoloop" not in line] == [
        line for line in untouched(folder)[0].splitlines() if "autoloop" not in line
    ]
    assert untouched(folder)[1:] == before[1:]
    said = "\n".join(describe(refused))
    assert "a.txt" in said
    again = "rebase" if strategy == "rebase" else "merge"
    assert f"git -C {tree.path} {again} main" in said
    assert "coterie worktree merge x" in said

    how = ("rebase", "-X", "theirs") if strategy == "rebase" else ("merge", "--no-edit", "-X", "ours")
    git(Path(tree.path), *how, "--quiet", "main")  # as the hint says
    solved = merge_tree(state, refused)
    assert solved.status == "merged"
    assert (folder / "a.txt").read_text() == "theirs\n"


def test_changes_of_the_users_that_are_not_committed_are_left_alone(folder: Path, state: Path) -> None:
    """Elsewhere they stay as they are; in the same file git refuses, and says which."""
    tree = opened(folder, state)
    put(Path(tree.path), "a.txt", "theirs\n")
    put(folder, "b.txt", "not committed\n")
    put(folder, "a.txt", "not committed either\n")
    before = untouched(folder)
    refused = merge_tree(state, tree)

    assert refused.status == "blocked"
    assert "a.txt" in refused.reason
    assert untouched(folder)[1:] == before[1:]
    git(folder, "checkout", "--quiet", "a.txt")
    assert merge_tree(state, refused).status == "merged"
    assert (folder / "a.txt").read_text() == "theirs\n"
    assert git(folder, "status", "--porcelain") == " M b.txt"


def test_a_branch_that_is_checked_out_nowhere_just_moves(folder: Path, state: Path) -> None:
    """The checkout, which is on another one by now, is not touched."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    git(folder, "checkout", "--quiet", "-b", "elsewhere")
    done = merge_tree(state, tree)

    assert done.status == "merged"
    assert not (folder / "new.txt").exists()
    assert git(folder, "show", "main:new.txt") == "new"
    assert git(folder, "status", "--porcelain") == ""


def test_what_cannot_be_merged_is_said(folder: Path, state: Path) -> None:
    """A branch that is gone, a repository that is gone; the work is still there."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    git(folder, "checkout", "--quiet", "-b", "elsewhere")
    git(folder, "branch", "-D", "main")
    gone = merge_tree(state, tree)

    assert (gone.status, "main is gone" in gone.reason) == ("blocked", True)
    assert git(Path(tree.path), "show", "HEAD:new.txt") == "new"
    assert merge_tree(state, replace(tree, origin=str(folder.parent / "nowhere"))).status == "blocked"


def test_a_checkout_without_a_branch_is_moved_as_long_as_it_has_none(folder: Path, state: Path) -> None:
    """A run that began at a commit comes back to HEAD, but not to a branch that was checked out since."""
    git(folder, "checkout", "--quiet", "--detach")
    tree, other = opened(folder, state), opened(folder, state, "y")
    put(Path(tree.path), "new.txt", "new\n")
    assert merge_tree(state, tree).status == "merged"
    assert (folder / "new.txt").exists()
    assert log(folder) == ["first"]
    put(Path(other.path), "more.txt", "more\n")
    git(folder, "checkout", "--quiet", "main")
    blocked = merge_tree(state, other)
    assert (blocked.status, f"merge {other.branch} by hand" in blocked.reason) == ("blocked", True)


def test_nothing_done_is_nothing_merged(folder: Path, state: Path) -> None:
    """No empty commit."""
    tree = opened(folder, state)

    assert merge_tree(state, tree).status == "merged"
    assert log(folder) == ["first"]


def test_merging_again_after_a_kill_is_merging_once(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at any step: the branch is where it was or where it should be, and the next try ends there."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")

    class Killed(BaseException):
        """kill -9."""

    for step in ("compute_merge", "_move", "write"):
        real = getattr(merge, step)

        def die(*args: object, real: object = real, step: str = step, **named: object) -> object:
            if step == "write":
                raise Killed  # before anything is written down
            real(*args, **named)  # type: ignore[operator]
            raise Killed  # once it is done, and before anybody knows

        with monkeypatch.context() as patched:
            patched.setattr(merge, step, die)
            with pytest.raises(Killed):
                merge_tree(state, worktree.read(state, "x") or tree)
        assert log(folder) in (["first"], ["Merge run x", "first"])
        assert git(folder, "status", "--porcelain") == ""
    assert log(folder) == ["Merge run x", "first"]
    done = merge_tree(state, worktree.read(state, "x") or tree)

    assert done.status == "merged"
    assert log(folder) == ["Merge run x", "first"]


@pytest.mark.parametrize("undo", ["revert", "reset"])
def test_a_merge_that_was_undone(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch, undo: str) -> None:
    """Reverted after a kill, the work does not come back by itself; reset away, it was never merged."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    real = merge._move

    def move(*args: str) -> str:
        real(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt  # killed before the tree is known to be merged

    monkeypatch.setattr(merge, "_move", move)
    with pytest.raises(KeyboardInterrupt):
        merge_tree(state, tree)
    monkeypatch.setattr(merge, "_move", real)
    assert log(folder) == ["Merge run x", "first"]
    if undo == "revert":
        git(folder, "revert", "--no-edit", "HEAD")
    else:
        git(folder, "reset", "--hard", "HEAD^")

    done = merge_tree(state, worktree.read(state, "x") or tree)

    assert done.status == "merged"
    assert (folder / "new.txt").exists() == (undo == "reset")


def test_a_branch_that_moves_while_it_is_merged_is_merged_anew(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that end together both come back."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    real, moved = merge.compute_merge, list[str]()

    def meanwhile(*args: object) -> object:
        found = real(*args)  # type: ignore[arg-type]
        if not moved:
            moved.append("once")
            commit(folder, "meanwhile", other__txt="other\n")
        return found

    monkeypatch.setattr(merge, "compute_merge", meanwhile)

    assert merge_tree(state, tree).status == "merged"
    assert log(folder) == ["Merge run x", "meanwhile", "first"]


def test_who_commits_is_the_user_or_coterie(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where git knows nobody is no reason to fail; rebased commits keep their author."""
    monkeypatch.setenv("HOME", str(state))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(folder, "config", "user.useConfigOnly", "true")
    tree = opened(folder, state, strategy="rebase")
    commit(Path(tree.path), "by the agent", new__txt="new\n")
    commit(folder, "mine", mine__txt="mine\n")
    put(Path(tree.path), "more.txt", "more\n")

    assert merge_tree(state, tree).status == "merged"
    authors = git(folder, "log", "--format=%an/%cn").splitlines()
    assert authors == ["coterie/coterie", "Test/coterie", "Test/Test", "Test/Test"]


def test_what_agents_changed_is_merged_where_git_is_to_ask_for_no_status_of_files(folder: Path, state: Path) -> None:
    git(folder, "config", "core.ignoreStat", "true")
    tree = opened(folder, state)
    put(Path(tree.path), "a.txt", "changed\n")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", "main:a.txt") == "changed"


@pytest.mark.parametrize("in_private", [False, True])
def test_files_renamed_in_case_are_merged_where_the_repository_was_copied_from_elsewhere(
    folder: Path, state: Path, in_private: bool
) -> None:
    """Git would see the old one gone, and the new one as the old one."""
    if (folder / "A.TXT").exists():
        pytest.skip("this file system does not distinguish case")
    git(folder, "config", "core.ignoreCase", "true")
    tree = opened(folder, state)
    (Path(tree.path) / "a.txt").rename(Path(tree.path) / "A.txt")
    put(Path(tree.path), "B.txt", "other\n")
    if in_private:
        private.enter(tree)
        place = (f"--git-dir={private.folder_of(tree)}", f"--work-tree={tree.path}")
        git(Path(tree.path), *place, "add", "--all")
        git(Path(tree.path), *place, "commit", "--quiet", "--message", "work")
    done = merge_tree(state, tree)
    assert done.status == "merged"
    assert git(folder, "ls-tree", "--name-only", "main").split() == ["A.txt", "B.txt", "b.txt"]
    assert holds(folder).keys() == {"A.txt", "B.txt", "b.txt"}


GIVES_UP = """#!/bin/sh
case " $* " in *" merge --ff-only "*)
    mkdir deep && printf 'ne' > deep/new.txt && : > empty.txt && rm gone.txt && printf 'chan' > a.txt
    rm kind && mkdir kind && printf ne > kind/inside
    echo mine > b.txt
    echo 'error: unable to write file a.txt' >&2
    exit 1 ;;
esac
exec {git} "$@"
"""


@pytest.mark.parametrize("lacks", ["", "No space left on device"])
def test_files_of_which_git_wrote_some_are_given_back(
    folder: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """As on a disk that is full: the user has the files as they were, and the merge is done when there is room."""
    commit(folder, "more", gone__txt="gone\n", kind="a file\n")
    put(folder, "mine.txt", "mine\n")
    before = holds(folder)
    tree = opened(folder, state)
    for name in ("deep/new.txt", "empty.txt", "a.txt", "b.txt"):
        put(Path(tree.path), name, "changed\n" if name == "a.txt" else "new\n")
    (Path(tree.path) / "gone.txt").unlink()
    (Path(tree.path) / "kind").unlink()
    put(Path(tree.path), "kind/inside", "new\n")
    with monkeypatch.context() as patch:
        put(tmp_path, "bin/git", GIVES_UP.format(git=shutil.which("git")))
        (tmp_path / "bin" / "git").chmod(0o755)
        patch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
        patch.setattr(merge, "write_shortage", lambda folder: lacks)
        if lacks:
            with pytest.raises(Shortage, match="No space left"):
                merge_tree(state, tree)
        else:
            assert merge_tree(state, tree).reason == "unable to write file a.txt"

    assert {**holds(folder), "b.txt": before["b.txt"]} == before
    assert (folder / "b.txt").read_text() == "mine\n"  # of a moment ago
    assert not (folder / "deep").exists()
    git(folder, "checkout", "--quiet", "b.txt")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "status", "--porcelain") == "?? mine.txt"


def test_a_change_that_keeps_size_and_time_of_a_file_is_merged(folder: Path, state: Path) -> None:
    """Also where git is to trust them, as other programs that share a repository want it."""
    for key, value in (("core.trustctime", "false"), ("core.checkStat", "minimal")):
        git(folder, "config", key, value)
    tree = opened(folder, state)
    path = Path(tree.path) / "a.txt"
    os.utime(path, (1, 1))
    git(Path(tree.path), "update-index", "--refresh")
    other = path.with_name("other")
    other.write_text("two\n")
    os.utime(other, (1, 1))
    other.replace(path)
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", "main:a.txt") == "two"


def test_messages_are_what_they_were_wherever_the_user_shows_them_in_another_encoding(
    folder: Path, state: Path
) -> None:
    tree = opened(folder, state, strategy="rebase")
    commit(Path(tree.path), "привет", new__txt="new\n")
    commit(folder, "mine", mine__txt="mine\n")
    git(folder, "config", "i18n.logOutputEncoding", "KOI8-R")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "cat-file", "commit", "main").endswith("\n\nпривет")


@pytest.mark.parametrize(
    ("cleanup", "status", "stays", "branch"),
    [
        ("on_success", "completed", False, False),
        ("on_success", "failed", True, True),
        ("always", "completed", False, False),
        ("always", "failed", False, True),
        ("always", "stopped", True, True),
        ("never", "completed", True, True),
        ("never", "failed", True, True),
    ],
)
def test_when_a_work_tree_is_removed(
    folder: Path, state: Path, cleanup: str, status: str, stays: bool, branch: bool
) -> None:
    """A run that only stopped goes on in it; what is removed unmerged is on its branch."""
    tree = opened(folder, state, cleanup=cleanup)
    put(Path(tree.path), "new.txt", "new\n")
    left = settle(state, "x", status)

    assert left is not None
    assert Path(tree.path).exists() is stays
    assert (folder / "new.txt").exists() is (status == "completed")
    assert ("autoloop/x" in git(folder, "branch", "--format=%(refname:short)").splitlines()) is branch
    if not stays and branch:
        assert git(folder, "show", "autoloop/x:new.txt") == "new"


def settle(state: Path, run: str, status: str) -> worktree.WorkTree | None:
    """Do the steps before the end of *run*, and give what is then known of its work tree."""
    ending, done = LocalFinalizers(state, run, state), list[Record]()
    while step := ending.step(Plan(name="p"), done, RunExit(run=run, status=status)):
        done.append(step())
    return worktree.read(state, run)


def test_a_conflict_is_kept_whatever_the_settings_say_on_success(folder: Path, state: Path) -> None:
    """And what differs can be looked at."""
    tree = opened(folder, state)
    put(Path(tree.path), "a.txt", "theirs\n")
    commit(folder, "mine", a__txt="mine\n")
    shown = diff(state, tree)
    left = settle(state, "x", "completed")

    assert "+theirs" in shown
    assert left is not None
    assert (left.status, left.removed, Path(tree.path).exists()) == ("conflict", False, True)


def test_a_work_tree_is_made_once(folder: Path, state: Path) -> None:
    """After a crash in between the same is found; a branch of that name that is somebody else's is left alone."""
    first = opened(folder, state)
    git(folder, "branch", "autoloop/y")

    assert opened(folder, state) == first
    assert opened(folder, state, "y").branch == "autoloop/y-2"
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.parametrize("strategy", merge.STRATEGIES)
@pytest.mark.parametrize("is_checked_out", [True, False], ids=["checked out", "elsewhere"])
def test_a_commit_made_while_the_merge_is_computed_is_kept(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, is_checked_out: bool
) -> None:
    """The branch moves between the look at it and its move: the merge is computed again, on top of that commit."""
    tree = opened(folder, state, strategy=strategy)
    put(Path(tree.path), "new.txt", "new\n")
    other = folder
    if not is_checked_out:
        git(folder, "checkout", "--quiet", "-b", "other")
        other = folder.parent / "clone"
        git(folder.parent, "clone", "--quiet", "--branch", "main", str(folder), "clone")
    compute, times = merge.compute_merge, count(1)

    def computed(*given: Any) -> merge.MergeResult:
        found = compute(*given)
        if next(times) == 1:
            commit(other, "meanwhile", mine__txt="mine\n")
            if not is_checked_out:
                git(other, "push", "--quiet", "origin", "main")
        return found

    monkeypatch.setattr(merge, "compute_merge", computed)
    assert merge_tree(state, tree).status == "merged"
    assert next(times) == 3
    assert {"meanwhile", "first"} < set(log(folder))
    assert git(folder, "ls-tree", "--name-only", "main").split() == ["a.txt", "b.txt", "mine.txt", "new.txt"]
