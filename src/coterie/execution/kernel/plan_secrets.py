"""Secret-looking values of `env` entries and settings: they are kept in a private file of the run, not in its journal.

In the recorded plan they are replaced by a reference, `***<agent>.<NAME>`, which is resolved when an attempt starts.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from coterie.agents.backends.secrets import HIDDEN, is_secret
from coterie.base import files
from coterie.errors import UsageError
from coterie.team.options.values import VARIABLE
from coterie.team.planning.plan import AgentPlan, Plan, environments

if TYPE_CHECKING:
    from coterie.team.planning.system import SystemPlan

FILE = "env.json"
_LARGEST = 1 << 24


def hold(plan: Plan, folder: Path, held: dict[str, str] | None = None) -> Plan:
    """Replace the secret values in *plan* with references and write the values to the folder of a run.

    Args:
        held: Values by reference from an earlier run.

    Raises:
        OSError: If they cannot be written.
    """
    known = read(folder)
    held = known | (held or {})
    plan = _referring(plan, "", held)
    if held != known:
        files.make_folder(folder)
        files.write(folder / FILE, msgspec.json.encode(held))
    return plan


def read(folder: Path) -> dict[str, str]:
    """Read the values by reference; empty if *folder* has none."""
    try:
        return msgspec.json.decode(files.read(folder / FILE, _LARGEST), type=dict[str, str])
    except (OSError, ValueError):
        return {}


def refuse_lost(plan: Plan, folder: Path) -> None:
    """Check that *folder* has every value that *plan* refers to.

    Raises:
        UsageError: If one is missing.
    """
    held = read(folder)
    for env in environments(plan):
        if lost := [name for name, value in env.items() if value.startswith(HIDDEN) and value not in held]:
            raise UsageError(f"{folder / FILE} has no value for {lost[0]}: resume with --reload FILE")


def referring(plan: Plan) -> Plan:
    """*plan* as `hold` returns it, without writing anything."""
    return _referring(plan, "", {})


def literal(plan: Plan) -> list[str]:
    """The places of secret values in *plan*, as `<agent>.<NAME>`, without those entirely from `${VARIABLES}`."""
    held: dict[str, str] = {}
    _referring(plan, "", held)
    written = {place.removeprefix(HIDDEN): VARIABLE.sub("", value) for place, value in held.items()}
    return [place for place, value in written.items() if is_secret(place.rpartition(".")[2], value)]


def filled(agent: AgentPlan, held: Mapping[str, str]) -> AgentPlan:
    """Replace the references in the variables of *agent* and of its MCP servers with their values."""
    return _mapped(agent, lambda owner, env: {name: held.get(value, value) for name, value in env.items()})


def filled_system(system: "SystemPlan", held: Mapping[str, str]) -> "SystemPlan":
    """Replace the references in the settings of the plugins and agents of *system* with their values."""
    return system.with_settings(lambda path, key, text: held.get(text, text))


def _referring_system(system: "SystemPlan", path: str, held: dict[str, str]) -> "SystemPlan":
    def referring(place: str, key: str, text: str) -> str:
        if key.endswith("_env") or not is_secret(key, text):
            return text
        reference = f"{HIDDEN}{path}@{place}"
        held[reference] = text
        return reference

    return system.with_settings(referring)


def _referring(plan: Plan, path: str, held: dict[str, str]) -> Plan:
    if plan.coordination is not None and plan.coordination.tag == "system":
        plan = replace(plan, coordination=_referring_system(plan.coordination, path, held))
    agents = {}
    for name, agent in plan.agents.items():

        def referring(owner: str, env: dict[str, str], agent: str = name) -> dict[str, str]:
            secret = {key: value for key, value in env.items() if is_secret(key, str(value))}
            references = {key: f"{HIDDEN}{path}{agent}{owner}.{key}" for key in secret}
            held.update({references[key]: value for key, value in secret.items()})
            return env | references

        agent = _mapped(agent, referring)
        child = _referring(agent.child, f"{path}{name}/", held) if agent.child is not None else None
        agents[name] = replace(agent, child=child) if child is not None else agent
    return replace(plan, agents=agents)


def _mapped(agent: AgentPlan, change: Callable[[str, dict[str, str]], dict[str, str]]) -> AgentPlan:
    """Apply *change* to the variables of *agent* and to those of each of its MCP servers.

    *change* is called with an owner, empty for the agent itself and `.SERVER` for a server, and its variables.
    """
    if agent.env:
        agent = replace(agent, env=change("", agent.env))
    servers = agent.options.get("mcp_servers", {})
    if any(server.get("env") for server in servers.values()):
        changed = {
            name: {**server, "env": change(f".{name}", server["env"])} if server.get("env") else server
            for name, server in servers.items()
        }
        agent = replace(agent, options={**agent.options, "mcp_servers": changed})
    return agent
