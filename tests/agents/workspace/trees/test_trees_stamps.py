"""What a turn costs that changed nothing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from repositories import git, put, repository

from coterie.agents.workspace.trees import git as calls_of_git
from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.git import CompletedCall, require
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.agents.workspace.trees.stamps import TICK, stamp_of


@pytest.mark.slow
def test_a_turn_that_changed_nothing_calls_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before it nor after, snapshot included; whatever changed is seen, even with its old time and size."""
    origin, calls = require(repository(tmp_path / "r"), "the test"), list[tuple[str, ...]]()
    tree = worktree.new_tree(origin, tmp_path / "state", "x", prefix="t", base=origin.commit_of("HEAD"))
    tree = worktree.make(origin, tmp_path / "state", tree)
    own, top = worktree.repository_of(tree), Path(tree.path)
    assert own is not None
    snapshots, perform = Snapshots(own, tmp_path / "index"), calls_of_git.perform

    def counted(folder: Path, words: tuple[str, ...], *rest: Any) -> CompletedCall:
        calls.append(words)
        return perform(folder, words, *rest)

    def agent(*words: str) -> str:
        return git(top, f"--git-dir={private.folder_of(tree)}", f"--work-tree={top}", *words)

    def turn(act: Callable[[], object] = list) -> tuple[str, str, bool]:
        calls.clear()
        private.enter(tree)
        act()
        tip = private.look(tree).tip
        return tip, snapshots.save("x", "a#1", 1).commit, bool(calls)

    def disguised(path: Path, text: str) -> None:
        before = path.stat()
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    monkeypatch.setattr(calls_of_git, "perform", counted)
    while (seen := turn())[2]:  # files that are as new as a look at them are looked at again
        pass
    assert turn(lambda: agent("status")) == seen  # it writes the agents' index
    for act in (
        lambda: agent("commit", "--quiet", "--allow-empty", "--message", "work"),
        lambda: put(top, "new.txt", "new"),
        lambda: put(top, "deep/er/new.txt", "new"),
        lambda: put(top, "deep/er/other.txt", "new"),
        lambda: disguised(top / "a.txt", "2ne\n"),
        lambda: os.symlink("a.txt", top / "link"),
        (top / "a.txt").unlink,
        lambda: git(top, "commit", "--quiet", "--allow-empty", "--message", "of a person"),
    ):
        changed = turn(act)
        assert changed[2]
        assert changed[:2] != seen[:2]
        while (seen := turn())[2]:
            pass
        assert seen[1] == changed[1]


def test_a_file_that_is_as_new_as_the_look_at_it_has_no_stamp(tmp_path: Path) -> None:
    """It may change once more in the same moment, and look the same."""
    put(tmp_path, "a", "a")
    paths, at = [str(tmp_path / "a"), str(tmp_path / "missing")], (tmp_path / "a").stat().st_ctime_ns
    assert stamp_of(paths, at) is None
    assert stamp_of(paths, at + TICK) == stamp_of(paths)
    assert stamp_of(paths[:1]) != stamp_of(paths)
