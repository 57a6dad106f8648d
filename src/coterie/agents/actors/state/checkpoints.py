"""Save and restore the state of actors, with any store."""

from collections.abc import Mapping
from typing import Any

from coterie.agents.actors.state.base import StateStore
from coterie.agents.actors.state.plain import decode, encode
from coterie.base.user_code import contained
from coterie.errors import CoterieError, StateFailed


async def save(store: StateStore, agent_name: str, state: Mapping[str, Any]) -> None:
    """Store *state*; the agent may change it as soon as this returns.

    Raises:
        StateRefused: If it is not plain data.
        StateFailed: If *store* fails.
    """
    copy = decode(encode(agent_name, state))  # a user's store need neither check nor copy it
    try:
        with contained():
            await store.set(agent_name, copy)
    except CoterieError:
        raise
    except Exception as error:  # a user's store may fail in any way
        raise StateFailed(type(store).__name__, f"{type(error).__name__}: {error}") from error


async def restore(store: StateStore, agent_name: str) -> dict[str, Any]:
    """The last stored state of an agent; empty if there is none.

    Raises:
        StateFailed: If *store* fails.
    """
    try:
        with contained():
            state = await store.get(agent_name)
    except CoterieError:
        raise
    except Exception as error:  # a user's store may fail in any way
        raise StateFailed(type(store).__name__, f"{type(error).__name__}: {error}") from error
    return dict(state or {})
