"""Real processes, really killed: a team three deep is called off, SIGKILL after every append, resumed."""

import os
from pathlib import Path

import preforked
import pytest
from nests import how_it_ends

from coterie.history.journal.jsonl import JsonlStore

APPENDS = 28
"""Appends of the run that nobody kills; the last ones call the team off."""
LEAF = """#!/bin/sh
# Works for a minute, with a process in a session of its own, once the sibling of its team may fail.
cat >/dev/null
setsid sleep 60 &
echo go >started
sleep 60
"""
BAD = """#!/bin/sh
cat >/dev/null
[ "$COTERIE_ATTEMPT" -gt 1 ] || cat started
exit 1
"""
ROOT = """
topology root : [pipeline, fan-out] {
  agent begin { model: any extensions { coterie { command: ["echo", "begin"] } } }
  agent sub { extensions { coterie { topology: "two.at" } } }
  agent bad { model: any extensions { coterie { command: ["{here}/bad.sh"] } } }
  flow { begin -> [sub, bad] }
}
"""
TEAM = """
topology team : [pipeline] {
  agent one { AGENT }
  agent end { model: any extensions { coterie { command: ["echo", "end"] } } }
  flow { one -> end }
}
"""


def make_team(folder: Path) -> None:
    (folder / "root.at").write_text(ROOT)
    nodes = {f"{below}.at": f'extensions {{ coterie {{ topology: "{below}.at" }} }}' for below in ("three", "leaf")}
    for name, node in zip(("two.at", "three.at"), nodes.values(), strict=True):
        (folder / name).write_text(TEAM.replace("AGENT", node))
    command = 'model: any extensions { coterie { command: ["{here}/leaf.sh"] } }'
    (folder / "leaf.at").write_text(TEAM.replace("AGENT", command))
    for name, text in (("leaf.sh", LEAF), ("bad.sh", BAD)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    os.mkfifo(folder / "started")


def journals(folder: Path) -> dict[str, list[object]]:
    """The records of every run of the tree."""
    store = JsonlStore(folder / ".coterie")
    [run] = store.list()
    runs = [run, *(f"{run}/sub#1.1{below}" for below in ("", "/one#1.1", "/one#1.1/one#1.1"))]
    return {one: list(store.read(one)) for one in runs}


def marked(folder: Path) -> list[str]:
    """The processes that an attempt of a run in *folder* left."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"COTERIE_ATTEMPT_ID=" in environment and os.fsencode(folder) in environment:
            found.append(pid)
    return found


def check_end(folder: Path) -> None:
    """The run has failed, every run below it was called off, and no process is left."""
    root, *teams = [how_it_ends(log) for log in journals(folder).values()]  # type: ignore[arg-type]
    assert root == "failed"
    assert teams == ["cancelled"] * 3
    assert marked(folder) == []


def test_nobody_kills_it(tmp_path: Path) -> None:
    """A failure beside the team ends all of it, and the exit status says what the journal says."""
    make_team(tmp_path)
    ended = preforked.run("run", "root.at", "go", cwd=tmp_path)

    assert ended.returncode == 1, ended.stderr
    check_end(tmp_path)
    assert sum(len(log) for log in journals(tmp_path).values()) == APPENDS


@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=() if n % 2 else pytest.mark.long) for n in range(APPENDS - 12, APPENDS)]
)
def test_killed_while_it_calls_the_team_off(tmp_path: Path, n: int) -> None:
    """The next owner ends what the dead one had begun to end, grandchildren included, and what they left alive."""
    make_team(tmp_path)
    dead = preforked.run("run", "root.at", "go", cwd=tmp_path, kill=f"append:{n}")
    assert dead.returncode == -9, (dead.returncode, dead.stderr)
    ended = preforked.run("resume", "last", cwd=tmp_path)

    assert ended.returncode == 1, (ended.returncode, ended.stderr)
    check_end(tmp_path)
