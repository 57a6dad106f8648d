"""What every block of a file has in common once it is a value."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from coterie.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a file, as a value: what it says, and where.

    Attributes:
        kept: Fields that the notation does not know, by name, as plain values.
        span: Where its keyword stands; of an entry, its name.
        spans: Where the value of each field stands, by the field's name in the file; of a list of names, also where
            each stands, as `FIELD.NAME`.
    """

    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def place(self, name: str, item: str = "") -> Span | None:
        """Where the field *name* stands, of a list the one *item*; else the block."""
        return self.spans.get(f"{name}.{item}") or self.spans.get(name) or self.span


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Block):
    """A block with a name of its own: `store notes { … }`."""

    name: str


_NOT_SAID = frozenset({"name", "kept", "span", "spans"})


def said(block: Block) -> list[str]:
    """The fields that *block* gives a value other than the usual one, as the file spells them; also what it keeps."""
    names = []
    for each in fields(block):
        if each.name in _NOT_SAID:
            continue
        usual = each.default_factory() if each.default_factory is not MISSING else each.default
        if getattr(block, each.name) != usual:
            names.append(each.name.replace("_", "-"))
    return [*names, *block.kept]
