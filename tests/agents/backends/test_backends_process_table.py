"""Which processes of the machine are inspected."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator

import pytest
from audited import audited
from marking import marked
from until import until

from coterie.agents.backends import process_table
from coterie.agents.backends.process_table import Moment, moment
from coterie.agents.backends.processes import MARK, alive, end_group, started

pytestmark = pytest.mark.skipif(moment() is None, reason="the system does not say which processes are younger")

MARKER = f"test-run-{os.getpid()}/agent#1.1"


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test, to which it adds."""
    found = list[subprocess.Popen[bytes]]()
    yield found
    for one in found:
        one.kill()
        one.wait()


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "600"], env={MARK: MARKER}, start_new_session=True)


def later_than(process: subprocess.Popen[bytes]) -> Moment:
    """A moment after *process* was started, by the clock whose ticks are its start time."""
    until(lambda: (now := moment()) is not None and now.ticks > int(started(process.pid)))
    after = moment()
    assert after is not None
    return after


def pids(since: Moment | None) -> set[int]:
    return {process.pid for process in asyncio.run(process_table.all_processes(since))}


def test_given_a_moment_only_younger_processes_are_found(sleepers: list[subprocess.Popen[bytes]]) -> None:
    """Whether or not their pids began again from the lowest meanwhile, once or more often."""
    sleepers.append(older := sleeper())
    since = later_than(older)
    sleepers.append(younger := sleeper())

    assert pids(None) >= {os.getpid(), older.pid, younger.pid}
    moments = {
        "as it was": since,
        "long ago": since._replace(pid=max(since.pid - 2000, 1)),
        "before a wrap-around": since._replace(pid=10_000_000),
        "before several": since._replace(starts=since.starts - 10_000_000),
        "counted by another machine": since._replace(starts=since.starts + 10_000_000),
    }
    for name, one in moments.items():
        found = pids(one)
        assert younger.pid in found, name
        assert not found & {os.getpid(), older.pid}, name


def test_older_processes_are_not_opened_at_the_end_of_an_attempt(sleepers: list[subprocess.Popen[bytes]]) -> None:
    """However many there are, and although one carries the mark."""
    sleepers += [sleeper() for _ in range(20)]
    since = later_than(sleepers[-1])
    with marked(MARKER):
        sleepers.append(left := sleeper())
    began = started(left.pid)
    with audited() as calls:
        ended = asyncio.run(end_group(left.pid, MARKER, grace=0.2, since=since))

    opened = {path.split("/")[2] for event, path in calls if event == "open" and path.startswith("/proc/")}
    assert ended == [left.pid]
    assert not alive(left.pid, began)
    assert str(left.pid) in opened
    assert not opened & {str(one.pid) for one in sleepers[:-1]}


def test_an_orphan_is_found_that_was_started_during_the_search(
    sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent may have ended before it was inspected."""
    sleepers.append(first := sleeper())
    since = moment()
    look_up, meanwhile = process_table.from_proc, list[subprocess.Popen[bytes]]()

    def inspect(pid: int) -> process_table.Process | None:
        if pid == first.pid and not meanwhile:
            meanwhile.append(sleeper())
        return look_up(pid)

    monkeypatch.setattr(process_table, "from_proc", inspect)
    found = pids(since._replace(pid=first.pid - 1) if since else None)
    sleepers += meanwhile

    assert meanwhile[0].pid in found


def test_a_thread_is_no_process() -> None:
    """Although it has a number and a folder like one."""
    tids, over = list[int](), threading.Event()
    thread = threading.Thread(target=lambda: (tids.append(threading.get_native_id()), over.wait()))
    thread.start()
    until(lambda: tids)
    try:
        assert os.path.exists(f"/proc/{tids[0]}/stat")
        assert process_table.from_proc(tids[0]) is None
        assert process_table.from_proc(os.getpid()) is not None
    finally:
        over.set()
        thread.join()
