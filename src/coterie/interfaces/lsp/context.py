"""The syntactic context of the cursor, which determines the possible completions.

A file is incomplete while it is edited, so the tree is only used to find the innermost bracket around the cursor; the
rest follows from the words before the cursor.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

from coterie.team.formats.at.lexer import (
    BAD_ARROW,
    DURATION,
    ERROR_ARROW,
    NAME,
    NAMED_BLOCKS,
    NUMBER,
    OPEN_RAW,
    OPEN_STRING,
    RAW,
    STRING,
    WORD,
    Token,
)
from coterie.team.formats.at.tree import (
    Attributes,
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    File,
    FlowBlock,
    ListValue,
    NameList,
    Raw,
    Root,
    Statement,
    Stray,
)

Path = tuple[tuple[str, ...], ...]
"""Nested blocks, outermost first, each as the words of its head: `(("agent", "writer"), ("outputs",))`."""


class Typed(Struct, frozen=True):
    """The word at the cursor, which a completion replaces.

    Attributes:
        quoted: Whether it is in quotes, which are kept.
    """

    offset: int
    length: int
    quoted: bool = False


class ItemStart(Struct, frozen=True):
    """A field or a block may begin here.

    Attributes:
        blocks: The blocks around it; empty: the topology itself; None: outside the topology.
        taken: The existing fields and blocks beside it.
    """

    typed: Typed
    blocks: Path | None
    taken: frozenset[str]


class FieldValue(Struct, frozen=True):
    """The value of *field*, or an item if it is a list.

    Attributes:
        blocks: The blocks around the field.
        written: The words of the value before the cursor.
    """

    typed: Typed
    blocks: Path
    field: str
    written: tuple[str, ...] = ()
    in_list: bool = False


class FlowNode(Struct, frozen=True):
    """The name of a node in the flow; *taken* are the other names in its list."""

    typed: Typed
    taken: frozenset[str] = frozenset()


class BehindNode(Struct, frozen=True):
    """After a node in the flow, where an arrow or attributes may follow."""

    typed: Typed
    after_arrow: bool


class InAttribute(Struct, frozen=True):
    """In the attributes of an arrow.

    Attributes:
        source: The source of the arrow.
        words: The words of the current attribute before the cursor.
        before: The names of the attributes before this one, and *after* it.
    """

    typed: Typed
    source: str
    words: tuple[Token, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


Spot = ItemStart | FieldValue | FlowNode | BehindNode | InAttribute
Holder = Root | BlockNode | FlowBlock | ListValue | NameList | Attributes
_WORDS = frozenset({NAME, WORD, NUMBER, DURATION})
_ARROWS = frozenset({"->", ERROR_ARROW, BAD_ARROW})


def spot(tree: File, text: str, offset: int) -> Spot | None:
    """The context of *offset* in *text* with the syntax *tree*; None if nothing can be completed, as in a comment."""
    path = holders(tree, offset)
    before = [token for token in _near(path[-1] if path else tree, offset) if token.offset < offset]
    typed = Typed(offset, 0)
    if before:
        last = before[-1]
        end = last.offset + len(last.text)
        if "#" in _last_line(text[end:offset]) or last.kind in (RAW, OPEN_RAW):
            return None
        if end >= offset and last.kind in _WORDS:
            typed = Typed(last.offset, len(last.text))
            before.pop()
        elif last.kind in (STRING, OPEN_STRING) and (end > offset or (end == offset and last.kind == OPEN_STRING)):
            typed = Typed(last.offset + 1, len(last.text) - 1 - (last.kind == STRING), quoted=True)
            before.pop()
    elif "#" in _last_line(text[:offset]):
        return None
    return _spot(path, before, typed, text)


def _spot(path: list[Holder], before: list[Token], typed: Typed, text: str) -> Spot | None:
    """The context of *typed* after the tokens *before*, inside the brackets *path*."""
    if not path:
        return ItemStart(typed, None, frozenset()) if not before else None
    begins_line = not before or "\n" in text[before[-1].offset + len(before[-1].text) : typed.offset]
    match path[-1]:
        case Attributes() as attributes:
            return _in_attributes(attributes, path, typed)
        case NameList() as names:
            return FlowNode(typed, frozenset(name.text for name in names.names if name.offset != typed.offset))
        case FlowBlock():
            return _in_flow(before, typed, begins_line)
        case ListValue() as values:
            field = _list_owner(path, values)
            return FieldValue(typed, _blocks(path), field, in_list=True) if field else None
        case Root() as root:
            if root.open is None or typed.offset <= root.open.offset:
                return None
            return _in_block((), root.items, before, typed, begins_line)
        case BlockNode() as block:
            return _in_block(_blocks(path), block.items, before, typed, begins_line)


def _in_block(
    blocks: Path, items: Sequence[Entry], before: list[Token], typed: Typed, begins_line: bool
) -> ItemStart | FieldValue | None:
    last = before[-1]
    item = None if typed.quoted else ItemStart(typed, blocks, _taken(items, typed))
    if last.kind == ":":
        return FieldValue(typed, blocks, before[-2].text) if len(before) > 1 else None
    if last.kind in ("{", "}", "]", ",", RAW, OPEN_RAW) or (begins_line and last.kind != "|"):
        return item
    words = _same_value(before)
    if words is None:
        return None
    key, written = words
    if written[-1] == "|" or written in (("fallback",), ("list", "of")):
        return FieldValue(typed, blocks, key, written)
    return item


def _same_value(before: list[Token]) -> tuple[str, tuple[str, ...]] | None:
    """The field whose value ends *before*, and its words; None if they are the head of a block."""
    written: list[str] = []
    for index in range(len(before) - 1, 0, -1):
        if before[index].kind == ":":
            return before[index - 1].text, tuple(reversed(written))
        if before[index].kind in ("{", "}", "[", "]", ",") or before[index].text in NAMED_BLOCKS:
            return None
        written.append(before[index].text)
    return None


def _in_flow(before: list[Token], typed: Typed, begins_line: bool) -> FlowNode | BehindNode | None:
    last = before[-1]
    if last.kind in _ARROWS or last.kind in ("{", ",") or begins_line:
        return FlowNode(typed)
    if typed.length or last.kind not in (NAME, "]"):
        return None
    row = [token for token in before if token.line == last.line]
    return BehindNode(typed, after_arrow=any(token.kind in _ARROWS for token in row))


def _in_attributes(attributes: Attributes, path: list[Holder], typed: Typed) -> InAttribute:
    words: tuple[Token, ...] = ()
    names: list[str] = []
    after: list[str] = []
    for item in attributes.items:
        first = item.words[0].offset if item.words else -1
        if first >= 0 and first < typed.offset and (item.comma is None or typed.offset <= item.comma.offset):
            words = tuple(word for word in item.words if word.offset < typed.offset)
        elif item.words and first < typed.offset:
            names.append(item.words[0].text)
        elif item.words and first > typed.offset:
            after.append(item.words[0].text)
    if words and words[-1].offset + 1 == typed.offset and typed.quoted:
        words = words[:-1]  # the word at the cursor
    return InAttribute(typed, _source(path, attributes), words, tuple(names), tuple(after))


def _source(path: list[Holder], attributes: Attributes) -> str:
    """The source of the arrow with *attributes*; empty for a list or a missing source."""
    flow = path[-2]
    assert isinstance(flow, FlowBlock)  # attributes occur nowhere else
    for statement in flow.statements:
        if isinstance(statement, Statement) and any(part is attributes for part in statement.parts):
            names = [part for part in statement.parts if isinstance(part, NameList) or _is_name(part)]
            before = names[-2] if len(names) > 1 else None
            return before.text if isinstance(before, Token) else ""
    return ""


def _is_name(part: Token | NameList | Attributes) -> bool:
    return isinstance(part, Token) and part.kind == NAME


def _taken(items: Sequence[Entry], typed: Typed) -> frozenset[str]:
    """The names of the fields and blocks among *items*, except the word at the cursor."""
    found = set[str]()
    for item in items:
        match item:
            case FieldNode() | Raw():
                if item.key.offset != typed.offset:
                    found.add(item.key.text)
            case BlockNode() if item.head and item.head[0].offset != typed.offset:
                found.add(item.keyword)
            case FlowBlock():
                found.add(item.keyword.text)
    return frozenset(found)


def _blocks(path: list[Holder]) -> Path:
    return tuple(tuple(word.text for word in holder.head) for holder in path if isinstance(holder, BlockNode))


def _list_owner(path: list[Holder], values: ListValue) -> str:
    """The field with the value *values*; empty for a list in a list."""
    owner = path[-2] if len(path) > 1 else None
    if isinstance(owner, Root) and owner.patterns is values:
        return "patterns"
    if isinstance(owner, Root | BlockNode):
        fields = (item for item in owner.items if isinstance(item, FieldNode))
        return next((field.key.text for field in fields if field.value is values), "")
    return ""


def holders(tree: File, offset: int) -> list[Holder]:
    """The brackets around *offset*, outermost first. An unclosed bracket extends to the next item."""
    path: list[Holder] = []
    items: Sequence[Root | Entry | Statement] = tree.items
    while True:
        index = bisect_left(items, offset, key=_start) - 1
        holder = _holder(items[index], offset) if index >= 0 else None
        if holder is None:
            return path
        path.append(holder)
        match holder:
            case Root() | BlockNode():
                items = holder.items
                if isinstance(holder, Root) and holder.patterns is not None and _holds(holder.patterns, offset):
                    return [*path, holder.patterns]
            case FlowBlock():
                items = holder.statements
            case _:
                return path


def _holder(item: Root | Entry | Statement, offset: int) -> Holder | None:
    """The bracket of *item* around *offset*."""
    match item:
        case Root():
            return item if item.close is None or offset <= item.close.offset else None
        case BlockNode() | FlowBlock():
            return item if _holds(item, offset) else None
        case FieldNode():
            return item.value if isinstance(item.value, ListValue | BlockNode) and _holds(item.value, offset) else None
        case Statement():
            for part in item.parts:
                if isinstance(part, NameList | Attributes) and _holds(part, offset):
                    return part
            return None
        case Raw() | Directive() | Stray():
            return None


def _holds(holder: BlockNode | FlowBlock | ListValue | NameList | Attributes, offset: int) -> bool:
    return holder.open.offset < offset and (holder.close is None or offset <= holder.close.offset)


def _near(holder: Holder | File, offset: int) -> list[Token]:
    """The tokens of *holder* before *offset*; of its items, only the last two, as others do not matter."""
    match holder:
        case File():
            items, lead = list[Root | Entry | Statement](holder.items), list[Token]()
        case Root():
            items, lead = list(holder.items), list(_header(holder))
        case BlockNode():
            items, lead = list(holder.items), [*holder.head, holder.open]
        case FlowBlock():
            items, lead = list(holder.statements), [holder.keyword, holder.open]
        case _:
            return list(holder.tokens())
    index = bisect_left(items, offset, key=_start)
    return [*lead, *(token for item in items[max(0, index - 2) : index] for token in item.tokens())]


def _header(root: Root) -> list[Token]:
    found = [root.keyword, root.name, root.colon]
    found += list(root.patterns.tokens()) if root.patterns is not None else []
    return [token for token in [*found, *root.skipped, root.open] if token is not None]


def _start(item: Root | Entry | Statement) -> int:
    """The offset of the first token of *item*."""
    return next(item.tokens()).offset


def _last_line(text: str) -> str:
    return text.replace("\r", "\n").rpartition("\n")[2]
