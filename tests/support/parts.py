"""Properties over many seeds, cut into parts: a few are played by default, and all of them where `long` is."""

import pytest
from hypothesis import settings


def parts(count: int, default: int = 1) -> pytest.MarkDecorator:
    """Run a test with each `part` from 0 to *count*; those from *default* on are `long`."""
    return pytest.mark.parametrize(
        "part", [pytest.param(part, marks=pytest.mark.long if part >= default else ()) for part in range(count)]
    )


def one_in(number: int) -> settings:
    """The settings of a property whose examples are dear: one for every *number* of others."""
    return settings(max_examples=max(settings().max_examples // number, 5))
