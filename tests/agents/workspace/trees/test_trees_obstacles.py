"""A merge brings nothing over that nobody agreed to, and overwrites nothing of the user's."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from private_trees import agent, committed
from repositories import commit, git, put, repository, untouched

from coterie.agents.workspace.trees import merge, private, worktree
from coterie.agents.workspace.trees.disposal import remove_at_end, remove_files
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.leftovers import MOST
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.report import unsigned
from coterie.agents.workspace.trees.worktree import WorkTree, free_branch
from coterie.errors import GitFailed


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", **{"b__txt": "b\n", "__gitignore": "data/\n.env\n"})


def opened(folder: Path, state: Path, **other: object) -> WorkTree:
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
    return worktree.make(origin, state, replace(tree, **other))


def is_blocked(folder: Path, state: Path, tree: WorkTree, *says: str) -> bool:
    """Whether its merge is blocked with those words, and nothing of the user's has changed."""
    before = untouched(folder)
    done = merge_tree(state, tree)
    same = untouched(folder)[1:] == before[1:]
    return done.status == "blocked" and same and all(word in done.reason for word in says)


@pytest.mark.parametrize(
    "name",
    [
        "autoloops.toml",
        "deep/topology.toml",
        "team.at",
        "x/my.pattern.yaml",
        ".autoloop/overrides/p.toml",
        "roles/a.md",
        "Autoloops.TOML",
        "Team.At",
        "Roles/a.md",
    ],
)
def test_a_confined_run_does_not_change_what_shapes_runs(folder: Path, state: Path, name: str) -> None:
    """Wherever it lies, and however it came to be in the branch; the operator may take it."""
    tree = opened(folder, state, guards=("roles",))
    put(Path(tree.path), name, "weaker\n")
    commit(Path(tree.path), "settings")

    assert is_blocked(folder, state, tree, name, "coterie worktree merge x --take-settings")
    assert merge_tree(state, tree, take_settings=True).status == "merged"
    assert (folder / name).read_text() == "weaker\n"


@pytest.mark.parametrize("name", ["conf", ".coterie", "sub/.autoloop", ".autoloop/overrides"])
def test_a_confined_run_leads_what_shapes_runs_nowhere(folder: Path, state: Path, name: str) -> None:
    """A link, where nothing is yet, to files with other names."""
    tree = opened(folder, state, guards=("conf/roles",))
    put(Path(tree.path), "other/roles/a.md", "weaker\n")
    (Path(tree.path) / name).parent.mkdir(exist_ok=True)
    (Path(tree.path) / name).symlink_to(folder / "other")
    assert is_blocked(folder, state, tree, name, "--take-settings")


def test_an_unconfined_run_may_change_them(folder: Path, state: Path) -> None:
    tree = opened(folder, state)
    put(Path(tree.path), "autoloops.toml", "x\n")
    assert merge_tree(state, tree).status == "merged"


def test_ignored_files_of_the_users_are_not_replaced(folder: Path, state: Path) -> None:
    """Neither by a file, nor by a link or a file in the place of a folder."""
    put(folder, "data/rows.csv", "mine\n")
    put(folder, ".env", "KEY=1\n")
    for name, make in ((".env", lambda path: path.write_text("x")), ("data", lambda path: path.symlink_to("/tmp"))):
        tree = opened(folder, state)
        make(Path(tree.path) / name)
        git(Path(tree.path), "add", "--force", name)
        git(Path(tree.path), "commit", "--quiet", "--message", name)
        assert is_blocked(folder, state, tree, name)
        remove_files(state, replace(tree, status="failed"))
        (worktree.folder(state, "x") / worktree.META).unlink()
    assert (folder / "data" / "rows.csv").read_text() == "mine\n"
    assert (folder / ".env").read_text() == "KEY=1\n"


def test_in_a_sparse_checkout_untracked_files_are_not_replaced(folder: Path, state: Path) -> None:
    """Outside of its patterns git itself overwrites them."""
    commit(folder, "more", **{"in/x": "x\n"}, **{"out/y": "y\n"})
    git(folder, "sparse-checkout", "set", "in")
    tree = opened(folder, state)
    git(Path(tree.path), "sparse-checkout", "disable")
    put(folder, "out/new.txt", "mine\n")
    commit(Path(tree.path), "new", **{"out/new__txt": "theirs\n"})

    assert is_blocked(folder, state, tree, "out/new.txt")
    (folder / "out" / "new.txt").unlink()
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", "main:out/new.txt") == "theirs"


def test_in_a_sparse_checkout_all_that_agents_wrote_is_merged(folder: Path, state: Path) -> None:
    """Outside of the patterns, too: new files, changed ones, and those that were committed before they changed."""
    commit(folder, "more", **{"in/x": "x\n", "out/y": "y\n", "out/gone": "gone\n"})
    git(folder, "sparse-checkout", "set", "in")
    tree = opened(folder, state)
    private.enter(tree)
    put(Path(tree.path), "out/early", "1\n")
    agent(tree, "add", "--sparse", "out/early")
    agent(tree, "commit", "--quiet", "--message", "early")
    private.look(tree)
    for name in ("out/early", "out/y", "out/new"):
        put(Path(tree.path), name, "2\n")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", *(f"main:out/{name}" for name in ("early", "y", "new", "gone"))) == "2\n2\n2\ngone"


@pytest.mark.parametrize("checked_out", ["main", "above"])
def test_a_branch_is_not_moved_while_the_user_rebases_it(folder: Path, state: Path, checked_out: str) -> None:
    """It is checked out nowhere then, and the rebase gives it another commit when it is aborted, or ends."""
    commit(folder, "second", b__txt="second\n")
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    git(folder, "branch", "above")
    git(folder, "checkout", "--quiet", checked_out)
    interrupted = ("-c", "sequence.editor=sed -i 1ibreak", "rebase", "--quiet", "--interactive", "--update-refs")
    git(folder, *interrupted, "HEAD^")
    assert is_blocked(folder, state, tree, "a rebase of main is under way", str(folder / ".git"))
    git(folder, "rebase", "--abort")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", "main:new.txt") == "new"


@pytest.mark.parametrize("strategy", merge.STRATEGIES)
@pytest.mark.parametrize("how", ["reset", "amended"])
def test_what_the_user_took_back_meanwhile_stays_away(folder: Path, state: Path, strategy: str, how: str) -> None:
    """A password that the base of the run has is not brought back with the work."""
    commit(folder, "oops", password__txt="hunter2\n")
    tree = opened(folder, state, strategy=strategy)
    commit(Path(tree.path), "by the agent", new__txt="new\n")
    put(Path(tree.path), "more.txt", "more\n")
    if how == "reset":
        git(folder, "reset", "--quiet", "--hard", "HEAD^")
    else:
        git(folder, "rm", "--quiet", "password.txt")
        git(folder, "commit", "--quiet", "--amend", "--allow-empty", "--message", "better")
    done = merge_tree(state, tree)

    assert done.status == "merged", done.reason
    assert {"new.txt", "more.txt"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "password.txt").exists()
    assert git(folder, "log", "--format=%s", "main", "--", "password.txt") == ""
    assert "oops" not in git(folder, "log", "--format=%s", "main")


def test_a_branch_without_its_base_is_not_merged(folder: Path, state: Path) -> None:
    """An agent amended the commit that it began with: nobody can say what of it is its work."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    git(Path(tree.path), "add", "--all")
    git(Path(tree.path), "commit", "--quiet", "--amend", "--no-edit")

    assert is_blocked(folder, state, tree, tree.base[:12], "reset --soft")
    git(Path(tree.path), "reset", "--quiet", "--soft", tree.base)  # as it says
    git(Path(tree.path), "commit", "--quiet", "--message", "mine")
    assert merge_tree(state, tree).status == "merged"
    assert (folder / "new.txt").exists()


def test_only_the_branch_of_the_run_is_merged(folder: Path, state: Path) -> None:
    """Not what is checked out in the tree at the end: an old commit, or a branch of the user's."""
    git(folder, "branch", "wip")
    tree = opened(folder, state)
    commit(Path(tree.path), "work", work__txt="work\n")
    git(Path(tree.path), "checkout", "--quiet", "wip")
    commit(Path(tree.path), "not yet", wip__txt="wip\n")

    with pytest.raises(
        GitFailed, match=r"only the branch autoloop/x is merged.* are on wip: git .* checkout autoloop/x"
    ):
        merge_tree(state, tree)
    git(Path(tree.path), "checkout", "--quiet", "autoloop/x")
    assert merge_tree(state, tree).status == "merged"
    assert (folder / "work.txt").exists()
    assert not (folder / "wip.txt").exists()


def test_a_rebase_keeps_what_a_merge_of_the_agents_decided(folder: Path, state: Path) -> None:
    """The content of a merge commit that is in none of its parents is work, too."""
    tree = opened(folder, state, strategy="rebase")
    where = Path(tree.path)
    git(where, "checkout", "--quiet", "-b", "side")
    commit(where, "side", side__txt="side\n", b__txt="by side\n")
    git(where, "checkout", "--quiet", "autoloop/x")
    commit(where, "here", b__txt="here\n")
    git(where, "merge", "--quiet", "--no-ff", "--no-commit", "-X", "ours", "side")
    commit(where, "merged", only_here__txt="decided\n", b__txt="both\n")
    commit(folder, "mine", mine__txt="mine\n")

    assert merge_tree(state, tree).status == "merged"
    assert {"only_here.txt", "side.txt", "mine.txt"} <= {path.name for path in folder.iterdir()}
    assert (folder / "b.txt").read_text() == "both\n"


def test_a_repository_inside_the_tree_is_not_merged_as_a_link_to_nothing(folder: Path, state: Path) -> None:
    tree = opened(folder, state)
    repository(Path(tree.path) / "scaffold")
    assert is_blocked(folder, state, tree, "scaffold", ".gitmodules does not name")


def test_a_submodule_at_a_commit_that_the_user_lacks(tmp_path: Path, folder: Path, state: Path) -> None:
    """The command that the message names brings it over."""
    part = repository(tmp_path / "part")
    git(folder, "submodule", "--quiet", "add", str(part), "sub")
    commit(folder, "a submodule")
    tree = opened(folder, state)
    git(Path(tree.path), "submodule", "--quiet", "update", "--init")
    commit(Path(tree.path) / "sub", "inside", new__txt="new\n")

    assert is_blocked(folder, state, tree, "the submodule sub is at", f"git -C {folder}/sub fetch {tree.path}/sub")
    words = worktree.read(state, "x").reason.rpartition(": git ")[2].split()  # type: ignore[union-attr]
    git(folder, *words)
    assert merge_tree(state, tree).status == "merged"


def test_conflicts_that_agents_left_are_not_merged(folder: Path, state: Path) -> None:
    """The marks of git do not get into the user's branch; a file without them is solved."""
    git(folder, "branch", "other")
    tree = opened(folder, state)
    commit(folder, "theirs", b__txt="theirs\n", é__txt="theirs\n")
    private.enter(tree)
    put(Path(tree.path), "b.txt", "x <<<<<<< y\n")
    committed(tree, "work", é__txt="agents\n")
    agent(tree, "fetch", "--quiet", str(folder), "main")
    with pytest.raises(AssertionError):
        agent(tree, "merge", "FETCH_HEAD")
    git(folder, "reset", "--quiet", "--hard", "other")
    assert is_blocked(folder, state, tree, "its agents left conflicts in b.txt, é.txt", tree.path)
    for name in ("b.txt", "é.txt"):
        put(Path(tree.path), name, "x <<<<<<< solved\n")
    assert merge_tree(state, tree).status == "merged"
    assert git(folder, "show", "main:b.txt") == "x <<<<<<< solved"


def test_a_branch_that_the_user_has_checked_out_is_neither_deleted_nor_moved(folder: Path, state: Path) -> None:
    """As can be once the tree of a failed run is gone: the user's files would be other ones than those of HEAD."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    tree = remove_files(state, worktree.write(state, replace(tree, status="failed")))
    git(folder, "checkout", "--quiet", tree.branch)
    with pytest.raises(GitFailed, match=f"checked out in {folder}"):
        worktree.make(require(folder, "the test"), state, tree)
    git(folder, "checkout", "--quiet", "main")
    tree = worktree.make(require(folder, "the test"), state, tree)
    git(folder, "worktree", "remove", tree.path)
    git(folder, "checkout", "--quiet", tree.branch)
    done = merge_tree(state, tree)
    assert done.status == "merged"
    remove_files(state, done)
    assert git(folder, "status", "--porcelain", "--branch") == f"## {tree.branch}"


def test_a_conflict_in_a_file_whose_name_is_not_utf_8(folder: Path, state: Path) -> None:
    """It is a conflict: the name is escaped for people, and exact in git."""
    name = os.fsdecode(b"caf\xe9.txt")
    put(folder, name, "base\n")
    commit(folder, "named")
    tree = opened(folder, state)
    put(Path(tree.path), name, "theirs\n")
    put(folder, name, "mine\n")
    commit(folder, "mine")
    done = merge_tree(state, tree)

    assert (done.status, done.files) == ("conflict", (r"caf\xe9.txt",))
    assert worktree.read(state, "x") == done
    put(folder, name, "base\n")
    commit(folder, "back")
    assert merge_tree(state, tree).status == "merged"
    assert (folder / name).read_text() == "theirs\n"


def test_a_branch_in_the_way_of_the_prefix_is_found_first(folder: Path) -> None:
    git(folder, "branch", "autoloop")
    with pytest.raises(GitFailed, match=r"the branch 'autoloop' is in the way.*worktree\.branch_prefix"):
        free_branch(require(folder, "the test"), "autoloop/x")
    git(folder, "branch", "mine/x/y")
    assert free_branch(require(folder, "the test"), "mine/x") == "mine/x-2"


def test_commits_of_a_squashed_branch_stay_in_a_ref_of_the_run(folder: Path, state: Path) -> None:
    tree = opened(folder, state)
    commit(Path(tree.path), "by the agent", new__txt="new\n")
    tip = git(Path(tree.path), "rev-parse", "HEAD")
    remove_files(state, merge_tree(state, tree))

    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
    assert tip in git(folder, "for-each-ref", "--format=%(objectname)", "refs/coterie/x/work/")


def test_commits_that_should_be_signed_and_are_not_are_mentioned(folder: Path, state: Path) -> None:
    """Not for a user who signs nothing, nor before there is a merge."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    done = merge_tree(state, tree)
    assert list(unsigned(done)) == []
    git(folder, "config", "commit.gpgSign", "true")
    assert list(unsigned(tree)) == []
    assert ["not signed" in line for line in unsigned(done)] == [True]


def test_the_identity_of_the_shell_signs_the_work(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the user's own commits, `GIT_AUTHOR_*` and `GIT_COMMITTER_*` go before the configuration."""
    for who, name in (("AUTHOR", "Ada"), ("COMMITTER", "Grace")):
        monkeypatch.setenv(f"GIT_{who}_NAME", name)
        monkeypatch.setenv(f"GIT_{who}_EMAIL", f"{name.lower()}@example.org")
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    merge_tree(state, tree)

    assert git(folder, "log", "-1", "--format=%an <%ae> %cn <%ce>") == (
        "Ada <ada@example.org> Grace <grace@example.org>"
    )


def scaffolded(tree: Path) -> None:
    repository(tree / "deep" / "app")


def in_an_uninitialised_submodule(tree: Path) -> None:
    put(tree, "sub/notes.txt", "mine\n")


def much_that_is_ignored(tree: Path) -> None:
    (tree / "data").mkdir()
    with (tree / "data" / "large").open("wb") as file:
        file.truncate(MOST + 1)


@pytest.mark.parametrize(
    ("leave", "says"),
    [
        (scaffolded, "repositories that are nowhere else: deep/app"),
        (in_an_uninitialised_submodule, "repositories that are nowhere else: sub"),
        (much_that_is_ignored, "64 MB of ignored files: data/"),
    ],
)
def test_a_tree_that_holds_what_is_nowhere_else_stays(
    tmp_path: Path, folder: Path, state: Path, leave: Any, says: str
) -> None:
    """Until somebody removes it by name."""
    git(folder, "submodule", "--quiet", "add", str(repository(tmp_path / "part")), "sub")
    commit(folder, "a submodule")
    tree = opened(folder, state)
    leave(Path(tree.path))
    cleared = remove_at_end(state, worktree.write(state, replace(tree, status="merged")))

    assert says in cleared.problem
    assert "coterie worktree clean x" in cleared.problem
    assert Path(tree.path).is_dir()
    assert remove_files(state, replace(tree, status="merged")).removed
    assert not Path(tree.path).exists()


def test_ignored_files_are_named_when_they_go(folder: Path, state: Path) -> None:
    tree = opened(folder, state)
    put(Path(tree.path), ".env", "KEY=1\n")
    put(Path(tree.path), "data/rows.csv", "1234567890\n")
    cleared = remove_at_end(state, worktree.write(state, replace(tree, status="merged")))

    assert (cleared.problem, cleared.ignored) == ("", "data/ (11 bytes), .env (6 bytes)")
