"""Whatever agents and the user do at once in the user's checkout: nothing of either is lost, and nothing else moves."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import ConfinedAgents
from hypothesis import given, settings
from hypothesis import strategies as st
from repositories import git, put, repository

from coterie.agents.backends.sandbox.choice import working
from coterie.agents.workspace.trees import checkout_state
from coterie.agents.workspace.trees.git import require

pytestmark = pytest.mark.skipif((one := working()) is None or not one.PROTECTS, reason="needs a sandbox with mounts")

AGENT = [
    *("commit --quiet --allow-empty --message {n}", "commit --quiet --allow-empty --message {n}", "add --all"),
    *("checkout --quiet -b side-{n}", "checkout --quiet main", "checkout --quiet feature", "checkout --quiet --detach"),
    *("stash --include-untracked --quiet", "stash pop --quiet", "reset --quiet --hard HEAD^", "reset --quiet"),
    *(
        "gc --quiet",
        "branch -D feature",
        "update-ref refs/heads/feature HEAD",
        "tag agent-{n}",
        "rm --quiet --cached b.txt",
    ),
    *("commit --quiet --allow-empty --amend --message amended-{n}", "merge --quiet --no-edit feature", "tag -d v1"),
    *("rebase --quiet feature", "cherry-pick feature", "checkout --quiet --orphan orphan-{n}", "branch -m renamed-{n}"),
]
USER = [
    *("commit --quiet --allow-empty --message user-{n}", "commit --quiet --allow-empty --amend --message user-{n}"),
    *(
        "checkout --quiet -b mine-{n}",
        "checkout --quiet --detach",
        "add --all",
        "reset --quiet",
        "gc --quiet --prune=now",
    ),
    *("branch mine-{n}", "branch -f mine feature", "branch -D mine", "tag user-{n}", "update-index --refresh", "stash"),
]


def attempt(folder: Path, words: str, **env: str) -> str:
    """What git prints, whether it succeeds or not."""
    called = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words.split()]
    env = os.environ | {"GIT_EDITOR": "true"} | env
    return subprocess.run(called, cwd=folder, env=env, capture_output=True, text=True).stdout


def agents_git(agents: ConfinedAgents, words: str) -> str:
    """What git prints to an agent, here without its sandbox, which takes longer."""
    place, objects = agents.run / "checkout" / "git", agents.folder / ".git" / "objects"
    borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
    return attempt(agents.folder, words, GIT_DIR=str(place), GIT_WORK_TREE=str(agents.folder), **borrowed)


def commits_of(ask: Callable[[str], str]) -> set[str]:
    """The commits that are checked out and stashed."""
    return {line for line in ask("rev-parse HEAD --verify -q stash").split() if len(line) == 40}


def refs_of(folder: Path) -> dict[str, str]:
    lines = git(folder, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines if not line.startswith("refs/coterie/"))


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=8)


@pytest.mark.long
@settings(deadline=None)
@given(turns=st.lists(st.tuples(steps, st.sampled_from(["ends", "ends", "is killed", "is stopped"])), max_size=3))
def test_no_commit_is_lost_and_no_other_ref_moves(turns: list[tuple[list[tuple[bool, int]], str]]) -> None:
    """Commits are reachable by refs; the user's refs, index and stash are the user's, or what HEAD led to."""
    top = Path(tempfile.mkdtemp(prefix="coterie-"))
    try:
        folder = repository(top / "r", b__txt="b\n")
        for words in ("branch feature", "branch mine", "tag v1"):
            attempt(folder, words)
        git(folder, "checkout", "--quiet", "feature")
        attempt(folder, "commit --quiet --allow-empty --message feature")
        git(folder, "checkout", "--quiet", "main")
        agents, made, n = ConfinedAgents(folder, top / "state"), set[str](), 0
        for acts, end in turns:
            agents.enter()
            assert agents.checkout.repository is not None or checkout_state.operation_in(require(folder, "the test"))
            for is_user, which in acts:
                n += 1
                put(folder, f"file-{which % 4}.txt", f"{n}\n")
                if is_user or agents.checkout.repository is None:
                    attempt(folder, USER[which % len(USER)].format(n=n))
                else:
                    agents_git(agents, AGENT[which % len(AGENT)].format(n=n))
                    made |= commits_of(lambda words: agents_git(agents, words))
            before, head, stash = refs_of(folder), git(folder, "rev-parse", "HEAD"), git(folder, "stash", "list")
            if end == "ends":
                agents.checkout.leave()
            elif end == "is stopped":
                agents.checkout.end()
            if end != "ends":
                agents.checkout = agents.owner()
                agents.enter()
                agents.checkout.leave()
            moved = {name for name, was in before.items() if refs_of(folder).get(name) != was}
            after = git(folder, "symbolic-ref", "-q", "HEAD") if attempt(folder, "symbolic-ref -q HEAD") else ""
            assert moved <= {after}, (moved, after)
            assert git(folder, "stash", "list") == stash
            reachable = {*git(folder, "rev-list", "--all").split(), *git(folder, "rev-list", "HEAD").split()}
            assert made <= reachable
            assert head in reachable
        assert not [name for name in os.listdir(folder / ".git") if name in ("coterie.index", "index.lock")]
        assert subprocess.run(["git", "fsck", "--connectivity-only"], cwd=folder, capture_output=True).returncode == 0
        assert git(folder, "for-each-ref", "refs/coterie/x/in") == ""
    finally:
        shutil.rmtree(top)
