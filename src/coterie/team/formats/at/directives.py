"""Read `import` and `include` statements."""

import re
from collections.abc import Mapping

from msgspec import Struct

from coterie.base.diagnostics import Span, error
from coterie.team.formats.at.fields import Report
from coterie.team.formats.at.lexer import DURATION, NAME, NUMBER, STRING, WORD, Token
from coterie.team.formats.at.tree import Directive
from coterie.team.formats.at.values import scalar, string
from coterie.team.formats.files import SUFFIXES
from coterie.team.topology.conditions import Scalar

IMPORT_FORM = 'write import "./file.at" as name, optionally with { parameter: value }'
INCLUDE_FORM = 'write include "./file.at"'

_REGISTRY = re.compile(r"[a-z0-9-]+(?:/[a-z0-9-]+)*(?:@(?:latest|[0-9]+(?:\.[0-9]+){0,2}(?:[-+][A-Za-z0-9.+-]+)?))?")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)
_VALUES = frozenset({STRING, NUMBER, NAME, WORD, DURATION})


class ImportStatement(Struct):
    """`import SOURCE as ALIAS with { … } sha256: "…"`, as far as it could be read.

    Attributes:
        given: The values of `with`, by name.
        span: The span of the source.
    """

    source: str
    span: Span
    alias: Token
    given: Mapping[str, Scalar] = {}
    sha256: str = ""


def read_import(directive: Directive, report: Report) -> ImportStatement | None:
    """The import; None, with a report, if it is invalid."""
    source = directive.words[1]
    clauses = _clauses(directive, report)
    if clauses is None or source.kind != STRING or not string(source):
        if clauses is not None:
            report(error("bad-import", "this import does not name a file", source.span, IMPORT_FORM))
        return None
    text = string(source)
    if not text.endswith(SUFFIXES) and not _REGISTRY.fullmatch(text):
        message = f"{text!r} is neither an .at or .yaml file nor a registry name"
        report(error("bad-import", message, source.span, "write a registry name as team/name@1.2.0"))
        return None
    if "as" not in clauses or not clauses["as"] or clauses["as"][0].kind != NAME:
        at = clauses["as"][0].span if clauses.get("as") else source.span
        report(error("bad-import", "this import does not name its topology", at, IMPORT_FORM))
        return None
    statement = ImportStatement(text, source.span, clauses["as"][0])
    if "with" in clauses:
        statement.given = _given(clauses["with"], report)
    if "sha256" in clauses:
        statement.sha256 = _sha256(clauses["sha256"], source, report)
    return statement


def read_include(directive: Directive, report: Report) -> Token | None:
    """The token that names the file; None, with a report, if there is none."""
    source, *clause = [word for word in directive.words[1:] if word.kind != ","]
    if source.kind != STRING or not string(source).endswith(".at"):
        report(error("bad-include", "this include does not name an .at file", source.span, INCLUDE_FORM))
        return None
    if clause:
        message = f"an include cannot have {clause[0].text!r}"
        hint = "remove it, or use import; an include adds declarations to this file"
        report(error("bad-include", message, clause[0].span, hint))
        return None
    return source


def _clauses(directive: Directive, report: Report) -> dict[str, list[Token]] | None:
    """The words after each of `as`, `with` and `sha256`."""
    found: dict[str, list[Token]] = {}
    current: list[Token] = []
    depth = 0
    for word in directive.words[2:]:
        is_clause = word.kind == NAME and word.text in ("as", "with", "sha256")
        if depth == 0 and is_clause and (current or not found):  # a topology may be called `with`
            if word.text in found:
                report(error("bad-import", f"{word.text!r} is written twice", word.span, "remove one of them"))
                return None
            current = found[word.text] = []
            continue
        depth += (word.kind == "{") - (word.kind == "}")
        if word.kind not in (":", ",") or depth:
            current.append(word)
    return found


def _given(words: list[Token], report: Report) -> dict[str, Scalar]:
    """`{ rounds: 3, tone: "dry" }`."""
    found: dict[str, Scalar] = {}
    inner = [word for word in words[1:-1] if word.kind != ","] if words and words[0].kind == "{" else []
    if not inner and len(words) != 2:
        span = words[0].span if words else None
        report(error("bad-import", "'with' has no values", span, "write with { parameter: value }"))
    while inner:
        if len(inner) < 3 or inner[0].kind != NAME or inner[1].kind != ":" or inner[2].kind not in _VALUES:
            message = f"{inner[0].text!r} has no value"
            report(error("bad-import", message, inner[0].span, "write with { parameter: value }"))
            return found
        name, _, value = inner[:3]
        if name.text in found:
            report(error("bad-import", f"{name.text!r} is set twice", name.span, "remove one of them"))
        found[name.text] = scalar(value)
        inner = inner[3:]
    return found


def _sha256(words: list[Token], source: Token, report: Report) -> str:
    text = string(words[0]) if words and words[0].kind == STRING else ""
    if not _SHA256.fullmatch(text):
        span = words[0].span if words else source.span
        report(error("bad-import", "this is not a SHA-256", span, "write 64 hexadecimal digits, in quotes"))
        return ""
    return text.lower()
