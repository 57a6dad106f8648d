"""Parse an `.at` file into its syntax tree, by recursive descent: the file, its root, the header.

After an error, the rest of the file is still read.
"""

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, did_you_mean, error
from coterie.team.formats.at.block_parser import KEYS, READ_BLOCKS, parse_body, parse_entry, parse_list
from coterie.team.formats.at.cursor import Cursor, shown
from coterie.team.formats.at.lexer import END, MAX_TOKENS, NAME, REST, Token, lex
from coterie.team.formats.at.tree import Entry, File, ListValue, Root, Stray
from coterie.team.formats.bounds import MAX_TEXT

ROOTS = ("topology", "fragment", "library")


class Parsed(Struct):
    """A file's tree and its syntax errors.

    Attributes:
        lost_flow: Text of a flow was skipped.
        lost_items: Text outside the flow was skipped.
    """

    tree: File
    diagnostics: list[Diagnostic]
    lost_flow: bool
    lost_items: bool


def parse(text: str, start: int = 0) -> Parsed:
    """Parse *text*; `str(tree)` equals *text* for any text. Offsets are counted from *start*."""
    tokens = lex(text)
    if start:
        tokens = [replace(token, offset=token.offset + start) for token in tokens]
    if len(tokens) > 1 and tokens[-2].kind == REST:
        hint = "split it into several files"
        message = f"it has more than {MAX_TOKENS} words and symbols, or {MAX_TEXT // 2**20} MB"
        found = error("too-large", message, tokens[-2].span, hint)
        return Parsed(File([Stray(tokens[:-1])], tokens[-1]), [found], lost_flow=True, lost_items=True)
    cursor = Cursor(tokens)
    file = _file(cursor)
    return Parsed(file, cursor.diagnostics, cursor.lost_flow, cursor.lost_items)


def _file(cursor: Cursor) -> File:
    items: list[Root | Entry] = []
    start = cursor.token.span
    roots = 0
    reported = False
    while cursor.token.kind != END:
        if _begins_root(cursor, first=not roots):
            items.append(_root(cursor))
            roots += 1
        elif roots:
            if not reported:
                message = f"unexpected {shown(cursor.token)!r} after the end of the topology"
                cursor.error("text-behind-end", message, cursor.token.span, "is there an extra '}' above?")
            reported = True
            items.append(parse_entry(cursor, "topology") if _begins_block(cursor) else Stray([cursor.take()]))
        else:
            items.append(_text_before_root(cursor))
    if not roots:
        hint = "a file begins with: topology NAME : [pipeline] { … }"
        cursor.diagnostics.clear()
        cursor.error("no-topology", "there is no topology in this file", start, hint)
    return File(items, cursor.token)


def _begins_root(cursor: Cursor, first: bool) -> bool:
    token = cursor.token
    if token.kind != NAME:
        return False
    if token.text in ROOTS:
        return True
    is_misspelt = token.text not in READ_BLOCKS and bool(did_you_mean(token.text.lower(), ["topology"]))
    return first and is_misspelt and cursor.peek().kind == NAME and cursor.peek(2).kind in (":", "{")


def _text_before_root(cursor: Cursor) -> Stray:
    hint = "a file begins with: topology NAME : [pipeline] { … }"
    if cursor.token.text == "/":
        hint = "write a comment behind #"
    elif cursor.token.text in ("import", "use", "include"):
        hint = "write it inside the topology, behind its '{'"
    cursor.unexpected("the word 'topology'", hint)
    skipped = [cursor.take()]
    while cursor.token.kind != END and not _begins_root(cursor, first=True):
        skipped.append(cursor.take())
    return Stray(skipped)


def _begins_block(cursor: Cursor) -> bool:
    return cursor.token.kind == NAME and (
        cursor.peek().kind == "{" or (cursor.peek().kind == NAME and cursor.peek(2).kind == "{")
    )


def _root(cursor: Cursor) -> Root:
    keyword = cursor.take()
    if keyword.text not in ROOTS:
        hint = did_you_mean(keyword.text.lower(), ["topology"])
        cursor.error("unexpected-text", f"a file cannot begin with {keyword.text!r}", keyword.span, hint)
    name = cursor.take() if cursor.token.kind in KEYS else None
    if name is None:
        cursor.unexpected(f"the name of the {keyword.text}", f"write: {keyword.text} NAME : [pipeline] {{ … }}")
    elif name.kind != NAME:
        cursor.bad_name(name)
    colon = cursor.take_if(":")
    patterns = parse_list(cursor, lenient=False) if cursor.token.kind == "[" else None
    if name is not None and keyword.text == "topology":
        _check_header(cursor, name, colon, patterns)
    is_bare = patterns is None and colon is not None and _is_bare_pattern(cursor)
    skipped = [cursor.take()] if is_bare else _skip_to_brace(cursor)
    open = cursor.take_if("{")
    items, close = parse_body(cursor, keyword, open or keyword, lenient=False)
    return Root(keyword, name, colon, patterns, skipped, open, items, close)


def _check_header(cursor: Cursor, name: Token, colon: Token | None, patterns: ListValue | None) -> None:
    if patterns is None:
        at = (colon or name).end
        fix = Fix("name the pattern", at, " [pipeline]" if colon else " : [pipeline]")
        message, pattern = "the header lists no patterns", "pipeline"
        if colon is not None and _is_bare_pattern(cursor):
            at, pattern = cursor.token.span, cursor.token.text
            message, fix = f"the pattern {pattern!r} is not in brackets", Fix("put it in brackets", at, f"[{pattern}]")
        cursor.error("missing-patterns", message, at, f"write: topology {name.text} : [{pattern}] {{ … }}", fix)
    elif colon is None:
        fix = Fix("insert the colon", name.end, " :")
        cursor.error("missing-colon", "a colon is missing before the patterns", name.end, "write ': ['", fix)


def _is_bare_pattern(cursor: Cursor) -> bool:
    """Whether the next token is a pattern of the header without brackets, and the topology is opened after it."""
    token = cursor.token
    is_name = token.kind == NAME and token.text != "flow"
    return is_name and not cursor.on_new_line() and cursor.peek().kind == "{"


def _skip_to_brace(cursor: Cursor) -> list[Token]:
    """Skip and report misplaced text between the header and its brace."""
    if cursor.token.kind == "{":
        return []
    last = cursor.tokens[cursor.at - 1]
    if cursor.token.kind == END or _begins_block(cursor):
        fix = Fix("open the topology", last.end, " {")
        cursor.error("missing-brace", "the topology is not opened", last.end, "add the '{' that opens it", fix)
    else:
        cursor.unexpected("the '{' that opens the topology")
    skipped: list[Token] = []
    while cursor.token.kind not in ("{", END) and not _begins_block(cursor) and not _begins_root(cursor, first=False):
        skipped.append(cursor.take())
    return skipped
