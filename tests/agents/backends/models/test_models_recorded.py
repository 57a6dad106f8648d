"""A cassette is played without the library that calls models, to the same answers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from asking import ask
from asking_models import plan
from command_line import Place
from fake_models import FakeModels, Refuse, Reply, Say, text_of

from coterie.agents.backends.base import Answer, Failure
from coterie.agents.backends.models import backend, needs
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.cassette import Cassette
from coterie.execution.runs.repository import find
from coterie.history.journal import records

TEAM = """topology notes : [pipeline] {
  agent writer { model: sonnet  prompt: "Write."  extensions { coterie { tools: ["tallying:count"]  price-in: 3 } } }
  agent critic { model: gpt-5  prompt: "Judge."  outputs { verdict: approve | revise } }
  flow {
    writer -> critic
    critic -> writer [when critic.verdict == revise, max 2]
  }
}
"""
SWAPPED = TEAM.replace("sonnet", "?").replace("gpt-5", "sonnet").replace("?", "gpt-5")
COUNTING = '''def count(text: str) -> dict[str, int]:
    """Count the words of a text."""
    if text == "none":
        raise ValueError("there are none")
    return {"words": len(text.split())}
'''


def team(body: dict[str, Any]) -> Reply:
    """A writer that counts twice, once in vain, and a critic that is content with the second note."""
    said, refused = text_of(body), team.__dict__.setdefault("refused", [])
    if "Judge." in said:
        if not refused:
            refused.append(body)
            return Refuse(500, "api_error", "try again")
        verdict = "approve" if "the second note" in said else "revise"
        return Say(
            "I have read it.", thinking="Hm.", calls=[("give_outputs", {"verdict": verdict})], tokens=(1000, 100)
        )
    if "three little words" not in said:
        return Say(
            "" if "gpt-5" in body["model"] else "I count.",
            calls=[("count", {"text": "three little words"})],
            tokens=(500, 50),
            cached=100,
        )
    return Say("This is the second note." if "I have read it." in said else "A note.", tokens=(1000, 100))


def without_library(patch: pytest.MonkeyPatch) -> None:
    for module in (backend, needs):
        patch.setattr(module, "find_spec", lambda name: None)
    patch.setattr(backend, "load", lambda *names: pytest.fail(f"it loads {names}"))


def played(place: Place) -> list[tuple[Any, ...]]:
    """The attempts of the last run: text, outputs and tokens, or the kind of the failure."""
    runs, run = find("last", place.folder / ".coterie")
    found: list[tuple[Any, ...]] = []
    for record in runs.read(run):
        if isinstance(record, records.TurnFinished):
            used = record.usage
            tokens = (used.input_tokens, used.output_tokens, used.cached_tokens)
            found.append((record.turn, record.text, record.outputs, tokens))
        elif isinstance(record, records.AttemptFailed):
            found.append((record.turn, record.kind))
    return found


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_cassette_gives_the_same_answers_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """With calls of Python functions, outputs, both APIs, a failure that passes, and usage; nothing goes out."""
    place = Place(tmp_path)
    (tmp_path / "team.at").write_text(TEAM if api == "anthropic" else SWAPPED)
    team.__dict__.pop("refused", None)
    (tmp_path / "tallying.py").write_text(COUNTING)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "tallying", raising=False)
    with FakeModels(choose=team) as models, pytest.MonkeyPatch.context() as patch:
        for name, value in models.environment.items():
            patch.setenv(name, value)
        place.look("run", "team.at", "Tea", "--backend", "model", "--cassette", "record:tape.jsonl")
    recorded = played(place)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    without_library(monkeypatch)
    said = place.look("run", "team.at", "Tea", "--backend", "model", "--cassette", "tape.jsonl")

    assert played(place) == recorded
    assert ("critic#1", "transient") in recorded
    assert "dollars" not in said.err  # a recording costs nothing
    miss = place.look("run", "team.at", "Coffee", "--backend", "model", "--cassette", "tape.jsonl", status=1)
    assert "no recorded request has the same model and messages; pip install 'coterie[models]'" in miss.err


def test_tools_that_need_the_library_are_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And so is a run without a cassette."""
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    reader = plan(options={"built_in_tools": ["Read"]})
    [lack] = needs.missing([("a", plan()), ("b", reader)], {}, offline=True)
    assert lack.message == "the library that calls models is not installed, which the tools of b need"
    assert not needs.missing([("a", plan())], {}, offline=True)
    assert [one.code for one in needs.missing([("a", plan())], {"ANTHROPIC_API_KEY": "k"}, offline=False)] == [
        "no-models"
    ]


def exchange(status: int = 200, **answer: Any) -> str:
    """A line of a cassette, with an answer of Anthropic's API to `Say hello.`"""
    messages = [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    request = {"method": "POST", "path": "v1/messages", "body": {"model": "claude-sonnet-5-5", "messages": messages}}
    events = [f"data: {json.dumps(event)}\n\n" for event in answer.get("events", ())]
    return json.dumps({"request": request, "response": {"status": status, "headers": {}, "body": events}})


def test_recorded_failures_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their status, or by why the answer ended; equal requests get theirs in the order recorded."""
    without_library(monkeypatch)
    cut = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 1}},
    ]
    whole = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    ]
    tape = tmp_path / "tape.jsonl"
    tape.write_text("\n".join([exchange(429), exchange(events=cut), exchange(events=whole)]))
    models = ModelBackend(Cassette(tape), environment=dict(os.environ))

    limited, cut_off, answer, again = (ask(models, plan(), prompt="Say hello.")[0] for _ in range(4))
    assert isinstance(limited, Failure)
    assert limited.kind == "rate_limited"
    assert isinstance(cut_off, Failure)
    assert (cut_off.kind, cut_off.text) == ("failed", "Hel")
    assert isinstance(answer, Answer)
    assert answer.text == "Hello."
    assert isinstance(again, Answer)
