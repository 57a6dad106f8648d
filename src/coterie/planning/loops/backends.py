"""The backend of an iteration of a loop: settings, command line and role, merged.

Each layer contains only what it sets. Unset fields have defaults by kind of backend; an unset kind follows from the
name of the command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from coterie.diagnostics import did_you_mean
from coterie.formats.settings import Settings
from coterie.formats.settings.keys import DEFAULT, BackendSettings

Layer = Mapping[str, Any]
"""Fields of a layer: `kind`, `provider`, `command`, `args`, `prompt_mode`, `timeout`, `trust_all_tools`, `agent`,
`model`, `sandbox`, `attention`, `attention_timeout`, `attention_policy`, `stall_after`,
`on_interrupt`, `queue`."""

KINDS = ("claude-sdk", "pi", "acp", "command", "model", "scripted", "human")
"""The kinds of backends; `kiro` is another name of `acp` with that provider."""
TAKES_ARGUMENTS = frozenset({"acp", "command", "pi"})
"""The kinds that are programs and take arguments."""
GENERIC = "generic"
PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kiro": ("kiro-cli", ("acp",)),
    "claude-agent-acp": ("npx", ("-y", "@agentclientprotocol/claude-agent-acp")),
    GENERIC: ("", ()),
}
"""Default command and arguments of each ACP provider."""
TIMEOUT = BackendSettings().timeout
"""Default timeout of a call, in seconds."""
SKIP_PERMISSIONS = "--dangerously-skip-permissions"

_FIELDS = (
    "kind",
    "provider",
    "prompt_mode",
    "agent",
    "model",
    "sandbox",
    "attention",
    "attention_policy",
    "on_interrupt",
    "queue",
)
_CLAUDE, _PI = "claude", "pi"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """A fully resolved backend.

    Attributes:
        args: Arguments of the command, including those that a `claude` command needs.
        prompt_mode: `arg`, `stdin`, `file` or `acp`.
        timeout: Seconds one call may take; None for a human: unlimited.
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
    sandbox: str = ""
    attention: str = ""
    attention_timeout: float | None = None
    attention_policy: str = ""
    stall_after: float | None = None
    on_interrupt: str = ""
    queue: str = ""

    type: str = ""
    ask: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return (self.command, *self.args)


def of_settings(settings: Settings) -> Layer:
    """The backend settings."""
    backend = settings.backend
    layer: dict[str, Any] = {name: value for name in _FIELDS if (value := getattr(backend, name))}
    if settings.origins["backend.command"].layer != DEFAULT:
        layer["command"] = backend.command
    if backend.args is not None:
        layer["args"] = backend.args
    for name in ("timeout", "attention_timeout"):
        if settings.origins[f"backend.{name}_ms"].layer != DEFAULT:
            layer[name] = getattr(backend, name)
    if backend.stall_after is not None:
        layer["stall_after"] = backend.stall_after
    return layer | {"trust_all_tools": backend.trust_all_tools}


def of_review(settings: Settings) -> Layer:
    """The backend settings of reviews, over those of iterations."""
    review = settings.review
    names = (*_FIELDS, "command", "args", "trust_all_tools", "attention_timeout", "stall_after")
    layer = {name: value for name in names if (value := getattr(review, name)) is not None}
    return layer | {"timeout": review.timeout}


def of_flag(text: str) -> Layer:
    """Parse `-b TEXT` into kind, provider, command, arguments and prompt mode.

    It is a kind, a provider (`kiro`, `claude-agent-acp`), `acp:<provider>:<command>`, or any command; the name of a
    command with a path is enough. The kind `command` runs `claude` as a program.
    """
    if text.startswith("acp:"):
        _, provider, *rest = text.split(":", 2)
        command, args = PROVIDERS.get(provider, PROVIDERS[GENERIC])
        return _as_one("acp", provider or GENERIC, ":".join(rest) or command, args)
    if text in PROVIDERS and text != GENERIC:
        return _as_one("acp", text, *PROVIDERS[text])
    if text == "claude-sdk":
        return _as_one("claude-sdk", "", _CLAUDE, ())
    match PurePath(text).name:
        case "kiro-cli":
            return _as_one("acp", "kiro", text, PROVIDERS["kiro"][1])
        case "claude":
            return _as_one("claude-sdk", "", text, ())
        case "pi":
            return _as_one("pi", "", text, ())
    match text:
        case "acp":
            return _as_one("acp", GENERIC, "", ())
        case "model" | "scripted" | "human":
            return _as_one(text, "", "", ())
        case "command":
            return _as_one(text, "", _CLAUDE, ())
    return _as_one("command", "", text, ())


def _as_one(kind: str, provider: str, command: str, args: tuple[str, ...]) -> Layer:
    mode = "acp" if kind == "acp" else "arg"
    return {"kind": kind, "provider": provider, "command": command, "args": args, "prompt_mode": mode}


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
    if settled.kind not in TAKES_ARGUMENTS:
        raise NoArguments(settled.kind, further)
    args = layer.get("args")
    if args is None:
        args = PROVIDERS.get(settled.provider, PROVIDERS[GENERIC])[1] if settled.kind == "acp" else ()
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
        attention_timeout=layer.get("attention_timeout"),
        stall_after=layer.get("stall_after"),
        **{name: str(layer.get(name, "")) for name in _FIELDS if name not in ("kind", "provider", "prompt_mode")},
    )


def kind_of(kind: str, command: str, has_args: bool) -> str:
    """The kind of a backend: the named one, else by the name of *command*.

    Raises:
        UnknownKind: If *kind* is unknown.
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
    """*args* for a `claude` command: print mode, and skip permission prompts if *trusts*."""
    if PurePath(command).name != _CLAUDE:
        return args
    first = () if "-p" in args or "--print" in args else ("-p",)
    last = (SKIP_PERMISSIONS,) if trusts and SKIP_PERMISSIONS not in args else ()
    return (*first, *args, *last)


def _provider_of(command: str) -> str:
    """The provider whose default command is *command*."""
    name = PurePath(command).name
    return "kiro" if name == PROVIDERS["kiro"][0] else GENERIC
