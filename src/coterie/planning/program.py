"""What a run needs to know of a program that asks agents: a class of a user's, and the definitions it was made from."""

from typing import Any

from msgspec import Struct

from coterie.planning.coordination import Coordination


class AgentDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who fills a slot, as its user defines it.

    Attributes:
        config: With what is set differently for this slot.
    """

    name: str
    description: str = ""
    role: str = ""
    version: str = "1.0.0"
    config: dict[str, Any] = {}


class ProgramPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="program"):
    """A program that decides who is asked next: not an engine of ours, but code that runs beside the run.

    Attributes:
        program: The class whose code it is, `module:Class`.
        type: The stored name of its kind of pattern.
        name: The topology's; *description* and *version* as its user defines them.
        config: As it is written.
        slots: Who fills which, in order.
        correlation: What whoever started it calls it; empty: nothing.
    """

    program: str
    type: str
    name: str
    description: str = ""
    version: str = "1.0.0"
    config: dict[str, Any] = {}
    slots: dict[str, AgentDefinition] = {}
    correlation: str = ""
