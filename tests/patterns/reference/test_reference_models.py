"""Without a `_call_llm` of its own a topology asks the provider of the model, as it is in the environment."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Say
from reference_play import agent, team

from coterie.execution.runs.repository import find
from coterie.history.journal.records import AttemptFailed
from coterie.patterns import BaseTopology, EnsembleConfig, ExecutionContext, Topology, TopologyType


class Chat(BaseTopology):
    """Asks its agent with a chat."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        got = await self.invoke_agent("a", context.input_data["chat"], context)
        return {"said": got.text, "error": got.error, "usage": got.token_usage}


def chat(
    models: FakeModels,
    monkeypatch: pytest.MonkeyPatch,
    *said: tuple[str, str],
    state: Path | None = None,
    **config: Any,
) -> dict[str, Any]:
    """What comes of a chat whose model *models* is; *state*: where its journal is kept."""
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)
    made = Chat(
        Topology(name="chat", description="chat", topology_type=TopologyType.ENSEMBLE),
        {"a": agent("a", model="claude-haiku-4-5", temperature=0.25, max_tokens=99, **config)},
    )
    messages = [{"role": role, "content": text} for role, text in said]
    options: dict[str, Any] = {"durable": False} if state is None else {"state_dir": state}
    output = asyncio.run(made.execute({"chat": messages}, **options)).output_data
    assert output is not None
    return output


def test_a_chat_reaches_the_provider_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """System prompt, turns of the chat, temperature and length; what it used comes back."""
    with FakeModels(Say("fine", tokens=(7, 3))) as models:
        output = chat(
            models, monkeypatch, ("user", "one"), ("assistant", "two"), ("user", "three"), system_prompt="Be brief."
        )
        [body] = models.requests

    assert (output["said"], output["error"]) == ("fine", None)
    assert output["usage"] == {"input_tokens": 7, "output_tokens": 3}
    assert (body["temperature"], body["max_tokens"]) == (0.25, 99)
    assert "Be brief." in str(body["system"])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_half_an_answer_is_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it used is in the journal, with the failure of the call."""
    with FakeModels(Say("half", stop="max_tokens", tokens=(7, 3))) as models:
        output = chat(models, monkeypatch, ("user", "one"), state=tmp_path, max_retries=0)
    runs, run = find("last", tmp_path)
    [used] = [record.usage for record in runs.read(run) if isinstance(record, AttemptFailed)]

    assert "cut off at max-tokens" in output["error"]
    assert (used.input_tokens, used.output_tokens, used.cost) == (7, 3, pytest.approx(22e-6))


def test_what_a_provider_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the call's error; its kind says that trying again is of no use."""
    with FakeModels(Refuse(401, "authentication_error", "bad key")) as models:
        output = chat(models, monkeypatch, ("user", "one"), max_retries=3)
        assert len(models.requests) == 1
    assert "bad key" in output["error"]


def test_a_topology_of_ours_asks_providers_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The members of an ensemble, at once, over the same connections."""
    with FakeModels(Say("4")) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        agents = {f"ensemble_{n}": agent(f"e{n}", model="claude-haiku-4-5") for n in range(3)}
        made = team("ensemble", agents, aggregation_method="vote")
        output = asyncio.run(made.execute({"prompt": "2+2"}, state_dir=tmp_path)).output_data
    assert output is not None
    assert output["aggregated_result"] == "4"
