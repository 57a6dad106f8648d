"""A provider that breaks every rule: what an attempt sends, counts and does equals the provider's own accounts."""

import asyncio
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from asking import request
from asking_models import MODELS, plan
from fake_models import FakeModels
from faulty_provider import STOPS, TOOL, Faulty, FaultyProvider
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie.agents.backends.base import Answer, Event, Result, Used
from coterie.agents.backends.models.backend import ModelBackend
from coterie.team.planning.plan import AgentPlan

PRICES = (1000.0, 2000.0)
NOTES: list[str] = []


def note(text: str) -> str:
    """Write a note."""
    NOTES.append(text)
    return "noted"


def answers(api: str) -> st.SearchStrategy[Faulty]:
    """Any answer of a provider that breaks the rules."""
    return st.builds(
        Faulty,
        text=st.sampled_from(["", " \n\t", "The answer.", "größer als 😀"]),
        calls=st.integers(0, 2),
        ending=st.sampled_from(["whole", "whole", "whole", "unmarked", "error", *STOPS[api]]),
        events=st.none() | st.integers(0, 12),
        torn=st.booleans(),
        broken=st.booleans(),
        ids=st.sampled_from(["own", "same", "none"]),
        reports=st.booleans(),
        size=st.sampled_from([0, 1, 7]),
    )


class Account(list[Any]):
    """The events of an attempt that has *budget* dollars."""

    def __init__(self, budget: float | None) -> None:
        super().__init__()
        self._budget = budget

    def __call__(self, event: Event) -> None:
        self.append(event)

    async def affords(self) -> bool:
        spent = [event.usage.cost for event in self if isinstance(event, Used)]
        return self._budget is None or spent[-1] < self._budget


async def answered(backend: ModelBackend, agent: AgentPlan, heard: Account) -> Result:
    """The result of one attempt."""
    try:
        session = await backend.start(request(agent, prompt="a question"), heard)
        return await session.result()
    finally:
        await backend.close()


def talk(api: str, script: list[Faulty], most: int, budget: float | None) -> tuple[FaultyProvider, Result, list[Any]]:
    """One attempt with the provider."""
    NOTES.clear()
    provider = FaultyProvider(api, script)
    options = {
        "python_tools": {TOOL: f"{__name__}:note"},
        "max_turns": most,
        "price_in": PRICES[0],
        "price_out": PRICES[1],
    }
    heard = Account(budget)
    with FakeModels(choose=provider) as models:
        backend = ModelBackend(environment=models.environment)
        result = asyncio.run(answered(backend, plan(api, options), heard))
    return provider, result, heard


TEAM = """topology t : [pipeline] {
  extensions { coterie { backend: model  provider: API  price-in: 1000  price-out: 2000  options { max-turns: 4 } } }
  agent writer { model: "MODEL"  prompt: "Write."  extensions { coterie { tools: ["MODULE:note"] } } }
  flow { writer }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("api", STOPS)
@given(data=st.data())
def test_a_run_costs_what_the_provider_charges(api: str, data: st.DataObject) -> None:
    """Over all attempts, up to the end of the run or of its budget, and after a resume with more."""
    lasting = answers(api).filter(
        lambda one: one.ending in ("whole", "length", "filter", "pause")
    )  # no delayed retries
    script = data.draw(
        st.lists(lasting.map(lambda one: replace(one, events=None, reports=True)), min_size=1, max_size=6)
    )
    budget = data.draw(st.sampled_from([0.1, 0.28, 0.5, 2.0]))
    NOTES.clear()
    provider = FaultyProvider(api, script)
    text = TEAM.replace("API", api).replace("MODEL", MODELS[api]).replace("MODULE", __name__)
    with (
        FakeModels(choose=provider) as models,
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in models.environment.items():
            patch.setenv(name, value)
        ended = asyncio.run(coterie.run(text, "hi", state_dir=folder, limits=coterie.Limits(max_cost=budget)))
        assert ended.usage.cost == pytest.approx(dollars(provider))
        assert dollars(provider) < budget + 0.15
        if ended.status == "stopped":
            assert (ended.reason, dollars(provider) >= budget - 1e-9) == ("max_cost", True)
            ended = asyncio.run(coterie.resume(ended.run, state_dir=folder, limits=coterie.Limits(max_cost=50.0)))
    assert ended.status in ("completed", "failed")
    assert ended.usage.cost == pytest.approx(dollars(provider))


def dollars(provider: FaultyProvider) -> float:
    """What the provider charges."""
    return sum(tokens * price for tokens, price in zip(provider.tokens, PRICES, strict=True)) / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("api", STOPS)
@given(data=st.data())
def test_requests_dollars_and_calls_equal_the_providers_accounts(api: str, data: st.DataObject) -> None:
    """Only calls of complete answers are made, each once, and no request is sent beyond a limit."""
    script = data.draw(st.lists(answers(api), min_size=1, max_size=5))
    most, budget = data.draw(st.integers(1, 6)), data.draw(st.none() | st.sampled_from([0.2, 0.28, 0.5]))
    provider, result, heard = talk(api, script, most, budget)
    done, pending, texts, going_on = list[str](), list[tuple[str, str]](), [""], ""
    for number, (answer, may_act) in enumerate(provider.answers):
        if going_on == "paused" and answer.ids == "same" == provider.answers[number - 1][0].ids:
            pending = []  # it is the same answer once more
        texts = texts if going_on == "paused" else [*texts, ""]
        texts[-1] += answer.text
        calls = [f"{number}.{n}" for n in range(answer.calls)]
        pending += [("call" if answer.ids == "same" else call, call) for call in calls]
        is_whole = may_act and answer.ending == "whole"
        is_doubled = len(dict(pending)) < len(pending)  # two calls of one answer have the same id
        going_on = "paused" if may_act and answer.ending == "pause" else ""
        if is_whole and pending and not is_doubled:
            done += [call for _, call in pending]
            pending, going_on = [], "called"
        assert going_on or number == len(provider.answers) - 1, "a request after the end"
    used, said = result.usage, next((text for text in reversed(texts) if text.strip()), "")
    assert sorted(NOTES) == sorted(done)
    assert [used.input_tokens, used.output_tokens] == provider.tokens
    assert used.cost == pytest.approx(dollars(provider))
    assert [event.usage.cost for event in heard if isinstance(event, Used)][-1:] in ([used.cost], [])
    assert len(provider.answers) <= most
    if isinstance(result, Answer):
        assert (is_whole, pending, going_on, result.text) == (True, [], "", said)
    elif going_on:
        is_spent = budget is not None and dollars(provider) >= budget
        assert result.kind == ("failed" if len(provider.answers) == most else "interrupted" if is_spent else "none")
    elif is_whole:
        assert (result.kind, is_doubled or not said) == ("invalid_output", True), result
    elif may_act and answer.ending != "error":
        kinds = {"filter": "refused", "length": "failed", "window": "failed", "aborted": "transient"}
        assert result.kind == kinds[answer.ending]
    else:
        assert result.kind == "transient", result
