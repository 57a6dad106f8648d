"""Collect, before the first turn of a run, what it may do, change and cost."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from coterie.agents.backends.models.needs import chosen_of
from coterie.agents.backends.needs import gate_sandbox, sandbox_of
from coterie.agents.backends.sandbox import choice
from coterie.agents.workspace.trees.git import find
from coterie.base import program_files
from coterie.base.waits import waiting
from coterie.execution.runs.backend_setup import agents_of, spends
from coterie.proofs.dispatch import check
from coterie.team.options.backends import CODING, REGISTRY
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import NO_LIMIT, AgentPlan, Limits, Plan
from coterie.team.planning.providers import Chosen

STATES = 2_000
"""The maximum number of states to explore for the worst case, so that a run begins at once; with more it is a bound."""
NOTHING_DONE = ("human", "scripted")
"""Backends that neither cost money nor change files."""


class Preflight(Struct, frozen=True, kw_only=True):
    """The possible effects and costs of a run.

    Attributes:
        backends: Agents by backend; for a model the backend includes the model's name.
        spends: Whether its agents may cost money: models and coding agents.
        acts: Whether it may cost money or change files.
        sandbox: Agents by the sandbox of their programs: `bwrap`, `landlock`, `off`, or `none` if none works here;
            `node` on the nodes of a cluster, for the sandbox that works there.
        permissions: Agents by the way their permission requests are answered: `granted`, `person`, `denied`; a model
            has none.
        unconfined: What runs without a sandbox where the programs of confined agents write, and so may execute what
            they wrote: actions, gates, and agents whose program is a file there. Each with its command, and why it will
            not start if that is known.
        tools: The tools that models may call: built-in tools, Python functions and MCP servers.
        on_nodes: Whether it works on the nodes of a cluster, with the files of *folder*. folder: The working directory.
        branch: The branch that is checked out in *folder*; empty: none, or no git work tree.
        uncommitted: The number of files there with uncommitted changes, new ones included; None: there is no commit, or
            no work tree.
        worktree: Whether the run gets a separate git work tree; None: only if another run is live.
        turns: The maximum number of turns, in total and of each of *agents*; None: unknown or unbounded.
        max_cost: The budget in US dollars; None: no limit.
        results: The place of the run's journal.
    """

    team: str
    backends: dict[str, list[str]]
    spends: bool
    acts: bool
    sandbox: dict[str, list[str]]
    permissions: dict[str, list[str]]
    tools: list[str]
    folder: str
    unconfined: list[str] = []
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
        folder: The working directory; None: a new, empty folder.
        on_nodes: Whether the nodes of a cluster run the agents, with the files of *folder*.
        is_recorded: Whether all models answer from a cassette, and cost nothing.
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
        unconfined=[*_unconfined(agents, folder, plan.folder, on_nodes)],
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


def _unconfined(agents: list[tuple[str, AgentPlan]], folder: Path | None, here: str, on_nodes: bool) -> Iterator[str]:
    programs = [(name, agent) for name, agent in agents if REGISTRY[agent.backend].uses_files]
    unsafe = {name for name, agent in programs if _sandbox(agent, on_nodes) in ("off", "none")}
    if folder is None or len(unsafe) == len(programs):
        return
    top = folder.resolve()
    for name, agent in programs:
        for argv in agent.steps or (agent.argv,):
            if name not in unsafe or agent.kind == "gate":  # a gate of a flow runs in the sandbox of its agents
                continue
            words = [word.replace("{here}", here or str(top)).replace("{python}", sys.executable) for word in argv]
            shown = f"{name} (`{shlex.join(words).replace(f'{top}/', '')}`)"
            files = program_files.executed(words, top / agent.cwd, os.environ)
            if agent.kind == "action":
                yield shown
            elif why := program_files.refusal(words, top / agent.cwd, os.environ):
                yield f"{shown}, which will not start: {why}"
            elif any(path.resolve().is_relative_to(top) for path in files):
                yield shown
        if name not in unsafe and gate_sandbox([agent], agent.options.get("gate_sandbox", "")) == "off":
            yield from (f"the gate of {name} (`{shlex.join(argv)}`)" for argv in agent.gates)


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
