"""Runs of models under `--max-cost` and `max-turns`, whose provider pauses its answers for as long as it is asked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Reply, Say, text_of

import coterie
from coterie.history.journal.records import AttemptInterrupted, Record

PAUSED = Say("wait. ", stop="pause_turn", tokens=(100, 10))
"""At 1,000 dollars for a million tokens, it costs 0.11 dollars."""
TEAM = """topology t : [pipeline, fan-out] {
  extensions { coterie { backend: model  price-in: 1000  price-out: 1000  OPTIONS } }
  AGENTS
}
"""


class Place:
    """A folder with a team of models.

    Attributes:
        records: Those of the runs, by what they are.
    """

    def __init__(self, folder: Path, models: FakeModels, options: str = "", agents: str = "") -> None:
        self.folder, self.models, self.records = folder, models, list[Record]()
        agents = agents or 'agent writer { model: "claude-sonnet-5-5"  prompt: "Write." }  flow { writer }'
        (folder / "team.at").write_text(TEAM.replace("OPTIONS", options).replace("AGENTS", agents))

    def run(self, **limits: Any) -> coterie.Outcome[Any]:
        """Run it."""
        return asyncio.run(coterie.run(self.folder / "team.at", "hi", **self._options(limits)))

    def resume(self, run: str, **limits: Any) -> coterie.Outcome[Any]:
        """Resume *run*."""
        return asyncio.run(coterie.resume(run, **self._options(limits)))

    def _options(self, limits: dict[str, Any]) -> Any:
        def observe(run: str, record: Record) -> None:
            self.records.append(record)

        return {"state_dir": self.folder / "s", "limits": coterie.Limits(**limits), "observe": observe}


def reach(models: FakeModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the providers of this process be *models*."""
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)


def test_a_continuation_is_not_sent_once_the_budget_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stops as it does for any other cost, and goes on with more."""

    def choose(body: dict[str, Any]) -> Reply:
        return PAUSED if len(models.requests) < 4 else Say("Done.", tokens=(100, 10))

    with FakeModels(choose=choose) as models:
        reach(models, monkeypatch)
        place = Place(tmp_path, models)
        ended = place.run(max_cost=0.2)
        sent = len(models.requests)
        cut = [record for record in place.records if isinstance(record, AttemptInterrupted)]
        again = place.resume(ended.run, max_cost=5)

    assert (ended.status, ended.reason, sent) == ("stopped", "max_cost", 2)
    assert ended.usage.cost == pytest.approx(0.22)
    assert [(one.reason, one.usage.cost) for one in cut] == [("max_cost", pytest.approx(0.22))]
    assert (again.status, again.result.text) == ("completed", "wait. wait. wait. Done."), "it goes on where it paused"
    assert again.usage.cost == pytest.approx(0.11 * len(models.requests))


def test_a_budget_that_is_spent_to_the_cent_sends_no_further_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an answer that spends it to the cent is whole."""
    with FakeModels(PAUSED) as models:
        reach(models, monkeypatch)
        ended = Place(tmp_path, models).run(max_cost=0.22)
        assert (ended.status, ended.reason, len(models.requests)) == ("stopped", "max_cost", 2)
    with FakeModels(PAUSED, Say("Done.", tokens=(100, 10))) as models:
        reach(models, monkeypatch)
        assert Place(tmp_path, models).run(max_cost=0.22).status == "completed"


def test_an_answer_that_is_paused_for_ever_fails_the_turn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No retry would help, and each costs as much again."""
    with FakeModels(PAUSED) as models:
        reach(models, monkeypatch)
        ended = Place(tmp_path, models).run()

    assert ended.status == "failed"
    assert "(failed): anthropic paused its answer again and again" in ended.reason
    assert ended.usage.cost == pytest.approx(0.11 * len(models.requests))
    assert len(models.requests) < 20


def test_continuations_count_towards_max_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As requests after calls of tools do."""
    with FakeModels(PAUSED) as models:
        reach(models, monkeypatch)
        ended = Place(tmp_path, models, "options { max-turns: 3 }").run()

    assert (ended.status, len(models.requests)) == ("failed", 3)
    assert "within the 3 requests of max-turns" in ended.reason


def test_attempts_that_run_at_once_share_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed by no more than the last report of each."""
    agents = "action start { kind: external }\n" + "".join(
        f'agent {name} {{ model: "claude-sonnet-5-5"  prompt: "{name}." }}\n' for name in "abc"
    )
    with FakeModels(PAUSED) as models:
        reach(models, monkeypatch)
        place = Place(tmp_path, models, "options { max-tokens: 10 }", agents + "flow { start -> [a, b, c] }")
        ended = place.run(max_cost=1.0)
        prompts = {name for name in "abc" for body in models.requests if f"{name}." in text_of(body)}

    assert (ended.status, ended.reason, prompts) == ("stopped", "max_cost", {"a", "b", "c"})
    assert 1.0 <= ended.usage.cost <= 1.0 + 3 * 0.11
    assert ended.usage.cost == pytest.approx(0.11 * len(models.requests))
