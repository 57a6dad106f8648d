import os
from pathlib import Path

from bundles import bundle

from coterie.history.journal.lock import RunLock, is_held
from coterie.history.journal.status import TAIL, last_line, read_status


def state_in(folder: Path) -> str:
    """The state of the run in *folder*."""
    return read_status(folder / "journal.jsonl", folder / "lock").state


@bundle(
    ("journal", "state"),
    [
        ('{"topic":"run.started"}\n{"topic":"run.finished","outcome":"failed"}\n', "failed"),
        ('{"topic":"run.started"}\n{"topic":"run.stopped","reason":"waiting"}\n', "stopped: waiting"),
        ('{"topic":"run.started"}\n{"topic":"turn.started"}\n', "cut off"),
        ('{"topic":"run.finished","outcome":"completed"}\n{"topic":"run.own', "completed"),
        ("", "cut off"),
        ("garbage\n", "cut off"),
        ("[1]\n", "cut off"),
        (None, "cut off"),
    ],
)
def test_the_last_whole_line_says_how_it_stands(tmp_path: Path, journal: str | None, state: str) -> None:
    """A torn line does not count, and a journal that cannot be read does not stop a listing."""
    if journal is not None:
        (tmp_path / "journal.jsonl").write_text(journal)

    assert state_in(tmp_path) == state


def test_a_run_whose_lock_is_held_is_running(tmp_path: Path) -> None:
    """Whatever its journal says: the owner has not finished with it."""
    (tmp_path / "journal.jsonl").write_text('{"topic":"run.stopped","reason":"waiting"}\n')
    lock = RunLock("r", tmp_path / "lock")
    assert state_in(tmp_path) == "running"

    lock.release()
    assert state_in(tmp_path) == "stopped: waiting"


@bundle("size", [TAIL - 40, TAIL - 1, TAIL, TAIL + 1, 3 * TAIL])
def test_a_long_last_line_is_found_whole(tmp_path: Path, size: int) -> None:
    """However long it is; the line before it is not taken for it."""
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"n": 1}\n{"n": 2, "pad": "' + "x" * size + '"}\n')

    assert last_line(journal)["n"] == 2


def test_a_fork_of_an_owner_does_not_keep_the_run(tmp_path: Path) -> None:
    """A process that a function forks has a copy of all descriptors; the run is free when its owner releases it."""
    lock = RunLock("r", tmp_path / "lock")
    (asks, tells), (ready, says) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(tells)
            os.write(says, b"x")
            os.read(asks, 1)  # until the test is over
        finally:
            os._exit(0)
    try:
        os.close(asks)
        assert os.read(ready, 1) == b"x"
        assert is_held(tmp_path / "lock")
        lock.release()
        assert not is_held(tmp_path / "lock")
    finally:
        for fd in (tells, ready, says):
            os.close(fd)
        os.waitpid(child, 0)
