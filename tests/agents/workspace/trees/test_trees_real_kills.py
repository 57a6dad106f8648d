"""Real processes, really killed: a loop in its own work tree with a wave, SIGKILL at calls of git and at appends.

One kill by default, those that found most with `-m slow`; `-m long` adds every append, every fifth call of git and 200
random kills; with `COTERIE_EVERY_KILL=1` it is every call.
"""

import json
import os
import random
import subprocess
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from git_killer import coterie, prepare
from repositories import git, repository

pytestmark = pytest.mark.once

APPENDS = 54
"""Appends of the uncrashed run, those of its branches included."""
CALLS = 280
"""Calls of git by the uncrashed run, at least: files as new as the look at them are looked at again."""
EVERY = bool(os.environ.get("COTERIE_EVERY_KILL"))


def sampled(where: object, often: bool) -> object:
    """The kill at the place *where*, which is marked `long` unless it is played *often*."""
    return pytest.param(where, marks=pytest.mark.slow if often else pytest.mark.long)


TOPOLOGY = """
name = "killed"
completion = "task.complete"
[[role]]
id = "planner"
emits = ["tasks.ready", "task.complete"]
prompt = "You are the planner."
[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["planner"]
"""
SETTINGS = """
event_loop.max_iterations = 20
backend.kind = "command"
backend.command = "{here}/agent.sh"
backend.prompt_mode = "stdin"
parallel.enabled = true
review.enabled = false
worktree.enabled = true
notify.command = ["{here}/notify.sh"]
"""
AGENT = """#!/bin/sh
# Writes a file where it works, emits what its turn is there for.
cat >/dev/null
echo "$COTERIE_RUN/$COTERIE_TURN $COTERIE_ATTEMPT $$" >>{here}/ledger
emit() { "$AUTOLOOP_BIN" emit "$@" >/dev/null 2>&1; }
case "$COTERIE_RUN/$COTERIE_TURN" in
  */wave-1.1*) echo left >left.txt ;;
  */wave-1.2*) test -f first.txt && echo right >right.txt ;;
  */iteration#1) echo first >first.txt; emit explore.parallel '- left
- right' ;;
  */iteration#2) cat left.txt right.txt >both.txt; emit task.complete ;;
esac
"""
NOTIFY = """#!/bin/sh
cat >>{here}/notified
echo >>{here}/notified
"""
WORK = {"first.txt": "first\n", "left.txt": "left\n", "right.txt": "right\n", "both.txt": "left\nright\n"}


class Stage:
    """A repository, and beside it a loop that works on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = repository(folder / "r")
        (folder / "loop").mkdir()
        prepare(folder)
        texts = {"loop/topology.toml": TOPOLOGY, "loop/autoloops.toml": SETTINGS}
        for name, text in (texts | {"agent.sh": AGENT, "notify.sh": NOTIFY}).items():
            (folder / name).write_text(text.replace("{here}", str(folder)))
            (folder / name).chmod(0o755)
        for name in ("ledger", "notified"):
            (folder / name).touch()

    def coterie(self, *words: str, kill: str = "") -> subprocess.CompletedProcess[str]:
        """Call coterie; see `git_killer.coterie`."""
        return coterie(self.folder, self.checkout, *words, kill=kill)

    def finish(self) -> None:
        """Resume the run to its end; one that was killed before its first record is cleared and started anew."""
        ended = self.coterie("resume", "last")
        if "no run was started" in ended.stderr or "never began" in ended.stderr:
            listed = self.coterie("worktree", "list", "--json")
            self.coterie("worktree", "clean")
            assert not any(Path(one["path"]).exists() for one in json.loads(listed.stdout or "[]"))
            self.check_clear()
            ended = self.coterie("run", "../loop", "go")
        assert ended.returncode == 0 or "has completed" in ended.stderr, (ended.returncode, ended.stdout, ended.stderr)
        self.check()

    def journals(self) -> dict[str, list[dict[str, object]]]:
        """The records of each run, by run."""
        found = {}
        for path in sorted(self.checkout.glob(".autoloop/runs/**/journal.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            if records := [line for line in lines if line["topic"] != "text"]:
                found[str(records[0]["run"])] = records
        return found

    def check(self) -> None:
        """All work is merged, the end was notified, nothing that had its result ran again, and nothing is left over."""
        assert {name: (self.checkout / name).read_text() for name in WORK} == WORK
        logs = self.journals()
        [records] = [log for run, log in logs.items() if "/" not in run]
        assert (records[-1]["topic"], records[-1]["outcome"]) == ("run.finished", "completed")
        topics = Counter(str(record["topic"]) for record in records)
        steps = ("tree.merged", "tree.cleared", "run.notified", "trees.joined", "run.finished")
        assert [topics[step] for step in steps] == [1] * 5
        assert topics["tree.made"] == 3
        assert git(self.checkout, "log", "--format=%s").count("Merge run") == 1
        told = [json.loads(line) for line in (self.folder / "notified").read_text().split("\n") if line]
        assert [one["status"] for one in told[-1:]] == ["completed"]
        assert told[-1]["worktree"]["status"] == "merged"
        ran = Counter(line.split()[0] for line in (self.folder / "ledger").read_text().splitlines())
        cut = Counter(
            f"{run}/{r['turn']}" for run, log in logs.items() for r in log if r["topic"] == "attempt.interrupted"
        )
        assert len(ran) == 4
        assert all(times <= 1 + cut[turn] for turn, times in ran.items()), "a turn whose result was durable ran again"
        self.check_clear()

    def check_clear(self) -> None:
        """No work tree, no branch and no lock is left over, and the checkout has no changes."""
        assert git(self.checkout, "worktree", "list").count("\n") == 0
        assert git(self.checkout, "branch", "--format=%(refname:short)") == "main"
        assert git(self.checkout, "status", "--porcelain") == ""
        locks = {path.name for path in (self.checkout / ".git").rglob("*.lock")}
        assert locks <= {"coterie.lock"}
        assert not list(self.checkout.glob(".autoloop/worktrees/**/tree"))


def kill(stage: Stage, where: str) -> None:
    """Kill a run there, and have the next owner finish it."""
    dead = stage.coterie("run", "../loop", "go", kill=where)
    assert dead.returncode == -9, (dead.returncode, dead.stdout, dead.stderr)
    stage.finish()


def kill_at_random(stage: Stage, seed: int) -> int:
    """Kill a run and owners that resume it, twice if it lasts so long; how often that was."""
    dice, kills = random.Random(seed), 0
    for tries in range(1, 6):
        how, most = dice.choice((("append", APPENDS), ("before", CALLS), ("after", CALLS)))
        where = f"{how}:{dice.randint(1, most // tries)}" + (":" if how != "append" else "")
        words = ("run", "../loop", "go") if tries == 1 else ("resume", "last")
        kills += stage.coterie(*words, kill=where).returncode == -9
        if kills == 2:
            break
    stage.finish()
    return kills


@pytest.mark.slow
def test_the_loop_as_it_is_meant_to_be(tmp_path: Path) -> None:
    """Uncrashed: this is what the killed runs are compared with."""
    stage = Stage(tmp_path)
    ended = stage.coterie("run", "../loop", "go", kill="counted")

    assert ended.returncode == 0, ended.stderr
    stage.check()
    assert sum(map(len, stage.journals().values())) == APPENDS
    assert CALLS <= len((tmp_path / "calls").read_text().splitlines()) < CALLS + 50


@pytest.mark.parametrize("n", [37, *(sampled(n, n % 18 == 1) for n in range(1, APPENDS) if n != 37)])
def test_killed_after_an_append(tmp_path: Path, n: int) -> None:
    """Resumed, the run ends as if nothing had been."""
    kill(Stage(tmp_path), f"append:{n}")


@pytest.mark.parametrize("n", [sampled(n, n % 2 == 1) for n in range(APPENDS - 4, APPENDS)])
def test_killed_between_its_completion_and_its_end(tmp_path: Path, n: int) -> None:
    """Merging, clearing and notifying are done by the next owner, who starts no agent."""
    kill(Stage(tmp_path), f"append:{n}")


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("n", [sampled(n, n == 1) for n in range(1, CALLS + 1, 1 if EVERY else 5)])
def test_killed_at_every_call_of_git(tmp_path: Path, how: str, n: int) -> None:
    """Whether git did its work before, or does it while its caller is dead."""
    kill(Stage(tmp_path), f"{how}:{n}:")


@pytest.mark.parametrize(
    "where",
    [
        *(
            sampled(where, True)
            for where in (
                *("after:1:worktree add", "before:2:worktree add", "after:1:update-ref"),
                *("before:3:merge --ff-only", "after:3:merge --ff-only", "after:3:worktree remove"),
            )
        ),
        *(
            sampled(where, False)
            for where in (
                *("before:1:worktree add", "after:2:worktree add", "after:1:merge --ff-only"),
                *("after:1:worktree remove", "before:3:worktree remove", "after:3:update-ref -d"),
            )
        ),
    ],
)
def test_killed_at_a_call_of_git_that_changes_something(tmp_path: Path, where: str) -> None:
    """The first and third are of the loop's own work tree, the second is of a branch."""
    kill(Stage(tmp_path), where)


@pytest.mark.parametrize("seed", [sampled(seed, seed < 3) for seed in range(6)])
def test_killed_at_random(tmp_path: Path, seed: int) -> None:
    """Twice, of which the second may hit the owner that finishes what the first kill left."""
    kill_at_random(Stage(tmp_path), seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_killed_at_random_two_hundred_times(tmp_path: Path, part: int) -> None:
    """25 times in each part: nothing is lost, and no work tree, branch or lock is left over."""
    kills = 0
    for seed in count(1000 * (part + 1)):
        (folder := tmp_path / str(seed)).mkdir()
        kills += kill_at_random(Stage(folder), seed)
        if kills >= 25:
            break
