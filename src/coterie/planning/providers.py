"""Which provider a model is asked from: by what the file says, else by the model's name.

Pure: the environment is read by the backend, when a run needs it. Planning and the backend decide by the same function,
so a plan whose model is changed (`fork --model`) is decided anew.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

APIS = ("anthropic", "openai")
"""The dialects that are spoken: Anthropic's messages, and OpenAI's chat completions, which many servers understand."""

ALIASES = {
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
}
"""Short names of models that every file may use."""

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable, the one form in which a file may give a key."""

_CLAUDE = re.compile(r"claude(-|$)")
_GPT = re.compile(r"(gpt|chatgpt|o\d+)(-|$)")


class Chosen(Struct, frozen=True, kw_only=True):
    """Where a model is asked.

    Attributes:
        provider: Its name, as the file or the model says it.
        api: One of `APIS`.
        model: The model's name as the provider knows it.
        base_url: The address; empty: the environment's, else the provider's own.
        variable: The environment variable that holds the key; empty when the file gives an address and no key: no key
            of the user's goes to an address that did not ask for it.
    """

    provider: str
    api: str
    model: str
    base_url: str = ""
    variable: str = ""


class Unclear(Struct, frozen=True, kw_only=True):
    """Why no provider could be chosen, and what to do."""

    message: str
    hint: str


def choose_provider(model: str, options: Mapping[str, Any]) -> Chosen | Unclear:
    """The provider of *model*, given an agent's *options*.

    The first of these that says something decides: the option `provider`; a prefix of the name, `openai/gpt-…`; a
    declared provider that lists the model; the name itself, `claude…`, `gpt…`, `o3…` or an alias; the provider declared
    as default; the only one that is declared; an address without a provider, which then speaks OpenAI's dialect.
    """
    if not model or model == "inherit":
        return Unclear(
            message="no model is named" if not model else "'inherit' names no model: there is nobody to inherit from",
            hint="write model: sonnet, model: openai/gpt-…, or the name that its provider uses",
        )
    declared: Mapping[str, Mapping[str, Any]] = options.get("providers", {})
    prefix, slash, rest = model.partition("/")
    prefixed = bool(slash) and (prefix in declared or prefix in APIS)
    if name := options.get("provider"):
        if name not in declared and name not in APIS and not options.get("base_url"):
            known = ", ".join(sorted({*declared, *APIS}))
            return Unclear(
                message=f"the provider {name!r} is not declared",
                hint=f"there are {known}; or give it a base-url (in YAML: base_url)",
            )
        return _chosen(name, rest if prefixed and prefix == name else model, options)
    if prefixed:
        return _chosen(prefix, rest, options)
    for name, said in declared.items():
        if model in said.get("models", ()):
            return _chosen(name, model, options)
    if named := _by_name(model):
        return _chosen(named, model, options)
    default = next((name for name, said in declared.items() if said.get("default") is True), "")
    if not default and len(declared) == 1:
        default = next(iter(declared))
    if default:
        return _chosen(default, model, options)
    if options.get("base_url"):
        return _chosen("openai", model, options)
    return Unclear(
        message=f"nothing says who provides the model {model!r}",
        hint=f"write model: openai/{model}, or say who provides it: provider, and base-url (in YAML: base_url)",
    )


def _chosen(name: str, model: str, options: Mapping[str, Any]) -> Chosen | Unclear:
    said: Mapping[str, Any] = options.get("providers", {}).get(name, {})
    api = str(said.get("api") or (name if name in APIS else "openai"))
    base_url = str(options.get("base_url") or said.get("base-url") or "")
    key = str(options.get("api_key") or said.get("api-key") or "")
    found = VARIABLE.fullmatch(key)
    if name not in APIS and not base_url:
        return Unclear(message=f"the provider {name!r} has no address", hint="give it a base-url (in YAML: base_url)")
    usual = "" if base_url else f"{api.upper()}_API_KEY"
    return Chosen(
        provider=name,
        api=api,
        model=ALIASES.get(model, model) if api == "anthropic" else model,
        base_url=base_url,
        variable=found[1] if found else usual,
    )


def _by_name(model: str) -> str:
    if model in ALIASES or _CLAUDE.match(model):
        return "anthropic"
    return "openai" if _GPT.match(model) else ""
