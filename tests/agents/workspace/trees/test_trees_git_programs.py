"""No call of git runs a program that an agent left, but in the sandbox of an agent."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from repositories import commit, git, put, repository

from coterie.agents.backends.sandbox import choice
from coterie.agents.workspace.trees import report, worktree
from coterie.agents.workspace.trees.git import call, require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.execution.cluster import files as cluster_files
from coterie.execution.runs.isolation import isolate
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import NO_TREE_PLAN


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program outside of every repository; it leaves the file `sprung` beside itself, and passes its input on."""
    path = tmp_path / "trap"
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/sprung\ncat\n')
    path.chmod(0o755)
    return path


def sprung(trap: Path) -> str:
    path = trap.with_name("sprung")
    return path.read_text() if path.exists() else ""


def touched(path: Path) -> None:
    """Let git believe that *path* may have changed, so that it reads the content."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 5 * 10**9))


def with_inner(folder: Path, trap: Path) -> Path:
    """A repository with another one inside, which is known as a commit and has a filter."""
    repository(folder)
    inner = repository(folder / "inner")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "inner")
    git(inner, "config", "filter.evil.clean", str(trap))
    put(inner, ".git/info/attributes", "* filter=evil\n")
    put(folder, ".gitmodules", '[submodule "inner"]\n path = inner\n url = ./inner\n ignore = none\n')
    touched(inner / "a.txt")
    return inner


def everything(folder: Path, state: Path) -> None:
    """Each use that Coterie makes of a repository with the work of an agent."""
    origin = require(folder, "the test")
    Snapshots(origin, state / "index", [state]).save("r", "a#1", 1)
    isolate("r", folder, state, RunPlace(worktree=True, state_dir=str(state)), lambda line: None)
    tree = worktree.make(
        origin, state, worktree.new_tree(origin, state, "r", prefix="t", base=origin.commit_of("HEAD"))
    )
    put(Path(tree.path), "new.txt", "new\n")
    put(Path(tree.path), "autoloops.toml", "# new\n")
    report.diff(state, tree)
    merged = merge_tree(state, tree)
    assert merged.status == "merged", merged.reason
    assert (folder / "autoloops.toml").read_text() == "# new\n"
    worktree.remove(state, tree, branch=True)
    cluster_files._pack(folder, (), NO_TREE_PLAN)


@pytest.mark.slow
def test_a_repository_inside_is_not_entered(tmp_path: Path, trap: Path) -> None:
    """Its filters do not run, whatever `.gitmodules` says; a new commit in it is kept."""
    inner = with_inner(tmp_path / "r", trap)
    subprocess.run(["git", "status"], cwd=tmp_path / "r", check=True, capture_output=True)
    assert sprung(trap), "git itself enters it"
    trap.with_name("sprung").unlink()

    touched(inner / "a.txt")
    everything(tmp_path / "r", tmp_path / "state")
    commit(inner, "second") if not sprung(trap) else None
    trap.with_name("sprung").unlink(missing_ok=True)
    touched(inner / "a.txt")
    keep = Snapshots(require(tmp_path / "r", "the test"), tmp_path / "index")
    keep.save("r", "a#1", 1)
    touched(inner / "a.txt")
    put(tmp_path / "r", "new.txt", "new\n")
    saved = keep.save("r", "a#2", 1)

    assert not sprung(trap)
    assert git(tmp_path / "r", "show", f"{saved.commit}:new.txt") == "new"
    assert git(tmp_path / "r", "rev-parse", f"{saved.commit}:inner") == git(inner, "rev-parse", "HEAD")
    (inner / ".git").rename(tmp_path / "gone")
    assert not Snapshots(require(tmp_path / "r", "the test"), tmp_path / "index").save("r", "a#3", 1).incomplete


SETTINGS = (
    *("core.fsmonitor", "core.editor", "core.pager", "core.askPass", "core.sshCommand", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "credential.helper", "diff.external", "diff.evil.command"),
    *("diff.evil.textconv", "gpg.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "pager.diff", "pager.log"),
    *("interactive.diffFilter", "uploadpack.packObjectsHook", "remote.origin.uploadpack", "alias.add", "alias.status"),
)
SWITCHES = (
    *("commit.gpgSign", "tag.gpgSign", "log.showSignature", "merge.verifySignatures", "core.untrackedCache"),
    *("submodule.recurse", "fetch.recurseSubmodules", "status.submoduleSummary", "extensions.worktreeConfig"),
)
HOOKS = (
    *("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-merge"),
    *("pre-merge-commit", "commit-msg", "prepare-commit-msg", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman"),
)


def _in_config(folder: Path, trap: Path) -> None:
    for name in SETTINGS:
        git(folder, "config", name, str(trap))
    for name in SWITCHES:
        git(folder, "config", name, "true")
    for hook in HOOKS:
        path = folder / ".git" / "hooks" / hook
        put(folder, f".git/hooks/{hook}", f"#!/bin/sh\nexec {trap} {hook}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _in_an_include(folder: Path, trap: Path) -> None:
    elsewhere = folder / "elsewhere"
    git(folder, "config", "--file", str(elsewhere), "core.fsmonitor", str(trap))
    git(folder, "config", "--file", str(elsewhere), "diff.external", str(trap))
    git(folder, "config", "--file", str(elsewhere), "filter.evil.clean", str(trap))
    put(folder, ".gitattributes", "* filter=evil diff=evil\n")
    git(folder, "config", "include.path", str(elsewhere))


def _in_the_configuration_of_a_work_tree(folder: Path, trap: Path) -> None:
    git(folder, "config", "extensions.worktreeConfig", "true")
    git(folder, "config", "--worktree", "filter.evil.clean", str(trap))
    git(folder, "config", "--worktree", "filter.evil.smudge", str(trap))
    put(folder, ".git/info/attributes", "* filter=evil\n")


def _as_a_process_and_a_driver(folder: Path, trap: Path) -> None:
    git(folder, "config", "filter.evil.process", str(trap))
    git(folder, "config", "merge.evil.driver", f"{trap} %A")
    git(folder, "config", "merge.default", "evil")
    put(folder, ".gitattributes", "* filter=evil merge=evil\n")


LEFT: tuple[Callable[[Path, Path], None], ...] = (
    _in_config,
    _in_an_include,
    _in_the_configuration_of_a_work_tree,
    _as_a_process_and_a_driver,
)


@pytest.mark.slow
@pytest.mark.parametrize("leave", LEFT)
def test_a_program_of_a_configuration_does_not_run_outside_of_a_sandbox(
    tmp_path: Path, trap: Path, leave: Callable[[Path, Path], None]
) -> None:
    """Wherever it is named: what runs at all runs where it cannot write beside the repository."""
    if choice.working() is None:
        pytest.skip(f"no sandbox works here: {choice.absence()}")
    folder = repository(tmp_path / "r", autoloops__toml="# old\n")
    leave(folder, trap)
    touched(folder / "a.txt")

    everything(folder, tmp_path / "state")

    assert not sprung(trap)


def test_what_a_program_of_a_configuration_adds_to_git_is_removed(tmp_path: Path) -> None:
    """A file from which git would take commands cannot be refused to it, as it is not there yet."""
    if choice.working() is None:
        pytest.skip(f"no sandbox works here: {choice.absence()}")
    folder = repository(tmp_path / "r")
    git(folder, "config", "filter.evil.clean", "cat; touch .git/config.worktree; touch seen")
    put(folder, ".git/info/attributes", "a.txt filter=evil\n")
    touched(folder / "a.txt")

    Snapshots(require(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)

    assert (folder / "seen").exists(), "the filter did not run"
    assert not (folder / ".git" / "config.worktree").exists()


@pytest.mark.parametrize("url", ["ext::{trap} %S", "file://{away}", "ssh://host/{away}", "evil::{away}"])
def test_a_missing_object_is_not_fetched(tmp_path: Path, trap: Path, url: str) -> None:
    """A promise that a remote has it would run the remote's helper, shell or programs."""
    folder, away = repository(tmp_path / "r"), repository(tmp_path / "away")
    put(folder, "b.txt", "lost\n")
    git(folder, "add", "b.txt")
    lost = git(folder, "write-tree")
    blob = git(folder, "rev-parse", ":b.txt")
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    git(folder, "config", "extensions.partialClone", "evil")
    git(folder, "config", "remote.evil.promisor", "true")
    git(folder, "config", "remote.evil.url", url.format(trap=trap, away=away))
    git(folder, "config", "remote.evil.uploadpack", str(trap))
    git(folder, "config", "core.sshCommand", str(trap))
    git(folder, "config", "protocol.ext.allow", "always")
    git(folder, "config", "protocol.allow", "always")

    for words in (("cat-file", "-e", blob), ("diff", "HEAD", lost), ("cat-file", "-p", blob)):
        assert call(folder, *words).status != 0
    assert not sprung(trap)


@pytest.mark.slow
def test_an_alternate_is_only_read_from(tmp_path: Path, trap: Path) -> None:
    """The configuration of the repository that lends its objects is not obeyed."""
    folder, lender = repository(tmp_path / "r"), repository(tmp_path / "lender")
    _in_config(lender, trap)
    trap.with_name("sprung").unlink(missing_ok=True)
    put(folder, ".git/objects/info/alternates", f"{lender}/.git/objects\n")

    everything(folder, tmp_path / "state")

    assert not sprung(trap)
