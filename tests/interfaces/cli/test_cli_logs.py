"""`coterie logs`, and `inspect output` of a turn that runs: what agents print while they work."""

import json
import signal
import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from command_line import Place

from coterie.agents.backends.base import Permission, Text, Tool, Used
from coterie.history.journal.records import Usage

AGENT = """\
#!/bin/sh
echo "half of it"
echo "a warning" >&2
printf "no end"
echo ready > started
cat end
"""
TEAM = """
topology talk : [pipeline] {
  agent first { extensions { coterie { command: ["sh", "agent.sh"] } } }
  agent second { extensions { coterie { command: ["echo", "done"] } } }
  flow { first -> second }
}
"""


@pytest.fixture
def talking(place: Place) -> Iterator["subprocess.Popen[str]"]:
    """A run whose first agent has printed something and waits for a line in the pipe `end`."""
    import os

    (place.folder / "agent.sh").write_text(AGENT)
    (place.folder / "talk.at").write_text(TEAM)
    for name in ("started", "end"):
        os.mkfifo(place.folder / name)
    process = place.start("run", "talk.at")
    (place.folder / "started").read_text()
    yield process
    process.terminate()  # which ends the agent, too
    process.communicate(timeout=60)


def follow(place: Place, *words: str) -> "subprocess.Popen[str]":
    """Start `coterie logs -f`."""
    return place.start("logs", "last", "-f", *words)


def test_a_running_agent_can_be_read_and_followed(place: Place, talking: "subprocess.Popen[str]") -> None:
    """What was printed comes at once, what is printed later when it is printed; following ends with the run."""
    reader = follow(place)
    assert reader.stdout is not None
    lines = [reader.stdout.readline() for _ in range(2)]
    assert sorted(lines) == ["first#1 ! a warning\n", "first#1 | half of it\n"]

    (place.folder / "end").write_text(", and the rest\n")
    rest, _ = reader.communicate(timeout=60)
    assert rest == "first#1 | no end, and the rest\nsecond#1 | done\n"
    assert reader.returncode == 0
    assert talking.wait(60) == 0


def test_what_is_printed_so_far_is_the_output_of_a_running_turn(place: Place, talking: "subprocess.Popen[str]") -> None:
    """With its standard error, and marked as incomplete."""
    reader = follow(place)
    assert reader.stdout is not None
    for _ in range(2):
        reader.stdout.readline()  # both channels are on the disk
    reader.send_signal(signal.SIGINT)
    reader.communicate(timeout=60)
    shown = place.look("inspect", "last", "output", "first#1").out

    assert shown.startswith("half of it")
    assert "a warning" in shown
    assert shown.endswith("(running)\n")
    assert json.loads(place.look("inspect", "last", "output", "first#1", "--json").out)["log"] == "a warning\n"


def test_logs_of_a_run_that_is_over_are_kept(place: Place) -> None:
    """Of one turn, of all, of those in a nested team, and as data."""
    place.call("run", "nested.at")
    inner = place.look("logs", "last", "inner#1").out

    assert "inner#1.1/writer#1 | writer#1 read True" in inner.splitlines()
    assert "\nwriter#1 |" not in f"\n{inner}"
    assert "writer#1 | writer#1 read True\n" in place.look("logs", "last").out
    first = json.loads(place.look("logs", "last", "--json").out.splitlines()[0])
    assert (first["turn"], first["attempt"], first["channel"]) == ("writer#1", 1, "answer")
    assert "no turn 'nothing#1'" in place.look("logs", "last", "nothing#1", status=1).err


def test_a_last_line_without_an_end_is_printed_with_its_turn(place: Place) -> None:
    """Before the next turn's lines, not behind all."""
    agents = "".join(
        f'agent {name} {{ extensions {{ coterie {{ command: ["printf", "{name} 1\\n{name} 2"] }} }} }}\n'
        for name in ("first", "second")
    )
    (place.folder / "two.at").write_text(f"topology two : [pipeline] {{\n{agents}flow {{ first -> second }}\n}}\n")
    place.call("run", "two.at")

    lines = place.look("logs", "last").out.splitlines()
    assert lines == ["first#1 | first 1", "first#1 | first 2", "second#1 | second 1", "second#1 | second 2"]


def test_the_use_of_a_tool_is_a_line(place: Place) -> None:
    """Its beginning, and its end only if it failed; what the agent was writing before it comes first."""
    (place.folder / "talk.at").write_text(TEAM.replace('["sh", "agent.sh"]', '["echo", "hello"]'))
    place.look("run", "talk.at")
    folder = next((place.folder / ".coterie/runs").iterdir()) / "turns/first#1.1"
    events = [
        Text(text="I look.\nNow"),
        Tool(id="1", name="Bash", detail="make test"),
        Tool(id="1", name="Bash", state="finished", result="ok"),
        Tool(id="2", name="Read", detail="a.py"),
        Tool(id="2", name="Read", state="failed", result="no such file"),
        Permission(id="3", tool="Write", detail="b.py"),
        Permission(id="3", tool="Write", detail="b.py", decision="denied", why="answered"),
        Used(usage=Usage(cost=0.1)),
    ]
    (folder / "stream.jsonl").write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))

    said = place.look("logs", "last", "first#1").out
    assert said == (
        "first#1 | I look.\nfirst#1 | Now\nfirst#1 > Bash: make test\nfirst#1 > Read: a.py\n"
        "first#1 > Read failed: no such file\nfirst#1 > Write needs permission: b.py\n"
        "first#1 > Write was denied (answered)\n"
    )
    documents = [json.loads(line) for line in place.look("logs", "last", "first#1", "--json").out.splitlines()]
    assert [one["kind"] for one in documents] == ["text", *["tool"] * 4, *["permission"] * 2, "usage"]
    assert documents[1] | {"run": ""} == {
        "run": "",
        "turn": "first#1",
        "attempt": 1,
        "kind": "tool",
        "name": "Bash",
        "detail": "make test",
        "id": "1",
    }


ASKING = """
topology ask : [pipeline] {
  human boss { description: "Which colour?" }
  agent second { extensions { coterie { command: ["echo", "done"] } } }
  flow { boss -> second }
}
"""
ABOVE = """
topology above : [pipeline] {
  agent inner { extensions { coterie { topology: "ask.at" } } }
  agent second { extensions { coterie { command: ["echo", "done"] } } }
  flow { inner -> second }
}
"""


def test_questions_of_child_runs_and_their_answers_are_lines(place: Place) -> None:
    """The plan of the run above says who is a human, also if only the child run is shown."""
    (place.folder / "ask.at").write_text(ASKING)
    (place.folder / "above.at").write_text(ABOVE)
    place.look("run", "above.at", "go", status=4)
    place.call("control", "respond", "last", "inner#1.1/boss#1", "blue\nor green")
    place.call("resume", "last")
    lines = place.look("logs", "last").out.splitlines()
    run = json.loads(place.look("runs", "--json").out)[0]["run"]

    assert lines[0] == "inner#1.1/boss#1 ? boss#1 asks: Which colour?"
    assert lines[-3:] == [
        "inner#1.1/boss#1 ? boss#1 answered “blue or green”",
        "inner#1.1/second#1 | done",
        "second#1 | done",
    ]
    assert place.look("logs", f"{run}/inner#1.1").out.startswith("boss#1 ? boss#1 asks: Which colour?\n")
    first = json.loads(place.look("logs", "last", "--json").out.splitlines()[0])
    assert (first["turn"], first["attempt"], first["kind"]) == ("boss#1", 1, "attention")


def test_a_stall_is_a_line_at_once(place: Place) -> None:
    import os

    os.mkfifo(place.folder / "end")
    (place.folder / "talk.at").write_text(TEAM.replace('["sh", "agent.sh"]', '["cat", "end"] stall-after: "200ms"'))
    process = place.start("run", "talk.at", "go")
    try:
        next(line for line in process.stderr or () if "first#1 started" in line)
        reader = follow(place)
        assert reader.stdout is not None
        assert reader.stdout.readline().startswith("first#1 ? first#1 may be stuck: for ")
        assert "\nfirst#1 may be stuck: " in place.look("inspect", "last", "turn", "first#1").out
        (place.folder / "end").write_text("well\n")
        assert reader.communicate(timeout=60)[0].splitlines()[-1] == "second#1 | done"
    finally:
        process.kill()
        process.communicate()
