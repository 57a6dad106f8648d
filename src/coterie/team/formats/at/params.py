"""Read the parameters and the interface of a topology."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from coterie.base.diagnostics import did_you_mean, error
from coterie.team.formats.at.fields import FieldReader, Report
from coterie.team.formats.at.lexer import NAME, Token
from coterie.team.formats.at.tree import BlockNode, FieldNode, Raw, Value, WordsNode, span_of
from coterie.team.formats.at.values import scalar, text_of
from coterie.team.topology.checks.facts import listing
from coterie.team.topology.composition import PARAM_TYPES, Interface, Param, converted
from coterie.team.topology.conditions import Scalar

_FORM = "write name: string, number or boolean, optionally with a default: rounds: number = 3"


def read_params(block: BlockNode, report: Report) -> list[Param]:
    """`params { rounds: number = 3  tone: string }`."""
    fields = FieldReader(block.items, "'params'", report)
    found = []
    for name, item in list(fields.items()):
        if isinstance(item, FieldNode) and item.key.kind == NAME and item.value is not None:
            found.append(_param(name, item.key, item.value, report))
        else:
            key = item.key if isinstance(item, FieldNode | Raw) else item.head[0]
            report(error("bad-value", f"{name!r} is not a parameter", key.span, _FORM))
    return [param for param in found if param is not None]


def _param(name: str, key: Token, value: Value, report: Report) -> Param | None:
    words = [value] if isinstance(value, Token) else value.words if isinstance(value, WordsNode) else []
    type = words[0].text if words else ""
    if type not in PARAM_TYPES or len(words) not in (1, 3) or (len(words) == 3 and words[1].kind != "="):
        hint = did_you_mean(type, PARAM_TYPES) or _FORM
        report(error("bad-value", f"the parameter {name!r} has no valid type", span_of(value), hint))
        return None
    if len(words) == 1:
        return Param(name=name, type=type, span=key.span)
    default = converted(scalar(words[2]), type)
    if default is None:
        message = f"the default of the parameter {name!r} is no {type}: {text_of(words[2])!r}"
        report(error("bad-value", message, words[2].span))
    return Param(name=name, type=type, default=default, value=default, span=key.span)


def joined(declared: Sequence[tuple[int, Param]], report: Report) -> list[Param]:
    """Merge the parameters that the files of one topology declare, each with the depth of its file.

    Several files may declare a parameter with the same type; the default of the outermost file counts.
    """
    params: dict[str, Param] = {}
    for _, param in sorted(declared, key=lambda each: each[0]):
        first = params.setdefault(param.name, param)
        if first.type != param.type:
            message = f"the parameter {param.name!r} is a {param.type} here and a {first.type} elsewhere"
            report(error("duplicate-param", message, param.span, "give it one type, or two names"))
        elif first.default is None:
            params[param.name] = replace(first, default=param.default, value=param.default)
    return [params[name] for name in dict.fromkeys(param.name for _, param in declared)]


def given_to(params: Sequence[Param], given: Mapping[str, Scalar], owner: str, report: Report) -> list[Param]:
    """*params* with the values *given* to them; invalid values are reported."""
    found = []
    for param in params:
        value = param.value
        if param.name in given:
            value = converted(given[param.name], param.type)
            if value is None:
                message = f"the parameter {param.name!r} of {owner!r} is a {param.type}, not {given[param.name]!r}"
                report(error("bad-param", message))
        found.append(replace(param, value=value))
    names = [param.name for param in params]
    for name in given:
        if name not in names:
            listed = f"there are {listing(names)}" if names else f"write params {{ {name}: string }} in its file"
            hint = did_you_mean(name, names) or listed
            report(error("unknown-param", f"{owner!r} has no parameter {name!r}", hint=hint))
    return found


def read_interface(block: BlockNode, report: Report) -> Interface:
    """`interface { entry: writer, exit: reviewer }`."""
    fields = FieldReader(block.items, "'interface'", report)
    entry, exit = fields.word("entry"), fields.word("exit")
    fields.kept((), ("entry", "exit"))
    return Interface(entry=entry, exit=exit, span=block.head[0].span, spans=fields.spans)
