"""`self.llm` of an agent in Python that works on a turn: its usage belongs to the turn."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Reply, Say

import coterie

AGENTS = """
from coterie import AgentProcess

class Thinker(AgentProcess):
    async def handle(self, message):
        first = await self.llm.chat("claude-sonnet-4-6", "one")
        second = await self.llm.chat("claude-sonnet-4-6", "two")
        return self.reply({"text": first.content + second.content})
"""

TEAM = """topology thinking : [pipeline] {
  agent thinker { extensions { coterie { type: thinkers.Thinker } } }
  flow { thinker }
}
"""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "thinkers.py").write_text(AGENTS)
    (tmp_path / "thinking.at").write_text(TEAM)
    yield tmp_path / "thinking.at"
    sys.modules.pop("thinkers", None)
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def run(team: Path, **options: Any) -> coterie.Outcome:
    topology = coterie.load(team)
    return asyncio.run(coterie.run(topology, {"prompt": "x"}, state_dir=team.parent / "state", **options))


def test_what_an_agent_spends_is_spent_by_its_turn(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens and cost of all its requests; the provider needs no declaration, only its key."""
    with FakeModels(Say("Good "), Say("morning.", tokens=(1000, 100))) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        outcome = run(team)

    assert outcome.status == "completed"
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (1100, 120)
    assert outcome.usage.cost > 0


@pytest.mark.parametrize(
    ("last", "tokens"),
    [
        (Refuse(400, "invalid_request_error"), [100, 20]),
        (Say("morn", stop="max_tokens"), [200, 40]),
        (Say("no", stop="refusal"), [200, 40]),
    ],
    ids=["refused request", "cut off", "refusal"],
)
def test_a_failed_turn_keeps_what_it_spent(
    last: Reply, tokens: list[int], team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request had its price, too, and so had an answer that is of no use."""
    with FakeModels(Say("Good "), last) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        outcome = run(team)

    assert outcome.status == "failed"
    assert [outcome.usage.input_tokens, outcome.usage.output_tokens] == tokens
    assert outcome.usage.cost == pytest.approx((3 * tokens[0] + 15 * tokens[1]) / 1e6)


def test_without_a_key_the_turn_fails_with_the_variable_to_set(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only an agent that calls a model needs one."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    assert "ANTHROPIC_API_KEY is not set" in str(run(team).reason)


def test_the_budget_of_a_run_holds_for_agents_in_python(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is spent, no further turn starts."""
    second = "agent again { extensions { coterie { type: thinkers.Thinker } } }"
    team.write_text(TEAM.replace("flow { thinker }", second + "\n flow { thinker -> again }"))
    with FakeModels(Say("Good morning.", tokens=(1000, 100))) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        outcome = run(team, limits=coterie.Limits(max_cost=0.001))

    assert (outcome.status, outcome.reason) == ("stopped", "max_cost")
    assert 1 <= len(models.requests) <= 2
