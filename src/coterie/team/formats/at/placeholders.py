"""Replace each placeholder `${param.NAME}` by the value of its parameter.

A string that consists of one placeholder takes the type of the value, so `max "${param.rounds}"` is a number.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, warning
from coterie.team.formats.at.fields import Report
from coterie.team.formats.at.lexer import NAME, NUMBER, OPEN_RAW, RAW, STRING, Token
from coterie.team.formats.at.tree import SyntaxNode
from coterie.team.formats.at.values import string
from coterie.team.topology.composition import PLACEHOLDER, Param, fill, shown, values_of
from coterie.team.topology.conditions import Scalar

N = TypeVar("N", bound=SyntaxNode)

_STANDS_IN = {"number": "1", "boolean": "false"}
"""Values used while a parameter has none and the topology is only checked."""


class Filled(Token, frozen=True, gc=False):
    """A token with its placeholders replaced; its positions are those of *written*, the original."""

    written: Token

    @property
    def span(self) -> Span:
        """The span of the original."""
        return self.written.span

    @property
    def end(self) -> Span:
        """The point after the original."""
        return self.written.end


def filled_in(token: Token, kind: str, text: str) -> Filled:
    """*token* with another text."""
    return Filled(kind, text, token.trivia, token.line, token.column, token.offset, token)


def quoted(text: str) -> str:
    """*text* as a string of the notation."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def filled(entries: Sequence[N], params: Sequence[Param]) -> list[N]:
    """*entries* with placeholders replaced by the values of *params*."""
    fill = _Fill(params)
    return [mapped(entry, fill) if any(map(has_place, entry.tokens())) else entry for entry in entries]


def has_place(token: Token) -> bool:
    """Whether *token* may contain a placeholder."""
    return token.kind in (STRING, RAW, OPEN_RAW) and "${param." in token.text


def unknown_places(entries: Sequence[SyntaxNode], params: Sequence[Param], report: Report) -> None:
    """Report placeholders of undeclared parameters."""
    known = [param.name for param in params]
    for token in (token for entry in entries for token in entry.tokens() if has_place(token)):
        for name in dict.fromkeys(PLACEHOLDER.findall(token.text)):
            if name not in known:
                report(_unknown(name, token, known))


def _unknown(name: str, token: Token, known: Sequence[str]) -> Diagnostic:
    hint = did_you_mean(name, known) or f"declare it: params {{ {name}: string }}; the text stays unchanged"
    return warning("unknown-param", f"unknown parameter {name!r}", token.span, hint)


def mapped(node: N, change: Callable[[Token], Token]) -> N:
    """*node* with each token changed."""
    return type(node)(*_mapped_parts(node, change))


def _mapped_parts(node: SyntaxNode, change: Callable[[Token], Token]) -> Iterator[Any]:
    for name in node.__struct_fields__:
        yield _mapped(getattr(node, name), change)


def _mapped(part: Any, change: Callable[[Token], Token]) -> Any:
    match part:
        case Token():
            return change(part)
        case SyntaxNode():
            return mapped(part, change)
        case list():
            return [_mapped(each, change) for each in part]
        case _:
            return part


class _Fill:
    """Fills one token."""

    def __init__(self, params: Sequence[Param]) -> None:
        self._params = {param.name: param for param in params}
        self._values = values_of(params)

    def __call__(self, token: Token) -> Token:
        if not has_place(token):
            return token
        if token.kind != STRING:
            return filled_in(token, token.kind, fill(token.text, self._values))
        text = string(token)
        alone = PLACEHOLDER.fullmatch(text)
        if alone is not None and alone[1] in self._params:
            return self._alone(token, self._params[alone[1]])
        return filled_in(token, STRING, quoted(fill(text, self._values)))

    def _alone(self, token: Token, param: Param) -> Token:
        match param.type:
            case "number":
                return filled_in(token, NUMBER, _written(param.value) or _STANDS_IN["number"])
            case "boolean":
                return filled_in(token, NAME, _written(param.value) or _STANDS_IN["boolean"])
            case _:
                return token if param.value is None else filled_in(token, STRING, quoted(shown(param.value)))


def _written(value: Scalar | None) -> str:
    return "" if value is None else shown(value)
