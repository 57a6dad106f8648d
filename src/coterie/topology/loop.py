"""A loop as its folder describes it: roles, the events they may emit, and which event leads to which role.

Like the rest of the model these are frozen values that say what the files say; what follows from settings and
precedence is decided in `coterie.planning`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role of a loop.

    Attributes:
        emits: The events it may emit; an entry written `/…/` is a regular expression.
        prompt: Its prompt, written in place; it wins over *prompt_file*.
        prompt_file: The path of its prompt, from the loop's folder.
        backend: The `backend_*` fields that are set, by the name behind the prefix; times in seconds.
        topology: The path of the team that answers, from the loop's folder; empty: an agent does.
        events: What that team emits when it ends: each event with the condition on the team's outputs, as written,
            under which it does; an empty one always holds.
        kept: Fields that were read and have no effect.
        spans: Where each field stands, by field name.
    """

    id: str
    emits: tuple[str, ...] = ()
    prompt: str = ""
    prompt_file: str = ""
    backend: Mapping[str, Any] = field(default_factory=dict)
    topology: str = ""
    events: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """Which roles an event leads to.

    Attributes:
        event: The event, or `/…/`: a regular expression that must match all of it.
        targets: The ids of roles, in the order written.
    """

    event: str
    targets: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A long run that events route from role to role, until one of them completes it.

    Attributes:
        completion: The event that completes it; empty: the settings say.
        agents: What `agents.toml` says, as plain values: `defaults` and `preset`.
    """

    completion: str = ""
    roles: tuple[Role, ...] = ()
    handoff: tuple[Handoff, ...] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def agent_of(self, preset: str, role: str) -> str:
        """Whom `agents.toml` names for *role* of *preset*: its own, the preset's, anybody's; empty if nobody."""
        table = self.agents.get("preset", {}).get(preset, {})
        found = (table.get(role), table.get("default"), self.agents.get("defaults", {}).get("agent"))
        return next((one for one in found if isinstance(one, str) and one), "")
