"""Loops on the command line: run, steered, resumed and looked at, with programs as agents."""

import json
from typing import Any

import pytest
from command_line import Place

AGENT = """
import os, sys, time

turn = os.environ["COTERIE_TURN"]
with open("started.log", "a") as log:
    log.write(turn + "\\n")
if turn == "iteration#1" and os.path.exists("waits"):
    open("ready", "w").close()
    time.sleep(600)
guided = "Mind the tests" in sys.argv[-1]
print(f"{turn} was guided: {guided}")
if turn == "iteration#2":
    print("LOOP_COMPLETE")
"""
SETTINGS = """
event_loop.max_iterations = 3
event_loop.max_failures = 1
backend.kind = "command"
backend.command = "python3"
backend.args = ["agent.py"]
review.enabled = false
memory.prompt_budget_chars = 100
"""
TOPOLOGY = """
name = "pair"
[[role]]
id = "planner"
emits = ["tasks.ready", "task.complete"]
prompt = "You are the planner."
[handoff]
"loop.start" = ["planner"]
"""


@pytest.fixture
def loop(place: Place) -> Place:
    """A folder that holds the loop `pair`, whose second iteration says that it is done."""
    (place.folder / "agent.py").write_text(AGENT)
    (place.folder / "pair").mkdir()
    (place.folder / "pair" / "autoloops.toml").write_text(SETTINGS)
    (place.folder / "pair" / "topology.toml").write_text(TOPOLOGY)
    return place


def projection(place: Place) -> list[dict[str, Any]]:
    """The lines of `core.journal_file`."""
    text = (place.folder / ".autoloop" / "journal.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_loop_runs_to_its_end_and_tells_the_earlier_system_too(loop: Place) -> None:
    """It is kept in .autoloop, where its page says, and found there without being told."""
    said = loop.call("run", "pair", "Fix", "it")

    assert loop.started() == ["iteration#1", "iteration#2"]
    assert said.out.splitlines()[-1].startswith("completed")
    assert [line["topic"] for line in projection(loop)] == [
        "loop.start",
        *["iteration.start", "backend.start", "backend.finish", "iteration.finish"] * 2,
        "loop.complete",
    ]
    assert projection(loop)[0]["fields"]["objective"] == "Fix it"
    assert "Objective:\nFix it" in projection(loop)[1]["fields"]["prompt"]
    assert "completed" in loop.look("runs").out


def test_a_limit_stops_a_loop_and_iterations_can_be_added(loop: Place) -> None:
    """Status 3; the way on is told; the projection goes on where it was."""
    said = loop.call("run", "pair", "-i", "1", status=3)
    assert "--add-iterations" in said.err
    loop.call("resume", "last", "--add-iterations", "1")

    assert loop.started() == ["iteration#1", "iteration#2"]
    topics = [line["topic"] for line in projection(loop)]
    assert topics.count("loop.start") == topics.count("loop.resume") == topics.count("loop.complete") == 1
    assert "config.changed" not in topics


def test_a_loop_is_guided_and_interrupted_and_goes_on(loop: Place) -> None:
    """Defect M: neither ends the run of programs, nor counts as a failure; the next iteration hears what was said."""
    (loop.folder / "waits").touch()
    process = loop.start("run", "pair", "-v")
    (loop.folder / "ready").read_text()  # a pipe: opened once the agent opens its end
    assert "accepted" in loop.look("control", "guide", "last", "Mind", "the", "tests", "--interrupt").out
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 0, out
    assert loop.started() == ["iteration#1", "iteration#2"]
    assert "iteration#2 was guided: True" in out
    assert [line["payload"] for line in projection(loop) if line["topic"] == "operator.guidance"] == ["Mind the tests"]


def test_guidance_is_only_for_loops_and_waits_for_one_that_is_stopped(loop: Place) -> None:
    """A flow asks nobody again by itself."""
    loop.call("run", "pair", "-i", "1", status=3)
    assert "queued" in loop.look("control", "guide", "last", "Mind the tests").out
    assert "iteration#2 was guided: True" in loop.call("resume", "last", "--add-iterations", "1").out
    assert "completed" in loop.look("control", "guide", "last", "Too late", status=1).err

    process = loop.start("run", "human.at", "--no-park")
    lines = iter(process.stdout or ())
    next(line for line in lines if "boss#1 started" in line)
    assert "only a loop" in loop.look("control", "guide", "last", "Hear", "--state-dir", ".coterie", status=1).err
    process.terminate()
    process.communicate(timeout=60)
