import gc

import pytest

from coterie.team import formats

TEAM = "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"


@pytest.mark.parametrize("enabled", [True, False])
def test_reading_leaves_the_garbage_collector_as_it_was(enabled: bool) -> None:
    """It waits while a text is read, and afterwards works again, unless somebody had switched it off."""
    try:
        (gc.enable if enabled else gc.disable)()
        formats.read_text(TEAM)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_what_was_read_counts_as_old() -> None:
    """So the collector does not look at all of it as soon as it is back, and finds it with the rest when it looks."""
    if gc.get_freeze_count():
        pytest.skip("this Python has frozen something of its own, so nothing is made old")
    gc.collect()
    topology = formats.read_text(TEAM).topology

    assert gc.get_freeze_count() == 0
    assert any(each is topology for each in gc.get_objects(generation=2))


def test_what_a_program_froze_stays_frozen() -> None:
    """Before it forks, say; what was read counts as young then."""
    gc.freeze()
    try:
        formats.read_text(TEAM)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
