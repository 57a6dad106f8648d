"""Choose a node's backend: the agent's extension, then the run's backend, then the topology's extension."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import error
from coterie.team.options.agents import BY_KEY, CODING_KEYS, READERS
from coterie.team.options.backends import BACKENDS, CODING, REGISTRY
from coterie.team.planning.extension import Extension, Report


class BackendChoice(Struct, frozen=True, kw_only=True):
    """The backend of a node and the start of its process; *backend* is empty if none was chosen."""

    backend: str = ""
    argv: tuple[str, ...] = ()
    topology: str = ""
    prompt_via: str = "stdin"
    options: dict[str, Any] = {}


def choose_backend(
    owner: str, own: Extension, default: Extension, backend: str | None, report: Report
) -> BackendChoice:
    """Choose the backend of *owner*.

    `command` and `backend: command` are the same choice. Prompt mode and options of the topology are for the backend
    it names, so an agent with another backend does not inherit them.

    Args:
        backend: The run's backend, as `-b` names it.
    """
    if team := own.topology or own.pattern:
        key = "topology" if own.topology else "pattern"
        other = "pattern" if own.topology and own.pattern else "command" if own.command else "backend"
        if getattr(own, other):
            _twice(owner, own, other, key, report)
        return BackendChoice(topology=team, prompt_via=own.prompt_via or "stdin", options=dict(own.options))
    if own.type or own.ask:
        return _actor(owner, own, report)
    for block in (own, default):
        if block.command and block.backend not in ("", "command", *CODING):
            _twice(owner if block is own else "the topology", block, "command", f"backend: {block.backend}", report)
    flag = flag_of_run(backend)
    usual = default.backend or ("command" if default.command else "")
    chosen = own.backend or ("command" if own.command else "") or flag.get("kind") or usual
    inherits = chosen == usual or not chosen
    argv = own.command or (default.command if inherits or chosen == "command" else ())
    provider: dict[str, str] = {}
    if chosen in CODING:
        argv, provider = _settled(chosen, argv, own, default, {} if own.backend else flag)
    elif chosen != "command":
        argv = ()
    known = REGISTRY[chosen].providers if chosen in CODING else {}
    if (known or chosen == "command") and not argv and "command" not in own.given | default.given:
        message = f"{owner} has backend {chosen!r}, but no command"
        hint = 'write command: ["program", "argument"]' + (f", or provider: {next(iter(known))}" if known else "")
        report(error("no-command", message, own.spans.get("backend"), hint))
    return BackendChoice(
        backend=chosen,
        argv=argv,
        prompt_via=own.prompt_via or (default.prompt_via if inherits else "") or "stdin",
        options={**(default.options if inherits else {}), **own.options, **provider},
    )


def _actor(owner: str, own: Extension, report: Report) -> BackendChoice:
    """An agent in Python: a class, or an agent of the system around the team."""
    key = "type" if own.type else "ask"
    for other in ("ask" if own.type else "", "command", "backend"):
        if other and getattr(own, other):
            _twice(owner, own, other, key, report)
    return BackendChoice(backend="actor", options={**own.options, key: getattr(own, key)})


def flag_of_run(text: str | None) -> Mapping[str, Any]:
    """The kind of the run's backend *text*, with the provider, command and arguments of a coding agent.

    The kind is *text* itself if it names no coding agent.
    """
    if not text:
        return {}
    if text in BACKENDS - CODING.keys():
        return {"kind": text}
    from coterie.team.planning.loops.backends import of_flag  # imported on demand: it loads the settings of loops

    found = of_flag(text)
    return found if found["kind"] in CODING else {"kind": text}


def coding_options(backend: str, own: Extension, default: Extension) -> dict[str, Any]:
    """The options about permissions, sandbox and gates that *backend* reads: the agent's, then the topology's.

    A team, which has no backend, only gets its own gates.
    """
    found = {}
    for key in CODING_KEYS:
        name = key.replace("-", "_")
        of_team = not backend and key in ("gates", "gate-timeout")
        blocks = (own, default) if backend in READERS[key] else (own,) if of_team else ()
        value = next((value for block in blocks if (value := getattr(block, name)) not in ("", None, ())), None)
        if value is not None:
            found[BY_KEY[key].loop or name] = list(map(list, value)) if key == "gates" else value
    return found


def _settled(
    kind: str, argv: tuple[str, ...], own: Extension, default: Extension, flag: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command of a coding agent, and its provider as an option; unset ones are the provider's and the kind's."""
    from coterie.team.planning.loops.backends import settle  # imported on demand: it loads the settings of loops

    provider = own.provider or (default.provider if default.backend == kind else "")
    layer: dict[str, Any] = {"kind": kind, "provider": provider}
    if argv:
        layer |= {"command": argv[0], "args": argv[1:]}
    if flag.get("command"):
        layer = dict(flag)
    elif flag.get("provider"):
        layer["provider"] = flag["provider"]
    spec = settle(layer)
    return spec.argv if spec.command else (), {"provider": spec.provider} if spec.provider else {}


def _twice(owner: str, block: Extension, one: str, other: str, report: Report) -> None:
    message = f"{owner} has two backends: {one!r} and {other!r}"
    report(error("two-thinkers", message, block.spans.get(one), "keep one of them"))
