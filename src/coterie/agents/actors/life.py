"""The lifecycle of an agent: its phases, its health, and how its code is started and cancelled."""

import asyncio
from enum import Enum
from typing import Any

from msgspec import Struct

from coterie.agents.actors.process import AgentProcess, check_made
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.base.user_code import LAST_CHANCE


class LifePhase(Enum):
    """The phases in the life of an agent."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DOWN = "restarting"
    STOPPED = "stopped"


RUNNING = LifePhase.RUNNING


class AgentHealth(Struct, frozen=True, kw_only=True):
    """The health of an agent, as plain data.

    Attributes:
        phase: `starting`, `running`, `stopping`, `restarting` (it has ended, and its supervisor decides) or `stopped`.
        queued: Messages in the mailbox or waiting for room in it.
        handled: Messages handled by all incarnations.
        restarts: How often it was restarted.
        crashes: How often it crashed.
        in_hand: The id of the current message.
        last_message: When the message that it handled last was sent, in Unix seconds; 0: never.
    """

    name: str
    type: str
    phase: str
    queued: int
    handled: int
    restarts: int
    crashes: int = 0
    in_hand: str = ""
    last_message: float = 0.0


def new_agent(spec: ChildSpec) -> AgentProcess:
    """Make a new instance of the agent that *spec* describes.

    Raises:
        TypeError: If its class is not an agent class, or does not call the constructor of `AgentProcess`.
    """
    assert spec.factory is not None
    agent = spec.factory()
    if not isinstance(agent, AgentProcess):
        raise TypeError(f"the class of agent {spec.name!r} is not an AgentProcess: {type(agent).__name__}")
    check_made(agent)
    agent.name = spec.name
    return agent


def overrides(agent: AgentProcess, hook: str) -> bool:
    """Whether the class of *agent* has its own *hook*."""
    return getattr(type(agent), hook) is not getattr(AgentProcess, hook)


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, and wait a moment until it has ended."""
    if task.cancel():
        await asyncio.wait({task}, timeout=LAST_CHANCE)


def uncancel() -> None:
    """Take back every cancellation of this task."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
