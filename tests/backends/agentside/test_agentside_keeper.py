"""The process that keeps the output and the exit status of a command that outlives its owner."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from coterie.backends.agentside import keeper
from coterie.backends.kept_command import KeptCommand

PRINTS = "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end; echo oops >&2; exit 3"


def kept(folder: Path, *command: str, merged: bool = False) -> KeptCommand:
    """What a keeper leaves of *command* in *folder*."""
    made = KeptCommand(folder)
    subprocess.run(made.command(command, merged), check=True, stdin=subprocess.DEVNULL, timeout=300)
    return made


def heard(made: KeptCommand) -> tuple[dict[int, bytes], dict[int, int]]:
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
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2.1 * keeper.SEGMENT
    assert said[1].endswith(b"x\nthe end\n")
    assert len(said[1]) >= keeper.SEGMENT
    assert lost == {1: 30_000_009 - len(said[1]), 2: 0}
    assert said[2] == b"oops\n"
    assert all(keeper.owns(path.name) for path in tmp_path.iterdir())


def test_both_outputs_can_be_one(tmp_path: Path) -> None:
    said, _ = heard(kept(tmp_path, "sh", "-c", "echo one; echo two >&2; echo three", merged=True))
    assert said == {1: b"one\ntwo\nthree\n", 2: b""}


def test_a_process_that_holds_the_outputs_open_does_not_keep_the_keeper(tmp_path: Path) -> None:
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
