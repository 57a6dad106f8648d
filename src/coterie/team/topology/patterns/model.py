"""A pattern as declared in a file or program: type, configuration as written, and slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.base.diagnostics import Located, Span


class Slot(Located, frozen=True, kw_only=True):
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
    span: Span | None = None


class Pattern(Located, frozen=True, kw_only=True):
    """A pattern as declared.

    Attributes:
        type: `debate`, `chain`, …, as `coterie.team.topology.patterns.kinds` names them;or `module:function`, custom.
        config: As written, by field.
        slots: In declaration order.
        max_turns: The maximum number of turns of a program; None: it is no program.
        spans: Spans of its parts: `type`, `config`, `config.max_rounds`, `slots`.
    """

    type: str
    config: Mapping[str, Any] = {}
    slots: tuple[Slot, ...] = ()
    max_turns: int | None = None
    span: Span | None = None
    spans: Mapping[str, Span] = {}
