"""What the agents of a plan need: a sandbox, the folders of their state, libraries and programs."""

import shutil
from collections.abc import Callable, Iterable

from coterie.diagnostics import Diagnostic, error
from coterie.options.backends import CODING, states_in
from coterie.options.states import AgentState
from coterie.planning.plan import AgentPlan

Which = Callable[[str], str | None]
"""Finds a program, as `shutil.which`."""


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
        own = backend.program if backend.is_bundled else ""
        program = agent.argv[0] if agent.argv else own
        if not backend.is_installed:
            what = f"the library {backend.library} of the backend {agent.backend} is not installed"
            hint = f"pip install 'coterie[{backend.extra}]'"
            of_all = all(other.backend == agent.backend and "/" not in path for path, other in agents)
            if of_all and own and which(own):  # a role's own backend comes before -b
                hint += f", or use -b command, which runs `{own}` as a program"
            named.setdefault(("no-library", what, hint), []).append(name)
        elif not (program and program == own) and "{" not in program and not which(program):
            what = f"the program {program!r} of the backend {agent.backend} was not found"
            named.setdefault(("no-program", what, f"{backend.install}, or write its path"), []).append(name)
    return [
        error(code, f"{what}; {', '.join(names)} would use it", hint=f"{hint}, or try it without a backend: --rehearse")
        for (code, what, hint), names in named.items()
    ]
