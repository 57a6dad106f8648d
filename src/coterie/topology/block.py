"""What a file says beside its nodes and its flow: blocks of fields, as plain data with their places.

Which blocks there are, which fields each has, and which of them have an effect: `coterie.formats.at.language`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a file.

    Attributes:
        kind: Its keyword, `store`.
        name: Empty for a block that has none.
        fields: The values that differ from the default, by the field's name in the file, in the order of the notation.
            A block within is a `Block`; durations are in seconds.
        entries: The blocks with names of their own: the stores of `memory`.
        kept: Fields that the notation does not know, by name.
        span: Where its keyword stands; of an entry, its name.
        spans: Where the value of each field stands; of a list of names, also where each stands, as `FIELD.NAME`.
    """

    kind: str
    name: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Block, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def get(self, name: str, default: Any = "") -> Any:
        """The value of the field *name*; *default* where the block says nothing of it."""
        return self.fields.get(name, default)

    def of(self, kind: str) -> tuple[Block, ...]:
        """The entries of one *kind*."""
        return tuple(entry for entry in self.entries if entry.kind == kind)

    def place(self, name: str, item: str = "") -> Span | None:
        """Where the field *name* stands, of a list the one *item*; else the block."""
        return self.spans.get(f"{name}.{item}") or self.spans.get(name) or self.span


NOTHING = Block(kind="")
"""A block that says nothing, in the place of one that the file does not have."""
