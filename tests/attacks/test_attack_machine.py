"""What surrounds a run turns against it: read-only folders, kills for want of memory, another user, a stopped owner."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import another_user
import preforked
import pytest
from asking import ask, python
from bundles import bundle

from coterie.agents.backends.base import Answer, Launched
from coterie.agents.backends.command import CommandBackend
from coterie.agents.backends.processes import alive, end_orphans, started
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnFailed, TurnFinished

HERE, ABOVE = Path(__file__).parent, ("test_attacks.py", "test_attacks_operator.py")
TEAM = """
topology parked : [pipeline] {
  agent writer { extensions { coterie { command: ["sh", "-c", "echo x >> turns"] } } }
  human boss { outputs { verdict: approve | revise } }
  agent deploy { extensions { coterie { command: ["sh", "-c", "echo deployed >> turns"] } } }
  flow { writer -> boss -> deploy }
}
"""
NAMESPACES = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root, and unshare"
)


def coterie(folder: Path, *words: str, read_only: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Call the command, in a view of the machine in which *read_only* cannot be written."""
    argv = [*preforked.REAL, *words]
    if read_only is not None:
        mounted = f'mount --bind {read_only} {read_only} && mount -o remount,bind,ro {read_only} && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", mounted, "sh", *argv]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300)


@NAMESPACES
@pytest.mark.slow
@pytest.mark.parametrize("place", [".coterie", ".coterie/runs", "whole", "state"])
def test_a_folder_that_became_read_only_costs_no_turn(tmp_path: Path, own_home: Path, place: str) -> None:
    """The owner says what it cannot write; what was done is done, and goes on from there when it can."""
    (tmp_path / "team.at").write_text(TEAM)
    assert coterie(tmp_path, "run", "team.at", "go", "--park").returncode == 4
    [run] = Runs(tmp_path / ".coterie").list()
    before = (Runs(tmp_path / ".coterie").file(run)).read_bytes()
    folder = {"whole": tmp_path, "state": own_home}.get(place, tmp_path / place)
    said = coterie(tmp_path, "resume", "last", "--park", read_only=folder)

    assert "Traceback" not in said.stdout + said.stderr
    if place != "state":
        assert said.returncode in (1, 2, 3), said.stderr
        assert "read-only" in (said.stdout + said.stderr).lower()
        assert Runs(tmp_path / ".coterie").file(run).read_bytes() == before
    assert coterie(tmp_path, "control", "respond", "last", "verdict: approve").returncode == 0
    assert coterie(tmp_path, "resume", "last").returncode == 0
    assert (tmp_path / "turns").read_text() == "x\ndeployed\n"
    records = list(Runs(tmp_path / ".coterie").read(run))
    assert not [one for one in records if isinstance(one, TurnFailed)]
    assert len([one for one in records if isinstance(one, TurnFinished)]) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGXCPU])
def test_an_agent_that_was_killed_leaves_nothing_that_works(tmp_path: Path, number: int) -> None:
    """As the kernel does for want of memory: what it had started ends with it, and its words are no answer."""
    program = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "print('deploy: approved', flush=True)\n"
        f"os.kill(os.getpid(), {int(number)})\n"
    )
    result, _ = ask(CommandBackend(grace=0.1), python(program))
    pid = int((tmp_path / "pid").read_text())

    assert not isinstance(result, Answer)
    assert not alive(pid, started(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
@pytest.mark.slow
def test_an_agent_without_memory_fails_and_its_owner_does_not(tmp_path: Path) -> None:
    """It takes what it is given; the next attempt of another agent is answered."""
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "kept = [b'x' * (1 << 24) for _ in range(1000)]\n"
    )
    result, _ = ask(CommandBackend(grace=0.1), python(program))
    assert not isinstance(result, Answer)
    assert isinstance(ask(CommandBackend(grace=0.1), python("print('done')"))[0], Answer)


@bundle("wrong", ["", "1", "{true}0", "0{true}", "not a number", "\u0661"])
def test_a_process_that_has_the_number_of_an_ended_one_lives_on(wrong: str) -> None:
    """A record names the pid and the time of its start; the number alone, or with another time, ends nobody."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as victim:
        try:
            record = Launched(pid=victim.pid, group=victim.pid, started=wrong.format(true=started(victim.pid)))
            assert not alive(victim.pid, record.started)
            assert asyncio.run(end_orphans("r/a#1.1", [record], grace=0.1)) == []
            assert victim.poll() is None
        finally:
            victim.kill()


@pytest.mark.long
@pytest.mark.parametrize("name", [*sorted(one.name for one in HERE.glob("test_*.py")), *("../" + one for one in ABOVE)])
def test_the_same_holds_for_another_user(name: str) -> None:
    """The attacks are played by a second uid."""
    another_user.play(HERE / name, without="another_user")
