"""The clock of leases counts the time in which a machine sleeps."""

import time

import pytest

from coterie.base.clock import SystemClock, boot_time


def test_boot_time_counts_sleep_on_linux_and_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux has a clock for it; that of macOS is the one which does not count sleep on Linux, and not `monotonic`."""
    read: list[int] = []
    monkeypatch.setattr(time, "clock_gettime", lambda clock: float(read.append(clock) or 7))
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 99, raising=False)
    assert boot_time() == 7
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert boot_time() == 7
    assert read == [99, time.CLOCK_MONOTONIC]


def test_the_system_clock_tells_how_long_the_machine_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference between the clock that counts it and the one by which the event loop sets its timers."""
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 1000.00049)
    monkeypatch.setattr(time, "monotonic", lambda: 400.25)
    assert SystemClock().slept() == 599.75
