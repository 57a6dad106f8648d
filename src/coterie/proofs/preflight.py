"""What a run may do, change and cost, collected before its first turn."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from coterie.backends.models.needs import chosen_of
from coterie.backends.needs import sandbox_of
from coterie.backends.sandbox import choice
from coterie.options.backends import CODING, REGISTRY
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import NO_LIMIT, AgentPlan, Limits, Plan
from coterie.planning.providers import Chosen
from coterie.proofs.dispatch import check
from coterie.runs.backend_setup import agents_of, spends
from coterie.waits import waiting
from coterie.workspace.trees.git import find

STATES = 2_000
"""The most states that are explored for the worst case, so that a run begins at once; beyond them it is a bound."""
NOTHING_DONE = ("human", "scripted")
"""Backends that neither cost money nor change files."""


class Preflight(Struct, frozen=True, kw_only=True):
    """What a run may do, change and cost.

    Attributes:
        backends: Agents by backend, which for a model has the model's name.
        spends: Whether its agents may cost money: models and coding agents.
        acts: Whether it may cost money or change files.
        sandbox: Agents by what confines their programs: `bwrap`, `landlock`, `off`, or `none` because none works here;
            on nodes `node`, what works there.
        permissions: Agents by what answers their permission requests: `granted`, `person`, `denied`; a model has none.
        tools: What models may call: built-in tools, Python functions and MCP servers.
        on_nodes: It works on the nodes of a cluster, with the files of *folder*.
        branch: The branch that is checked out in *folder*, where it works; empty: none, or no git work tree.
        uncommitted: Files there with uncommitted changes, new ones included; None: there is no commit, or no work tree.
        worktree: Whether it gets a separate git work tree: as its settings say, or None: if another run is live.
        turns: The most turns, and the most of each of *agents*; None: not known or unbounded.
        max_cost: The budget in US dollars; None: no limit.
        results: Where the run is kept.
    """

    team: str
    backends: dict[str, list[str]]
    spends: bool
    acts: bool
    sandbox: dict[str, list[str]]
    permissions: dict[str, list[str]]
    tools: list[str]
    folder: str
    on_nodes: bool = False
    branch: str = ""
    uncommitted: int | None = None
    worktree: bool | None = False
    turns: int | None = None
    agents: dict[str, int] = {}
    max_cost: float | None = None
    results: str = ""


def preflight(
    plan: Plan, limits: Limits, folder: Path | None, results: str, *, on_nodes: bool = False, is_recorded: bool = False
) -> Preflight:
    """Collect what a run of *plan* in *folder* may do under *limits*; no backend is called.

    Args:
        folder: Where it works; None: in a folder of its own, which is empty.
        on_nodes: The nodes of a cluster perform it, with the files of *folder*.
        is_recorded: All models answer from a cassette, and cost nothing.
    """
    agents = list(agents_of(plan))
    acting = [(name, agent) for name, agent in agents if agent.backend not in NOTHING_DONE]
    loop = plan.coordination if isinstance(plan.coordination, LoopPlan) else None
    with waiting("the proof of the worst case"):
        worst = check(plan, states=STATES).worst if acting else None
    turns, most = (worst.turns, worst.agents) if worst else (None, {})
    if limits.max_turns not in (None, NO_LIMIT) and (turns is None or limits.max_turns < turns):
        turns, most = limits.max_turns, {}
    costs = [limit for limit in (limits.max_cost, loop.max_cost if loop else 0.0) if limit and limit != NO_LIMIT]
    branch, uncommitted = _git(folder) if acting and folder is not None else ("", None)
    return Preflight(
        team=plan.name,
        backends=_grouped((_backend(agent), name) for name, agent in agents),
        spends=spends(plan, is_recorded=is_recorded),
        acts=bool(acting),
        sandbox=_grouped(
            (_sandbox(agent, on_nodes), name) for name, agent in acting if REGISTRY[agent.backend].uses_files
        ),
        permissions=_grouped((_permissions(agent), name) for name, agent in acting if agent.backend in CODING),
        tools=list(dict.fromkeys(tool for _, agent in acting for tool in _tools(agent))),
        folder="" if folder is None else str(folder.resolve()),
        on_nodes=on_nodes,
        branch=branch,
        uncommitted=uncommitted,
        worktree=loop.place.worktree if loop else False,
        turns=turns,
        agents=most,
        max_cost=min(costs, default=None),
        results=results,
    )


def _grouped(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, name in pairs:
        groups.setdefault(group, []).append(name)
    return groups


def _backend(agent: AgentPlan) -> str:
    chosen = chosen_of(agent) if agent.backend == "model" else None
    return f"model {chosen.model}" if isinstance(chosen, Chosen) else agent.backend


def _sandbox(agent: AgentPlan, on_nodes: bool) -> str:
    if sandbox_of(agent) == "off":
        return "off"
    if on_nodes:
        return "node"
    with waiting("a sandbox to be tried"):
        working = choice.working()
    return working.NAME if working else "none"


def _permissions(agent: AgentPlan) -> str:
    if agent.options.get("attention") == "ask":
        return "person"
    return "granted" if agent.options.get("trust_all_tools", True) else "denied"


def _tools(agent: AgentPlan) -> Iterator[str]:
    for kind in ("built_in_tools", "python_tools", "mcp_servers") if agent.backend == "model" else ():
        yield from agent.options.get(kind, ())


def _git(folder: Path) -> tuple[str, int | None]:
    """The branch in *folder*, and the number of its files with uncommitted changes; None without a commit."""
    repository = find(folder)
    if repository is None:
        return "", None
    changed = repository.call("status", "--porcelain", "--", ".").out.splitlines()
    return repository.branch(), len(changed) if repository.commit_of("HEAD") else None
