import pytest

from coterie.journal.records import AttemptFailed, AttemptInterrupted
from coterie.runs.driver.retries import WAIT_MOST, Tally


@pytest.mark.parametrize(
    ("wait", "pauses"),
    [(0.0, [1.0, 2.0, 4.0]), (3.0, [3.0, 3.0, 4.0]), (60.0, [60.0, 60.0, 60.0]), (86400.0, [WAIT_MOST] * 3)],
)
def test_a_pause_is_as_long_as_whoever_was_asked_wants(wait: float, pauses: list[float]) -> None:
    """At least the backoff, at most five minutes; the fourth failure of that kind ends the turn."""
    tally = Tally()
    failed = AttemptFailed(turn="a#1", attempt=1, kind="rate_limited", reason="slow down", wait=wait)

    assert [tally.after_failure(failed, retry=0) for _ in range(4)] == [*pauses, None]


@pytest.mark.parametrize("attempts", [1, 2, 7])
def test_a_number_of_attempts_is_for_all_kinds_of_failures(attempts: int) -> None:
    """Whichever they are, so many and no more; what was cut off is none of them."""
    kinds = ("transient", "invalid_output", "failed")
    for start in range(3):
        tally = Tally()
        waits = []
        for n in range(attempts):
            tally.after_interruption(AttemptInterrupted(turn="a#1", attempt=n, reason="interrupted"))
            kind = kinds[(start + n) % 3]
            failed = AttemptFailed(turn="a#1", attempt=n, kind=kind, reason="no")
            waits.append(tally.after_failure(failed, retry=0, attempts=attempts))
        assert [wait is None for wait in waits] == [False] * (attempts - 1) + [True]
