"""The example of a loop that is steered and cut off, and whose roles make the mistakes that agents make."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Place
from screen import Screen

pytestmark = [pytest.mark.once, pytest.mark.slow]  # a process for each of a dozen turns

TIDY = str(Path(__file__).parents[2] / "examples" / "tidy")
CLEAN = """\
The lighthouse keeper climbed the stairs every evening.
He had a good view of the harbour since the wall came down.
Ships passed in the distance, and he counted them.
Nobody asked him for the numbers, so he kept them to himself.
"""
KEPT = CLEAN.replace("He had", "He had had")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty folder, in which turns take no time; `coterie` is the one that is tested."""
    monkeypatch.setenv("TIDY_PAUSE", "0")
    return Place(tmp_path)


def text(place: Place) -> str:
    return (place.folder / "tidy.txt").read_text()


@contextlib.contextmanager
def asleep(place: Place, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """`coterie` with *words* up to where a turn that takes ten minutes has started."""
    process = place.start(*words, env={**os.environ, "TIDY_PAUSE": "600"})
    assert process.stderr is not None
    try:
        while "started" not in (line := process.stderr.readline()):
            assert line, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_loop_removes_doubled_words_in_spite_of_its_mistakes(place: Place) -> None:
    """A rejected emit and an early promise are shown with their reasons, made once, and remembered."""
    said = place.call("run", TIDY, "Remove doubled words").err

    assert text(place) == CLEAN
    assert re.search(r"^completed \(completion_event\): 15 turns, ", said, re.M)
    assert said.count("emitted task.complete, which was not allowed ('task.complete' is not allowed after") == 1
    early = "“It reads well now. LOOP_COMPLETE”; its promise did not count: before completion, these events must be"
    assert said.count(early) == 1
    assert "iteration 4 began for checker, after word.fixed" in said
    prompt = place.look("inspect", "last", "prompt", "4").out
    assert "- The last answer contained the text that completes, but did not complete: before completion" in prompt
    memory = place.look("inspect", "last", "memory").out
    assert "learning  only the checker may complete the loop" in memory
    assert "learning  no promise before the finder has said none.left" in memory


def test_a_loop_that_is_steered_and_killed_goes_on_where_it_was(place: Place) -> None:
    """Guidance given while a turn runs survives SIGKILL; nothing that was done is done again."""
    place.call("run", TIDY, "-i", "3", "Remove doubled words", status=3)
    with asleep(place, "resume", "last", "--add-iterations", "30") as process:
        guided = place.call("control", "guide", "last", "keep had had")
        assert guided.out.endswith(": accepted\n")
        process.kill()

    said = place.call("resume", "last").err
    assert "iteration#4 started again (attempt 2)" in said
    assert re.search(r"^completed \(completion_event\): 12 turns, ", said, re.M)
    assert text(place) == KEPT
    story = place.look("inspect", "last").out
    assert "the operator said: “keep had had”" in story
    assert "attempt 1 of iteration#4 was cut off: the process that ran it died" in story
    assert "- keep had had" in place.look("inspect", "last", "prompt", "4").out
    assert len(re.findall(r"emitted word\.fixed with “1 the”", story)) == 1
    assert place.look("replay", "last").out


def test_ctrl_c_stops_the_loop_and_names_the_command_that_carries_on(place: Place) -> None:
    """Status 130; the running turn is ended, and repeated by `resume`."""
    process = place.start("run", TIDY, "Remove doubled words", env={**os.environ, "TIDY_PAUSE": "600"})
    assert process.stderr is not None
    while "started" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert re.search(r"^stopped \(interrupted\): 1 turn, ", err, re.M)
    assert re.search(r"^  coterie resume \S+$", err, re.M)
    place.call("resume", "last")
    assert text(place) == CLEAN


def test_a_limit_stops_the_loop_and_can_be_raised(place: Place) -> None:
    """Status 3 with the command that goes on; guidance given in between is in the next prompt."""
    said = place.call("run", TIDY, "-i", "4", "Remove doubled words", status=3)
    assert re.search(r"^  coterie resume \S+ --add-iterations \d+$", said.err, re.M)
    assert place.call("resume", "last", status=3).err.startswith("stopped (max_iterations)")
    place.call("control", "guide", "last", "keep had had")

    place.call("resume", "last", "--add-iterations", "20")
    assert text(place) == KEPT


def test_a_fix_that_was_made_before_a_kill_is_not_made_twice(place: Place) -> None:
    """The fixer looks at the line before it changes it."""
    shutil.copy(Path(TIDY) / "draft.txt", place.folder / "tidy.txt")
    place.call("run", TIDY, "-i", "2", "Remove doubled words", status=3)
    once = text(place)
    assert once.startswith("The lighthouse keeper climbed the stairs")

    place.call("resume", "last", "--add-iterations", "20")
    assert text(place) == CLEAN


def test_in_a_terminal_of_60_columns_the_rows_show_the_mistakes(place: Place) -> None:
    """Role, event, the rejected emit and the promise that did not count; the loop goes on."""
    screen = Screen(place.folder, 60, "run", TIDY, "Remove doubled words")
    try:
        shown = screen.until("tidy.txt has no doubled word left.\r")
    finally:
        screen.close()
    assert "✓ iteration#1 of 30  finder" in shown
    assert "! iteration#2 emitted task.complete, which was not allo" in shown
    assert "! its promise did not count: before completion, these e" in shown
