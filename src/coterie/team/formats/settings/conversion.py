"""Convert values of settings files to the types of their keys, without guessing."""

import re
from collections.abc import Callable
from typing import Any

from coterie.team.formats.settings.durations import seconds
from coterie.team.formats.settings.keys import Key

_WHOLE = re.compile(r"[+-]?[0-9](?:_?[0-9])*")
_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
_WANTED = {
    "text": "a text",
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "list": "a list of texts",
    "commands": 'a list of commands such as [["make", "test"]]',
    "duration": "a duration such as 90s, 15m or 1h30m, or milliseconds",
    "ms": "a whole number of milliseconds",
}


class InvalidSetting(ValueError):
    """A value is invalid for its key; the message says what is valid."""


def convert(key: Key, value: Any, raw: str | None = None) -> Any:
    """*value* as the type of *key*; durations in seconds.

    Args:
        raw: The text of a value without quotes.

    Raises:
        InvalidSetting: If it is invalid.
    """
    found = _CONVERT[key.type](value, raw)
    if found is None:
        raise InvalidSetting(f"{key.name} must be {_WANTED[key.type]}, not {shown(value)}")
    if key.meaning.choices and found not in key.meaning.choices:
        known = ", ".join(choice or '""' for choice in key.meaning.choices)
        raise InvalidSetting(f"{key.name} must be one of {known}, not {shown(value)}")
    least = key.meaning.least
    if least is not None and (found * 1000 if key.type in ("ms", "duration") else found) < least:
        raise InvalidSetting(f"{key.name} must be {_WANTED[key.type]}, {least:g} or more, not {shown(value)}")
    return found


def shown(value: Any) -> str:
    """*value* as in a file, shortened."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def list_of(text: str) -> tuple[str, ...]:
    """The items of a list in a text, `a, b` or `[a, b]`, without empty ones."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    return tuple(item for part in text.split(",") if (item := _bare(part.strip())))


def _bare(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text


def _text(value: Any, raw: str | None) -> str | None:
    return value if isinstance(value, str) else raw


def _whole(value: Any, raw: str | None) -> int | None:
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value.strip())
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any, raw: str | None) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        found = float(value.strip()) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, AttributeError):
        return None
    return found if found - found == 0 else None  # neither infinite nor NaN


def _flag(value: Any, raw: str | None) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    return _FLAGS.get(value) if isinstance(value, str) else None


def _list(value: Any, raw: str | None) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return list_of(value)
    if raw is not None:
        return (raw,)
    if not isinstance(value, list) or any(isinstance(item, list | dict) for item in value):
        return None
    return tuple(item if isinstance(item, str) else shown(item) for item in value)


def _commands(value: Any, raw: str | None) -> tuple[tuple[str, ...], ...] | None:
    if not isinstance(value, list):
        return None
    commands = tuple(_list(item, None) if isinstance(item, list) else None for item in value)
    return tuple(map(tuple, filter(None, commands))) if all(command and command[0] for command in commands) else None


def _duration(value: Any, raw: str | None) -> float | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return seconds(str(value))
    return seconds(value) if isinstance(value, str) else None


def _ms(value: Any, raw: str | None) -> float | None:
    found = _whole(value, raw)
    return None if found is None else found / 1000


_CONVERT: dict[str, Callable[[Any, str | None], Any]] = {
    "text": _text,
    "whole": _whole,
    "number": _number,
    "flag": _flag,
    "list": _list,
    "commands": _commands,
    "duration": _duration,
    "ms": _ms,
}
