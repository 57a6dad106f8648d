"""Real processes, really killed: a loop of ten iterations with a review and a wave, SIGKILL after appends, resumed.

Every thirty-sixth append; the others with `-m long`.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path

import preforked
import pytest

APPENDS = 91
"""Appends of the uncrashed run, those of its branches included."""
STRIDE = 36
"""All others are marked `long`."""
TOPOLOGY = """
name = "killed"
completion = "task.complete"
[[role]]
id = "planner"
emits = ["tasks.ready", "task.complete"]
prompt = "You are the planner."
[[role]]
id = "builder"
emits = ["review.ready"]
prompt = "You are the builder."
[[role]]
id = "critic"
emits = ["review.passed", "review.rejected"]
prompt = "You are the critic."
[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder"]
"review.passed" = ["planner"]
"""
SETTINGS = """
event_loop.max_iterations = 20
event_loop.required_events = ["review.passed"]
backend.kind = "command"
backend.command = "{here}/agent.sh"
backend.prompt_mode = "stdin"
parallel.enabled = true
review.every_iterations = 5
"""
AGENT = """#!/bin/sh
# Writes down that it ran, emits what its turn is there for, and says something.
cat >/dev/null
echo "$COTERIE_RUN/$COTERIE_TURN $COTERIE_ATTEMPT $$" >>ledger
emit() { "$AUTOLOOP_BIN" emit "$@" >/dev/null 2>&1 || echo "$COTERIE_TURN was refused $1" >>refused; }
case "$COTERIE_RUN/$COTERIE_TURN" in
  */wave-*) ;;
  */review#*) ;;
  */iteration#1|*/iteration#7) emit tasks.ready ;;
  */iteration#2|*/iteration#4|*/iteration#8) emit review.ready ;;
  */iteration#3) emit review.rejected ;;
  */iteration#5|*/iteration#9) emit review.passed ;;
  */iteration#6) emit explore.parallel '- left
- right' ;;
  */iteration#10) emit task.complete ;;
esac
echo "result of $COTERIE_TURN"
"""
POSITIONS = [
    *("loop.start", "tasks.ready", "review.ready", "review.rejected", "review.ready", "review.passed"),
    *("review.passed", "tasks.ready", "review.ready", "review.passed"),
]


def make_loop(folder: Path) -> None:
    project = folder / "loop"
    project.mkdir()
    (project / "topology.toml").write_text(TOPOLOGY)
    (project / "autoloops.toml").write_text(SETTINGS.replace("{here}", str(folder)))
    (folder / "agent.sh").write_text(AGENT)
    (folder / "agent.sh").chmod(0o755)
    (folder / "ledger").touch()


def coterie(folder: Path, *args: str, kill: str = "") -> subprocess.CompletedProcess[str]:
    return preforked.run(*args, cwd=folder, kill=kill)


def journals(folder: Path) -> dict[str, list[dict[str, object]]]:
    """The records of the run and of its branches, by folder."""
    found = {}
    for path in sorted(folder.glob(".autoloop/runs/**/journal.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.parent.name] = [line for line in lines if line["topic"] != "text"]
    return found


def check_end(folder: Path) -> None:
    """Ten iterations, each begun once, where they should be; one review, one wave; nothing finished ran again."""
    logs = journals(folder)
    [records] = [log for log in logs.values() if log[0].get("parent", "") == ""]
    assert (records[-1]["outcome"], records[-1]["reason"]) == ("completed", "completion_event")
    began = [r for r in records if r["topic"] == "iteration.start"]
    assert [r["n"] for r in began] == list(range(1, 11))
    assert [r["event"] for r in began] == POSITIONS
    topics = Counter(str(r["topic"]) for r in records)
    assert topics["wave.start"] == topics["wave.join"] == 1
    assert not (folder / "refused").exists() or set((folder / "refused").read_text().split("\n")) <= {
        "iteration#6 was refused explore.parallel",  # it had opened its wave before it was cut off
        "",
    }
    ran = Counter(line.split()[0] for line in (folder / "ledger").read_text().splitlines())
    cut = Counter[str]()
    for log in logs.values():
        run = log[0]["run"]
        cut.update(f"{run}/{r['turn']}" for r in log if r["topic"] == "attempt.interrupted")
    [joined] = folder.glob(".autoloop/waves/*/join.md")
    assert "## Branch 2: right" in joined.read_text()
    assert {path.name for path in joined.parent.glob("branch-2/*")} == {
        *("objective.md", "result.md", "log.txt", "journal.jsonl")
    }
    assert len(ran) == 13
    assert all(times <= 1 + cut[turn] for turn, times in ran.items()), "a turn whose receipt was durable ran again"
    assert len(logs) == 3, "a branch was begun anew"


def test_the_loop_as_it_is_meant_to_be(tmp_path: Path) -> None:
    """Uncrashed: this is what the killed runs are compared with."""
    make_loop(tmp_path)
    ended = coterie(tmp_path, "run", "loop", "go")

    assert ended.returncode == 0, ended.stderr
    check_end(tmp_path)
    assert sum(map(len, journals(tmp_path).values())) == APPENDS


@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=() if n % STRIDE == 3 else pytest.mark.long) for n in range(3, APPENDS)]
)
def test_killed_and_resumed(tmp_path: Path, n: int) -> None:
    """Killed after its n-th append: resumed, it ends as if nothing had been."""
    make_loop(tmp_path)
    dead = coterie(tmp_path, "run", "loop", "go", kill=f"append:{n}")
    assert dead.returncode == -9, (dead.returncode, dead.stderr)

    ended = coterie(tmp_path, "resume", "last")
    assert ended.returncode == 0 or "has completed" in ended.stderr, ended.stderr
    check_end(tmp_path)


def test_killed_many_times_in_a_row(tmp_path: Path) -> None:
    """Every owner is killed after two dozen appends; the run gets there all the same."""
    make_loop(tmp_path)
    coterie(tmp_path, "run", "loop", "go", kill="append:24")
    for _ in range(30):
        if coterie(tmp_path, "resume", "last", kill="append:24").returncode != -9:
            break
    check_end(tmp_path)
