"""Agents in the user's own checkout have a private repository in its place, and what they leave in it comes back."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import another_user
import pytest
from checkouts import IDENTITY, ConfinedAgents, commits
from loop_projects import STATE, project, records, run
from repositories import commit, git, put, repository, untouched
from until import soon

from coterie.agents.backends.sandbox import choice
from coterie.agents.backends.sandbox.choice import working
from coterie.agents.workspace.trees import checkout_state
from coterie.agents.workspace.trees import git as calls
from coterie.agents.workspace.trees.git import require
from coterie.errors import GitFailed
from coterie.execution.runs import launch
from coterie.execution.runs.outcome import Outcome
from coterie.history.journal import records as r
from coterie.history.views.timeline import sentence
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven

pytestmark = pytest.mark.skipif(
    (one := working()) is None or not one.PROTECTS, reason="needs a sandbox that hides what it does not show"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", b__txt="b\n")


@pytest.fixture
def agents(folder: Path, tmp_path: Path) -> ConfinedAgents:
    return ConfinedAgents(folder, tmp_path / "state")


def subjects(folder: Path, *refs: str) -> list[str]:
    """The subjects of the commits of *refs*."""
    return git(folder, "log", "--format=%s", *refs).splitlines()


def lost(folder: Path) -> list[str]:
    """The subjects of the commits that are kept in refs of the run."""
    names = git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie/x/lost/").splitlines()
    return sorted(git(folder, "log", "-1", "--format=%s", name) for name in names)


# -- what comes back --------------------------------------------------------------------------------------------------


def test_while_an_attempt_works_the_users_repository_does_not_change(folder: Path, agents: ConfinedAgents) -> None:
    """Nothing that it does with git: refs, HEAD, index, stash and configuration are as they were."""
    put(folder, "idea.txt", "private\n")
    git(folder, "stash", "--quiet", "--include-untracked")
    git(folder, "branch", "feature")
    before = (*untouched(folder)[:3], (folder / ".git/config").read_bytes())
    agents.enter()
    assert agents.does("git stash list; git branch --format='%(refname:short)'").split() == ["feature", "main"]
    agents.does(commits("new.txt") + "echo y > a.txt; git stash -q; git branch -D feature; git config core.pager x")
    agents.does("git tag v1; git gc -q; git fsck --connectivity-only")

    assert (*untouched(folder)[:3], (folder / ".git/config").read_bytes()) == before


def test_a_commit_moves_the_branch_and_the_index(folder: Path, agents: ConfinedAgents) -> None:
    """As if it had been made here; with a line in the reflog that names the run."""
    assert agents.works(commits("new.txt") + "echo more > b.txt") == ()
    assert subjects(folder) == ["new.txt", "first"]
    assert git(folder, "status", "--porcelain") == " M b.txt"
    assert git(folder, "reflog", "-1", "--format=%gs") == "coterie: run x"
    assert git(folder, "for-each-ref", "refs/coterie/x/in", "refs/coterie/x/lost") == ""


def test_what_the_user_has_staged_is_staged_for_agents(folder: Path, agents: ConfinedAgents) -> None:
    """And what an agent stages or unstages is so for the user; files that nobody staged stay as they are."""
    put(folder, "staged.txt", "staged\n")
    put(folder, "a.txt", "staged\n")
    git(folder, "add", "staged.txt", "a.txt")
    put(folder, "a.txt", "not staged\n")
    agents.enter()
    assert agents.does("git status --porcelain").splitlines() == ["MM a.txt", "A  staged.txt"]
    agents.does("git restore --staged staged.txt; echo z > b.txt; git add b.txt")
    assert agents.checkout.leave() == ()
    assert git(folder, "status", "--porcelain").splitlines() == ["MM a.txt", "M  b.txt", "?? staged.txt"]
    assert git(folder, "show", ":a.txt") == "staged"


def test_a_file_that_the_user_only_intends_to_add_stays_one(folder: Path, agents: ConfinedAgents) -> None:
    put(folder, "new *.txt", "x\n")
    git(folder, "add", "--intent-to-add", "new *.txt")
    assert agents.works(commits("b.txt")) == ()
    assert git(folder, "status", "--porcelain") == ' A "new *.txt"'


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_a_flagged_file_of_the_users_keeps_no_commit_from_coming_back(
    folder: Path, agents: ConfinedAgents, flag: str
) -> None:
    """Git compares such a file, and the user's change of it stays."""
    git(folder, "update-index", f"--{flag}", "a.txt")
    put(folder, "a.txt", "mine\n")
    agents.works(f"git update-index --no-{flag} a.txt; git commit -qam all; echo x > a.txt; git commit -qam again")
    assert subjects(folder) == ["again", "all", "first"]


@pytest.mark.parametrize("where", ["~/dotfiles/ignored", ".git/mine", "mine"])
def test_agents_do_not_add_what_the_user_ignores(
    folder: Path, agents: ConfinedAgents, own_home: Path, where: str
) -> None:
    """Wherever `core.excludesFile` is, and it yields to `info/exclude`, whose attributes count, too."""
    listed = own_home / where.removeprefix("~/") if where[0] == "~" else folder / where
    put(listed.parent, listed.name, "*.env\nmine\n")
    git(folder, "config", "core.excludesFile", where)
    put(folder, ".git/info/exclude", "!shown.env\n")
    put(folder, ".git/info/attributes", "*.txt text eol=crlf\n")
    for name in ("secret.env", "shown.env"):
        put(folder, name, "x\n")
    assert agents.works("printf 'c\\r\\n' > b.txt; git add --all; git commit -qm all") == ()
    assert git(folder, "ls-tree", "--name-only", "HEAD").split() == ["a.txt", "b.txt", "shown.env"]
    assert git(folder, "cat-file", "-s", "HEAD:b.txt") == "2"


def test_the_next_attempt_finds_what_the_user_did_since(folder: Path, agents: ConfinedAgents) -> None:
    """Commits, branches made, moved and deleted, another branch checked out, staged files; and its own stash."""
    git(folder, "branch", "old")
    agents.works(commits("one.txt") + "echo x > a.txt; git stash -q")
    git(folder, "checkout", "--quiet", "-b", "feature")
    commit(folder, "mine", mine__txt="mine\n")
    git(folder, "branch", "--delete", "old")
    put(folder, "staged.txt", "x")
    git(folder, "add", "staged.txt")
    agents.enter()

    assert agents.does("git branch --format='%(refname:short)'; git status --porcelain").splitlines() == [
        "feature",
        "main",
        "A  staged.txt",
    ]
    assert agents.does("git log --format=%s").split() == ["mine", "one.txt", "first"]
    agents.does("git stash pop -q; git commit -qam stashed")
    assert agents.checkout.leave() == ()
    assert subjects(folder, "feature") == ["stashed", "mine", "one.txt", "first"]
    assert subjects(folder, "main") == ["one.txt", "first"]


def test_a_branch_that_an_agent_makes_and_checks_out_is_checked_out(folder: Path, agents: ConfinedAgents) -> None:
    """New branches and tags are made, too; commits in none of them are kept by refs of the run."""
    said = agents.works(
        "git checkout -q -b feature; " + commits("f.txt") + "git tag -a -m v v1; git branch side; "
        "git checkout -q --detach; " + commits("gone.txt") + "git checkout -q feature; echo x > a.txt; git stash -q"
    )

    assert git(folder, "branch", "--show-current") == "feature"
    assert subjects(folder) == ["f.txt", "first"]
    assert subjects(folder, "main") == ["first"]
    assert git(folder, "rev-parse", "side", "v1^{commit}").split() == [git(folder, "rev-parse", "feature")] * 2
    assert git(folder, "cat-file", "-t", "v1") == "tag"
    assert git(folder, "status", "--porcelain") == ""
    assert [one[:4] for one in lost(folder)] == ["WIP ", "gone"]
    assert len(said) == 1
    assert "2 commits are kept" in said[0]
    shown = said[0].partition(f"git -C {folder} ")[2].split()
    assert len(git(folder, *shown, "--format=%h").split()) == 2


def test_no_other_ref_of_the_users_moves(folder: Path, agents: ConfinedAgents) -> None:
    """Nor does a new name take the meaning of one of them; the commits are kept, and it is said once."""
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "branch", "feature")
    git(folder, "tag", "v1")
    before = git(folder, "for-each-ref", "refs/heads/feature", "refs/tags", "refs/remotes")
    script = "git checkout -q feature; " + commits("f.txt") + "git checkout -q main; git tag -d v1; "
    script += "git checkout -q --detach; " + commits("o.txt") + "git update-ref refs/heads/origin/main HEAD; "
    said = agents.works(script + "git tag main; git checkout -q refs/heads/main; git symbolic-ref HEAD refs/heads/main")

    assert git(folder, "for-each-ref", "refs/heads/feature", "refs/tags", "refs/remotes") == before
    assert lost(folder) == ["f.txt", "o.txt"]
    assert "it moved or deleted feature, v1 in its repository; yours are as they were" in said
    assert "it made main, origin/main in its repository; in yours the name means something else" in said
    assert agents.works("true") == ()


@pytest.mark.parametrize(
    "ref",
    [
        *("refs/remotes/origin/main", "refs/stash", "refs/notes/commits", "refs/tags/v1", "refs/coterie/x/base/HEAD"),
        *(
            "refs/replace/{}",
            "refs/bisect/bad",
            "refs/worktree/x",
            "refs/heads/refs/heads/mine",
            "refs/heads/FETCH_HEAD",
        ),
    ],
)
def test_by_checking_it_out_an_agent_writes_no_ref_but_a_branch(folder: Path, agents: ConfinedAgents, ref: str) -> None:
    """Its commits are kept, and what is checked out stays."""
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "tag", "v1")
    git(folder, "branch", "mine")
    ref = ref.format(git(folder, "rev-parse", "HEAD"))
    made = "made=$(git commit-tree -p HEAD -m made 'HEAD^{tree}')"
    notes = agents.works(f"{made}; git update-ref {ref} $made; git symbolic-ref HEAD {ref}")
    assert "not taken over" in notes[0] or "means something else" in notes[0]
    assert (folder / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    kept = "refs/heads/coterie/x" if ref.startswith("refs/heads/") else "refs/coterie/x/lost/1"
    assert subjects(folder, kept) == ["made", "first"]
    assert git(folder, "for-each-ref", "--format=%(refname)", "--contains", kept) == kept


def test_a_rewritten_branch_moves_and_its_commits_are_kept(folder: Path, agents: ConfinedAgents) -> None:
    commit(folder, "mine", mine__txt="mine\n")
    said = agents.works("git commit -q --amend -m better")

    assert subjects(folder) == ["better", "first"]
    assert lost(folder) == ["mine"]
    assert said == ()  # it was the task, and the reflog has it as well


def test_flags_of_an_agents_index_hide_nothing(folder: Path, agents: ConfinedAgents) -> None:
    """Those of the user's stay."""
    git(folder, "update-index", "--skip-worktree", "b.txt")
    agents.works("git update-index --assume-unchanged a.txt; echo edited > a.txt; " + commits("new.txt"))

    assert git(folder, "ls-files", "-v").splitlines() == ["H a.txt", "S b.txt", "H new.txt"]
    assert git(folder, "status", "--porcelain") == " M a.txt"


def test_what_an_agent_leaves_unfinished_is_there_for_the_next_attempt(folder: Path, agents: ConfinedAgents) -> None:
    """Until then the user's branch and index stay; when it is finished, they follow."""
    git(folder, "checkout", "--quiet", "-b", "other")
    commit(folder, "theirs", a__txt="theirs\n")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, "ours", a__txt="ours\n")
    agents.enter()
    assert agents.sh("git merge -q other").returncode == 1
    [said] = agents.checkout.leave()
    assert "a merge unfinished" in said
    assert git(folder, "status", "--porcelain") == " M a.txt"
    agents.works("test -f .git/MERGE_HEAD; echo both > a.txt; git add a.txt; git commit -qm merged")

    assert git(folder, "log", "-1", "--format=%s %p").split()[0] == "merged"
    assert len(git(folder, "log", "-1", "--format=%p").split()) == 2
    assert git(folder, "status", "--porcelain") == ""


# -- the user meanwhile -----------------------------------------------------------------------------------------------


def commits_too(folder: Path) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "mine")


def stages(folder: Path) -> None:
    put(folder, "mine.txt", "mine\n")
    git(folder, "add", "mine.txt")


def switches(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "mine")


def resets(folder: Path) -> None:
    git(folder, "reset", "--quiet", "--soft", "HEAD^")


def deletes(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "--detach")
    git(folder, "branch", "--quiet", "-D", "main")


@pytest.mark.parametrize("does", [commits_too, stages, switches, resets, deletes])
def test_what_the_user_moved_meanwhile_stays(
    folder: Path, agents: ConfinedAgents, does: Callable[[Path], None]
) -> None:
    """The commits of the agent are on a branch of the run then, and it is said why; the next attempt begins there."""
    commit(folder, "second", second__txt="2\n")
    agents.enter()
    agents.does(commits("new.txt"))
    does(folder)
    before = [git(folder, *words) for words in (("for-each-ref", "refs/heads"), ("ls-files", "-s"))]
    head = (folder / ".git/HEAD").read_text()
    [said] = agents.checkout.leave()

    assert said.startswith("its commits are on the branch coterie/x, since ")
    assert subjects(folder, "coterie/x")[0] == "new.txt"
    after = git(folder, "for-each-ref", "refs/heads").splitlines()
    assert ["coterie/x" in line for line in after] == [True] + [False] * (len(after) - 1)
    assert [after[1:], git(folder, "ls-files", "-s")] == [before[0].splitlines(), before[1]]
    assert (folder / ".git/HEAD").read_text() == head
    agents.enter()
    assert agents.does("git rev-parse HEAD") == git(folder, "rev-parse", "HEAD")
    assert agents.does("git log -1 --format=%s coterie/x") == "new.txt"
    agents.does(commits("again.txt"))
    assert agents.checkout.leave() == ()
    assert subjects(folder)[0] == "again.txt"


def test_a_second_branch_of_the_run_does_not_replace_the_first(folder: Path, agents: ConfinedAgents) -> None:
    for n in (1, 2):
        agents.enter()
        agents.does(commits(f"{n}.txt"))
        commits_too(folder)
        agents.checkout.leave()
    assert [subjects(folder, name)[0] for name in ("coterie/x", "coterie/x-2")] == ["1.txt", "2.txt"]


def test_a_branch_in_the_way_of_that_name_costs_no_commit(folder: Path, agents: ConfinedAgents) -> None:
    git(folder, "branch", "coterie")
    agents.enter()
    agents.does(commits("new.txt"))
    commits_too(folder)
    [said] = agents.checkout.leave()

    assert said.startswith("its commits are kept as refs/coterie/x/lost/1: ")
    assert "worktree.branch_prefix" in said
    assert lost(folder) == ["new.txt"]


def test_what_the_user_prunes_meanwhile_costs_no_commit(folder: Path, agents: ConfinedAgents) -> None:
    """The commit that an attempt began with stays, and so does its work on it; branches that are gone are dropped."""
    git(folder, "checkout", "--quiet", "-b", "feature")
    commit(folder, "feature", f__txt="f\n")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, "second", second__txt="2\n")
    agents.enter()
    agents.does(commits("new.txt"))
    git(folder, "commit", "--quiet", "--amend", "--message", "better")
    git(folder, "branch", "--quiet", "-D", "feature")
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "--quiet", "--prune=now")
    [said] = agents.checkout.leave()
    assert "coterie/x" in said
    assert subjects(folder, "coterie/x") == ["new.txt", "second", "first"]
    assert subjects(folder, "main") == ["better", "first"]


def test_a_refreshed_index_is_not_a_moved_one(folder: Path, agents: ConfinedAgents) -> None:
    """A `git status` of the user, or of an editor, writes times of files into it."""
    agents.enter()
    agents.does(commits("new.txt"))
    (folder / "a.txt").touch()
    git(folder, "update-index", "--refresh")
    assert agents.checkout.leave() == ()
    assert subjects(folder) == ["new.txt", "first"]


def test_a_branch_that_is_checked_out_elsewhere_is_not_checked_out_here(folder: Path, agents: ConfinedAgents) -> None:
    git(folder, "worktree", "add", "--quiet", "-b", "linked", str(folder.parent / "linked"))
    [said] = agents.works("git checkout -q linked; " + commits("new.txt"))

    assert "linked is checked out in" in said
    assert git(folder, "branch", "--show-current") == "main"
    assert subjects(folder, "linked") == ["first"]
    assert subjects(folder, "coterie/x") == ["new.txt", "first"]


def test_the_index_that_another_command_has_locked_is_left(
    folder: Path, agents: ConfinedAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is not taken from it, and the commits are kept."""
    monkeypatch.setattr(checkout_state, "_PATIENCE", 0.0)
    agents.enter()
    agents.does(commits("new.txt"))
    (folder / ".git/index.lock").touch()
    [said] = agents.checkout.leave()
    assert "locked" in said
    assert (folder / ".git/index.lock").exists()
    assert subjects(folder, "main") == ["first"]
    assert subjects(folder, "coterie/x") == ["new.txt", "first"]


# -- several attempts -------------------------------------------------------------------------------------------------


def test_attempts_at_once_share_the_private_repository(folder: Path, agents: ConfinedAgents) -> None:
    """As they share the files; the user's branch follows at the end of each."""
    agents.enter()
    agents.does(commits("one.txt"))
    agents.enter()
    assert agents.does("git log --format=%s").split() == ["one.txt", "first"]
    agents.does("touch .git/held.lock; echo 2 > two.txt; git add two.txt")
    assert agents.checkout.leave() == ()
    assert subjects(folder) == ["one.txt", "first"]
    assert git(folder, "status", "--porcelain") == "A  two.txt"
    agents.does("test -f .git/held.lock; git commit -qm two")
    assert agents.checkout.leave() == ()
    assert subjects(folder) == ["two", "one.txt", "first"]
    assert git(folder, "status", "--porcelain") == ""


def test_locks_of_an_attempt_that_was_killed_do_not_stop_the_next(folder: Path, agents: ConfinedAgents) -> None:
    agents.works("touch .git/index.lock .git/HEAD.lock; mkdir -p .git/refs/heads; touch .git/refs/heads/main.lock")
    agents.works(commits("new.txt"))
    assert subjects(folder) == ["new.txt", "first"]


def test_what_attempts_left_that_were_cut_off_is_taken_over(folder: Path, agents: ConfinedAgents) -> None:
    """At the end of the run or, after a kill, by the next owner; what is to be said is said by the next attempt."""
    agents.enter()
    agents.does(commits("one.txt") + "echo x > a.txt; git stash -q")
    agents.checkout.end()
    assert subjects(folder) == ["one.txt", "first"]
    agents.checkout = agents.owner()
    agents.enter()
    agents.does(commits("two.txt"))
    agents.does("echo x > b.txt; git stash -q")
    agents.checkout = agents.owner()  # killed
    agents.enter()
    assert subjects(folder) == ["two.txt", "one.txt", "first"]
    first, second = agents.checkout.leave()
    assert "a commit is kept" in first
    assert "a commit is kept" in second
    assert agents.works("true") == ()


@pytest.mark.long
def test_the_same_holds_for_another_user() -> None:
    """Its sandbox maps users in another way than that of root."""
    another_user.play(Path(__file__), without="another_user", tiers="not long")


class Killed(BaseException):
    """kill -9."""


def dies(monkeypatch: pytest.MonkeyPatch, n: int) -> list[int]:
    """Let the owner die before or after its call of git number *n*/2; returns what is left of *n*."""
    real, clear, left = calls.perform, checkout_state.clear, [n]

    def perform(*given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        done = real(*given)
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return done

    monkeypatch.setattr(calls, "perform", perform)
    monkeypatch.setattr(checkout_state, "clear", lambda own: clear(own) if left[0] > 0 else None)
    return left


@pytest.mark.long
@pytest.mark.parametrize("is_diverted", [False, True])
def test_a_kill_at_any_call_of_git_loses_nothing(
    tmp_path: Path, is_diverted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the user's branch, HEAD and index is before or after its move; the next owner ends as this one would."""
    n, wanted = 0, None
    while True:
        n += 1
        top = tmp_path / f"{n}"
        folder = repository(top / "r", b__txt="b\n")
        agents = ConfinedAgents(folder, top / "state")
        agents.enter()
        agents.does(
            "git checkout -q -b feature; git tag v1; " + commits("dropped.txt") + "git reset -q --hard HEAD^; "
            "echo x > a.txt; git stash -q; " + commits("new.txt") + "echo y > b.txt; git add b.txt"
        )
        if is_diverted:
            stages(folder)
        before = set(git(folder, "ls-files", "-s").splitlines())
        with monkeypatch.context() as patch:
            left = dies(patch, n)
            with suppress(Killed):
                agents.checkout.leave()
            is_over = left[0] > 0
        index = set(git(folder, "ls-files", "-s").splitlines())
        assert index == before or {line.split()[-1] for line in index} == {"a.txt", "b.txt", "new.txt"}, n
        agents.checkout = agents.owner()
        agents.enter()
        agents.checkout.leave()
        found = (
            git(folder, "log", "--format=%s", "--branches", "--tags"),
            git(folder, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/coterie/x/in"),
            git(folder, "branch", "--show-current"),
            git(folder, "status", "--porcelain"),
            [one.split(":")[0] for one in lost(folder)],
            sorted(path.name for path in (folder / ".git").iterdir()),
        )
        wanted = wanted or found
        assert found == wanted, n
        if is_over:
            break
        shutil.rmtree(top)
    assert n > 20


def test_the_lock_of_a_killed_owner_is_removed_and_no_other(folder: Path, agents: ConfinedAgents) -> None:
    """Its content has a second name; a lock without one is that of a command of the user's."""
    agents.enter()
    agents.does(commits("new.txt"))
    shutil.copy(folder / ".git/index", folder / ".git/coterie.index")
    os.link(folder / ".git/coterie.index", folder / ".git/index.lock")
    agents.checkout = agents.owner()
    agents.enter()
    assert subjects(folder) == ["new.txt", "first"]
    assert git(folder, "status", "--porcelain") == ""
    (folder / ".git/index.lock").touch()
    shutil.copy(folder / ".git/index", folder / ".git/coterie.index")
    checkout_state.clear(require(folder, "the test"))
    assert (folder / ".git/index.lock").exists()


# -- the checkouts of real life ---------------------------------------------------------------------------------------


def as_plain(folder: Path) -> Path:
    return folder


def as_linked(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", "-b", "linked", str(folder.parent / "linked"))
    return folder.parent / "linked"


def as_bare(folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", "--bare", str(folder), "bare.git")
    git(folder.parent / "bare.git", "worktree", "add", "--quiet", str(folder.parent / "of-bare"), "main")
    return folder.parent / "of-bare"


def as_submodule(folder: Path) -> Path:
    git(folder.parent, "init", "--quiet", "-b", "main", "super")
    git(folder.parent / "super", "submodule", "--quiet", "add", str(folder), "sub")
    return folder.parent / "super" / "sub"


def with_submodule(folder: Path) -> Path:
    repository(folder.parent / "inner")
    git(folder, "submodule", "--quiet", "add", str(folder.parent / "inner"), "sub")
    return commit(folder, "submodule")


def as_subfolder(folder: Path) -> Path:
    commit(folder, "deeper", **{"deep/er/c": "c\n"})
    return folder / "deep" / "er"


def as_detached(folder: Path) -> Path:
    git(folder, "checkout", "--quiet", "--detach")
    return folder


def as_unborn(folder: Path) -> Path:
    git(folder.parent, "init", "--quiet", "-b", "trunk", "unborn")
    return folder.parent / "unborn"


def as_sha256(folder: Path) -> Path:
    git(folder.parent, "init", "--quiet", "--object-format=sha256", "-b", "main", "sha256")
    return commit(folder.parent / "sha256", "first", a__txt="one\n")


def as_shallow(folder: Path) -> Path:
    commit(folder, "second", second__txt="2\n")
    git(folder.parent, "clone", "--quiet", "--depth=1", f"file://{folder}", "shallow")
    return folder.parent / "shallow"


def as_borrowing(folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", "--shared", str(folder), "borrowing")
    return folder.parent / "borrowing"


def as_sparse(folder: Path) -> Path:
    commit(folder, "more", **{"in/x": "x\n", "out/y": "y\n"})
    git(folder, "sparse-checkout", "set", "in")
    return folder


def as_separate(folder: Path) -> Path:
    git(folder, "init", "--quiet", f"--separate-git-dir={folder.parent / 'separate.git'}")
    return folder


def as_many(folder: Path) -> Path:
    git(folder, "gc", "--quiet")
    git(folder, "config", "feature.manyFiles", "true")
    git(folder, "config", "core.splitIndex", "true")
    git(folder, "update-index", "--split-index")
    return folder


def as_odd(folder: Path) -> Path:
    return folder.rename(folder.parent / "ö d'd \"na\nme")


def as_named_oddly(folder: Path) -> Path:
    git(folder, "branch", "a\u2028b")
    git(folder, "tag", "main")
    git(folder, "checkout", "--quiet", "-b", "refs/odd\u2028it's")
    return commit(folder, "on an odd branch")


LAYOUTS = [
    *(as_plain, as_linked, as_bare, as_submodule, with_submodule, as_subfolder, as_detached, as_unborn, as_sha256),
    *(as_shallow, as_borrowing, as_sparse, as_separate, as_many, as_odd, as_named_oddly),
]


@pytest.mark.parametrize("made", LAYOUTS)
def test_in_every_layout_an_agent_commits_and_the_user_has_it(folder: Path, tmp_path: Path, made: Any) -> None:
    """It finds nothing changed; afterwards nothing is changed for the user either, and nothing is missing."""
    checkout = made(folder)
    agents = ConfinedAgents(checkout, tmp_path / "state")
    branch, before = git(checkout, "branch", "--show-current"), git(checkout, "rev-list", "--branches").split()
    agents.enter()
    assert agents.checkout.repository is not None
    assert agents.does("git status --porcelain") == ""
    agents.does(commits("new.txt") + "echo more > more.txt; git add more.txt")
    assert agents.checkout.leave() == ()

    assert git(checkout, "log", "-1", "--format=%s") == "new.txt"
    assert git(checkout, "branch", "--show-current") == branch
    assert {*before} <= {*git(checkout, "rev-list", "--branches").split()}
    assert git(checkout, "status", "--porcelain", ".").split() == [
        "A",
        git(checkout, "rev-parse", "--show-prefix") + "more.txt",
    ]
    assert git(checkout, "fsck", "--connectivity-only", "--no-dangling") == ""
    assert agents.works(commits("again.txt")) == ()
    assert git(checkout, "status", "--porcelain") == ""


def test_a_moved_project_goes_on(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    agents = ConfinedAgents(folder, folder / ".coterie")
    put(folder, ".git/info/exclude", ".coterie\n")
    agents.works(commits("one.txt") + "echo x > a.txt; git stash -q")
    there = folder.rename(tmp_path / "elsewhere")
    agents = ConfinedAgents(there, there / ".coterie")
    agents.works("git stash pop -q; git commit -qam two")
    assert subjects(there) == ["two", "one.txt", "first"]


def merging(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "other")
    commit(folder, "theirs", other__txt="x\n")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-commit", "--no-ff", "other")


def relative(folder: Path) -> None:
    put(folder, ".git/objects/info/alternates", "../../../other/.git/objects\n")
    repository(folder.parent / "other")


def linked(folder: Path) -> None:
    (folder / ".git").rename(folder.parent / "real.git")
    (folder / ".git").symlink_to(folder.parent / "real.git")


@pytest.mark.parametrize(("made", "says"), [(merging, "a merge is under way"), (relative, "relative"), (linked, "not")])
def test_elsewhere_agents_share_the_users_repository_and_it_is_said(
    folder: Path, agents: ConfinedAgents, made: Callable[[Path], None], says: str
) -> None:
    made(folder)
    agents.enter()
    assert agents.checkout.repository is None
    [said] = agents.checkout.leave()
    assert said.startswith("it worked with your repository itself: ")
    assert says in said


def test_a_repository_that_an_agent_made_where_it_works_is_not_the_users(folder: Path, tmp_path: Path) -> None:
    """What a killed owner did not take over goes to the user's, not into that one."""
    agents = ConfinedAgents(as_subfolder(folder), tmp_path / "state")
    agents.enter()
    agents.does(commits("new.txt") + "unset GIT_DIR; git init -q .")
    agents.checkout = agents.owner()
    agents.enter()
    [said] = agents.checkout.leave()
    assert "is a repository in" in said
    assert git(agents.folder, "for-each-ref") == ""
    shutil.rmtree(agents.folder / ".git")
    agents.works("true")
    assert subjects(folder)[0] == "new.txt"


def test_outside_of_a_repository_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    agents = ConfinedAgents(tmp_path / "plain", tmp_path / "state")
    agents.enter()
    assert agents.checkout.leave() == ()
    assert agents.checkout.repository is None


# -- walls ------------------------------------------------------------------------------------------------------------


def configured(folder: Path, is_there: bool) -> dict[str, Path]:
    """Settings that name files in the checkout, and these."""
    names = {"core.hooksPath": "tools/hooks", "core.attributesFile": ".attributes", "include.path": "../conf/shared"}
    paths = {
        "core.hooksPath": "tools/hooks/pre-commit",
        "core.attributesFile": ".attributes",
        "include.path": "conf/shared",
    }
    if is_there:
        for path in paths.values():
            put(folder, path, "")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", "settings")
    for key, name in names.items():
        git(folder, "config", key, name)
    return {key: folder / name for key, name in paths.items()}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_git_obeys_in_the_checkout_is_not_written(folder: Path, agents: ConfinedAgents, is_there: bool) -> None:
    """Whether it exists or not, nor can the folders be moved away; what was made for that is removed at the end."""
    paths = configured(folder, is_there)
    before = git(folder, "ls-files")
    agents.enter()
    for path in paths.values():
        name = path.relative_to(folder)
        assert agents.sh(f"mkdir -p {name.parent}; echo evil > {name}").returncode, name
        assert agents.sh(f"mv {name.parts[0]} away").returncode, name
    assert agents.does("git status --porcelain") == ""
    agents.does(commits("new.txt") + "git add -A")
    agents.checkout.leave()
    agents.checkout.end()
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "ls-files").split() == sorted([*before.split(), "new.txt"])
    assert [path.exists() for path in paths.values()] == [is_there] * 3


def test_who_signs_has_agents_that_commit(folder: Path, agents: ConfinedAgents, own_home: Path) -> None:
    """The keys are hidden from them, so they do not sign."""
    put(own_home, ".gitconfig", "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n")
    assert agents.works(commits("new.txt") + "git tag -m v1 v1; git commit -q --amend --no-edit") == ()
    assert subjects(folder) == ["new.txt", "first"]
    assert git(folder, "tag") == "v1"


EVIL = """
evil=$(echo evil | git hash-object -w --stdin)
tree=$(git ls-tree HEAD | sed "s/[0-9a-f]*\tteam.at/$evil\tteam.at/" | git mktree)
commit=$(git commit-tree -p HEAD -m evil $tree)
"""
WAYS = [
    "git update-index --cacheinfo 100644,$evil,team.at",
    "git update-index --cacheinfo 100644,$evil,team.at; git commit -qm evil",
    "git update-index --cacheinfo 120000,$evil,team.at; git commit -qm evil",
    "git update-index --cacheinfo 100755,$(git rev-parse :team.at),team.at; git commit -qm evil",
    "git update-index --add --cacheinfo 100644,$evil,conf/new; git commit -qm evil",
    "git rm -q --cached team.at; git commit -qm evil",
    "git rm -q -r --cached conf; git update-index --add --cacheinfo 120000,$evil,conf; git commit -qm evil",
    "git update-index --add --cacheinfo 100644,$evil,TEAM.at; git commit -qm evil",
    "git update-index --add --cacheinfo 120000,$evil,new; git commit -qm evil",
    "git update-ref refs/heads/main $commit; git read-tree $commit",
    "git read-tree $tree; git commit -qm evil",
    "git reset -q --soft $commit",
    "git branch -q other $commit; git symbolic-ref HEAD refs/heads/other",
    "git diff HEAD $commit | git apply --cached; git commit -qm evil",
    "git update-index --cacheinfo 100644,$evil,team.at; git read-tree $(git stash create)^2",
    "git update-ref --no-deref HEAD $commit",
    "echo $commit > .git/HEAD",
]
"""Ways to have another version of a file that cannot be written in git."""


@pytest.mark.parametrize("way", WAYS)
def test_no_command_of_git_changes_what_agents_must_not_write(folder: Path, agents: ConfinedAgents, way: str) -> None:
    """The user's next `git checkout .` would put it in force. What they committed is on a branch of the run's."""
    commit(folder, "team", team__at="team\n", **{"conf/old": "old\n"})
    agents.team = (folder / "team.at", folder / "conf", folder / "new/team.at")
    before, index = git(folder, "rev-parse", "HEAD"), git(folder, "ls-files", "--stage")
    agents.enter()
    assert agents.sh("echo evil > team.at").returncode
    agents.does(EVIL + way)
    notes = agents.checkout.leave()
    assert [note for note in notes if "which its agents must not change" in note]
    assert (git(folder, "rev-parse", "HEAD"), git(folder, "ls-files", "--stage")) == (before, index)
    assert git(folder, "branch", "--show-current") == "main"
    assert git(folder, "status", "--porcelain") == ""
    assert ("coterie/x" in git(folder, "branch")) is any(word in way for word in ("commit", "HEAD"))


def test_what_the_user_changed_of_it_is_committed(folder: Path, agents: ConfinedAgents) -> None:
    """Staged or not; an attempt that another owner takes over is no exception from the rule."""
    commit(folder, "team", team__at="team\n", other__at="team\n")
    agents.team = (folder / "team.at", folder / "other.at")
    put(folder, "team.at", "staged\n")
    git(folder, "add", "team.at")
    put(folder, "team.at", "mine\n")
    put(folder, "other.at", "mine\n")
    assert agents.works("git commit -qm staged; git commit -qam all") == ()
    assert subjects(folder) == ["all", "staged", "team", "first"]
    agents.enter()
    agents.does(EVIL + "git reset -q --soft $commit")
    agents.checkout = agents.owner()
    agents.team = ()
    agents.enter()
    assert (
        agents.does(
            "git log -1 --format=%s; git ls-files --stage team.at | cut -c 8-47; git rev-parse :team.at"
        ).split()
        == ["all"] + [git(folder, "rev-parse", "HEAD:team.at")] * 2
    )
    agents.does(commits("new.txt"))
    assert "team.at, which its agents must not change" in agents.checkout.leave()[0]
    assert subjects(folder)[:2] == ["new.txt", "all"]
    assert subjects(folder, "coterie/x")[0] == "evil"


@pytest.mark.parametrize("adds", ["git add inner", "git add inner; git commit -qm linked; git rm -q --cached inner"])
def test_a_repository_that_an_agent_made_does_not_come_into_the_users_index(
    folder: Path, agents: ConfinedAgents, adds: str
) -> None:
    """Each git status of the user's would run what its settings name. Its commits are on a branch."""
    made = f"git init -q inner; cd inner; {IDENTITY}git commit -qm inner --allow-empty; cd ..; "
    [note] = agents.works(made + adds)
    assert "git would obey the settings of inner" in note
    assert ("coterie/x" in note) is ("commit" in adds)
    assert git(folder, "ls-files").split() == ["a.txt", "b.txt"]
    assert subjects(folder) == ["first"]


def test_a_repository_inside_that_no_file_names_a_submodule_is_not_written(
    folder: Path, agents: ConfinedAgents
) -> None:
    repository(folder / "inner")
    git(commit(folder, "linked"), "rev-parse", ":inner")
    agents.enter()
    assert "Read-only" in agents.sh("git -C inner config core.fsmonitor false").stderr
    assert agents.checkout.leave() == ()


def test_while_another_attempt_works_no_new_submodule_is_checked_out(folder: Path, agents: ConfinedAgents) -> None:
    """The other could make a repository there, when the user's index has it already."""
    link = f"git update-index --add --cacheinfo 160000,{git(folder, 'rev-parse', 'HEAD')},inner; git commit -qm linked"
    agents.enter()
    agents.enter()
    agents.does(link)
    assert "inner" in agents.checkout.leave()[0]
    assert subjects(folder) == ["first"]
    assert agents.checkout.leave() == ()
    assert subjects(folder) == ["linked", "first"]
    agents.enter()
    assert "Read-only" in agents.sh("git init -q inner").stderr
    agents.checkout.leave()
    agents.checkout.end()


def test_a_submodule_does_not_become_another_repository(folder: Path, agents: ConfinedAgents) -> None:
    """Git enters it in the user's next `git status`, with the configuration that it finds there."""
    with_submodule(folder)
    repository(folder.parent / "second")
    git(folder, "submodule", "--quiet", "add", str(folder.parent / "second"), "uninitialised")
    commit(folder, "second")
    git(folder, "submodule", "--quiet", "deinit", "--force", "uninitialised")
    agents.enter()
    assert agents.sh("rm sub/.git").returncode
    assert agents.sh("mv sub away").returncode
    assert agents.sh("git init -q uninitialised").returncode
    assert agents.sh("echo x > .git/modules/sub/config").returncode
    assert agents.does("git -C sub log --format=%s") == "first"
    agents.does("echo edited > sub/a.txt")
    agents.checkout.leave()
    assert git(folder, "status", "--porcelain") == " M sub"


def test_of_the_users_git_folder_only_objects_are_seen(folder: Path, agents: ConfinedAgents) -> None:
    (folder / ".git/secret").write_text("SECRET")
    agents.enter()
    objects = agents.does("cat .git/objects/info/alternates")
    assert agents.sh(f"touch {objects}/x").returncode
    assert agents.sh("cat .git/secret").returncode
    assert agents.sh(f"grep -r SECRET {folder}").stdout == ""
    assert agents.sh("rm -rf .git").returncode  # it cannot remove the place itself
    assert (folder / ".git/secret").read_text() == "SECRET"


def by_alternates(secret: Path, git_dir: Path) -> None:
    with (git_dir / "objects/info/alternates").open("a") as file:
        file.write(f"{secret}/.git/objects\n")
    (git_dir / "refs/heads/main").unlink(missing_ok=True)
    (git_dir / "refs/heads/main").symlink_to(secret / ".git/refs/heads/main")


def by_commondir(secret: Path, git_dir: Path) -> None:
    (git_dir / "commondir").write_text(f"{secret}/.git\n")


def by_index(secret: Path, git_dir: Path) -> None:
    (git_dir / "index").unlink()
    (git_dir / "index").symlink_to(secret / "out")


def by_head(secret: Path, git_dir: Path) -> None:
    (git_dir / "HEAD").write_text("ref: refs/heads/../../../x\n")


def by_removal(secret: Path, git_dir: Path) -> None:
    shutil.rmtree(git_dir / "objects")


@pytest.mark.parametrize("trick", [by_alternates, by_commondir, by_index, by_head, by_removal])
def test_nothing_comes_in_by_a_trick(folder: Path, agents: ConfinedAgents, trick: Any) -> None:
    """Neither another repository's history nor a write elsewhere; the next attempt has a whole repository again."""
    secret = repository(folder.parent / "secret", secret__txt="SECRET\n")
    commit(secret, "secret")
    agents.enter()
    agents.does(commits("new.txt"))
    trick(secret, agents.run / "checkout" / "git")
    with suppress(GitFailed):
        agents.checkout.leave()
    assert "secret.txt" not in git(folder, "rev-list", "--objects", "--all")
    assert subprocess.run(["git", "cat-file", "-e", git(secret, "rev-parse", "main")], cwd=folder).returncode
    assert not (secret / "out").exists()
    commit(folder, "mine", mine__txt="x")  # so that the private repository has to follow
    agents.works(commits("again.txt"))
    assert subjects(folder)[0] == "again.txt"
    assert not (secret / "out").exists()
    assert os.listdir(secret) == [".git", "secret.txt", "a.txt"] or {*os.listdir(secret)} == {
        ".git",
        "secret.txt",
        "a.txt",
    }


# -- whole runs -------------------------------------------------------------------------------------------------------

TURNS = """
def git(*words):
    words = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", *words]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
if turn == "iteration#1":
    pathlib.Path("one.txt").write_text("one")
    git("add", "one.txt"), git("commit", "--quiet", "--message", "one")
    pathlib.Path("one.txt").write_text("idea")
    git("stash", "--quiet")
    subprocess.run([emit, "emit", "next"], check=True, stdout=subprocess.DEVNULL)
else:
    pathlib.Path("seen.json").write_text(json.dumps([git("stash", "list") != "", git("log", "--format=%s").split()]))
    subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
def test_a_run_in_the_users_checkout(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """With mounts the stash is the agents', and what came otherwise is recorded; Landlock cannot do that."""
    if why := choice.probe(kind):
        pytest.skip(f"{kind} does not work here: {why}")
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", [one for one in choice.IMPLEMENTATIONS if kind == one.NAME])
    monkeypatch.chdir(commit(folder, "ignore", __gitignore=".autoloop\n"))
    outcome = run(project(tmp_path / "loop", TURNS, 'backend.sandbox = "auto"\n'))

    assert outcome.status == "completed", outcome.notices
    assert (folder / "seen.json").read_text() == '[true, ["one", "ignore", "first"]]'
    assert subjects(folder, "main") == ["one", "ignore", "first"]
    attested = records(outcome.run, r.TreeAttested)
    if kind == "landlock":
        assert (attested, git(folder, "stash", "list") != "") == ([], True)
        return
    first = attested[0]
    assert git(folder, "stash", "list") == ""
    assert (first.before.branch, first.after.head) == ("main", git(folder, "rev-parse", "main"))
    assert [len(one.notes) for one in attested] == [1, 0]
    assert "a commit is kept" in first.notes[0]
    assert first.notes[0] in sentence(first)


HOOKS = """
pathlib.Path("hooks").mkdir(exist_ok=True)
try:
    pathlib.Path("hooks/pre-commit").write_text("evil")
except OSError:
    pathlib.Path("refused").touch()
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


def test_a_run_writes_no_hook_of_the_users(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in a folder that did not exist, and that is gone when the run is over."""
    monkeypatch.chdir(commit(folder, "ignore", __gitignore=".autoloop\n"))
    git(folder, "config", "core.hooksPath", "hooks")
    outcome = run(project(tmp_path / "loop", HOOKS, 'backend.sandbox = "auto"\n'))
    assert outcome.status == "completed", outcome.notices
    assert (folder / "refused").exists()
    assert not (folder / "hooks").exists()


def test_a_run_outside_of_a_repository_is_not_attested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing that an attempt could leave, also if it makes a repository."""
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    script = 'subprocess.run(["git", "init", "-q"])\nsubprocess.run([emit, "emit", "done"], check=True)\n'
    outcome = run(project(tmp_path / "loop", script, 'backend.sandbox = "auto"\n'))
    assert outcome.status == "completed", outcome.notices
    assert records(outcome.run, r.TreeAttested) == []


WAITS = TURNS.replace('git("stash", "--quiet")', 'pathlib.Path("ready").touch(); import time; time.sleep(600)')


def test_a_run_that_is_interrupted_keeps_what_was_committed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's branch has it at once, not only when the run goes on."""
    monkeypatch.chdir(commit(folder, "ignore", __gitignore=".autoloop\nready\n"))
    plan, _ = plan_for_a_run(str(project(tmp_path / "loop", WAITS, 'backend.sandbox = "auto"\n')), LoopGiven())

    async def interrupted() -> Outcome:
        running = asyncio.create_task(launch.start(plan, {"prompt": "go"}, state_dir=STATE))
        await soon((folder / "ready").exists)
        running.cancel()
        return await running

    outcome = asyncio.run(interrupted())

    assert (outcome.status, outcome.reason) == ("stopped", "interrupted")
    assert subjects(folder, "main") == ["one", "ignore", "first"]
    assert git(folder, "status", "--porcelain") == " M one.txt"
