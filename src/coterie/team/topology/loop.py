"""A loop as described by its folder: roles, the events that they may emit, and the roles to which events lead.

Frozen values that mirror the files; `coterie.team.planning` applies settings and precedence.
"""

from collections.abc import Mapping
from typing import Any

from coterie.base.diagnostics import Located, Span


class Role(Located, frozen=True, kw_only=True):
    """One role of a loop.

    Attributes:
        emits: The events it may emit; an entry written `/…/` is a regular expression.
        prompt: Inline prompt; takes precedence over *prompt_file*.
        prompt_file: Path of its prompt, relative to the loop's folder.
        backend: The `backend_*` fields that are set, without the prefix; times in seconds.
        topology: Path of the team that plays the role, relative to the loop's folder; empty for an agent.
        events: Events that the team emits when it ends, each with its condition on the team's outputs, as written;
            an empty condition always holds.
        kept: Fields that have no effect.
        spans: Span of each field, by name.
    """

    id: str
    emits: tuple[str, ...] = ()
    prompt: str = ""
    prompt_file: str = ""
    backend: Mapping[str, Any] = {}
    topology: str = ""
    events: Mapping[str, str] = {}
    kept: Mapping[str, Any] = {}
    span: Span | None = None
    spans: Mapping[str, Span] = {}


class Handoff(Located, frozen=True, kw_only=True):
    """Which roles an event leads to.

    Attributes:
        event: The event, or `/…/`: a regular expression that must match all of it.
        targets: The ids of roles, in the order written.
    """

    event: str
    targets: tuple[str, ...] = ()
    span: Span | None = None


class Loop(Located, frozen=True, kw_only=True):
    """A loop: events route work from role to role until one of them completes it.

    Attributes:
        completion: The event that completes it; empty: taken from the settings.
        agents: Contents of `agents.toml` as plain values: `defaults` and `preset`.
    """

    completion: str = ""
    roles: tuple[Role, ...] = ()
    handoff: tuple[Handoff, ...] = ()
    agents: Mapping[str, Any] = {}
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    def agent_of(self, preset: str, role: str) -> str:
        """The agent that `agents.toml` names for *role*, for *preset*, or by default, in that order; else empty."""
        table = self.agents.get("preset", {}).get(preset, {})
        found = (table.get(role), table.get("default"), self.agents.get("defaults", {}).get("agent"))
        return next((one for one in found if isinstance(one, str) and one), "")
