"""The input of a run, from a command line."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coterie.base.waits import waiting
from coterie.errors import UsageError
from coterie.team.formats import bounds


def gather(prompt: str | None, file: Path | None, named: Iterable[str]) -> dict[str, Any]:
    """Return the input from a file, named values and a prompt; later ones override earlier ones.

    The prompt `-`, and the file `-`, are standard input.

    Raises:
        UsageError: If the file cannot be read, or a value is not written as `name=text` or `name:=JSON`.
    """
    given = from_file(file) if file is not None else {}
    given.update(map(pair, named))
    if prompt is not None:
        given["prompt"] = standard_input() if prompt == "-" else prompt
    return given


def from_file(path: Path) -> dict[str, Any]:
    """Return the input in *path*: named values if its name ends in `.json`, else the prompt."""
    if path == Path("-"):
        return {"prompt": standard_input()}
    try:
        text = bounds.read_bytes(path, bounds.MAX_INPUT, any_kind=True).decode()
    except OSError as error:
        raise UsageError(f"the input file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the input file {path} is not UTF-8 text") from None
    if path.suffix.lower() != ".json":
        return {"prompt": text}
    try:
        value = bounds.load_json(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the input file {path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f'the input file {path} must contain a JSON object, {{"name": value, …}}')
    return value


def standard_input() -> str:
    """Return the text on standard input."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: give the text as an argument")
    try:
        with waiting("the text on standard input"):
            return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"the text on standard input is not UTF-8: {error.reason} at byte {error.start}") from None


def pair(word: str) -> tuple[str, Any]:
    """Return the name and value in *word*: a text in `name=text`, JSON in `name:=JSON`."""
    name, equals, value = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise UsageError(f"{word!r} is not a named value; write name=text, or name:=JSON for a number, a list …")
    if not is_json:
        return name, value
    try:
        return name, bounds.load_json(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the value of {name!r} is not JSON: {error}") from None
