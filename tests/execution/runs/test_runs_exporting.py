"""Spans of runs and of systems: one trace through agents, turns, child runs and back to agents."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import Place

SINK = """
import json, pathlib
from coterie.history.views.spans import TraceSpan

class Sink:
    def __init__(self):
        self.file = pathlib.Path("spans.jsonl")
    def export(self, spans):
        with self.file.open("a") as file:
            for span in spans:
                file.write(json.dumps({name: getattr(span, name) for name in TraceSpan.__struct_fields__}) + "\\n")
    async def close(self):
        with self.file.open("a") as file:
            file.write("closed\\n")
"""

AGENTS = """
from coterie import AgentProcess

class Front(AgentProcess):
    async def handle(self, message):
        reply = await self.ask("review", {"prompt": "look"})
        return self.reply({"text": reply.payload["text"]})

class Back(AgentProcess):
    async def handle(self, message):
        await self.send("log", "seen")
        return self.reply({"text": "fine"})

class Log(AgentProcess):
    async def handle(self, message):
        return None
"""

REVIEW = """topology review : [pipeline] {
  agent reader { extensions { coterie { command: ["echo", "read"] } } }
  agent judge { extensions { coterie { ask: back } } }
  flow { reader -> judge }
}
"""

SYSTEM = """
plugins:
  exporters:
    - type: sink.Sink
supervision:
  name: root
  children:
    - agent: { name: front, type: agents.Front }
    - flow: { name: review, source: review.at }
    - agent: { name: back, type: agents.Back }
    - agent: { name: log, type: agents.Log }
entry: front
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "sink.py").write_text(SINK)
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "review.at").write_text(REVIEW)
    (tmp_path / "topology.yaml").write_text(SYSTEM)
    yield Place(tmp_path)
    sys.modules.pop("sink", None)


@dataclass
class Exported:
    """What the exporter of a process was given."""

    spans: list[dict[str, Any]]
    closed: bool

    def one(self, name: str) -> dict[str, Any]:
        (found,) = [span for span in self.spans if span["name"] == name]
        return found


def exported(place: Place) -> Exported:
    lines = (place.folder / "spans.jsonl").read_text().splitlines()
    return Exported([json.loads(line) for line in lines if line != "closed"], lines[-1] == "closed")


def test_a_question_to_a_system_is_one_trace(place: Place) -> None:
    """From the agent that is asked, over the turn of a flow and its child run, to the agent that a node of it asks."""
    place.call("run", "-t", "topology.yaml", "look")
    found = exported(place)

    front, turn, child = (
        found.one("process front"),
        found.one("invoke_agent review"),
        found.one("invoke_workflow review"),
    )
    actor = found.one("process review")
    reader, judge, back = found.one("invoke_agent reader"), found.one("invoke_agent judge"), found.one("process back")
    log = found.one("process log")
    chain = [front, actor, turn, child, judge, back, log]
    assert [span["parent_id"] for span in chain] == ["", *(span["span_id"] for span in chain[:-1])]
    assert {span["trace_id"] for span in (*chain, reader)} == {front["trace_id"]}
    assert reader["parent_id"] == child["span_id"]
    assert found.one("invoke_workflow root")["attributes"]["coterie.outcome"] == "completed"
    assert found.closed, "after the last span of the run"


def test_any_run_can_be_exported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """`COTERIE_EXPORTERS` names exporters for flows, loops and patterns."""
    (place.folder / "review.at").write_text(REVIEW.replace("ask: back", 'command: ["echo", "fine"]'))
    monkeypatch.setenv("COTERIE_EXPORTERS", "console,sink.Sink")
    monkeypatch.setenv("PYTHONPATH", str(place.folder))
    said = place.call("run", "review.at", "look")

    assert "invoke_agent reader" in said.err
    found = exported(place)
    assert [span["name"] for span in found.spans] == [
        "invoke_agent reader",
        "invoke_agent judge",
        "invoke_workflow review",
    ]
    assert found.closed


def test_a_resumed_run_continues_its_trace(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, the same trace; its own span of the run, with the name of the team."""
    (place.folder / "review.at").write_text(REVIEW.replace("ask: back", 'command: ["echo", "fine"]'))
    monkeypatch.setenv("COTERIE_EXPORTERS", "sink.Sink")
    monkeypatch.setenv("PYTHONPATH", str(place.folder))
    place.call("run", "review.at", "look", "--max-turns", "1", status=3)
    place.call("resume", "last", "--max-turns", "none")

    spans = exported(place).spans
    assert [span["name"] for span in spans] == [
        "invoke_agent reader",
        "invoke_workflow review",
        "invoke_agent judge",
        "invoke_workflow review",
    ]
    assert len({span["trace_id"] for span in spans}) == 1
    assert [span["parent_id"] for span in spans] == [spans[1]["span_id"], "", spans[3]["span_id"], ""]
    assert spans[1]["span_id"] != spans[3]["span_id"]
    assert spans[1]["end"] <= spans[3]["start"]


def test_an_unknown_exporter_begins_no_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it."""
    (place.folder / "review.at").write_text(REVIEW.replace("ask: back", 'command: ["echo", "fine"]'))
    monkeypatch.setenv("COTERIE_EXPORTERS", "otlq")

    said = place.call("run", "review.at", "look", status=1)
    assert "there is no exporter plugin 'otlq'; did you mean 'otlp'?" in said.err
    assert json.loads(place.call("runs", "--json").out) == []
