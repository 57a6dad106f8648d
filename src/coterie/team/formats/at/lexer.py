"""Split the text of an `.at` file into tokens, without loss.

Every character belongs to exactly one token, as its text or as the trivia (blanks, comments, line ends) before it, so
joining the tokens of any text returns it. Invalid characters become tokens too; the parser reports them.
"""

import re
from collections.abc import Iterable
from itertools import islice
from sys import intern

from msgspec import Struct

from coterie.base.diagnostics import Span
from coterie.team.formats.bounds import MAX_TEXT

NAME = "name"
WORD = "word"  # letters and digits that are not an identifier: `4o`, `café`
NUMBER = "number"
DURATION = "duration"
STRING = "string"
OPEN_STRING = "open-string"  # its closing quote is missing on its line
SINGLE_QUOTED = "single-quoted"
RAW = "raw"  # the text of a prompt block
OPEN_RAW = "open-raw"  # the same, with unbalanced braces
ERROR_ARROW = "error-arrow"  # `-x->`, `-x[timeout]->`
BAD_ARROW = "bad-arrow"  # `=>`, `-->`, `<-`: misspellings of `->`
BAD = "bad"  # a character that the notation does not use
REST = "rest"  # all text after the token limit
END = "end"

MAX_TOKENS = 200_000
"""Limit of tokens; the rest of the text, or all of a text longer than `MAX_TEXT`, becomes one unread token."""

# Punctuation, `->` and the comparisons are their own kind.

# fmt: off
NAMED_BLOCKS = frozenset({
    "action", "agent", "artifact", "command", "fragment", "gate", "group", "hook", "human", "job", "level", "library",
    "retrieval", "schema", "skill", "store", "tool", "topology", "variant",
})
# fmt: on
"""Keywords that a name follows: in `agent prompt {` the braces contain fields, not the text of a prompt."""

_TOKEN = re.compile(
    r"""
    (?P<trivia> (?: [\s\ufeff]++ | \#[^\r\n]*+ )*+ )
    (?:
      (?P<name> [A-Za-z] [A-Za-z0-9_]*+ (?: - (?! x(?:\[[^\]\r\n]*+\])?-> ) [A-Za-z0-9_]++ )*+ (?!\w) )
    | (?P<own> -> | [=!<>]= (?!>) | [{}\[\]:,|.] )
    | (?P<string> " (?: [^"\\\r\n]++ | \\[^\r\n] )*+ " )
    | (?P<duration> [0-9]{1,15} [smhd] (?! -?\w) )
    | (?P<number> -? [0-9]{1,15} (?: \.[0-9]{1,15} )? (?! -?\w) )
    | (?P<error_arrow> -x (?: \[[^\]\r\n]*+\] )? -> )
    | (?P<bad_arrow> --+> | ==*> | ~+> | <-+(?![0-9])>? | [\u2192\u21d2\u27f6\u2794\u279c] )
    | (?P<open_string> " (?: [^"\\\r\n]++ | \\[^\r\n] )*+ )
    | (?P<single_quoted> ' [^'\r\n]*+ ' )
    | (?P<word> \w++ (?: -\w++ )*+ )
    | (?P<sign> [=<>%?/()*$@+!&;~^'\\-] )
    | (?P<bad> [^\s] )
    | (?P<end> \Z )
    )
    """,
    re.VERBOSE,
)
_CLOSING_LINE = re.compile(r"(?:\r\n|\r|\n)([ \t]*)\}")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Token(Struct, frozen=True, gc=False):
    """A piece of an `.at` file, with the trivia before it.

    Attributes:
        kind: One of the constants of this module; for punctuation and comparisons, the text itself.
        text: As written, quotes and escapes included.
        trivia: Blanks, comments and line ends between the token before and this one.
        line: Counted from 1.
        column: In characters, counted from 1.
        offset: Of the text, in characters from the start of the file, counted from 0.
    """

    kind: str
    text: str
    trivia: str
    line: int
    column: int
    offset: int

    @property
    def span(self) -> Span:
        """The span of the text, or of its first line."""
        length = len(self.text)
        if self.kind in (RAW, OPEN_RAW):
            length = len(_LINE_END.split(self.text, maxsplit=1)[0])
        return Span(self.line, self.column, length, self.offset)

    @property
    def end(self) -> Span:
        """The point after the text, for a text of one line."""
        length = len(self.text)
        return Span(self.line, self.column + length, 0, self.offset + length)


def lex(text: str) -> list[Token]:
    """The tokens of *text*; the last is of kind `END`, with the trivia at the end of the file."""
    tokens: list[Token] = []
    append = tokens.append
    # Line n goes from starts[n - 1] to starts[n].
    starts = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text) + 1]
    line = 1
    position = 0
    braces: dict[int, int] | None = None
    most = MAX_TOKENS if len(text) <= MAX_TEXT else 0
    while True:
        for match in islice(_TOKEN.finditer(text, position), max(0, most - len(tokens))):
            group = match.lastindex
            assert group is not None  # every alternative is a group
            trivia, body = match.group(1, group)
            offset = match.start(group)
            while offset >= starts[line]:
                line += 1
            column = offset - starts[line - 1] + 1
            body = intern(body)  # equal names share one object, to save memory and comparisons
            kind = _KINDS[group] or body
            append(Token(kind, body, trivia, line, column, offset))
            if kind == "{" and _opens_prompt(tokens):
                if braces is None:
                    braces = _matching_braces(text)
                raw, inside = _raw(text, tokens, braces)
                append(Token(raw, inside, "", line, column + 1, offset + 1))
                position = offset + 1 + len(inside)
                break
            if kind == END:
                return tokens
        else:
            end = tokens[-1].end if tokens else Span(1, 1)
            append(Token(REST, text[end.offset :], "", end.line, end.column, end.offset))
            append(Token(END, "", "", end.line, end.column, len(text)))
            return tokens


_OWN_KIND = ("own", "sign")
_KINDS = ("", *("" if name in _OWN_KIND else name.replace("_", "-") for name in _TOKEN.groupindex))
"""The kind of a token by its group in `_TOKEN`; if empty, its text is its kind."""


def _opens_prompt(tokens: list[Token]) -> bool:
    """Whether the brace that ends *tokens* opens the text of a prompt: `prompt {` or `prompt: {`, as a field."""
    at = len(tokens) - 2
    if at >= 0 and tokens[at].kind == ":":
        at -= 1
    if at < 0 or tokens[at].text != "prompt":
        return False
    before = tokens[at - 1] if at else None
    if before is None or before.kind == "->":
        return False
    named = before.kind == NAME and before.text in NAMED_BLOCKS
    return not named or (at > 1 and tokens[at - 2].kind == ":")


def _matching_braces(text: str) -> dict[int, int]:
    """The offset of the closing brace of each opening brace that has one, ignoring strings and comments."""
    pairs: dict[int, int] = {}
    open_braces: list[int] = []
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            open_braces.append(match.start())
        elif open_braces:
            pairs[open_braces.pop()] = match.start()
    return pairs


def _raw(text: str, tokens: list[Token], braces: dict[int, int]) -> tuple[str, str]:
    """The kind and the text of the prompt after the brace that ends *tokens*.

    A prompt with unbalanced braces, or whose last brace seems to belong to an outer block, ends at the first line that
    begins with a closing brace no deeper than the word `prompt`, so the rest of the file is still read.
    """
    start = tokens[-1].offset + 1
    end = braces.get(start - 1)
    word = next(token for token in reversed(tokens) if token.text == "prompt")
    if end is not None and not _is_deeper(word, text, end):
        return RAW, text[start:end]
    for match in _CLOSING_LINE.finditer(text, start, len(text) if end is None else end):
        if len(match[1]) < word.column and (end is None or len(match[1]) == word.column - 1):
            return OPEN_RAW, text[start : match.end() - 1]
    return (OPEN_RAW, text[start:]) if end is None else (RAW, text[start:end])


def _is_deeper(word: Token, text: str, brace: int) -> bool:
    """Whether *word* is indented deeper than the closing brace at *brace*, which begins its line."""
    line_start = max(text.rfind("\n", 0, brace), text.rfind("\r", 0, brace)) + 1
    return not text[line_start:brace].strip() and brace - line_start < word.column - 1


def join(tokens: Iterable[Token]) -> str:
    """The text of *tokens*."""
    return "".join(token.trivia + token.text for token in tokens)
