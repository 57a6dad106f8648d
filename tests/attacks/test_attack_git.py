"""What an agent plants in the private repository of its work tree: the owner runs, follows and awaits none of it."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from checkouts import ConfinedAgents, commits
from private_trees import agent, committed, opened
from repositories import git, put, repository, untouched

from coterie.agents.backends.sandbox import choice
from coterie.agents.workspace.trees import private, report
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.merge import merge_tree
from coterie.agents.workspace.trees.snapshots import Snapshots
from coterie.errors import GitFailed
from coterie.proofs.preflight import _git

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(choice.working() is None, reason="no sandbox works here, and a fetch would be none"),
]

PROGRAMS = {
    "core.fsmonitor": "{spy}",
    "core.hooksPath": "{hooks}",
    "core.sshCommand": "{spy}",
    "core.gitProxy": "{spy}",
    "core.alternateRefsCommand": "{spy}",
    "core.editor": "{spy}",
    "core.pager": "{spy}",
    "core.attributesFile": "{attributes}",
    "filter.evil.process": "{spy}",
    "diff.external": "{spy}",
    "diff.evil.textconv": "{spy}",
    "merge.evil.driver": "{spy} %A",
    "gpg.program": "{spy}",
    "credential.helper": "!{spy}",
    "uploadpack.packObjectsHook": "{spy}",
    "remote.origin.url": "ext::sh -c {spy}",
    "remote.origin.vcs": "{spy}",
    "remote.origin.uploadpack": "{spy}",
    "submodule.x.update": "!{spy}",
    "alias.rev-list": "!{spy}",
    "include.path": "{included}",
    "includeIf.gitdir:/.path": "{included}",
    "extensions.worktreeConfig": "true",
    "extensions.partialClone": "origin",
    "url.ext::sh -c {spy} %S.insteadOf": "/",
}


@pytest.fixture
def spy(tmp_path: Path) -> Path:
    """A program that leaves `sprung` where only the owner could write, beside the files that name it."""
    hidden = tmp_path / "spies"
    (hidden / "hooks").mkdir(parents=True)
    spy = hidden / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    spy.chmod(0o755)
    for hook in ("reference-transaction", "post-index-change", "pre-auto-gc", "update", "proc-receive", "post-fetch"):
        (hidden / "hooks" / hook).symlink_to(spy)
    (hidden / "attributes").write_text("* filter=evil merge=evil diff=evil\n")
    (hidden / "included").write_text(f"[core]\n\tfsmonitor = {spy}\n[uploadpack]\n\tpackObjectsHook = {spy}\n")
    return spy


@pytest.mark.parametrize("key", PROGRAMS)
def test_no_setting_of_an_agent_runs_a_program(tmp_path: Path, spy: Path, key: str) -> None:
    """When its work is fetched, entered again, and merged: the commit comes, the program does not run."""
    folder, state = repository(tmp_path / "r"), tmp_path / "state"
    tree = opened(folder, state)
    values = {name: str(spy.with_name(name)) for name in ("hooks", "attributes", "included")} | {"spy": str(spy)}
    tip = committed(tree, "work", new__txt="x\n", __gitattributes="* filter=evil merge=evil diff=evil\n")
    (tmp_path / "sprung").unlink(missing_ok=True)
    agent(tree, "config", key.format(**values), PROGRAMS[key].format(**values))
    before = untouched(folder)[1:]
    private.fetch_back(tree)
    assert git(folder, "rev-parse", tree.branch) == tip
    assert untouched(folder)[1:] == before
    private.enter(tree)
    assert merge_tree(state, tree).status == "merged"

    assert not (tmp_path / "sprung").exists()
    assert (folder / "new.txt").read_text() == "x\n"


NESTED = """
git init -q inner; cd inner; echo x > x.txt; git add .
git -c user.name=A -c user.email=a@localhost commit -qm inner
git config core.fsmonitor {spy}; git config core.hooksPath {spies}/hooks; git config filter.evil.clean {spy}
git config core.alternateRefsCommand {spy}; git config diff.evil.command {spy}
echo '* filter=evil diff=evil' > .git/info/attributes; touch x.txt; cd ..
git -c advice.addEmbeddedRepo=false -c core.fsmonitor= add inner; git commit -qm linked; echo y > inner/x.txt
"""


@pytest.mark.skipif((one := choice.working()) is None or not one.PROTECTS, reason="the agent needs a sandbox")
def test_a_repository_inside_that_the_index_has_runs_nothing(tmp_path: Path, spy: Path) -> None:
    """When the owner takes over what agents did in a checkout, looks at it, and takes a snapshot."""
    agents = ConfinedAgents(repository(tmp_path / "r"), tmp_path / "state")
    folder, snapshots = agents.folder, Snapshots(require(agents.folder, "the test"), tmp_path / "index")
    first = NESTED.format(spy=spy, spies=spy.parent)
    agents.works(first)
    assert git(folder, "log", "--format=%s") == "first"
    git(folder, "-c", "core.fsmonitor=", "merge", "--quiet", "coterie/x")  # the user agrees
    for turn, script in enumerate(("true", commits("next.txt"), "git checkout -qb other; " + commits("last.txt"))):
        agents.works(script)
        snapshots.save("x", f"a#{turn}", 1)
    for setting in ("diff.submodule=diff", "status.submoduleSummary=true", "diff.ignoreSubmodules=none"):
        git(folder, "config", *setting.split("="))
    tree = opened(folder, tmp_path / "trees")
    assert not (tmp_path / "sprung").exists()
    shutil.copytree(folder / "inner", Path(tree.path) / "inner", dirs_exist_ok=True)
    git(Path(tree.path) / "inner", "-c", "core.hooksPath=", "commit", "--quiet", "--all", "--message", "moved")
    (tmp_path / "sprung").unlink(missing_ok=True)
    assert "Subproject commit" in report.diff(tmp_path / "trees", tree)
    with suppress(GitFailed):
        merge_tree(tmp_path / "trees", tree)
    assert _git(folder) == ("other", 0)
    assert git(folder, "log", "--format=%s").split() == ["last.txt", "next.txt", "linked", "first"]
    assert not (tmp_path / "sprung").exists()


FILES = (
    "HEAD",
    "config",
    "packed-refs",
    "shallow",
    "objects/info/alternates",
    "info/grafts",
    "refs/heads/evil",
    "index",
)
KINDS = ("pipe", "secret", "folder", "huge", "loop", "socket")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_a_repository_is_followed_or_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """It comes back, or is said to be damaged; the user's repository and secret are as before."""
    monkeypatch.setattr(private, "TIMEOUT", 5.0)
    folder, state = repository(tmp_path / "r"), tmp_path / "state"
    tree = opened(folder, state)
    committed(tree, "work", new__txt="x\n")
    (secret := tmp_path / "secret").write_text("SECRET\n")
    place = private.folder_of(tree) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "secret":
            place.symlink_to(secret)
        case "folder":
            place.mkdir()
        case "huge":
            os.truncate(os.open(place, os.O_CREAT | os.O_WRONLY), 1 << 40)
        case "loop":
            place.symlink_to(place.name)
        case "socket":
            os.mknod(place, 0o600 | stat.S_IFSOCK)
    before, said = untouched(folder), ""
    try:
        private.fetch_back(tree)
    except GitFailed as error:
        said = str(error)
        assert untouched(folder) == before

    assert "SECRET" not in said
    assert secret.read_text() == "SECRET\n"
    assert "SECRET" not in git(folder, "log", "--all", "--format=%B%an")
    assert private.enter(tree).branch == tree.branch  # a new one is made where it was damaged


ELSEWHERE = {
    "alternates": ("objects/info/alternates", "{other}/.git/objects\n"),
    "commondir": ("commondir", "{other}/.git\n"),
    "worktree settings": ("config.worktree", "[core]\n\tworktree = {other}\n"),
    "work tree": ("config", "[core]\n\tworktree = {other}\n\tbare = false\n"),
    "gitdir": ("gitdir", "{other}/.git\n"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_no_repository_of_the_user_is_taken_for_the_agents(tmp_path: Path, what: str) -> None:
    """Nothing of another project comes with the work, and nothing there changes."""
    folder, other, state = repository(tmp_path / "r"), repository(tmp_path / "other"), tmp_path / "state"
    put(other, "private.txt", "SECRET\n")
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "--message", "private")
    theirs = git(other, "rev-parse", "HEAD")
    tree = opened(folder, state)
    committed(tree, "work", new__txt="x\n")
    name, text = ELSEWHERE[what]
    place = private.folder_of(tree) / name
    place.write_text(text.format(other=other))
    if what == "alternates":
        (private.folder_of(tree) / "refs" / "heads" / "theirs").write_text(f"{theirs}\n")
    before = untouched(other)
    with suppress(GitFailed):
        private.fetch_back(tree)
    private.enter(tree)

    assert untouched(other) == before
    assert git(folder, "cat-file", "--batch-check", "--batch-all-objects").find(theirs) < 0


REFS = ("refs/heads/../../evil", "refs/heads/a b", "refs/heads/-x", "refs/heads/x.lock", "refs/heads/\x1b[2J", "refs/x")


@pytest.mark.parametrize("name", REFS)
def test_a_name_of_a_branch_moves_nothing_of_the_users(tmp_path: Path, name: str) -> None:
    """Whatever git itself would refuse to make, an agent writes into the file of refs."""
    folder, state = repository(tmp_path / "r"), tmp_path / "state"
    tree = opened(folder, state)
    tip = committed(tree, "work", new__txt="x\n")
    with (private.folder_of(tree) / "packed-refs").open("a") as file:
        file.write(f"{tip} {name}\n{tip} refs/heads/main\n")
    main = git(folder, "rev-parse", "main")
    with suppress(GitFailed):
        private.fetch_back(tree)

    assert git(folder, "rev-parse", "main") == main
    own = ("refs/heads/main", f"refs/heads/{tree.branch}")
    names = git(folder, "for-each-ref", "--format=%(refname)").splitlines()
    assert [one for one in names if one not in own and not one.startswith("refs/coterie/")] == []
