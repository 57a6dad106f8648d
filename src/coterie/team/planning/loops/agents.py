"""The agents of a loop: one per role, one if there are no roles, and a reviewer."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, error, warning
from coterie.team.formats.settings import Settings
from coterie.team.formats.settings.keys import DEFAULT
from coterie.team.formats.settings.layers import COMMAND_LINE, GIVEN
from coterie.team.options.agents import PLAN_OPTIONS, readers_of
from coterie.team.options.backends import CODING, REGISTRY, usual_policy
from coterie.team.planning.loop import GLOBAL, REVIEW, LoopGiven
from coterie.team.planning.loops import backends
from coterie.team.planning.loops.backends import BackendSpec, Layer, NoArguments, UnknownKind
from coterie.team.planning.loops.texts import Report, TextLocation, place_of
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.planning.providers import Unclear, choose_provider
from coterie.team.topology.checks.facts import listing
from coterie.team.topology.loop import Loop, Role

__all__ = ["BackendSources", "loop_agents"]

PlaceOf = Callable[[str], TextLocation]
"""Locates a field of an agent's backend."""


class BackendSources(Struct, frozen=True, kw_only=True):
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
        report(error("no-arguments", str(wrong), hint="choose a program, such as -b command, or remove them"))
    except UnknownKind as wrong:
        report(_place(sources, "kind").locate(error("unknown-backend", str(wrong))))
        return {}
    _warn_of_own(sources, report)
    report = _once(report)
    agents: dict[str, AgentPlan] = {}
    for role in sources.loop.roles:
        if role.topology:
            timeout = settings.event_loop.max_iteration_runtime or None  # a team has no other limit
            agents[role.id] = AgentPlan(name=role.id, kind="topology", timeout=timeout, child=sources.team(role))
            continue
        agent = sources.loop.agent_of(
            sources.preset, role.id
        )  # from `agents.toml`; it takes precedence over the role's own
        merged = backends.overlay(layer, role.backend, {"agent": agent} if agent else {})
        _add(agents, role.id, merged, partial(_place, sources, role=role), report)
    if not sources.loop.roles:
        _add(agents, GLOBAL, layer, partial(_place, sources), report)
    if reviews:
        merged = backends.overlay(layer, backends.of_review(settings))
        _add(agents, REVIEW, merged, partial(_place, sources, review=True), report)
    return _with_gates(agents, settings)


def _with_gates(agents: dict[str, AgentPlan], settings: Settings) -> dict[str, AgentPlan]:
    """Add the gates to *agents*, which must succeed before a completion counts; a review completes nothing."""
    if not settings.event_loop.gates:
        return agents
    option: dict[str, Any] = {"gates": [list(command) for command in settings.event_loop.gates]}
    if settings.origins["event_loop.gate_timeout"].layer != DEFAULT:
        option["gate_timeout"] = settings.event_loop.gate_timeout
    if settings.origins["event_loop.gate_sandbox"].layer != DEFAULT:
        option["gate_sandbox"] = settings.event_loop.gate_sandbox
    return {
        name: agent if name == REVIEW else msgspec.structs.replace(agent, options={**agent.options, **option})
        for name, agent in agents.items()
    }


def _once(report: Report) -> Report:
    """Wrap *report* to drop repetitions, since roles that share a setting share its faults."""
    seen: list[Diagnostic] = []

    def first(found: Diagnostic) -> None:
        if found not in seen:
            seen.append(found)
            report(found)

    return first


def _place(sources: BackendSources, field: str, role: Role | None = None, review: bool = False) -> TextLocation:
    """Where the *field* of a backend is set: in the role, for reviews, or for all."""
    if role is not None and role.backend.keys() & {field, "kind", "command"}:
        span = role.spans.get(f"backend_{field}") or role.spans.get("backend_command") or role.span
        return TextLocation(sources.topology.file, span, sources.topology.text)
    settings = sources.settings
    table = "review" if review and getattr(settings.review, field) is not None else "backend"
    origin = settings.origins[f"{table}.{field}"]
    chosen_here = bool(sources.given.backend) or settings.origins["backend.kind"].layer == COMMAND_LINE
    if origin.layer == COMMAND_LINE or (chosen_here and not origin.file):
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
    for field, found in _faults(name, spec, agent, layer):
        report(place_of_field(field).locate(found))


def _faults(name: str, spec: BackendSpec, agent: AgentPlan, layer: Layer) -> Iterator[tuple[str, Diagnostic]]:
    """The problems with the backend of *agent*, each with its field."""
    entry = REGISTRY[spec.kind]
    if entry.providers and not spec.command:
        message = f"no command configured for the {spec.kind.upper()} provider {spec.provider!r} of {name!r}"
        hint = f'use -b {spec.kind}:NAME:COMMAND, or write backend.command = "program"'
        yield "command", error("no-command", message, hint=hint)
    if spec.kind == "command" and spec.prompt_mode == "acp":
        message = f"{name!r} is a command, which cannot take its prompt by 'acp': the prompt is passed as an argument"
        yield "prompt_mode", warning("bad-prompt-mode", message, hint='write prompt_mode = "arg" or "stdin"')
    if (provider := layer.get("provider")) and "provider" not in entry.reads:
        message = f"the provider {provider!r} has no effect: the backend is of kind {spec.kind!r}"
        yield "provider", warning("idle-provider", message, hint='write kind = "acp"')
    if layer.get("args") and not entry.takes_arguments:
        message = f"the arguments of {name!r} have no effect: a backend of kind {spec.kind!r} takes no arguments"
        yield "args", warning("idle-arguments", message, hint='remove them, or write kind = "command"')
    for field, value in _restrictions(spec):
        if not _reads(spec.kind, field):
            readers = readers_of(field.replace("_", "-"))
            message = f"{field} = {value} of {name!r} has no effect: it is for {readers}, not {spec.kind!r}"
            yield field, warning("idle-setting", message, hint="remove it for this backend")
    if spec.kind not in {"resume": {*CODING, "model"}, "adopt": ("command",)}.get(spec.on_interrupt, (spec.kind,)):
        message = f"on_interrupt = {spec.on_interrupt!r} of {name!r} counts as 'retry' with the backend {spec.kind!r}"
        yield "on_interrupt", warning("idle-setting", message, hint="remove it")
    if spec.kind == "model" and isinstance(chosen := choose_provider(spec.model, agent.options), Unclear):
        model = f"openai/{spec.model}" if spec.model else "sonnet"
        hint = f'add --set backend.model={model}, or write backend.model = "{model}" in the settings'
        yield "model", error("no-provider", f"the backend is a model, but {chosen.message}", hint=hint)


def _restrictions(spec: BackendSpec) -> Iterator[tuple[str, str]]:
    """The settings of *spec* that restrict its agent, with their values as in a file."""
    yield from (
        (name, repr(value)) for name in ("sandbox", "attention") if (value := spec.options.get(name, "off")) != "off"
    )
    if spec.kind in CODING and not spec.trust_all_tools:  # a program may have its own permissions, as `claude` does
        yield "trust_all_tools", "false"


def agent_plan(name: str, spec: BackendSpec) -> AgentPlan:
    """The agent *name* with the backend *spec*."""
    agent = AgentPlan(
        name=name,
        backend=spec.kind,
        model=spec.model,
        timeout=spec.timeout,
        on_interrupt=spec.on_interrupt or usual_policy(spec.kind),
        queue=spec.queue,
        options={name: value for name, value in spec.options.items() if _reads(spec.kind, name)},
    )
    match spec.kind:
        case "command":
            via = "stdin" if spec.prompt_mode in ("stdin", "file") else "arg"  # a loop always has a prompt file, too
            return msgspec.structs.replace(agent, argv=spec.argv, prompt_via=via)
        case "model":
            own = {"provider": spec.provider} if spec.provider else {}
            return msgspec.structs.replace(agent, options=own | agent.options)
        case "actor":
            own = {"type": spec.type} if spec.type else {"ask": spec.ask}
            return msgspec.structs.replace(agent, options=own | agent.options)
        case "scripted":
            return agent
        case "human":
            return msgspec.structs.replace(agent, kind="human")
        case _:
            options: dict[str, Any] = {"trust_all_tools": spec.trust_all_tools}
            options |= {key: value for key in ("provider", "agent") if (value := getattr(spec, key))}
            argv = spec.argv if REGISTRY[spec.kind].takes_arguments else (spec.command,)
            return msgspec.structs.replace(agent, argv=argv, options=options | agent.options)


def _reads(kind: str, option: str) -> bool:
    return PLAN_OPTIONS[option].group in REGISTRY[kind].reads
