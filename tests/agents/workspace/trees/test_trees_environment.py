"""Git runs the programs that a repository names without the secrets of the user, and ends what they leave behind.

So it does where no sandbox works; where one does, see `test_trees_git_programs.py`.
"""

import asyncio
from itertools import count
from pathlib import Path

import pytest
from repositories import commit, git, put, repository
from until import soon, until

from coterie.agents.backends.git_variables import LOCAL
from coterie.agents.backends.processes import alive, started
from coterie.agents.backends.sandbox import choice
from coterie.agents.workspace.trees import git as calls
from coterie.agents.workspace.trees import merge, report, snapshots, worktree
from coterie.agents.workspace.trees.git import in_thread, require
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import GitFailed

SECRET = "sk-do-not-tell"
HOOKS = ("post-checkout", "pre-commit", "reference-transaction", "post-index-change", "post-merge", "pre-merge-commit")


@pytest.fixture(autouse=True)
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "working", lambda: None)


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that takes what the programs of a repository find in their environment, where there are secrets."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("GH_TOKEN", SECRET)
    monkeypatch.setenv("db_password", SECRET)
    return tmp_path / "dump"


def hostile(folder: Path, dump: Path) -> Path:
    """A repository with programs wherever git takes one; its filter stores `plain` as `PLAIN`, as git-lfs does."""
    tell = f"echo $0 >> {dump}; env >> {dump};"
    repository(folder, **{"_gitattributes": "*.up filter=up diff=tell\n*.both merge=both\n"})
    git(folder, "mv", "_gitattributes", ".gitattributes")
    git(folder, "config", "filter.up.clean", f"{tell} tr a-z A-Z")
    git(folder, "config", "filter.up.smudge", f"{tell} tr A-Z a-z")
    git(folder, "config", "merge.both.driver", f"{tell} cat %B >> %A")
    commit(folder, "files", a__up="plain\n", b__both="base\n")
    for hook in HOOKS:
        put(folder, f".git/hooks/{hook}", f"#!/bin/sh\necho RAN-HOOK {hook} >> {dump}\n")
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    monitor = folder / ".git" / "monitor"
    put(folder, ".git/monitor", f"#!/bin/sh\necho RAN-MONITOR >> {dump}\n")
    monitor.chmod(0o755)
    never = f"sh -c 'echo RAN-OTHER >> {dump}' #"
    for key in ("diff.external", "diff.tell.textconv", "diff.tell.command", "core.pager", "core.editor", "gpg.program"):
        git(folder, "config", key, never)
    git(folder, "config", "core.fsmonitor", str(monitor))
    git(folder, "config", "core.askPass", str(monitor))
    git(folder, "config", "log.showSignature", "true")
    dump.unlink(missing_ok=True)
    return folder


def told(dump: Path) -> str:
    return dump.read_text() if dump.exists() else ""


def is_clean(dump: Path) -> bool:
    """Whether programs ran, and none that may not, and none with a secret."""
    text = told(dump)
    return "PATH=" in text and SECRET not in text and "RAN-" not in text


def tree_of(folder: Path, state: Path, run: str = "r") -> WorkTree:
    origin = require(folder, "the test")
    found = worktree.new_tree(origin, state, run, prefix="t", base=origin.commit_of("HEAD"))
    return worktree.make(origin, state, found)


def test_a_snapshot_is_filtered_without_secrets(tmp_path: Path, dump: Path) -> None:
    """The clean filter decides what is kept, the smudge filter what comes back."""
    folder = hostile(tmp_path / "r", dump)
    put(folder, "a.up", "changed\n")
    saved = Snapshots(require(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)
    back = tree_of(folder, tmp_path / "state")
    worktree.restore(back, saved.commit)

    assert is_clean(dump)
    assert git(folder, "cat-file", "blob", f"{saved.commit}:a.up") == "CHANGED"
    assert Path(back.path, "a.up").read_text() == "changed\n"


@pytest.mark.parametrize("strategy", merge.STRATEGIES)
def test_a_merge_is_filtered_and_driven_without_secrets(tmp_path: Path, dump: Path, strategy: str) -> None:
    """The merge driver decides what both sides come to; hooks and signatures play no part."""
    folder = hostile(tmp_path / "r", dump)
    tree = tree_of(folder, tmp_path / "state")
    put(Path(tree.path), "b.both", "theirs\n")
    put(Path(tree.path), "a.up", "new\n")
    put(folder, "b.both", "ours\n")
    calls.call(folder, "commit", "--quiet", "--all", "--message", "ours", env=calls.identity())
    dump.unlink(missing_ok=True)
    done = merge.merge_tree(tmp_path / "state", tree, strategy)

    assert done.status == "merged", done.reason
    assert is_clean(dump)
    assert (folder / "b.both").read_text() == "ours\ntheirs\n"
    assert (folder / "a.up").read_text() == "new\n"
    assert git(folder, "cat-file", "blob", "HEAD:a.up") == "NEW"


def test_a_difference_is_shown_by_git_alone(tmp_path: Path, dump: Path) -> None:
    """Programs that a repository names for showing differences are not run."""
    folder = hostile(tmp_path / "r", dump)
    tree = tree_of(folder, tmp_path / "state")
    put(Path(tree.path), "a.up", "changed\n")

    assert "+CHANGED" in report.diff(tmp_path / "state", tree)
    assert is_clean(dump)


def test_only_the_files_of_the_configuration_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git gives its own children, `git -c` and a hook's, is of another command."""
    folder = repository(tmp_path / "r")
    put(tmp_path, "config", "[some]\n\tkey = kept\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'some.key=other'")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "some.key")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "other")

    assert require(folder, "the test").output("config", "some.key") == "kept"


def test_nothing_that_git_names_as_local_is_missing() -> None:
    """Git itself lists the variables that lead to a repository."""
    assert set(git(Path(), "rev-parse", "--local-env-vars").split()) <= LOCAL


def test_a_call_that_takes_too_long_ends_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter of a call that is over is no longer there."""
    folder, pids = hanging(tmp_path)

    class OnceHanging(calls._Timeout):
        def run(self) -> None:
            while not pids.exists() and not self.finished.wait(0.01):
                pass
            super().run()

    monkeypatch.setattr(calls, "_Timeout", OnceHanging)
    monkeypatch.setattr(snapshots, "TIMEOUT", 0.1)

    with pytest.raises(GitFailed, match=r"longer than 0\.1 s"):
        Snapshots(require(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)
    assert gone(pids)


def test_what_a_filter_leaves_behind_holds_nothing_up(tmp_path: Path) -> None:
    """A program that goes on in the background ends with the call, which does not wait for it."""
    folder = repository(tmp_path / "r")
    git(folder, "config", "filter.leave.clean", f"sh -c 'sleep 600 >/dev/null & echo $! >> {tmp_path}/pids; cat'")
    put(folder, ".gitattributes", "*.txt filter=leave\n")
    put(folder, "a.txt", "changed\n")
    Snapshots(require(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)

    assert gone(tmp_path / "pids")


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_cancelled_task_ends_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool) -> None:
    """The event loop turns while git works; when the task is cancelled, git and its filter end, gently or not."""
    folder, pids = hanging(tmp_path, "trap '' TERM; " if stubborn else "")
    monkeypatch.setattr(calls, "GRACE", 0.2)
    keep = Snapshots(require(folder, "the test"), tmp_path / "index")

    async def main() -> int:
        task = asyncio.ensure_future(in_thread(keep.save, "r", "a#1", 1))
        turns = count()
        await soon(lambda: next(turns) and pids.exists())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return next(turns)

    assert asyncio.run(main()) > 1
    assert gone(pids)


def test_the_calls_after_a_cancelled_one_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What works on after a failed call, such as a merge that takes its steps back, is not waited for."""
    folder, pids = hanging(tmp_path)
    monkeypatch.setattr(calls, "GRACE", 0.2)
    monkeypatch.setattr(calls, "TIMEOUT", 10.0)
    found, ends = require(folder, "the test"), list[int]()

    def work() -> None:
        ends.extend(found.call("add", "a.txt").status for _ in range(4))

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(work))
        await soon(pids.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(ends) == 4
    assert 0 not in ends  # one that was killed may have left the lock on which the next one fails


def test_a_cancelled_call_may_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git that is nearly done is not cut off: what it writes is whole."""
    monkeypatch.setattr(calls, "GRACE", 60.0)
    folder = repository(tmp_path / "r")
    go = tmp_path / "go"
    git(folder, "config", "filter.slow.clean", f"sh -c 'touch {tmp_path}/on; until [ -e {go} ]; do :; done; cat'")
    put(folder, ".gitattributes", "*.txt filter=slow\n")
    put(folder, "a.txt", "changed\n")
    keep = Snapshots(require(folder, "the test"), tmp_path / "index")
    saved = []

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(lambda: saved.append(keep.save("r", "a#1", 1))))
        await soon((tmp_path / "on").exists)
        task.cancel()
        await asyncio.sleep(0)
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(saved) == 1


def hanging(tmp_path: Path, before: str = "") -> tuple[Path, Path]:
    """A repository whose filter never ends, and the file that it writes its process numbers to."""
    folder, pids = repository(tmp_path / "r"), tmp_path / "pids"
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\n{before}echo $$ > {pids}.part; mv {pids}.part {pids}\nwhile :; do sleep 600; done\n")
    script.chmod(0o755)
    git(folder, "config", "filter.hang.clean", str(script))
    put(folder, ".gitattributes", "*.txt filter=hang\n")
    put(folder, "a.txt", "changed\n")
    return folder, pids


def gone(pids: Path) -> bool:
    """Wait until the processes named in *pids* are dead: killed ones may take the kernel a moment."""
    named = [int(pid) for pid in pids.read_text().split()]
    until(lambda: not any(alive(pid, started(pid)) for pid in named))
    return bool(named)
