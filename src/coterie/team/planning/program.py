"""The plan of a program that calls agents: a user's class and its agent definitions."""

from typing import Any

from msgspec import Struct

from coterie.team.planning.coordination import Coordination


class AgentDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent of a slot, as defined by the user.

    Attributes:
        config: Its configuration, with the overrides of this slot.
    """

    name: str
    description: str = ""
    role: str = ""
    version: str = "1.0.0"
    config: dict[str, Any] = {}


class ProgramPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="program"):
    """A program that decides which agent to call next: user code alongside the run instead of an engine.

    Attributes:
        program: The class with the code, `module:Class`.
        type: The stored name of its kind of pattern.
        name: The topology's name; *description* and *version* are the user's.
        config: As written.
        slots: The slots, in order.
        correlation: The caller's correlation id; empty: none.
    """

    program: str
    type: str
    name: str
    description: str = ""
    version: str = "1.0.0"
    config: dict[str, Any] = {}
    slots: dict[str, AgentDefinition] = {}
    correlation: str = ""
