"""What a run needs to know of a pattern: its type, its whole configuration, and its slots in order."""

from typing import Any

from msgspec import Struct

from coterie.planning.coordination import Coordination


class SlotPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slot; who fills it is the agent of that name in the plan.

    Attributes:
        capabilities: What it can do, for delegation.
        calls: How many turns it may have; None is without limit.
        cost: US dollars that its turns may cost; checked before each.
    """

    name: str
    capabilities: tuple[str, ...] = ()
    calls: int | None = None
    cost: float | None = None


class PatternPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="pattern"):
    """The pattern to play.

    Attributes:
        type: The stored name of a kind, or `module:function` for a user's own.
        config: Every field of its configuration, defaults filled in.
        slots: In the order declared.
    """

    type: str
    config: dict[str, Any] = {}
    slots: tuple[SlotPlan, ...] = ()
