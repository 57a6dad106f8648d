"""A position in the tokens of a file, and the diagnostics so far."""

from functools import cached_property

from coterie.base.diagnostics import Diagnostic, Fix, Span, error
from coterie.team.formats.at.lexer import BAD, END, NAME, OPEN_STRING, SINGLE_QUOTED, Token

_LEAVING = frozenset({"agent", "action", "human", "group"})
_LEAVING_UNNAMED = frozenset({"flow", "gates", "meta", "roles", "orchestrator"})
_FURTHEST = 4


class Cursor:
    """Walks over tokens; the parsers of one file share it.

    Attributes:
        tokens: All tokens of the file; `END` is repeated, so looking ahead is always possible.
        at: The index of the next token.
        token: That token.
        depth: The number of open blocks and lists.
        diagnostics: The diagnostics so far.
        lost_flow: Whether part of a flow could not be read, so that something missing from the flow is not an error.
        lost_items: Whether text outside the flow could not be read, so that a missing declaration is not an error.

    Args:
        tokens: The tokens of the file; the cursor owns the list from now on.
    """

    def __init__(self, tokens: list[Token]) -> None:
        tokens += [tokens[-1]] * _FURTHEST
        self.tokens = tokens
        self.at = 0
        self.token = tokens[0]
        self.depth = 0
        self.diagnostics: list[Diagnostic] = []
        self.lost_flow = False
        self.lost_items = False
        self._bad_names: set[str] = set()
        self._suspect: Token | None = None
        self._blamed = False

    def peek(self, ahead: int = 1) -> Token:
        """The token up to four *ahead* of the next one; after the end, `END`."""
        return self.tokens[self.at + ahead]

    def take(self) -> Token:
        """Read one token."""
        token = self.token
        if token.kind != END:
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def take_if(self, kind: str) -> Token | None:
        """Read one token if it is of *kind*."""
        return self.take() if self.token.kind == kind else None

    def give_back(self, count: int) -> None:
        """Go back by *count* tokens."""
        self.at -= count
        self.token = self.tokens[self.at]

    def on_new_line(self, ahead: int = 0) -> bool:
        """Whether the token *ahead* of the next one begins a line."""
        at = self.at + ahead
        return at == 0 or self.tokens[at].line > self.tokens[at - 1].line

    def error(self, code: str, message: str, span: Span | None, hint: str = "", fix: Fix | None = None) -> None:
        """Report an error."""
        self.diagnostics.append(error(code, message, span, hint, fix))

    def check(self, token: Token) -> None:
        """Report *token* if no valid file can hold it."""
        if token.kind == OPEN_STRING:
            fix = None if token.text.endswith(("]", "}")) else Fix("close the string", token.end, '"')
            hint = "close it; write a line break as \\n"
            self.error("unclosed-string", "this string is not closed on its line", token.span, hint, fix)
        elif token.kind == SINGLE_QUOTED:
            double = '"' + token.text[1:-1].replace("\\", "\\\\").replace('"', '\\"') + '"'
            message, hint = f"{token.text} is in single quotes", "write strings in double quotes"
            self.error("single-quotes", message, token.span, hint, Fix("use double quotes", token.span, double))
        elif token.kind == BAD:
            self.error("unexpected-text", f"unexpected {token.text!r}", token.span, "put it in quotes")

    def unexpected(self, expected: str, hint: str = "", ahead: int = 0) -> None:
        """Report that the next token, or the one *ahead* of it, is not what was *expected*."""
        token = self.peek(ahead)
        found = "the end of the file" if token.kind == END else f"{shown(token)!r}"
        self.error("unexpected-text", f"found {found}, expected {expected}", token.span, hint)

    def begins_other_block(self, keyword: str) -> bool:
        """Whether the next tokens open a block that cannot be inside one of *keyword*, so a brace is missing."""
        token = self.token
        if token.kind != NAME:
            return False
        if token.text in _LEAVING_UNNAMED:
            return self.peek().kind == "{"
        named = token.text in _LEAVING or token.text == "topology" or token.text == keyword == "gate"
        return named and self.peek().kind == NAME and self.peek(2).kind in ("{", ":")

    def closed(self, head: Token, open: Token, close: Token) -> None:
        """Remember a block whose closing brace is left of its head: it may be the brace of an outer block."""
        if self._suspect is None and close.line > open.line and close.column < head.column:
            self._suspect = open

    def bad_name(self, token: Token) -> None:
        """Report an invalid name, once for each text."""
        self.lost_items = True
        if token.text not in self._bad_names:
            self._bad_names.add(token.text)
            hint = "a name begins with a letter and contains only a-z, A-Z, 0-9, '_' and '-'"
            self.error("bad-name", f"{shown(token)!r} is not a name", token.span, hint)

    def unclosed_bracket(self, open: Token) -> None:
        """Report that the list opened by *open* is not closed before the next token."""
        last = self.tokens[self.at - 1]
        if last.kind != OPEN_STRING:  # it may contain the bracket, and was reported
            fix = Fix("close the bracket", last.end, "]")
            self.error("unclosed-bracket", "this bracket is never closed", open.span, "add the ']' that ends it", fix)

    def unclosed(self, open: Token) -> None:
        """Report that the block opened by *open* is not closed, once for all blocks that lack the same brace."""
        at_end = self.token.kind == END
        if self._swallowed_brace or (at_end and self._blamed):
            return
        if at_end:
            open = self._suspect or open
        self._blamed = True
        self.error("unclosed-block", "this block is never closed", open.span, "add the '}' that ends it")

    @cached_property
    def _swallowed_brace(self) -> bool:
        """Whether an unclosed string, which was reported, contains a brace."""
        return any(token.kind == OPEN_STRING and "}" in token.text for token in self.tokens)


def shown(token: Token) -> str:
    """The text of *token*, short enough for a message."""
    text = token.text.split("\n", 1)[0].rstrip("\r")
    return text if len(text) <= 40 else text[:37] + "..."
