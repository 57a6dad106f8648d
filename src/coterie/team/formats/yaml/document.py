"""Parse a YAML text into values with spans, reporting everything that is invalid.

Safe: tags create no objects, and expansion of aliases is bounded. Scalars are read as in YAML 1.2 (`no` is a text,
`010` is ten). Knows nothing about teams.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import yaml
from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, Span, error

Report = Callable[[Diagnostic], None]

MAX_CHARACTERS = 1024 * 1024
"""Longer texts are not read."""
MAX_VALUES = 50_000
"""Maximum number of keys and values, including those repeated by aliases."""
MAX_NESTED = 60
"""Maximum nesting depth."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAG = "tag:yaml.org,2002:"
_PLAIN = "!plain"
CORE = (
    (f"{_TAG}null", re.compile(r"(~|null|Null|NULL)?$")),
    (f"{_TAG}bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$")),
    (f"{_TAG}int", re.compile(rf"({_INTEGER.pattern})$")),
    (f"{_TAG}float", re.compile(rf"({_NUMBER.pattern})$")),
    (f"{_TAG}merge", re.compile(r"<<$")),
)
"""How an unquoted scalar is read, by its whole text; any other is a text."""
_KNOWN = (_PLAIN, *(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")))


class Leaf(Struct, frozen=True):
    """A text, a number, a truth value, or nothing."""

    value: Any
    span: Span


class Sequence(Struct, frozen=True):
    """A list."""

    items: "tuple[Value, ...]"
    span: Span


class Table(Struct, frozen=True):
    """A mapping of texts.

    Attributes:
        keys: The span of each key.
    """

    entries: "Mapping[str, Value]" = {}
    keys: Mapping[str, Span] = {}
    span: Span = Span(1, 1)


Value = Leaf | Sequence | Table


def load(text: str, report: Report) -> Value | None:
    """Parse *text*; None, with a report, if that is impossible.

    Of two entries with the same key the first counts; all faults are reported.
    """
    if len(text) > MAX_CHARACTERS:
        message = f"it is longer than {MAX_CHARACTERS // 2**20} MB of text"
        report(error("unreadable-file", message, Span(1, 1), "split the team into several files"))
        return None
    places = _Places(text)
    try:
        root = _Loader(text, places).get_single_node()
        return _Reading(places, report).value(root, ()) if root is not None else Table()
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        span = places.span(mark.index, mark.index) if mark is not None else None
        hint = "indent with spaces" if "'\\t'" in _reason(failure) else ""
        report(error("not-yaml", f"this is not YAML: {_reason(failure)}", span, hint))
    except yaml.reader.ReaderError as failure:
        span = places.span(failure.position, failure.position + 1)
        report(error("not-yaml", "this is not YAML: it contains a forbidden character", span))
    except _Refused as refused:
        report(refused.found)
    return None


def plain(value: Value) -> Any:
    """*value* as plain data."""
    match value:
        case Leaf():
            return value.value
        case Sequence():
            return [plain(item) for item in value.items]
        case Table():
            return {key: plain(item) for key, item in value.entries.items()}


def merged(base: Table, over: Table) -> Table:
    """*base* updated with the entries of *over*; new ones come last."""
    return Table({**base.entries, **over.entries}, {**base.keys, **over.keys}, over.span)


def without(table: Table, names: Iterable[str]) -> Table:
    """*table* without the entries *names*."""
    gone = set(names)
    entries = {name: value for name, value in table.entries.items() if name not in gone}
    return Table(entries, {name: table.keys[name] for name in entries}, table.span)


def shown(value: Value) -> str:
    """A short description of *value*."""
    match value:
        case Leaf(value=None):
            return "nothing"
        case Leaf(value=bool(truth)):
            return str(truth).lower()
        case Leaf():
            text = repr(value.value)
            return text if len(text) <= 40 else f"{text[:37]}..."
        case Sequence():
            return "a list" if value.items else "an empty list"
        case Table():
            return "a table"


def spans(value: Value, path: str) -> Iterator[tuple[str, Span]]:
    """The spans of *value* at *path* and of everything in it: `config.max_rounds`, `stages.0`."""
    yield path, value.span
    inner: Mapping[str, Value] = {}
    match value:
        case Table():
            inner = value.entries
        case Sequence():
            inner = {str(at): item for at, item in enumerate(value.items)}
        case Leaf():
            pass
    for key, item in inner.items():
        yield from spans(item, f"{path}.{key}")


class _Loader(yaml.SafeLoader):
    """Marks plain scalars without a tag for `_scalar` to resolve; limits the amount parsed."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}

    _depth = 0
    _left = MAX_VALUES

    def __init__(self, text: str, places: "_Places") -> None:
        super().__init__(text)
        self._places = places

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node."""
        self._left -= 1
        if self._left < 0 or self._depth > MAX_NESTED:
            at: int = self.peek_event().start_mark.index  # type: ignore[no-untyped-call]
            span = self._places.span(at, at + 1)
            raise _Refused(_too_much(span) if self._left < 0 else _too_deep(span))
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Refused(Exception):
    """The text exceeds a limit."""

    def __init__(self, found: Diagnostic) -> None:
        self.found = found
        super().__init__(found.message)


class _Reading:
    """Turns the nodes of one text into values."""

    def __init__(self, places: "_Places", report: Report) -> None:
        self._places, self._report = places, report
        self._left = MAX_VALUES

    def value(self, node: yaml.Node, above: tuple[int, ...]) -> Value:
        """The value of *node*, whose ancestors are *above*, by identity."""
        span = self._places.of(node)
        self._left -= 1
        if self._left < 0:
            raise _Refused(_too_much(span))
        if id(node) in above:
            raise _Refused(error("not-yaml", "an alias refers to a value that contains it", span))
        if len(above) > MAX_NESTED:
            raise _Refused(_too_deep(span))
        if node.tag not in _KNOWN:
            tag = str(node.tag).replace(_TAG, "!!")
            self._report(error("bad-tag", f"the tag {tag!r} is not supported", span, "remove it"))
        way = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._table(node, span, way)
        if isinstance(node, yaml.SequenceNode):
            return Sequence(tuple([self.value(item, way) for item in node.value]), span)
        assert isinstance(node, yaml.ScalarNode)
        return Leaf(self._whole(_scalar(node), span), span)

    def _table(self, node: yaml.MappingNode, span: Span, way: tuple[int, ...]) -> Table:
        entries: dict[str, Value] = {}
        keys: dict[str, Span] = {}
        bases: list[Table] = []
        for key_node, value_node in node.value:
            place = self._places.of(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(error("bad-key", f"a key must be a text, not {shown(self.value(key_node, way))}", place))
                continue
            value = self.value(value_node, way)
            if (key_node.tag, key_node.value) == (_PLAIN, "<<"):
                bases += self._bases(value)
                continue
            key = self._whole(key_node.value, place)
            if key in entries:
                first = keys[key].line
                self._report(error("duplicate-field", f"{key!r} is written twice, first on line {first}", place))
                continue
            entries[key], keys[key] = value, place
        return reduce(merged, [*reversed(bases), Table(entries, keys, span)])

    def _bases(self, value: Value) -> list[Table]:
        """The tables merged by the key `<<` into its table, whose own entries take precedence."""
        listed = value.items if isinstance(value, Sequence) else (value,)
        for each in listed:
            if not isinstance(each, Table):
                message = f"`<<` needs a table, not {shown(each)}"
                self._report(error("bad-value", message, each.span, "write <<: *NAME, or <<: [*NAME, *NAME]"))
        return [each for each in listed if isinstance(each, Table)]

    def _whole(self, value: Any, span: Span) -> Any:
        """*value*; in a text, surrogate pairs written as two escapes are combined."""
        if not isinstance(value, str) or value.isascii():
            return value
        try:
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._report(error("not-yaml", "this is not YAML: it contains a lone surrogate", span))
            return ""


class _Places:
    """Positions in a text, with lines counted as editors do."""

    def __init__(self, text: str) -> None:
        breaks = [found.span() for found in _LINE_END.finditer(text)]
        self._starts = [0, *(end for _, end in breaks)]
        self._ends = [*(start for start, _ in breaks), len(text)]

    def of(self, node: yaml.Node) -> Span:
        return self.span(node.start_mark.index, node.end_mark.index)

    def span(self, start: int, end: int) -> Span:
        """From *start* up to *end*, or to the end of the line that it begins in."""
        line = bisect_right(self._starts, start)
        return Span(line, start - self._starts[line - 1] + 1, max(0, min(end, self._ends[line - 1]) - start), start)


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.tag in (f"{_TAG}str", "!"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _reason(failure: yaml.MarkedYAMLError) -> str:
    """PyYAML's error message on one line."""
    parts = [failure.problem, failure.context]
    if (failure.problem or "").startswith("but "):
        parts.reverse()
    words = " ".join(part for part in parts if part)
    return " ".join(words.split()) or "it is not well-formed"


def _too_much(span: Span) -> Diagnostic:
    hint = "shorten it, or split it into several files; an alias counts as all that it repeats"
    return error("too-large", f"it has more than {MAX_VALUES} values", span, hint)


def _too_deep(span: Span) -> Diagnostic:
    return error("too-deep", f"values are nested more than {MAX_NESTED} deep", span)
