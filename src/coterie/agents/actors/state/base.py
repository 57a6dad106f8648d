"""The protocol of a state store."""

from collections.abc import Mapping
from typing import Any, Protocol


class StateStore(Protocol):
    """Stores the state of each agent under the agent's name.

    A state is plain data as defined by `coterie.agents.actors.state.plain`. `set` replaces the whole state or, if it
    fails, nothing. After it returns, the state survives the end of the process, unless the store documents otherwise.
    """

    async def get(self, agent_name: str) -> dict[str, Any] | None:
        """The state of an agent, which the caller may change; None if nothing is stored.

        Raises:
            StateFailed: If the store or the state cannot be read.
        """

    async def set(self, agent_name: str, state: Mapping[str, Any]) -> None:
        """Store the state of an agent; on failure nothing of it is stored.

        Raises:
            StateFailed: If the store cannot be written.
            StateRefused: If the state is not plain data.
        """

    async def delete(self, agent_name: str) -> None:
        """Remove the state of an agent; without one, do nothing."""

    async def list_agents(self) -> list[str]:
        """The names of the agents that have a state, sorted."""

    async def close(self) -> None:
        """Release connections and files. Idempotent."""
