"""The provider `litellm`."""

import asyncio
import importlib.util
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Say, text_of

from coterie.agents.actors.plugins.litellm import LiteLLMProvider
from coterie.agents.actors.plugins.loading import make
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.errors import CallFailed, ExtraMissing, PluginError
from coterie.team.planning.system import PluginPlan

pytestmark = [  # the library's use of pydantic
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class:UserWarning"),
]


def needs_library(test: Any) -> Any:
    """Skip *test* without the library, whose import takes ten seconds."""
    is_missing = importlib.util.find_spec("litellm") is None
    return pytest.mark.slow(pytest.mark.skipif(is_missing, reason="needs an environment with coterie[litellm]")(test))


def asked(models: FakeModels, call: Any, **settings: Any) -> Any:
    provider = LiteLLMProvider("openai/gpt-4o", api_base=f"{models.url}/v1", api_key=models.key, **settings)
    return asyncio.run(call(Plugins([provider]).models))


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="the library is installed")
def test_without_the_library_the_error_says_how_to_install_it() -> None:
    """Before agents start, and not only at the first request."""
    with pytest.raises(
        ExtraMissing, match=r"the model plugin 'litellm' needs 'litellm'.*pip install 'coterie\[litellm\]'"
    ):
        Plugins([LiteLLMProvider()]).check()
    with pytest.raises(
        PluginError, match=r"^plugins.models.0: .* needs 'litellm', which .*; pip install 'coterie\[litellm\]'$"
    ):
        make("model", PluginPlan(type="litellm"), "plugins.models.0")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@needs_library
def test_a_model_answers_and_uses_tools(capfd: pytest.CaptureFixture[str]) -> None:
    """As with every other provider; nothing is printed."""
    with FakeModels(Say("Let me see.", calls=[("add", {"a": 1, "b": 2})]), Say("Three.", tokens=(30, 4))) as models:
        response = asked(models, lambda llm: llm.answer("How much?", tools=[add]), temperature=0.5)

    assert (response.content, response.tokens_in, response.tokens_out) == ("Three.", 30, 4)
    assert response.cost_usd is not None
    assert models.requests[0]["temperature"] == 0.5
    assert models.requests[0]["tools"][0]["function"]["description"] == "Add two numbers."
    assert '"3"' in text_of(models.requests[1])
    assert capfd.readouterr() == ("", "")


@needs_library
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Refuse(401, "authentication_error"), "auth"),
        (Refuse(429, "rate_limit_error"), "rate_limited"),
        (Refuse(500, "server_error"), "transient"),
        (Say("Half", stop="length"), "failed"),
    ],
)
def test_a_failure_has_a_kind(reply: Any, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The kinds are those of turns."""
    with FakeModels(reply) as models, pytest.raises(CallFailed) as caught:
        asked(models, lambda llm: llm.chat(messages="x"), max_retries=0)
    assert caught.value.kind == kind
    assert capfd.readouterr().out == ""


@needs_library
def test_retries_are_those_of_the_provider() -> None:
    """A passing failure is repeated."""
    with FakeModels(Refuse(429, "rate_limit_error"), Say("At last.")) as models:
        assert asked(models, lambda llm: llm.chat(messages="x"), max_retries=1).content == "At last."
