"""What an answer costs does not depend on what its provider makes up."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from coterie.agents.backends.models.usage import OUTPUT_MOST, usage_of


def reply(model: str, used: RequestUsage) -> ModelResponse:
    return ModelResponse(parts=[TextPart("x")], model_name=model, provider_name="openai", usage=used)


def test_the_price_is_that_of_the_requested_model() -> None:
    """A provider that names a cheaper model does not stretch the budget; one that names an unknown one neither."""
    used = RequestUsage(input_tokens=1000, output_tokens=1000)
    costs = {usage_of(reply(name, used), {}, "gpt-4.1").cost for name in ("gpt-4.1", "gpt-4.1-nano", "no-such-model")}
    assert len(costs) == 1
    assert costs.pop() > usage_of(reply("gpt-4.1", used), {}, "gpt-4.1-nano").cost > 0


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        (RequestUsage(input_tokens=10**30, output_tokens=5), (50, 5, 0)),
        (RequestUsage(input_tokens=5, output_tokens=10**30), (5, 70, 0)),
        (RequestUsage(input_tokens=-5, output_tokens=-5), (0, 0, 0)),
        (RequestUsage(input_tokens=10, output_tokens=1, cache_read_tokens=10**9), (10, 1, 10)),
    ],
)
def test_more_tokens_than_are_possible_are_not_counted(told: RequestUsage, counted: tuple[int, int, int]) -> None:
    """Nor fewer than none; the log says so."""
    said: list[str] = []
    used = usage_of(reply("gpt-4.1", told), {"max_tokens": 70}, "gpt-4.1", 50, said.append)
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == counted
    assert used.cost >= 0
    assert said == ["the provider reported more tokens than are possible: 50 and 70 at most are counted\n"]


def test_a_possible_usage_is_counted_as_it_is() -> None:
    """And nothing is said about it."""
    said: list[str] = []
    told = RequestUsage(input_tokens=40, output_tokens=60, cache_read_tokens=10, cache_write_tokens=20)
    used = usage_of(reply("gpt-4.1", told), {}, "gpt-4.1", OUTPUT_MOST, said.append)
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, said) == (40, 60, 10, [])
