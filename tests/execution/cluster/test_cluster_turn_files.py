"""The agents of turns on a node have a repository for themselves, and what they did comes back to the user's whole."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import agent, request
from git_killer import kill_at_every_call
from repositories import commit, git, holds, put, repository
from sealing import orders
from stage import flow

from coterie.agents.backends.base import Answer, Request
from coterie.agents.backends.sandbox.choice import working
from coterie.errors import UsageError
from coterie.execution.cluster import turn_files
from coterie.execution.cluster.files import (
    FilesConflict,
    Head,
    RunFiles,
    bring_back,
    how_to_merge,
    merged,
    pack,
    works_on_files,
)
from coterie.execution.cluster.turn_files import LeftFiles, TurnFiles, WorkTrees
from coterie.execution.cluster.turns import ActivityTurns
from coterie.execution.cluster.wire import TurnDone
from coterie.execution.cluster.workflow import _TurnWorkspace
from coterie.execution.kernel.turns import ask
from coterie.execution.runs.backend_setup import local_turns
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import TreeAttested
from coterie.team.planning.plan import AgentPlan, TreePlan

Act = Callable[[TurnFiles], None]


class Node:
    """A node, and the run that it works for, which was submitted from *folder*."""

    def __init__(self, folder: Path, top: Path, *copies: str) -> None:
        self.export, self.home = FolderExport(top / "export"), top / "home"
        self.trees = WorkTrees(self.home, self.export)
        self.place: RunFiles = asyncio.run(pack(folder, self.export, (), TreePlan(copy=copies)))[0]
        self.turns = 0

    def turn(self, act: Act, **values: Any) -> LeftFiles:
        """Have *act* work as the agent of the next turn, and take up what it left."""
        left = asyncio.run(self._turn(act, self.place, values))
        assert left.head is not None
        self.place = merged(self.place, self.place, left.head)
        return left

    async def _turn(self, act: Act, place: RunFiles, values: dict[str, Any]) -> LeftFiles:
        self.turns += 1
        asked = request(agent("a", **values), run="r", turn=f"a#{self.turns}")
        async with self.trees.of("r", asked.ref.marker, place, asked) as at:
            await at.prepared()
            await asyncio.to_thread(act, at)
            return await at.end(asked.turn, 1)

    def side_by_side(self, *acts: Act) -> None:
        """Have each of *acts* work on the files as they are now."""
        begun = self.place
        for act in acts:
            left = asyncio.run(self._turn(act, begun, {}))
            assert left.head is not None
            self.place = merged(self.place, begun, left.head)

    def bring_back(self) -> str:
        """Bring the files of the run back to its user."""
        return "; ".join(asyncio.run(bring_back("r", self.place, self.export)))

    @property
    def store(self) -> Path:
        """The repository with the commits of the run."""
        return self.home / "r" / "files.git"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's checkout."""
    return repository(tmp_path / "r", b__txt="b\n")


@pytest.fixture
def node(folder: Path, tmp_path: Path) -> Node:
    return Node(folder, tmp_path)


def does(*calls: str, **names: str) -> Act:
    """An agent that writes files and calls git."""

    def act(at: TurnFiles) -> None:
        assert at.repository is not None
        for name, text in names.items():
            put(at.root, name.replace("__", "."), text)
        for words in calls:
            git(at.root, f"--git-dir={at.repository.git}", f"--work-tree={at.root}", *words.split())

    return act


COMMITS = ("add --all", "commit --quiet --message work")


@pytest.mark.slow
def test_an_agents_commits_come_back_and_nothing_else_of_its_repository(node: Node, folder: Path) -> None:
    """Its stash, branches and configuration are gone with its turn; the next agent sees none of them."""
    seen = list[str]()

    def looks(at: TurnFiles) -> None:
        assert at.repository is not None
        words = ("for-each-ref", "--format=%(refname)")
        seen.append(git(at.root, f"--git-dir={at.repository.git}", *words))
        seen.append(git(at.root, f"--git-dir={at.repository.git}", "config", "--list"))

    node.turn(
        does(
            *(*COMMITS, "branch side", "tag v1", "config core.hooksPath /tmp", "update-index --skip-worktree a.txt"),
            new__txt="new\n",
        )
    )
    before = (node.store / "config").read_text()
    node.turn(does("stash --include-untracked", b__txt="stashed\n"))
    node.turn(looks)

    assert seen[0].splitlines() == ["refs/heads/coterie/r%2Fa#3.1"]
    assert "hookspath" not in seen[1].lower()
    assert (node.store / "config").read_text() == before
    assert node.bring_back().startswith("its work is on the branch coterie/r; a commit is kept that its agents stashed")
    assert git(folder, "show", "coterie/r:new.txt") == "new"
    assert git(folder, "show", "coterie/r:b.txt") == "b"
    lost = git(folder, "for-each-ref", "--format=%(objectname)", "refs/coterie/r/lost/").split()
    assert any(git(folder, "show", f"{one}:b.txt") == "stashed" for one in lost)
    assert not git(node.store, "for-each-ref", "refs/heads", "refs/stash", "refs/coterie/r/lost/")


def test_flags_of_the_agents_index_hide_no_change(node: Node, folder: Path) -> None:
    """The files are added with an index that no agent writes."""
    node.turn(does("update-index --skip-worktree a.txt", a__txt="changed\n"))
    node.bring_back()

    assert git(folder, "show", "coterie/r:a.txt") == "changed"


@pytest.mark.slow
def test_an_attempt_that_leaves_its_branch_counts_for_nothing(node: Node, folder: Path) -> None:
    """But for the commits of that branch; what it left elsewhere is kept, and named when the work is brought back."""
    node.turn(does(first__txt="first\n"))
    left = node.turn(does(*COMMITS, "checkout --quiet HEAD^", "clean --force --quiet", mine__txt="mine\n"))
    assert left.attested is not None
    assert left.attested.voids
    assert ", on no branch, and only the branch coterie/" in left.attested.problem
    assert node.bring_back() == "its work is on the branch coterie/r"
    assert git(folder, "ls-tree", "--name-only", "coterie/r").split() == ["a.txt", "b.txt", "first.txt", "mine.txt"]

    left = node.turn(lambda at: (does("checkout --quiet -b wip")(at), put(at.root, "other.txt", "other\n"))[0])
    assert left.attested is not None
    assert "is on the branch wip" in left.attested.problem
    assert node.bring_back().startswith("its work is on the branch coterie/r; a commit is kept")
    assert git(folder, "ls-tree", "--name-only", "coterie/r").split() == ["a.txt", "b.txt", "first.txt", "mine.txt"]
    [lost] = git(folder, "for-each-ref", "--format=%(objectname)", "refs/coterie/r/lost/").split()
    assert git(folder, "show", f"{lost}:other.txt") == "other"


def test_what_a_node_says_of_a_tree_reaches_the_journal() -> None:
    """So the attempt fails there as on one machine, and its events are void."""
    attested = TreeAttested(turn="a#1", attempt=1, problem="it left", voids=True)
    turns = ActivityTurns({}, RunFiles(root="/r", base="b", heads=()), orders())
    turns.over("r/x.1/a#1.1", turns.files, TurnDone(answer=Answer(text=""), attested=attested))
    workspace = _TurnWorkspace("r", turns)

    assert workspace.attests("r/x.1/a#1", agent("a"))
    assert asyncio.run(workspace.attested("r/x.1/a#1", "a#1", 1, agent("a"), None)) == attested
    assert asyncio.run(workspace.attested("r/x.1/a#1", "a#1", 1, agent("a"), None)) is None


def with_submodule(folder: Path) -> None:
    """Let *folder* have a submodule `inner`, which is not initialised."""
    (folder / "inner").mkdir()
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{git(folder, 'rev-parse', 'HEAD')},inner")
    git(folder, "commit", "--quiet", "--message", "a submodule")


def test_a_turn_that_left_only_a_stash_is_in_the_journal() -> None:
    """Its commit is as before, and a bundle is new; without one there is nothing to say."""
    begun = RunFiles(root="/r", base="b", heads=(Head("c", ("1", "2")), Head("d", ("1", "3"))))
    for new, wanted in ((), None), (("4",), ("1", "2", "3", "4")):
        turns = ActivityTurns({}, begun, orders())
        left = Head("d", ("1", "2", "3", *new))
        turns.over("r/a#1.1", begun, TurnDone(answer=Answer(text=""), head=left))
        saved = asyncio.run(_TurnWorkspace("r", turns).saved("r", "a#1", 1))
        assert (saved.bundles if saved is not None else None) == wanted


@pytest.mark.parametrize("kind", ["nested", "uninitialised"])
def test_files_that_cannot_travel_stay_on_the_node_and_fail_the_attempt(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    """Those of repositories inside the tree; nothing else of the attempt counts either, and nothing is removed."""
    if kind == "uninitialised":
        with_submodule(folder)
    node = Node(folder, tmp_path)

    def makes(at: TurnFiles) -> None:
        put(at.root, "beside.txt", "beside\n")
        if kind == "nested":
            repository(at.root / "inner", deep__txt="deep\n")
        else:
            put(at.root, "inner/deep.txt", "deep\n")

    left = node.turn(makes)
    assert left.attested is not None
    assert left.attested.voids
    assert left.attested.problem.startswith("inner: the files there cannot travel, and stay in ")
    assert (node.home / "r/trees/r%2Fa#1.1/tree/inner/deep.txt").read_text() == "deep\n"
    assert node.bring_back().startswith("a commit is kept")
    assert not git(folder, "branch", "--list", "coterie/*")


def test_a_submodule_that_an_agent_fills_is_no_failure(folder: Path, tmp_path: Path) -> None:
    """Its commit is as it was; the files stay on the node, in case they were changed."""
    with_submodule(folder)
    node = Node(folder, tmp_path)

    def fills(at: TurnFiles) -> None:
        git(at.root, "clone", "--quiet", str(folder), "inner")
        git(at.root / "inner", "reset", "--quiet", "--hard", "HEAD^")

    left = node.turn(fills)
    assert left.attested is not None
    assert (left.attested.problem, left.attested.voids) == ("", False)
    [note] = left.attested.notes
    assert note.startswith("inner: the files there cannot travel")


def test_a_conflict_in_a_name_that_is_not_utf_8_is_named(node: Node) -> None:
    """It fails the turn that begins with it, as any conflict does."""
    name = os.fsdecode(b"caf\xe9 1.txt")

    def writes(text: str) -> Act:
        return lambda at: put(at.root, name, text)

    node.side_by_side(writes("1"), writes("2"))
    with pytest.raises(FilesConflict, match=r"changed the same lines of caf\\xe9 1\.txt"):
        node.turn(does())


@pytest.mark.long
def test_a_kill_at_any_step_on_a_node_or_at_home_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt that was cut off is made again, elsewhere; what is brought back is the same.

    The steps are the calls of git, what goes through the export, and the copies of ignored files.
    """
    done = set[int]()
    steps = [(FolderExport, "blob"), (FolderExport, "put_blob")]
    steps += [(turn_files, name) for name in ("unpack", "copy_files", "as_prepared", "find_leftovers")]

    def begin(n: int) -> tuple[int, Node, Path]:
        folder = repository(tmp_path / f"{n}" / "r", b__txt="b\n", __gitignore="deps/\n")
        put(folder, "deps/lib", "lib")
        return n, Node(folder, folder.parent, "deps"), folder

    def work(stage: tuple[int, Node, Path]) -> None:
        n, node, _ = stage

        def act(at: TurnFiles) -> None:
            assert (at.root / "deps/lib").read_text() == "lib"
            does(*COMMITS, "stash --include-untracked", new__txt="new\n")(at)

        if n not in done:
            node.turn(act)
            done.add(n)
        node.bring_back()

    def look(stage: tuple[int, Node, Path]) -> object:
        _, _, folder = stage
        shown = git(folder, "show", "--format=%s", "--name-only", "coterie/r").split()
        return shown, git(folder, "branch", "--format=%(refname)"), git(folder, "status", "--porcelain"), holds(folder)

    kills = kill_at_every_call(monkeypatch, begin, work, look, steps)
    print(kills, "kills")
    assert kills > 100


# -- where the work is brought back -----------------------------------------------------------------------------------


def test_what_the_user_committed_meanwhile_is_not_reverted(node: Node, folder: Path) -> None:
    """The branch begins at the commit that was checked out, so that merging it keeps both."""
    begun = git(folder, "rev-parse", "HEAD")
    node.turn(does(new__txt="new\n"))
    commit(folder, "mine", mine__txt="mine\n")

    assert node.bring_back() == "its work is on the branch coterie/r"
    assert git(folder, "rev-parse", "coterie/r^") == begun
    assert how_to_merge("r", node.place) == "git merge coterie/r"
    git(folder, "merge", "--quiet", "--no-edit", "coterie/r")
    assert {*holds(folder)} == {"a.txt", "b.txt", "new.txt", "mine.txt"}
    assert how_to_merge("r", node.place) == ""
    assert node.bring_back() == "its work is on the branch coterie/r"
    git(folder, "branch", "--quiet", "--delete", "coterie/r")
    assert node.bring_back().endswith(", which is merged")


@pytest.mark.slow
def test_what_the_user_took_back_meanwhile_does_not_return(folder: Path, tmp_path: Path) -> None:
    """Of a commit that was rewritten, the branch has only what the run changed."""
    commit(folder, "oops", password__txt="secret\n")
    node = Node(folder, tmp_path)
    node.turn(does(new__txt="new\n"))
    git(folder, "reset", "--quiet", "--hard", "HEAD^")
    before = git(folder, "rev-parse", "HEAD")

    assert node.bring_back() == "its work is on the branch coterie/r"
    assert git(folder, "rev-parse", "coterie/r^") == before
    assert git(folder, "ls-tree", "--name-only", "coterie/r").split() == ["a.txt", "b.txt", "new.txt"]

    node.turn(does(password__txt="secret of mine\n"))
    said = node.bring_back()
    assert said.startswith(
        "its work is in a commit, since it and what you rewrote changed the same places (password.txt): git cherry"
    )
    assert git(folder, "ls-tree", "--name-only", "coterie/r").split() == ["a.txt", "b.txt", "new.txt"]
    assert how_to_merge("r", node.place) in said


@pytest.mark.slow
def test_the_branch_follows_the_run_unless_a_person_works_on_it(node: Node, folder: Path) -> None:
    """Then there is another one beside it, and no commit of the person's is lost."""
    node.turn(does(new__txt="1\n"))
    node.bring_back()
    node.turn(does(new__txt="2\n"))
    assert node.bring_back() == "its work is on the branch coterie/r"
    assert git(folder, "show", "coterie/r:new.txt") == "2"
    git(folder, "checkout", "--quiet", "coterie/r")
    node.turn(does(new__txt="3\n"))
    assert node.bring_back() == "its work is on the branch coterie/r-2"
    commit(folder, "mine", mine__txt="mine\n")
    git(folder, "checkout", "--quiet", "main")
    assert node.bring_back() == "its work is on the branch coterie/r-2"
    assert git(folder, "log", "--format=%s", "-1", "coterie/r") == "mine"
    assert git(folder, "show", "coterie/r-2:new.txt") == "3"


@pytest.mark.long
def test_a_kill_while_the_work_is_brought_back_makes_no_second_branch(
    node: Node, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch moves together with the ref that says whose it is."""
    node.turn(does(new__txt="new\n"))

    def begin(n: int) -> None:
        for name in git(folder, "for-each-ref", "--format=%(refname)", "refs/heads/coterie", "refs/coterie/r").split():
            git(folder, "update-ref", "-d", name)

    def look(stage: None) -> str:
        return git(folder, "branch", "--format=%(refname:short)")

    assert kill_at_every_call(monkeypatch, begin, lambda stage: node.bring_back(), look) > 20


def test_the_state_of_runs_does_not_travel_with_the_files(folder: Path, tmp_path: Path) -> None:
    """In the folder that is submitted or at the top of its work tree, whether git ignores it or not."""
    (below := folder / "below").mkdir()
    for place in (folder, below):
        for name in (".coterie", ".autoloop"):
            put(place, f"{name}/runs/r/journal.jsonl", "{}")
    put(below, "mine.txt", "mine")
    packed, _ = asyncio.run(pack(below, FolderExport(tmp_path / "export")))
    names = git(folder, "ls-tree", "-r", "--name-only", packed.base).splitlines()

    assert "below/mine.txt" in names
    assert [name for name in names if {".coterie", ".autoloop"} & {*name.split("/")}] == []


@pytest.mark.parametrize(
    ("agent", "needs"),
    [
        (AgentPlan(name="a", backend="anthropic"), False),
        (AgentPlan(name="a", kind="human", backend="human"), False),
        (AgentPlan(name="a", backend="command", argv=("true",)), True),
        (AgentPlan(name="a", backend="anthropic", options={"gates": [["make"]]}), True),
        (AgentPlan(name="a", backend="anthropic", reads=("notes.md",)), True),
        (AgentPlan(name="a", backend="anthropic", steps=(("true",),)), True),
        (
            AgentPlan(
                name="a", kind="topology", child=flow("b", b=AgentPlan(name="b", backend="command", argv=("true",)))
            ),
            True,
        ),
        (AgentPlan(name="a", kind="topology", child=flow("b", b=AgentPlan(name="b", backend="anthropic"))), False),
    ],
    ids=["model", "person", "program", "gate", "reads", "steps", "a team of programs", "a team of models"],
)
def test_files_travel_only_if_a_program_may_need_them(agent: AgentPlan, needs: bool) -> None:
    """A gate of a model's answer is one; so is what reads a file into a prompt."""
    assert works_on_files(flow("a", a=agent)) is needs


def test_files_that_a_turn_left_are_merged_once() -> None:
    """Also where another turn has left the same; what it took up is no longer apart."""
    one, two, both = (Head(name, ("base", name)) for name in ("one", "two", "both"))
    base = Head("base", ("base",))
    begun = RunFiles(root="/app", base="base", heads=(base,))
    place = merged(merged(begun, begun, one), begun, two)

    assert place.heads == (one, two)
    assert merged(place, begun, one).heads == (two, one)
    assert merged(place, place, both).heads == (both,)


def test_a_branch_in_the_way_is_found_before_the_run_begins(folder: Path, tmp_path: Path) -> None:
    """Its work could not be brought back as `coterie/RUN`."""
    git(folder, "branch", "coterie")
    with pytest.raises(UsageError, match="git branch -m coterie NAME"):
        Node(folder, tmp_path)


def test_what_the_user_lets_git_ignore_is_ignored_on_nodes(folder: Path, tmp_path: Path) -> None:
    """Also by `info/exclude`, which no commit contains."""
    (folder / ".git/info/exclude").write_text("# mine\n*.log\n")
    node = Node(folder, tmp_path)
    left = node.turn(does(new__txt="new\n", my__log="log\n"))
    assert left.attested is not None
    assert "my.log (4 bytes)" in left.attested.notes[0]
    node.bring_back()
    assert git(folder, "ls-tree", "--name-only", "coterie/r").split() == ["a.txt", "b.txt", "new.txt"]


def test_changes_of_what_shapes_runs_are_named_with_the_work(node: Node, folder: Path) -> None:
    """A person merges the branch, so a person is shown them: settings by their names, the team's files by its plan."""
    node.turn(lambda at: put(at.root, "prompt.md", "Do as I say"))
    assert node.bring_back() == "its work is on the branch coterie/r"
    [_, said] = asyncio.run(bring_back("r", node.place, node.export, ("prompt.md",)))
    assert said.startswith("it changes prompt.md, which shapes runs: look before you merge it, git show ")
    node.turn(lambda at: put(at.root, "deep/autoloops.toml", ""))
    assert "it changes deep/autoloops.toml, which shapes runs" in node.bring_back()
    git(folder, "config", "commit.gpgsign", "true")
    git(folder, "config", "gpg.program", "false")
    node.turn(lambda at: put(at.root, "more.txt", ""))
    assert "its commits are not signed, although commit.gpgsign says so" in node.bring_back()


# -- in a sandbox -----------------------------------------------------------------------------------------------------

TRICKS = """
mkdir -p hooks; printf '#!/bin/sh\ntouch %s/ran' {top} > hooks/pre-commit; chmod +x hooks/pre-commit
git config core.hooksPath "$PWD/hooks"; git config core.fsmonitor "touch {top}/ran"
git -c user.name=a -c user.email=a@b commit -qm own --allow-empty --no-verify
echo {store} > "$(git rev-parse --git-dir)"/commondir2
for name in config refs/heads/x objects/info/alternates hooks/x; do echo x > {store}/$name; done 2>/dev/null
rm -rf {store}/refs {store}/objects 2>/dev/null
ls -A {store} > seen.txt; exit 0
"""


@pytest.mark.skipif((one := working()) is None or not one.PROTECTS, reason="needs a sandbox with mounts")
@pytest.mark.slow
def test_a_confined_agent_cannot_write_the_store(folder: Path, tmp_path: Path) -> None:
    """Of the store it sees the objects; what its repository is configured to run does not run outside."""
    node = Node(folder, tmp_path)
    node.turn(does())
    before = {str(path): path.stat().st_mtime_ns for path in node.store.glob("[chr]*/**/*") if path.is_file()}
    script = TRICKS.format(store=node.store, top=tmp_path)
    confined = {"argv": ("sh", "-c", script), "options": {"sandbox": "required"}}

    async def main() -> LeftFiles:
        asked: Request = request(agent("a", **confined), run="r", turn="a#9", folder=None)
        async with node.trees.of("r", asked.ref.marker, node.place, asked) as at:
            (own := tmp_path / "attempt").mkdir()
            asked = request(
                agent("a", **confined), run="r", turn="a#9", cwd=at.cwd, folder=own, repository=at.repository
            )
            result = await ask(local_turns().start(asked, lambda event: None), lambda session: None)
            assert isinstance(result, Answer), result
            return await at.end("a#9", 1)

    left = asyncio.run(main())
    assert left.attested is not None
    assert left.attested.problem == ""
    assert left.head is not None
    assert not (tmp_path / "ran").exists()
    after = {str(path): path.stat().st_mtime_ns for path in node.store.glob("[chr]*/**/*") if path.is_file()}
    assert {name: at for name, at in after.items() if name in before} == before
    node.place = merged(node.place, node.place, left.head)
    node.bring_back()
    assert git(folder, "show", "coterie/r:seen.txt").split() == ["objects"]
