"""Typed access to the fields of one block.

Each method takes the field of a name, reports an invalid value, and records the span of the field. Fields that are
never taken are kept, with a warning if the block has no such field.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, Severity, Span, did_you_mean, error, warning
from coterie.team.formats.at.lexer import BAD, NAME, NUMBER, OPEN_STRING, SINGLE_QUOTED, Token
from coterie.team.formats.at.tree import (
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    FlowBlock,
    ListValue,
    Raw,
    Stray,
    Value,
    WordsNode,
    span_of,
)
from coterie.team.formats.at.values import dedent, misjoined, number, plain_items, scalar, seconds, text_of
from coterie.team.topology.conditions import Scalar

Report = Callable[[Diagnostic], None]
V = TypeVar("V", bound=Value | Entry)

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""The start of a word in camel case: `maxTokens`."""

_REPORTED = frozenset({BAD, OPEN_STRING, SINGLE_QUOTED})
"""Kinds of tokens that the parser has reported."""

_OF_VALUES = frozenset({"bad-value", "missing-comma", "unexpected-text"})
"""Codes that are notes in a block without effect."""
_FEW = 8
"""Fields of a block that a hint lists."""
UNREADABLE = "?"
"""Replaces an unreadable word, so that no check reports it as missing."""


class FieldReader:
    """The fields of *block*, by name.

    Attributes:
        spans: The span of the value of each field taken so far.
        misread: The fields of a block without effect whose values are invalid; these are kept.

    Args:
        owner: The block in words, for messages: `agent 'writer'`.
    """

    def __init__(self, items: list[Entry], owner: str, report: Report) -> None:
        self.spans: dict[str, Span] = {}
        self.misread: set[str] = set()
        self.owner = owner
        self.report = report
        self._all: dict[str, FieldNode | Raw | BlockNode] = {}
        self._left: dict[str, FieldNode | Raw | BlockNode] = {}
        self._kept: dict[str, Any] = {}
        for item in items:
            match item:
                case FieldNode() | Raw() | BlockNode():
                    self._add(key_of(item), item)
                case FlowBlock() | Directive() | Stray():
                    pass

    def _add(self, key: Token, item: FieldNode | Raw | BlockNode) -> None:
        name = text_of(key)
        if name in self._left:
            message = f"{name!r} is given twice in {self.owner}"
            self.report(error("duplicate-field", message, key.span, "remove one of them"))
        else:
            self._left[name] = self._all[name] = item

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def text(self, name: str) -> str:
        """A text, quoted or not; empty if the field is missing."""
        value = self.value(name, "a text")
        if isinstance(value, ListValue | BlockNode):
            self.wrong(name, value, "a text")
            return ""
        return "" if value is None else text_of(self._checked(value))

    def word(self, name: str, several: str = "") -> str:
        """A text without blanks, such as a name or `openai/gpt-4o`; empty if the field is missing.

        Args:
            several: What to write instead of a list.
        """
        missing = UNREADABLE if name in self else ""
        value = self.value(name, "one word")
        if value is None:
            return missing
        if isinstance(value, ListValue | BlockNode) or (isinstance(value, WordsNode) and not value.one):
            if not isinstance(value, WordsNode) or all(word.kind not in _REPORTED for word in value.words):
                self.wrong(name, value, "one word", several if isinstance(value, ListValue) else "")
            return UNREADABLE
        return text_of(self._checked(value))

    def words(self, name: str, places: bool = False) -> tuple[str, ...] | None:
        """A list of texts; a bare text is a list of one. None if the field is missing.

        Args:
            places: Record the span of each, as `FIELD.TEXT`.
        """
        value = self.value(name, "a list")
        if value is None:
            return None
        if not isinstance(value, ListValue):
            if isinstance(value, Token) or (isinstance(value, WordsNode) and value.one):
                return (text_of(self._checked(value)),)
            self.wrong(name, value, "a list", "write [a, b]")
            return ()
        if places:
            for item in value.items:
                if isinstance(item.value, Token):
                    self.spans.setdefault(f"{name}.{text_of(item.value)}", item.value.span)
        return tuple(self._list_item(item.value) for item in self._checked(value).items if item.value is not None)

    def _list_item(self, value: Value) -> str:
        if isinstance(value, ListValue | BlockNode):
            self.report(error("bad-value", "lists cannot be nested", span_of(value), "write [a, b]"))
        return text_of(value)

    def _checked(self, value: V) -> V:
        """*value*, which is to be read as it is; reported if two values would be one text."""
        for found in misjoined(value):
            self.report(found)
        return value

    def seconds(self, name: str, bare: bool = False) -> float | None:
        """A duration, in seconds; None if the field is missing.

        Args:
            bare: Accept a bare number of seconds.
        """
        value = self.value(name, "a duration")
        if value is None:
            return None
        found = seconds(text_of(value)) if isinstance(value, Token) else None
        if not found and bare and isinstance(value, Token) and value.kind == NUMBER and number(value) > 0:
            return float(number(value))
        if not found:
            fix = None
            if isinstance(value, Token) and value.kind == NUMBER and value.text.isdecimal() and int(value.text):
                fix = Fix("make it seconds", value.span, f"{value.text}s")
            self.wrong(name, value, "a duration", "write it as 30s, 5m, 1h or 2d", fix)
        return found or None

    def number(self, name: str) -> float | None:
        """A number; None if the field is missing."""
        value = self.value(name, "a number")
        if value is None:
            return None
        if isinstance(value, Token) and value.kind == NUMBER:
            return number(value)
        self.wrong(name, value, "a number")
        return None

    def count(self, name: str, low: int = 0) -> int | None:
        """A whole number, *low* or more; None if the field is missing."""
        value = self.value(name, "a whole number")
        if value is None:
            return None
        if isinstance(value, Token) and value.kind == NUMBER and value.text.isdecimal() and int(value.text) >= low:
            return int(value.text)
        self.wrong(name, value, f"a whole number, {low} or more")
        return None

    def flag(self, name: str) -> bool | None:
        """True or false; None if the field is missing."""
        value = self.value(name, "true or false")
        if value is None:
            return None
        text = text_of(value)
        if text in ("true", "false"):
            return text == "true"
        self.wrong(name, value, "true or false")
        return None

    def policy(self, name: str, choices: Collection[str], also: str = "") -> str | None:
        """One of *choices*, or `fallback NAME`; None if the field is missing.

        Args:
            also: A deprecated choice, which is accepted but not suggested.
        """
        value = self.value(name, "one word")
        if value is None:
            return None
        text = text_of(value)
        if text in choices or (also and text == also):
            return text
        if isinstance(value, WordsNode) and value.words[0].text == "fallback":
            if len(value.words) == 2 and value.words[1].kind == NAME and value.words[1].trivia:
                self.spans["fallback"] = value.words[1].span
                return text
            self.wrong(name, value, "", "name one agent: fallback NAME")
        elif text == "fallback":
            self.wrong(name, value, "", "name the agent: fallback NAME")
        else:
            hint = did_you_mean(text, choices) or f"write one of {', '.join(choices)}, fallback NAME"
            self.wrong(name, value, "", hint)
        return None

    def block(self, name: str, example: str) -> "FieldReader | None":
        """The fields of an inner block; None if it is missing or not a block."""
        item = self._take(name)
        if item is None:
            return None
        key = key_of(item)
        self.spans[name] = key.span
        if isinstance(item, BlockNode):
            return FieldReader(item.items, f"{name!r} of {self.owner}", self.report)
        self.report(error("bad-value", f"{name!r} of {self.owner} is not a block", key.span, f"write {example}"))
        return None

    def inner(self, name: str, example: str, text: bool = False) -> BlockNode | str | None:
        """The tree of an inner block; None if it is missing or not a block.

        Args:
            text: Accept a text instead.
        """
        item = self._take(name)
        match item:
            case None:
                return None
            case BlockNode():
                self.spans[name] = item.head[0].span
                return item
            case Raw():
                self.spans[name] = item.key.span
            case FieldNode(value=value) if value is not None:
                self.spans[name] = span_of(value)
                if text and isinstance(value, Token):
                    return text_of(value)
                if text and isinstance(value, ListValue) and len(value.items) == 1 and value.items[0].value is not None:
                    return text_of(value.items[0].value)
        span = self.spans.get(name) or key_of(item).span
        self._refuse(name, f"{name!r} of {self.owner} is not a block", span, f"write {name} {example}")
        return None

    def left(self) -> tuple[str, ...]:
        """The names of the fields that were not taken yet."""
        return tuple(self._left)

    def drop(self, name: str) -> None:
        """Take the field *name*, if there is one, without reading it."""
        self._left.pop(name, None)

    def keep(self, name: str, value: Any) -> None:
        """Keep *value*, a part of the field *name* that has no attribute, with the fields that are not taken."""
        self._kept[name] = value

    def is_block(self, name: str) -> bool:
        """Whether the field *name* is a block."""
        return isinstance(self._left.get(name), BlockNode)

    def raw(self, name: str) -> str | None:
        """The text of `name { any text }`; None if the field has another form."""
        item = self._left.get(name)
        if not isinstance(item, Raw):
            return None
        del self._left[name]
        self.spans[name] = item.key.span
        return dedent(item.text.text)

    def items(self) -> Iterator[tuple[str, FieldNode | Raw | BlockNode]]:
        """The fields that were not taken yet, by name."""
        yield from self._left.items()

    def value(self, name: str, wanted: str) -> Value | None:
        """The value of the field *name*; None if the field or its value is missing."""
        item = self._take(name)
        match item:
            case None:
                return None
            case FieldNode():
                if item.value is not None:
                    self.spans[name] = span_of(item.value)
                return item.value
            case Raw() | BlockNode():
                span = self.spans[name] = key_of(item).span
                self._refuse(name, f"{name!r} of {self.owner} is not {wanted}: a block", span)
                return None

    def _take(self, name: str) -> FieldNode | Raw | BlockNode | None:
        """The field *name*; None if it is missing or, with a report, a block follows its value."""
        item = self._left.pop(name, None)
        if not isinstance(item, FieldNode) or item.block is None:
            return item
        self._refuse(name, f"{name!r} of {self.owner} has a value and a block", item.block.open.span, "remove one")
        return None

    def _refuse(self, name: str, message: str, span: Span | None, hint: str = "", fix: Fix | None = None) -> None:
        """Report an invalid value of the field *name*."""
        if isinstance(self.report, IdleReport):
            self.misread.add(name)
            self.keep(name, plain_items([self._all[name]]).get(name))
        self.report(error("bad-value", message, span, hint, fix))

    def kept(self, known: Collection[str], read: Collection[str] = ()) -> dict[str, Any]:
        """The fields that were not taken, as plain values by name; unless *known*, each is reported.

        Args:
            read: Other fields of the block, for suggestions.
        """
        for name, item in self._left.items():
            if name not in known:
                absent = [field for field in (*known, *read) if field not in self.spans and field not in self._left]
                self._unknown(name, item, absent)
        return self.rest()

    def _unknown(self, name: str, item: FieldNode | Raw | BlockNode, known: Sequence[str]) -> None:
        from coterie.team.formats.at.places import right_place  # most files are correct

        key = key_of(item)
        dashed = _HUMP.sub("-", name).replace("_", "-").lower()
        close = f"did you mean {dashed!r}?" if dashed in known else did_you_mean(name, known)
        fix = Fix("correct the name", key.span, close.split("'")[1]) if close else None
        hint = (
            close
            or right_place(name, plain_items([item]).get(name))
            or (f"known fields: {', '.join(known)}" if 0 < len(known) <= _FEW else "it is kept but has no effect")
        )
        self.report(warning("unknown-field", f"{self.owner} has no field {name!r}", key.span, hint, fix))

    def rest(self) -> dict[str, Any]:
        """The fields that were not taken, as plain values by name."""
        return self._kept | (plain_items(list(self._left.values())) if self._left else {})

    def plain(self, name: str, word: Callable[[Token], Scalar] = scalar) -> Any:
        """The plain value of the field *name*, whose words *word* converts."""
        item = self._take(name)
        return plain_items([self._checked(item)], word).get(name) if item is not None else None

    def misfit(self, name: str, found: str, wanted: str) -> None:
        """Report the invalid value *found* of a field that was taken."""
        message = f"{name!r} of {self.owner} is not {wanted}: {found!r}"
        self._refuse(name, message, self.spans.get(name), _example(name, wanted))

    def wrong(self, name: str, value: Value, wanted: str, hint: str = "", fix: Fix | None = None) -> None:
        """Report an invalid value."""
        hint = hint or _example(name, wanted)
        self.spans.pop(name, None)
        found = _brief(value)
        fault = f"is not {wanted}: {found}" if wanted else f"cannot be {found}"
        message = f"{name!r} of {self.owner} {fault}"
        self._refuse(name, message, span_of(value), hint, fix)


class IdleReport:
    """Reports the diagnostics of a block without effect to *report*: an invalid value is a note."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __call__(self, found: Diagnostic) -> None:
        """Report *found*."""
        self._report(replace(found, severity=Severity.NOTE) if found.code in _OF_VALUES else found)


def key_of(item: FieldNode | Raw | BlockNode) -> Token:
    """The word that names an item of a block."""
    return item.head[0] if isinstance(item, BlockNode) else item.key


def _brief(value: Value) -> str:
    match value:
        case ListValue():
            return "a list"
        case BlockNode():
            return "a block"
        case _:
            text = text_of(value)
            return repr(text if len(text) <= 40 else text[:37] + "...")


def _example(name: str, wanted: str) -> str:
    """A line that sets *name* to a number, if that is *wanted*."""
    example = "3" if wanted.startswith("a whole number") else "0.5" if wanted.startswith("a number") else ""
    return f"write {name}: {example}" if example else ""
