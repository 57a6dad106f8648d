"""Runs in a real terminal, a pseudo-terminal of a known size: what a person sees and types."""

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest

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


class Screen:
    """A run of `coterie` in a terminal of *columns* columns, with all that it wrote there."""

    def __init__(self, folder: Path, columns: int, *words: str) -> None:
        self._terminal, line = pty.openpty()
        ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie", *words],
            stdin=line,
            stdout=line,
            stderr=line,
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"},
        )
        os.close(line)
        self.shown = ""

    def until(self, text: str) -> str:
        """Read until *text* is shown, and return what was written up to then since the last call."""
        deadline = time.monotonic() + 60
        while text not in self.shown:
            ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} was never shown: {self.shown[-2000:]!r}"
            self.shown += os.read(self._terminal, 65536).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


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
