"""How much work something is, counted and not timed: a slow machine counts the same."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


class Compared(str):
    """A text that counts, in *times*, how often such texts are compared with others."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def comparisons(work: Callable[[], object]) -> int:
    """How often *work* compares a `Compared` with another text."""
    before = Compared.times
    work()
    return Compared.times - before


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python *work* runs, those of whatever it calls included."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def most_held(work: Callable[[], object]) -> int:
    """How many bytes *work* holds at its fullest, beyond what was held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
