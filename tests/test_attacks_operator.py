"""An agent acts as the operator of runs that it did not begin: from another run, and from a run inside its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import preforked
import pytest

from coterie.execution.runs.repository import Runs, find
from coterie.history.journal import records as r

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process without its environment is unknown")

PARKED = """
topology parked : [pipeline] {
  human boss { outputs { verdict: approve | revise } }
  agent deploy { extensions { coterie { command: ["touch", "deployed"] } } }
  flow { boss -> deploy [when boss.verdict == "approve"] }
}
"""
ATTACK = """
topology attack : [pipeline] {
  agent attacker { extensions { coterie { command: ["{python}", "{here}/attacker.py"] } } }
  flow { attacker }
}
"""
NESTED = ATTACK.replace("attacker.py", "outer.py")
OUTER = f"""
import os, subprocess, sys
subprocess.run([{sys.executable!r}, "-m", "coterie", "run", "attack.at"], check=True)
"""
ATTACKER = """
import contextlib, io, json, os, pathlib, sys
DAEMON, COMMANDS = {daemon!r}, {commands!r}
left, right = os.pipe()
if DAEMON:
    os.set_inheritable(right, True)
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execve(sys.executable, [sys.executable, __file__, "again"], {{"PATH": os.environ["PATH"]}})
        os._exit(0)
    os.close(right)
    os.read(left, 1)
    sys.exit()
""".replace("if DAEMON:", "if DAEMON and sys.argv[1:] != ['again']:")
CALLS = """
from coterie.interfaces.cli.app import main
said = []
for words in COMMANDS:
    words = [pathlib.Path(word[1:]).read_text() if word.startswith("@") else word for word in words]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        status = main(words)
    said.append((words, status, shown.getvalue()))
pathlib.Path("said").write_text(json.dumps(said))
"""
CHANGES = (
    ("control", "respond", "parked", "--output", "verdict=approve", "go"),
    ("control", "respond", "parked", "boss#1", "verdict: approve"),
    ("control", "guide", "parked", "hurry"),
    ("control", "interrupt", "parked"),
    ("attention", "parked", "verdict: approve"),
    ("emit", "done", "--run", "parked"),
    ("task", "add", "x", "--run", "parked"),
    ("memory", "add", "learning", "x", "--run", "parked"),
    ("resume", "parked"),
    ("fork", "parked"),
    ("runs", "rm", "parked"),
    ("worktree", "clean"),
    ("state", "clear", "--force"),
    ("state", "migrate", "a.db", "b.db", "--execute"),
    ("state", "rebuild"),
    ("state", "letters", "1", "--drop"),
    ("cluster", "releases", "set", "1.0", "--cluster", "temporal://127.0.0.1:9/default"),
    ("config", "set", "backend.sandbox=off", "--preset", "research", "--repo"),
    ("config", "unset", "backend.sandbox", "--preset", "research", "--repo"),
)
READS = (("inspect", "parked"), ("runs",), ("attention",), ("worktree", "list"), ("config", "show"))


class Attacked:
    """A folder in which a run is parked at its gate, and another one attacks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"parked": PARKED, "attack": ATTACK, "nested": NESTED}.items():
            (folder / f"{name}.at").write_text(text)
        (folder / "outer.py").write_text(OUTER)
        self.call("run", "parked.at", status=4)
        _, self.run = find("last", folder / ".coterie")

    def call(self, *words: str, status: int = 0) -> None:
        done = preforked.run(*words, cwd=self.folder)
        assert done.returncode == status, done.stdout + done.stderr

    def attack(
        self, team: str, commands: Any, *, daemon: bool = True, status: int = 0
    ) -> list[tuple[tuple[str, ...], int, str]]:
        """Run *team*, whose agent calls *commands*; each with its status and what it printed.

        With *daemon* the process that calls has no parent, no environment, and a session of its own.
        """
        commands = [tuple(self.run if word == "parked" else word for word in words) for words in commands]
        attacker = ATTACKER.format(daemon=daemon, commands=commands) + CALLS
        (self.folder / "attacker.py").write_text(attacker)
        self.call("run", f"{team}.at", status=status)
        return [(tuple(words), status, said) for words, status, said in json.loads(self.text("said"))]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def state(self) -> tuple[bytes, list[str]]:
        folder = self.folder / ".coterie/runs" / self.run
        return (folder / "journal.jsonl").read_bytes(), sorted(os.listdir(folder / "inbox"))


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    return Attacked(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("team", "daemon"),
    [
        ("attack", False),
        pytest.param("attack", True, marks=ON_LINUX),
        pytest.param("nested", True, marks=ON_LINUX),
    ],
)
def test_an_agent_changes_what_another_run_or_the_operator_owns(attacked: Attacked, team: str, daemon: bool) -> None:
    """Of a run that waits without an owner; every command is refused, and nothing is changed. Reading is not."""
    before = attacked.state()
    said = attacked.attack(team, [*CHANGES, *READS], daemon=daemon)
    refused = [words for words, status, text in said if status and "an agent is not the operator" in text]

    assert refused == [words for words, _, _ in said[: len(CHANGES)]], said
    assert [status for _, status, _ in said[len(CHANGES) :]] == [0] * len(READS)
    assert attacked.state() == before
    attacked.call("control", "respond", attacked.run, "--output", "verdict=approve", "go")
    attacked.call("resume", attacked.run)
    assert (attacked.folder / "deployed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [False, pytest.param(True, marks=ON_LINUX)])
def test_an_agent_may_do_everything_to_runs_that_it_began(attacked: Attacked, daemon: bool) -> None:
    """They are recorded as the agent's, of that run and of its fork; the operator may do it too."""
    commands = [
        ("run", "parked.at"),
        ("control", "respond", "last", "verdict: approve"),
        ("resume", "last"),
        ("fork", "last", "--at", "3"),
        ("control", "respond", "last", "verdict: revise"),
    ]
    said = attacked.attack("attack", commands, daemon=daemon)
    runs = Runs(attacked.folder / ".coterie")
    begun = {bool(first.forked_from): run for run in runs.list() if (first := runs.first(run)).begun_by}

    assert [status for _, status, _ in said] == [4, 0, 0, 4, 0], said
    assert [one.source for one in runs.read(begun[False]) if isinstance(one, r.TurnFinished)] == ["agent", "agent"]
    assert [len(runs.first(run).begun_by) for run in begun.values()] == [1, 1]
    attacked.call("resume", begun[True])
    attacked.call("runs", "rm", begun[True])


@ON_LINUX
@pytest.mark.slow
def test_an_agent_of_a_nested_run_answers_the_run_around_it(attacked: Attacked) -> None:
    """Also the run that began its own is not its own."""
    team = "human boss { outputs { verdict: approve | revise } }\n  flow { [boss, attacker] }"
    (attacked.folder / "live.at").write_text(NESTED.replace("flow { attacker }", team))
    (attacked.folder / "outer.py").write_text("import os\nopen('run', 'w').write(os.environ['COTERIE_RUN'])\n" + OUTER)
    [(words, status, said)] = attacked.attack("live", [("control", "respond", "@run", "verdict: approve")], status=4)

    assert (status, "an agent is not the operator" in said) == (1, True)
    runs, run = find(words[2], attacked.folder / ".coterie")
    assert not [one for one in runs.read(run) if one.source == "operator"]
