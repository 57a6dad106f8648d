"""Flows whose agents have `isolation: worktree`: each turn works in a tree of its own, which is merged at its end."""

import asyncio
import json
import os
import random
import shutil
import subprocess
from itertools import count
from pathlib import Path

import preforked
import pytest
from git_killer import coterie, prepare
from loop_projects import STATE, records
from repositories import git, put, repository

from coterie.agents.workspace.trees import worktree
from coterie.errors import UsageError
from coterie.execution.runs import launch
from coterie.execution.runs.outcome import Outcome
from coterie.history.journal.records import AttemptFailed, GateChecked, TreeMade, TreesJoined, TurnFinished
from coterie.team.formats import read
from coterie.team.planning import plan_or_raise
from coterie.team.planning.place import RunPlace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's checkout, where coterie is called."""
    found = repository(tmp_path / "r", **{"__gitignore": ".autoloop\n*.log\n.env\n"})
    monkeypatch.chdir(found)
    return found


def agent(name: str, script: str, more: str = "isolation: worktree", own: str = "") -> str:
    """An agent that is a shell script."""
    return (
        f"agent {name} {{ {more}  extensions {{ coterie {{ command: {json.dumps(['sh', '-c', script])} {own} }} }} }}\n"
    )


def flow(path: Path, agents: str, arrows: str, own: str = "") -> Path:
    """The file of a team."""
    path.write_text(
        f"topology t : [pipeline] {{\n{agents}flow {{ {arrows} }}\nextensions {{ coterie {{ {own} }} }}\n}}\n"
    )
    return path


def run(file: Path, *, apart: bool = False, **given: object) -> Outcome:
    """Run the team in *file*, in a work tree of the run or not."""
    source = read(file)
    assert source.topology is not None, source.diagnostics
    plan = plan_or_raise(source.topology, folder=file.parent)
    place = RunPlace(worktree=apart, branch_prefix="coterie")
    return asyncio.run(launch.start(plan, {"prompt": "go", **given}, state_dir=STATE, place=place))


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_turns_side_by_side_work_in_trees_of_their_own(folder: Path, tmp_path: Path, apart: bool) -> None:
    """None sees what another does meanwhile, the next one sees what all did, and the checkout has it at the end."""
    meets = f"pwd > {tmp_path}/{{0}}; echo {{0}} > {{0}}.txt; until test -e {tmp_path}/{{1}}; do sleep 0.05; done; ls"
    agents = agent("one", meets.format("one", "two")) + agent("two", meets.format("two", "one"))
    agents += agent("last", "ls > seen.txt; cat one.txt two.txt")
    outcome = run(flow(tmp_path / "t.at", agents, "one -> last\ntwo -> last"), apart=apart)

    assert outcome.status == "completed", outcome
    texts = {one.turn: one.text.split() for one in records(outcome.run, TurnFinished)}
    assert texts == {"one#1": ["a.txt", "one.txt"], "two#1": ["a.txt", "two.txt"], "last#1": ["one", "two"]}
    assert (folder / "seen.txt").read_text().split() == ["a.txt", "one.txt", "seen.txt", "two.txt"]
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "branch", "--format=%(refname:short)") == "main"
    assert git(folder, "worktree", "list").count("\n") == 0
    assert (tmp_path / "one").read_text() != (tmp_path / "two").read_text()
    made = {one.run for one in records(outcome.run, TreeMade)}
    assert made - {outcome.run} == {f"{outcome.run}/{name}#1" for name in ("one", "two", "last")}
    assert [one.argv for one in records(outcome.run, GateChecked)] == [("coterie", "worktree", "merge")] * 3


SOLVES = """if test -e tried; then
  git() { command git -c user.name=a -c user.email=a@b "$@"; }
  git merge -q "$(sed -n 's/.*git merge \\([0-9a-f]*\\)`.*/\\1/p')" || true
  echo both > a.txt; git add a.txt; git commit -qm solved
else echo two > a.txt; touch tried; fi"""


@pytest.mark.slow
def test_an_agent_whose_work_conflicts_is_asked_to_solve_it(folder: Path, tmp_path: Path) -> None:
    """Its next attempt has the same files, and a command that brings in what the others did."""
    script = f"touch {tmp_path}/began; until test -e {tmp_path}/done; do sleep 0.05; done; {SOLVES}"
    agents = (
        agent("one", f"until test -e {tmp_path}/began; do sleep 0.05; done; echo 1 > a.txt")
        + agent("first", f"touch {tmp_path}/done")
        + agent("two", script)
    )
    outcome = run(flow(tmp_path / "t.at", agents, "one -> first\ntwo"))

    assert outcome.status == "completed", outcome
    [failed] = records(outcome.run, AttemptFailed)
    assert (failed.turn, failed.kind) == ("two#1", "invalid_output")
    assert "`coterie worktree merge` failed: it and main changed the same places (a.txt): `git merge " in failed.reason
    assert (folder / "a.txt").read_text() == "both\n"
    assert git(folder, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.slow
def test_work_that_cannot_be_merged_stays_and_is_named(folder: Path, tmp_path: Path) -> None:
    """The flow goes on as `on-fail` says; the end of the run names the branch, and a command merges it later."""
    script = f"touch {tmp_path}/began; until test -e {tmp_path}/done; do sleep 0.05; done; echo two > a.txt"
    agents = agent("one", f"until test -e {tmp_path}/began; do sleep 0.05; done; echo 1 > a.txt") + agent(
        "first", f"touch {tmp_path}/done"
    )
    agents += agent("two", script, "isolation: worktree  on-fail: skip") + agent("last", "cat a.txt; echo 3 > b.txt")
    agents += agent("fails", "echo lost > c.txt; exit 1", "isolation: worktree  on-fail: skip")
    agents += agent("idle", "exit 1", "isolation: worktree  on-fail: skip")
    outcome = run(flow(tmp_path / "t.at", agents, "one -> first -> last\ntwo -> last\nfails -> last\nidle -> last"))

    assert outcome.status == "completed", outcome
    assert git(folder, "show", "HEAD:a.txt") == "1"
    [joined] = records(outcome.run, TreesJoined)
    kept = {one.turn: one for one in joined.kept}
    assert {name: one.reason for name, one in kept.items()} == {
        "two#1": "it and main changed the same places",
        "fails#1": "the turn did not complete",
    }
    assert git(folder, "show", f"{kept['fails#1'].branch}:c.txt") == "lost"
    assert f"when that is resolved: coterie worktree merge {outcome.run}/two#1" in outcome.notices
    assert len(list(worktree.trees(STATE))) == 6  # those that are gone are remembered
    assert sum(not tree.removed for tree in worktree.trees(STATE)) == 2


def test_gates_see_the_tree_of_the_turn_before_it_is_merged(folder: Path, tmp_path: Path) -> None:
    """What they refuse is not merged."""
    own = 'gates: [["grep", "-q", "good", "work.txt"]]'
    script = "test -e work.txt && echo good >> work.txt || echo bad > work.txt"
    outcome = run(flow(tmp_path / "t.at", agent("one", script, own=own), "one"))

    assert outcome.status == "completed", outcome
    checked = [(one.argv[0], one.passed) for one in records(outcome.run, GateChecked)]
    assert checked == [("grep", False), ("grep", True), ("coterie", True)]
    assert git(folder, "log", "--format=%s", "-1", "--", "work.txt").startswith("Merge run")
    assert (folder / "work.txt").read_text() == "bad\ngood\n"


def test_a_team_at_a_node_works_in_one_tree(folder: Path, tmp_path: Path) -> None:
    """Its agents share the tree of the node, which is merged once with the work of all."""
    inner = agent("a", "echo a > a1.txt", "") + agent("b", "cat a1.txt; pwd", "")
    flow(tmp_path / "inner.at", inner, "a -> b")
    team = 'agent team { isolation: worktree extensions { coterie { topology: "inner.at" } } }\n'
    outcome = run(flow(tmp_path / "t.at", team + agent("last", "ls", ""), "team -> last"))

    assert outcome.status == "completed", outcome
    texts = {one.turn: one.text for one in records(outcome.run, TurnFinished)}
    assert f"worktrees/{outcome.run}/team#1.1/tree" in texts["b#1"]
    assert texts["last#1"].split() == ["a.txt", "a1.txt"]


LATER_FIRST = """until test -e {0}/$((COTERIE_ITEM + 1)); do sleep 0.05; done
echo $COTERIE_ITEM > $COTERIE_ITEM.txt; ls; touch {0}/$COTERIE_ITEM; exit $((COTERIE_ITEM == 2))"""


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_items_of_a_set_work_in_trees_that_are_merged_in_their_order(folder: Path, tmp_path: Path, apart: bool) -> None:
    """No item sees what another does; one that failed is left out; the next node sees the work of all others."""
    (tmp_path / "4").touch()
    each = agent("each", LATER_FIRST.format(tmp_path), "isolation: worktree  on-fail: skip")
    arrows = "each [each input.numbers, at-most 3]\neach -> last"
    outcome = run(flow(tmp_path / "t.at", each + agent("last", "ls", ""), arrows), apart=apart, numbers=[1, 2, 3])

    assert outcome.status == "completed", outcome
    ended = {one.turn: one.text.split() for one in records(outcome.run, TurnFinished)}
    assert ended == {"each#1": ["1.txt", "a.txt"], "each#3": ["3.txt", "a.txt"], "last#1": ["1.txt", "3.txt", "a.txt"]}
    assert [one.turn for one in records(outcome.run, GateChecked)] == ["each#1", "each#3"]
    assert sorted(path.name for path in folder.glob("?.txt")) == ["1.txt", "3.txt", "a.txt"]


HELPED = """until test -e {0}/2 && test -e {0}/3; do sleep 0.05; done; echo helped > 1.txt; ls"""
READS = """test $COTERIE_ITEM != 1 || exit 1; echo $COTERIE_ITEM > $COTERIE_ITEM.txt; ls; touch {0}/$COTERIE_ITEM"""


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["", "append:11", "append:14", "append:17", "append:20"])
def test_the_work_of_a_fallback_is_merged_at_the_place_of_its_item(folder: Path, tmp_path: Path, kill: str) -> None:
    """The first item fails and its fallback ends last; the others, long done, wait for it, killed between or not."""
    each = agent("each", READS.format(tmp_path), "isolation: worktree  on-fail: fallback helper")
    helper = agent("helper", HELPED.format(tmp_path), "isolation: worktree  invocation: manual")
    file = flow(
        tmp_path / "t.at", each + helper + agent("last", "ls", ""), "each [each input.n, at-most 3]\neach -> last"
    )
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "index")}
    words = ["run", str(file), "--input", "n:=[1, 2, 3]", "--state-dir", str(STATE)]
    ended = preforked.run(*words, cwd=folder, env=env, **({"kill": kill} if kill else {}))
    if kill:
        assert ended.returncode == -9, ended.stderr
        ended = preforked.run("resume", "last", "--state-dir", str(STATE), cwd=folder, env=env)

    assert ended.returncode == 0, ended.stderr
    [run] = [path.name for path in (folder / STATE / "runs").iterdir() if path.is_dir()]
    merged = [one.turn for one in records(run, GateChecked) if one.passed]
    assert merged == ["helper#1", "each#2", "each#3"]
    answers = {one.turn: one.text.split() for one in records(run, TurnFinished)}
    assert answers["helper#1"] == ["1.txt", "a.txt"]
    assert answers["last#1"] == ["1.txt", "2.txt", "3.txt", "a.txt"]
    assert (folder / "1.txt").read_text() == "helped\n"
    assert git(folder, "worktree", "list").count("\n") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["append:9", "append:10", "append:13", "append:15"])
def test_a_killed_set_merges_each_item_once(folder: Path, tmp_path: Path, kill: str) -> None:
    """Also when a later item had its answer, but not yet its turn to be merged."""
    each = agent("each", "sleep 0.$((3 - COTERIE_ITEM)); echo $COTERIE_ITEM > all-$COTERIE_ITEM.txt")
    file = flow(
        tmp_path / "t.at", each + agent("last", "cat all-*.txt"), "each [each input.n, at-most 3]\neach -> last"
    )
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "index")}
    words = ["run", str(file), "--input", "n:=[1, 2, 3]", "--state-dir", str(STATE)]
    dead = preforked.run(*words, cwd=folder, env=env, kill=kill)
    assert dead.returncode == -9, dead.stderr
    ended = preforked.run("resume", "last", "--state-dir", str(STATE), cwd=folder, env=env)

    assert ended.returncode == 0, ended.stderr
    assert git(folder, "log", "--format=%s").count("Merge run") == 3
    assert [(folder / f"all-{n}.txt").read_text() for n in (1, 2, 3)] == ["1\n", "2\n", "3\n"]
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_an_item_whose_work_conflicts_with_an_earlier_one_solves_it(folder: Path, tmp_path: Path) -> None:
    """It is the later item, however fast it was."""
    script = f"""if test $COTERIE_ITEM = 1; then until test -e {tmp_path}/second; do sleep 0.05; done; echo 1 > a.txt
else touch {tmp_path}/second; {SOLVES}
fi"""
    outcome = run(flow(tmp_path / "t.at", agent("each", script), "each [each input.n, at-most 2]"), n=[1, 2])

    assert outcome.status == "completed", outcome
    assert [one.turn for one in records(outcome.run, AttemptFailed)] == ["each#2"]
    assert (folder / "a.txt").read_text() == "both\n"


def test_what_the_topology_says_of_work_trees_prepares_them(folder: Path, tmp_path: Path) -> None:
    """`worktree-copy` and `worktree-setup` apply to trees of turns and to that of the run."""
    put(folder, ".env", "KEY=1")
    own = 'worktree-copy: [".env"]  worktree-setup: [["sh", "-c", "echo ready > built.log"]]'
    team = flow(tmp_path / "t.at", agent("one", "cat .env built.log"), "one", own)
    for apart in (False, True):
        outcome = run(team, apart=apart)
        assert outcome.status == "completed", outcome
        assert [one.text for one in records(outcome.run, TurnFinished)] == ["KEY=1ready\n"]


def test_without_a_repository_or_a_commit_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run does not begin, so no agent changes files that it must not."""
    (where := tmp_path / "plain").mkdir()
    monkeypatch.chdir(where)
    team = flow(tmp_path / "t.at", agent("one", "touch here"), "one")
    with pytest.raises(UsageError, match="isolation: worktree needs a git work tree"):
        run(team)
    git(where, "init", "--quiet")
    with pytest.raises(UsageError, match="isolation: worktree needs a commit"):
        run(team)
    assert not (where / "here").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["append:5", "append:8", "append:9", "append:10", "append:11", "append:12"])
def test_a_killed_owner_leaves_each_turn_where_it_was(folder: Path, tmp_path: Path, kill: str) -> None:
    """The next owner finds the tree, gates and merges once, and what was merged is not merged again."""
    own = 'gates: [["test", "-e", "work.txt"]]'
    file = flow(
        tmp_path / "t.at", agent("one", "echo $PWD >> work.txt", own=own) + agent("last", "cat work.txt"), "one -> last"
    )
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "index")}
    dead = preforked.run("run", str(file), "go", "--state-dir", str(STATE), cwd=folder, env=env, kill=kill)
    assert dead.returncode == -9, dead.stderr
    ended = preforked.run("resume", "last", "--state-dir", str(STATE), cwd=folder, env=env)

    assert ended.returncode == 0, ended.stderr
    assert git(folder, "log", "--format=%s").count("Merge run") == 1
    assert "/one#1/tree" in (folder / "work.txt").read_text()
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "branch", "--format=%(refname:short)") == "main"
    assert git(folder, "worktree", "list").count("\n") == 0


def killed_flow(folder: Path, seed: int) -> int:
    """Kill a flow with turns side by side at random, and its successors; returns how often that was."""
    dice, kills = random.Random(seed), 0
    checkout = repository(folder / "r", **{"__gitignore": ".autoloop\n"})
    prepare(folder)
    own = f"{shutil.which('git')} -c user.name=a -c user.email=a@b"  # the other git would kill the agent's shell
    writes = f"echo {{0}} > {{0}}.txt; {own} add . && {own} commit -qm {{0}}; echo {{0}} > {{0}}.more"
    agents = "".join(agent(name, writes.format(name)) for name in ("one", "two"))
    file = flow(folder / "t.at", agents + agent("last", "cat one.txt two.txt > both.txt"), "one -> last\ntwo -> last")

    def go_on(kill: str = "") -> subprocess.CompletedProcess[str]:
        """Begin the run, or resume it; what a run left that never began is cleared."""
        begun = [one for one in (checkout / STATE / "runs").glob("*/journal.jsonl") if one.stat().st_size]
        if not begun:
            coterie(folder, checkout, "worktree", "clean", "--state-dir", str(STATE))
        words = ["resume", "last"] if begun else ["run", str(file), "go", *(["--worktree"] if seed % 2 else [])]
        return coterie(folder, checkout, *words, "--state-dir", str(STATE), kill=kill)

    for _ in range(4):
        how, most = dice.choice((("append", 30), ("before", 110), ("after", 110)))
        ended = go_on(f"{how}:{dice.randint(1, most)}" + (":" if how != "append" else ""))
        kills += ended.returncode == -9
        if ended.returncode == 0 or kills == 2:  # three crashes in a row end a turn
            break
        assert ended.returncode == -9, (seed, ended.stderr)
    ended = go_on() if ended.returncode else ended
    assert ended.returncode == 0, (seed, ended.stdout, ended.stderr)
    texts = {"one.txt": "one\n", "two.txt": "two\n", "one.more": "one\n", "two.more": "two\n", "both.txt": "one\ntwo\n"}
    assert {name: (checkout / name).read_text() for name in texts} == texts, seed
    assert git(checkout, "status", "--porcelain") == "", seed
    assert git(checkout, "branch", "--format=%(refname:short)") == "main", seed
    assert git(checkout, "worktree", "list").count("\n") == 0, seed
    return kills


@pytest.mark.slow
def test_a_flow_that_is_killed_at_random_merges_each_turn_once(tmp_path: Path) -> None:
    """Twice in a row, too: every turn's work is merged, once, and nothing is left over."""
    assert killed_flow(tmp_path, 3)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_a_flow_that_is_killed_five_hundred_times(tmp_path: Path, part: int) -> None:
    """25 kills in each part."""
    kills = 0
    for seed in count(1000 * part):
        (folder := tmp_path / str(seed)).mkdir()
        kills += killed_flow(folder, seed)
        if kills >= 25:
            break
