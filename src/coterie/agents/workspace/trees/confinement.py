"""How the agents of a work tree are confined, and which of its files they may not change."""

import os
from collections.abc import Iterator

from coterie.agents.backends.needs import sandbox_of
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.team.options.agents import REQUIRED
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.team_files import team_files


def confines(agent: AgentPlan) -> bool:
    """Whether *agent* runs in a sandbox, or is a model without programs."""
    if agent.backend == "model":
        return "Bash" not in agent.options.get("built_in_tools", ()) and not agent.options.get("mcp_servers")
    from coterie.agents.backends.sandbox.choice import working  # it loads ctypes, and most runs save files without it

    return sandbox_of(agent) != "off" and working() is not None


def mounts(agent: AgentPlan) -> bool:
    """Whether the sandbox of *agent* shows it another `.git` than everybody else sees."""
    from coterie.agents.backends.sandbox.choice import working

    return sandbox_of(agent) != "off" and (one := working()) is not None and one.PROTECTS


def strictest_sandbox(plan: Plan) -> str:
    """The strictest sandbox that an agent of *plan* wants."""
    order = ("off", "auto", *REQUIRED)
    wanted = [sandbox_of(agent) for agent in _agents(plan) if agent.kind == "agent"]
    return max(wanted, key=order.index, default="off")


def guards_of(plan: Plan, tree: WorkTree) -> tuple[str, ...] | None:
    """The files of *plan* in *tree* that its confined agents may not change; None if none is confined."""
    agents = [agent for agent in _agents(plan) if agent.kind != "human"]
    if not any(agent.backend != "model" and confines(agent) for agent in agents):
        return None
    return files_below(plan, tree.origin)


def _agents(plan: Plan) -> Iterator[AgentPlan]:
    """The agents of *plan*, and those of its teams."""
    for agent in plan.agents.values():
        yield from (agent,) if agent.child is None else _agents(agent.child)


def files_below(plan: Plan, origin: str) -> tuple[str, ...]:
    """The files of *plan* in the folder *origin* that its agents may not change, relative to it."""
    reviews = isinstance(plan.coordination, LoopPlan) and plan.coordination.review is not None
    found = team_files(plan, os.environ, texts=not reviews)
    return tuple(path.relative_to(origin).as_posix() for path in found if path.is_relative_to(origin))
