"""What macOS tells of processes, where there is no `/proc`; `tests/macos/run` plays other tests in a simulation."""

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from until import until

from coterie.agents.backends import process_table
from coterie.agents.backends.base import Launched
from coterie.agents.backends.processes import activity, alive, attempt_of, is_stopped, marks_of, started

pytestmark = pytest.mark.macos

TEXT = st.sampled_from([b"", b"a", b"two words", b"\xff=\n", b"=", b"x" * 300])
VARIABLES = st.lists(TEXT.map(lambda value: b"NAME=" + value), max_size=4)


@given(st.lists(TEXT, max_size=4), VARIABLES, st.integers(0, 7), st.sampled_from([b"", b"\0ptr_munge=\0stack=\0"]))
def test_variables_are_found_between_arguments_and_strings_of_the_system(
    arguments: list[bytes], variables: list[bytes], padding: int, system: bytes
) -> None:
    """However many of each there are, empty ones too; the padding after the path is of any length."""
    first = [b"a", *arguments]
    told = len(first).to_bytes(4, sys.byteorder) + b"/bin/a\0" + b"\0" * padding
    told += b"".join(one + b"\0" for one in (*first, *variables)) + system

    found = process_table.environment_in(told)
    assert found == (b"".join(one + b"\0" for one in variables) if variables else b"")


@pytest.mark.parametrize("told", [b"", b"\1", b"\1\0\0\0", b"\1\0\0\0/bin/a", b"\377\377\377\177/a\0\0\0a\0"])
def test_an_answer_that_was_cut_off_has_no_variables(told: bytes) -> None:
    """It names more arguments than it has."""
    assert process_table.environment_in(told) == b""


@pytest.mark.parametrize(
    ("used", "seconds"),
    [("0:00.02", 0.02), ("12:34.50", 754.5), ("00:00:07", 7), ("101:02:03", 363723), ("2-01:00:00", 176400)],
)
def test_processor_time_is_read_in_the_forms_of_macos_and_linux(used: str, seconds: float) -> None:
    """Minutes without a bound there, hours and days here."""
    line = f"  7 1 7 Ss {used} Thu Nov 27 12:00:00 2026"

    [process] = process_table.from_ps(line)
    assert (process.seconds, process.state, process.started) == (seconds, "S", "Thu Nov 27 12:00:00 2026")


def test_without_proc_a_process_has_a_state_and_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a stopped owner is recognized, and an attempt at work is not taken for a stalled one."""
    monkeypatch.setattr(process_table, "HAS_PROC", False)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        try:
            record = process_table.look_up(child.pid)
            assert record is not None
            assert not is_stopped(child.pid)
            os.kill(child.pid, signal.SIGSTOP)
            until(lambda: is_stopped(child.pid))
            assert alive(child.pid, started(child.pid))
            seen = activity([Launched(pid=child.pid, group=child.pid, started=record.started)])
            assert seen is not None
            assert seen[1] == {child.pid}
        finally:
            child.kill()


def test_without_proc_the_ancestors_of_a_process_are_looked_up_in_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `ps` is a process: with one for each ancestor a sender in a deep tree kept the owner of a run waiting."""
    monkeypatch.setattr(process_table, "HAS_PROC", False)
    calls, run = [], process_table._from_ps
    monkeypatch.setattr(process_table, "_from_ps", lambda *which: (calls.append(which), run(*which))[1])
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 600; :'; :"], start_new_session=True) as child:
        try:
            for ask in (lambda: attempt_of(child.pid, {1: "r/a#1.1"}), lambda: marks_of(child.pid)):
                calls.clear()
                ask()
                assert calls in ([("-ax",)], [("-ax",), ("-ax",)])  # of this process's own marks once
            calls.clear()
            assert activity([Launched(pid=child.pid, group=child.pid, started=started(child.pid))]) is not None
            assert calls == [("-p", str(child.pid)), ("-ax",)]
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    assert attempt_of(child.pid) is None
