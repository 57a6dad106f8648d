"""Copy states from one store to another."""

from typing import Literal

from msgspec import Struct

from coterie.agents.actors.state.base import StateStore
from coterie.agents.actors.state.plain import encode


class StateCopy(Struct, frozen=True):
    """The effect of copying on the state of one agent.

    Attributes:
        size: The length of its JSON text in bytes.
        action: `copy`, `replace` if the target holds another state, or `keep` if it holds this one.
    """

    agent_name: str
    size: int
    action: Literal["copy", "replace", "keep"]


async def plan_copies(source: StateStore, target: StateStore | None) -> list[StateCopy]:
    """The effects of copying all states of *source* to *target*, or to an empty store if *target* is None."""
    copies: list[StateCopy] = []
    for name in await source.list_agents():
        state = await source.get(name)
        if state is None:  # deleted meanwhile
            continue
        there = await target.get(name) if target is not None else None
        action: Literal["copy", "replace", "keep"] = "copy" if there is None else "replace"
        copies.append(StateCopy(name, len(encode(name, state)), "keep" if there == state else action))
    return copies


async def copy(source: StateStore, target: StateStore, copies: list[StateCopy]) -> None:
    """Carry out *copies*. This can be repeated after an interruption."""
    for one in copies:
        state = await source.get(one.agent_name)
        if one.action != "keep" and state is not None:
            await target.set(one.agent_name, state)
