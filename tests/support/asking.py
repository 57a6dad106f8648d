"""Ask a backend one question, and keep what it said."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.agents.backends.attempt_timeout import SLICE
from coterie.agents.backends.base import Backend, Event, Request, Result, Session
from coterie.team.planning.plan import AgentPlan

RUN = f"run-{os.getpid()}"
"""Each test process has its own: attempts are ended by a marker that begins with the run."""


def agent(name: str = "a", **values: Any) -> AgentPlan:
    """An agent of a plan, asked by a command."""
    return AgentPlan(name=name, **{"backend": "command", **values})


def python(program: str, **values: Any) -> AgentPlan:
    """An agent that is a Python program."""
    return agent(argv=(sys.executable, "-c", program), **values)


def request(agent: AgentPlan, **values: Any) -> Request:
    """The first attempt of the first turn of *agent*."""
    return Request(**{"run": RUN, "turn": f"{agent.name}#1", "attempt": 1, "prompt": "", "agent": agent, **values})


class Heard(list[Event]):
    """The events of one attempt, and how to wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.append(event)
        self._changed.set()

    async def until(self, holds: Callable[["Heard"], bool]) -> None:
        """Wait until *holds* is true of what was heard."""
        while not holds(self):
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 300)

    def said(self, channel: str = "answer") -> str:
        """All that was said on *channel*."""
        return "".join(event.text for event in self if getattr(event, "channel", None) == channel)


async def asked(backend: Backend, asking: Request) -> tuple[Result, Heard]:
    """Ask *backend* and wait for its result."""
    heard = Heard()
    session = await backend.start(asking, heard)
    return await asyncio.wait_for(session.result(), 300), heard


async def asked_alone(backend: Backend, asking: Request) -> tuple[Result, Heard]:
    """The same, closing *backend* when it has answered."""
    try:
        return await asked(backend, asking)
    finally:
        await backend.close()


def ask(backend: Backend, agent: AgentPlan, **values: Any) -> tuple[Result, Heard]:
    """Ask *backend* on a loop of its own, and close it."""
    return asyncio.run(asked_alone(backend, request(agent, **values)))


async def started(backend: Backend, agent: AgentPlan, **values: Any) -> tuple[Session, Heard]:
    """Start an attempt and return while it is under way."""
    heard = Heard()
    return await backend.start(request(agent, **values), heard), heard


async def timed_out(
    backend: Backend, agent: AgentPlan, holds: Callable[[Heard], bool], **values: Any
) -> tuple[Result, Heard]:
    """Ask *backend*, let the time-out of *agent* pass once *holds* is true of what was heard, and close it."""
    try:
        session, heard = await started(backend, agent, **values)
        await heard.until(holds)
        await pass_time(agent.timeout or 0.0)
        return await session.result(), heard
    finally:
        await backend.close()


async def pass_time(seconds: float) -> None:
    """Let *seconds* pass at once for what waits on the running loop, as if this process had run meanwhile."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    time = loop.time
    loop.time = lambda: time() + ahead  # type: ignore[method-assign]
    while ahead < seconds:
        ahead = min(ahead + SLICE, seconds)
        for _ in range(2):  # the timers that are due run after this task
            await asyncio.sleep(0)


def pids(folder: Path) -> list[int]:
    """The processes that wrote their pid into *folder*, in the order of their names."""
    return [int(path.read_text()) for path in sorted(folder.glob("pid-*"))]
