"""The syntax tree of an `.at` file, without its meaning.

A node's fields are its parts in the order of the text: tokens, nodes, or lists of them. So `str(node)` is the text of
the node, comments and blanks included, and a tree can be changed in one place and printed again.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import Span
from coterie.team.formats.at.lexer import Token, join


class SyntaxNode(Struct, gc=False):
    """Base of all nodes. A tree has no cycles, so the garbage collector can skip it."""

    def tokens(self) -> Iterator[Token]:
        """Every token of the node, in the order of the text."""
        for name in self.__struct_fields__:
            yield from _tokens(getattr(self, name))

    def __str__(self) -> str:
        return join(self.tokens())


class WordsNode(SyntaxNode, gc=False):
    """A value of several tokens: `approve | revise`, `fallback writer`, `openai/gpt-4o`."""

    words: list[Token]

    @property
    def one(self) -> bool:
        """Whether it is one word, without blanks."""
        return all(not word.trivia for word in self.words[1:])


class ListItem(SyntaxNode, gc=False):
    """A value in a list, and the comma after it."""

    value: "Value | None"
    comma: Token | None


class ListValue(SyntaxNode, gc=False):
    """`[a, b]`."""

    open: Token
    items: list[ListItem]
    close: Token | None


class FieldNode(SyntaxNode, gc=False):
    """`model: sonnet`, or with a block behind the value: `keeper-of: [notes] { … }`."""

    key: Token
    colon: Token | None
    value: "Value | None"
    block: "BlockNode | None"
    comma: Token | None


class Raw(SyntaxNode, gc=False):
    """`prompt { any text }`."""

    key: Token
    colon: Token | None
    open: Token
    text: Token
    close: Token | None
    comma: Token | None


class BlockNode(SyntaxNode, gc=False):
    """`agent writer { … }`: a keyword, names or numbers, and items in braces. A block in a list has an empty head."""

    head: list[Token]
    colon: Token | None
    open: Token
    items: "list[Entry]"
    close: Token | None
    comma: Token | None

    @property
    def keyword(self) -> str:
        """The first word of the head."""
        return self.head[0].text if self.head else ""


class Directive(SyntaxNode, gc=False):
    """`import "x.at" as x`, `include "y.at"`."""

    words: list[Token]

    @property
    def keyword(self) -> str:
        """The first word."""
        return self.words[0].text


class Stray(SyntaxNode, gc=False):
    """Skipped tokens, which a diagnostic reports."""

    skipped: list[Token]


class NameList(SyntaxNode, gc=False):
    """`[a, b]` in a flow: names and the commas between them."""

    open: Token
    words: list[Token]
    close: Token | None

    @property
    def names(self) -> list[Token]:
        """The names, without commas."""
        return [word for word in self.words if word.kind != ","]


class AttributeNode(SyntaxNode, gc=False):
    """`max 3` after an arrow."""

    words: list[Token]
    comma: Token | None


class Attributes(SyntaxNode, gc=False):
    """`[when a.b == c, max 3]`."""

    open: Token
    items: list[AttributeNode]
    close: Token | None


class Statement(SyntaxNode, gc=False):
    """`a -> [b, c] -> d [max 3]`: nodes, the arrows between them and attributes, in the order of the text."""

    parts: list[Token | NameList | Attributes]
    comma: Token | None


class FlowBlock(SyntaxNode, gc=False):
    """`flow { … }`."""

    keyword: Token
    colon: Token | None
    open: Token
    statements: list[Statement | Stray]
    close: Token | None
    comma: Token | None


class Root(SyntaxNode, gc=False):
    """`topology NAME : [patterns] { … }`."""

    keyword: Token
    name: Token | None
    colon: Token | None
    patterns: ListValue | None
    skipped: list[Token]
    open: Token | None
    items: "list[Entry]"
    close: Token | None


class File(SyntaxNode, gc=False):
    """A whole file."""

    items: "list[Root | Entry]"
    end: Token


Value = Token | WordsNode | ListValue | BlockNode
Entry = FieldNode | Raw | BlockNode | FlowBlock | Directive | Stray


def span_of(value: Value) -> Span:
    """The span of a value, or of its first token if it crosses lines."""
    match value:
        case Token():
            return value.span
        case WordsNode():
            return _from_to(value.words[0], value.words[-1])
        case ListValue():
            return _from_to(value.open, value.close or value.open)
        case BlockNode():
            return (value.head[0] if value.head else value.open).span


def _from_to(first: Token, last: Token) -> Span:
    if first.line != last.line:
        return first.span
    return Span(first.line, first.column, last.offset + len(last.text) - first.offset, first.offset)


def _tokens(part: Any) -> Iterator[Token]:
    match part:
        case Token():
            yield part
        case SyntaxNode():
            yield from part.tokens()
        case list():
            for each in part:
                yield from _tokens(each)
