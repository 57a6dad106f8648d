"""The process that keeps the output and the exit status of a command that outlives its owner."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import asking
import msgspec
import pytest
from bundles import bundle

from coterie.agents.backends.agentside import detached
from coterie.agents.backends.base import Answer, Failure
from coterie.agents.backends.command import CommandBackend
from coterie.agents.backends.detached_command import DetachedCommand, Status, is_detached

PRINTS = "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end; echo oops >&2; exit 3"


def kept(folder: Path, *command: str, merged: bool = False) -> DetachedCommand:
    """What the supervisor process leaves of *command* in *folder*."""
    made = DetachedCommand(folder)
    subprocess.run(made.command(command, merged), check=True, stdin=subprocess.DEVNULL, timeout=300)
    return made


def heard(made: DetachedCommand) -> tuple[dict[int, bytes], dict[int, int]]:
    """All that is left of both outputs, by number, and how much of each is lost."""
    said, lost = {1: b"", 2: b""}, {1: 0, 2: 0}

    def hear(number: int, data: bytes) -> None:
        said[number] += data

    def skip(number: int, size: int) -> None:
        lost[number] += size

    made.read(hear, skip)
    return said, lost


def test_output_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    """The end is kept, at least `SEGMENT` bytes of it, and what is lost is counted."""
    made = kept(tmp_path, "sh", "-c", PRINTS)
    said, lost = heard(made)
    status = made.status()

    assert status is not None
    assert (status.exit, status.error) == (3, 0)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2.1 * detached.SEGMENT
    assert said[1].endswith(b"x\nthe end\n")
    assert len(said[1]) >= detached.SEGMENT
    assert lost == {1: 30_000_009 - len(said[1]), 2: 0}
    assert said[2] == b"oops\n"
    assert all(detached.owns(path.name) for path in tmp_path.iterdir())


def test_both_outputs_can_be_one(tmp_path: Path) -> None:
    said, _ = heard(kept(tmp_path, "sh", "-c", "echo one; echo two >&2; echo three", merged=True))
    assert said == {1: b"one\ntwo\nthree\n", 2: b""}


def test_a_process_that_holds_the_outputs_open_does_not_keep_the_supervisor(tmp_path: Path) -> None:
    """What the command wrote is there; the process that it left behind is for its owner to end."""
    made = kept(
        tmp_path, sys.executable, "-c", "import os, time; pid = os.fork(); print(pid) if pid else time.sleep(600)"
    )
    os.kill(int(heard(made)[0][1]), signal.SIGKILL)


def test_a_command_that_ends_by_a_signal_or_cannot_be_started_says_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    killed, missing = kept(tmp_path / "a", "sh", "-c", "kill -9 $$").status(), kept(tmp_path / "b", "/none").status()
    assert killed is not None
    assert missing is not None
    assert (killed.exit, missing.error) == (-9, 2)


LISTENS = 'for s in TERM INT HUP PIPE XFSZ; do trap "echo $s" $s; kill -$s $$; done'
"""Prints the signals that it hears; one that is ignored when it starts cannot be trapped."""


def test_a_command_hears_the_signals_that_its_supervisor_ignores(tmp_path: Path) -> None:
    """So that it can end by itself; what was ignored before, as under `nohup`, it ignores, too."""
    for name, ignored, said in (("a", "", b"TERM\nINT\nHUP\n"), ("b", 'trap "" HUP; ', b"TERM\nINT\n")):
        made = DetachedCommand(tmp_path / name)
        (tmp_path / name).mkdir()
        command = made.command(["sh", "-c", LISTENS], False)
        subprocess.run(
            ["sh", "-c", ignored + 'exec "$@"', "sh", *command],
            check=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # whatever the tests themselves ignore
        )
        assert heard(made)[0][1] == said + b"PIPE\nXFSZ\n"


def test_a_supervisor_process_outlives_the_signals_that_ask_it_to_end(tmp_path: Path) -> None:
    """Its command ends first, and its exit status is kept."""
    asks = "for s in TERM INT HUP; do kill -$s $PPID; done; echo done; exit 5"
    made = kept(tmp_path, "sh", "-c", asks)

    status = made.status()
    assert status is not None
    assert (status.exit, heard(made)[0][1]) == (5, b"done\n")


@pytest.mark.parametrize(
    ("values", "keeps"),
    [
        ({"argv": ("a",)}, True),
        ({"kind": "action", "steps": (("a",),)}, True),
        ({"kind": "action", "steps": (("a",), ("b",))}, False),
        ({"kind": "action"}, False),
        ({"argv": ("a",), "on_interrupt": "retry"}, False),
        ({"argv": ("a",), "folder": None}, False),
    ],
)
def test_one_command_of_an_agent_that_is_to_be_adopted_is_detached(
    values: dict[str, Any], keeps: bool, tmp_path: Path
) -> None:
    """Of several steps only one would be found again."""
    folder = values.pop("folder", tmp_path)
    plan = asking.agent(**{"on_interrupt": "adopt", **values})

    assert is_detached(asking.request(plan, folder=folder)) is keeps


def test_all_steps_of_an_action_that_is_to_be_adopted_run(tmp_path: Path) -> None:
    plan = asking.agent(kind="action", on_interrupt="adopt", steps=(("echo", "one"), ("echo", "two")))
    result, _ = asking.ask(CommandBackend(), plan, folder=tmp_path)

    assert isinstance(result, Answer)
    assert result.text == "one\ntwo\n"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is made durable, renamed and removed, in order."""
    found: list[str] = []

    def note(name: str, of: Callable[..., str]) -> None:
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given: (found.append(f"{name} {of(*given)}"), real(*given))[1])

    note("fsync", lambda fd: os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
    note("rename", lambda _, to: os.path.basename(to))
    note("unlink", os.path.basename)
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_an_exit_status_is_durable_before_it_is_seen(tmp_path: Path, steps: list[str]) -> None:
    """First the file, then its name."""
    detached._write(str(tmp_path), b"0 0 1.0\n")

    assert steps == ["fsync .kept.status.part", "rename kept.status", f"fsync {tmp_path.name}"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_an_output_is_durable_before_older_parts_are_removed(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last two parts are kept."""
    monkeypatch.setattr(detached, "SEGMENT", 10)
    output = detached.Segments(str(tmp_path / "kept.out"))
    for _ in range(3):
        output.write(b"0123456789")
    output.sync()

    assert steps == [
        "fsync kept.out",
        "fsync kept.out.10",
        "unlink kept.out",
        "fsync kept.out.20",
        "unlink kept.out.10",
        "fsync kept.out.30",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.out.20", "kept.out.30"]


def test_lost_output_and_a_request_to_end_stand_in_the_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later owner must not take half an answer for the whole; that of an earlier release is still read."""

    def fail(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    output = detached.Segments(str(tmp_path / "kept.out"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        output.sync()
    assert output.error == errno.ENOSPC

    asked = kept(tmp_path, "sh", "-c", "kill $PPID; exit 5").status()
    assert asked is not None
    assert (asked.exit, asked.asked, asked.lost) == (5, signal.SIGTERM, 0)
    (tmp_path / detached.STATUS).write_text("0 0 1.5\n")
    assert DetachedCommand(tmp_path).status() == Status(0, 0, 1.5)


@bundle(
    ("status", "lives", "found"),
    [
        (Status(0, 0, 1.0), False, False),
        (Status(3, 0, 1.0), False, False),
        (Status(-9, 0, 1.0), False, True),
        (Status(143, 0, 1.0), False, True),
        (Status(-11, 0, 1.0), False, False),
        (Status(0, 0, 1.0, asked=15), False, False),
        (Status(1, 0, 1.0, asked=15), True, True),
        (Status(0, 0, 1.0, lost=5), True, True),
    ],
    ids=["ended", "failed", "killed", "killed-in-a-shell", "crashed", "ended-when-asked", "failed-when-asked", "lost"],
)
def test_a_program_that_others_ended_was_cut_off(status: Status, lives: bool, found: bool) -> None:
    """With its owner alive, and found by a later one."""
    assert (status.was_cut_off(without_owner=False), status.was_cut_off(without_owner=True)) == (lives, found)


def test_an_attempt_whose_output_was_lost_is_not_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or failing disk is a shortage, which stops the run; after any other error the attempt is made again."""
    for name, number, kind in (
        ("full", errno.ENOSPC, "shortage"),
        ("failing", errno.EIO, "shortage"),
        ("broken", errno.EPIPE, "lost"),
    ):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(DetachedCommand, "status", lambda made, number=number: _lost(made, number))
        plan = asking.agent(on_interrupt="adopt", argv=("echo", "one"))
        result, _ = asking.ask(CommandBackend(), plan, folder=tmp_path / name)
        assert isinstance(result, Failure)
        assert result.kind == kind
    (tmp_path / "gone").mkdir()
    monkeypatch.undo()
    plan = asking.agent(on_interrupt="adopt", argv=("sh", "-c", "kill -KILL $PPID"))
    result, _ = asking.ask(CommandBackend(), plan, folder=tmp_path / "gone")
    assert isinstance(result, Failure)
    assert result.kind == "lost"


def _lost(made: DetachedCommand, number: int) -> Status | None:
    """What *made* ended with, if its output had been lost by the error *number*."""
    status = REAL_STATUS(made)
    return status and msgspec.structs.replace(status, lost=number)


REAL_STATUS = DetachedCommand.status
