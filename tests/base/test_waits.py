"""What takes long is named once the user has seen nothing for two seconds."""

import threading

import pytest

from coterie.base.clock import VirtualClock
from coterie.base.waits import WaitNotices, mark_shown, waiting
from coterie.interfaces.cli.output import announce, rewrite


class Notices(WaitNotices):
    """Notices at a time that a test sets, and what they printed."""

    def __init__(self) -> None:
        self.clock, self.printed = VirtualClock(), list[str]()
        super().__init__(self.printed.append, self.clock.now)

    def after(self, seconds: float) -> list[str]:
        """What is printed when *seconds* have passed."""
        self.printed.clear()
        self.clock.advance(seconds)
        self.check()
        return list(self.printed)


def test_a_wait_is_shown_after_two_seconds_and_once() -> None:
    """Not earlier, and not again while it goes on."""
    notices = Notices()
    with waiting("git to make the work tree"):
        assert notices.after(1.9) == []
        assert notices.after(0.1) == ["waiting for git to make the work tree"]
        assert notices.after(60) == []
    assert notices.after(60) == []


def test_short_waits_inside_a_long_one_do_not_add_up_to_silence() -> None:
    """The silence counts, not the age of a wait: after two seconds the innermost wait is shown."""
    notices = Notices()
    with waiting("`coterie doctor` to finish"):
        with waiting("the check of python"):
            assert notices.after(1.5) == []
        with waiting("the check of state"):
            assert notices.after(0.5) == ["waiting for the check of state"]
        assert notices.after(1.9) == []
        assert notices.after(0.1) == ["waiting for `coterie doctor` to finish"]


def test_output_ends_the_silence() -> None:
    """Who prints has said what happens."""
    notices = Notices()
    with waiting("the model"):
        assert notices.after(1.9) == []
        notices.note_output()
        assert notices.after(1.9) == []
        assert notices.after(0.1) == ["waiting for the model"]


def test_nothing_is_waited_for_and_nothing_is_shown() -> None:
    """Silence without a wait, and waits that the screen shows otherwise, print nothing; a later wait does."""
    notices = Notices()
    assert notices.after(60) == []
    with waiting("the run"):
        assert notices.after(1) == []
        mark_shown()
        assert notices.after(60) == []
        with waiting("git to save a snapshot"):
            assert notices.after(1.9) == []
        assert notices.after(60) == []
        with waiting("the closing steps of the run"):
            assert notices.after(1.9) == []
            assert notices.after(0.1) == ["waiting for the closing steps of the run"]


def test_a_line_that_counts_up_is_not_interrupted() -> None:
    """The progress of `simulate` is one line that is rewritten; it says what happens."""
    notices = Notices()
    with waiting("`coterie simulate` to finish"):
        assert notices.after(1) == []
        rewrite("17 of 100 schedules")
        assert notices.after(60) == []


def test_a_server_waits_for_nothing() -> None:
    """From its line on, which says where it serves; what it waits for before is shown."""
    notices = Notices()
    with waiting("`coterie ui` to finish"):
        assert notices.after(2) == ["waiting for `coterie ui` to finish"]
    with waiting("`coterie ui` to finish"):
        announce("http://127.0.0.1:7411/")
        assert notices.after(60) == []


def test_a_wait_that_failed_is_over() -> None:
    """It is not named by what comes after it."""
    notices = Notices()
    with pytest.raises(OSError, match="gone"), waiting("a file"):
        raise OSError("gone")
    assert notices.after(60) == []


def test_work_that_blocks_the_process_is_shown_as_well() -> None:
    """The check runs on its own thread, which ends with the block."""
    shown, times = threading.Event(), iter([0.0])
    notices = WaitNotices(lambda notice: shown.set(), lambda: next(times, 9.0))
    with notices.watch(), waiting("a file"):
        assert shown.wait(60)
    assert "waits" not in [thread.name for thread in threading.enumerate()]
