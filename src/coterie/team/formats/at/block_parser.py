"""Parse blocks and values, except the flow block.

An invalid item is reported once and skipped. Blocks that are kept but not read are parsed leniently: there, only a
missing brace, bracket or quotation mark is an error.
"""

from coterie.base.diagnostics import Fix
from coterie.team.formats.at.cursor import Cursor, shown
from coterie.team.formats.at.flow_parser import parse_flow
from coterie.team.formats.at.lexer import (
    DURATION,
    END,
    NAME,
    NAMED_BLOCKS,
    NUMBER,
    OPEN_RAW,
    OPEN_STRING,
    RAW,
    SINGLE_QUOTED,
    STRING,
    WORD,
    Token,
)
from coterie.team.formats.at.tree import (
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    ListItem,
    ListValue,
    Raw,
    Stray,
    Value,
    WordsNode,
)

READ_BLOCKS = frozenset(
    {"meta", "orchestrator", "roles", "agent", "action", "gates", "gate", "human", "group", "flow", "extensions"}
)
"""Top-level blocks that are read into typed values."""

KEYS = frozenset({NAME, WORD, STRING, SINGLE_QUOTED, NUMBER, DURATION})
"""The kinds of tokens that are read as names, valid or not."""

_MAX_DEPTH = 40
_READ_WITHIN = frozenset({"gate", "outputs", "retry", "extensions", "coterie"})
_ENDS = frozenset({",", "}", "]", "{", "[", ":", END})
_JOINS = frozenset({"|", "==", "!=", "<=", ">=", "<", ">", "="})
_LEADING = frozenset({"fallback", "not", "of"})
_DIRECTIVES = frozenset({"import", "include", "use"})
_CLAUSES = frozenset({"as", "with", "sha256"})


def parse_body(cursor: Cursor, head: Token, open: Token, lenient: bool) -> tuple[list[Entry], Token | None]:
    """The items of a block, and its closing brace, or None if it is missing."""
    items: list[Entry] = []
    keyword = head.text
    nested = cursor.depth > 0
    cursor.depth += 1
    while cursor.token.kind not in ("}", END) and not (nested and cursor.begins_other_block(keyword)):
        items.append(parse_entry(cursor, keyword, lenient))
    cursor.depth -= 1
    close = cursor.take_if("}")
    if close is None:
        cursor.unclosed(open)
    else:
        cursor.closed(head, open, close)
    return items, close


def parse_entry(cursor: Cursor, owner: str, lenient: bool = False) -> Entry:
    """One item of the block *owner*: a field or an inner block."""
    token, after = cursor.token, cursor.peek()
    if token.kind not in KEYS:
        return _stray(cursor, lenient, f"a field of {owner!r}" if token.kind != "{" else "a name before it")
    if after.kind == ":":
        return _block(cursor, 1, owner, lenient) if cursor.peek(2).kind == "{" else _field(cursor, lenient)
    if token.text in _DIRECTIVES and cursor.depth == 1 and after.kind in (STRING, NAME):
        return _directive(cursor)
    length = 1
    while length < 4 and cursor.peek(length).kind in KEYS:
        length += 1
    if cursor.peek(length).kind == "{":
        return _block(cursor, length, owner, lenient)
    if not cursor.on_new_line(1) and (after.kind in KEYS or after.kind == "["):
        return _field(cursor, lenient)
    hint = "write a list in brackets: [FIRST, SECOND]" if cursor.at and cursor.tokens[cursor.at - 1].kind == "," else ""
    hint = f"write {token.text}: VALUE" if after.text == "=" else hint
    return _stray(cursor, lenient, f"':' or '{{' after {shown(token)!r}", hint, ahead=1)


def _block(cursor: Cursor, length: int, owner: str, lenient: bool) -> Entry:
    """The block with a head of *length* tokens."""
    keyword = cursor.token.text
    top = cursor.depth <= 1
    if keyword == "flow" and top and length == 1:
        return parse_flow(cursor)
    if length == 1 and cursor.peek(3 if cursor.peek().kind == ":" else 2).kind in (RAW, OPEN_RAW):
        return _raw(cursor)
    lenient = lenient or _is_lenient(keyword, owner, top)
    head = [cursor.take() for _ in range(length)]
    if length > 1 and head[1].kind != NAME and not lenient:
        cursor.bad_name(head[1])
    colon = cursor.take_if(":")
    if cursor.depth > _MAX_DEPTH:
        return _too_deep(cursor, head, colon)
    open = cursor.take()
    items, close = parse_body(cursor, head[0], open, lenient)
    return BlockNode(head, colon, open, items, close, cursor.take_if(","))


def _is_lenient(keyword: str, owner: str, top: bool) -> bool:
    """Whether a block in *owner*, which is read, is kept and not read itself."""
    if top:
        return keyword not in READ_BLOCKS
    if owner == "extensions":
        return keyword != "coterie"
    return owner != "coterie" and keyword not in _READ_WITHIN


def _raw(cursor: Cursor) -> Raw:
    key, colon, open, text = cursor.take(), cursor.take_if(":"), cursor.take(), cursor.take()
    if text.kind == OPEN_RAW:
        hint = "a prompt ends at the brace that matches its first one: balance the braces in its text"
        cursor.error("unclosed-prompt", "the braces of this prompt do not balance", open.span, hint)
    return Raw(key, colon, open, text, cursor.take_if("}"), cursor.take_if(","))


def _too_deep(cursor: Cursor, head: list[Token], colon: Token | None) -> Stray:
    message = f"blocks are nested more than {_MAX_DEPTH} deep"
    cursor.error("too-deep", message, cursor.token.span, "nest them less deeply")
    cursor.lost_items = True
    return Stray([*head, *([colon] if colon else []), *_take_group(cursor)])


def _take_group(cursor: Cursor) -> list[Token]:
    """Take the next bracket or brace and everything up to its closing one."""
    taken: list[Token] = []
    depth = 0
    while cursor.token.kind != END:
        depth += _nesting(cursor.token)
        taken.append(cursor.take())
        if depth <= 0:
            break
    return taken


def _nesting(token: Token) -> int:
    return (token.kind in ("{", "[")) - (token.kind in ("}", "]"))


def _field(cursor: Cursor, lenient: bool) -> FieldNode:
    key, colon = cursor.take(), cursor.take_if(":")
    if colon is None and not lenient:
        fix = Fix("insert the colon", key.end, ":")
        cursor.error("missing-colon", f"a colon is missing after {shown(key)!r}", key.end, "write 'name: value'", fix)
    value = _value(cursor, lenient)
    if value is None and not lenient:
        cursor.error("missing-value", f"{shown(key)!r} has no value", key.span, "write 'name: value'")
    block = None
    if value is not None and cursor.token.kind == "{" and cursor.depth <= _MAX_DEPTH:
        open = cursor.take()
        block = BlockNode([], None, open, *parse_body(cursor, key, open, lenient=True), None)
    return FieldNode(key, colon, value, block, cursor.take_if(","))


def _directive(cursor: Cursor) -> Directive:
    """`import "x.at" as x with { … } sha256: "…"`: its source and clauses, on any number of lines."""
    words = [cursor.take(), cursor.take()]
    while cursor.token.kind == NAME and cursor.token.text in _CLAUSES:
        words.append(cursor.take())
        words += [cursor.take()] if cursor.token.kind == ":" else []
        if cursor.token.kind == "{":
            words += _take_group(cursor)
        elif cursor.token.kind in KEYS:
            words.append(cursor.take())
    words += [cursor.take()] if cursor.token.kind == "," else []
    return Directive(words)


def _stray(cursor: Cursor, lenient: bool, expected: str, hint: str = "", ahead: int = 0) -> Stray:
    """Report text that cannot begin an item, and skip to where the next item may begin."""
    if not lenient:
        cursor.unexpected(expected, hint, ahead=ahead)
        cursor.lost_items = True
    skipped = [cursor.take()]
    depth = max(0, _nesting(skipped[0]))
    while cursor.token.kind != END:
        token = cursor.token
        if depth == 0 and (token.kind == "}" or _can_begin(cursor)):
            break
        depth = max(0, depth + _nesting(token))
        skipped.append(cursor.take())
    return Stray(skipped)


def _can_begin(cursor: Cursor) -> bool:
    token = cursor.token
    if token.kind not in (NAME, STRING):
        return False
    return cursor.on_new_line() or cursor.peek().kind == ":" or _is_optional(cursor) or cursor.begins_other_block("")


def _value(cursor: Cursor, lenient: bool) -> Value | None:
    kind = cursor.token.kind
    if kind == "[":
        return parse_list(cursor, lenient)
    if kind in _ENDS or (cursor.on_new_line() and _begins_field(cursor)):
        return None
    return _words(cursor, lenient)


def _words(cursor: Cursor, lenient: bool) -> Token | WordsNode:
    """A value of one or more words. It continues on the next line only beside a joining sign, such as `|`."""
    first = cursor.take()
    words = [first]
    while cursor.token.kind not in _ENDS and _goes_on(cursor, words[-1]):
        words.append(cursor.take())
    for word in words:
        if not lenient or word.kind == OPEN_STRING:  # it may contain the brace that ends the block
            cursor.check(word)
    return first if len(words) == 1 else WordsNode(words)


def _goes_on(cursor: Cursor, before: Token) -> bool:
    token = cursor.token
    if not token.trivia or token.kind in _JOINS or before.kind in _JOINS:
        return True
    if token.line != before.line and before.text not in _LEADING:
        return False
    return not _begins_field(cursor)


def _begins_field(cursor: Cursor) -> bool:
    """Whether the next tokens are `name:` or the head of a block."""
    if cursor.token.kind not in KEYS:
        return False
    if cursor.peek().kind == ":" or _is_optional(cursor):
        return True
    if cursor.token.kind != NAME:
        return False
    length = 1
    if cursor.token.text in NAMED_BLOCKS:
        while length < 4 and cursor.peek(length).kind in KEYS:
            length += 1
    return cursor.peek(length).kind == "{"


def _is_optional(cursor: Cursor) -> bool:
    """Whether the next tokens are `name?:`, as in a schema."""
    return cursor.peek().kind == "?" and cursor.peek(2).kind == ":"


def parse_list(cursor: Cursor, lenient: bool) -> ListValue:
    """The list of values that begins at the next token, `[`."""
    open, items = cursor.take(), list[ListItem]()
    cursor.depth += 1
    while cursor.token.kind not in ("]", "}", ":", END):
        start = cursor.at
        value = _list_value(cursor, lenient)
        comma = cursor.take_if(",")
        if cursor.at == start:
            break
        items.append(ListItem(value, comma))
    cursor.depth -= 1
    close = cursor.take_if("]")
    if close is None:
        cursor.unclosed_bracket(open)
    return ListValue(open, items, close)


def _list_value(cursor: Cursor, lenient: bool) -> Value | None:
    kind = cursor.token.kind
    if kind in ("{", "[") and cursor.depth > _MAX_DEPTH:
        cursor.error("too-deep", f"values are nested more than {_MAX_DEPTH} deep", cursor.token.span)
        return WordsNode(_take_group(cursor))
    if kind == "{":
        open = cursor.take()
        items, close = parse_body(cursor, open, open, lenient=True)
        return BlockNode([], None, open, items, close, None)
    if kind == "[":
        return parse_list(cursor, lenient)
    if kind == "," or _begins_field(cursor):
        return None
    return _words(cursor, lenient)
