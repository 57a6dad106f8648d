"""Where the keys of a TOML text stand: the standard reader of TOML tells values, but not their places."""

from collections.abc import Iterator

from coterie.diagnostics import Span

Path = tuple[str | int, ...]
"""The way to a value: the names of tables and keys, and the indices of arrays of tables."""


def places(text: str) -> dict[Path, Span]:
    """The span of each key of *text*, which is TOML, and of the header of each table.

    What stands in inline tables and arrays has no place of its own.
    """
    found: dict[Path, Span] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for start, end, line in _statements(text):
        stripped = text[start:end]
        if stripped.startswith("[["):
            name = _resolved(tuple(_parts(stripped[2 : _end_of_header(stripped, 2)])), counts)
            counts[name] = counts.get(name, -1) + 1
            table = (*name, counts[name])
            found[table] = _span(text, start, len(stripped), line)
        elif stripped.startswith("["):
            table = _resolved(tuple(_parts(stripped[1 : _end_of_header(stripped, 1)])), counts)
            found[table] = _span(text, start, len(stripped), line)
        else:
            key = _key_text(stripped)
            found[(*table, *_parts(key))] = _span(text, start, len(key.rstrip()), line)
    return found


def _resolved(name: Path, counts: dict[Path, int]) -> Path:
    """*name* with the index of the last element of each array of tables on its way."""
    path: Path = ()
    for at, part in enumerate(name):
        path = (*path, part)
        if path in counts and at < len(name) - 1:
            path = (*path, counts[path])
    return path


def _span(text: str, start: int, length: int, line: int) -> Span:
    return Span(line, start - text.rfind("\n", 0, start), length, start)


def _statements(text: str) -> Iterator[tuple[int, int, int]]:
    """Where each header, and each key with its value, begins and where its first line ends, and on which line."""
    at, line = 0, 1
    while at < len(text):
        letter = text[at]
        if letter == "\n":
            line += 1
        if letter.isspace() or letter == "\ufeff":
            at += 1
            continue
        if letter == "#":
            at = _line_end(text, at)
            continue
        end = _line_end(text, at)
        yield at, end, line
        behind = end if letter == "[" else _behind_value(text, at)
        line += text.count("\n", at, behind)
        at = behind


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _behind_value(text: str, at: int) -> int:
    """Where the value ends whose key stands at *at*: at a line end outside of quotes and brackets."""
    depth = 0
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            at = _behind_quotes(text, at)
            continue
        if letter == "#":
            at = _line_end(text, at)
            continue
        if letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "\n" and depth <= 0:
            return at
        at += 1
    return at


def _behind_quotes(text: str, at: int) -> int:
    quote = text[at]
    fence = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(fence)
    while at < len(text) and not text.startswith(fence, at):
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return at + len(fence)


def _end_of_header(header: str, at: int) -> int:
    while at < len(header) and header[at] != "]":
        at = _behind_quotes(header, at) if header[at] in "\"'" else at + 1
    return at


def _key_text(line: str) -> str:
    """The key of *line*, up to its `=`."""
    at = 0
    while at < len(line) and line[at] != "=":
        at = _behind_quotes(line, at) if line[at] in "\"'" else at + 1
    return line[:at]


def _parts(key: str) -> Iterator[str]:
    """The parts of a dotted key."""
    at = 0
    key = key.strip()
    while at < len(key):
        if key[at] in "\"'":
            end = _behind_quotes(key, at)
            yield _unquoted(key[at:end])
            at = key.find(".", end) + 1 or len(key)
        else:
            end = key.find(".", at)
            end = len(key) if end < 0 else end
            yield key[at:end].strip()
            at = end + 1
        while at < len(key) and key[at].isspace():
            at += 1


def _unquoted(text: str) -> str:
    import tomllib

    try:
        return str(tomllib.loads(f"v = {text}")["v"])
    except ValueError:
        return text[1:-1]
