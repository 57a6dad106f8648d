"""Save and restore the state of actors, with any store."""

from collections.abc import Mapping
from typing import Any

from coterie.actors.state.base import StateStore
from coterie.actors.state.plain import decode, encode
from coterie.errors import CoterieError, StateFailed


async def save(store: StateStore, agent_name: str, state: Mapping[str, Any]) -> None:
    """Store *state*, which the agent may change as soon as this returns.

    Raises:
        StateRefused: If it is not plain data.
        StateFailed: If *store* fails.
    """
    copy = decode(encode(agent_name, state))  # a store of a user need neither check nor copy it
    try:
        await store.set(agent_name, copy)
    except CoterieError:
        raise
    except Exception as error:  # a store of a user may fail in any way
        raise StateFailed(type(store).__name__, f"{type(error).__name__}: {error}") from error


async def restore(store: StateStore, agent_name: str) -> dict[str, Any]:
    """The state that an agent stored last; empty if it never did.

    Raises:
        StateFailed: If *store* fails.
    """
    try:
        state = await store.get(agent_name)
    except CoterieError:
        raise
    except Exception as error:  # a store of a user may fail in any way
        raise StateFailed(type(store).__name__, f"{type(error).__name__}: {error}") from error
    return dict(state or {})
