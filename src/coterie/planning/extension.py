"""Read and validate the blocks `extensions { coterie { … } }`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct

from coterie.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.options.backends import ATTENTION_POLICIES, BACKENDS, INTERRUPT_POLICIES, SANDBOXES, backend_hint
from coterie.planning.providers import VARIABLE
from coterie.topology.conditions import as_text, is_number

Report = Callable[[Diagnostic], None]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_QUEUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9:./_-]{0,98}[A-Za-z0-9])?")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Extension(Struct, frozen=True, kw_only=True):
    """The values of one block; missing fields are empty.

    Attributes:
        type: The class of an agent in Python, as a dotted path.
        ask: The name of an agent of the system that the team is part of.
        timeout: Seconds.
        api_key: A reference to an environment variable, `${NAME}`.
        tools: Python functions for a model, `module:function`, by tool name.
        price_in: US dollars per million input tokens; *price_out* per million output tokens.
        mode: The mode or agent of a coding agent's session.
        attention: `ask`: a person answers its permission requests.
        attention_timeout: Seconds until *attention_policy* answers.
        stall_after: Seconds without a sign of life after which it is listed as stuck; 0: never.
        gates: Commands that must succeed before its answer is accepted.
        gate_timeout: Seconds for each of them.
        queue: The queue of the nodes of a cluster that may perform its turns.
        given: The keys it has, including those with invalid values.
        spans: The span of each value.
    """

    backend: str = ""
    command: tuple[str, ...] = ()
    topology: str = ""
    pattern: str = ""
    type: str = ""
    ask: str = ""
    timeout: float | None = None
    cwd: str = ""
    env: Mapping[str, str] = {}
    prompt_via: str = ""
    on_interrupt: str = ""
    queue: str = ""
    options: Mapping[str, Any] = {}
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    tools: Mapping[str, str] = {}
    price_in: float | None = None
    price_out: float | None = None
    mode: str = ""
    trust_all_tools: bool | None = None
    attention: str = ""
    attention_timeout: float | None = None
    attention_policy: str = ""
    sandbox: str = ""
    stall_after: float | None = None
    gates: tuple[tuple[str, ...], ...] = ()
    gate_timeout: float | None = None
    given: frozenset[str] = frozenset()
    spans: Mapping[str, Span] = {}


PROCESS_KEYS = ("timeout", "cwd", "env", "on-interrupt", "queue")
"""Keys of an action and a gate."""
MODEL_KEYS = ("provider", "base-url", "api-key", "tools", "price-in", "price-out")
"""Keys for models."""
CODING_KEYS = (
    "mode",
    "trust-all-tools",
    "attention",
    "attention-timeout",
    "attention-policy",
    "sandbox",
    "stall-after",
    "gates",
    "gate-timeout",
)
"""Keys for coding agents; some are for other backends, too."""
DEFAULT_KEYS = ("backend", "command", "prompt-via", "options", *MODEL_KEYS, *CODING_KEYS, *PROCESS_KEYS)
"""Keys of the topology's block, for all nodes."""
ACTOR_KEYS = ("type", "ask")
"""Keys of an agent in Python."""
AGENT_KEYS = ("topology", "pattern", *ACTOR_KEYS, *DEFAULT_KEYS)
"""Keys of an agent."""
HUMAN_KEYS = ("timeout",)
"""Keys of a human."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "prompt-via": ("stdin", "file"),
    "on-interrupt": INTERRUPT_POLICIES,
    "attention": ("ask",),
    "attention-policy": ATTENTION_POLICIES,
    "sandbox": SANDBOXES,
}
"""The words that are valid for a key."""


class _Wrong(Exception):
    """An invalid value; the message says what is expected."""

    def __init__(self, wanted: str, code: str = "bad-value", hint: str = "", *, secret: bool = False) -> None:
        self.wanted, self.code, self.hint, self.secret = wanted, code, hint, secret


def read_extension(
    value: Mapping[str, Any],
    keys: tuple[str, ...],
    owner: str,
    spans: Mapping[str, Span | None],
    report: Report,
    called: Mapping[str, str] | None = None,
) -> Extension:
    """*value* as an `Extension`; invalid entries are reported and skipped.

    Args:
        keys: The valid keys.
        owner: The owner for messages, `agent 'writer'`.
        spans: The span of each value by key; of the whole block under the empty name.
        called: The file's names of keys, where they differ.
    """
    read: dict[str, Any] = {}
    for key, given in value.items():
        span = spans.get(key) or spans.get("")
        if key not in keys:
            hint = did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"
            report(warning("unknown-key", f"{key!r} has no meaning in the coterie extension of {owner}", span, hint))
            continue
        try:
            read[key.replace("-", "_")] = _READ[key](given)
        except _Wrong as wrong:
            found = "this value" if wrong.secret else _brief(given)
            message = f"{(called or {}).get(key, key)!r} of {owner} must be {wrong.wanted}, not {found}"
            report(replace(error(wrong.code, message, span, wrong.hint), secret=wrong.secret))
    places = {key: span for key in value if (span := spans.get(key) or spans.get(""))}
    return Extension(**read, given=frozenset(value), spans=places)


def known_backend(name: Any) -> str:
    """*name*, if a backend has it."""
    if not isinstance(name, str) or name not in BACKENDS:
        raise _Wrong("a backend", "unknown-backend", backend_hint(str(name)))
    return name


def _command(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        words = ", ".join(f'"{word}"' for word in value.split())
        raise _Wrong("a list of words", hint=f"no shell is used: write command: [{words}]")
    if not isinstance(value, list | tuple) or not value or not all(map(_is_scalar, value)) or value[0] == "":
        raise _Wrong("a list of words", hint='write command: ["program", "argument"]')
    return tuple(as_text(word) if not isinstance(word, str) else word for word in value)


def _commands(value: Any) -> tuple[tuple[str, ...], ...]:
    hint = 'write gates: [["make", "test"]]'
    try:
        if isinstance(value, list | tuple) and value:
            return tuple(map(_command, value))
    except _Wrong:
        pass
    raise _Wrong("a list of commands, each a list of words", hint=hint)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _Wrong("a text")
    return value


def _class(value: Any) -> str:
    if not isinstance(value, str) or not _CLASS.fullmatch(value):
        raise _Wrong("the dotted path of a class", hint="write type: myapp.agents.Writer")
    return value


def _seconds(value: Any) -> float:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        value = float(found[1]) * _UNITS[found[2]]
    if not is_number(value) or not 0 < value < float("inf"):
        raise _Wrong("a duration", hint="write 30s, 5m or 1h; a number counts seconds")
    return float(value)


def _seconds_or_never(value: Any) -> float:
    """As `_seconds`, or 0 for never."""
    return 0.0 if is_number(value) and value == 0 else _seconds(value)


def _env(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise _Wrong("a block of names and texts", hint='write NAME: "value" in it')
    return {name: text if isinstance(text, str) else as_text(text) for name, text in value.items()}


def _options(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _Wrong("a block", hint="write options { name: value }")
    if key := next((key for name in value if (key := name.replace("_", "-")) in CODING_KEYS), ""):
        raise _Wrong(f"a block without {key!r}", hint=f"write {key} beside options, not in them")
    return dict(value)


def _url(value: Any) -> str:
    if not isinstance(value, str) or not re.match(r"https?://[^\s/]", value):
        raise _Wrong("an address", hint="write https://… or http://…")
    return value.rstrip("/")


def _api_key(value: Any) -> str:
    if not isinstance(value, str) or not VARIABLE.fullmatch(value):
        hint = "keep the key out of the file: export it as PROVIDER_KEY and refer to that"
        raise _Wrong('a reference to an environment variable, "${PROVIDER_KEY}"', "key-in-file", hint, secret=True)
    return value


def _tools(value: Any) -> dict[str, str]:
    """`["module:function", …]`, known by the function's name, or `{ name: "module:function" }`."""
    if isinstance(value, list | tuple):
        value = {str(path).rpartition(":")[2]: path for path in value}
    if not isinstance(value, Mapping) or not all(map(_is_path, value.values())):
        raise _Wrong(
            "a list of functions", hint='write tools: ["module:function"] or tools { name: "module:function" }'
        )
    if wrong := next((name for name in value if not _TOOL_NAME.fullmatch(name)), None):
        raise _Wrong(
            "a block of functions by name", hint=f"a model cannot call {wrong!r}: use letters, digits, _ and -"
        )
    return dict(value)


def _queue(value: Any) -> str:
    if not isinstance(value, str) or not _QUEUE.fullmatch(value):
        raise _Wrong("a name", hint="write letters, digits, and : . / _ - between them: queue: gpu")
    return value


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and _FUNCTION.fullmatch(value) is not None


def _price(value: Any) -> float:
    if not is_number(value) or not 0 <= value < float("inf"):
        raise _Wrong("a price", hint="write US dollars for a million tokens: 2.5")
    return float(value)


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise _Wrong(f"one of {', '.join(choices)}", hint=did_you_mean(str(value), choices))
        return str(value)

    return read


_READ: Mapping[str, Callable[[Any], Any]] = {
    "backend": known_backend,
    "command": _command,
    "topology": _text,
    "pattern": _text,
    "type": _class,
    "ask": _text,
    "timeout": _seconds,
    "cwd": _text,
    "env": _env,
    **{key: _one_of(*words) for key, words in CHOICES.items()},
    "queue": _queue,
    "options": _options,
    "provider": _text,
    "base-url": _url,
    "api-key": _api_key,
    "tools": _tools,
    "price-in": _price,
    "price-out": _price,
    "mode": _text,
    "trust-all-tools": _flag,
    "attention-timeout": _seconds,
    "stall-after": _seconds_or_never,
    "gates": _commands,
    "gate-timeout": _seconds,
}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a block"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(as_text(value))
