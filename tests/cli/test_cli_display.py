import io
import sys

import pytest
from rich.console import Console

from coterie.cli.display import Display, Lines, choose
from coterie.cli.live import LiveTree
from coterie.clock import VirtualClock
from coterie.journal.records import RunFinished, RunOwned, RunStarted, TurnFinished, TurnStarted, Usage


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("output", "keyboard", "park", "as_json", "parks", "asks"),
    [
        (True, True, None, False, False, True),
        (True, True, True, False, True, False),
        (True, False, None, False, True, False),
        (False, True, None, False, True, False),
        (False, False, False, False, False, False),
        (True, True, None, True, True, False),
        (True, True, False, True, False, False),
    ],
)
def test_a_person_is_asked_only_where_there_is_one(
    output: bool,
    keyboard: bool,
    park: bool | None,
    as_json: bool,
    parks: bool,
    asks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a terminal on both sides a run parks, unless it is told to wait for the inbox."""
    monkeypatch.setattr(sys, "stdout", Screen(output))
    monkeypatch.setattr(sys, "stdin", Screen(keyboard))

    with choose(park, as_json) as watch:
        assert (watch.parks, watch.human is not None) == (parks, asks)


def test_a_pipe_gets_lines_and_json_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Records that are not worth a line print none."""
    lines = Lines()
    lines.observe("r1", TurnStarted(at=1.0, turn="a#1", agent="a"))
    lines.observe("r1", RunOwned(at=1.0, epoch=1))
    Display().observe("r1", TurnStarted(at=1.0, turn="a#1", agent="a"))

    assert capsys.readouterr().out.splitlines() == ["00:00.0  a#1 started"]


def test_the_live_tree_ends_with_how_everything_ended() -> None:
    """Turns and child runs with state, time and cost; what is on the screen last stays there."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20, color_system=None)
    with LiveTree(console, VirtualClock(start=110.0)) as tree:
        tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
        tree.observe("r1", TurnStarted(at=100.0, turn="in#1", agent="in"))
        tree.observe("r1/in#1.1", RunStarted(at=100.0, run="r1/in#1.1", engine="flow", topology="inner"))
        tree.observe("r1/in#1.1", TurnStarted(at=101.0, turn="w#1", agent="w"))
        tree.observe("r1/in#1.1", TurnFinished(at=103.0, turn="w#1", attempt=1, usage=Usage(cost=0.25)))
        tree.observe("r1", TurnStarted(at=104.0, turn="x#1", agent="x"))
    last = screen.getvalue().split("▶ team")[-1]

    assert "✓ w#1  finished  2.0 s  $0.2500" in last
    assert "▶ x#1  running  6.0 s" in last


def test_the_live_tree_makes_room_for_a_question() -> None:
    """What is printed meanwhile stands between two trees, and the later one is complete."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20, color_system=None)
    with LiveTree(console, VirtualClock(start=100.0)) as tree:
        tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
        with tree.aside():
            screen.write("QUESTION\n")
        tree.observe("r1", RunFinished(at=100.0, outcome="completed"))
    before, after = screen.getvalue().split("QUESTION")

    assert "▶ team" in before
    assert "✓ team  completed" in after
