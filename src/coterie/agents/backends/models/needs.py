"""Check that models can be called: the library is installed, and there is a key for each provider."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from coterie.base.diagnostics import Diagnostic, error
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.providers import Chosen, Unclear, choose_provider

NO_KEY = "no-key-wanted"
"""The key for a server that needs none."""


def missing(
    agents: Iterable[tuple[str, AgentPlan]], environment: Mapping[str, str], *, offline: bool
) -> list[Diagnostic]:
    """An error for each requirement that *agents*, (name, plan) on the backend `model`, lack.

    Args:
        offline: Whether all answers come from a cassette, so that no keys are needed.
    """
    agents = list(agents)
    live = [name for name, agent in agents if not offline or needs_library(agent)]
    if live and find_spec("pydantic_ai") is None:
        message = "the library that calls models is not installed"
        message += f", which the tools of {', '.join(live)} need" if offline else ""
        return [error("no-models", message, hint="pip install 'coterie[models]'")]
    wanting: dict[str, list[str]] = {}
    for name, agent in agents:
        if not offline and (variable := variable_of(agent)) and not environment.get(variable):
            wanting.setdefault(variable, []).append(name)
    return [
        error(
            "no-api-key",
            f"the environment variable {variable} is not set, but {', '.join(names)} cannot run without it",
            hint=f"export {variable}=…, name another in the file (.at: api-key, YAML: api_key), "
            "or try it without a model: --rehearse",
        )
        for variable, names in wanting.items()
    ]


def needs_library(agent: AgentPlan) -> bool:
    """Whether *agent* has tools that need the library, even if its answers come from a cassette."""
    return any(agent.options.get(name) for name in ("built_in_tools", "mcp_servers"))


def variable_of(agent: AgentPlan) -> str:
    """The environment variable with the key for the model of *agent*; empty if none is needed, or unknown."""
    chosen = chosen_of(agent)
    return "" if isinstance(chosen, Unclear) else chosen.variable


def chosen_of(agent: AgentPlan) -> Chosen | Unclear:
    """The provider and the model of *agent*."""
    return choose_provider(agent.model, agent.options)


def key_of(chosen: Chosen, environment: Mapping[str, str]) -> str | None:
    """The key for *chosen*; None if it is missing."""
    return environment.get(chosen.variable) or None if chosen.variable else NO_KEY


def address_of(chosen: Chosen, environment: Mapping[str, str]) -> str:
    """The address for *chosen*: from the file, else the environment; empty for the provider's default."""
    return chosen.base_url or environment.get(f"{chosen.api.upper()}_BASE_URL", "")
