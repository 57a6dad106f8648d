"""Keep states in the memory of this process."""

from collections.abc import Mapping
from typing import Any

from coterie.agents.actors.plugins.configured import Configured
from coterie.agents.actors.state.plain import decode, encode


class InMemoryStateStore(Configured):
    """Keeps states until the process ends: they survive the restart of an agent, but not that of the system.

    It accepts and refuses the same states as a store on disk, and its methods never suspend the caller.
    """

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}

    async def get(self, agent_name: str) -> dict[str, Any] | None:
        """The state of an agent, a copy; None if nothing is stored."""
        data = self._states.get(agent_name)
        return None if data is None else decode(data)

    async def set(self, agent_name: str, state: Mapping[str, Any]) -> None:
        """Store a copy of the state of an agent.

        Raises:
            StateRefused: If the state is not plain data.
        """
        self._states[agent_name] = encode(agent_name, state)

    async def delete(self, agent_name: str) -> None:
        """Remove the state of an agent; without one, do nothing."""
        self._states.pop(agent_name, None)

    async def list_agents(self) -> list[str]:
        """The names of the agents that have a state, sorted."""
        return sorted(self._states)

    async def close(self) -> None:
        """Do nothing: the states stay for the next system that uses this store."""
