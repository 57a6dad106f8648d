"""Format `.at` files.

    format_text("topology t:[pipeline]{agent a{model:m}flow{a->a[max 2]}}")

Each level is indented by two blanks, each item has a line, and one blank line remains where there were several. A
block on one line stays there if it fits into `WIDTH` characters; a list is broken if it does not fit, or if it was
broken after its bracket. Consecutive one-line blocks are aligned in columns, as are the attributes of arrows.

The meaning is unchanged: tokens and comments keep their order, and only optional commas are added or removed. The text
of a prompt is unchanged, except for the line of its closing brace.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from coterie.base.diagnostics import error
from coterie.errors import TopologyError
from coterie.team.formats.at.block_parser import KEYS
from coterie.team.formats.at.lexer import BAD_ARROW, ERROR_ARROW, NAME, NAMED_BLOCKS, NUMBER, OPEN_RAW, RAW, Token
from coterie.team.formats.at.page import STEP, WIDTH, Page
from coterie.team.formats.at.parser import parse
from coterie.team.formats.at.tree import (
    AttributeNode,
    Attributes,
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    File,
    FlowBlock,
    ListItem,
    ListValue,
    NameList,
    Raw,
    Root,
    Statement,
    Stray,
    Value,
    WordsNode,
)

_ARROWS = frozenset({"->", ERROR_ARROW, BAD_ARROW})
_COMPARISONS = frozenset({"==", "!=", "<=", ">=", "<", ">"})
_GOES_ON = frozenset(
    {"|", "=", "fallback", "not", "of", *_COMPARISONS}
)  # after these a value continues on the next line
_NODE, _OUTPUTS, _OTHER = "node", "outputs", "other"
_HAVE_OUTPUTS = frozenset({"agent", "orchestrator", "human"})
_LINE_END = re.compile(r"\r\n|\r|\n")
_LAST_LINE = re.compile(r"(?:\r\n|\r|\n)[ \t]*\Z")

_Any = TypeVar("_Any")


def format_text(text: str) -> str:
    """Format *text*; formatting the result again changes nothing.

    It describes the same topology. Line ends are those of the first line; the last line has one.

    Raises:
        TopologyError: If *text* is not well-formed.
    """
    parsed = parse(text)
    errors = [found for found in parsed.diagnostics if found.is_error]
    if errors:
        raise TopologyError(errors, text)
    first = _LINE_END.search(text)
    try:
        return _Layout().file(parsed.tree, "\r\n" if first is not None and first[0] == "\r\n" else "\n")
    except _Unclosed as failure:
        hint = "something behind it is not closed, or closed twice"
        raise TopologyError([error("unexpected-text", "this cannot be read", failure.at.span, hint)], text) from None


class _Unclosed(Exception):
    """A text or block is not closed, in a block that is kept but not read."""

    def __init__(self, at: Token) -> None:
        self.at = at
        super().__init__(at.text)


class _Layout:
    """Writes a tree on a page.

    Args:
        flat: Write one part of a file, on one line.
    """

    def __init__(self, flat: bool = False) -> None:
        self._page = Page(part=flat)
        self._flat = flat

    def file(self, file: File, line_end: str) -> str:
        for item in file.items:
            self._page.line(0)
            if isinstance(item, Root):
                self._root(item)
            else:
                self._entry(item, "")
        return self._page.finish(file.end, line_end)

    def flat(self, part: Entry | Value | Statement | NameList | Attributes) -> str | None:
        """*part* on one line; None if a comment or the text of a prompt breaks the line."""
        match part:
            case NameList():
                self._names(part, "")
            case Attributes():
                self._attributes(part, "")
            case Statement():
                self._statement(part, "")
            case ListValue():
                self._list(part, "")
            case Token() | WordsNode():
                self._value(part, "")
            case _:
                self._entry(part, "")
        return self._page.only_line

    def _fits(self, part: BlockNode | FlowBlock | Statement | ListValue | NameList | Attributes, gap: str) -> bool:
        """Whether *part* fits on the current line."""
        if self._flat:
            return True
        text = _Layout(flat=True).flat(part)
        return text is not None and self._page.column + len(gap) + len(text) <= WIDTH

    def _root(self, root: Root) -> None:
        self._page.put(root.keyword)
        for part in (root.name, root.colon):
            if part is not None:
                self._page.put(part)
        if root.patterns is not None:
            self._list(root.patterns, " ")
        self._page.put(_given(root.open, root.keyword))
        self._body(root.items, _given(root.close, root.keyword), 0)

    # ---- blocks and their items

    def _entry(self, item: Entry, gap: str, owner: str = "") -> None:
        match item:
            case FieldNode():
                self._page.put(item.key, gap)
                if item.colon is not None:
                    self._page.put(item.colon, "")
                if item.value is not None:
                    self._value(item.value, " ", is_enum=owner == _OUTPUTS)
                if item.block is not None:
                    self._block(item.block, " ")
            case Raw():
                self._raw(item, gap)
            case BlockNode():
                self._block(item, gap, owner)
            case FlowBlock():
                self._flow(item, gap)
            case Directive():
                self._words(item.words, gap)
            case Stray():
                self._stray(item.skipped, gap)

    def _stray(self, skipped: Sequence[Token], gap: str) -> None:
        """Copy the unread text of a kept block."""
        for token in skipped:
            if token.kind in (RAW, OPEN_RAW):
                raise _Unclosed(token)
        self._page.put(skipped[0], gap)
        for token in skipped[1:]:
            self._page.text(token.trivia + token.text)

    def _block(self, block: BlockNode, gap: str, owner: str = "") -> None:
        close = _given(block.close, block.open)
        indent = self._page.indent
        inner = _owner(block, owner)
        one_line = self._flat or close.line == block.open.line
        if one_line and self._fits(block, gap):
            self._flat_block(block, close, gap, inner)
        else:
            self._head(block.head, block.colon, gap)
            self._page.put(block.open, " " if block.head else gap)
            self._body(block.items, close, indent, inner)

    def _head(self, head: Sequence[Token], colon: Token | None, gap: str) -> None:
        for word in head:
            self._page.put(word, gap)
            gap = " "
        if colon is not None:
            self._page.put(colon, "")

    def _flat_block(self, block: BlockNode, close: Token, gap: str, owner: str) -> None:
        in_columns = len(block.head) > 1 and not self._flat
        was, self._flat = self._flat, True
        self._head(block.head, block.colon, gap)
        if in_columns and block.items:
            self._page.cell(_key(block.items[0]))
        self._page.put(block.open, " " if block.head else gap)
        gap = " "
        for item, behind in _with_next(block.items):
            if in_columns and item is not block.items[0]:
                self._page.cell(_key(item))
            self._entry(item, gap, owner)
            comma = _comma_of(item)
            gap = "  "
            if comma is not None and behind is not None:
                self._page.put(comma, "")
                gap = " "
        self._page.put(close, " " if block.items else "")
        self._flat = was

    def _body(self, items: Sequence[Entry], close: Token, indent: int, owner: str = "") -> None:
        """Items on separate lines, and the closing brace."""
        if not items and "#" not in close.trivia:
            self._page.put(close, "")
            return
        self._page.top()
        for item, behind in _with_next(items):
            self._page.line(indent + STEP)
            self._entry(item, "", owner)
            comma = _comma_of(item)
            if comma is not None and _needs_comma(item, behind):
                self._page.text(",")
            self._page.leave_out(comma)
        self._close(close, indent)

    def _close(self, close: Token, indent: int, flat: bool = False) -> None:
        if not flat:
            self._page.line(indent, comments_at=indent + STEP)
        self._page.put(close, "", last=True)

    def _raw(self, raw: Raw, gap: str) -> None:
        """A prompt. A closing brace on a separate line is aligned with the word `prompt`."""
        indent = self._page.indent
        self._head([raw.key], raw.colon, gap)
        self._page.put(raw.open)
        text = raw.text.text
        last = _LAST_LINE.search(text)
        self._page.text(text if last is None else text[: last.start()])
        if last is not None:
            self._page.line(indent)
        self._page.put(_given(raw.close, raw.open), "", last=True)

    # ---- values

    def _value(self, value: Value, gap: str, is_enum: bool = False) -> None:
        match value:
            case Token():
                self._page.put(value, gap)
            case WordsNode():
                self._words(value.words, gap, is_enum)
            case ListValue():
                self._list(value, gap)
            case BlockNode():
                self._block(value, gap)

    def _words(self, words: Sequence[Token], gap: str, is_enum: bool = False) -> None:
        """Several words; blanks between them are significant, except between the members of an enum."""
        self._page.put(words[0], gap)
        for before, word in pairwise(words):
            apart = bool(word.trivia) or (is_enum and "|" in (before.text, word.text))
            self._page.put(word, " " if apart else "")

    def _list(self, value: ListValue, gap: str) -> None:
        close = _given(value.close, value.open)
        first = next((item.value or item.comma for item in value.items), None)
        broken = first is not None and _first(first).line > value.open.line
        indent = self._page.indent
        flat = self._flat or (not broken and self._fits(value, gap))
        self._page.put(value.open, gap)
        if not flat:
            self._page.top()
        gap = ""
        for item, behind in _with_next(value.items):
            if not flat:
                self._page.line(indent + STEP)
            self._item(item, gap, is_last=behind is None and flat)
            gap = " "
        self._close(close, indent, flat)

    def _item(self, item: ListItem, gap: str, is_last: bool) -> None:
        """An item and its comma, which may be missing in the file; a comma without an item is kept."""
        if item.value is None:
            if item.comma is not None:
                self._page.put(item.comma, gap)
            return
        self._value(item.value, gap)
        if not is_last:
            self._page.text(",")
        self._page.leave_out(item.comma)

    # ---- the flow

    def _flow(self, flow: FlowBlock, gap: str) -> None:
        close = _given(flow.close, flow.open)
        indent = self._page.indent
        one_line = self._flat or (close.line == flow.open.line and len(flow.statements) == 1)
        flat = one_line and self._fits(flow, gap)
        self._head([flow.keyword], flow.colon, gap)
        self._page.put(flow.open)
        if not flow.statements and "#" not in close.trivia:
            self._page.put(close, "")
            return
        was, self._flat = self._flat, flat
        self._page.top()
        for statement in flow.statements:
            if not flat:
                self._page.line(indent + STEP)
            assert isinstance(statement, Statement)  # anything else was an error
            self._statement(statement, " " if flat else "")
            self._page.leave_out(statement.comma)
        self._flat = was
        if flat:
            self._page.put(close)
        else:
            self._close(close, indent)

    def _statement(self, statement: Statement, gap: str) -> None:
        indent = self._page.indent
        long = not self._fits(statement, gap)
        arrows = 0
        for part in statement.parts:
            match part:
                case Token():
                    arrows += part.kind in _ARROWS
                    if long and arrows > 1 and part.kind in _ARROWS:
                        self._page.line(indent + STEP)
                    self._page.put(part, gap)
                case NameList():
                    self._names(part, gap)
                case Attributes():
                    if not self._flat and not long:
                        self._page.cell("[")
                    self._attributes(part, "  ")
            gap = " "

    def _names(self, names: NameList, gap: str) -> None:
        close = _given(names.close, names.open)
        flat = self._fits(names, gap)
        indent = self._page.indent
        self._page.put(names.open, gap)
        *_, last = names.names
        gap = ""
        for word in names.words:
            if word.kind == ",":
                self._page.leave_out(word)
                continue
            if not flat:
                self._page.line(indent + STEP)
            self._page.put(word, gap)
            if not flat or word is not last:
                self._page.text(",")
            gap = " "
        self._close(close, indent, flat)

    def _attributes(self, attributes: Attributes, gap: str) -> None:
        close = _given(attributes.close, attributes.open)
        flat = self._fits(attributes, gap)
        indent = self._page.indent
        self._page.put(attributes.open, gap)
        gap = ""
        for item, behind in _with_next(attributes.items):
            if not flat:
                self._page.line(indent + STEP)
            self._attribute(item, gap)
            if not item.words:
                self._page.put(_given(item.comma, attributes.open), gap)
                continue
            if behind is not None or not flat:
                self._page.text(",")
            self._page.leave_out(item.comma)
            gap = " "
        self._close(close, indent, flat)

    def _attribute(self, attribute: AttributeNode, gap: str) -> None:
        before: Token | None = None
        for word in attribute.words:
            self._page.put(word, gap if before is None else _gap(before, word))
            before = word


def _gap(before: Token, word: Token) -> str:
    """The gap between two words of an attribute; beside unexpected signs, as in the file."""
    if word.kind == ":" or (word.kind == "%" and before.kind == NUMBER):
        return ""
    if (word.kind == "." and before.kind == NAME) or (before.kind == "." and word.kind == NAME):
        return ""
    plain = KEYS | _COMPARISONS
    return " " if word.trivia or before.kind == ":" or (before.kind in plain and word.kind in plain) else ""


def _needs_comma(item: Entry, behind: Entry | None) -> bool:
    """Whether *item*, at the end of a line, would have another meaning without its comma."""
    if isinstance(behind, Stray):
        return True
    if not isinstance(item, FieldNode) or isinstance(item.value, ListValue):
        return False
    if item.colon is None or item.value is None:
        return True
    *_, last = [item.value] if isinstance(item.value, Token) else item.value.tokens()
    return last.text in _GOES_ON or last.text in NAMED_BLOCKS  # `agent` before `a {` would become its head


def _owner(block: BlockNode, owner: str) -> str:
    """The owner of the items of *block*, which is in *owner*."""
    if owner == "" and block.keyword in _HAVE_OUTPUTS:
        return _NODE
    return _OUTPUTS if owner == _NODE and block.keyword == _OUTPUTS else _OTHER


def _comma_of(item: Entry) -> Token | None:
    return None if isinstance(item, Directive | Stray) else item.comma


def _key(item: Entry) -> str:
    """The key by which items of consecutive blocks are aligned."""
    match item:
        case FieldNode() | Raw():
            return item.key.text
        case BlockNode():
            return item.keyword
        case _:
            return ""


def _first(part: Value) -> Token:
    return part if isinstance(part, Token) else next(part.tokens())


def _given(token: Token | None, open: Token) -> Token:
    """The token that closes *open*; raises if it is missing."""
    if token is None:
        raise _Unclosed(open)
    return token


def _with_next(items: Sequence[_Any]) -> Iterator[tuple[_Any, _Any | None]]:
    """Each item and the next one."""
    for at, item in enumerate(items):
        yield item, items[at + 1] if at + 1 < len(items) else None
