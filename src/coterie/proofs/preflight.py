"""What a run may do, change and cost, collected before its first turn."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from coterie.backends.models.needs import chosen_of
from coterie.backends.needs import sandbox_of
from coterie.backends.sandbox import choice
from coterie.errors import GitFailed
from coterie.options.backends import CODING, REGISTRY
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import NO_LIMIT, AgentPlan, Limits, Plan
from coterie.planning.providers import Unclear
from coterie.proofs.dispatch import check
from coterie.runs.backend_setup import agents_of
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
        sandbox: Agents by what confines their programs: `bwrap`, `landlock`, `off`, or `none` because none works here.
        permissions: Agents by what answers their permission requests: `granted`, `person`, `denied`; a model has none.
        tools: What models may call: built-in tools, Python functions and MCP servers.
        folder: Where it works.
        branch: The branch that is checked out there; empty: none, or no git work tree.
        uncommitted: Files with uncommitted changes there, new ones included.
        worktree: Whether it gets a separate git work tree: as its settings say, or None: if another run is live.
        turns: The most turns; None: not known or unbounded.
        agents: The most turns of each agent.
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
    branch: str = ""
    uncommitted: int = 0
    has_commit: bool = False
    worktree: bool | None = False
    turns: int | None = None
    agents: dict[str, int] = {}
    max_cost: float | None = None
    results: str = ""


def preflight(plan: Plan, limits: Limits, folder: Path, state_dir: Path, *, is_recorded: bool = False) -> Preflight:
    """Collect what a run of *plan* in *folder* may do under *limits*; no backend is called.

    Args:
        is_recorded: All models answer from a cassette, and cost nothing.
    """
    agents = list(agents_of(plan))
    acting = [(name, agent) for name, agent in agents if agent.backend not in NOTHING_DONE]
    loop = plan.coordination if isinstance(plan.coordination, LoopPlan) else None
    with waiting("the proof of the worst case"):
        worst = check(plan, states=STATES).worst if acting else None
    turns = worst.turns if worst else None
    if limits.max_turns not in (None, NO_LIMIT) and (turns is None or limits.max_turns < turns):
        turns, worst = limits.max_turns, None
    costs = [limit for limit in (limits.max_cost, loop.max_cost if loop else 0.0) if limit and limit != NO_LIMIT]
    branch, uncommitted, has_commit = _git(folder) if acting else ("", 0, False)
    return Preflight(
        team=plan.name,
        backends=_grouped((_backend(agent), name) for name, agent in agents),
        spends=any(agent.backend in CODING or (agent.backend == "model" and not is_recorded) for _, agent in agents),
        acts=bool(acting),
        sandbox=_grouped((_sandbox(agent), name) for name, agent in acting if REGISTRY[agent.backend].uses_files),
        permissions=_grouped((_permissions(agent), name) for name, agent in acting if agent.backend in CODING),
        tools=list(dict.fromkeys(tool for _, agent in acting for tool in _tools(agent))),
        folder=str(folder.resolve()),
        branch=branch,
        uncommitted=uncommitted,
        has_commit=has_commit,
        worktree=loop.place.worktree if loop else False,
        turns=turns,
        agents=worst.agents if worst else {},
        max_cost=min(costs, default=None),
        results=str(state_dir),
    )


def _grouped(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, name in pairs:
        groups.setdefault(group, []).append(name)
    return groups


def _backend(agent: AgentPlan) -> str:
    if agent.backend == "model":
        chosen = chosen_of(agent)
        return f"model {agent.model if isinstance(chosen, Unclear) else chosen.model}"
    return agent.backend


def _sandbox(agent: AgentPlan) -> str:
    if sandbox_of(agent) == "off":
        return "off"
    with waiting("a sandbox to be tried"):
        working = choice.working()
    return working.NAME if working else "none"


def _permissions(agent: AgentPlan) -> str:
    if agent.options.get("attention") == "ask":
        return "person"
    return "granted" if agent.options.get("trust_all_tools", True) else "denied"


def _tools(agent: AgentPlan) -> Iterator[str]:
    if agent.backend == "model":
        for kind in ("built_in_tools", "python_tools", "mcp_servers"):
            yield from agent.options.get(kind, ())


def _git(folder: Path) -> tuple[str, int, bool]:
    """The branch in *folder*, its files with uncommitted changes, and whether it has a commit."""
    repository = find(folder)
    if repository is None:
        return "", 0, False
    try:
        changed: Sequence[str] = repository.output("status", "--porcelain", "--", ".").splitlines()
    except GitFailed:
        changed = ()
    return repository.branch(), len(changed), bool(repository.commit_of("HEAD"))
