"""The requirements of a plan's agents: a sandbox, the folders of their state, libraries and programs."""

import os
import shutil
from collections.abc import Callable, Iterable

from coterie.base.diagnostics import Diagnostic, error
from coterie.team.options.agents import REQUIRED
from coterie.team.options.backends import CODING, states_in
from coterie.team.options.states import AgentState
from coterie.team.options.values import VARIABLE
from coterie.team.planning.plan import AgentPlan

Which = Callable[[str], str | None]
"""Finds a program, as `shutil.which`."""


def sandbox_of(agent: AgentPlan) -> str:
    """The sandbox setting of *agent*, one of `SANDBOXES`; by default `auto` for a coding agent."""
    return str(agent.options.get("sandbox") or ("auto" if agent.backend in CODING else "off"))


def guards_team(agent: AgentPlan) -> bool:
    """Whether an attempt of *agent* keeps its process or its tools from changing the files of the team."""
    return agent.backend == "model" or sandbox_of(agent) != "off"


def gate_sandbox(agents: Iterable[AgentPlan], wanted: str = "") -> str:
    """The sandbox of a gate that executes what *agents* wrote: as strict as theirs, if *wanted* does not say else."""
    if wanted == "off":
        return "off"
    found = {sandbox_of(agent) for agent in agents} - {"off"}
    if not found & {*REQUIRED} and wanted != "required":
        return "auto" if found else "off"
    return "no-network" if found == {"no-network"} else "required"


def states_of(agent: AgentPlan) -> tuple[AgentState, ...]:
    """The folders in which the program of *agent* keeps its state."""
    backend = CODING.get(agent.backend)
    named = (str(agent.options.get("provider", "")), *agent.argv[:2])
    return (backend.states if backend else ()) or tuple(states_in(named))


def missing(agents: Iterable[tuple[str, AgentPlan]], which: Which = shutil.which) -> list[Diagnostic]:
    """An error for each missing library or program of a backend of coding agents.

    A program with placeholders in its path is only known when it is started.
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


def variables_of(agent: AgentPlan) -> dict[str, str]:
    """The variables of *agent* in the file, with `${NAME}` replaced; an unset variable is empty."""
    given = {
        name: VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value) for name, value in agent.env_from.items()
    }
    return given | agent.env


def absent_programs(agents: Iterable[tuple[str, AgentPlan]]) -> tuple[str, ...]:
    """A warning for each program that one of *agents* runs as a command or a gate but that is not on its PATH.

    This is not an error, since an earlier agent may install the program. A program with a path may be in a folder that
    does not exist yet.
    """
    lacking: dict[str, dict[str, None]] = {}
    for name, agent in agents:
        commands = list(agent.gates)
        if agent.backend == "command":
            commands += agent.steps or (agent.argv,)
        path = variables_of(agent).get("PATH", os.environ.get("PATH", os.defpath))
        path = os.pathsep.join(os.path.join(agent.cwd, folder) for folder in path.split(os.pathsep))
        for program in [words[0] for words in commands if words]:
            if "/" not in program and "{" not in program and not shutil.which(program, path=path):
                lacking.setdefault(program, {})[name] = None
    return tuple(
        f"the program {program!r} is not on the PATH yet; {', '.join(names)} will need it"
        for program, names in lacking.items()
    )
