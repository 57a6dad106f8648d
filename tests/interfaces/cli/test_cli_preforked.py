"""`coterie` as most tests call it, forked, does what the installed `coterie` does; and that does every command."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import preforked
import pytest
from command_line import Place, make

from coterie.interfaces.cli.commands import COMMANDS, GROUPS

INSTALLED = Path(sys.executable).with_name("coterie")

EVERY = [name for name, (place, _) in COMMANDS.items() if place]
EVERY += [f"{group} {name}" for group, commands in GROUPS.items() for name in commands]
"""Each command, as it is called."""

WITH = {
    "run": "loop.at --no-snapshots",
    "resume": "last",
    "fork": "last --at 9999",
    "replay": "last",
    "simulate": "loop.at --seeds 2 --jobs 1",
    "runs": "",
    "inspect": "last turn reviewer#1",
    "watch": "last",
    "attention": "",
    "stats": "",
    "emit": "done",
    "presets": "",
    "doctor": "",
    "completion": "bash",
    "topology validate": "loop.at nested.at none.at",
    "topology show": "loop.at",
    "topology check": "loop.at",
    "topology fmt": "loop.at --check",
    "topology diff": "loop.at human.at",
    "topology graph": "loop.at",
    "topology schema": "",
    "worktree list": "",
    "control respond": "last boss#1 yes",
    "state list": "",
    "state rebuild": "",
}
"""What some are called with; the others are asked for their help, which is marked `long`."""
CORE = ("run", "resume", "inspect", "watch", "doctor", "topology validate", "state rebuild")
"""Called by default, so that what differs is found; a start of each of the others is `slow`."""
CALLED = [
    pytest.param(one, marks=() if one in CORE else pytest.mark.slow if one in WITH else pytest.mark.long)
    for one in EVERY
]

_VARYING = re.compile(
    r"\d+ a second|\d+(\.\d+)? ?m?s\b|\b\d+:\d\d\.\d\b|\b\d{8}-\d{6}-[0-9a-f]{6}\b|\b\d\d:\d\d:\d\d\b"
    r"|^\w+ +disk .*\n(?: .*\n)*|^no problems.*",  # a disk can be slow, and only what is installed syncs
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place with a run that is over, and a coding agent that says its version at once."""
    place = make(tmp_path_factory.mktemp("both"))
    (place.folder / "claude").write_text("#!/bin/sh\necho 1.0\n")
    (place.folder / "claude").chmod(0o755)
    place.call("run", "loop.at")
    return place


def settled(text: str) -> str:
    """*text* without times, the names of runs, and what depends on the disk."""
    return _VARYING.sub("?", text)


@pytest.mark.parametrize("command", CALLED)
def test_a_command_is_the_same_forked_and_installed(ran: Place, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same outputs and the same status; so every command is also started as a user starts it."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PATH", str(ran.folder), prepend=os.pathsep)
    words = [*command.split(), *WITH.get(command, "--help").split()]
    forked = preforked.run(*words, cwd=ran.folder)
    real = subprocess.run(
        [sys.executable, INSTALLED, *words],  # not by the link to Python in its first line, which may be another
        cwd=ran.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert real.returncode == forked.returncode
    assert settled(real.stdout) == settled(forked.stdout)
    assert settled(real.stderr) == settled(forked.stderr)
    assert real.stdout or real.stderr or command in ("state rebuild", "worktree list")


@pytest.mark.skipif(not preforked.can_fork(os.environ), reason="commands are to be real here")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_to_the_forked_command_ends_it(place: Place, number: signal.Signals, status: int) -> None:
    """What stands in for `coterie` hands on what it is told, and takes the command along when it is killed."""
    stand_in = preforked.shim(place.folder)
    assert stand_in is not None
    process = subprocess.Popen([stand_in, "run", "slow.at"], cwd=place.folder, stderr=subprocess.PIPE)
    (place.folder / "ready").read_text()  # a pipe: opened once the agent opens its end
    process.send_signal(number)
    process.communicate(timeout=60)  # until the command, too, has closed the output

    assert process.returncode == status
    assert "completed" in place.call("resume", "last").err  # which ends the agent that was left, too


def test_a_command_that_takes_too_long_is_killed(place: Place) -> None:
    """Nothing is left that would hold the test up."""
    with pytest.raises(subprocess.TimeoutExpired):
        preforked.run("run", "slow.at", cwd=place.folder, timeout=0.0)


@pytest.mark.skipif(not preforked.can_fork(os.environ), reason="commands are to be real here")
def test_a_caller_that_is_killed_before_it_asks_does_no_harm(place: Place) -> None:
    """An agent may be killed at any moment; the commands after it are forked as before."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(preforked._address())
    place.call("runs")


@pytest.mark.parametrize("name", ["PYTHONIOENCODING", "PYTHONHASHSEED", "PYTHONPATH"])
def test_what_python_is_told_at_its_start_wants_a_process_of_its_own(name: str) -> None:
    """A forked child has started already."""
    assert not preforked.can_fork(os.environ | {name: "another"})


def test_all_commands_can_be_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a variable of the environment."""
    monkeypatch.setenv("COTERIE_TESTS_REAL", "1")

    assert not preforked.can_fork(os.environ)
