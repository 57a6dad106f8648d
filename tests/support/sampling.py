"""Seeds of schedules: a few spread over all of them by default, and all of them in chunks that are marked `long`."""

from typing import Any

import pytest


def sampled(count: int, sample: int, chunk: int = 250) -> list[Any]:
    """Parameters, each a range of seeds below *count*: *sample* of them, and chunks that together are all."""
    chunks = [range(first, min(first + chunk, count)) for first in range(0, count, chunk)]
    return [
        pytest.param(range(0, count, count // sample), id="sample"),
        *(pytest.param(one, id=f"from {one.start}", marks=pytest.mark.long) for one in chunks),
    ]
