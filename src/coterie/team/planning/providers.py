"""Choose a model's provider: from the file, else by the model's name.

Pure: the backend reads the environment, when a run needs it. Planning and the backend use the same function, so
changing a plan's model (`fork --model`) chooses the provider again.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coterie.team.options.values import VARIABLE

APIS = ("anthropic", "openai")
"""The supported APIs: Anthropic's messages, and OpenAI's chat completions, which many servers understand."""

ALIASES = {
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
}
"""Model aliases."""


_CLAUDE = re.compile(r"claude(-|$)")
_GPT = re.compile(r"(gpt|chatgpt|o\d+)(-|$)")


class Chosen(Struct, frozen=True, kw_only=True):
    """A model's provider.

    Attributes:
        provider: Its name, from the file or the model.
        api: One of `APIS`.
        model: The provider's name of the model.
        base_url: The address; empty: the environment's, else the provider's own.
        variable: The environment variable of the key; empty if the file gives an address but no key, so that the
            user's key is never sent to an address that did not request it.
    """

    provider: str
    api: str
    model: str
    base_url: str = ""
    variable: str = ""


class Unclear(Struct, frozen=True, kw_only=True):
    """Why no provider was chosen, with a hint."""

    message: str
    hint: str


def choose_provider(model: str, options: Mapping[str, Any]) -> Chosen | Unclear:
    """The provider of *model*, given an agent's *options*.

    The first of these that is set decides: the option `provider`; a prefix of the name, `openai/gpt-…`; a
    declared provider that lists the model; the name itself, `claude…`, `gpt…`, `o3…` or an alias; the provider declared
    as default; the only one that is declared; an address without a provider, which then speaks OpenAI's dialect.
    """
    if not model or model == "inherit":
        return Unclear(
            message="no model is configured" if not model else "'inherit' is not a model name",
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
                hint=f"declared providers: {known}; or give it a base-url (in YAML: base_url)",
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
        message=f"no provider configured for the model {model!r}",
        hint=f"write model: openai/{model}, or set provider and base-url (in YAML: base_url)",
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
