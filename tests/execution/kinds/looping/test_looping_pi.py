"""A loop on pi: one process for its iterations, which speak to the run in their own names."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import preforked
import pytest
from until import until

from coterie.agents.backends.processes import alive, started

FAKE = Path(__file__).parents[3] / "support" / "fake_agents" / "pi_agent.py"
STRAY = (
    "setsid sh -c 'while sleep 0.02; do coterie emit two.done >> said 2>&1; done' > /dev/null 2>&1 & echo $! > stray"
)
OPEN = 'backend.sandbox = "off"\n'
"""In a sandbox the files of earlier attempts are hidden, and processes have other pids."""


def project(folder: Path, *roles: str, settings: str = "") -> None:
    """A loop in *folder* whose *roles*, one after the other, run the commands given for them and emit an event."""
    names = ["one", "two", "three"][: len(roles)]
    events = [f"{name}.done" for name in names]
    text = f'name = "steps"\ncompletion = "{events[-1]}"\n'
    for name, event, commands in zip(names, events, roles, strict=True):
        lines = "\n".join(f"RUN: {line}" for line in [*commands.splitlines(), f"coterie emit {event}"])
        text += f'[[role]]\nid = "{name}"\nemits = ["{event}"]\nprompt = """\nYou are {name}.\n{lines}\n"""\n'
    text += '[handoff]\n"loop.start" = ["one"]\n'
    text += "".join(f'"{event}" = ["{name}"]\n' for event, name in zip(events, names[1:], strict=False))
    (folder / "topology.toml").write_text(text)
    (folder / "autoloops.toml").write_text(
        f'backend.kind = "pi"\nbackend.command = {sys.executable!r}\nbackend.args = [{str(FAKE)!r}]\n'
        f"review.enabled = false\nevent_loop.max_iterations = 4\n{settings}"
    )


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return preforked.run(*words, cwd=folder)


def records(folder: Path, *topics: str) -> list[dict[str, Any]]:
    """The records of the only run, of some *topics*."""
    [path] = folder.glob(".autoloop/runs/*/journal.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if record["topic"] in topics]


def lives(pid: int) -> bool:
    return alive(pid, started(pid))


def emitted(folder: Path) -> list[tuple[str, str]]:
    return [(record["turn"], record["event"]) for record in records(folder, "event.emitted")]


@pytest.mark.slow
def test_the_command_of_each_prompt_works_in_a_sandbox_of_several_attempts(tmp_path: Path) -> None:
    """The folders of the attempts are hidden from the process, which is older than they are."""
    typed = "{{TOOL_PATH}} memory add learning x; echo $? $(basename {{TOOL_PATH}}) >> said"
    project(tmp_path, typed, typed)
    done = run(tmp_path, "run", ".", "go")

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "said").read_text() == "0 autoloops\n" * 2


def test_iterations_share_a_process_and_emit_in_their_own_names(tmp_path: Path) -> None:
    """Each attempt records the process; the raw stream of each iteration is kept, and nothing is left."""
    project(tmp_path, "echo $COTERIE_TURN $AUTOLOOP_ITERATION $AUTOLOOP_ALLOWED_EVENTS >> seen", "", "")
    done = run(tmp_path, "run", ".", "go")

    assert done.returncode == 0, done.stdout + done.stderr
    done_by = {"iteration#1": "one.done", "iteration#2": "two.done", "iteration#3": "three.done"}
    assert emitted(tmp_path) == list(done_by.items())
    assert (tmp_path / "seen").read_text() == "iteration#1 1 one.done\n"
    launched = records(tmp_path, "attempt.launched")
    assert [record["turn"] for record in launched] == ["iteration#1", "iteration#2", "iteration#3"]
    assert len({record["pid"] for record in launched}) == 1
    [folder] = tmp_path.glob(".autoloop/runs/*/")
    for n in (1, 2, 3):
        assert '"command":"prompt"' in (folder / f"pi-stream.{n}.jsonl").read_text()
    assert list((folder / "agents").iterdir()) == []
    assert not lives(launched[0]["pid"])
    usage = [record["usage"] for record in records(tmp_path, "turn.finished")]
    assert [one["cost"] for one in usage] == [0.25] * 3
    assert usage[0]["context_window"] == 200_000


def test_what_an_earlier_iteration_left_cannot_emit_for_a_later_one(tmp_path: Path) -> None:
    """It is ended with its iteration; the wrapper of an attempt that is over is refused as stale."""
    old = "$(ls -d .autoloop/runs/*/turns/iteration#1.1)/coterie"
    steps = STRAY, f"sleep 0.3\n{old} emit two.done > stale 2>&1; echo $? >> stale"
    project(tmp_path, *steps, settings=OPEN)
    done = run(tmp_path, "run", ".", "go")

    assert done.returncode == 0, done.stdout + done.stderr
    assert emitted(tmp_path) == [("iteration#1", "one.done"), ("iteration#2", "two.done")]
    why, status = (tmp_path / "stale").read_text().splitlines()
    assert re.fullmatch(r"a process of .*/iteration#2.1 sent it in the name of .*/iteration#1.1", why)
    assert status == "1"
    assert not lives(int((tmp_path / "stray").read_text()))


def test_after_a_kill_the_next_owner_ends_pi_and_goes_on(tmp_path: Path) -> None:
    """With all that its tools started; what was finished is not done again."""
    wait = "[ -e go ] || { setsid env -i sleep 600 & echo $! > left; echo $PPID > pi; sleep 600; }"
    project(tmp_path, "echo one >> done", wait, "echo three >> done", settings=OPEN)
    owner = preforked.start_quietly("run", ".", "go", cwd=tmp_path)
    until(lambda: (tmp_path / "pi").exists() and (tmp_path / "pi").read_text())
    owner.kill()
    owner.wait()
    left = int((tmp_path / "left").read_text())
    assert lives(left)
    (tmp_path / "go").touch()
    [journal] = tmp_path.glob(".autoloop/runs/*/journal.jsonl")
    done = run(tmp_path, "resume", journal.parent.name)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not lives(left)
    assert not lives(int((tmp_path / "pi").read_text()))
    assert (tmp_path / "done").read_text() == "one\nthree\n"
    assert [name for _, name in emitted(tmp_path)] == ["one.done", "two.done", "three.done"]
