"""Representative outputs of agents: one value for each outcome of the comparisons.

Conditions compare an output with constants, so values that no comparison distinguishes are equivalent. The
representatives are real values, which a rehearsal can use.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from coterie.history.engines.schemas import sample
from coterie.team.planning.plan import Wanted
from coterie.team.topology.conditions import Scalar, as_text, is_number

MISSING: Any = object()
"""The value of an undeclared output that a reply lacks."""


def representatives(wanted: Wanted, constants: Iterable[Scalar]) -> Iterator[Any]:
    """Values of *wanted* such that every comparison with *constants* has every possible outcome, likely ones first.

    Members of an enum and both booleans represent themselves. Numbers lie at, below, above and between the constants,
    both whole and fractional; texts are the constants and one other text. An output without a declared type may be any
    of these or, unless it is needed, `MISSING`.
    """
    constants = list(constants)
    if wanted.schema:
        yield sample(wanted.schema)
        return
    if not wanted.declared:
        yield from constants
        yield from _texts(constants)
        if not wanted.needed:
            yield MISSING
        yield from _numbers(constants)
        return
    match wanted.type:
        case "enum":
            yield from wanted.values
        case "boolean":
            yield from (True, False)
        case "integer":
            yield from _integers(constants)
        case "number":
            yield from _numbers(constants)
        case "text":
            yield from _texts(constants)
        case "list":
            yield from (["other"], [])
        case _:
            yield from _texts(constants)
            yield from _numbers(constants)


def some_value(wanted: Wanted) -> Any:
    """A value for an output that is never compared."""
    return next(iter(representatives(wanted, ())))


def _texts(constants: Iterable[Scalar]) -> Iterator[str]:
    texts = dict.fromkeys(map(as_text, constants))
    yield from texts
    other = "other"
    while other in texts:
        other += "-"
    yield other


def _integers(constants: Iterable[Scalar]) -> Iterator[int]:
    points = _points(constants) or [0]
    for beside in (0, 1, -1):
        for point in points:
            yield math.floor(point) + beside
            yield math.ceil(point) + beside


def _numbers(constants: Iterable[Scalar]) -> Iterator[int | float]:
    points = sorted(set(_points(constants))) or [0]
    found: list[int | float] = [*points, math.ceil(points[-1]) + 1, math.floor(points[0]) - 1]
    for low, high in pairwise(points):
        found += [between for between in _halves(low, high) if low < between < high]
    for number in found:
        yield number
        if isinstance(number, float) and number.is_integer():
            yield int(number)
        elif isinstance(number, int) and abs(number) <= 1 << 53:
            yield float(number)


def _halves(low: float, high: float) -> Iterator[int | float]:
    """The midpoint, and a whole number there: between large floats are whole numbers that no float represents."""
    if max(abs(low), abs(high)) < sys.float_info.max:
        yield low / 2 + high / 2
    yield (math.floor(low) + math.ceil(high)) // 2


def _points(constants: Iterable[Scalar]) -> list[int | float]:
    """The numbers among *constants*, quoted ones included: a quoted value equals the number written like it."""
    points: list[int | float] = []
    for constant in constants:
        value: Any = constant
        if isinstance(constant, str):
            try:
                value = json.loads(constant)
            except ValueError:
                continue
        if is_number(value) and math.isfinite(value):
            points.append(value)
    return points
