"""Read a settings file in either of its grammars, strict TOML or lines of `key = value`, into the same entries.

In lines, a bare word is a text, a line without `=` is skipped with a warning, and the last of several equal keys
counts. TOML values on a line are read as such; a quoted text or a list with more text behind it is a bare text. `#12`
is no comment. Values are converted later, by the type of their key.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Severity, Span, error, warning
from coterie.team.formats.toml_text import STRING, key_spans, load, loads

TOML, LINES = "toml", "lines"

_KEY_PART = re.compile(r"""\s*+("(?:[^"\\]++|\\.)*+"|'[^']*+'|[^."'\s]++(?:\s++[^."'\s]++)*+)\s*+(?:\.|$)""")
_HEADER = re.compile(r"\[{1,2}([^\[\]]++)\]{1,2}\s*+(?:#.*)?")
_TOKEN = re.compile(rf"{STRING}|(?<=\s)#(?!\d)[^\n]*+|(\"{{3}}|'{{3}}|[\[\]{{}}\"'])", re.DOTALL)
_COMMENT = re.compile(rf"({STRING})|(?<!\S)#(?!\d)[^\n]*+", re.DOTALL)
"""A comment in a list, or a quoted text, which may contain `#`."""
_ITEM = re.compile(rf"(?:{STRING}|[^,])+", re.DOTALL)
_TEXTS = re.compile(rf"{STRING}\s*(\S.*)", re.DOTALL)
"""An item of a list that begins with a quoted text and goes on."""
_LONGEST_KEY = 1000
"""Maximum characters of a dotted key on a line."""


class Assignment(Struct, frozen=True):
    """One setting of a file.

    Attributes:
        key: Dotted: `event_loop.max_iterations`.
        value: As in TOML; a bare word is a text.
        span: The span of the key.
        raw: The text of a bare value, for keys of type text; None for other values.
    """

    key: str
    value: Any
    span: Span | None = None
    raw: str | None = None


class ParsedSettings(Struct, frozen=True):
    """The settings in a text.

    Attributes:
        grammar: The grammar it was read by, `toml` or `lines`.
    """

    entries: tuple[Assignment, ...]
    grammar: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it could be read; otherwise there are no entries."""
        return not any(each.is_error for each in self.diagnostics)


def read(text: str, grammar: str = "") -> ParsedSettings:
    """Read a settings file.

    Args:
        grammar: Use only this one; by default a text that is not TOML is read as lines, with a warning.
    """
    text = text.removeprefix("\ufeff")
    values, wrong = load(text)
    if wrong is not None and (wrong.code != "not-toml" or grammar == TOML):
        return ParsedSettings((), grammar or TOML, (wrong,))
    if wrong is None and grammar != LINES:
        spans = {
            ".".join(_part(str(part)) for part in path if part != 0): span for path, span in key_spans(text).items()
        }  # an array of tables is where its first one is
        return ParsedSettings(tuple(Assignment(key, value, _span_of(key, spans)) for key, value in _flat(values)), TOML)
    found = _as_lines(text)
    if grammar == LINES or wrong is None:
        return found
    hint = "the file is read line by line instead; quote texts to make it valid TOML"
    wrong = replace(wrong, severity=Severity.WARNING, hint=hint)
    return ParsedSettings(found.entries, LINES, (wrong, *found.diagnostics))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = prefix + _part(name)
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _part(name: str) -> str:
    """*name* as a part of a dotted key, quoted if it contains a dot."""
    return f'"{name}"' if "." in name else name


def _span_of(key: str, spans: Mapping[str, Span]) -> Span | None:
    """The span of *key*, or of the inline table or array of tables that contains it."""
    while key not in spans and "." in key:
        key = key.rpartition(".")[0]
    return spans.get(key)


# -- lines ------------------------------------------------------------------------------------------------------------


class _Unclosed(Exception):
    """A quote or bracket is not closed."""


class _CommaMissing(Exception):
    """A text follows another one in a list."""


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
            message = f"this line has no '=' and is skipped: {stripped[:40]!r}"
            found.append(warning("skipped-line", message, span, "write key = value, or begin it with '#'"))
            continue
        begin = starts[number] + line.index("=") + 1
        span = Span(number + 1, column, len(key_text.rstrip()), span.offset)
        try:
            value, raw, end = _value(text, begin)
        except _Unclosed as unclosed:
            found.append(error("unclosed-value", f"the value of {key!r} is never closed: {unclosed}", span))
            return ParsedSettings((), LINES, tuple(found))
        except _CommaMissing as missing:
            found.append(error("bad-setting", f"a comma is missing in {key!r}, before {missing}", span))
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
    """The value at *begin*, its text if it is bare, and the end of its last line."""
    line_end = _line_end(text, begin)
    rest = text[begin:line_end].strip()
    if not rest or rest.startswith("#"):
        return "", "", line_end
    start = begin + (len(text[begin:line_end]) - len(text[begin:line_end].lstrip()))
    if rest[0] in "\"'[{":
        end = _close(text, start)
        behind = text[end : _line_end(text, end)].strip()
        if not behind or behind.startswith("#"):
            return _parsed(text[start:end]), None, end
        if end > line_end:
            raise _Unclosed(f"{behind[:40]!r} follows it")
    bare = re.split(r"\s#(?!\d)", rest, maxsplit=1)[0].strip()
    try:
        return loads(f"v = {bare}")["v"], bare, line_end
    except ValueError:
        return bare, bare, line_end


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _close(text: str, start: int) -> int:
    """The end of the quoted text, list or table that begins at *start*."""
    closing: list[str] = []
    for token in _TOKEN.finditer(text, start):
        sign = token[1]
        if sign is None:  # a string or a comment
            pass
        elif sign[0] in "\"'":
            raise _Unclosed(f"{sign} is missing")
        elif sign in "[{":
            closing.append("]" if sign == "[" else "}")
        elif closing.pop() != sign:
            raise _Unclosed("a bracket does not match")
        if not closing:
            return token.end()
    raise _Unclosed(f"{closing[-1]} is missing")


def _parsed(text: str) -> Any:
    """The TOML value of *text*, whose quotes and brackets are closed; bare words in a list are texts."""
    try:
        return loads(f"v = {text}")["v"]
    except ValueError:
        pass
    if text[0] == "[":
        inner = _COMMENT.sub(lambda found: found[1] or "", text[1:-1])
        items = [item.strip() for item in _ITEM.findall(inner)]
        if behind := next((found[1] for item in items if (found := _TEXTS.fullmatch(item))), ""):
            raise _CommaMissing(behind[:40])
        return [found for item in items if (found := _unquoted(item)) != ""]
    return _unquoted(text)


def _unquoted(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        try:
            return loads(f"v = {text}")["v"]
        except ValueError:
            return text[1:-1]
    return text
