"""What agents pass to a run: values that JSON cannot carry fail what holds them, never the system."""

import os
from pathlib import Path

import pytest
from command_line import Place

AGENTS = """
from coterie import AgentProcess

ODD = {"object": object(), "set": {7}, "list": [1]}


class Desk(AgentProcess):
    async def handle(self, message):
        said = message.payload["prompt"]
        if said == "answer":
            return self.reply({"text": "x", "odd": object()})
        reply = await self.ask("cat", {"prompt": "x", "odd": ODD[said]})
        return self.reply({"text": reply.payload.get("reason") or reply.payload["text"]})


class Node(AgentProcess):
    async def handle(self, message):
        if message.payload["task"] == "list":
            return self.reply({"outputs": [1]})
        return self.reply({"odd": ODD[message.payload["task"]]})
"""
SYSTEM = """
supervision:
  name: root
  children:
    - command: {{ name: cat, argv: [cat] }}
    - command: {{ name: broken, argv: [sh, -c, "exit 3"] }}
    - agent: {{ name: desk, type: staff.Desk }}
entry: {entry}
"""
TEAM = """
topology team : [pipeline] {
  meta { version: "1.0.0"  description: "One in Python" }
  agent node { extensions { coterie { type: "staff.Node" } } }
  agent last { extensions { coterie { command: ["cat"] } } }
  flow { node -> last }
}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with two systems, a team, and their agents."""
    (tmp_path / "staff.py").write_text(AGENTS)
    (tmp_path / "team.at").write_text(TEAM)
    for entry in ("desk", "broken"):
        (tmp_path / f"{entry}.yaml").write_text(SYSTEM.format(entry=entry))
    return Place(tmp_path)


def test_a_payload_that_is_no_json_fails_its_turn_alone(place: Place) -> None:
    """The asker gets a failed turn; sets and the like become lists."""
    assert place.call("run", "-t", "desk.yaml", "object").out == (
        "cat: the payload cannot be written as JSON: TypeError: Encoding objects of type object is unsupported\n"
    )
    assert "- odd: [7]" in place.call("run", "-t", "desk.yaml", "set").out


def test_an_answer_that_is_no_json_fails_the_run(place: Place) -> None:
    """The run ends, so that it is not resumed to fail again."""
    said = place.call("run", "-t", "desk.yaml", "answer", status=1).err

    assert "failed (the answer of desk cannot be written as JSON: TypeError" in said
    assert "desk was stopped" in said


def test_an_entry_whose_turn_fails_fails_the_run(place: Place) -> None:
    """A failed turn is a reply to agents, but no answer of the whole."""
    said = place.call("run", "-t", "broken.yaml", "hello", status=1).err

    assert "failed (broken#1 failed (exit)" in said


@pytest.mark.parametrize(
    ("task", "reason"),
    [("object", "its reply cannot be written as JSON"), ("list", "its outputs are no mapping: list")],
)
def test_outputs_of_a_node_that_are_no_json_fail_its_turn(place: Place, task: str, reason: str) -> None:
    """The attempt fails as with any invalid output, and is tried again."""
    said = place.call("run", "team.at", task, status=1).err

    assert f"attempt 1 of node#1 failed (invalid_output): {reason}" in said
    assert "node#1 failed for good (invalid_output)" in said


LEAKY = """
import os
from coterie import AgentProcess
from coterie.errors import AgentCrashed

class Crashing(AgentProcess):
    async def handle(self, message):
        raise ValueError(os.environ["SHOP_API_KEY"])

class Leaky(AgentProcess):
    async def handle(self, message):
        secret = os.environ["SHOP_API_KEY"]
        await self.emit_eval("said", {secret: [secret]})
        await self.send("crashing", secret)
        reply = (await self.ask("cat", {"prompt": secret})).payload["text"]
        if message.payload["prompt"] == "fail":
            raise ValueError(secret)
        return self.reply({"text": f"{secret} {reply}"})
"""
LEAKING = """
supervision:
  name: root
  children:
    - command: { name: cat, argv: [cat] }
    - agent: { name: crashing, type: leaks.Crashing }
    - agent: { name: leaky, type: leaks.Leaky }
    - { name: judge, type: eval_agent }
entry: leaky
"""


@pytest.mark.parametrize(("prompt", "status"), [("answer", 0), ("fail", 1)])
def test_no_secret_of_an_agent_reaches_a_journal(place: Place, prompt: str, status: int) -> None:
    """In errors, dead letters, events, questions and answers."""
    (place.folder / "leaks.py").write_text(LEAKY)
    (place.folder / "leaking.yaml").write_text(LEAKING)
    process = place.start(
        "run", "-t", "leaking.yaml", prompt, env={**os.environ, "SHOP_API_KEY": "sk-very-secret", "NO_COLOR": "1"}
    )
    out, err = process.communicate(timeout=60)

    assert process.returncode == status
    assert "***" in out + err
    assert "very-secret" not in out + err
    files = [file for file in (place.folder / ".coterie").rglob("*") if file.is_file()]
    assert any(file.name == "journal.jsonl" for file in files)
    assert [file for file in files if b"very-secret" in file.read_bytes()] == []
