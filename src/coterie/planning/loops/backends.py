"""Which backend an iteration of a loop has: the settings, the command line, the role, laid over each other.

Each layer says only what it sets. What is left open follows from the kind of backend, and the kind, where nobody says
it, from the name of the command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from coterie.diagnostics import did_you_mean
from coterie.settings import Settings
from coterie.settings.keys import BackendSettings
from coterie.settings.layers import DEFAULT

Layer = Mapping[str, Any]
"""What one layer sets: `kind`, `provider`, `command`, `args`, `prompt_mode`, `timeout`, `trust_all_tools`, `agent`,
`model`."""

KINDS = ("claude-sdk", "pi", "acp", "command", "model", "scripted", "human")
"""The kinds of backends; `kiro` is another name of `acp` with that provider."""
TAKES_ARGUMENTS = frozenset({"acp", "command", "pi"})
"""The kinds that are programs, which arguments can be given to."""
GENERIC = "generic"
PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kiro": ("kiro-cli", ("acp",)),
    "claude-agent-acp": ("npx", ("-y", "@agentclientprotocol/claude-agent-acp")),
    GENERIC: ("", ()),
}
"""The command and arguments that a provider of ACP is started with, unless others are given."""
TIMEOUT = BackendSettings().timeout
"""Seconds one call may take, unless something else is said."""
SKIP_PERMISSIONS = "--dangerously-skip-permissions"

_FIELDS = ("kind", "provider", "prompt_mode", "agent", "model")
_CLAUDE, _PI = "claude", "pi"


class UnknownKind(ValueError):
    """There is no such kind of backend; the message says which there are."""

    def __init__(self, kind: str) -> None:
        hint = did_you_mean(kind, KINDS) or f"it is one of {', '.join(KINDS)}, or empty: as the command's name says"
        super().__init__(f"there is no kind of backend {kind!r}: {hint}")


class NoArguments(ValueError):
    """Arguments are given to a backend that takes none."""

    def __init__(self, kind: str, args: tuple[str, ...]) -> None:
        super().__init__(f"a backend of kind {kind!r} takes no arguments, and is given {' '.join(args)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """A backend with everything settled.

    Attributes:
        args: What the command is given; for a `claude` that is started as a command, what that needs as well.
        prompt_mode: `arg`, `stdin` or `acp`.
        timeout: Seconds one call may take; None: a person is not hurried.
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

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return (self.command, *self.args)


def of_settings(settings: Settings) -> Layer:
    """What the settings say of the backend."""
    backend = settings.backend
    layer: dict[str, Any] = {name: value for name in _FIELDS if (value := getattr(backend, name))}
    if settings.origins["backend.command"].layer != DEFAULT:
        layer["command"] = backend.command
    if backend.args is not None:
        layer["args"] = backend.args
    if settings.origins["backend.timeout_ms"].layer != DEFAULT:
        layer["timeout"] = backend.timeout
    return layer | {"trust_all_tools": backend.trust_all_tools}


def of_review(settings: Settings) -> Layer:
    """What the settings say of the backend of reviews, over that of iterations."""
    review = settings.review
    names = (*_FIELDS, "command", "args", "trust_all_tools")
    layer = {name: value for name in names if (value := getattr(review, name)) is not None}
    return layer | {"timeout": review.timeout}


def of_flag(text: str) -> Layer:
    """What `-b TEXT` says: kind, provider, command, arguments and prompt mode as one.

    It is a kind, a provider (`kiro`, `claude-agent-acp`), `acp:<provider>:<command>`, or any command.
    """
    name = text.removesuffix("-cli") if text == "kiro-cli" else text
    if name.startswith("acp:"):
        _, provider, *rest = name.split(":", 2)
        return _as_one("acp", provider or GENERIC, ":".join(rest), ())
    if name in PROVIDERS and name != GENERIC:
        command, args = PROVIDERS[name]
        return _as_one("acp", name, command, args)
    match name:
        case "claude" | "claude-sdk":
            return _as_one("claude-sdk", "", _CLAUDE, ())
        case "pi":
            return _as_one("pi", "", _PI, ())
        case "acp":
            return _as_one("acp", GENERIC, "", ())
        case "model" | "scripted" | "human":
            return _as_one(name, "", "", ())
    return _as_one("command", "", text, ())


def _as_one(kind: str, provider: str, command: str, args: tuple[str, ...]) -> Layer:
    mode = "acp" if kind == "acp" else "arg"
    return {"kind": kind, "provider": provider, "command": command, "args": args, "prompt_mode": mode}


def overlay(*layers: Layer) -> dict[str, Any]:
    """The *layers* as one: field by field, later ones win."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= layer
    return found


def with_arguments(layer: Layer, further: tuple[str, ...]) -> Layer:
    """*layer* with *further* arguments behind those it has; they do not say anything about its kind.

    Raises:
        UnknownKind: If its kind is none.
        NoArguments: If its kind is one that takes none.
    """
    if not further:
        return layer
    settled = settle(layer)
    if settled.kind not in TAKES_ARGUMENTS:
        raise NoArguments(settled.kind, further)
    args = layer.get("args")
    if args is None:
        args = PROVIDERS.get(settled.provider, PROVIDERS[GENERIC])[1] if settled.kind == "acp" else ()
    return overlay(layer, {"kind": settled.kind, "provider": settled.provider, "args": (*args, *further)})


def settle(layer: Layer) -> BackendSpec:
    """The backend that *layer* means, with what it leaves open.

    Raises:
        UnknownKind: If its kind is none.
    """
    kind, provider = str(layer.get("kind", "")), str(layer.get("provider", "")).strip()
    command = str(layer.get("command", ""))
    if kind == "kiro":
        kind, provider = "acp", provider or "kiro"
    kind = kind_of(kind, command or _CLAUDE, bool(layer.get("args")))
    args = layer.get("args")
    if kind == "acp":
        provider = provider or _provider_of(command)
        usual_command, usual_args = PROVIDERS.get(provider, PROVIDERS[GENERIC])
        command = command or usual_command
        args = usual_args if args is None else args
    else:
        provider = provider if kind == "model" else ""
        command = command or {"pi": _PI, "claude-sdk": _CLAUDE, "command": _CLAUDE}.get(kind, "")
    trusts = bool(layer.get("trust_all_tools", True))
    args = tuple(args or ())
    return BackendSpec(
        kind=kind,
        provider=provider,
        command=command,
        args=permitted(command, args, trusts) if kind == "command" else args,
        prompt_mode=str(layer.get("prompt_mode") or ("acp" if kind == "acp" else "arg")),
        timeout=layer.get("timeout", None if kind == "human" else TIMEOUT),
        trust_all_tools=trusts,
        agent=str(layer.get("agent", "")),
        model=str(layer.get("model", "")),
    )


def kind_of(kind: str, command: str, has_args: bool) -> str:
    """The kind of a backend: the one that is named, else the one that the *command*'s name tells.

    Raises:
        UnknownKind: If *kind* is none.
    """
    if kind == "kiro":
        return "acp"
    if kind:
        if kind not in KINDS:
            raise UnknownKind(kind)
        return kind
    match PurePath(command).name:
        case "pi":
            return "pi"
        case "claude" if not has_args:
            return "claude-sdk"
        case _:
            return "command"


def permitted(command: str, args: tuple[str, ...], trusts: bool = True) -> tuple[str, ...]:
    """*args* with what a `claude` needs that is started as a command: to print, and, if one *trusts* it, no leave."""
    if PurePath(command).name != _CLAUDE:
        return args
    first = () if "-p" in args or "--print" in args else ("-p",)
    last = (SKIP_PERMISSIONS,) if trusts and SKIP_PERMISSIONS not in args else ()
    return (*first, *args, *last)


def _provider_of(command: str) -> str:
    """The provider whose usual command *command* is."""
    name = PurePath(command).name
    return "kiro" if name == PROVIDERS["kiro"][0] else GENERIC
