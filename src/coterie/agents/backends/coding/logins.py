"""Whether the program of a coding agent is logged in, as far as this is known without calling a model.

The names and ages of its credentials are read, never their contents.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from coterie.base import files
from coterie.history.views.words import plural
from coterie.team.options.states import AgentState

_DAY = 86_400


def login_of(states: Sequence[AgentState], keys: Iterable[str] = (), said: bool | None = None) -> str:
    """Describe the login of an agent, whose credentials are in *states* or replaced by *keys*.

    Args:
        said: The login that its program reports, if it does.
    """
    if said is not None:
        return "logged in" if said else "not logged in"
    if signs := [*(f"{name} is set" for name in keys if os.environ.get(name)), *_credentials(states)]:
        return f"login not known, but {' and '.join(signs)}"
    where = ", ".join(str(_folder(one)) for one in states if one.login)
    return f"login not known: no credentials in {where}" if where else "login not known"


def has_login(states: Sequence[AgentState], keys: Iterable[str] = ()) -> bool:
    """Whether there is any sign of a login."""
    return any(map(os.environ.get, keys)) or any(True for _ in _credentials(states))


def _credentials(states: Sequence[AgentState]) -> Iterator[str]:
    for one in states:
        for name in one.login.split():
            path = _folder(one) / name
            with suppress(OSError):
                days = int(max(time.time() - path.stat().st_mtime, 0) / _DAY)
                yield f"{path} is {plural(days, 'day') if days else 'less than a day'} old"


def _folder(state: AgentState) -> Path:
    moved = os.environ.get(state.variable, "") if state.variable else ""
    return Path(moved) if moved else files.user_home() / state.folder
