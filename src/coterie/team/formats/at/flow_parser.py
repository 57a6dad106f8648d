"""Parse the flow block: statements of nodes, arrows and attributes.

Finds the parts of each statement and reports misplaced text; `coterie.team.formats.at.attributes` reads the attributes.
"""

from coterie.base.diagnostics import Fix, Span
from coterie.team.formats.at.cursor import Cursor, shown
from coterie.team.formats.at.lexer import (
    BAD_ARROW,
    DURATION,
    END,
    ERROR_ARROW,
    NAME,
    NUMBER,
    SINGLE_QUOTED,
    STRING,
    WORD,
    Token,
)
from coterie.team.formats.at.tree import AttributeNode, Attributes, FlowBlock, NameList, Statement, Stray

EACH_WORDS = ("each", "at-most", "at-once", "on-more", "tolerate", "until")
"""The attributes that map a node over a list."""
ORDERED_WORDS = ("when", "max", "per", "on-max", *EACH_WORDS)
"""The attributes that are executed, in the order in which they are written."""
ATTRIBUTE_WORDS = (*ORDERED_WORDS, "race", "tolerance", "wait", "weight", "reflection")

_ARROWS = frozenset({"->", ERROR_ARROW, BAD_ARROW})
_NAMELIKE = frozenset({NAME, WORD, STRING, SINGLE_QUOTED, NUMBER, DURATION})


def parse_flow(cursor: Cursor) -> FlowBlock:
    """The flow block that begins at the next token, `flow`, which a brace follows."""
    keyword, colon = cursor.take(), cursor.take_if(":")
    open = cursor.take()
    found = len(cursor.diagnostics)
    statements: list[Statement | Stray] = []
    while cursor.token.kind not in ("}", END) and not cursor.begins_other_block("flow"):
        statements += _statement(cursor)
    close = cursor.take_if("}")
    if close is None:
        cursor.unclosed(open)
    else:
        cursor.closed(keyword, open, close)
    cursor.lost_flow = cursor.lost_flow or len(cursor.diagnostics) > found
    return FlowBlock(keyword, colon, open, statements, close, cursor.take_if(","))


def _statement(cursor: Cursor) -> list[Statement | Stray]:
    """The next statement, and the unreadable rest of its line, if any."""
    if cursor.token.kind not in _NAMELIKE | _ARROWS | {"["}:
        cursor.unexpected("an agent's name", "a statement is: writer -> reviewer")
        return [_skip_line(cursor, [])]
    parts: list[Token | NameList | Attributes] = []
    while (complete := _node(cursor, parts)) and cursor.token.kind in _ARROWS:
        parts.append(_arrow(cursor))
    ends = cursor.on_new_line() or cursor.token.kind in ("}", END)
    if len(parts) == 1 and not _is_arrow(parts[0]) and not ends and cursor.token.kind != ",":
        return [_without_arrow(cursor, parts[0])]
    statement = Statement(parts, cursor.take_if(","))
    if complete or ends:
        return [statement]
    return [statement, _skip_line(cursor, [])]


def _node(cursor: Cursor, parts: list[Token | NameList | Attributes]) -> bool:
    """Read a node and its attributes; False if there is no node."""
    while cursor.token.kind in _ARROWS:
        _misplaced_arrow(cursor, parts)
    token = cursor.token
    if token.kind in _NAMELIKE:
        parts.append(cursor.take())
        if token.kind != NAME:
            cursor.bad_name(token)
    elif token.kind == "[":
        parts.append(_name_list(cursor))
    else:
        arrow = parts[-1] if parts else token
        assert isinstance(arrow, Token)
        cursor.error("missing-target", "this arrow leads nowhere", arrow.span, "name the agent it leads to")
        return False
    if len(parts) > 1 or (cursor.peek().text == "each" and cursor.peek(2).kind not in (",", "]")):
        _attributes(cursor, parts)
    return True


def _arrow(cursor: Cursor) -> Token:
    token = cursor.take()
    if token.kind == BAD_ARROW:
        fix = Fix("write '->'", token.span, "->")
        cursor.error("bad-arrow", f"{token.text!r} is not an arrow", token.span, "write '->'", fix)
    return token


def _misplaced_arrow(cursor: Cursor, parts: list[Token | NameList | Attributes]) -> None:
    token = cursor.take()
    if parts:
        fix = Fix("remove one arrow", token.span, "")
        cursor.error("double-arrow", "two arrows in a row", token.span, "write an agent between them", fix)
    else:
        fix = Fix("remove the arrow", token.span, "")
        cursor.error("missing-source", "this arrow comes from nowhere", token.span, "name the agent it leaves", fix)
    parts.append(token)


def _without_arrow(cursor: Cursor, part: Token | NameList | Attributes) -> Stray:
    tokens = list(part.tokens()) if not isinstance(part, Token) else [part]
    first = tokens[0]
    is_word = first.text in ATTRIBUTE_WORDS
    hint = f"write it in brackets, after an arrow's target: a -> b [{first.text} …]" if is_word else "write 'a -> b'"
    cursor.error("missing-arrow", f"{shown(first)!r} has no arrow", first.span, hint)
    return _skip_line(cursor, tokens)


def _skip_line(cursor: Cursor, skipped: list[Token]) -> Stray:
    """Skip to the next line that can begin a statement, or to the end of the block."""
    depth = 0
    while cursor.token.kind not in ("}", END) or depth:
        token = cursor.token
        if token.kind == END or (skipped and depth == 0 and _can_begin(cursor)):
            break
        depth += (token.kind == "{") - (token.kind == "}")
        skipped.append(cursor.take())
    return Stray(skipped)


def _can_begin(cursor: Cursor) -> bool:
    if cursor.on_new_line():
        return True
    arrow_follows = cursor.token.kind == NAME and cursor.peek().kind in _ARROWS
    return arrow_follows or cursor.begins_other_block("flow")


def _name_list(cursor: Cursor) -> NameList:
    open, words = cursor.take(), list[Token]()
    while cursor.token.kind in _NAMELIKE or cursor.token.kind == ",":
        token = cursor.token
        if token.kind != "," and words and words[-1].kind != ",":
            if cursor.on_new_line() and cursor.peek().kind in _ARROWS:
                break
            at = words[-1].end
            fix = Fix("insert the comma", at, ",")
            cursor.error("missing-comma", f"a comma is missing before {shown(token)!r}", at, "write '[a, b]'", fix)
        if token.kind not in (NAME, ","):
            cursor.bad_name(token)
        words.append(cursor.take())
    close = cursor.take_if("]")
    if close is None:
        cursor.unclosed_bracket(open)
    elif all(word.kind == "," for word in words):
        cursor.error("empty-list", "this list is empty", open.span, "list the agents: [a, b]")
    return NameList(open, words, close)


def _attributes(cursor: Cursor, parts: list[Token | NameList | Attributes]) -> None:
    """Read the attributes of a target, if any; a second list and attributes within a chain are one error each."""
    count = 0
    while cursor.token.kind == "[" and _opens_attributes(cursor):
        open = cursor.token
        parts.append(_attribute_list(cursor))
        count += 1
        if count == 2:
            cursor.error(
                "two-attribute-lists", "a second list of attributes", open.span, "write one list: [when …, max 3]"
            )
    if count and cursor.token.kind in _ARROWS:
        target = parts[-1 - count]
        name = target.text if isinstance(target, Token) else str(target).strip()
        at = Span(cursor.token.line, cursor.token.column, 0, cursor.token.offset)
        part, fix = parts[-count], Fix("begin a new statement", at, f"\n    {name} ")
        span = part.span if isinstance(part, Token) else part.open.span
        message = "attributes in the middle of a chain of arrows"
        hint = "they apply only to the last arrow: begin a new statement here"
        cursor.error("attributes-in-chain", message, span, hint, fix)


def _opens_attributes(cursor: Cursor) -> bool:
    """Whether the bracket opens attributes: it is on the target's line or begins with an attribute word."""
    if not cursor.on_new_line():
        return True
    return cursor.peek().text in ATTRIBUTE_WORDS and cursor.peek(2).kind not in (",", "]")


def _attribute_list(cursor: Cursor) -> Attributes:
    open, items = cursor.take(), list[AttributeNode]()
    while True:
        start = cursor.at
        while cursor.token.kind not in (",", "]", "[", "{", "}", "->", ERROR_ARROW, END):
            cursor.take()
        words = cursor.tokens[start : cursor.at]
        if cursor.token.kind not in (",", "]"):
            words = _give_back_lines(cursor, words)
        for word in words:
            cursor.check(word)
        comma = cursor.take_if(",")
        if words or comma:
            items.append(AttributeNode(words, comma))
        if comma is None:
            break
    close = cursor.take_if("]")
    if close is None:
        cursor.unclosed_bracket(open)
    elif not items:
        cursor.error("empty-list", "this list of attributes is empty", open.span, "write '[max 3]' or leave it out")
    return Attributes(open, items, close)


def _give_back_lines(cursor: Cursor, words: list[Token]) -> list[Token]:
    """The *words* on the first line: below an unclosed bracket, lines are statements again."""
    for index in range(len(words)):
        if cursor.on_new_line(index - len(words)):
            cursor.give_back(len(words) - index)
            return words[:index]
    return words


def _is_arrow(part: Token | NameList | Attributes) -> bool:
    return isinstance(part, Token) and part.kind in _ARROWS
