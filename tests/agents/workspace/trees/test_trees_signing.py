"""Commits of Coterie are signed where the user's are, if that works without a question."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from repositories import git, put, repository

from coterie.agents.workspace.trees import signing, worktree
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.report import unsigned

GPG = """#!/bin/sh
# What it was called with, and a signature as git wants to see it.
echo "$@" >>{here}/called
cat >/dev/null
test -e {here}/asks && exit 2
test -e {here}/touches && sleep 60
echo '[GNUPG:] BEGIN_SIGNING' >&2
echo '[GNUPG:] SIG_CREATED D' >&2
echo '-----BEGIN PGP SIGNATURE-----'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r")


@pytest.fixture
def verdict(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Says whether a merge is signed under the settings that it is given."""
    config = tmp_path / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (tmp_path / "gpg").write_text(GPG.format(here=tmp_path))
    (tmp_path / "gpg").chmod(0o755)

    def found(strategy: str = "squash", **settings: str) -> str:
        monkeypatch.setattr(signing, "_refused", {})
        config.unlink(missing_ok=True)
        given = {"user__name": "Ada", "user__email": "ada@example.org", "commit__gpgsign": "true"} | settings
        for name, value in given.items():
            git(folder, "config", "--global", name.replace("__", "."), value)
        origin, run = require(folder, "the test"), f"x{len(list((tmp_path / 's').glob('worktrees/*')))}"
        tree = worktree.new_tree(origin, tmp_path / "s", run, prefix="t", base=origin.commit_of("HEAD"))
        tree = worktree.make(origin, tmp_path / "s", tree)
        put(Path(tree.path), f"{run}.txt", "new")
        git(Path(tree.path), "add", "--all")
        git(Path(tree.path), "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "by the agent")
        put(Path(tree.path), f"{run}.more", "more")
        done = merge_tree(tmp_path / "s", replace(tree), strategy)
        assert done.status == "merged", done
        headers = [git(folder, "cat-file", "commit", one) for one in git(folder, "rev-list", f"{tree.base}..").split()]
        ours = headers if strategy == "rebase" else headers[:1]
        signed = {"gpgsig" in header.partition("\n\n")[0] for header in ours}
        assert bool(list(unsigned(done))) == (signed == {False} and given["commit__gpgsign"] == "true")
        return {True: "signed", False: "unsigned"}[signed.pop()] if len(signed) == 1 else "mixed"

    return found


@pytest.mark.parametrize("strategy", ["squash", "merge", "rebase"])
def test_merges_are_signed_as_the_user_would(verdict: Callable[..., str], tmp_path: Path, strategy: str) -> None:
    """By the user's program and key, which is told never to ask."""
    assert verdict(strategy, gpg__program=str(tmp_path / "gpg"), user__signingkey="Ada") == "signed"
    assert "--batch --no-tty --pinentry-mode error" in (tmp_path / "called").read_text()
    assert "-bsau Ada" in (tmp_path / "called").read_text()


def test_who_signs_nothing_is_told_nothing(verdict: Callable[..., str], tmp_path: Path) -> None:
    assert verdict(commit__gpgsign="false", gpg__program=str(tmp_path / "gpg")) == "unsigned"
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("why", ["asks", "touches"])
def test_a_key_that_needs_its_owner_leaves_the_merge_unsigned(
    verdict: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """One try, and not one for each commit, then a line that says so."""
    (tmp_path / why).touch()
    monkeypatch.setattr(signing, "WITHIN", 0.5)
    assert verdict("rebase", gpg__program=str(tmp_path / "gpg")) == "unsigned"
    assert len((tmp_path / "called").read_text().splitlines()) == 1


def test_no_program_that_the_repository_names_signs(verdict: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    """Its configuration may be an agent's."""
    git(folder, "config", "gpg.program", str(tmp_path / "gpg"))
    assert verdict() == "unsigned"
    assert not (tmp_path / "called").exists()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_keys_of_ssh_sign_unless_they_have_a_passphrase(verdict: Callable[..., str], tmp_path: Path) -> None:
    """Nothing asks for one, as there is no terminal."""
    for name, phrase in (("open", ""), ("closed", "secret phrase")):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", str(tmp_path / name)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    assert verdict(gpg__format="ssh", user__signingkey=str(tmp_path / "open.pub")) == "signed"
    assert verdict(gpg__format="ssh", user__signingkey=str(tmp_path / "closed.pub")) == "unsigned"
