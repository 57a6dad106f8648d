"""The backend of an iteration of a loop: settings, command line and role, merged.

Each layer contains only what it sets. Unset fields have defaults by kind of backend; an unset kind follows from the
name of the command.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.team.formats.settings import Settings
from coterie.team.formats.settings.keys import DEFAULT
from coterie.team.options.agents import LOOP_OPTIONS, PLAN_OPTIONS
from coterie.team.options.backends import BACKENDS, GENERIC, KINDS, PROVIDERS, REGISTRY, of_program, provider_of

Layer = Mapping[str, Any]
"""Options of a layer, as in `LOOP_OPTIONS`."""

TIMEOUT = float(LOOP_OPTIONS["timeout"].default)
"""Default timeout of a call, in seconds."""
SKIP_PERMISSIONS = "--dangerously-skip-permissions"

_CLAUDE = "claude"
_FURTHER = tuple(
    name for name in LOOP_OPTIONS if name in PLAN_OPTIONS and name not in ("provider", "agent", "trust_all_tools")
)
"""Options that a plan contains unchanged."""


class UnknownKind(ValueError):
    """Unknown kind of backend; the message lists the known ones."""

    def __init__(self, kind: str) -> None:
        hint = (
            did_you_mean(kind, KINDS)
            or f"write one of {', '.join(KINDS)}, or leave it empty to choose by the command's name"
        )
        super().__init__(f"unknown kind of backend {kind!r}: {hint}")


class NoArguments(ValueError):
    """A backend that takes no arguments is given some."""

    def __init__(self, kind: str, args: tuple[str, ...]) -> None:
        super().__init__(f"a backend of kind {kind!r} takes no arguments, but is given {' '.join(args)!r}")


class BackendSpec(Struct, frozen=True, kw_only=True):
    """A fully resolved backend.

    Attributes:
        args: Arguments of the command, including those that a `claude` command needs.
        prompt_mode: `arg`, `stdin`, `file` or `acp`.
        timeout: Seconds one call may take; None for a human: unlimited.
        options: Its other options, by their names in a plan; its kind may not read all of them.
        type: The class of an agent in Python; *ask* is the name of one in the system around the loop.
    """

    kind: str
    provider: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    prompt_mode: str = "arg"
    timeout: float | None = TIMEOUT
    trust_all_tools: bool = True
    agent: str = ""
    model: str = ""
    on_interrupt: str = ""
    queue: str = ""
    options: Mapping[str, Any] = {}

    type: str = ""
    ask: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return (self.command, *self.args)


def of_settings(settings: Settings) -> Layer:
    """The backend settings."""
    layer = {
        name: settings.value(option.in_settings)
        for name, option in LOOP_OPTIONS.items()
        if option.in_settings in settings.origins and settings.origins[option.in_settings].layer != DEFAULT
    }
    return {name: value for name, value in layer.items() if value not in ("", None)}


def of_review(settings: Settings) -> Layer:
    """The backend settings of reviews, over those of iterations."""
    values = ((name, getattr(settings.review, name, None)) for name in LOOP_OPTIONS)
    return {name: value for name, value in values if value is not None}


def of_flag(text: str) -> Layer:
    """Parse `-b TEXT` into kind, provider, command, arguments and prompt mode.

    It is a kind, a provider (`kiro`, `claude-agent-acp`), `acp:<provider>:<command>`, or any command; the name of a
    command with a path is enough. The kind `command` runs `claude` as a program.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in REGISTRY and (known := REGISTRY[kind].providers):
        name, _, command = rest.partition(":")
        provider = known.get(name, known[GENERIC])
        return _as_one(kind, name or GENERIC, command or provider.command, provider.args)
    if text in PROVIDERS and text != GENERIC:
        kind, provider = PROVIDERS[text]
        return _as_one(kind, text, provider.command, provider.args)
    if text in BACKENDS:
        return _as_one(text, GENERIC if REGISTRY[text].providers else "", REGISTRY[text].program, ())
    if name := provider_of(text):
        return _as_one(PROVIDERS[name][0], name, text, PROVIDERS[name][1].args)
    return _as_one(of_program(text) or "command", "", text, ())


def _as_one(kind: str, provider: str, command: str, args: tuple[str, ...]) -> Layer:
    layer = {"kind": kind, "provider": provider, "command": command, "args": args}
    return layer | {"prompt_mode": REGISTRY[kind].prompt_mode}


def overlay(*layers: Layer) -> dict[str, Any]:
    """Merge *layers* field by field; later ones take precedence."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= layer
    return found


def with_arguments(layer: Layer, further: tuple[str, ...]) -> Layer:
    """*layer* with *further* arguments appended; they do not affect its kind.

    Raises:
        UnknownKind: If its kind is unknown.
        NoArguments: If its kind is one that takes none.
    """
    if not further:
        return layer
    settled = settle(layer)
    entry = REGISTRY[settled.kind]
    if not entry.takes_arguments:
        raise NoArguments(settled.kind, further)
    args = layer.get("args")
    if args is None:
        args = entry.providers.get(settled.provider, entry.providers[GENERIC]).args if entry.providers else ()
    return overlay(layer, {"kind": settled.kind, "provider": settled.provider, "args": (*args, *further)})


def settle(layer: Layer) -> BackendSpec:
    """Resolve *layer*, with defaults for unset fields.

    Raises:
        UnknownKind: If its kind is unknown.
    """
    if layer.get("type") or layer.get("ask"):
        type_, ask = str(layer.get("type", "")), str(layer.get("ask", ""))
        return BackendSpec(kind="actor", type=type_, ask=ask, timeout=layer.get("timeout", TIMEOUT))
    kind, provider = str(layer.get("kind", "")), str(layer.get("provider", "")).strip()
    command = str(layer.get("command", ""))
    if kind in PROVIDERS and PROVIDERS[kind][1].selects:
        kind, provider = PROVIDERS[kind][0], provider or kind
    kind = kind_of(kind, command or _CLAUDE, bool(layer.get("args")))
    entry, args = REGISTRY[kind], layer.get("args")
    if entry.providers:
        provider = provider or provider_of(command) or GENERIC
        usual = entry.providers.get(provider, entry.providers[GENERIC])
        command = command or usual.command
        args = usual.args if args is None else args
    else:
        provider = provider if "provider" in entry.reads else ""
        command = command or entry.program
    trusts = bool(layer.get("trust_all_tools", True))
    args = tuple(args or ())
    return BackendSpec(
        kind=kind,
        provider=provider,
        command=command,
        args=permitted(command, args, trusts) if kind == "command" else args,
        prompt_mode=str(layer.get("prompt_mode") or entry.prompt_mode),
        timeout=layer.get("timeout", None if kind == "human" else TIMEOUT),
        trust_all_tools=trusts,
        options={name: value for name in _FURTHER if (value := layer.get(name)) not in ("", None)},
        **{name: str(layer.get(name, "")) for name in ("agent", "model", "on_interrupt", "queue")},
    )


def kind_of(kind: str, command: str, has_args: bool) -> str:
    """The kind of a backend: the named one, else by the name of *command*.

    Raises:
        UnknownKind: If *kind* is unknown.
    """
    if kind in PROVIDERS and PROVIDERS[kind][1].selects:
        return PROVIDERS[kind][0]
    if kind and kind not in BACKENDS:
        raise UnknownKind(kind)
    return kind or of_program(command, has_args=has_args) or "command"


def permitted(command: str, args: tuple[str, ...], trusts: bool = True) -> tuple[str, ...]:
    """*args* for a `claude` command: print mode, and skip permission prompts if *trusts*."""
    if PurePath(command).name != _CLAUDE:
        return args
    first = () if "-p" in args or "--print" in args else ("-p",)
    last = (SKIP_PERMISSIONS,) if trusts and SKIP_PERMISSIONS not in args else ()
    return (*first, *args, *last)
