"""Regular expressions that files contain: compiled so that matching takes linear time, whatever they say.

The syntax is RE2's: the common one without backreferences, lookahead, lookbehind and possessive quantifiers, which
cannot be matched in linear time. `\\d`, `\\w` and `\\s` mean ASCII.
"""

from functools import lru_cache
from typing import Any

MAX_EXPRESSION = 1000
"""Longer expressions, in characters, are errors."""
MAX_TEXT = 1000
"""A longer text, in characters, matches no expression."""
_MEMORY = 256 * 1024
"""Bytes that an expression may take when it is compiled."""

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
"""What RE2's messages begin to quote when they refuse syntax that other libraries have."""


def problem(expression: str) -> str:
    """Why *expression* cannot be used; empty if it can."""
    found = _compiled(expression)
    return found if isinstance(found, str) else ""


def matches(expression: str, text: str) -> bool:
    """Whether all of *text* matches *expression*; nothing matches one that cannot be used."""
    found = _compiled(expression)
    if isinstance(found, str) or len(text) > MAX_TEXT:
        return False
    try:
        return found.fullmatch(text) is not None
    except UnicodeEncodeError:  # half a surrogate pair is no character
        return False


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    """The compiled expression, or why there is none."""
    import re2  # type: ignore[import-untyped]  # only where a file contains an expression

    if len(expression) > MAX_EXPRESSION:
        return f"it has more than {MAX_EXPRESSION} characters"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(expression, options)
    except UnicodeEncodeError:
        return "it holds half a character"
    except re2.error as failure:
        return _reason(failure.args[0])


def _reason(failure: bytes | str) -> str:
    said = failure.decode("utf-8", "replace") if isinstance(failure, bytes) else failure
    what, _, where = said.partition(": ")
    named = _UNSUPPORTED.get("\\1" if where[1:].isdigit() else where)
    if what in ("invalid perl operator", "invalid escape sequence") and named is not None:
        return f"{named}, `{where}`, is not supported, because it cannot be matched in linear time"
    return said
