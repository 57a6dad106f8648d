"""How large and how deeply nested a text from a file may be; checked in one pass before a parser sees it.

A parser that builds values first and complains later can be made to take minutes and gigabytes by a few kilobytes. The
scans here know the strings and comments of a format, and nothing else of it: a text that passes may still be wrong.
`.at` and YAML texts are bounded by their own readers, which parse step by step.
"""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coterie import files
from coterie.diagnostics import Diagnostic, Span, error

T = TypeVar("T")

MAX_TEXT = 2 * 1024 * 1024
"""Bytes of a file that describes a team or its settings, together with those that belong to it."""
MAX_INPUT = 64 * 1024 * 1024
"""Bytes of a file of input for a run, and of scripts and recordings."""
MAX_NESTED = 100
"""How deeply values may be nested."""
MAX_KEY_PARTS = 32
"""Parts of a dotted key."""
MAX_VALUES = 50_000
"""Keys, parts of keys and values of a TOML text."""
MAX_JSON_VALUES = 1_000_000
"""Values of a JSON text."""

_TOML = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)|'
    r"'''(?:[^']++|'(?!''))*+(?:'''|\Z)|"
    r'"(?:[^"\\\n]++|\\.)*+"?|'
    r"'[^'\n]*+'?|"
    r"\#[^\n]*+|"
    r"([\[\]{}.,=\n])",
    re.DOTALL,
)
_JSON = re.compile(r'"(?:[^"\\]++|\\.)*+"?|([\[\]{},])', re.DOTALL)


def check_toml(text: str) -> Diagnostic | None:
    """What of *text*, which is to be TOML, is beyond the bounds; None if nothing is."""
    nested: list[int] = []
    depth = key = parts = values = 0
    for found in _TOML.finditer(text):
        sign = found[1]
        if sign is None or (sign in "]}" and not nested):
            continue
        if sign in "]}":
            depth -= nested.pop()
        elif sign in ",\n":
            key = parts = 0
        elif sign == "=":
            key, parts = parts, 0
        elif sign == ".":
            parts += 1
        else:
            nested.append(key + 1)
            depth += key + 1
            key = parts = 0
        values += sign in ".,=[{"
        if parts >= MAX_KEY_PARTS:
            return _beyond(text, found.start(), "too-deep", f"a key has more than {MAX_KEY_PARTS} parts")
        if depth > MAX_NESTED:
            return _beyond(text, found.start(), "too-deep", f"values are nested more than {MAX_NESTED} deep")
        if values > MAX_VALUES:
            return _beyond(text, found.start(), "too-large", f"it holds more than {MAX_VALUES} values")
    return None


def check_json(text: str) -> Diagnostic | None:
    """What of *text*, which is to be JSON, is beyond the bounds; None if nothing is."""
    depth = values = 0
    for found in _JSON.finditer(text):
        sign = found[1]
        if sign is None:
            continue
        if sign in "]}":
            depth -= 1
            continue
        values += 1
        depth += sign in "[{"
        if depth > MAX_NESTED:
            return _beyond(text, found.start(), "too-deep", f"values are nested more than {MAX_NESTED} deep")
        if values > MAX_JSON_VALUES:
            return _beyond(text, found.start(), "too-large", f"it holds more than {MAX_JSON_VALUES} values")
    return None


def load_json(text: str) -> Any:
    """The value that the JSON *text* stands for.

    Raises:
        ValueError: If it is none, or beyond the bounds; the message says where.
    """
    import json

    refuse_json(text)
    return json.loads(text)


def refuse_json(text: str | bytes) -> None:
    """Raise `ValueError`, which says where, if *text*, which is to be JSON, is beyond the bounds."""
    found = check_json(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    if found is not None and found.span is not None:
        raise ValueError(f"{found.message}: line {found.span.line} column {found.span.column}")


def decode_json(data: bytes, type: type[T]) -> T:
    """*data* as a value of *type*; `ValueError` and its subclass `DecodeError` if it is none, or beyond the bounds."""
    refuse_json(data)
    return msgspec.json.decode(data, type=type)


class TooLarge(OSError):
    """A file is larger than is read."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(0, f"it is larger than {most // 2**20} MB")


def read_bytes(path: Path, most: int = MAX_TEXT, *, any_kind: bool = False) -> bytes:
    """The content of the file *path*, of at most *most* bytes.

    Args:
        any_kind: Whether a pipe or a device will do: the user names it on the command line.

    Raises:
        OSError: If it cannot be read, is larger (`TooLarge`), or is no regular file: that could block for ever.
    """
    with open(path if any_kind else files.open_fd(path, follow=True), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(most)
    return data


def _beyond(text: str, offset: int, code: str, message: str) -> Diagnostic:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    hint = "nest less" if code == "too-deep" else "split it into several files, or leave something out"
    return error(code, message, Span(line, column, 1, offset), hint)
