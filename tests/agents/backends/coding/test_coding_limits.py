"""When a limit ends, by the texts in which agents report it."""

from datetime import UTC, datetime

import pytest

from coterie.agents.backends.coding.limits import failed, until_reset

NOW = datetime(2026, 11, 22, 18, 0, tzinfo=UTC).timestamp()
HOUR, DAY = 3_600.0, 86_400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("429 Too many requests. Retry-After: 30", 30.0),
        ('{"error":{"type":"rate_limit_error"},"retry_after":12.5}', 12.5),
        ('{"retryAfterMs": 1500}', 0.0),
        ("Rate limit reached. Please try again in 20s.", 20.0),
        ("please retry after 2 minutes", 120.0),
        ("try again in 3 days 4 hours 5 minutes.", 3 * DAY + 4 * HOUR + 300),
        ("resets in 1h 30m", 1.5 * HOUR),
        ("try again in 250ms", 0.25),
        ("usage limit reached|1795370400", 1795370400 - NOW),
        ("limit resets at 1795370400000", 1795370400 - NOW),
        ("quota exceeded until 2026-11-22T20:00:00Z", 2 * HOUR),
        ("You've hit your limit · resets 3am (UTC)", 9 * HOUR),
        ("You've hit your limit · resets 12am (UTC)", 6 * HOUR),
        ("You've hit your limit · resets 12:30pm (UTC)", 18.5 * HOUR),
        ("You've hit your session limit · resets 10:30pm (Europe/Berlin)", 3.5 * HOUR),
        ("You've hit your weekly limit · resets Nov 25 at 1pm (UTC)", 2 * DAY + 19 * HOUR),
        ("You've hit your usage limit. Try again at Jan 2nd, 2027 3:05 PM (UTC)", 0.0),
        ("usage limit: try again at Dec 1st, 2026 6:00 PM (UTC)", 9 * DAY),
        ("resets Feb 30 at 1pm (UTC)", 0.0),
        ("resets 3pm (Nowhere/Land)", None),
        ("the reset was at 2026-11-22T10:00:00Z", 0.0),
        ("429", 0.0),
    ],
)
def test_the_time_until_the_reset_is_read(text: str, seconds: float | None) -> None:
    """A duration, a time stamp, Unix seconds or a time of day; one that is past, or far away, is not believed."""
    found = until_reset(text, NOW)

    if seconds is None:
        assert 0 < found <= DAY
    else:
        assert found == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "kind", "wait"),
    [
        ("API Error: 429 rate limited, retry after 5 s", "rate_limited", 5.0),
        ("You've hit your limit · resets in 2 hours", "quota", 2 * HOUR),
        ("429 quota, retry-after: 5", "quota", 5.0),
        ("retry-after: 5", "rate_limited", 5.0),
        ("billing issue", "quota", 0.0),
        ("529 overloaded", "transient", 0.0),
        ("Invalid API key · try again in 3 hours", "auth", 0.0),
        ("no such file", "failed", 0.0),
    ],
)
def test_a_wait_belongs_to_a_limit_only(text: str, kind: str, wait: float) -> None:
    """The text of another failure may name a duration that has nothing to do with it."""
    failure = failed(text, now=NOW)

    assert (failure.kind, failure.wait) == (kind, wait)


def test_what_the_protocol_names_beats_the_text() -> None:
    """An error's own kind and reset time are exact."""
    failure = failed("429 try again in 5 s", "quota", wait=60.0, now=NOW)

    assert (failure.kind, failure.wait) == ("quota", 60.0)
