"""`self.llm`: providers over the real clients, and the choice between them."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Say, Send, as_event, openai, text_of

from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.plugins.providers import AnthropicProvider, HttpProvider, OpenAIProvider
from coterie.agents.backends.models.response import ModelResponse
from coterie.errors import CallFailed, PluginError, ToolFailed

for one in ("anthropic", "openai"):  # these take seconds, which no test pays for
    pytest.importorskip(f"coterie.agents.backends.models.{one}")

PROVIDERS: dict[str, type[HttpProvider]] = {"anthropic": AnthropicProvider, "openai": OpenAIProvider}
MODELS = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-4o"}


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)


def use(models: FakeModels, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)


def asked(plugins: Plugins, call: Callable[[Plugins], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        try:
            return await call(plugins)
        finally:
            await plugins.close()

    return asyncio.run(main())


def test_a_model_answers(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text, its tokens and its price; the conversation reaches it in order."""
    with FakeModels(Say("Good morning.", tokens=(1000, 100))) as models:
        use(models, monkeypatch)
        plugins = Plugins([PROVIDERS[api](default_model=MODELS[api])])
        talk = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ]
        response: ModelResponse = asked(plugins, lambda it: it.models.chat(messages=talk))

    assert (response.content, response.provider) == ("Good morning.", api)
    assert (response.tokens_in, response.tokens_out) == (1000, 100)
    assert response.cost_usd is not None
    assert 0 < response.cost_usd < 0.1
    assert models.requests[0]["model"] == MODELS[api]
    said = json.dumps(models.requests[0])
    assert said.index("Be brief.") != -1
    assert text_of(models.requests[0]).index("one") < text_of(models.requests[0]).index("three")


def test_an_unknown_price_is_none_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """In USD for a million tokens."""
    with FakeModels(Say("Hi.", tokens=(1000, 100))) as models:
        use(models, monkeypatch)
        for prices, cost in (({}, None), ({"price_in": 3.0, "price_out": 15.0}, 0.0045)):
            provider = AnthropicProvider("claude-unheard-of", **prices)
            assert asked(Plugins([provider]), lambda it: it.models.chat(messages="x")).cost_usd == cost


def test_config_reaches_the_request(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`max_tokens` and other settings of the provider, which a request may override."""
    name = "max_tokens" if api == "anthropic" else "max_completion_tokens"
    with FakeModels(Say("Yes.")) as models:
        use(models, monkeypatch)
        plugins = Plugins([PROVIDERS[api](MODELS[api], max_tokens=77, temperature=0.5)])

        async def twice(it: Plugins) -> None:
            await it.models.chat(messages="Really?")
            await it.models.chat("", "Really?", max_tokens=33)

        asked(plugins, twice)

    assert [request[name] for request in models.requests] == [77, 33]
    assert models.requests[0]["temperature"] == 0.5


def test_retries_are_those_of_the_provider(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passing failure is repeated `max_retries` times, then it is an error with its kind."""
    limit = Refuse(429, "rate_limit_error", "slow down", {"retry-after-ms": "1"})
    for retries, works in ((3, True), (1, False), (0, False)):
        with FakeModels(limit, limit, Say("At last.")) as models:
            use(models, monkeypatch)
            plugins = Plugins([PROVIDERS[api](MODELS[api], max_retries=retries)])
            if works:
                assert asked(plugins, lambda it: it.models.chat(messages="x")).content == "At last."
            else:
                with pytest.raises(CallFailed, match="limits the rate of requests: 429 slow down") as caught:
                    asked(plugins, lambda it: it.models.chat(messages="x"))
                assert caught.value.kind == "rate_limited"
                assert len(models.requests) == retries + 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Refuse(401, "authentication_error"), "auth"),
        (Refuse(404, "not_found_error"), "not_found"),
        (Refuse(400, "invalid_request_error"), "failed"),
        (Say("Half", stop="max_tokens"), "failed"),
        (Say("Hal", drop=3), "transient"),
    ],
)
def test_a_failure_has_a_kind(reply: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds are those of turns."""
    with FakeModels(reply) as models:
        use(models, monkeypatch)
        with pytest.raises(CallFailed) as caught:
            asked(Plugins([AnthropicProvider("claude-x", max_retries=0)]), lambda it: it.models.chat(messages="x"))
    assert caught.value.kind == kind


@pytest.mark.parametrize("stop", ["pause_turn", "max_tokens", "refusal"])
def test_half_an_answer_is_no_answer_and_has_its_price(stop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what it used; no call of a tool in it is handed out."""
    with FakeModels(Say("half", calls=[("add", {"a": 1})], stop=stop, tokens=(1000, 100))) as models:
        use(models, monkeypatch)
        plugins = Plugins([AnthropicProvider(default_model=MODELS["anthropic"])])
        with pytest.raises(CallFailed) as failed:
            asked(plugins, lambda plugins: plugins.models.chat(messages="hi"))

    assert failed.value.usage == {"input_tokens": 1000, "output_tokens": 100, "cost": pytest.approx(0.0045)}


def test_an_answer_without_usage_has_no_known_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that are compatible with a provider often leave it out."""
    events = [
        event for event in openai(Say("hi"), {"model": "gpt-4o", "messages": []}) if "usage" not in (event[1] or {})
    ]
    with FakeModels(Send(b"".join(as_event(*event) for event in events))) as models:
        use(models, monkeypatch)
        plugins = Plugins([OpenAIProvider(default_model="gpt-4o")])
        response = asked(plugins, lambda plugins: plugins.models.chat(messages="hi"))

    assert (response.content, response.tokens_in, response.cost_usd) == ("hi", 0, None)


def test_no_secret_leaves_in_an_answer_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key, nor another secret of the environment, nor a key given in Python."""
    monkeypatch.setenv("OTHER_TOKEN", "hush-hush-hush")
    with FakeModels(Say("It is hush-hush-hush."), key="key-in-python") as models:
        use(models, monkeypatch)
        one = AnthropicProvider("claude-x", api_key="key-in-python")
        assert asked(Plugins([one]), lambda it: it.models.chat(messages="x")).content == "It is ***."
        wrong = AnthropicProvider("claude-x", api_key="wrong-key-in-python", max_retries=0)
        with pytest.raises(CallFailed, match=r"the key \*\*\* is not known"):
            asked(Plugins([wrong]), lambda it: it.models.chat(messages="x"))


def test_a_cassette_answers_without_key_and_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`COTERIE_CASSETTE` holds for agents in Python, too."""
    with FakeModels(Say("Recorded.")) as models, monkeypatch.context() as patch:
        use(models, patch)
        patch.setenv("COTERIE_CASSETTE", f"record:{tmp_path / 'talk.jsonl'}")
        asked(Plugins([AnthropicProvider("claude-x")]), lambda it: it.models.chat(messages="x"))
    monkeypatch.setenv("COTERIE_CASSETTE", str(tmp_path / "talk.jsonl"))
    plugins = Plugins([AnthropicProvider("claude-x")])

    plugins.check()
    assert asked(plugins, lambda it: it.models.chat(messages="x")).content == "Recorded."


def test_a_missing_key_is_found_before_agents_start() -> None:
    """With the variable to set; another may be named."""
    with pytest.raises(PluginError, match=r"ANTHROPIC_API_KEY is not set; export ANTHROPIC_API_KEY=…, or name another"):
        Plugins([AnthropicProvider()]).check()
    with pytest.raises(PluginError, match="the environment variable MY_KEY is not set"):
        Plugins([OpenAIProvider(api_key_env="MY_KEY")]).check()
    with pytest.raises(CallFailed, match="ANTHROPIC_API_KEY is not set"):
        asked(Plugins([AnthropicProvider("claude-x")]), lambda it: it.models.chat(messages="x"))


def test_a_server_of_ones_own_gets_no_key_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key goes only where it was meant to."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    with FakeModels(Say("Local."), key="no-key-wanted") as models:
        plugins = Plugins([OpenAIProvider("llama", base_url=f"{models.url}/v1")])
        plugins.check()
        assert asked(plugins, lambda it: it.models.chat(messages="x")).content == "Local."


def test_several_providers_are_chosen_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, a prefix, or the list of a provider; without a model, the first default."""
    with FakeModels(Say("Yes.")) as models:
        use(models, monkeypatch)
        local = OpenAIProvider(
            name="local", base_url=f"{models.url}/v1", api_key_env="OPENAI_API_KEY", models=["llama"]
        )
        plugins = Plugins([OpenAIProvider(), AnthropicProvider("claude-sonnet-4-6"), local])

        async def main(it: Plugins) -> list[tuple[str, str]]:
            found = []
            for model in ("", "gpt-4o", "claude-opus-4-6", "sonnet", "llama", "local/qwen", "openai/llama"):
                response = await it.models.chat(model, "x")
                found.append((response.provider, models.requests[-1]["model"]))
            with pytest.raises(CallFailed, match=r"none of the providers openai, anthropic, local serves .* 'qwen'"):
                await it.models.chat("qwen", "x")
            return found

        assert asked(plugins, main) == [
            ("anthropic", "claude-sonnet-4-6"),
            ("openai", "gpt-4o"),
            ("anthropic", "claude-opus-4-6"),
            ("anthropic", "claude-sonnet-5-5"),
            ("local", "llama"),
            ("local", "qwen"),
            ("openai", "llama"),
        ]


def test_without_a_provider_the_error_says_how_to_declare_one() -> None:
    """The rest of the system works without models."""
    with pytest.raises(
        CallFailed, match=r"no model provider: declare one under plugins.models, or pass model_provider="
    ):
        asked(Plugins(), lambda it: it.models.chat("claude-x", "x"))


def add(a: int, b: list[int] | None = None) -> int:
    """Add numbers.

    Every one of them.
    """
    return a + sum(b or [])


class Weather:
    """Look the weather up."""

    name = "weather"

    async def __call__(self, place: str) -> dict[str, Any]:
        if place == "nowhere":
            raise LookupError("no such place")
        return {"place": place, "sky": "blue"}


def test_a_model_uses_tools(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are described, called with checked arguments, and their results and errors returned to the model."""
    calls = [("add", {"a": 1, "b": [2, 3]}), ("weather", {"place": "nowhere"}), ("add", {"a": "one"}), ("sub", {})]
    with FakeModels(Say("Let me see.", calls=calls), Say("Six, and blue.")) as models:
        use(models, monkeypatch)
        plugins = Plugins([PROVIDERS[api](MODELS[api])], tools=[add, Weather()])
        response = asked(plugins, lambda it: it.models.answer("How much?", tools=it.tools))

    assert response.content == "Six, and blue."
    tools = [one.get("function", one) for one in models.requests[0]["tools"]]
    assert [(tool["name"], tool["description"]) for tool in tools] == [
        ("add", "Add numbers.\n\nEvery one of them."),
        ("weather", "Look the weather up."),
    ]
    schema = tools[0].get("input_schema") or tools[0]["parameters"]
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["type"] == "integer"
    results = text_of(models.requests[1])
    assert [one["role"] for one in models.requests[1]["messages"] if one["role"] != "system"][:2] == [
        "user",
        "assistant",
    ]
    assert '"6"' in results
    assert "error: the tool 'weather': LookupError: no such place" in results
    assert "error: the tool 'add': invalid arguments: Expected `int`, got `str` - at `$.a`" in results
    assert "error: the tool 'sub': no such tool; there are: add, weather" in results


def test_tools_are_offered_by_name_or_as_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that are given; `chat` returns the calls that the model wants and makes none."""
    with FakeModels(Say(calls=[("add", {"a": 1})])) as models:
        use(models, monkeypatch)
        plugins = Plugins([AnthropicProvider("claude-x")], tools=[Weather()])

        async def main(it: Plugins) -> None:
            response = await it.models.chat(messages="x", tools=["weather", add])
            assert [(one.name, one.arguments) for one in response.tool_calls] == [("add", {"a": 1})]
            with pytest.raises(CallFailed, match="asked for tools in 2 requests and gave no answer"):
                await it.models.answer("x", tools=[add], rounds=2)
            assert await it.tools.call("weather", place="here") == {"place": "here", "sky": "blue"}

        asked(plugins, main)
    assert [tool["name"] for tool in models.requests[0]["tools"]] == ["weather", "add"]
    assert len(models.requests) == 3


def test_arguments_that_a_tool_does_not_have_are_refused() -> None:
    """Missing ones, too; the function is not called."""
    called: list[int] = []

    def take(n: int, m: int = 2) -> int:
        called.append(n + m)
        return n + m

    async def main(it: Plugins) -> None:
        with pytest.raises(ToolFailed, match=r"the tool 'take': invalid arguments: .*unknown field `p`"):
            await it.tools.call("take", n=1, p=2)
        with pytest.raises(ToolFailed, match=r"the tool 'take': invalid arguments: .*missing required field `n`"):
            await it.tools.call("take")
        with pytest.raises(ToolFailed, match="the tool 'takes': no such tool; did you mean 'take'"):
            await it.tools.call("takes")
        assert await it.tools.call("take", n=1) == 3

    asked(Plugins(tools=[take]), main)
    assert called == [3]


def test_the_only_provider_serves_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its models may have names that nothing here knows."""
    with FakeModels(Say("Yes.")) as models:
        use(models, monkeypatch)
        asked(Plugins([AnthropicProvider()]), lambda it: it.models.chat("unheard-of", "x"))
    assert models.requests[0]["model"] == "unheard-of"


def test_two_tools_of_one_name_are_refused() -> None:
    """A model could not tell them apart."""
    with pytest.raises(PluginError, match="tool plugin 'add': two tools have this name"):
        Plugins(tools=[add, add])


def test_a_provider_of_a_user_needs_only_chat() -> None:
    """It serves what no other does, and is closed if it can be."""
    closed: list[bool] = []

    class Mine:
        async def chat(self, model: str, messages: Any, tools: Any = None) -> ModelResponse:
            return ModelResponse(content=f"{model}: {messages[-1]['content']}")

        async def close(self) -> None:
            closed.append(True)

    plugins = Plugins([OpenAIProvider(), Mine()])
    assert asked(plugins, lambda it: it.models.chat("anything", "hello")).content == "anything: hello"
    assert closed == [True]


def test_a_request_ends_when_its_agent_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out of a handler ends the request to the provider at once."""
    released = threading.Event()

    async def main(it: Plugins) -> None:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def hold() -> bool:
            loop.call_soon_threadsafe(arrived.set)
            return released.wait(0.02)

        with FakeModels(Say("Too late.", hold=hold)) as models:
            use(models, monkeypatch)
            request = asyncio.ensure_future(it.models.chat(messages="x"))
            await arrived.wait()
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            assert await asyncio.to_thread(models.dropped.wait, 30)
            released.set()

    asked(Plugins([AnthropicProvider("claude-x")]), main)
