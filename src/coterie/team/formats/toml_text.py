"""Read TOML texts: their values, and the span of each key, which `tomllib` does not report."""

import re
from collections.abc import Iterator
from typing import Any

from coterie.base.diagnostics import Diagnostic, Span, error
from coterie.team.formats.bounds import check_toml

Path = tuple[str | int, ...]
"""The path of a value: names of tables and keys, and indices of arrays of tables."""

_QUOTED = r"""(?:"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')"""
STRING = rf'''(?:"""(?:[^"\\]++|\\.|"(?!""))*+"{{3,5}}|\'\'\'(?:[^']++|'(?!''))*+'{{3,5}}|(?!"""|\'\'\'){_QUOTED})'''
"""A regular expression that matches a complete string; its flag is `re.DOTALL`."""

_BETWEEN = re.compile(r"(?:[\s\ufeff]++|#[^\n]*+)*+")
_HEADER = re.compile(rf"(\[\[?)((?:{_QUOTED}|[^\]\"'])*+)\]\]?")
_KEY = re.compile(rf"(?:{_QUOTED}|[^=\"'])*+")
_PART = re.compile(rf"({_QUOTED})|[^\s.\"']++")
_TOKEN = re.compile(rf"{STRING}|#[^\n]*+|([\[\]{{}}\n])", re.DOTALL)
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$")


def loads(text: str) -> dict[str, Any]:
    """As `tomllib.loads`; the import takes 3 ms, and few commands need it."""
    import tomllib

    return tomllib.loads(text)


def load(text: str) -> tuple[dict[str, Any], Diagnostic | None]:
    """The values of *text*, or the error that prevents reading it."""
    if (beyond := check_toml(text)) is not None:
        return {}, beyond
    try:
        return loads(text), None
    except (ValueError, RecursionError) as failure:  # e.g. a number with too many digits
        reason = str(failure)
    span = None
    if found := _PLACE.search(reason):
        line, column = (int(found[1]), int(found[2])) if found[1] else (text.count("\n") + 1, 1)
        span, reason = Span(line, column), reason[: found.start()]
    return {}, error("not-toml", f"this is not TOML: {reason[:1].lower()}{reason[1:]}", span)


def key_spans(text: str) -> dict[Path, Span]:
    """The span of each key of *text*, which must be valid TOML, and of each table's header.

    Keys in inline tables and arrays are not included.
    """
    found: dict[Path, Span] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    line, at = 1, 0
    while (start := _end(_BETWEEN, text, at)) < len(text):
        line += text.count("\n", at, start)
        column = start - text.rfind("\n", 0, start)
        if header := _HEADER.match(text, start):
            table = _resolved(tuple(_parts(header[2])), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found[table] = Span(line, column, len(header[0]), start)
            at = header.end()
        else:
            key = text[start : _end(_KEY, text, start)]
            found[(*table, *_parts(key))] = Span(line, column, len(key.rstrip()), start)
            at = _value_end(text, start + len(key))
            line += text.count("\n", start, at)
    return found


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None  # it matches nothing at least
    return match.end()


def _resolved(name: Path, counts: dict[Path, int]) -> Path:
    """*name* with the index of the last element of each array of tables in it."""
    path: Path = ()
    for at, part in enumerate(name):
        path = (*path, part)
        if path in counts and at < len(name) - 1:
            path = (*path, counts[path])
    return path


def _value_end(text: str, at: int) -> int:
    """The end of the value at *at*: the first line end outside strings and brackets."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[1] == "\n" and depth == 0:
            return token.start()
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[1], 0)
    return len(text)


def _parts(key: str) -> Iterator[str]:
    for part in _PART.finditer(key):
        yield str(loads(f"v = {part[0]}")["v"]) if part[1] else part[0]
