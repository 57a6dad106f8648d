"""A share of the tests: `LONG_SHARE=16` plays one in sixteen of the long cases, `SHARE=10` one in ten of all tests.

A pytest plugin. Others are played with each `LONG_SEED`; without the variables all are. Tests marked `macos` are played
whatever `SHARE` says.
"""

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

import pytest

SHARE = int(os.environ.get("LONG_SHARE", "1"))
SEED = int(os.environ.get("LONG_SEED", "0"))
OF_ALL = int(os.environ.get("SHARE", "1"))

T = TypeVar("T")


def chosen(cases: Sequence[T], share: int = SHARE, seed: int = SEED) -> Sequence[T]:
    """One in *share* of the *cases*: none of a few with most seeds."""
    return [one for n, one in enumerate(cases) if (n + seed) % share == 0]


def left_out(
    items: Sequence[pytest.Item], share: int = SHARE, seed: int = SEED, of_all: int = OF_ALL
) -> set[pytest.Item]:
    """The *items* that are not in the share of all, and those marked `long` that are not in theirs."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    free = [item for item in items if not item.get_closest_marker("macos")]
    unwanted = {item for item in free if (crc32(item.nodeid.encode()) + seed) % of_all}  # as others come and go
    for name, cases in tests.items():
        long = [item for item in cases if item.get_closest_marker("long")]
        # tests of a module play the same of its fixtures; other modules, and single cases, with other seeds
        turn = name.partition("::")[0] if len(long) > 1 else name
        unwanted |= set(long).difference(chosen(long, share, seed + crc32(turn.encode())))
    return unwanted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SHARE > 1 and "long" in config.option.markexpr:
        terminalreporter.write_line(f"one in {SHARE} of the cases of tests marked `long`: LONG_SEED={SEED}")
    if OF_ALL > 1:
        terminalreporter.write_line(f"one in {OF_ALL} of all tests: LONG_SEED={SEED}")
