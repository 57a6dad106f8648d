"""The plan of a pattern: its type, full configuration, and slots in order."""

from typing import Any

from msgspec import Struct

from coterie.team.planning.coordination import Coordination


class SlotPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slot; the agent of the same name in the plan fills it.

    Attributes:
        capabilities: Its capabilities, for delegation.
        calls: Maximum number of turns; None: unlimited.
        cost: Budget of its turns in US dollars, checked before each.
    """

    name: str
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None


class PatternPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="pattern"):
    """The pattern to run.

    Attributes:
        type: The stored name of a built-in type, or `module:function` for a custom one.
        config: Every field of its configuration, defaults filled in.
        slots: In declaration order.
        max_turns: The maximum number of its turns, those of teams included; None: unlimited. Programs have one.
    """

    type: str
    config: dict[str, Any] = {}
    slots: tuple[SlotPlan, ...] = ()
    max_turns: int | None = None

    @property
    def reads_values(self) -> bool:
        """Whether it is a program, whose parameters are values."""
        return self.max_turns is not None
