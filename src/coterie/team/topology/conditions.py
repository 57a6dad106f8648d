"""Conditions on arrows, such as `reviewer.verdict == "revise"`, and their evaluation.

The rules are those of the flow notation (rule 5): a value that was never produced satisfies no condition, not even
`!=`.
"""

import json
import re
from enum import Enum
from typing import Any, assert_never

from msgspec import Struct

Scalar = str | int | float | bool
"""A literal in a file: a quoted text or a word, a number, true or false."""


class Operator(Enum):
    """Comparison operators."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Condition(Struct, frozen=True, omit_defaults=True):
    """One comparison of an agent's latest output with a constant.

    Attributes:
        agent: The agent whose output is read.
        field: The output's name.
        op: The comparison.
        value: The constant; a text when it was quoted or a bare word.
        over: `any` or `all`, of the items of a mapped agent; empty for an agent that is not mapped.
    """

    agent: str
    field: str
    op: Operator
    value: Scalar
    over: str = ""

    def __str__(self) -> str:
        return f"{self.over} {self.agent}.{self.comparison}".lstrip()

    @property
    def comparison(self) -> str:
        """The condition without the agent: `verdict == "revise"`."""
        return f"{self.field} {self.op.value} {json.dumps(self.value)}"

    def holds(self, actual: Any, *, exact: bool = False) -> bool:
        """Whether the produced output *actual* (any JSON value) satisfies the condition.

        `==` and `!=` compare as `equal` does. The ordered operators hold for two numbers only. Of a set's output, which
        is a list, the comparison of an item that is null is false; over no items `all` is true.

        Args:
            exact: Whether texts are compared including case and full stop, as in runs of earlier versions.
        """
        if self.over:
            held = (item is not None and self.compares(item, exact=exact) for item in actual)
            return any(held) if self.over == "any" else all(held)
        return self.compares(actual, exact=exact)

    def compares(self, actual: Any, *, exact: bool = False) -> bool:
        """Whether the single value *actual* satisfies the comparison."""
        match self.op:
            case Operator.EQ:
                return equal(actual, self.value, exact=exact)
            case Operator.NE:
                return not equal(actual, self.value, exact=exact)
            case Operator.LT:
                return _numbers(actual, self.value) and actual < self.value
            case Operator.LE:
                return _numbers(actual, self.value) and actual <= self.value
            case Operator.GT:
                return _numbers(actual, self.value) and actual > self.value
            case Operator.GE:
                return _numbers(actual, self.value) and actual >= self.value
            case _:
                assert_never(self.op)


_COMPARISON = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(==|!=|<=|>=|<|>)\s*(\S.*?)\s*")
_WORD = re.compile(r"[\w.-]+")


def comparison(agent: str, text: str) -> Condition | None:
    """Parse *text*, such as `verdict == "revise"`, as a condition on an output of *agent*; None if invalid.

    The constant is a quoted text, a number, true or false, or one bare word.
    """
    found = _COMPARISON.fullmatch(text)
    value = _constant(found[3]) if found is not None else None
    return None if found is None or value is None else Condition(agent, found[1], Operator(found[2]), value)


def _constant(word: str) -> Scalar | None:
    quoted = word[1:-1] if len(word) > 1 and word[0] == word[-1] == "'" else None
    if quoted is not None:
        return quoted if "'" not in quoted else None
    try:
        value = json.loads(word)
    except ValueError:
        return word if _WORD.fullmatch(word) else None
    return value if isinstance(value, str | int | float | bool) else None


def equal(left: Any, right: Any, *, exact: bool = False) -> bool:
    """Whether a condition treats two JSON values as equal: numbers as numbers, all others as text (`as_text`).

    Texts are compared without case and without a closing full stop, unless *exact*.
    """
    if _numbers(left, right):
        return bool(left == right)
    one, other = as_text(left), as_text(right)
    return one == other or (not exact and _folded(one) == _folded(other))


def as_text(value: Any) -> str:
    """The text by which a JSON value is compared: a string trimmed, anything else as JSON."""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _folded(text: str) -> str:
    return text.removesuffix(".").rstrip().casefold()


def is_number(value: Any) -> bool:
    """Whether *value* is a JSON number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(left: Any, right: Any) -> bool:
    return is_number(left) and is_number(right)
