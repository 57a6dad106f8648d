import gc

import pytest

from coterie import formats

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
