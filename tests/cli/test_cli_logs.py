"""`coterie logs`, and `inspect output` of a turn that runs: what agents print while they work."""

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest
from command_line import Place

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
    process.kill()
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
