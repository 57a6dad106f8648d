"""Real processes, really killed: a flow of 13 turns, SIGKILL after every append and after every sync, resumed."""

import json
import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import preforked
import pytest

from coterie.history.journal.jsonl import JsonlStore

APPENDS = 42
"""Appends of the uncrashed run: three a turn, and three of the run itself."""
KILLS = [
    *(pytest.param(f"append:{n}", marks=() if n % 8 == 1 else pytest.mark.long) for n in range(1, APPENDS)),
    *(f"sync:{n}" for n in range(1, 24, 8)),
    *(f"begin:{n}" for n in (1, 3, 9)),
]
AGENT = r"""#!/bin/sh
# Writes down that it ran; an earlier attempt of its turn must be dead by now. Orphaned, it would work on for a minute.
cat >/dev/null
old=$(sed -n "s/^$COTERIE_TURN [0-9]* \([0-9]*\) .*/\1/p" ledger)
for pid in $old; do
  state=$(ps -o stat= -p "$pid")
  case "$state" in ""|Z*) ;; *) echo "$COTERIE_TURN ALIVE $pid" >>ledger ;; esac
done
echo "$COTERIE_TURN $COTERIE_ATTEMPT $$ $COTERIE_INTERRUPTED" >>ledger
sleep 0.03
kill -0 "$PPID" 2>/dev/null || { setsid sleep 60; }
case $COTERIE_TURN in
  review#1) echo 'verdict: revise' ;;
  review*) echo 'verdict: approve' ;;
  *) echo "result of $COTERIE_TURN" ;;
esac
"""
TEAM = """
topology killed : [pipeline, fan-out] {
  extensions { coterie { command: ["{here}/agent.sh"] } }
  agent plan { model: any }
  agent left { model: any }
  agent middle { model: any }
  agent right { model: any }
  agent deep { model: any }
  agent join { model: any }
  agent write { model: any }
  agent review { model: any outputs: { verdict: approve | revise } }
  agent publish { model: any }
  agent tell { model: any }
  agent archive { model: any }
  flow {
    plan -> [left, middle, right]
    left -> deep
    [deep, middle, right] -> join -> write -> review
    review -> write [when review.verdict == revise, max 2]
    review -> publish [when review.verdict == approve]
    publish -> [tell, archive]
  }
}
"""
TURNS = [
    *("plan#1", "left#1", "middle#1", "right#1", "deep#1", "join#1", "write#1", "review#1", "write#2", "review#2"),
    *("publish#1", "tell#1", "archive#1"),
]


def make_team(folder: Path) -> None:
    (folder / "team.at").write_text(TEAM)
    (folder / "agent.sh").write_text(AGENT)
    (folder / "agent.sh").chmod(0o755)
    (folder / "ledger").touch()


def coterie(folder: Path, *args: str, kill: str = "") -> subprocess.CompletedProcess[str]:
    return preforked.run(*args, cwd=folder, kill=kill)


def journal(folder: Path) -> list[dict[str, object]]:
    [path] = folder.glob(".coterie/runs/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_end(folder: Path) -> None:
    """The run has completed; finished turns ran once, the one in flight at most twice, and no orphan was met."""
    records = journal(folder)
    assert records[-1]["topic"] == "run.finished"
    assert records[-1]["outcome"] == "completed"
    assert sorted(str(r["turn"]) for r in records if r["topic"] == "turn.finished") == sorted(TURNS)
    ledger = [line.split() for line in (folder / "ledger").read_text().splitlines()]
    assert not [line for line in ledger if line[1] == "ALIVE"]
    ran = Counter(line[0] for line in ledger)
    assert set(ran) == set(TURNS)
    cut = Counter(str(r["turn"]) for r in records if r["topic"] == "attempt.interrupted")
    assert all(ran[turn] <= 1 + cut[turn] for turn in TURNS), "a turn whose receipt was durable ran again"
    assert all(ran[turn] <= 2 for turn in TURNS)
    assert all(line[3] == str(int(line[1]) - 1) for line in ledger), "a second attempt was not told of the first"


def test_the_run_as_it_is_meant_to_be(tmp_path: Path) -> None:
    """Uncrashed, every turn runs once; this is what the killed runs are compared with."""
    make_team(tmp_path)
    ended = coterie(tmp_path, "run", "team.at", "go")

    assert ended.returncode == 0, ended.stderr
    check_end(tmp_path)
    records = [r for r in journal(tmp_path) if r["topic"] != "text"]
    assert len(records) == APPENDS
    assert len((tmp_path / "ledger").read_text().splitlines()) == len(TURNS)


@pytest.mark.parametrize("kill", KILLS)
def test_killed_and_resumed(tmp_path: Path, kill: str) -> None:
    """Killed at any append, with the unsynced tail lost, or at a sync, or while the disk works: the same end.

    Nothing that was finished is done again.
    """
    make_team(tmp_path)
    dead = coterie(tmp_path, "run", "team.at", "go", kill=kill)
    assert dead.returncode == -9, (dead.returncode, dead.stderr)
    begun = list(tmp_path.glob(".coterie/runs/*/journal.jsonl"))
    if not any(list(JsonlStore(tmp_path / ".coterie").read(path.parent.name)) for path in begun):
        refused = coterie(tmp_path, "resume", "last")
        assert refused.returncode == 1
        assert ("never began" if begun else "no run was started") in refused.stderr
        return

    ended = coterie(tmp_path, "resume", "last")
    assert ended.returncode == 0 or "has completed" in ended.stderr, ended.stderr
    check_end(tmp_path)


def test_killed_many_times_in_a_row(tmp_path: Path) -> None:
    """Every owner is killed after a few appends; the run gets there all the same."""
    make_team(tmp_path)
    coterie(tmp_path, "run", "team.at", "go", kill="append:16")
    for _ in range(12):
        ended = coterie(tmp_path, "resume", "last", kill="append:16")
        if ended.returncode == 0:
            break
    if ended.returncode != 0:
        ended = coterie(tmp_path, "resume", "last")
    assert ended.returncode == 0, ended.stderr
    assert journal(tmp_path)[-1]["outcome"] == "completed"


def test_two_processes_resume_at_once(tmp_path: Path) -> None:
    """One owns the run, the other is refused and says why; nothing runs twice."""
    make_team(tmp_path)
    coterie(tmp_path, "run", "team.at", "go", kill="append:12")
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: coterie(tmp_path, "resume", "last"), range(2)))

    refused = [one.stderr for one in both if one.returncode != 0]
    assert len(refused) == 1, both
    assert "owned by a living process" in refused[0] or "has completed" in refused[0]
    assert "Traceback" not in refused[0]
    check_end(tmp_path)


def test_a_resumed_run_kills_what_is_left_of_the_old_one(tmp_path: Path) -> None:
    """The orphan works on for a minute and has left its process group; the resume ends it before it asks again."""
    make_team(tmp_path)
    coterie(tmp_path, "run", "team.at", "go", kill="append:8")
    ended = coterie(tmp_path, "resume", "last")

    assert ended.returncode == 0, ended.stderr
    [run] = [path.name for path in (tmp_path / ".coterie" / "runs").iterdir()]
    mark = f"COTERIE_ATTEMPT_ID={run}/".encode()
    for pid in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if pid.isdigit():
            try:
                assert mark not in Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
