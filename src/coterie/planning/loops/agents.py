"""The agents of a loop: one per role, one if there are no roles, and a reviewer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie.diagnostics import error, warning
from coterie.formats.settings import Settings
from coterie.planning.extension import BACKENDS
from coterie.planning.loop import GLOBAL, REVIEW, LoopGiven
from coterie.planning.loops import backends
from coterie.planning.loops.backends import BackendSpec, Layer, NoArguments, UnknownKind
from coterie.planning.loops.texts import Report, TextLocation
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.providers import Unclear, choose_provider
from coterie.topology.checks.facts import listing
from coterie.topology.loop import Loop, Role

__all__ = ["SESSIONS", "BackendSources", "loop_agents"]

SESSIONS = frozenset(backends.KINDS) - BACKENDS
"""Kinds of backends that can be planned and rehearsed, but not run yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSources:
    """The sources of a role's backend.

    Attributes:
        preset: The name by which `agents.toml` knows the loop.
        topology: The file of the roles; *project* is that of the settings.
        team: Plans the team of a role; None, with a report, if it is invalid.
    """

    loop: Loop
    settings: Settings
    given: LoopGiven
    preset: str
    topology: TextLocation
    project: TextLocation
    team: Callable[[Role], Plan | None]


def loop_agents(sources: BackendSources, *, reviews: bool, report: Report) -> dict[str, AgentPlan]:
    """The agents by name: the roles, or `@loop` if there are none, and `@review` if *reviews*."""
    settings, given = sources.settings, sources.given
    layer = backends.of_settings(settings)
    if settings.event_loop.max_iteration_runtime:
        layer = backends.overlay(layer, {"timeout": settings.event_loop.max_iteration_runtime})
    if given.backend:
        layer = backends.overlay(layer, backends.of_flag(given.backend))
    try:
        layer = backends.with_arguments(layer, given.args)
    except NoArguments as wrong:
        report(error("no-arguments", str(wrong), hint="choose a backend that is a program, or remove them"))
    except UnknownKind as wrong:
        report(sources.project.locate(error("unknown-backend", str(wrong))))
        return {}
    _warn_of_own(sources, report)
    agents: dict[str, AgentPlan] = {}
    for role in sources.loop.roles:
        if role.topology:
            agents[role.id] = _team(sources, role)
            continue
        _add(
            agents, role.id, backends.overlay(layer, role.backend, _mode(sources, role)), _place(sources, role), report
        )
    if not sources.loop.roles:
        _add(agents, GLOBAL, layer, sources.project, report)
    if reviews:
        _add(agents, REVIEW, backends.overlay(layer, backends.of_review(settings)), sources.project, report)
    return agents


def _team(sources: BackendSources, role: Role) -> AgentPlan:
    """The agent of a role that a team plays: only the limits of an iteration apply."""
    timeout = sources.settings.event_loop.max_iteration_runtime or None
    return AgentPlan(name=role.id, kind="topology", timeout=timeout, child=sources.team(role))


def _mode(sources: BackendSources, role: Role) -> Layer:
    """The agent or mode that `agents.toml` gives *role*; it takes precedence over the role's own."""
    agent = sources.loop.agent_of(sources.preset, role.id)
    return {"agent": agent} if agent else {}


def _place(sources: BackendSources, role: Role) -> TextLocation:
    span = role.spans.get("backend_kind") or role.spans.get("backend_command") or role.span
    return TextLocation(sources.topology.file, span, sources.topology.text)


def _warn_of_own(sources: BackendSources, report: Report) -> None:
    """Report the roles that keep their backend although the command line names one."""
    chosen = {"kind", "provider", "command", "args"}
    own = [role.id for role in sources.loop.roles if role.topology or role.backend.keys() & chosen]
    if sources.given.backend and own:
        keeps = "keeps its" if len(own) == 1 else "keep their"
        message = f"role {listing(own)} {keeps} own backend despite -b"
        report(sources.topology.locate(warning("role-keeps-backend", message, hint="its own fields take precedence")))


def _add(agents: dict[str, AgentPlan], name: str, layer: Layer, place: TextLocation, report: Report) -> None:
    try:
        spec = backends.settle(layer)
    except UnknownKind as wrong:
        report(place.locate(error("unknown-backend", str(wrong))))
        return
    agents[name] = agent = agent_plan(name, spec)
    if spec.kind == "acp" and not spec.command:
        message = f"no command configured for the ACP provider {spec.provider!r} of {name!r}"
        report(place.locate(error("no-command", message, hint='write backend.command = "program"')))
    if spec.kind == "command" and spec.prompt_mode == "acp":
        message = f"{name!r} is a command, which cannot take its prompt by 'acp': the prompt is passed as an argument"
        report(place.locate(warning("bad-prompt-mode", message, hint='write prompt_mode = "arg" or "stdin"')))
    if layer.get("args") and spec.kind not in backends.TAKES_ARGUMENTS:
        message = f"the arguments of {name!r} have no effect: a backend of kind {spec.kind!r} takes no arguments"
        report(place.locate(warning("idle-arguments", message, hint='remove them, or write kind = "command"')))
    if spec.kind == "model" and isinstance(chosen := choose_provider(spec.model, agent.options), Unclear):
        message = f"{name!r} uses a model, but {chosen.message}"
        report(place.locate(error("no-provider", message, hint='write backend.model = "anthropic/…"')))


def agent_plan(name: str, spec: BackendSpec) -> AgentPlan:
    """The agent *name* with the backend *spec*."""
    agent = AgentPlan(name=name, backend=spec.kind, model=spec.model, timeout=spec.timeout)
    match spec.kind:
        case "command":
            via = "stdin" if spec.prompt_mode == "stdin" else "arg"
            return msgspec.structs.replace(agent, argv=spec.argv, prompt_via=via)
        case "model":
            return msgspec.structs.replace(agent, options=_model_options(spec))
        case "scripted":
            return agent
        case "human":
            return msgspec.structs.replace(agent, kind="human")
        case _:
            options: dict[str, Any] = {"trust_all_tools": spec.trust_all_tools}
            options |= {key: value for key in ("provider", "agent") if (value := getattr(spec, key))}
            argv = (spec.command,) if spec.kind == "claude-sdk" else spec.argv
            return msgspec.structs.replace(agent, argv=argv, options=options)


def _model_options(spec: BackendSpec) -> Mapping[str, Any]:
    return {"provider": spec.provider} if spec.provider else {}
