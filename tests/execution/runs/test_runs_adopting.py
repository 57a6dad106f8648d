"""Commands with `on-interrupt: adopt` outlive the owner of their run, and the next owner goes on with them."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import preforked
import pytest
from until import until

from coterie.agents.backends.agentside import detached
from coterie.agents.backends.processes import end_orphans

AGENT = """#!/bin/sh
# Says that it has begun, waits until it is released, gives an output and answers.
cat >/dev/null
echo "$COTERIE_TURN $COTERIE_ATTEMPT" >>ledger
echo "the first half of $COTERIE_TURN"
if [ "$COTERIE_TURN" = slow#1 ]; then
  echo begun >begun
  read word <go
  autoloops emit --output step=halfway >emitted 2>&1
  echo "status $?" >>emitted
fi
echo "the second half of $COTERIE_TURN"
"""
TEAM = """
topology adopted : [pipeline] {{
  extensions {{ coterie {{ command: ["{{here}}/agent.sh"] on-interrupt: adopt {own} }} }}
  agent slow {{ model: any }}
  agent last {{ model: any }}
  flow {{ slow -> last }}
}}
"""
OWNERS: list["subprocess.Popen[str] | subprocess.Popen[bytes]"] = []
"""The owners that a test started: all are gone when it is over."""
WHOLE = "the first half of slow#1\nthe second half of slow#1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A team of two, the first of which waits for its release; nothing of it is left running."""
    make_team(tmp_path)
    yield tmp_path
    for owner in OWNERS:
        owner.kill()
        owner.wait()
    OWNERS.clear()
    left = [asyncio.run(end_orphans(f"{run.name}/", [], grace=0.1)) for run in tmp_path.glob(".coterie/runs/*")]
    assert left == [[]], "an agent was left running"


def make_team(folder: Path, own: str = "") -> None:
    (folder / "team.at").write_text(TEAM.format(own=own))
    (folder / "agent.sh").write_text(AGENT)
    (folder / "agent.sh").chmod(0o755)
    for name in ("begun", "go"):
        if not (folder / name).exists():
            os.mkfifo(folder / name)


def started(folder: Path, *words: str, kill: str = "") -> "subprocess.Popen[str] | subprocess.Popen[bytes]":
    OWNERS.append(preforked.start_quietly(*words, cwd=folder, kill=kill))
    return OWNERS[-1]


def killed_at_work(folder: Path) -> None:
    """Start the run, and kill its owner while the first agent works."""
    owner = started(folder, "run", "team.at", "go")
    wait_for_work(folder, owner)
    owner.kill()
    owner.wait()


def wait_for_work(folder: Path, owner: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Wait until an attempt of the first agent has begun its work."""
    begun, said = os.open(folder / "begun", os.O_RDONLY | os.O_NONBLOCK), b""
    while not said:
        assert owner.poll() is None
        with suppress(BlockingIOError):
            said = os.read(begun, 100)
        time.sleep(0.01)
    os.close(begun)


def release(folder: Path) -> None:
    (folder / "go").write_text("on\n")


def records(folder: Path) -> list[dict[str, object]]:
    [path] = folder.glob(".coterie/runs/*/journal.jsonl")
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break  # it is being written
    return found


def attempt(folder: Path, name: str = "slow#1.1") -> Path:
    [found] = folder.glob(f".coterie/runs/*/turns/{name}")
    return found


def wait_for_supervisor(folder: Path) -> None:
    """Wait until the process that keeps the first agent has ended."""
    with (attempt(folder) / detached.PID).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def topics(folder: Path, topic: str) -> list[dict[str, object]]:
    return [record for record in records(folder) if record["topic"] == topic]


def check_adopted(folder: Path) -> None:
    """The run has completed with one attempt a turn, what the first said is whole, and the output it gave counted."""
    assert records(folder)[-1]["outcome"] == "completed"
    assert (folder / "ledger").read_text().split() == ["slow#1", "1", "last#1", "1"]
    assert [one["turn"] for one in topics(folder, "attempt.adopted")] == ["slow#1"]
    assert not topics(folder, "attempt.interrupted")
    assert len([one for one in topics(folder, "attempt.launched") if one["turn"] == "slow#1"]) == 1
    assert next(one for one in topics(folder, "turn.finished") if one["turn"] == "slow#1")["text"] == WHOLE
    assert [one["outputs"] for one in topics(folder, "outputs.given")] == [{"step": "halfway"}], (
        folder / "emitted"
    ).read_text()
    stream = [json.loads(line) for line in (attempt(folder) / "stream.jsonl").read_text().splitlines()]
    assert "".join(event["text"] for event in stream) == WHOLE
    assert not [path for path in attempt(folder).iterdir() if detached.owns(path.name)]


def test_an_attempt_that_finished_meanwhile_is_adopted(folder: Path) -> None:
    """Its answer and the output that it gave while the run had no owner count; it is not asked again."""
    killed_at_work(folder)
    release(folder)
    wait_for_supervisor(folder)
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    check_adopted(folder)


def test_an_attempt_that_still_runs_is_adopted(folder: Path) -> None:
    """The new owner waits for it, and hears what it goes on to say."""
    killed_at_work(folder)
    owner = started(folder, "resume", "last")
    until(lambda: topics(folder, "attempt.adopted") or owner.poll() is not None, 300)
    assert owner.poll() is None
    release(folder)

    assert owner.wait(300) == 0
    check_adopted(folder)


def test_an_attempt_of_a_team_inside_is_adopted(folder: Path) -> None:
    """The run above it is taken over first, and spares it."""
    (folder / "inner.at").write_text((folder / "team.at").read_text())
    after = 'agent after { model: any extensions { coterie { command: ["cat"] } } }'
    outer = f'topology outer : [pipeline] {{\n  import "inner.at" as team\n  {after}\n  flow {{ team -> after }}\n}}\n'
    (folder / "team.at").write_text(outer)
    killed_at_work(folder)
    release(folder)
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    assert (folder / "ledger").read_text().split() == ["slow#1", "1", "last#1", "1"]
    [inner] = folder.glob(".coterie/runs/*/turns/team#1.1/journal.jsonl")
    assert inner.read_text().count('"attempt.adopted"') == 1


def test_an_attempt_whose_launch_was_not_recorded_is_adopted(folder: Path) -> None:
    """Its files say that it lives; the new owner records its process."""
    dead = preforked.run("run", "team.at", "go", cwd=folder, kill="append:4")
    assert dead.returncode == -signal.SIGKILL
    (folder / "begun").read_text()
    release(folder)
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    check_adopted(folder)


def test_an_attempt_that_finished_is_adopted_though_its_launch_was_not_recorded(folder: Path) -> None:
    """What its files keep of the process that has ended is recorded, without a start time: it is never ended again."""
    dead = preforked.run("run", "team.at", "go", cwd=folder, kill="append:4")
    assert dead.returncode == -signal.SIGKILL
    (folder / "begun").read_text()
    release(folder)
    wait_for_supervisor(folder)
    pid = int((attempt(folder) / detached.PID).read_text())
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    check_adopted(folder)
    [launched] = [one for one in topics(folder, "attempt.launched") if one["turn"] == "slow#1"]
    assert (launched["pid"], launched.get("started", "")) == (pid, "")


def test_an_attempt_whose_answer_was_not_recorded_is_adopted(folder: Path) -> None:
    """It ended under its first owner, which was killed when it wrote the answer down."""
    owner = started(folder, "run", "team.at", "go", kill="append:6")
    (folder / "begun").read_text()
    release(folder)
    assert owner.wait(300) == -signal.SIGKILL
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    check_adopted(folder)


def test_what_a_finished_attempt_left_is_removed_by_the_next_owner(folder: Path) -> None:
    """Its owner was killed when the answer was durable, and before its files were removed."""
    owner = started(folder, "run", "team.at", "go", kill="clear:1")
    (folder / "begun").read_text()
    release(folder)
    assert owner.wait(300) == -signal.SIGKILL
    assert [one["turn"] for one in topics(folder, "turn.finished")] == ["slow#1"]
    assert [path for path in attempt(folder).iterdir() if detached.owns(path.name)]
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    assert not [path for path in attempt(folder).iterdir() if detached.owns(path.name)]


def test_an_attempt_is_adopted_again_when_its_second_owner_is_killed(folder: Path) -> None:
    """What it emits counts under every owner, with the epoch of the first."""
    killed_at_work(folder)
    owner = started(folder, "resume", "last")
    until(lambda: topics(folder, "attempt.adopted") or owner.poll() is not None, 300)
    assert owner.poll() is None
    owner.kill()
    owner.wait()
    release(folder)
    wait_for_supervisor(folder)
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    assert len(topics(folder, "attempt.adopted")) == 2
    assert (folder / "ledger").read_text().split() == ["slow#1", "1", "last#1", "1"]
    assert [one["outputs"] for one in topics(folder, "outputs.given")] == [{"step": "halfway"}]


def test_an_attempt_that_was_killed_with_its_owner_is_asked_again(folder: Path) -> None:
    """Without an exit status it was cut off, as any other."""
    killed_at_work(folder)
    os.killpg(int((attempt(folder) / detached.PID).read_text()), signal.SIGKILL)
    wait_for_supervisor(folder)
    owner = started(folder, "resume", "last")
    (folder / "begun").read_text()
    release(folder)

    assert owner.wait(300) == 0
    assert [one["reason"] for one in topics(folder, "attempt.interrupted")] == ["crash"]
    assert (folder / "ledger").read_text().split() == ["slow#1", "1", "slow#1", "2", "last#1", "1"]


def test_an_adopted_attempt_can_be_interrupted(folder: Path) -> None:
    """`control interrupt` ends it with all that it started, and it is asked again."""
    killed_at_work(folder)
    owner = started(folder, "resume", "last")
    until(lambda: topics(folder, "attempt.adopted") or owner.poll() is not None, 300)
    assert owner.poll() is None
    said = preforked.run("control", "interrupt", "last", "slow#1", cwd=folder)
    (folder / "begun").read_text()
    release(folder)

    assert said.returncode == 0, said.stderr
    assert owner.wait(300) == 0
    assert [one["reason"] for one in topics(folder, "attempt.interrupted")] == ["interrupted"]


def test_the_time_out_of_an_adopted_attempt_began_when_it_was_started(folder: Path) -> None:
    """What it took without an owner counts."""
    make_team(folder, own="timeout: 2s")
    killed_at_work(folder)
    ended = preforked.run("resume", "last", cwd=folder)

    assert ended.returncode == 1
    assert topics(folder, "attempt.failed")[0]["kind"] == "timeout"
    assert topics(folder, "attempt.failed")[0]["usage"]["seconds"] < 60  # type: ignore[index]


def command_of(folder: Path) -> int:
    """The process of the first agent, which is the child of its supervisor process."""
    keeping = int((attempt(folder) / detached.PID).read_text())
    return int(Path(f"/proc/{keeping}/task/{keeping}/children").read_text())


def finish_the_second(folder: Path, *words: str) -> None:
    """Resume the run, release the second attempt of the first agent, and check that it alone was repeated."""
    owner = started(folder, "resume", "last", *words)
    wait_for_work(folder, owner)
    release(folder)
    assert owner.wait(300) == 0
    assert not topics(folder, "attempt.failed")
    assert (folder / "ledger").read_text().split() == ["slow#1", "1", "slow#1", "2", "last#1", "1"]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the child of a process is read from /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_was_killed_without_an_owner_is_asked_again(folder: Path, number: signal.Signals) -> None:
    """Its supervisor keeps that as its exit status: the attempt was interrupted, as if both had been killed."""
    killed_at_work(folder)
    os.kill(command_of(folder), number)
    wait_for_supervisor(folder)

    finish_the_second(folder)
    assert [one["reason"] for one in topics(folder, "attempt.interrupted")] == ["crash"]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the child of a process is read from /proc")
def test_a_command_that_ended_by_another_signal_has_failed(folder: Path) -> None:
    """SIGSEGV is its own end, with an owner or without."""
    killed_at_work(folder)
    os.kill(command_of(folder), signal.SIGSEGV)
    wait_for_supervisor(folder)

    assert preforked.run("resume", "last", cwd=folder).returncode == 1
    assert [one["signal"] for one in topics(folder, "attempt.failed")] == ["SIGSEGV"]


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["exit 1", 'echo "status 3"; exit 3', "kill -ABRT $$"])
def test_a_command_that_ends_when_it_is_asked_to_was_interrupted(folder: Path, answer: str) -> None:
    """A shutdown sends SIGTERM to the supervisor, too, which remembers it: how the program reacts does not matter."""
    script = AGENT.replace("cat >/dev/null\n", f"trap '{answer}' TERM\ncat >/dev/null\n")
    (folder / "agent.sh").write_text(script)
    killed_at_work(folder)
    os.killpg(int((attempt(folder) / detached.PID).read_text()), signal.SIGTERM)
    wait_for_supervisor(folder)

    finish_the_second(folder)


@pytest.mark.slow
def test_a_shutdown_interrupts_an_attempt_whose_owner_hears_of_it_last(folder: Path) -> None:
    """The supervisor process and its command get SIGTERM first; the owner asks again until it gets the signal, too."""
    owner = started(folder, "run", "team.at", "go")
    wait_for_work(folder, owner)
    os.killpg(int((attempt(folder) / detached.PID).read_text()), signal.SIGTERM)
    wait_for_work(folder, owner)
    owner.terminate()
    owner.wait(300)

    assert not topics(folder, "attempt.failed")
    assert [one["reason"] for one in topics(folder, "attempt.interrupted")] == ["lost", "interrupted"]


@pytest.mark.slow
def test_an_attempt_whose_owner_was_killed_while_it_ended_it_is_asked_again(folder: Path) -> None:
    """Ctrl-C, and a kill once the command has ended: nothing of that reached the journal."""
    owner = started(folder, "run", "team.at", "go", kill="append:5")
    wait_for_work(folder, owner)
    owner.send_signal(signal.SIGINT)
    assert owner.wait(300) == -signal.SIGKILL
    assert not topics(folder, "attempt.interrupted")

    finish_the_second(folder)


@pytest.mark.slow
def test_an_adopted_command_that_is_killed_is_asked_again(folder: Path) -> None:
    """Before or after the new owner has found it: its result does not depend on that."""
    killed_at_work(folder)
    pid = command_of(folder)
    owner = started(folder, "resume", "last")
    until(lambda: topics(folder, "attempt.adopted") or owner.poll() is not None, 300)
    os.kill(pid, signal.SIGKILL)
    wait_for_work(folder, owner)
    release(folder)

    assert owner.wait(300) == 0
    assert [one["reason"] for one in topics(folder, "attempt.interrupted")] == ["lost"]
