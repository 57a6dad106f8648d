"""Runs in a real terminal, a pseudo-terminal of a known size: what a person sees and types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import recording_page
from screen import Screen, picture

TEAM = """\
topology team : [pipeline, human-gate] {
  flow {
    writer -> boss
    boss -> finish [when boss.verdict == "approve"]
  }
  agent writer { extensions { coterie { command: ["sh", "{here}/writer.sh"] } } }
  human boss { description: "Shall we ship?" }
  agent finish { extensions { coterie { command: ["echo", "shipped"] } } }
}
"""
WRITER = """\
printf 'drafting\\033[2J\\n'
read line < "$(dirname "$0")/go"
echo 'the draft'
"""


@pytest.fixture
def team(tmp_path: Path) -> Path:
    (tmp_path / "team.at").write_text(TEAM, encoding="utf-8")
    (tmp_path / "writer.sh").write_text(WRITER, encoding="utf-8")
    os.mkfifo(tmp_path / "go")
    return tmp_path


def test_a_flow_in_a_terminal_shows_what_happens_and_asks(team: Path) -> None:
    """Pending nodes, the last line of the running agent, then the question, its answer and the finished tree."""
    screen = Screen(team, 80, "run", "team.at", "Release notes")
    try:
        running = screen.until("drafting") + screen.until("finish  pending")
        assert "1 running, 2 pending" in running
        assert "\x1b[2J" not in running
        (team / "go").write_text("go\n", encoding="utf-8")
        screen.until("boss#1 asks you")
        screen.until("> ")
        screen.type("Well done")
        assert "\x1b[1A" not in screen.until("verdict (approve): ")  # nothing is drawn over the question
        screen.type("aprove")
        screen.until("no condition compares verdict with 'aprove'")
        screen.type("verdict: approve")
        ended = screen.until("completed: 3 turns")
        assert "\x1b[1A" not in ended.split(" team  ")[0]  # nor over what was answered
        assert "the draft”" in ended
        assert 'verdict = "approve"' in ended
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()


def test_an_answer_given_elsewhere_takes_the_question_down(team: Path) -> None:
    """The run goes on, and the terminal says why it no longer asks."""
    screen = Screen(team, 40, "run", "team.at", "Release notes")
    try:
        screen.until("drafting")
        (team / "go").write_text("go\n", encoding="utf-8")
        screen.until("boss#1 asks you")
        screen.until("> ")
        answer = [sys.executable, "-m", "coterie", "control", "respond", "last", "approve"]
        subprocess.run(answer, cwd=team, check=True, capture_output=True, timeout=60)
        screen.until("(boss#1 no longer waits for an answer here)")
        screen.until("completed: 3 turns")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()


@pytest.mark.slow
def test_watch_shows_what_the_agents_print(team: Path) -> None:
    """As the terminal of the run itself does, and to the end."""
    run = Screen(team, 80, "run", "team.at", "Release notes", "--park")
    try:
        run.until("drafting")
        watch = Screen(team, 80, "watch")
        try:
            shown = watch.until("finish  pending")
            if "drafting" not in shown:
                shown += watch.until("drafting")
            assert "\x1b[2J" not in shown
            (team / "go").write_text("go\n", encoding="utf-8")
            watch.until("the draft”")
            assert watch.process.wait(timeout=60) == 0
        finally:
            watch.close()
    finally:
        run.close()


@pytest.mark.slow  # two seconds pass without output
def test_a_command_in_a_terminal_says_what_it_waits_for(team: Path) -> None:
    """After two seconds without output, on a line of its own."""
    screen = Screen(team, 80, "run", "team.at", "-")
    try:
        assert screen.until("waiting for the text on standard input").splitlines()[-1].startswith("waiting")
    finally:
        screen.close()


@pytest.mark.slow
def test_the_recordings_on_the_page_are_what_the_terminal_shows() -> None:
    """`python docs/generate/recording_page.py > docs/reference/terminal.md` records them anew."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "terminal.md"

    assert page.read_text(encoding="utf-8") == recording_page.page()


def test_a_picture_is_what_is_left_on_the_screen() -> None:
    """A line that is rewritten, lines drawn again from above, a line that is too long, and nothing that is unknown."""
    assert picture("one\r\x1b[2Ktwo\r\n\x1b[1mthree\x1b[0m\r\x1b[1A\x1b[2Kfour", 10) == "four\nthree"
    assert picture("abcdef\r\nx", 4) == "abcd\nef\nx"
    with pytest.raises(ValueError, match="'J'"):
        picture("\x1b[2J", 10)
