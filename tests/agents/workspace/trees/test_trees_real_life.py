"""Repositories as people have them, and what they do with them while a run works."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from repositories import commit, git, holds, put, repository

from coterie.agents.workspace.trees import attestation, private, worktree
from coterie.agents.workspace.trees.disposal import remove_files
from coterie.agents.workspace.trees.git import checked_out, require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import UsageError

Make = Callable[[Path], Path]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", b__txt="b\n")


def opened(checkout: Path, state: Path) -> WorkTree:
    """A work tree of a run of *checkout*, in which an agent can begin to work."""
    origin = require(checkout, "the test")
    tree = worktree.new_tree(origin, state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
    tree = worktree.make(origin, state, tree)
    private.enter(tree)
    return tree


def agent(tree: WorkTree, *words: str) -> str:
    """What git says to an agent in *tree*."""
    return git(Path(tree.path), f"--git-dir={private.folder_of(tree)}", f"--work-tree={tree.path}", *words)


def works(tree: WorkTree) -> None:
    """Let an agent commit a file, and leave another."""
    put(Path(tree.path), "new.txt", "new\n")
    agent(tree, "add", "--all")
    agent(tree, "commit", "--quiet", "--message", "work")
    put(Path(tree.path), "more.txt", "more\n")


def as_linked(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", "-b", "linked", str(folder.parent / "linked"))
    return folder.parent / "linked"


def as_linked_in_an_odd_folder(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", "-b", "linked", str(folder.parent / "of\ntwo lines"))
    git(folder, "worktree", "add", "--quiet", "-b", "other", str(folder.parent / "other"))
    return folder.parent / "of\ntwo lines"


def as_bare(folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", "--bare", str(folder), "bare.git")
    git(folder.parent / "bare.git", "worktree", "add", "--quiet", str(folder.parent / "of-bare"), "main")
    return folder.parent / "of-bare"


def as_shallow(folder: Path) -> Path:
    commit(folder, "second", second__txt="2\n")
    git(folder.parent, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    return folder.parent / "shallow"


def as_borrowing(folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", "--shared", str(folder), "borrowing")
    return folder.parent / "borrowing"


def as_sha256(folder: Path) -> Path:
    git(folder.parent, "init", "--quiet", "--object-format=sha256", "-b", "main", "sha256")
    return commit(folder.parent / "sha256", "first", a__txt="one\n", b__txt="b\n")


def as_sparse(folder: Path) -> Path:
    commit(folder, "more", **{"in/x": "x\n", "out/y": "y\n"})
    git(folder, "sparse-checkout", "set", "in")
    return folder


def as_autocrlf(folder: Path) -> Path:
    git(folder, "config", "core.autocrlf", "true")
    return folder


def as_packed(folder: Path) -> Path:
    git(folder, "gc", "--quiet")
    git(folder, "config", "feature.manyFiles", "true")
    return folder


def as_submodule(folder: Path) -> Path:
    repository(folder.parent / "library")
    git(folder, "submodule", "--quiet", "add", str(folder.parent / "library"), "lib")
    return commit(folder, "with a submodule")


def as_detached(folder: Path) -> Path:
    git(commit(folder, "second"), "checkout", "--quiet", "--detach", "HEAD")
    return folder


def as_partial(folder: Path) -> Path:
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder.parent, "clone", "--quiet", "--filter=blob:none", f"file://{folder}", "partial")
    return folder.parent / "partial"


def as_lfs(folder: Path) -> Path:
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not installed")
    git(folder, "lfs", "install", "--local")
    git(folder, "lfs", "track", "*.bin")
    return commit(folder, "with a large file", large__bin="large")


def as_renamed_in_case(folder: Path) -> Path:
    git(folder, "mv", "b.txt", "B.txt")
    return commit(folder, "another case")


def as_reftable(folder: Path) -> Path:
    made = folder.parent / "reftable"
    done = subprocess.run(["git", "init", "-q", "-b", "main", "--ref-format=reftable", str(made)], capture_output=True)
    if done.returncode:
        pytest.skip("this git has no reftable")
    return commit(made, "first", a__txt="one\n", b__txt="b\n")


def as_managed_hooks(folder: Path) -> Path:
    put(folder, ".husky/pre-commit", "#!/bin/sh\nexit 1\n")
    (folder / ".husky/pre-commit").chmod(0o755)
    commit(folder, "with hooks")
    git(folder, "config", "core.hooksPath", ".husky")
    return folder


def as_filtered(folder: Path) -> Path:
    git(folder, "config", "filter.upper.clean", "tr a-z A-Z")
    git(folder, "config", "filter.upper.smudge", "tr A-Z a-z")
    return commit(folder, "with a filter", **{"__gitattributes": "*.up filter=upper\n", "a__up": "abc\n"})


def as_separate(folder: Path) -> Path:
    git(folder, "init", "--quiet", f"--separate-git-dir={folder.parent / 'elsewhere'}")
    return folder


def as_linked_to(folder: Path) -> Path:
    (folder / ".git").rename(folder.parent / "of-r")
    (folder / ".git").symlink_to(folder.parent / "of-r")
    return folder


def as_tagged_like_branches(folder: Path) -> Path:
    for name in ("main", "autoloop/x"):
        git(folder, "tag", name)
    return folder


def as_named_oddly(folder: Path) -> Path:
    for name in ("a\u2028b", "a\u0085b", "it's"):
        git(folder, "branch", name)
    git(folder, "symbolic-ref", "refs/heads/master", "refs/heads/main")
    git(folder, "checkout", "--quiet", "-b", "refs/odd\u2028it's")
    return folder


def as_merging_by_options(folder: Path) -> Path:
    git(folder, "config", "branch.main.mergeOptions", "--squash --no-commit --verify-signatures -s ours")
    return folder


def as_in_an_odd_folder(folder: Path) -> Path:
    return folder.rename(folder.with_name("it's: -a\u2028\\b,\n\"c"))


SHAPES = [made for name, made in sorted(globals().items()) if name.startswith("as_")]


@pytest.mark.parametrize("made", SHAPES)
def test_the_repositories_of_real_life(folder: Path, state: Path, made: Make) -> None:
    """In each an agent finds nothing changed, commits, and its work and what is not committed are merged."""
    checkout = made(folder)
    tree = opened(checkout, state)
    found = agent(tree, "status", "--porcelain")
    assert found in ("", " M a.up") if made is as_filtered else found == ""  # agents lack the filters of a repository
    works(tree)
    done = merge_tree(state, tree)

    assert done.status == "merged", done.reason
    assert {"new.txt", "more.txt"} <= {path.name for path in checkout.iterdir()}
    assert git(checkout, "status", "--porcelain") == ""
    remove_files(state, done)
    assert not private.folder_of(tree).exists()
    assert "missing" not in git(checkout, "fsck", "--connectivity-only")
    if made is as_filtered:
        assert git(checkout, "show", "HEAD:a.up") == "ABC"  # but what is merged went through them


def rebases(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "other", "HEAD^")
    git(commit(folder, "of another", other__txt="other"), "checkout", "--quiet", "main")
    git(folder, "rebase", "--quiet", "other")


def switches(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "mine")
    commit(folder, "of mine", mine__txt="mine")


def renames(folder: Path) -> None:
    git(folder, "branch", "--move", "main", "trunk")


def detaches(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "--detach")


def collects(folder: Path) -> None:
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "--quiet", "--prune=now")


def prunes_trees(folder: Path) -> None:
    git(folder, "worktree", "prune", "--expire=now")


def stashes(folder: Path) -> None:
    put(folder, "a.txt", "of the user")
    git(folder, "stash", "--quiet")


def commits(folder: Path) -> None:
    commit(folder, "of the user", user__txt="user")


def looks(folder: Path) -> None:
    for tree in folder.parent.glob("state/worktrees/*/tree"):
        git(tree, "status")
        git(tree, "log", "--oneline")


@pytest.mark.parametrize("act", [rebases, switches, renames, detaches, collects, prunes_trees, stashes, commits, looks])
@pytest.mark.parametrize("strategy", ["squash", "merge", "rebase"])
def test_what_people_do_meanwhile(folder: Path, state: Path, act: Callable[[Path], None], strategy: str) -> None:
    """The work gets into the branch that it came from, and nothing of theirs changes; else it says what to do."""
    commit(folder, "second", second__txt="2")
    tree = opened(folder, state)
    works(tree)
    private.look(tree)
    act(folder)
    head, stash = git(folder, "rev-parse", "--abbrev-ref", "HEAD"), git(folder, "stash", "list")
    before = set(holds(folder)) if act is switches else set[str]()
    done = merge_tree(state, tree, strategy)

    assert (git(folder, "rev-parse", "--abbrev-ref", "HEAD"), git(folder, "stash", "list")) == (head, stash)
    if act is renames:
        assert (done.status, "the branch main is gone" in done.reason) == ("blocked", True)
        git(folder, "branch", "main", "trunk")
        done = merge_tree(state, tree, strategy)
    assert done.status == "merged", done.reason
    assert git(folder, "show", "main:new.txt", "main:more.txt") == "new\nmore"
    assert before in (set(), set(holds(folder)))
    remove_files(state, done)
    git(folder, "fsck", "--connectivity-only")
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs another user")
def test_a_repository_of_another_user_is_refused_with_the_words_of_git(folder: Path, state: Path) -> None:
    """Git itself reads no configuration there; its message has the command that allows it."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    with pytest.raises(UsageError, match="the test: fatal: detected dubious ownership"):
        require(folder, "the test")


def test_the_options_of_git_are_those_of_2_30(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a merge needs more: `rev-parse --path-format` is of 2.31, `worktree list -z` of 2.36."""
    folder = repository(tmp_path / "r")
    put(folder, "below/c.txt", "c\n")
    script = f"""#!/bin/sh
case " $* " in *" --path-format="*|*" worktree list "*" -z "*) echo unknown option >&2; exit 129 ;; esac
exec {shutil.which("git")} "$@"
"""
    put(tmp_path, "bin/git", script)
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    found = require(folder / "below", "the test")

    assert (found.top, found.common, found.prefix) == (folder, folder / ".git", "below")
    assert checked_out(found, "refs/heads/main") == folder
    git(folder, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    assert checked_out(found, "refs/heads/linked") == tmp_path / "linked"
    place = attestation.position(folder / "below")
    assert place is not None
    assert (place.top, place.repository, place.branch) == (str(folder), str(folder / ".git"), "main")
