import pytest

from coterie.journal.records import AttemptFailed
from coterie.runs.retries import WAIT_MOST, Tally


@pytest.mark.parametrize(
    ("wait", "pauses"),
    [(0.0, [1.0, 2.0, 4.0]), (3.0, [3.0, 3.0, 4.0]), (60.0, [60.0, 60.0, 60.0]), (86400.0, [WAIT_MOST] * 3)],
)
def test_a_pause_is_as_long_as_whoever_was_asked_wants(wait: float, pauses: list[float]) -> None:
    """At least the backoff, at most five minutes; the fourth failure of that kind ends the turn."""
    tally = Tally()
    failed = AttemptFailed(turn="a#1", attempt=1, kind="rate_limited", reason="slow down", wait=wait)

    assert [tally.after_failure(failed, retry=0) for _ in range(4)] == [*pauses, None]
