"""Mapped agents that change files: their items must not disturb each other."""

from collections.abc import Iterator, Mapping

from coterie.base.diagnostics import Diagnostic, error
from coterie.team.options.backends import CODING
from coterie.team.planning.permissions import CHANGING
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.checks.facts import title
from coterie.team.topology.model import Topology


def share_files(topology: Topology, agents: Mapping[str, AgentPlan | None]) -> Iterator[Diagnostic]:
    """Yield an error for each mapped coding agent that can write while other items of its set run."""
    for one in topology.flow.each if topology.flow is not None else ():
        node, name, seen = topology.node(one.node), one.node, set[str]()
        while one.at_once != 1 and node is not None and name not in seen and (agent := agents.get(name)) is not None:
            if can_write(agent) and not agent.isolation:
                message = f"{title(node)} can change files, and several of its items would do that at once"
                where = "" if name == one.node else f" to its fallback {name!r}"
                hint = f"add isolation: worktree{where} for a work tree for each item, or write at-once 1"
                yield error("items-share-files", message, one.span, hint)
                break
            seen.add(name)
            name = agent.fallback if agent.on_fail == "fallback" else ""


def can_write(agent: AgentPlan) -> bool:
    """Whether *agent*, or one of its team, is a coding agent whose tools or permissions include writing."""
    if agent.child is not None:
        return any(map(can_write, agent.child.agents.values()))
    if agent.backend not in CODING or agent.options.get("permissions") == "plan":
        return False
    return agent.tools is None or not {"Bash", *CHANGING}.isdisjoint(agent.tools)
