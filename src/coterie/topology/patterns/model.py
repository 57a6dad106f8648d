"""A pattern as a file or a program says it: its type, its configuration as written, and who fills its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in a pattern, and who fills it.

    Attributes:
        node: The name of the node of the topology that fills it.
        capabilities: What it can do, for delegation.
        calls: How many turns it may have; None is without limit.
        cost: US dollars that its turns may cost; checked before each.
    """

    name: str
    node: str = ""
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A named collaboration.

    Attributes:
        type: `debate`, `chain`, …, as `coterie.topology.patterns.kinds` names them; or `module:function`, a user's own.
        config: As it is written, by field.
        slots: In the order declared.
        spans: Where its parts stand: `type`, `config`, `config.max_rounds`, `slots`.
    """

    type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
