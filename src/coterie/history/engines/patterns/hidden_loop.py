"""Run code that must not use an event loop, while one runs: tasks, time-outs and sleeps of asyncio fail at once."""

import sys
from asyncio import AbstractEventLoop, events
from typing import Any, cast

from coterie.errors import UsageError

ONLY = (
    "a program awaits only agents, together(…) and first(…): put other work into a function that an agent calls, "
    "agent(FUNCTION)"
)
"""What to do instead."""


class _NoLoop:
    """In place of the event loop: each attribute raises."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        raise UsageError(f"{self._owner} used asyncio ({name}), which it cannot; {ONLY}")


class hidden_loop:
    """Within, code of *owner* runs in which no event loop can be used."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._loop, self._hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(cast(AbstractEventLoop, _NoLoop(self._owner)))
        sys.set_asyncgen_hooks(None, None)

    def __exit__(self, *raised: object) -> None:
        sys.set_asyncgen_hooks(*self._hooks)
        events._set_running_loop(self._loop)
