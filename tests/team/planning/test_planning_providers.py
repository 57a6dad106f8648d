from typing import Any

import pytest
from bundles import bundle

from coterie.team.planning.providers import ALIASES, Chosen, Unclear, choose_provider

HOUSE = {"house": {"base-url": "http://house/v1", "api-key": "${HOUSE_KEY}", "models": ["zed"]}}
ROUTER = {"router": {"base-url": "http://router/v1"}}


def chosen(model: str, **options: Any) -> Chosen:
    """The provider of *model*, which is clear."""
    found = choose_provider(model, options)
    assert isinstance(found, Chosen), found
    return found


@bundle(
    ("model", "options", "provider", "name"),
    [
        ("claude-sonnet-5-5", {}, "anthropic", "claude-sonnet-5-5"),
        ("sonnet", {}, "anthropic", ALIASES["sonnet"]),
        ("gpt-5", {}, "openai", "gpt-5"),
        ("o3-mini", {}, "openai", "o3-mini"),
        ("anthropic/claude-opus-5-5", {}, "anthropic", "claude-opus-5-5"),
        ("anthropic/opus", {}, "anthropic", ALIASES["opus"]),
        ("openai/my-own", {}, "openai", "my-own"),
        ("house/x", {"providers": HOUSE}, "house", "x"),
        ("zed", {"providers": HOUSE}, "house", "zed"),
        ("gpt-5", {"providers": HOUSE}, "openai", "gpt-5"),
        ("other", {"providers": HOUSE}, "house", "other"),
        ("other", {"providers": HOUSE | {"b": {"base-url": "http://b", "default": True}}}, "b", "other"),
        ("anthropic/claude-x", {"provider": "router", "providers": ROUTER}, "router", "anthropic/claude-x"),
        ("router/qwen/qwen3", {"providers": ROUTER}, "router", "qwen/qwen3"),
        ("qwen", {"base_url": "http://localhost:1/v1"}, "openai", "qwen"),
        ("qwen", {"provider": "mine", "base_url": "http://localhost:1/v1"}, "mine", "qwen"),
        ("gpt-5", {"provider": "anthropic"}, "anthropic", "gpt-5"),
    ],
)
def test_a_provider_is_found(model: str, options: dict[str, Any], provider: str, name: str) -> None:
    """By the option, the prefix, the list of a declared one, the name, the default, an address: in that order."""
    found = chosen(model, **options)

    assert (found.provider, found.model) == (provider, name)


@pytest.mark.parametrize(
    ("model", "options", "api"),
    [
        ("sonnet", {}, "anthropic"),
        ("gpt-5", {}, "openai"),
        ("house/x", {"providers": HOUSE}, "openai"),
        ("house/x", {"providers": {"house": {"base-url": "http://h", "api": "anthropic"}}}, "anthropic"),
    ],
)
def test_a_provider_speaks_a_dialect(model: str, options: dict[str, Any], api: str) -> None:
    """OpenAI's, unless it is Anthropic or says so."""
    assert chosen(model, **options).api == api


def test_a_key_is_looked_up_where_the_file_says() -> None:
    """The agent's word comes before its provider's; an address of the file gets no key that it does not ask for."""
    assert chosen("sonnet").variable == "ANTHROPIC_API_KEY"
    assert chosen("gpt-5").variable == "OPENAI_API_KEY"
    assert chosen("zed", providers=HOUSE).variable == "HOUSE_KEY"
    assert chosen("zed", providers=HOUSE, api_key="${OWN_KEY}").variable == "OWN_KEY"
    assert chosen("sonnet", base_url="http://proxy").variable == ""
    assert chosen("sonnet", base_url="http://proxy", api_key="${ANTHROPIC_API_KEY}").variable == "ANTHROPIC_API_KEY"


def test_an_address_of_the_agent_comes_before_its_providers() -> None:
    """Whoever is nearer decides."""
    assert chosen("zed", providers=HOUSE).base_url == "http://house/v1"
    assert chosen("zed", providers=HOUSE, base_url="http://near").base_url == "http://near"


@bundle(
    ("model", "options", "message"),
    [
        ("", {}, "no model is configured"),
        ("inherit", {}, "'inherit' is not a model name"),
        ("qwen", {}, "no provider configured for the model 'qwen'"),
        ("sonnet", {"provider": "hoose", "providers": HOUSE}, "the provider 'hoose' is not declared"),
        ("x", {"provider": "bare", "providers": {"bare": {}}}, "the provider 'bare' has no address"),
    ],
)
def test_what_is_unclear_says_why(model: str, options: dict[str, Any], message: str) -> None:
    """And what to write."""
    found = choose_provider(model, options)

    assert isinstance(found, Unclear)
    assert message in found.message
    assert found.hint
