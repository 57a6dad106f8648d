"""The backends of a run in this process, checked before it begins: every agent has one that can be called."""

import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from coterie.backends.base import Backend, Request
from coterie.diagnostics import error
from coterie.errors import TopologyError
from coterie.planning.plan import AgentPlan, Plan
from coterie.runs.driver.turns import LocalTurns
from coterie.runs.kinds import kind_of

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette

_HERE = frozenset({"command", "human", "model", "scripted"})

AskHuman = Callable[[Request], Awaitable[str]]


def ready_turns(plan: Plan, human: AskHuman | None = None, cassette: "Cassette | None" = None) -> LocalTurns:
    """The backends of this process, checked for all agents of *plan*; libraries of models begin to load.

    Args:
        cassette: Answers for the providers of models; by default the one that the environment names.

    Raises:
        TopologyError: If an agent has no backend, or its model cannot be called.
        UsageError: If the cassette that the environment names cannot be read.
    """
    agents = list(_asked(plan, ""))
    _refuse_silent([name for name, agent in agents if not agent.backend])
    _refuse_absent([(name, agent.backend) for name, agent in agents if agent.backend and agent.backend not in _HERE])
    models = [(name, agent) for name, agent in agents if agent.backend == "model"]
    if models:
        from coterie.backends.models.backend import ModelBackend
        from coterie.backends.models.needs import missing

        backend = ModelBackend(cassette)
        if lacks := missing(models, os.environ, offline=backend.offline):
            raise TopologyError(lacks)
        backend.prepare(agent for _, agent in models)
        return local_turns(human, backend)
    return local_turns(human)


def local_turns(human: AskHuman | None = None, model: Backend | None = None) -> LocalTurns:
    """The backends of this process, made when needed; *model* calls the providers of models, if the run has any."""
    from coterie.backends.command import CommandBackend
    from coterie.backends.human import HumanBackend
    from coterie.backends.scripted import ScriptedBackend

    makers: dict[str, Callable[[], Backend]] = {
        "command": CommandBackend,
        "human": partial(HumanBackend, human),
        "scripted": ScriptedBackend,
    }
    return LocalTurns({} if model is None else {"model": model}, makers=makers)


def _refuse_silent(names: list[str]) -> None:
    if names:
        message = f"no backend configured for {', '.join(names)}"
        hint = (
            "configure one in the file (.at: extensions { coterie { command: […] } }, for an agent or for all; "
            "YAML: command: […], or a model and its provider), choose a backend with --backend, "
            "or try it without a model: --rehearse"
        )
        raise TopologyError([error("no-backend", message, hint=hint)])


def _refuse_absent(agents: list[tuple[str, str]]) -> None:
    """Refuse backends that a loop may name and that are not implemented yet."""
    if agents:
        names = ", ".join(name for name, _ in agents)
        kinds = ", ".join(dict.fromkeys(kind for _, kind in agents))
        hint = "use -b COMMAND, or -b model with --set backend.model=…, or try it without a backend: --rehearse"
        message = f"backends of kind {kinds} are not supported yet; they are configured for {names}"
        raise TopologyError([error("absent-backend", message, hint=hint)])


def _asked(plan: Plan, path: str) -> Iterator[tuple[str, AgentPlan]]:
    """The agents that a run may call, and their fallbacks; those of a child topology as `node/agent`."""
    names = dict.fromkeys(kind_of(plan).asked())
    for name in list(names):
        while (agent := plan.agents.get(name)) is not None and agent.fallback and agent.fallback not in names:
            names[name := agent.fallback] = None
    for name in names:
        if (agent := plan.agents.get(name)) is None:
            continue
        if agent.child is not None:
            yield from _asked(agent.child, f"{path}{name}/")
        else:
            yield path + name, agent
