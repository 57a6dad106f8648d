"""Blocks of a file other than its nodes and its flow: fields as plain data, with their spans.

`coterie.team.formats.at.language` lists the blocks, their fields, and which of them have an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.base.diagnostics import Located, Span


class Block(Located, frozen=True, kw_only=True):
    """A block of a file.

    Attributes:
        kind: Its keyword, `store`.
        name: Empty for a block that has none.
        fields: The values that differ from the default, by the field's name in the file, in the order of the notation.
            A nested block is a `Block`; durations are in seconds.
        entries: Named blocks inside it, such as the stores of `memory`.
        kept: Unknown fields, by name.
        span: Span of its keyword; for an entry, of its name.
        spans: Span of each field's value; for a list of names also of each item, as `FIELD.NAME`.
    """

    kind: str
    name: str = ""
    fields: Mapping[str, Any] = {}
    entries: tuple[Block, ...] = ()
    kept: Mapping[str, Any] = {}
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    def get(self, name: str, default: Any = "") -> Any:
        """The value of the field *name*, or *default* if it is not set."""
        return self.fields.get(name, default)

    def of(self, kind: str) -> tuple[Block, ...]:
        """The entries of one *kind*."""
        return tuple(entry for entry in self.entries if entry.kind == kind)

    def place(self, name: str, item: str = "") -> Span | None:
        """The span of the field *name* (or of *item* in a list); if unknown, the block's."""
        return self.spans.get(f"{name}.{item}") or self.spans.get(name) or self.span


NOTHING = Block(kind="")
"""Empty block, for one that the file does not have."""
