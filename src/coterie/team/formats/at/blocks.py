"""Read blocks into values by their description in `coterie.team.formats.at.language`.

Each field is read by its kind. A block that is not a field becomes an entry or is kept, with a warning if the notation
does not define it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from coterie.base.diagnostics import Span, did_you_mean, error, warning
from coterie.team.formats.at.fields import UNREADABLE, FieldReader, IdleReport, Report, key_of
from coterie.team.formats.at.language.spec import BlockSpec as Spec
from coterie.team.formats.at.language.spec import Entries, FieldKind, FieldSpec
from coterie.team.formats.at.lexer import Token
from coterie.team.formats.at.tree import BlockNode as Tree
from coterie.team.formats.at.tree import Directive, Entry, FlowBlock, ListValue, Stray, span_of
from coterie.team.formats.at.values import seconds, text_of
from coterie.team.topology.block import Block

_RATE = re.compile(r"[1-9][0-9]*/(?:sec|min|hour|day)")


def read_block(
    block: Tree, spec: Spec, report: Report, owner: str = "", name: str = "", span: Span | None = None
) -> Block:
    """Read *block* by its description *spec*.

    Args:
        owner: The block in words, for messages; by default its keyword.
        name: Its name, if it has one; *span* is the name's.
    """
    owner = owner or repr(spec.name)
    plain, entries = _divided(block.items, spec, owner, report)
    fields = FieldReader(plain, owner, report)
    if not spec.fields and not spec.open and spec.entries:
        for field, item in fields.items():
            message = f"{field!r} has no meaning in {owner}"
            report(warning("unknown-field", message, key_of(item).span, f"write {spec.entries[0].shape}"))
    inner = tuple(value for sort, found in entries for value in _entries(found, sort, owner, report))
    values = without_defaults(read_fields(fields, spec), spec)
    for each in spec.fields:
        if each.kind.name == "own":
            fields.drop(each.name)
    kept = fields.rest() if spec.open or not spec.fields else fields.kept((), tuple(spec.by_name))
    head = span or (block.head[0].span if block.head else block.open.span)
    return Block(kind=spec.name, name=name, fields=values, entries=inner, kept=kept, span=head, spans=fields.spans)


def read_fields(fields: FieldReader, spec: Spec) -> dict[str, Any]:
    """The values of *fields* that *spec* describes, by name, in its order; fields of kind `own` are not taken."""
    found: dict[str, Any] = {}
    known = spec.by_name
    for name in fields.left():
        field = known.get(name)
        if field is None or field.kind.name == "own":
            continue
        value = _value(fields, field)
        if value is not None and name not in fields.misread:
            found[name] = value
    return {field.name: found[field.name] for field in spec.fields if field.name in found}


def without_defaults(values: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """The *values* that differ from the defaults of *spec*."""
    return {name: value for name, value in values.items() if _differs(spec.by_name[name], value)}


def _differs(field: FieldSpec, value: Any) -> bool:
    """Whether *value* differs from the default of *field*."""
    default = field.default
    match field.kind.name:
        case "flag":
            return bool(value) is not (default == "true")
        case "number" | "count":
            return not default or value != float(default)
        case "duration" | "seconds":
            return not default or value != (seconds(default) or float(default))
        case _:
            return value not in ("", (), {}, default)


def _value(fields: FieldReader, field: FieldSpec) -> Any:
    """The value of one field; None, with a report, if it cannot be read."""
    name, kind = field.name, field.kind
    match kind.name:
        case "text":
            return fields.text(name)
        case "word":
            return fields.word(name, kind.several)
        case "list" | "names":
            return fields.words(name, places=kind.name == "names")
        case "number":
            return _number(fields, name, kind)
        case "count":
            return fields.count(name, kind.low)
        case "duration" | "seconds":
            return fields.seconds(name, bare=kind.name == "seconds")
        case "flag":
            return fields.flag(name)
        case "one":
            return _one_of(fields, name, kind)
        case "rate":
            return _matching(fields, name, "a rate", "write 60/min; per sec, min, hour or day", _RATE.fullmatch)
        case "join":
            hint = f"it is one of {', '.join((*kind.choices, 'N-of-M'))}"
            return _matching(fields, name, "", hint, lambda text: text in kind.choices or _is_quorum(text))
        case "policy":
            return fields.policy(name, kind.choices, kind.deprecated)
        case "values":
            inner = fields.inner(name, "{ name: value }")
            return (
                FieldReader(inner.items, _part(fields, name), fields.report).rest() if isinstance(inner, Tree) else None
            )
        case "schema":
            inner = fields.inner(name, "{ name: string }")
            return (
                _schema_fields(inner, _part(fields, name), _report_of(fields, field))
                if isinstance(inner, Tree)
                else None
            )
        case "block":
            return _inner(fields, field)
        case "entries":
            return _many(fields, field)
        case "own":
            return None
        case _:
            assert_never(kind.name)


def _report_of(fields: FieldReader, field: FieldSpec) -> Report:
    """The reporter for a block that is the value of *field*."""
    return fields.report if field.executed else IdleReport(fields.report)


def _part(fields: FieldReader, name: str) -> str:
    return f"{name!r} of {fields.owner}"


def _number(fields: FieldReader, name: str, kind: FieldKind) -> float | None:
    value = fields.number(name)
    if value is None or kind.high is None or kind.low <= value <= kind.high:
        return value
    fields.misfit(name, f"{value:g}", kind.words)
    return None


def _one_of(fields: FieldReader, name: str, kind: FieldKind) -> str | None:
    value = fields.value(name, "one word")
    if value is None:
        return None
    text = text_of(value)
    if text in kind.choices:
        return text
    hint = did_you_mean(text, kind.choices)
    if not kind.open or isinstance(value, ListValue):
        known = (
            f"write {name}: {kind.choices[0]}" if len(kind.choices) == 1 else f"it is one of {', '.join(kind.choices)}"
        )
        fields.wrong(name, value, "", hint or known)
        return UNREADABLE
    message = f"{name!r} of {fields.owner} has the unusual value {text!r}"
    fields.report(warning("unusual-value", message, span_of(value), hint or f"usual values: {', '.join(kind.choices)}"))
    return text


def _matching(fields: FieldReader, name: str, wanted: str, hint: str, fits: Callable[[str], object]) -> str | None:
    """The text of the field *name*; None, with a report, if it is invalid."""
    value = fields.value(name, wanted or "one word")
    if value is None:
        return None
    text = text_of(value)
    if not fits(text):
        fields.wrong(name, value, wanted, hint)
        return None
    return text


def _is_quorum(text: str) -> bool:
    n, of, m = text.partition("-of-")
    return bool(of) and n.isdecimal() and m.isdecimal() and 1 <= int(n[:9]) <= int(m[:9])


def _inner(fields: FieldReader, field: FieldSpec) -> Block | None:
    name, kind, report = field.name, field.kind, _report_of(fields, field)
    inner = fields.inner(name, "{ … }", text=bool(kind.short))
    if inner is None or isinstance(inner, Tree):
        assert kind.block is not None
        if inner is None:
            return None
        return read_block(inner, kind.block, report, _part(fields, name))
    span = fields.spans[name]
    return Block(kind=name, fields={kind.short: inner}, span=span, spans={kind.short: span})


def _many(fields: FieldReader, field: FieldSpec) -> Any:
    name, kind = field.name, field.kind
    assert kind.entries is not None
    inner = fields.inner(name, f"{{ {kind.entries.shape} }}")
    if not isinstance(inner, Tree):
        return None
    spec = Spec(name, "", entries=(kind.entries,))
    read = read_block(inner, spec, _report_of(fields, field), _part(fields, name))
    if read.kept:
        fields.keep(name, read.kept)
    return read.entries


def _divided(
    items: Sequence[Entry], spec: Spec, owner: str, report: Report
) -> tuple[list[Entry], list[tuple[Entries, list[tuple[Tree, Token]]]]]:
    """The fields among *items*, and the entries of each sort, with their names."""
    plain: list[Entry] = []
    found: list[tuple[Entries, list[tuple[Tree, Token]]]] = [(entries, []) for entries in spec.entries]
    for item in items:
        match item:
            case Tree():
                _sort(item, plain, found)
            case Stray() | Directive() | FlowBlock():
                message = f"{str(item).strip()[:40]!r} is not a field of {owner}"
                hint = "write 'name: value'; it has no effect"
                report(warning("unread-text", message, next(item.tokens()).span, hint))
            case _:
                plain.append(item)
    return plain, found


def _sort(item: Tree, plain: list[Entry], found: list[tuple[Entries, list[tuple[Tree, Token]]]]) -> None:
    head = item.head
    for entries, blocks in found:
        if entries.word and head and head[0].text == entries.word and len(head) > 1:
            blocks.append((item, head[1]))
            return
        if len(head) == 1 and (not entries.word or entries.bare):
            blocks.append((item, head[0]))
            return
    plain.append(item)


def _entries(blocks: list[tuple[Tree, Token]], entries: Entries, owner: str, report: Report) -> tuple[Block, ...]:
    names: set[str] = set()
    values = []
    for block, token in blocks:
        name = text_of(token)
        what = f"{entries.word or entries.block.name} {name!r}"
        if name in names:
            report(error("duplicate-entry", f"{owner} has {what} twice", token.span, "choose another name"))
            continue
        names.add(name)
        values.append(read_entry(block, entries, name, token.span, report))
    return tuple(values)


def read_entry(block: Tree, entries: Entries, name: str, span: Span, report: Report) -> Block:
    """The value of one entry."""
    spec = entries.block
    owner = f"{entries.word or spec.name} {name!r}"
    if spec.name == "schema":
        return Block(kind="schema", name=name, entries=_schema_fields(block, owner, report), span=span)
    more: dict[str, Any] = {}
    if spec.name == "variant" and (prompt := _prompt(block)):
        more["prompt"] = prompt
    if entries.labelled:
        more["label"] = " ".join(text_of(word) for word in block.head[2:])
    read = read_block(block, spec, report, owner, name, span)
    return replace(read, fields={**more, **read.fields}) if more else read


def _prompt(block: Tree) -> str:
    """The prompt of a variant: a text or `{ any text }`."""
    for item in block.items:
        if not isinstance(item, Tree | Stray | Directive | FlowBlock) and key_of(item).text == "prompt":
            fields = FieldReader([item], "", lambda _: None)
            return fields.raw("prompt") or fields.text("prompt")
    return ""


def _schema_fields(block: Tree, owner: str, report: Report) -> tuple[Block, ...]:
    from coterie.team.formats.at.schemas import read_schema_fields  # few files have one

    return read_schema_fields(block, owner, report)
