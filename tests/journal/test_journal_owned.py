"""How long a run has been owned."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.journal import records as r
from coterie.journal.owned import OwnedTime


def test_time_without_an_owner_does_not_count() -> None:
    """What a new owner writes first ends a time that was nobody's: repairs, another plan, its own name."""
    time = OwnedTime()
    for record in (
        r.RunStarted(run="r", engine="loop", at=0.0),
        r.RunOwned(epoch=1, at=0.0),
        r.TurnStarted(turn="a#1", agent="a", at=10.0),
        r.JournalRepaired(file="torn", size=1, at=1_000.0),
        r.PlanReloaded(plan="{}", at=1_001.0),
        r.RunOwned(epoch=2, at=1_002.0),
        r.TurnFinished(turn="a#1", attempt=1, at=1_007.0),
    ):
        time.apply(record)

    assert time.seconds == 15.0
    assert time.until(1_010.0) == 18.0


def test_before_the_first_record_nothing_has_passed() -> None:
    assert OwnedTime().until(5_000.0) == 0.0


@given(st.lists(st.floats(0.0, 1e6), min_size=1).map(sorted))
def test_under_one_owner_all_time_counts(times: list[float]) -> None:
    time = OwnedTime()
    for at in times:
        time.apply(r.TurnStarted(turn="a#1", agent="a", at=at))

    assert abs(time.seconds - (times[-1] - times[0])) < 1e-3
