"""What each backend of coding agents needs: a library, an extra that installs it, the agent's program and its state."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from msgspec import Struct

from coterie.backends.base import Backend
from coterie.diagnostics import Diagnostic, error
from coterie.options.states import STATES, AgentState, states_in
from coterie.planning.plan import AgentPlan

Which = Callable[[str], str | None]
"""Finds a program, as `shutil.which`."""


class CodingBackend(Struct, frozen=True, kw_only=True):
    """A backend of coding agents.

    Attributes:
        path: Its class, as `module:class`; imported when an attempt needs it.
        library: The module that must be installed; empty: none.
        extra: The extra of coterie that installs it.
        own_program: The program that the library brings, so that it need not be on the PATH.
        install: How its program is installed.
        states: The folders of its agent's state; empty: those of the agent that its provider or its command names.
    """

    path: str
    library: str = ""
    extra: str = ""
    own_program: str = ""
    install: str = "install it"
    states: tuple[AgentState, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether its library is installed."""
        return not self.library or find_spec(self.library) is not None

    def make(self) -> Backend:
        """A new backend."""
        module, _, name = self.path.partition(":")
        return cast(Backend, getattr(import_module(module), name)())


CODING: Mapping[str, CodingBackend] = {
    "pi": CodingBackend(
        path="coterie.backends.coding.pi:PiBackend",
        install="npm install -g @earendil-works/pi-coding-agent",
        states=STATES["pi"],
    ),
    "acp": CodingBackend(path="coterie.backends.coding.acp:AcpBackend", library="acp", extra="acp"),
    "claude-sdk": CodingBackend(
        path="coterie.backends.coding.claude:ClaudeBackend",
        library="claude_agent_sdk",
        extra="claude",
        own_program="claude",
        states=STATES["claude"],
    ),
}
"""The backends of coding agents, by kind."""


def sandbox_of(agent: AgentPlan) -> str:
    """One of `SANDBOXES`: what *agent* wants; a coding agent `auto` unless it says otherwise."""
    return str(agent.options.get("sandbox") or ("auto" if agent.backend in CODING else "off"))


def states_of(agent: AgentPlan) -> tuple[AgentState, ...]:
    """The folders in which the program of *agent* keeps its state."""
    backend = CODING.get(agent.backend)
    named = (str(agent.options.get("provider", "")), *agent.argv[:2])
    return (backend.states if backend else ()) or tuple(states_in(named))


def missing(agents: Iterable[tuple[str, AgentPlan]], which: Which = shutil.which) -> list[Diagnostic]:
    """An error for each library and each program that a backend of coding agents needs and that is not there.

    A program with placeholders in its path is known only when it is started.
    """
    agents = list(agents)
    named: dict[tuple[str, str, str], list[str]] = {}
    for name, agent in agents:
        if (backend := CODING.get(agent.backend)) is None:
            continue
        program = agent.argv[0] if agent.argv else backend.own_program
        if not backend.is_installed:
            what = f"the library {backend.library} of the backend {agent.backend} is not installed"
            hint = f"pip install 'coterie[{backend.extra}]'"
            of_all = all(other.backend == agent.backend and "/" not in path for path, other in agents)
            if of_all and backend.own_program and which(backend.own_program):  # a role's own backend comes before -b
                hint += f", or use -b command, which runs `{backend.own_program}` as a program"
            named.setdefault(("no-library", what, hint), []).append(name)
        elif not (program and program == backend.own_program) and "{" not in program and not which(program):
            what = f"the program {program!r} of the backend {agent.backend} was not found"
            named.setdefault(("no-program", what, f"{backend.install}, or write its path"), []).append(name)
    return [
        error(code, f"{what}; {', '.join(names)} would use it", hint=f"{hint}, or try it without a backend: --rehearse")
        for (code, what, hint), names in named.items()
    ]
