"""A pattern as declared in a file or program: type, configuration as written, and slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot of a pattern, and the node that fills it.

    Attributes:
        node: The name of the node that fills it.
        capabilities: Its capabilities, for delegation.
        calls: Maximum number of turns; None: unlimited.
        cost: Budget of its turns in US dollars, checked before each.
    """

    name: str
    node: str = ""
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern as declared.

    Attributes:
        type: `debate`, `chain`, …, as `coterie.topology.patterns.kinds` names them;or `module:function`, custom.
        config: As written, by field.
        slots: In declaration order.
        spans: Spans of its parts: `type`, `config`, `config.max_rounds`, `slots`.
    """

    type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
