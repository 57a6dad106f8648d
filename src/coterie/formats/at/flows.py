"""Read the flow block: each arrow of a statement becomes one arrow group per source."""

from collections.abc import Iterator
from typing import Any

from coterie.diagnostics import Span, note, warning
from coterie.formats.at.attributes import Attributed, read_attributes
from coterie.formats.at.fields import Report
from coterie.formats.at.lexer import BAD_ARROW, ERROR_ARROW, Token
from coterie.formats.at.tree import Attributes, FlowBlock, NameList, Statement
from coterie.topology.model import ArrowGroup, Flow, Kept

_Names = list[Token]


def read_flow(block: FlowBlock, report: Report) -> tuple[Flow, list[Kept]]:
    """The flow that *block* draws, and its error arrows, which are kept and not executed."""
    groups: list[ArrowGroup] = []
    kept: list[Kept] = []
    mentions: dict[str, None] = {}
    for statement in block.statements:
        if not isinstance(statement, Statement):
            continue
        for arrow, sources, targets, attributes in _arrows(statement, report):
            attributed = read_attributes(attributes, targets.is_list, report)
            if arrow.kind == ERROR_ARROW:
                kept.append(_error_arrow(arrow, sources.names, targets.names, attributed, report))
                continue
            mentions.update(dict.fromkeys(name.text for name in (*sources.names, *targets.names)))
            groups += [_group(arrow, source, targets.names, attributed) for source in sources.names]
    return Flow(groups=tuple(groups), mentions=tuple(mentions), span=block.keyword.span), kept


class _Node:
    """One end of an arrow.

    Attributes:
        names: Who stands there, each once.
        is_list: Whether they stand in brackets.
    """

    def __init__(self, part: Token | NameList, report: Report) -> None:
        self.is_list = isinstance(part, NameList)
        self.names = [part] if isinstance(part, Token) else _without_repeats(part, report)


def _without_repeats(part: NameList, report: Report) -> _Names:
    names: dict[str, Token] = {}
    for name in part.names:
        if name.text in names:
            message = f"{name.text!r} stands twice in this list"
            report(warning("repeated-name", message, name.span, "it counts once"))
        names.setdefault(name.text, name)
    return list(names.values())


def _arrows(statement: Statement, report: Report) -> Iterator[tuple[Token, _Node, _Node, list[Attributes]]]:
    """Each arrow that has two ends, with the attributes behind its target."""
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
    """From the source to the last target; only the arrow where that crosses lines, or runs backwards."""
    last = targets[-1] if targets else arrow
    if source.line != last.line:
        return arrow.span
    return Span(source.line, source.column, last.offset + len(last.text) - source.offset, source.offset)


def _error_arrow(arrow: Token, sources: _Names, targets: _Names, attributed: Attributed, report: Report) -> Kept:
    report(note("error-arrow", f"the error arrow {arrow.text!r} is kept and not executed", arrow.span))
    value: dict[str, Any] = {
        "sources": [source.text for source in sources],
        "targets": [target.text for target in targets],
        "type": arrow.text[3:-3] if arrow.text.startswith("-x[") else "",
        **attributed.kept,
    }
    if attributed.when is not None:
        value["when"] = str(attributed.when)
    if attributed.max is not None:
        value["max"] = attributed.max
    name = f"{_shown(sources)} {arrow.text} {_shown(targets)}"
    return Kept(kind="error-arrow", name=name, value=value, span=arrow.span)


def _shown(names: _Names) -> str:
    texts = [name.text for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
