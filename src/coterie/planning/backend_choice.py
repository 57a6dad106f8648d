"""Choose a node's backend: the agent's extension, then the run's backend, then the topology's extension."""

from typing import Any

from msgspec import Struct

from coterie.diagnostics import error
from coterie.planning.extension import Extension, Report


class BackendChoice(Struct, frozen=True, kw_only=True):
    """A backend, and how its process is started; *backend* is empty if none was chosen."""

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
    """
    if team := own.topology or own.pattern:
        key = "topology" if own.topology else "pattern"
        other = "pattern" if own.topology and own.pattern else "command" if own.command else "backend"
        if getattr(own, other):
            _twice(owner, own, other, key, report)
        return BackendChoice(topology=team, prompt_via=own.prompt_via or "stdin", options=dict(own.options))
    for block in (own, default):
        if block.command and block.backend not in ("", "command"):
            _twice(owner if block is own else "the topology", block, "command", f"backend: {block.backend}", report)
    usual = default.backend or ("command" if default.command else "")
    chosen = own.backend or ("command" if own.command else "") or backend or usual
    inherits = chosen == usual or not chosen
    argv = own.command or default.command if chosen == "command" else ()
    if chosen == "command" and not argv and "command" not in own.given | default.given:
        message = f"{owner} has backend 'command', but no command"
        report(error("no-command", message, own.spans.get("backend"), 'write command: ["program", "argument"]'))
    return BackendChoice(
        backend=chosen,
        argv=argv,
        prompt_via=own.prompt_via or (default.prompt_via if inherits else "") or "stdin",
        options={**(default.options if inherits else {}), **own.options},
    )


def _twice(owner: str, block: Extension, one: str, other: str, report: Report) -> None:
    message = f"{owner} has two backends: {one!r} and {other!r}"
    report(error("two-thinkers", message, block.spans.get(one), "keep one of them"))
