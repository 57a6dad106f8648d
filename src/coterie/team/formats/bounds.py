"""Limit the size and nesting of texts from files, in one pass before parsing.

Without limits, a few kilobytes can make a parser use minutes and gigabytes. The scans here recognize only strings and
comments, so a text that passes may still be invalid. The readers of `.at` and YAML texts have limits of their own.
"""

import errno
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coterie.base import agent_writes, files
from coterie.base.diagnostics import Diagnostic, Span, error

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


def check_obeyed(path: Path) -> None:
    """Check the file *path*, which has been read and decides what runs may do.

    Raises:
        PermissionError: If an agent could have written it and no operator trusts it; `strerror` says what to do.
    """
    if why := agent_writes.refusal(path):
        raise PermissionError(errno.EPERM, why, str(path))


def check_toml(text: str) -> Diagnostic | None:
    """The limit that the TOML *text* exceeds, as an error; None if it exceeds none."""
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
            return _beyond(text, found.start(), "too-large", f"it has more than {MAX_VALUES} values")
    return None


def check_json(text: str) -> Diagnostic | None:
    """The limit that the JSON *text* exceeds, as an error; None if it exceeds none."""
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
            return _beyond(text, found.start(), "too-large", f"it has more than {MAX_JSON_VALUES} values")
    return None


def load_json(text: str) -> Any:
    """Parse the JSON *text*.

    Raises:
        ValueError: If it is invalid or exceeds a limit; the message has the position.
    """
    import json

    refuse_json(text)
    return json.loads(text)


def refuse_json(text: str | bytes) -> None:
    """Raise `ValueError`, with the position, if the JSON *text* exceeds a limit."""
    found = check_json(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    if found is not None and found.span is not None:
        raise ValueError(f"{found.message}: line {found.span.line} column {found.span.column}")


def decode_json(data: bytes, type: type[T]) -> T:
    """Decode *data* as *type*; raises `ValueError` or its subclass `DecodeError` if it is invalid or too large."""
    refuse_json(data)
    return msgspec.json.decode(data, type=type)


def read_text(path: Path, most: int = MAX_TEXT) -> str:
    """The text of the file *path*, of at most *most* bytes, without a byte order mark.

    Raises:
        OSError: As for `read_bytes`, or if it is not UTF-8 text; `strerror` is the reason.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is not UTF-8 text", str(path)) from None
    except ValueError as failure:  # not a valid path
        raise OSError(errno.EINVAL, str(failure), str(path)) from None


class TooLarge(OSError):
    """A file is larger than the limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(0, f"it is larger than {most // 2**20} MB")


def read_bytes(path: Path, most: int = MAX_TEXT, *, any_kind: bool = False) -> bytes:
    """The content of the file *path*, of at most *most* bytes.

    Args:
        any_kind: Whether a pipe or a device is accepted, as for a path on the command line.

    Raises:
        OSError: If it cannot be read, is larger (`TooLarge`), or is not a regular file, which could block forever.
    """
    with open(path if any_kind else files.open_fd(path, follow=True), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(most)
    return data


def _beyond(text: str, offset: int, code: str, message: str) -> Diagnostic:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    hint = "reduce the nesting" if code == "too-deep" else "split it into several files, or remove a part of it"
    return error(code, message, Span(line, column, 1, offset), hint)
