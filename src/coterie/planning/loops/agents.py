"""The agents of a loop: one per role, one if there are no roles, and a reviewer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from coterie.diagnostics import Diagnostic, error, warning
from coterie.formats.settings import Settings
from coterie.formats.settings.layers import COMMAND_LINE, GIVEN
from coterie.planning.extension import BACKENDS
from coterie.planning.loop import GLOBAL, REVIEW, LoopGiven
from coterie.planning.loops import backends
from coterie.planning.loops.backends import BackendSpec, Layer, NoArguments, UnknownKind
from coterie.planning.loops.texts import Report, TextLocation, place_of
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.providers import Unclear, choose_provider
from coterie.topology.checks.facts import listing
from coterie.topology.loop import Loop, Role

__all__ = ["SESSIONS", "BackendSources", "loop_agents"]

PlaceOf = Callable[[str], TextLocation]
"""Locates a field of an agent's backend."""
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
        report(_place(sources, "kind").locate(error("unknown-backend", str(wrong))))
        return {}
    _warn_of_own(sources, report)
    report = _once(report)
    agents: dict[str, AgentPlan] = {}
    for role in sources.loop.roles:
        if role.topology:
            agents[role.id] = _team(sources, role)
            continue
        merged = backends.overlay(layer, role.backend, _mode(sources, role))
        _add(agents, role.id, merged, partial(_place, sources, role=role), report)
    if not sources.loop.roles:
        _add(agents, GLOBAL, layer, partial(_place, sources), report)
    if reviews:
        merged = backends.overlay(layer, backends.of_review(settings))
        _add(agents, REVIEW, merged, partial(_place, sources, review=True), report)
    return agents


def _once(report: Report) -> Report:
    """*report* without repetitions: roles that share a setting share its faults."""
    seen: list[Diagnostic] = []

    def first(found: Diagnostic) -> None:
        if found not in seen:
            seen.append(found)
            report(found)

    return first


def _team(sources: BackendSources, role: Role) -> AgentPlan:
    """The agent of a role that a team plays: only the limits of an iteration apply."""
    timeout = sources.settings.event_loop.max_iteration_runtime or None
    return AgentPlan(name=role.id, kind="topology", timeout=timeout, child=sources.team(role))


def _mode(sources: BackendSources, role: Role) -> Layer:
    """The agent or mode that `agents.toml` gives *role*; it takes precedence over the role's own."""
    agent = sources.loop.agent_of(sources.preset, role.id)
    return {"agent": agent} if agent else {}


def _place(sources: BackendSources, field: str, role: Role | None = None, review: bool = False) -> TextLocation:
    """Where the *field* of a backend is set: in the role, for reviews, or for all."""
    if role is not None and role.backend.keys() & {field, "kind", "command"}:
        span = role.spans.get(f"backend_{field}") or role.spans.get("backend_command") or role.span
        return TextLocation(sources.topology.file, span, sources.topology.text)
    settings = sources.settings
    table = "review" if review and getattr(settings.review, field) is not None else "backend"
    origin = settings.origins[f"{table}.{field}"]
    if origin.layer == COMMAND_LINE:
        return TextLocation(GIVEN)
    return place_of(origin) if origin.file else sources.project


def _warn_of_own(sources: BackendSources, report: Report) -> None:
    """Report the roles that keep their backend although the command line names one."""
    chosen = {"kind", "provider", "command", "args"}
    own = [role.id for role in sources.loop.roles if role.topology or role.backend.keys() & chosen]
    if sources.given.backend and own:
        keeps = "keeps its" if len(own) == 1 else "keep their"
        message = f"role {listing(own)} {keeps} own backend despite -b"
        report(sources.topology.locate(warning("role-keeps-backend", message, hint="its own fields take precedence")))


def _add(agents: dict[str, AgentPlan], name: str, layer: Layer, place_of_field: PlaceOf, report: Report) -> None:
    try:
        spec = backends.settle(layer)
    except UnknownKind as wrong:
        report(place_of_field("kind").locate(error("unknown-backend", str(wrong))))
        return
    agents[name] = agent = agent_plan(name, spec)
    if spec.kind == "acp" and not spec.command:
        message = f"no command configured for the ACP provider {spec.provider!r} of {name!r}"
        report(place_of_field("command").locate(error("no-command", message, hint='write backend.command = "program"')))
    if spec.kind == "command" and spec.prompt_mode == "acp":
        message = f"{name!r} is a command, which cannot take its prompt by 'acp': the prompt is passed as an argument"
        report(
            place_of_field("prompt_mode").locate(
                warning("bad-prompt-mode", message, hint='write prompt_mode = "arg" or "stdin"')
            )
        )
    if (provider := layer.get("provider")) and spec.kind not in ("acp", "model"):
        message = f"the provider {provider!r} has no effect: the backend is of kind {spec.kind!r}"
        report(place_of_field("provider").locate(warning("idle-provider", message, hint='write kind = "acp"')))
    if layer.get("args") and spec.kind not in backends.TAKES_ARGUMENTS:
        message = f"the arguments of {name!r} have no effect: a backend of kind {spec.kind!r} takes no arguments"
        report(
            place_of_field("args").locate(
                warning("idle-arguments", message, hint='remove them, or write kind = "command"')
            )
        )
    if spec.kind == "model" and isinstance(chosen := choose_provider(spec.model, agent.options), Unclear):
        message = f"{name!r} uses a model, but {chosen.message}"
        report(
            place_of_field("model").locate(error("no-provider", message, hint='write backend.model = "anthropic/…"'))
        )


def agent_plan(name: str, spec: BackendSpec) -> AgentPlan:
    """The agent *name* with the backend *spec*."""
    agent = AgentPlan(name=name, backend=spec.kind, model=spec.model, timeout=spec.timeout)
    match spec.kind:
        case "command":
            via = "stdin" if spec.prompt_mode in ("stdin", "file") else "arg"  # a loop always has a prompt file, too
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
