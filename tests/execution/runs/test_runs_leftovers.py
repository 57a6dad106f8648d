"""What killed processes leave in the folder of a run, against the list that the page has.

Real processes, killed before a file operation: every nineteenth; the others with `-m long`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import preforked
import pytest

from coterie.agents.backends.wrapper import link_of
from coterie.execution.runs.messages.doorbell import socket_path

PAGE = Path(__file__).parents[3] / "docs" / "running.md"
LAST = 170
"""File operations of the run in a sandbox, and some more."""
STRIDE = 19
LOOP = """
name = "short"
completion = "done"
[[role]]
id = "writer"
emits = ["go"]
prompt = "RUN: coterie memory add learning x\\nRUN: coterie emit go"
[[role]]
id = "closer"
emits = ["done"]
prompt = "RUN: coterie emit done"
[handoff]
"loop.start" = ["writer"]
"go" = ["closer"]
"""
SETTINGS = """
backend.kind = "{kind}"
backend.command = "{python}"
backend.args = ["{program}"]
backend.sandbox = "{sandbox}"
backend.on_interrupt = "{policy}"
event_loop.max_iterations = 9
review.enabled = false
"""
AGENT = """
import os, re, subprocess, sys
asked = open(os.environ["COTERIE_PROMPT_FILE"]).read()
for line in dict.fromkeys(re.findall("(?m)^ *RUN: (coterie .*)", asked)):
    subprocess.run(line.split())
"""
PI = Path(__file__).parents[2] / "support" / "fake_agents" / "pi_agent.py"
WAYS = {
    "plain": ("command", "off", "retry"),
    "confined": ("command", "auto", "retry"),
    "adopted": ("command", "off", "adopt"),
    "pi": ("pi", "off", "retry"),
}
POINTS = [
    pytest.param(way, n, marks=[pytest.mark.slow if n % STRIDE == at else pytest.mark.long])
    for at, way in enumerate(WAYS)
    for n in range(1, LAST)
]


def listed() -> re.Pattern[str]:
    """What the page says that the folder of a run contains."""
    table = PAGE.read_text(encoding="utf-8").partition("the folder of a run contains")[2].partition("\n\nWhile")[0]
    names = [name for row in table.splitlines()[3:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    patterns = [re.sub(r"\b(TURN|ID|N|KIND)\b", "[^/]+", re.escape(name)) for name in names]
    assert len(patterns) > 20
    return re.compile("|".join(one + (".*" if one.endswith("/") else "") for one in patterns))


def made(folder: Path, way: str = "plain") -> Path:
    """A loop of two iterations in *folder*; its folder of runs."""
    (folder / "loop").mkdir()
    (folder / "loop/topology.toml").write_text(LOOP)
    kind, sandbox, policy = WAYS[way]
    program = PI if kind == "pi" else folder / "agent.py"
    settings = {"kind": kind, "python": sys.executable, "program": program, "sandbox": sandbox, "policy": policy}
    (folder / "loop/autoloops.toml").write_text(SETTINGS.format(**settings))
    (folder / "agent.py").write_text(AGENT)
    return folder / ".autoloop/runs"


def coterie(folder: Path, *words: str, kill: str = "", status: int = 0) -> "subprocess.CompletedProcess[str]":
    done = preforked.run(*words, cwd=folder, kill=kill)
    assert done.returncode in (status, -signal.SIGKILL if kill else status), done.stderr
    return done


def unlisted(run: Path) -> list[str]:
    """What is in the folder of *run* and not on the page, or for it in the runtime folder."""
    known = listed()
    paths = [path for path in run.rglob("*") if not path.is_dir() or not any(path.iterdir())]
    names = [str(path.relative_to(run)) + ("/" if path.is_dir() else "") for path in paths]
    links = [*map(link_of, [run, *run.glob("turns/*")])]
    return [
        *(name for name in names if not known.fullmatch(name)),
        *map(str, run.glob("inbox/*.json")),
        *map(str, run.glob("turns/*/own/outbox/*.json")),
        *(str(path) for path in run.glob("agents/pi-*/*") if not path.is_dir()),
        *(str(path) for path in (*links, socket_path(run)) if os.path.lexists(path)),
    ]


@pytest.mark.parametrize(("way", "n"), POINTS)
def test_a_killed_run_leaves_what_the_page_names(way: str, n: int, tmp_path: Path) -> None:
    """Once it was resumed to its end; one that has not begun is removed by `prune`."""
    runs = made(tmp_path, way)
    killed = coterie(tmp_path, "run", "loop", "go", kill=f"file:{n}").returncode != 0
    begun = list(runs.glob("*/journal.jsonl"))
    if killed and begun and begun[0].stat().st_size:
        coterie(tmp_path, "resume", "last", status=1 if b'"run.finished"' in begun[0].read_bytes() else 0)
    for folder in runs.glob("*"):
        os.utime(folder, (0, 0))
    coterie(tmp_path, "runs", "prune", "--older-than", "30d")

    assert list(runs.glob("*/journal.jsonl")) == begun
    assert [run for run in runs.glob("*") if not (run / "journal.jsonl").exists()] == []
    assert [name for run in runs.glob("*") for name in unlisted(run)] == []


def test_what_is_left_of_a_run_that_had_ended_is_removed(tmp_path: Path) -> None:
    """By `resume`, which refuses, and by `prune`, which keeps the run; a run that goes on keeps its messages."""
    runs = made(tmp_path)
    coterie(tmp_path, "run", "loop", "go")
    [run] = runs.iterdir()
    assert unlisted(run) == []
    before = sorted(run.rglob("*"))

    for words, status in ((("resume", "last"), 1), (("runs", "prune", "--older-than", "30d"), 0)):
        late = ("inbox/1.json", "inbox/.2.part", ".secret.0a1b.part", ".control.part", "control.json")
        for name in late:
            (run / name).write_text("{}")
        (run / "bell").symlink_to(socket_path(run))
        outbox = run / "turns/iteration#1.1/own/outbox"
        outbox.mkdir(parents=True, exist_ok=True)
        (outbox / "3.json").write_text("{}")
        os.utime(run, (0, 0))
        coterie(tmp_path, *words, status=status)

        assert sorted(run.rglob("*")) == before


def test_messages_to_a_run_that_can_go_on_are_kept(tmp_path: Path) -> None:
    """Its next owner reads them."""
    runs = made(tmp_path)
    coterie(tmp_path, "run", "loop", "go", "--max-turns", "1", status=3)
    [run] = runs.iterdir()
    coterie(tmp_path, "control", "guide", "last", "be brief", status=0)
    [message] = run.glob("inbox/*.json")
    coterie(tmp_path, "runs", "prune", "--older-than", "30d")

    assert message.exists()
    coterie(tmp_path, "resume", "last", "--max-turns", "none")
    assert b"be brief" in (run / "journal.jsonl").read_bytes()
    assert unlisted(run) == []


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_message_whose_sender_was_killed_is_taken_or_removed(n: int, tmp_path: Path) -> None:
    """Half of it is no message."""
    runs = made(tmp_path)
    coterie(tmp_path, "run", "loop", "go", "--max-turns", "1", status=3)
    coterie(tmp_path, "control", "guide", "last", "be brief", kill=f"file:{n * 3}")
    coterie(tmp_path, "resume", "last", "--max-turns", "none")
    [run] = runs.iterdir()

    assert unlisted(run) == []


def test_a_run_that_is_beginning_is_not_pruned(tmp_path: Path) -> None:
    """Its folder has no journal yet; neither is what another process has locked."""
    runs = made(tmp_path)
    (runs / "new").mkdir(parents=True)
    (runs / "old").mkdir()
    os.utime(runs / "old", (0, 0))
    os.utime(runs / "new", (time.time() - 60,) * 2)
    said = coterie(tmp_path, "runs", "prune", "--older-than", "1s").stdout

    assert [run.name for run in runs.iterdir() if not run.name.startswith(".")] == ["new"]
    assert said == "removed old\n"
