"""Set up the backends of a run in this process, and check before the run that every agent can be called."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from coterie.agents.backends.base import Backend, Request
from coterie.agents.backends.needs import missing as missing_of_coding
from coterie.agents.backends.needs import sandbox_of
from coterie.base.diagnostics import Diagnostic, error
from coterie.base.waits import waiting
from coterie.errors import TopologyError
from coterie.execution.kinds import kind_of
from coterie.execution.runs.local_turns import LocalTurns
from coterie.team.options.agents import REQUIRED
from coterie.team.options.backends import CODING, REGISTRY
from coterie.team.planning.plan import AgentPlan, Plan

if TYPE_CHECKING:
    from coterie.agents.backends.models.cassette import Cassette

AskHuman = Callable[[Request], Awaitable[str]]

REHEARSE = "--rehearse      simulates all agents, at no cost"
CHOICES = (
    "-b claude-sdk   needs the extra `claude` and a login of Claude Code",
    "-b model        needs the extra `models` and a key",
    REHEARSE,
)
"""Backends that most teams can use; `coterie run` says what each of them lacks on this machine."""


def ready_turns(plan: Plan, human: AskHuman | None = None, cassette: "Cassette | None" = None) -> LocalTurns:
    """Set up and check the backends of all agents of *plan*; libraries of models begin to load.

    Args:
        cassette: Replaces the providers of models; by default the cassette that the environment names.

    Raises:
        TopologyError: If an agent has no backend, or its model cannot be called.
        UsageError: If the cassette that the environment names cannot be read.
    """
    models = [agent for _, agent in agents_of(plan) if agent.backend == "model"]
    if not models:
        check_ready(plan, is_offline=False)
        return local_turns(human)
    from coterie.agents.backends.models.backend import ModelBackend

    backend = ModelBackend(cassette)
    check_ready(plan, is_offline=backend.offline)
    backend.prepare(models)
    return local_turns(human, backend)


def check_ready(plan: Plan, *, is_offline: bool) -> None:
    """Check that the backends of all agents of *plan* can be called here.

    Args:
        is_offline: Whether all models answer from a cassette.

    Raises:
        TopologyError: If an agent has no backend, or lacks a library, a program or a key.
    """
    agents = check_backends(plan)
    lacks = missing_of_coding(agents)
    if not lacks and any(agent.backend == "actor" for _, agent in agents):
        from coterie.agents.actors.turns import missing as missing_of_actors

        lacks = list(missing_of_actors(plan))
    if not lacks and (models := [(name, agent) for name, agent in agents if agent.backend == "model"]):
        from coterie.agents.backends.models.needs import missing

        lacks = missing(models, os.environ, offline=is_offline)
    if lacks:
        raise TopologyError(lacks)


async def unconfined(plan: Plan) -> tuple[str, ...]:
    """Warnings about agents of *plan* that run without a sandbox because none works here.

    Sandboxes are tried once per process, in a thread.

    Raises:
        TopologyError: If an agent requires a sandbox and none works.
    """
    agents = [(name, wanted) for name, agent in agents_of(plan) if (wanted := sandbox_of(agent)) != "off"]
    if not agents:
        return ()
    from coterie.agents.backends.sandbox.choice import absence, remedy

    with waiting("a sandbox to be tried"):
        why = await asyncio.to_thread(absence)
    if not why:
        return ()
    if required := [name for name, wanted in agents if wanted in REQUIRED]:
        message = f"no sandbox works here, and {', '.join(required)} may not run without one: {why}"
        raise TopologyError([error("no-sandbox", message, hint=f"{remedy()}, or write sandbox: auto")])
    names = ", ".join(name for name, _ in agents)
    return (f"NO SANDBOX works here: {names} can read and write whatever you can ({why})",)


def local_turns(human: AskHuman | None = None, model: Backend | None = None) -> LocalTurns:
    """The backends of this process, created on first use; *model* replaces the backend for models."""
    from coterie.agents.backends.human import HumanBackend

    makers: dict[str, Callable[[], Backend]] = {name: entry.make for name, entry in REGISTRY.items()}
    makers["human"] = partial(HumanBackend, human)
    return LocalTurns({} if model is None else {"model": model}, makers=makers)


def check_backends(plan: Plan) -> list[tuple[str, AgentPlan]]:
    """List the agents that a run of *plan* may call, by name.

    Raises:
        TopologyError: If one has no backend.
    """
    agents = list(agents_of(plan))
    if names := [name for name, agent in agents if not agent.backend]:
        raise TopologyError([no_backend(names, CHOICES)])
    return agents


def no_backend(names: Iterable[str], choices: Iterable[str]) -> Diagnostic:
    """The error that the agents *names* have no backend; *choices* are options of the command line that set one."""
    hint = "\n    ".join(
        ("choose a backend, or write one into the file, extensions { coterie { backend: … } }:", *choices)
    )
    return error("no-backend", f"no backend configured for {', '.join(names)}", hint=hint)


def spends(plan: Plan, *, is_recorded: bool) -> bool:
    """Whether a run of *plan* may cost money: it has coding agents, or models whose answers are not all recorded."""
    return any(one.backend in CODING or (one.backend == "model" and not is_recorded) for _, one in agents_of(plan))


def agents_of(plan: Plan, path: str = "") -> Iterator[tuple[str, AgentPlan]]:
    """The agents that a run may call, and their fallbacks; agents of a child topology are named `node/agent`."""
    names = dict.fromkeys(kind_of(plan).asked())
    for name in list(names):
        while (agent := plan.agents.get(name)) is not None and agent.fallback and agent.fallback not in names:
            names[name := agent.fallback] = None
    for name in names:
        if (agent := plan.agents.get(name)) is None:
            continue
        if agent.child is not None:
            yield from agents_of(agent.child, f"{path}{name}/")
        else:
            yield path + name, agent
