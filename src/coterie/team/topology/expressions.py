"""Regular expressions from files, matched in linear time.

The syntax is RE2's: the common one without backreferences, lookahead, lookbehind and possessive quantifiers, which
cannot be matched in linear time. `\\d`, `\\w` and `\\s` mean ASCII. Where RE2 is not installed (the extra
`re2`), Python's `re` matches what it can match in linear time, and the rest is refused with the line that installs RE2.
"""

from functools import lru_cache
from typing import Any

MAX_EXPRESSION = 1000
"""The longest valid expression, in characters."""
MAX_TEXT = 1000
"""The longest text in characters that can match an expression."""
_MEMORY = 256 * 1024
"""Memory limit of a compiled expression, in bytes."""

_UNSUPPORTED = {
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<": "lookbehind",
    "(?P": "a named backreference",
    "(?>": "an atomic group",
    "(?#": "a comment",
    "(?(": "a condition",
    "\\1": "a backreference",
}
"""Prefixes that RE2's messages quote for unsupported syntax that other libraries have."""


def problem(expression: str) -> str:
    """Why *expression* is invalid; empty if it is valid."""
    found = _compiled(expression)
    return found if isinstance(found, str) else ""


def matches(expression: str, text: str) -> bool:
    """Whether all of *text* matches *expression*; an invalid expression matches nothing."""
    found = _compiled(expression)
    if isinstance(found, str) or len(text) > MAX_TEXT:
        return False
    try:
        return found.fullmatch(text) is not None
    except UnicodeEncodeError:  # a lone surrogate is not a character
        return False


def compiled(expression: str) -> Any:
    """The compiled *expression*, for texts of any length.

    Raises:
        ValueError: If it is invalid.
    """
    found = _compiled(expression, bounded=True)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(maxsize=4096)
def _compiled(expression: str, *, bounded: bool = False) -> Any:
    """The compiled expression, or the reason why it is invalid; *bounded*: for searches, see `linear`."""
    if len(expression) > MAX_EXPRESSION:
        return f"it has more than {MAX_EXPRESSION} characters"
    try:
        import re2  # type: ignore[import-untyped]  # only where a file contains an expression
    except ImportError:  # as where its library has no wheel
        return _without_re2(expression, bounded=bounded)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(expression, options)
    except UnicodeEncodeError:
        return "it contains a lone surrogate"
    except re2.error as failure:
        return _reason(failure.args[0])


def _without_re2(expression: str, *, bounded: bool) -> Any:
    from coterie.team.topology import linear

    found = linear.compiled(expression, bounded=bounded)
    return (
        f"{found}; pip install 'coterie[re2]' installs the library that reads it" if isinstance(found, str) else found
    )


def _reason(failure: bytes | str) -> str:
    said = failure.decode("utf-8", "replace") if isinstance(failure, bytes) else failure
    what, _, where = said.partition(": ")
    named = _UNSUPPORTED.get("\\1" if where[1:].isdigit() else where)
    if what in ("invalid perl operator", "invalid escape sequence") and named is not None:
        return f"{named}, `{where}`, is not supported, because it cannot be matched in linear time"
    return said
