"""Read the block `env`: `MODE: fast`, `API_KEY: secret "vault://team/key"`."""

from coterie.base.diagnostics import error
from coterie.team.formats.at.fields import FieldReader, Report
from coterie.team.formats.at.lexer import Token
from coterie.team.formats.at.tree import BlockNode as Tree
from coterie.team.formats.at.tree import Value, WordsNode, span_of
from coterie.team.formats.at.values import QUOTED, string, text_of
from coterie.team.topology.block import Block

KINDS = ("secret", "sensitive", "encrypted")
"""Keywords that may precede a value."""


def read_variables(block: Tree, report: Report) -> Block:
    """The variables in *block*, each with a `value` and an optional `kind`."""
    fields = FieldReader(block.items, "'env'", report)
    found = tuple([each for name in fields.left() if (each := _variable(fields, name)) is not None])
    return Block(kind="env", entries=found, span=block.head[0].span)


def _variable(fields: FieldReader, name: str) -> Block | None:
    value = fields.value(name, "a text")
    if value is None:
        return None
    kind, text = _parts(value)
    if text is None:
        hint = f'write {name}: "value", or {name}: secret "vault://…"'
        fields.report(error("bad-value", f"{name!r} of 'env' is not a text", span_of(value), hint))
        return None
    span = fields.spans[name]
    values = {"value": text, "kind": kind} if kind else {"value": text}
    return Block(kind="variable", name=name, fields=values, span=span, spans={"value": span})


def _parts(value: Value) -> tuple[str, str | None]:
    """The keyword before the value, and the value; None if it is not a text."""
    match value:
        case Token():
            return "", text_of(value)
        case WordsNode(words=[first, second]) if first.text in KINDS and second.kind in QUOTED:
            return first.text, string(second)
        case WordsNode() if value.one:
            return "", text_of(value)
        case _:
            return "", None
