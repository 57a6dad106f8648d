"""How long a run has been owned."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coterie.history.journal import records as r
from coterie.history.journal.owned import OwnedTime


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


def test_time_in_which_the_machine_was_suspended_does_not_count() -> None:
    """Neither as time that the run was owned, nor for its time-out; a clock that was set back takes nothing away."""
    time = OwnedTime()
    for record in (
        r.RunOwned(epoch=1, at=0.0),
        r.TurnStarted(turn="a#1", agent="a", at=10.0),
        r.RunSuspended(seconds=1_000.0, at=1_025.0),
        r.TurnFinished(turn="a#1", attempt=1, at=1_030.0),
        r.RunSuspended(seconds=50.0, at=1_031.0),
    ):
        time.apply(record)

    assert (time.seconds, time.limited, time.waited) == (30.0, 30.0, 0.0)
    assert time.until(1_041.0) == 40.0


def counted(*records: r.Record) -> float:
    """What counts for the time-out of a team whose run has *records*, each a second after the one before."""
    time = OwnedTime()
    for at, record in enumerate((r.RunOwned(epoch=1), r.TurnStarted(turn="a#1", agent="a"), *records)):
        time.apply(replace(record, at=float(at)))
    return time.limited


def test_the_time_for_which_a_run_was_parked_counts_from_the_next_stop_on() -> None:
    """An owner that takes an answer at once is in time; a kill and any other stop leave time that never counts."""
    parked, killed, owned = r.RunStopped(reason=r.WAITING), r.TurnStarted(turn="a#1", agent="a"), r.RunOwned(epoch=2)

    assert counted(parked) == counted(parked, owned) == 2.0
    assert counted(parked, owned, parked) == 4.0
    assert counted(parked, r.JournalRepaired(file="torn", size=1), owned, parked) == 4.0
    assert counted(parked, owned, killed, owned, parked) == 5.0
    assert counted(killed, owned, parked) == counted(r.RunStopped(reason="interrupted"), owned, parked) == 3.0


def test_a_run_that_was_reopened_has_all_its_time_again() -> None:
    parked, owned = r.RunStopped(reason=r.WAITING), r.RunOwned(epoch=2)

    assert counted(parked, owned, r.RunFinished(outcome="failed"), r.RunReopened()) == 0.0
    assert counted(parked, owned, r.RunFinished(outcome="failed"), r.RunReopened(), r.RunOwned(epoch=3), parked) == 1.0


def test_a_record_from_before_the_reopening_is_no_time() -> None:
    """An engine takes it in once the run was reopened; neither its time nor its kind counts again."""
    times = (0.0, 10.0, 100.0, 8.0, 101.0, 103.0)
    kinds = (
        r.RunOwned(epoch=1),
        r.RunFinished(outcome="failed"),
        r.RunReopened(),
        r.TurnFinished(turn="a#1", attempt=1),
        r.RunOwned(epoch=2),
        r.TurnStarted(turn="b#1", agent="b"),
    )
    time = OwnedTime()
    for at, record in zip(times, kinds, strict=True):
        time.apply(replace(record, at=at))

    assert (time.seconds, time.limited, time.waited) == (12.0, 2.0, 91.0)
    assert time.until(105.0) == 14.0


def test_before_the_first_record_nothing_has_passed() -> None:
    assert OwnedTime().until(5_000.0) == 0.0


@given(st.lists(st.floats(0.0, 1e6), min_size=1).map(sorted))
def test_under_one_owner_all_time_counts(times: list[float]) -> None:
    time = OwnedTime()
    for at in times:
        time.apply(r.TurnStarted(turn="a#1", agent="a", at=at))

    assert abs(time.seconds - (times[-1] - times[0])) < 1e-3
