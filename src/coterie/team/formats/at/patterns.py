"""Read the block `pattern { type: …  config { … }  slots { … } }`."""

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.base.diagnostics import Span, error
from coterie.team.formats.at.fields import UNREADABLE, FieldReader, Report, key_of
from coterie.team.formats.at.tree import BlockNode, FieldNode, Raw, span_of
from coterie.team.formats.at.values import text_of
from coterie.team.topology.patterns.model import Pattern, Slot
from coterie.team.topology.patterns.names import words

_FIELDS = ("type", "config", "slots")
_SLOT = ("agent", "capabilities", "calls", "cost")


def read_pattern(block: BlockNode, report: Report) -> tuple[Pattern, Mapping[str, Any]]:
    """The pattern, and the unknown fields of the block, which are reported and kept."""
    key = block.head[0].span
    fields = FieldReader(block.items, "'pattern'", report)
    if "type" not in fields:
        hint = f"write type: debate, or another of {', '.join(words())}"
        report(error("unknown-type", "the pattern has no type", key, hint))
    kind = fields.text("type")
    config = fields.block("config", "config { max_rounds: 2 }") or FieldReader([], "", report)
    named = fields.block("slots", "slots { proponent: AGENT }")
    slots = tuple(_slots(named, report)) if named is not None else ()
    spans = dict(fields.spans)
    spans |= {f"slots.{slot.name}": slot.span for slot in slots if slot.span is not None}
    written: dict[str, Any] = {}
    for name, item in list(config.items()):
        setting = name.replace("-", "_")
        written[setting] = UNREADABLE if isinstance(item, Raw) else config.plain(name)
        spans[f"config.{setting}"] = _place(item)
    rest = fields.kept((), _FIELDS)
    return Pattern(type=kind, config=written, slots=slots, span=key, spans=spans), rest


def _slots(named: FieldReader, report: Report) -> Iterator[Slot]:
    for name, item in named.items():
        key = key_of(item).span
        if isinstance(item, BlockNode):
            fields = FieldReader(item.items, f"slot {name!r}", report)
            yield Slot(
                name=name,
                node=fields.word("agent") or name,
                capabilities=fields.words("capabilities") or (),
                calls=fields.count("calls"),
                cost=fields.number("cost"),
                span=fields.spans.get("agent") or key,
            )
            fields.kept((), _SLOT)
        elif isinstance(item, FieldNode) and item.value is not None:
            yield Slot(name=name, node=text_of(item.value), span=span_of(item.value))
        else:
            report(error("bad-value", f"slot {name!r} has no agent", key, f"write {name}: AGENT"))


def _place(item: FieldNode | Raw | BlockNode) -> Span:
    return span_of(item.value) if isinstance(item, FieldNode) and item.value is not None else key_of(item).span
