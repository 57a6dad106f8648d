"""A share of the cases of long tests: `LONG_SHARE=4` plays one in four of each test's, others with each `LONG_SEED`.

A pytest plugin. Without the variables all cases are played.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

SHARE = int(os.environ.get("LONG_SHARE", "1"))
SEED = int(os.environ.get("LONG_SEED", "0"))

T = TypeVar("T")


def chosen(cases: Sequence[T], share: int = SHARE, seed: int = SEED) -> Sequence[T]:
    """Those of the *cases* of one test that are played; one at least."""
    return [one for n, one in enumerate(cases) if (n - seed) % share == 0] or [cases[seed % len(cases)]]


def left_out(items: Sequence[pytest.Item], share: int = SHARE, seed: int = SEED) -> set[pytest.Item]:
    """The *items* marked `long` that are not in the share."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for cases in tests.values() for item in set(cases).difference(chosen(cases, share, seed))}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SHARE > 1 and "long" in config.option.markexpr:
        terminalreporter.write_line(f"one in {SHARE} of the cases of each test marked `long`: LONG_SEED={SEED}")
