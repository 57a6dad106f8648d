"""A share of the cases of long tests: `LONG_SHARE=5` plays one in five, others with each `LONG_SEED`.

A pytest plugin. Without the variables all cases are played. A test that only has long cases plays one at least.
"""

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

import pytest

SHARE = int(os.environ.get("LONG_SHARE", "1"))
SEED = int(os.environ.get("LONG_SEED", "0"))

T = TypeVar("T")


def chosen(cases: Sequence[T], share: int = SHARE, seed: int = SEED) -> Sequence[T]:
    """One in *share* of the *cases*: none of a few with most seeds."""
    return [one for n, one in enumerate(cases) if (n + seed) % share == 0]


def left_out(items: Sequence[pytest.Item], share: int = SHARE, seed: int = SEED) -> set[pytest.Item]:
    """The *items* marked `long` that are not in the share."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    unwanted: set[pytest.Item] = set()
    for name, cases in tests.items():
        long = [item for item in cases if item.get_closest_marker("long")]
        # tests of one module play the same of its fixtures, and each module has its turn with another seed
        played = chosen(long, share, seed + crc32(name.partition("::")[0].encode()))
        if long == cases:
            played = played or [long[seed % len(long)]]
        unwanted |= set(long).difference(played)
    return unwanted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SHARE > 1 and "long" in config.option.markexpr:
        terminalreporter.write_line(f"one in {SHARE} of the cases of tests marked `long`: LONG_SEED={SEED}")
