"""The example whose agents misbehave: one prints 50 MB, one fails, one never ends, and one is a person."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Place
from screen import Screen

pytestmark = pytest.mark.once

EXAMPLE = Path(__file__).parents[2] / "examples" / "incident"
INCIDENT = "incident/incident.at"
# Started by a small process, since the peak of a process that this one starts begins with the memory of this one.
PEAK = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, end="")
sys.exit(status)
"""
REPLACED = "2 failed turns skipped or replaced: status#1 and tracer#1"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a copy of the example."""
    shutil.copytree(EXAMPLE, tmp_path / "incident")
    return patient(Place(tmp_path), "1s")


def patient(place: Place, timeout: str = "6s") -> Place:
    """*place* with another time-out; the default is long enough for a program that starts on a busy machine."""
    file = place.folder / INCIDENT
    file.write_text(re.sub(r"timeout: \ds", f"timeout: {timeout}", file.read_text()))
    return place


def parked(place: Place, *words: str) -> str:
    """Run the team up to the person, and return what is printed."""
    said = place.call("run", INCIDENT, "The shop is slow", *words, status=4)
    assert said.out == ""
    return said.err


def test_the_team_gets_by_without_those_that_fail_and_waits_for_a_person(place: Place) -> None:
    """Each failure is shown with its reason and what follows; the run ends with status 4 and the next command."""
    said = parked(place, "--input", "megabytes=1")

    assert re.search(r"status#1 started again \(attempt 2\)", said)
    assert re.search(r"attempt 2 of status#1 failed \(exit 1?\d*\): the status page gives no answer", said)
    assert "status#1 failed for good (exit)\n" in said
    assert "archive#1 answered “status: degraded since 02:10" in said
    assert "attempt 1 of tracer#1 failed (timeout, exit 143 (SIGTERM)): it took longer than its time-out" in said
    assert "the path ended after tracer#1: the turn failed" in said
    assert "digest#1 started, marked by collector#1 and archive#1" in said
    assert re.search(rf"stopped \(waiting\): 6 turns, .*, {REPLACED}$", said, re.MULTILINE)
    assert "lead#1 asks: “Wake the person on call?" in said
    assert re.search(r"^  coterie control respond \S+ 'lead#1' TEXT$", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("answer", "agent", "decision"),
    [
        (("page",), "pager", "page\nDone: paged the person on call."),
        pytest.param(
            ("Not tonight", "--output", "verdict=wait"),
            "diary",
            "Not tonight\nDone: wrote it down for the morning.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_answer_decides_what_is_done(place: Place, answer: tuple[str, ...], agent: str, decision: str) -> None:
    """The first answer that fits counts, the others are refused at once; the run goes on where it was."""
    parked(place, "--input", "megabytes=1")

    refused = place.call("control", "respond", "last", "perhaps", status=1)
    assert 'expected the output \'verdict\' to be one of "page", "wait"' in refused.err
    place.call("control", "respond", "last", *answer)
    other = "page" if answer != ("page",) else "wait"
    assert "lead#1 has an answer already" in place.call("control", "respond", "last", other, status=1).err
    said = place.call("resume", "last").err
    assert f"{agent}#1 started, marked by lead#1" in said
    assert re.search(rf"^completed: 7 turns, .*, {REPLACED}$", said, re.MULTILINE)
    assert (place.folder / "incident.md").read_text().endswith(f"\n\nDecision: {decision}\n")


@pytest.mark.slow  # it waits for the time-out
def test_what_a_stopped_agent_printed_and_why_it_was_left_out_can_be_looked_up(place: Place) -> None:
    """`inspect` has the output up to the time-out, and the causes of a turn that went on without it."""
    parked(patient(place), "--input", "megabytes=1")

    assert place.look("inspect", "last", "output", "tracer#1").out.startswith("waiting for the request to end, 0 s\n")
    why = place.look("inspect", "last", "why", "digest#1").out
    assert "digest#1 started, marked by collector#1 and archive#1, once tracer#1 had ended" in why
    assert "status#1 failed for good (exit): the status page gives no answer" in why


@pytest.mark.slow
def test_of_50_mb_the_end_goes_on_and_the_rest_is_counted(place: Place) -> None:
    """The next agent gets the last 8 MB and a line about what is missing; the process stays small."""
    command = [sys.executable, "-m", "coterie", "run", INCIDENT, "The shop is slow", "--json"]
    run = subprocess.run([sys.executable, "-c", PEAK, *command], cwd=place.folder, capture_output=True, text=True)
    document, peak = json.loads(run.stdout.rpartition("\n")[0]), int(run.stdout.rpartition("\n")[2])

    assert (run.returncode, document["outcome"]) == (4, "stopped")
    digest = place.look("inspect", "last", "output", "digest#1").out
    assert re.search(r"^The log was too long: the first 4[12]\d{6} bytes of this output are left out\.$", digest, re.M)
    assert re.search(r"^The shop is slow: 11\d errors in 11\d{4} lines of the log\.$", digest, re.M)
    journal = next((place.folder / ".coterie" / "runs").glob("*/journal.jsonl"))
    assert 8_000_000 < journal.stat().st_size < 10_000_000
    assert peak < 250_000  # kB; it starts with 40,000


def test_an_input_that_is_no_number_is_one_clear_sentence(place: Place) -> None:
    """The reason of the failed run begins with what the program said."""
    said = place.call("run", INCIDENT, "--input", "megabytes=many", status=1).err

    assert "failed (exit 1): megabytes is 'many': give a whole number, --input megabytes=50 (`{python}" in said


@pytest.mark.slow
def test_in_a_terminal_of_80_columns_the_reasons_can_be_read_and_the_question_answered(place: Place) -> None:
    """The rows of failed attempts begin with what the programs said; a wrong answer says why, a right one ends it."""
    screen = Screen(patient(place).folder, 80, "run", INCIDENT, "The shop is slow", "--input", "megabytes=1")
    try:
        screen.until("the status page gives no answer")
        screen.until("waiting for the request to end")
        screen.until("lead#1 asks you")
        screen.until("> ")
        screen.type("perhaps")
        screen.until("verdict (page | wait): ")
        screen.type("page")
        assert "lead#1 asks" not in screen.until("7 turns")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()
    assert "Decision: perhaps\n" in (place.folder / "incident.md").read_text()
