"""The two grammars of a settings file, strict TOML and lines of `key = value`, read into the same entries.

Lines are what people wrote before: a bare word is a text, a line without `=` is skipped with a warning, a key that
stands there twice counts as it stands there last. Whatever value of TOML a line holds is read as TOML reads it. Nothing
is converted here: what a key wants, `coterie.settings.keys` knows.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.bounds import check_toml
from coterie.diagnostics import Diagnostic, Span, error, warning
from coterie.toml_spans import places

TOML, LINES = "toml", "lines"

_AT = re.compile(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$")
_KEY_PART = re.compile(r"""\s*+("(?:[^"\\]++|\\.)*+"|'[^']*+'|[^."'\s]++(?:\s++[^."'\s]++)*+)\s*+(?:\.|$)""")
_HEADER = re.compile(r"\[{1,2}([^\[\]]++)\]{1,2}\s*+(?:#.*)?")
_LONGEST_KEY = 1000
"""Characters of a dotted key on a line; a longer one is none."""
_CLOSING = {'"""': '"""', "'''": "'''"}


@dataclass(frozen=True, slots=True)
class Assignment:
    """One setting of a file.

    Attributes:
        key: Dotted: `event_loop.max_iterations`.
        value: As TOML reads it; a bare word is a text.
        span: Where the key stands.
        raw: How a value without quotes is written, for keys that want a text; None for any other.
    """

    key: str
    value: Any
    span: Span | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedSettings:
    """What a text says.

    Attributes:
        grammar: `toml` or `lines`: what it was read as.
        ok: Whether it could be read; else *diagnostics* holds the error, and there are no entries.
    """

    entries: tuple[Assignment, ...]
    grammar: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it could be read."""
        return not any(each.is_error for each in self.diagnostics)


def read(text: str, grammar: str = "") -> ParsedSettings:
    """Read a settings file.

    Args:
        grammar: Try this one only; by default lines are tried where the text is not TOML, which is a warning.
    """
    text = text.removeprefix("\ufeff")
    if (beyond := check_toml(text)) is not None:
        return ParsedSettings((), grammar or TOML, (beyond,))
    if grammar == LINES:
        return _as_lines(text)
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as failure:
        if grammar == TOML:
            return ParsedSettings((), TOML, (_not_toml(text, failure, error),))
        found = _as_lines(text)
        return ParsedSettings(found.entries, LINES, (_not_toml(text, failure, warning), *found.diagnostics))
    where = {".".join(_part(str(part)) for part in path): span for path, span in places(text).items()}
    return ParsedSettings(tuple(Assignment(key, value, _place_of(key, where)) for key, value in _flat(values)), TOML)


def _not_toml(text: str, failure: Exception, kind: Any) -> Diagnostic:
    reason = str(failure)
    if found := _AT.search(reason):
        line, column = (int(found[1]), int(found[2])) if found[1] else (text.count("\n") + 1, 1)
        span = Span(line, column)
        reason = reason[: found.start()]
    else:
        span = None
    message = f"this is not TOML: {reason[:1].lower()}{reason[1:]}"
    hint = "the file is read line by line instead; quote texts to have it read as TOML" if kind is warning else ""
    found_diagnostic: Diagnostic = kind("not-toml", message, span, hint)
    return found_diagnostic


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = prefix + _part(name)
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _part(name: str) -> str:
    """*name* as a part of a dotted key: a dot within it is not one between two."""
    return f'"{name}"' if "." in name else name


def _place_of(key: str, where: Mapping[str, Span]) -> Span | None:
    """Where *key* stands; where an inline table or an array of tables holds it, that does."""
    while key not in where and "." in key:
        key = key.rpartition(".")[0]
    return where.get(key)


# -- lines ------------------------------------------------------------------------------------------------------------


class _Unclosed(Exception):
    """A quote or bracket is not closed."""


def _as_lines(text: str) -> ParsedSettings:
    entries: dict[str, Assignment] = {}
    found: list[Diagnostic] = []
    section = ""
    offset = 0
    lines = text.splitlines(keepends=True)
    starts: list[int] = []
    for line in lines:
        starts.append(offset)
        offset += len(line)
    at = 0
    while at < len(lines):
        number, line = at, lines[at]
        at += 1
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        column = line.index(stripped[0]) + 1
        span = Span(number + 1, column, len(stripped), starts[number] + column - 1)
        if header := _HEADER.fullmatch(stripped):
            section = ".".join(_key(header[1])) + "."
            continue
        key_text, equals, _ = stripped.partition("=")
        key = ".".join(_key(key_text))
        if not equals or not key:
            message = f"this line is skipped: it holds no '=': {stripped[:40]!r}"
            found.append(warning("skipped-line", message, span, "write key = value, or begin it with '#'"))
            continue
        begin = starts[number] + line.index("=") + 1
        span = Span(number + 1, column, len(key_text.rstrip()), span.offset)
        try:
            value, raw, end = _value(text, begin)
        except _Unclosed as unclosed:
            found.append(error("unclosed-value", f"the value of {key!r} is never closed: {unclosed}", span))
            return ParsedSettings((), LINES, tuple(found))
        while at < len(lines) and starts[at] < end:
            at += 1
        entries.pop(section + key, None)
        if isinstance(value, dict):
            for inner, each in _flat(value, f"{section}{key}."):
                entries[inner] = Assignment(inner, each, span)
        else:
            entries[section + key] = Assignment(section + key, value, span, raw)
    return ParsedSettings(tuple(entries.values()), LINES, tuple(found))


def _key(text: str) -> list[str]:
    """The parts of a dotted key, quotes removed."""
    if len(text) > _LONGEST_KEY:
        return []
    return [_part(part.strip("\"'")) for part in _KEY_PART.findall(text.strip()) if part.strip()]


def _value(text: str, begin: int) -> tuple[Any, str | None, int]:
    """The value at *begin*, how it is written if it is bare, and where its last line ends."""
    line_end = text.find("\n", begin)
    line_end = len(text) if line_end < 0 else line_end
    rest = text[begin:line_end].strip()
    if not rest or rest.startswith("#"):
        return "", "", line_end
    start = begin + (len(text[begin:line_end]) - len(text[begin:line_end].lstrip()))
    if rest[0] in "\"'[{":
        end = _close(text, start)
        return _parsed(text[start:end]), None, end
    bare = re.split(r"\s#", rest, maxsplit=1)[0].strip()
    try:
        return tomllib.loads(f"v = {bare}")["v"], bare, line_end
    except ValueError:
        return bare, bare, line_end


def _close(text: str, start: int) -> int:
    """Where the quoted text, list or table ends that begins at *start*."""
    quote = text[start : start + 3]
    if quote in _CLOSING:
        end = text.find(quote, start + 3)
        if end < 0:
            raise _Unclosed(f"{quote} is missing")
        return end + 3
    if text[start] in "\"'":
        return _close_quote(text, start)
    return _close_brackets(text, start)


def _close_quote(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\" and quote == '"':
            at += 1
        elif text[at] == quote:
            return at + 1
        at += 1
    raise _Unclosed(f"{quote} is missing")


def _close_brackets(text: str, start: int) -> int:
    open_: list[str] = []
    at = start
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            at = _close(text, at)
            continue
        if letter == "#" and text[at - 1].isspace():
            at = text.find("\n", at)
            if at < 0:
                break
        elif letter in "[{":
            open_.append("]" if letter == "[" else "}")
        elif letter in "]}":
            if open_.pop() != letter:
                raise _Unclosed("a bracket does not fit")
            if not open_:
                return at + 1
        at += 1
    raise _Unclosed(f"{open_[-1]} is missing" if open_ else "a bracket is missing")


def _parsed(text: str) -> Any:
    """What *text*, which is closed, means to TOML; a list of bare words is a list of texts."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except ValueError:
        pass
    if text[0] == "[":
        inner = re.sub(r"(?m)(^|\s)#.*$", "", text[1:-1])
        return [item for part in _split(inner) if (item := _unquoted(part.strip())) != ""]
    return _unquoted(text)


def _split(text: str) -> Iterator[str]:
    """The parts between the commas of *text* that do not stand in quotes."""
    begin = at = 0
    while at < len(text):
        if text[at] in "\"'":
            try:
                at = _close(text, at)
            except _Unclosed:
                at += 1
            continue
        if text[at] == ",":
            yield text[begin:at]
            begin = at + 1
        at += 1
    yield text[begin:]


def _unquoted(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        try:
            return tomllib.loads(f"v = {text}")["v"]
        except ValueError:
            return text[1:-1]
    return text
