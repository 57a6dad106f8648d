"""One YAML text as values that know where they stand, and everything about it that is not as YAML should be.

Loaded safely: no tag makes an object, an alias repeats what it names and does not multiply it without bound, and a
text is read as YAML 1.2 reads it (`no` is a text, `010` is ten). It knows nothing of teams.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from coterie.diagnostics import Diagnostic, Span, error

Report = Callable[[Diagnostic], None]

MAX_CHARACTERS = 1024 * 1024
"""Longer texts are not read."""
MAX_VALUES = 50_000
"""How many values a text may stand for, those that aliases repeat included."""
MAX_NESTED = 60
"""How deep its values may lie in each other."""

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
"""What a text without quotes is read as, by the whole of it; every other one is a text."""
_KNOWN = (_PLAIN, *(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text, a number, a truth value, or nothing."""

    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: "tuple[Value, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping of texts.

    Attributes:
        keys: Where each key stands.
    """

    entries: "Mapping[str, Value]" = field(default_factory=dict)
    keys: Mapping[str, Span] = field(default_factory=dict)
    span: Span = Span(1, 1)  # noqa: RUF009  (it is frozen)


Value = Leaf | Sequence | Table


def load(text: str, report: Report) -> Value | None:
    """What *text* says; None after reporting why nothing can be known of it.

    Of two entries with one key the first counts; every fault is reported.
    """
    if len(text) > MAX_CHARACTERS:
        message = f"it is longer than {MAX_CHARACTERS // 2**20} MB of text"
        report(error("unreadable-file", message, hint="split the team into several files"))
        return None
    places = _Places(text)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        span = places.span(mark.index, mark.index) if mark is not None else None
        report(error("not-yaml", f"this is not YAML: {_reason(failure)}", span))
        return None
    except yaml.reader.ReaderError as failure:
        span = places.span(failure.position, failure.position + 1)
        report(error("not-yaml", "this is not YAML: it holds a character that no text may have", span))
        return None
    except _Deep as deep:
        report(_too_deep(places.span(deep.mark.index, deep.mark.index + 1)))
        return None
    if root is None:
        return Table()
    try:
        return _Reading(places, report).value(root, ())
    except _TooMuch as much:
        report(much.found)
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


def spans(value: Value, path: str) -> Iterator[tuple[str, Span]]:
    """Where *value*, which is found at *path*, and everything in it stands: `config.max_rounds`, `stages.0`."""
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
    """Tells a text without quotes and tag from others, and leaves to `_scalar` what it means; goes only so deep."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node."""
        if self._depth > MAX_NESTED:
            raise _Deep(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Deep(Exception):
    """Values lie too deep in each other, from *mark* on."""

    def __init__(self, mark: yaml.Mark) -> None:
        self.mark = mark
        super().__init__("too deep")


class _TooMuch(Exception):
    """There is more in it than is read."""

    def __init__(self, found: Diagnostic) -> None:
        self.found = found
        super().__init__(found.message)


class _Reading:
    """Turns the nodes of one text into values."""

    def __init__(self, places: "_Places", report: Report) -> None:
        self._places, self._report = places, report
        self._left = MAX_VALUES

    def value(self, node: yaml.Node, above: tuple[int, ...]) -> Value:
        """The value of *node*, which lies in the nodes *above*, by identity."""
        span = self._places.of(node)
        self._left -= 1
        if self._left < 0:
            message = f"it stands for more than {MAX_VALUES} values: aliases multiply what they name"
            raise _TooMuch(error("too-large", message, span, "write less of it, or split it into several files"))
        if id(node) in above:
            raise _TooMuch(error("not-yaml", "an alias names what it stands in", span))
        if len(above) > MAX_NESTED:
            raise _TooMuch(_too_deep(span))
        if node.tag not in _KNOWN:
            tag = str(node.tag).replace(_TAG, "!!")
            self._report(error("bad-tag", f"the tag {tag!r} has no meaning here", span, "leave it out"))
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
        for key_node, value_node in node.value:
            place = self._places.of(key_node)
            if not isinstance(key_node, yaml.ScalarNode) or (key_node.tag, key_node.value) == (_PLAIN, "<<"):
                hint = "write what it would add" if isinstance(key_node, yaml.ScalarNode) else ""
                self._report(error("bad-key", "a key is a text", place, hint))
                continue
            key = self._whole(key_node.value, place)
            value = self.value(value_node, way)
            if key in entries:
                first = keys[key].line
                self._report(error("duplicate-field", f"{key!r} stands twice: first on line {first}", place))
                continue
            entries[key], keys[key] = value, place
        return Table(entries, keys, span)

    def _whole(self, value: Any, span: Span) -> Any:
        """*value*; of a text the halves of characters that two escapes gave are put together."""
        if not isinstance(value, str) or value.isascii():
            return value
        try:
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._report(error("not-yaml", "this is not YAML: it holds half a character", span))
            return ""


class _Places:
    """Where the characters of a text stand, lines counted as editors count them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def of(self, node: yaml.Node) -> Span:
        return self.span(node.start_mark.index, node.end_mark.index)

    def span(self, start: int, end: int) -> Span:
        """From *start* up to *end*, or to the end of the line that it begins in."""
        line = bisect_right(self._starts, start)
        line_end = _LINE_END.search(self._text, start)
        end = min(end, line_end.start() if line_end is not None else len(self._text))
        return Span(line, start - self._starts[line - 1] + 1, max(0, end - start), start)


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
    """What is wrong, in the library's words on one line."""
    words = " ".join(part for part in (failure.problem, failure.context) if part)
    return " ".join(words.split()) or "it is not well-formed"


def _too_deep(span: Span) -> Diagnostic:
    return error("too-deep", f"values lie more than {MAX_NESTED} deep in each other", span)
