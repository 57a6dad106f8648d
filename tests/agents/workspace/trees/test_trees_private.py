"""The agents of a work tree have a repository for themselves: nothing of it is lost, and nothing else comes with it."""

import asyncio
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loop_projects import project, run
from msgspec.structs import replace
from private_trees import agent, committed, kept, opened
from repositories import commit, git, put, repository, untouched

from coterie.agents.backends.sandbox import choice
from coterie.agents.backends.sandbox.choice import working
from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.disposal import remove_files
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import commit_all, merge_tree
from coterie.agents.workspace.trees.report import lost_commits
from coterie.agents.workspace.trees.workspace import GitWorkspace
from coterie.errors import GitFailed
from coterie.team.planning.plan import AgentPlan

confined = pytest.mark.skipif(
    (one := working()) is None or not one.PROTECTS, reason="needs a sandbox that hides what it does not show"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", b__txt="b\n")


def test_an_agent_sees_the_users_branches_and_changes_none(folder: Path, state: Path) -> None:
    """Its stash, branches, configuration and hooks are its own."""
    put(folder, "idea.txt", "private\n")
    git(folder, "stash", "--quiet", "--include-untracked")
    git(folder, "branch", "feature")
    git(folder, "tag", "--annotate", "--message", "v", "v1")
    tree = opened(folder, state)
    before = untouched(folder)

    assert agent(tree, "status", "--porcelain") == ""
    assert agent(tree, "branch", "--format=%(refname:short)").split() == ["autoloop/x", "feature", "main"]
    assert agent(tree, "rev-parse", "v1^{commit}") == git(folder, "rev-parse", "main")
    assert agent(tree, "stash", "list") == ""
    committed(tree, "work", new__txt="new\n")
    put(Path(tree.path), "a.txt", "changed\n")
    for words in ("stash", "branch -f main", "branch -D feature", "tag -d v1", "config core.fsmonitor x", "gc --quiet"):
        agent(tree, *words.split())
    private.fetch_back(tree)

    after = untouched(folder)
    assert [line for line in after[0].splitlines() if "autoloop" not in line] == [
        line for line in before[0].splitlines() if "autoloop" not in line
    ]
    assert after[1:] == before[1:]


def test_every_commit_of_an_agent_comes_back(folder: Path, state: Path) -> None:
    """The run's branch as a branch; what was stashed, left on another, reset, amended, noted, in refs of the run."""
    tree = opened(folder, state)
    gone = committed(tree, "reset away", gone__txt="x")
    agent(tree, "reset", "--quiet", "--hard", "HEAD^")
    first = committed(tree, "amended", one__txt="1")
    agent(tree, "commit", "--quiet", "--amend", "--message", "better")
    agent(tree, "notes", "add", "--message", "note")
    agent(tree, "checkout", "--quiet", "-b", "side")
    side = committed(tree, "side", side__txt="x")
    agent(tree, "checkout", "--quiet", "autoloop/x")
    put(Path(tree.path), "one.txt", "stashed")
    agent(tree, "stash", "--quiet")
    tip = agent(tree, "rev-parse", "HEAD")
    wanted = {gone, first, side, agent(tree, "rev-parse", "stash"), agent(tree, "rev-parse", "refs/notes/commits")}
    for _ in range(2):  # again changes nothing
        assert private.fetch_back(tree) == private.PrivateState(head=tip, branch="autoloop/x", tip=tip)
        assert git(folder, "rev-parse", "autoloop/x") == tip
        assert kept(folder, "refs/coterie/x/lost/") == wanted
    assert git(Path(tree.path), "status", "--porcelain") == ""  # the owner's index has followed
    [line] = lost_commits(require(folder, "the test"), "x")
    assert "5 commits" in line
    assert len(git(folder, *line.partition(f"git -C {folder} ")[2].split(), "--format=%h").split()) == 5


def test_a_branch_that_an_agent_rewrites_loses_nothing(folder: Path, state: Path) -> None:
    """What was fetched before, and is in the branch no longer, is kept too."""
    tree = opened(folder, state)
    first = committed(tree, "first try", one__txt="1")
    private.fetch_back(tree)
    agent(tree, "reset", "--quiet", "--hard", tree.base)
    second = committed(tree, "second try", two__txt="2")
    private.fetch_back(tree)

    assert git(folder, "rev-parse", "autoloop/x") == second
    assert first in kept(folder, "refs/coterie/x/lost/")


def test_what_the_owner_commits_is_there_for_the_next_attempt(folder: Path, state: Path) -> None:
    """With an index that knows it: nothing seems to be changed or staged."""
    tree = opened(folder, state)
    put(Path(tree.path), "new.txt", "new\n")
    tip = commit_all(tree, state, "by the owner\n")
    entered = private.enter(tree)

    assert (entered.tip, entered.head, entered.branch) == (tip, tip, "autoloop/x")
    assert agent(tree, "rev-parse", "HEAD") == tip
    assert agent(tree, "status", "--porcelain") == ""


def test_flags_of_an_agents_index_hide_nothing(folder: Path, state: Path) -> None:
    """The owner adds by an index that no agent writes."""
    tree = opened(folder, state)
    agent(tree, "update-index", "--skip-worktree", "a.txt")
    agent(tree, "update-index", "--assume-unchanged", "b.txt")
    put(Path(tree.path), "a.txt", "edited\n")
    put(Path(tree.path), "b.txt", "edited\n")

    assert merge_tree(state, tree).status == "merged"
    assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["edited\n"] * 2


def test_what_an_agent_configures_runs_neither_for_people_nor_for_the_owner(folder: Path, state: Path) -> None:
    """In the tree, a person's `git status` and `git checkout` use the owner's repository."""
    tree, ran = opened(folder, state), state / "ran"
    spy = state / "spy"
    put(state, "spy", f"#!/bin/sh\necho $0 >> {ran}\n")
    spy.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.external", "uploadpack.packObjectsHook"):
        agent(tree, "config", key, str(spy))
    hooks = private.folder_of(tree) / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(spy, hooks / hook)
    put(Path(tree.path), ".gitattributes", "* filter=x\n")
    put(Path(tree.path), "new.txt", "new\n")
    for words in ("status", "diff", "log", "checkout -- a.txt"):
        git(Path(tree.path), *words.split())
    assert merge_tree(state, tree).status == "merged"
    assert not ran.exists()


def test_without_a_sandbox_the_owner_starts_no_program_of_the_agents_repository(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its monitor nor its hooks, whatever the owner reads or writes in it."""
    monkeypatch.setattr("coterie.agents.backends.sandbox.choice.working", lambda: None)
    tree, ran, spy = opened(folder, state), state / "ran", state / "spy"
    put(state, "spy", f"#!/bin/sh\necho $0 >> {ran}\n")
    spy.chmod(0o755)
    hooks = private.folder_of(tree) / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction"):
        shutil.copy(spy, hooks / hook)
    agent(tree, "config", "core.fsmonitor", str(spy))
    tip = git(folder, "commit-tree", "-p", tree.branch, "-m", "owner", f"{tree.branch}^{{tree}}")
    git(folder, "update-ref", f"refs/heads/{tree.branch}", tip.strip())
    ran.unlink(missing_ok=True)

    assert private.enter(tree).tip == tip.strip()
    assert private.conflicts(tree) == []
    assert private.fetch_back(tree).tip == tip.strip()
    assert not ran.exists()


# -- tricks -----------------------------------------------------------------------------------------------------------


def other_history(folder: Path) -> Path:
    """A repository that an agent must not read."""
    return repository(folder.parent / "secret", secret__txt="SECRET\n")


def by_alternates(secret: Path, git_dir: Path) -> None:
    with (git_dir / "objects/info/alternates").open("a") as file:
        file.write(f"{secret}/.git/objects\n")
    (git_dir / "refs/heads/autoloop/x").unlink()
    (git_dir / "refs/heads/autoloop/x").symlink_to(secret / ".git/refs/heads/main")


def by_commondir(secret: Path, git_dir: Path) -> None:
    (git_dir / "commondir").write_text(f"{secret}/.git\n")


def by_file(secret: Path, git_dir: Path) -> None:
    shutil.rmtree(git_dir)
    git_dir.write_text(f"gitdir: {secret}/.git\n")


def by_link(secret: Path, git_dir: Path) -> None:
    shutil.rmtree(git_dir)
    git_dir.symlink_to(secret / ".git")


def by_linked_objects(secret: Path, git_dir: Path) -> None:
    shutil.rmtree(git_dir / "objects")
    (git_dir / "objects").symlink_to(secret / ".git/objects")
    (git_dir / "refs/heads/autoloop/x").write_text(git(secret, "rev-parse", "main") + "\n")


def by_include(secret: Path, git_dir: Path) -> None:
    with (git_dir / "config").open("a") as file:
        file.write("[include]\n\tpath = /etc/shadow\n")


def by_bundle(secret: Path, git_dir: Path) -> None:
    shutil.rmtree(git_dir)
    git(secret, "bundle", "create", "--quiet", str(git_dir), "main")


@confined
@pytest.mark.parametrize(
    "trick", [by_alternates, by_commondir, by_file, by_link, by_linked_objects, by_include, by_bundle]
)
def test_the_history_of_another_repository_does_not_come_with_it(folder: Path, state: Path, trick: Any) -> None:
    """Whatever the private repository says of where its objects are; the next attempt gets a whole one again."""
    secret, tree = other_history(folder), opened(folder, state)
    work = committed(tree, "work", new__txt="new\n")
    trick(secret, private.folder_of(tree))
    said = ""
    try:
        private.fetch_back(tree)
    except GitFailed as error:
        said = str(error)
    assert "root:" not in said
    listed = git(folder, "rev-list", "--objects", "--all")
    assert "secret.txt" not in listed
    assert subprocess.run(["git", "cat-file", "-e", git(secret, "rev-parse", "main")], cwd=folder).returncode
    private.enter(tree)
    assert private.fetch_back(tree).branch == "autoloop/x"
    assert git(folder, "rev-parse", "autoloop/x") in (tree.base, work)


@pytest.mark.parametrize("make", ["pipe", "garbage"])
def test_a_damaged_repository_is_made_again_and_kept_beside_it(
    folder: Path, state: Path, make: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that makes git hang is no different from one that git cannot read."""
    monkeypatch.setattr(private, "TIMEOUT", 1.0)
    tree = opened(folder, state)
    config = private.folder_of(tree) / "config"
    config.unlink()
    os.mkfifo(config) if make == "pipe" else config.write_text("[")
    with pytest.raises(GitFailed):
        private.fetch_back(tree)
    assert private.enter(tree).head == tree.base
    assert private.folder_of(tree).with_name("git.damaged-1").is_dir()


def test_an_object_that_was_forged_under_the_id_of_another_is_refused(folder: Path, state: Path) -> None:
    """Git computes the ids of what comes; the user's objects are never replaced."""
    tree = opened(folder, state)
    committed(tree, "work", new__txt="new\n")
    blob = agent(tree, "rev-parse", "HEAD:new.txt")
    place = private.folder_of(tree) / "objects" / blob[:2] / blob[2:]
    other = agent(tree, "hash-object", "-w", "--no-filters", str(folder / "b.txt"))
    source = private.folder_of(tree) / "objects" / other[:2] / other[2:]
    place.chmod(0o644)
    place.write_bytes((source if source.exists() else folder / ".git/objects" / other[:2] / other[2:]).read_bytes())

    with pytest.raises(GitFailed):
        private.fetch_back(tree)
    assert git(folder, "rev-parse", "autoloop/x") == tree.base


def test_a_tree_that_would_write_into_git_folders_is_refused(folder: Path, state: Path) -> None:
    """As git checks what others push: a folder `.git` in a commit would be checked out over the user's."""
    tree = opened(folder, state)
    files = bytes.fromhex(agent(tree, "rev-parse", "HEAD^{tree}"))
    made = subprocess.run(
        ["git", f"--git-dir={private.folder_of(tree)}", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        input=b"40000 .git\0" + files,
        capture_output=True,
        check=True,
    ).stdout.decode()
    evil = agent(tree, "commit-tree", made.strip(), "-p", "HEAD", "-m", "evil")
    agent(tree, "update-ref", "refs/heads/autoloop/x", evil)

    with pytest.raises(GitFailed, match=r"hasDotgit"):
        private.fetch_back(tree)
    assert git(folder, "rev-parse", "autoloop/x") == tree.base


def test_a_new_file_of_git_lfs_comes_back_if_it_is_what_its_name_says(folder: Path, state: Path) -> None:
    tree = opened(folder, state)
    right = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of `hello`
    wrong, linked = "a" * 64, "b" * 64
    objects = private.folder_of(tree) / "lfs" / "objects"
    for name in (right, wrong):
        put(objects, f"{name[:2]}/{name[2:4]}/{name}", "hello")
    (objects / linked).symlink_to(folder / "a.txt")
    private.fetch_back(tree)

    found = [path.name for path in (folder / ".git/lfs/objects").rglob("*") if path.is_file()]
    assert found == [right]


def test_a_file_of_git_lfs_that_does_not_come_back_is_said(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large, or the disk is full: what was committed would name a file that is nowhere."""
    tree, name = opened(folder, state), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    put(private.folder_of(tree) / "lfs" / "objects", name, "hello")

    def full(source: object, copy: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            private.fetch_back(tree)
    monkeypatch.setattr(private, "MOST", 4)
    with pytest.raises(GitFailed, match=f"copy it to {folder}"):
        private.remove(tree)
    assert [path for path in (folder / ".git/lfs").rglob("*") if path.is_file()] == []
    assert private.folder_of(tree).exists()


def test_locks_of_killed_agents_do_not_keep_an_attempt_from_beginning(folder: Path, state: Path) -> None:
    """If no other attempt works there, which may hold them."""
    tree = opened(folder, state)
    workspace, one = GitWorkspace(state, "x", folder, lambda run: "", tree=tree), AgentPlan(name="a", backend="command")

    async def heads(*places: str) -> list[str]:
        git(folder, f"--git-dir={tree.git}", "commit", "--quiet", "--allow-empty", "--message", "by the owner")
        for name in ("index.lock", f"refs/heads/{tree.branch}.lock"):
            put(private.folder_of(tree), name, "")
        found = [await workspace.position(place, one) for place in places]
        return [at.head if at is not None else "" for at in found]

    first = asyncio.run(heads("x/a#1", "x/b#1"))
    assert first == [git(folder, "rev-parse", tree.branch)] * 2
    assert asyncio.run(heads("x/c#1")) == [""]


def test_a_setting_without_a_value_is_true_for_agents_too(folder: Path, state: Path) -> None:
    with (folder / ".git" / "config").open("a") as file:
        file.write("[core]\n\tfilemode\n\tautocrlf = \n")
    tree = opened(folder, state)
    assert [agent(tree, "config", "--bool", f"core.{name}") for name in ("filemode", "autocrlf")] == ["true", "false"]


# -- the user meanwhile -----------------------------------------------------------------------------------------------


def test_branches_that_the_user_prunes_are_dropped_at_the_next_attempt(folder: Path, state: Path) -> None:
    """And the base of the run stays, although no branch of the user's has it any more."""
    git(folder, "checkout", "--quiet", "-b", "feature")
    commit(folder, "feature", f__txt="f\n")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, "base", base__txt="base\n")
    tree = opened(folder, state)
    git(folder, "branch", "-D", "feature")
    git(folder, "reset", "--quiet", "--hard", "HEAD^")
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "--quiet", "--prune=now")
    private.enter(tree)
    assert not private.folder_of(tree).with_name("git.damaged-1").exists()

    assert agent(tree, "log", "--all", "--format=%s").split() == ["base", "first"]
    assert "feature" not in agent(tree, "for-each-ref")
    committed(tree, "work", work__txt="work\n")
    private.fetch_back(tree)
    assert git(folder, "log", "--format=%s", "autoloop/x").split() == ["work", "base", "first"]


def test_a_tree_of_an_earlier_release_ends_as_it_began(folder: Path, state: Path) -> None:
    """Its agents share the user's repository."""
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
    tree = worktree.write(state, replace(worktree.make(origin, state, tree), git=""))
    commit(Path(tree.path), "by the agent", new__txt="new\n")
    done = remove_files(state, merge_tree(state, tree))

    assert (done.status, done.removed) == ("merged", True)
    assert (folder / "new.txt").exists()
    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"


# -- sandboxes ----------------------------------------------------------------------------------------------


WALLS = """
import glob
def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True)
git("config", "user.name", "A"), git("config", "user.email", "a@localhost")
common = ORIGIN + "/.git"
def tries(path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write("x")
        return True
    except OSError:
        return False
names = ("config", "hooks/post-checkout", "refs/heads/evil", "modules/x/hooks/y", "objects/aa/bb", "info/exclude")
written = [name for name in names if tries(f"{common}/{name}")]
pathlib.Path("new.txt").write_text("new")
done = [git(*words.split()).returncode for words in ("add -A", "commit -qm work", "stash list", "gc -q", "fsck")]
def reads(path):
    try:
        return bool(os.listdir(path)) if os.path.isdir(path) else bool(open(path).read())
    except OSError:
        return False
objects = [name for name in written if "objects" in name]
seen = [done, *(reads(f"{common}/{name}") for name in ("HEAD", "objects")), objects]
pathlib.Path("seen.json").write_text(json.dumps(seen))
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
def test_in_a_sandbox_the_private_repository_is_the_only_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of the user's only the objects are there, to be read; the tree is the owner's again afterwards."""
    if why := choice.probe(kind):
        pytest.skip(f"{kind} does not work here: {why}")
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", [one for one in choice.IMPLEMENTATIONS if kind == one.NAME])
    monkeypatch.chdir(commit(folder, "ignore", __gitignore=".autoloop\n"))
    before = {path: path.read_bytes() for path in (folder / ".git").glob("*") if path.is_file()}
    settings = 'worktree.enabled = true\nworktree.cleanup = "never"\nbackend.sandbox = "auto"\n'
    outcome = run(project(tmp_path / "loop", f"ORIGIN = {str(folder)!r}\n{WALLS}", settings))

    assert outcome.status == "completed", outcome.notices
    assert (folder / "new.txt").read_text() == "new"
    assert (folder / "seen.json").read_text() == "[[0, 0, 0, 0, 0], false, true, []]"
    assert (folder / ".git" / "config").read_bytes() == before[folder / ".git" / "config"]
    assert not (folder / ".git" / "modules").exists()
    assert not (folder / ".git" / "hooks" / "post-checkout").exists()
    assert "evil" not in git(folder, "for-each-ref")
    tree = worktree.read(folder / ".autoloop", outcome.run)
    assert tree is not None
    assert git(Path(tree.path), "rev-parse", "--git-dir") == tree.git


def test_what_a_killed_attempt_left_of_the_link_is_put_right(folder: Path, state: Path) -> None:
    """People see the owner's repository again, also if the attempt had made another one in its place."""
    tree = opened(folder, state)
    for left in ("linked", "replaced"):
        private.link(tree, private=True)
        assert git(Path(tree.path), "rev-parse", "--git-dir") == str(private.folder_of(tree))
        own = worktree.repository_of(tree)
        assert own is not None
        assert own.output("rev-parse", "--git-dir") == tree.git  # whatever the tree says
        if left == "replaced":
            (Path(tree.path) / ".git").unlink()
            repository(Path(tree.path) / "in")
            (Path(tree.path) / "in" / ".git").rename(Path(tree.path) / ".git")
            shutil.rmtree(Path(tree.path) / "in")
        commit_all(tree, state, "by the owner\n")
        assert git(Path(tree.path), "rev-parse", "--git-dir") == tree.git
    assert (private.folder_of(tree).with_name("replaced-1") / "HEAD").is_file()
    assert merge_tree(state, tree).status == "merged"


def test_a_moved_project_finds_its_objects(folder: Path) -> None:
    """The private repository borrows those of the repository where that is now; what it holds stays."""
    tree = opened(folder, folder / ".coterie")
    committed(tree, "work", new__txt="new\n")
    put(Path(tree.path), "a.txt", "stashed\n")
    agent(tree, "stash", "--quiet")
    folder.rename(there := folder.with_name("elsewhere"))
    moved = worktree.read(there / ".coterie", "x")
    assert moved is not None
    private.enter(moved)

    assert agent(moved, "stash", "list") != ""
    assert git(there, "log", "--format=%s", "autoloop/x").split() == ["work", "first"]
    assert not private.folder_of(moved).with_name("git.damaged-1").exists()
    assert merge_tree(there / ".coterie", moved).status == "merged"


def test_new_commits_that_are_too_large_are_refused(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they hold, not by their packed size; nothing of them is in the user's repository then."""
    monkeypatch.setattr(private, "MOST", 1 << 20)
    tree = opened(folder, state)
    large = committed(tree, "large", zeros__bin="0" * (2 << 20))
    for _ in range(2):
        with pytest.raises(GitFailed, match="have 2 MB, and at most 1 MB are fetched"):
            private.look(tree)
    assert require(folder, "the test").commit_of(large) == ""
    agent(tree, "reset", "--hard", "--quiet", "HEAD^")
    agent(tree, "reflog", "expire", "--expire=now", "--all")
    small = committed(tree, "small", some__bin="1" * (1 << 19))
    assert private.look(tree).tip == small


def test_a_stream_that_is_too_long_or_too_slow_ends(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the objects is said to be."""
    tree = opened(folder, state)
    committed(tree, "random", random__txt=os.urandom(60_000).hex())
    monkeypatch.setattr(private, "_refuse_large", lambda *args: None)
    monkeypatch.setattr(private, "MOST", 30_000)
    with pytest.raises(GitFailed, match="the stream of objects is longer than 30000 bytes"):
        private.look(tree)
    monkeypatch.setattr(private, "MOST", 300_000)
    monkeypatch.setattr(private, "TIMEOUT", 0.001)
    with pytest.raises(GitFailed, match="took longer than"):
        private.look(tree)
    monkeypatch.setattr(private, "TIMEOUT", 60.0)
    assert private.look(tree).tip == agent(tree, "rev-parse", "HEAD")
