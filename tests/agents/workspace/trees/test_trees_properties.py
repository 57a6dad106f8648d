"""Whatever agents and the user do at the same time, everything that the user had and the agents committed is there."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from repositories import git, holds, put, repository

from coterie.agents.workspace.trees import branches, private, worktree
from coterie.agents.workspace.trees.disposal import remove_at_end
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import STRATEGIES, merge_tree
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import GitFailed
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan

Act = Callable[[WorkTree, int], None]


def attempt(tree: WorkTree, *words: str) -> str:
    """What an agent's git prints, whether it succeeds or not."""
    settings = ("-c", "user.name=A", "-c", "user.email=a@localhost")
    place = (f"--git-dir={private.folder_of(tree)}", f"--work-tree={tree.path}")
    return subprocess.run(["git", *settings, *place, *words], cwd=tree.path, capture_output=True, text=True).stdout


def commits(tree: WorkTree, n: int) -> None:
    put(Path(tree.path), f"agent-{n}.txt", f"{n}\n")
    attempt(tree, "add", "--all")
    attempt(tree, "commit", "--quiet", "--message", f"agent {n}")


def writes(tree: WorkTree, n: int) -> None:
    put(Path(tree.path), f"agent-{n % 3}.txt", f"{n} uncommitted\n")


def shapes(tree: WorkTree, n: int) -> None:
    put(Path(tree.path), f"part-{n}/autoloops.toml", f"# {n}\n")


def links(tree: WorkTree, n: int) -> None:
    path = Path(tree.path) / ("data" if n % 2 else f"link-{n}")
    if not path.exists():
        path.symlink_to("/tmp")


def sets_flags(tree: WorkTree, n: int) -> None:
    attempt(tree, "update-index", "--skip-worktree", "a.txt")
    put(Path(tree.path), "a.txt", f"flagged {n}\n")


def nests(tree: WorkTree, n: int) -> None:
    if not (Path(tree.path) / f"nested-{n}").exists():
        repository(Path(tree.path) / f"nested-{n}")


def calls(*words: str) -> Act:
    def act(tree: WorkTree, n: int) -> None:
        attempt(tree, *(word.format(n=n, branch=tree.branch) for word in words))

    return act


AGENT: list[Act] = [
    *(commits, commits, writes, shapes, links, sets_flags, nests),
    calls("checkout", "--quiet", "-b", "side-{n}"),
    calls("checkout", "--quiet", "{branch}"),
    calls("checkout", "--quiet", "--detach"),
    calls("stash", "--include-untracked"),
    calls("stash", "pop"),
    calls("reset", "--hard", "HEAD^"),
    calls("clean", "-fdq"),
    calls("gc", "--quiet", "--prune=now"),
    calls("update-ref", "refs/heads/main", "HEAD"),
    calls("branch", "-D", "feature"),
    calls("commit", "--quiet", "--allow-empty", "--amend", "--message", "amended {n}"),
    calls("merge", "--quiet", "--no-edit", "feature"),
]


def user_commits(folder: Path, n: int) -> None:
    put(folder, f"user-{n}.txt", f"{n}\n")
    git(folder, "add", f"user-{n}.txt")
    git(folder, "commit", "--quiet", "--message", f"user {n}", f"user-{n}.txt")


def user_amends(folder: Path, n: int) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "--amend", "--message", f"user amended {n}")


def user_collects(folder: Path, n: int) -> None:
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "--quiet", "--prune=now")


def user_edits(folder: Path, n: int) -> None:
    put(folder, "b.txt", f"edited {n}\n")


USER = [user_commits, user_amends, user_collects, user_edits]


Turn = tuple[int, list[Act], list[Callable[[Path, int], None]]]
TURNS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(st.sampled_from(AGENT), max_size=7),
        st.lists(st.sampled_from(USER), max_size=2),
    ),
    min_size=1,
    max_size=4,
)
"""Turns: which of two trees the agent works in, what it does, and what the user does meanwhile."""


class Stage:
    """A repository of a user who has a branch, a stash, and ignored and untracked files."""

    def __init__(self, top: Path) -> None:
        self.state = top / "state"
        self.folder = repository(top / "r", **{"b__txt": "b\n", "__gitignore": "data/\n"})
        git(self.folder, "branch", "feature")
        put(self.folder, "idea.txt", "private\n")
        git(self.folder, "stash", "--quiet", "--include-untracked")
        put(self.folder, "data/rows.csv", "mine\n")
        put(self.folder, "mine.txt", "untracked\n")
        self._made, self._n = set[str](), 0

    def tree(self, strategy: str) -> WorkTree:
        """The work tree of the run `x`."""
        origin = require(self.folder, "the test")
        tree = worktree.new_tree(origin, self.state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
        return worktree.make(origin, self.state, replace(tree, strategy=strategy, guards=()))

    def play(self, trees: list[WorkTree], turns: list[Turn]) -> None:
        """Have agents work in *trees*, and the user in the checkout."""
        for which, agent, user in turns:
            tree = trees[which % len(trees)]
            private.enter(tree)
            for act in agent:
                self._n += 1
                act(tree, self._n)
                self._made |= {*attempt(tree, "rev-list", "--max-count=1", "HEAD").split()}
            self._made |= {*attempt(tree, "stash", "list", "--format=%H").split()}  # one that was dropped is gone
            for done in user:
                self._n += 1
                done(self.folder, self._n)
            private.fetch_back(tree)

    def check(self, merge: Callable[[], list[tuple[str, bool]]]) -> None:
        """Check that *merge* loses nothing: it gives the branches of trees, and whether all of each is merged."""
        folder, subjects = self.folder, git(self.folder, "log", "--format=%s", "main").splitlines()
        before, refs = holds(folder), set(git(folder, "rev-list", "--branches").split())
        merged = merge()

        kept = {name: was for name, was in holds(folder).items() if name in before}
        assert kept == {name: kept.get(name, was) if name == "a.txt" else was for name, was in before.items()}
        assert git(folder, "stash", "list").count("\n") == 0
        assert git(folder, "show", "stash^3:idea.txt") == "private"
        assert set(subjects) <= set(git(folder, "log", "--format=%s", "main").splitlines())
        assert git(folder, "rev-parse", "feature")
        assert self._made | refs <= set(git(folder, "rev-list", "--all").split())
        names = git(folder, "ls-tree", "-r", "--name-only", "main").splitlines()
        assert not [name for name in names if name.endswith("autoloops.toml")]
        for tip, is_merged in merged:
            for line in git(folder, "ls-tree", "-r", "--name-only", tip).splitlines() if is_merged else ():
                assert line in names

    def tip(self, tree: WorkTree) -> str:
        """The commit of the branch of *tree*."""
        return git(self.folder, "rev-parse", tree.branch)


@pytest.fixture
def stage() -> Iterator[Callable[[], Stage]]:
    """Makes stages, which are removed at the end of the test."""
    tops = list[Path]()

    def made() -> Stage:
        if tops:
            shutil.rmtree(tops.pop())
        tops.append(Path(tempfile.mkdtemp(prefix="coterie-")))
        return Stage(tops[-1])

    yield made
    for top in tops:
        shutil.rmtree(top)


PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.mark.long
@PROPERTY
@given(strategy=st.sampled_from(STRATEGIES), turns=TURNS)
def test_nothing_of_the_users_and_no_commit_of_an_agents_is_lost(
    stage: Callable[[], Stage], strategy: str, turns: list[Turn]
) -> None:
    """Branches, stash, ignored and uncommitted files of the user stay; commits are merged, or in a ref."""
    one = stage()
    tree = one.tree(strategy)
    one.play([tree], turns)
    one.check(lambda: [(one.tip(tree), ended(one.state, tree))])


@pytest.mark.long
@PROPERTY
@given(strategy=st.sampled_from(STRATEGIES), turns=TURNS, completed=st.sets(st.integers(1, 2)), first=st.booleans())
def test_nothing_is_lost_by_a_wave(
    stage: Callable[[], Stage], strategy: str, turns: list[Turn], completed: set[int], first: bool
) -> None:
    """What its branches left is merged into the files of the loop, or stays and is named; then the loop's is merged."""
    one = stage()
    tree = one.tree(strategy)
    one.play([tree], [(0, [writes, commits, writes], [])] if first else [])
    runs = {f"x/wave-1.{k}#1.1": "completed" if k in completed else "failed" for k in (1, 2)}
    made = [branches.make_branch_tree(one.state, tree, run) for run in runs]
    one.play(made, turns)

    def merged() -> list[tuple[str, bool]]:
        tips = [one.tip(branch) for branch in made]
        joined = None
        with left_its_branch():
            joined = branches.merge_branches(one.state, "x", 1, runs.__getitem__)
        found = [worktree.read(one.state, run) for run in runs]
        if joined is not None:
            assert {*joined.turns, *(kept.turn for kept in joined.kept)} == {"wave-1.1#1", "wave-1.2#1"}
            assert all(kept.reason and git(one.folder, "rev-parse", kept.branch) for kept in joined.kept)
        is_over = ended(one.state, tree)
        joins = [branch is not None and branch.status == "merged" for branch in found]
        return [(tip, is_over and joins[k] and k + 1 in completed) for k, tip in enumerate(tips)]

    one.check(merged)


@pytest.mark.long
@PROPERTY
@given(turns=TURNS, completed=st.sets(st.integers(0, 1)))
def test_nothing_is_lost_by_turns_with_trees_of_their_own(
    stage: Callable[[], Stage], turns: list[Turn], completed: set[int]
) -> None:
    """Each is merged into the checkout as its last gate; the work of one that failed stays on a branch and is named."""
    one, names = stage(), ("x/one#1", "x/two#1")
    plan, place = Plan(name="x", coordination=None, agents={}), RunPlace(branch_prefix="coterie")
    made = [branches.make_turn_tree(one.state, one.folder, plan, name, place) for name in names]
    made = [worktree.write(one.state, replace(tree, guards=())) for tree in made]
    one.play(made, turns)

    def merged() -> list[tuple[str, bool]]:
        tips, done = [one.tip(tree) for tree in made], [False, False]
        for k in completed:
            with left_its_branch():
                tree = branches.merge_turn(one.state, made[k])
                done[k] = tree.status == "merged"
                assert done[k] or branches.why_unmerged(one.state, tree)
        with left_its_branch():
            kept = branches.end_turns(one.state, "x")
            for one_kept in kept.kept if kept is not None else ():
                assert one_kept.reason
                assert git(one.folder, "rev-parse", one_kept.branch)
        return list(zip(tips, done, strict=True))

    one.check(merged)


@contextmanager
def left_its_branch() -> Iterator[None]:
    """Files of another branch are not merged, which is said."""
    try:
        yield
    except GitFailed as error:
        if "only the branch " not in str(error):
            raise


def ended(state: Path, tree: WorkTree) -> bool:
    """End the run; whether its work is merged."""
    with left_its_branch():
        done = merge_tree(state, tree)
        assert done.status == "merged" or done.reason
        if done.status == "merged":
            remove_at_end(state, done)
        return done.status == "merged"
    return False
