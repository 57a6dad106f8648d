"""Read the flow block: each arrow of a statement becomes one arrow group per source."""

from collections.abc import Iterator

from coterie.base.diagnostics import Span, error, warning
from coterie.team.formats.at.attributes import Attributed, read_attributes
from coterie.team.formats.at.fields import Report
from coterie.team.formats.at.flow_parser import EACH_WORDS
from coterie.team.formats.at.lexer import BAD_ARROW, ERROR_ARROW, NAME, Token
from coterie.team.formats.at.tree import Attributes, FlowBlock, NameList, Statement
from coterie.team.topology.model import RUN_INPUT, ArrowGroup, Each, ErrorArrow, Flow

MAX_ARROWS = 50_000
"""Limit of arrows between pairs of nodes; two lists have the product of their lengths."""

_Names = list[Token]


def read_flow(block: FlowBlock, report: Report) -> Flow:
    """Read the flow *block*."""
    groups: list[ArrowGroup] = []
    each: list[Each] = []
    errors: list[ErrorArrow] = []
    mentions: dict[str, None] = {}
    lone: dict[str, Span] = {}
    arrows = 0
    for statement in block.statements:
        if not isinstance(statement, Statement):
            continue
        names = _lone_nodes(statement, report)
        for name in names:
            mentions.setdefault(name.text)
            lone.setdefault(name.text, name.span)
        if names and (lists := [part for part in statement.parts if isinstance(part, Attributes)]):
            attributed = read_attributes(lists, len(names) > 1, report)
            _check_lone(attributed, report)
            each += _each(names, attributed, -1)
        for arrow, sources, targets, attributes in _arrows(statement, report):
            attributed = read_attributes(attributes, targets.is_list, report)
            if arrow.kind == ERROR_ARROW:
                errors.append(_error_arrow(arrow, sources.names, targets.names, attributed))
                if attributed.each:
                    span, hint = attributed.spans["each"], "write it on the arrow '->' into the node"
                    report(error("bad-each", "an error arrow does not map its target", span, hint))
                continue
            if not sources.names or not targets.names:
                continue  # reported as an empty list
            arrows += len(sources.names) * len(targets.names)
            if arrows > MAX_ARROWS:
                hint = "write a node between the lists, or split the team"
                report(error("too-large", f"the flow has more than {MAX_ARROWS} arrows", arrow.span, hint))
                break
            mentions.update(dict.fromkeys(name.text for name in (*sources.names, *targets.names)))
            each += _each(targets.names, attributed, len(groups))
            groups += [_group(arrow, source, targets.names, attributed) for source in sources.names]
        if arrows > MAX_ARROWS:
            break
    return Flow(
        groups=tuple(groups),
        mentions=tuple(mentions),
        errors=tuple(errors),
        each=tuple(each),
        span=block.keyword.span,
        spans=lone,
    )


def _check_lone(attributed: Attributed, report: Report) -> None:
    """Report attributes that only an arrow can have, and a list of another agent."""
    for name, span in attributed.spans.items():
        if name not in (*EACH_WORDS, "by") and "." not in name:
            report(error("bad-each", f"{name!r} is on a node without an arrow", span, "write it after an arrow"))
    agent = attributed.each.get("agent")
    if agent is not None and agent != RUN_INPUT:
        span, hint = attributed.spans["each"], f"write {agent} -> NODE [each {agent}.{attributed.each['field']}, …]"
        report(error("bad-each", f"no arrow leads here from {agent!r}, which gives the list", span, hint))


def _each(names: _Names, attributed: Attributed, group: int) -> Iterator[Each]:
    """How the nodes *names* are mapped, if they are."""
    if "agent" in attributed.each:
        spans = {name: span for name, span in attributed.spans.items() if name.partition(".")[0] in EACH_WORDS}
        for name in names:
            yield Each(node=name.text, **attributed.each, group=group, span=attributed.spans["each"], spans=spans)


class _Node:
    """One end of an arrow.

    Attributes:
        names: The nodes, without duplicates.
        is_list: Whether they are in brackets.
    """

    def __init__(self, part: Token | NameList, report: Report) -> None:
        self.is_list = isinstance(part, NameList)
        self.names = [part] if isinstance(part, Token) else _without_repeats(part, report)


def _without_repeats(part: NameList, report: Report) -> _Names:
    names: dict[str, Token] = {}
    for name in part.names:
        if name.text in names:
            message = f"{name.text!r} is in this list twice"
            report(warning("repeated-name", message, name.span, "remove one of them; it counts once"))
        names.setdefault(name.text, name)
    return list(names.values())


def _lone_nodes(statement: Statement, report: Report) -> _Names:
    """The nodes of a statement without arrows."""
    match statement.parts:
        case [NameList() as part, *rest] if all(isinstance(one, Attributes) for one in rest):
            return _without_repeats(part, report)
        case [Token() as part, *rest] if part.kind == NAME and all(isinstance(one, Attributes) for one in rest):
            return [part]
        case _:
            return []


def _arrows(statement: Statement, report: Report) -> Iterator[tuple[Token, _Node, _Node, list[Attributes]]]:
    """Each arrow with two ends, and the attributes after its target."""
    source: _Node | None = None
    arrow: Token | None = None
    waiting: tuple[Token, _Node, _Node, list[Attributes]] | None = None
    for part in statement.parts:
        if isinstance(part, Attributes):
            if waiting is not None:
                waiting[3].append(part)
        elif isinstance(part, Token) and part.kind in ("->", ERROR_ARROW, BAD_ARROW):
            arrow = part
        else:
            if waiting is not None:
                yield waiting
            target = _Node(part, report)
            waiting = (arrow, source, target, []) if arrow is not None and source is not None else None
            source = target
    if waiting is not None:
        yield waiting


def _group(arrow: Token, source: Token, targets: _Names, attributed: Attributed) -> ArrowGroup:
    spans = {"source": source.span, **{target.text: target.span for target in targets}, **attributed.spans}
    return ArrowGroup(
        source=source.text,
        targets=tuple(target.text for target in targets),
        when=attributed.when,
        max=attributed.max,
        per=attributed.per,
        on_max=attributed.on_max,
        kept=attributed.kept,
        span=_across(source, targets, arrow),
        spans=spans,
    )


def _across(source: Token, targets: _Names, arrow: Token) -> Span:
    """The span from the source to the last target, or of the arrow alone if they are on different lines."""
    last = targets[-1] if targets else arrow
    if source.line != last.line:
        return arrow.span
    return Span(source.line, source.column, last.offset + len(last.text) - source.offset, source.offset)


def _error_arrow(arrow: Token, sources: _Names, targets: _Names, attributed: Attributed) -> ErrorArrow:
    return ErrorArrow(
        sources=tuple(source.text for source in sources),
        targets=tuple(target.text for target in targets),
        type=arrow.text[3:-3] if arrow.text.startswith("-x[") else "",
        when=attributed.when,
        max=attributed.max,
        kept=attributed.kept,
        span=arrow.span,
        spans={name.text: name.span for name in (*sources, *targets)} | attributed.spans,
    )
