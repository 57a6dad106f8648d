import asyncio
import io
import re
import sys

import pytest
from rich.console import Console

from coterie.agents.backends.base import AttemptRef, Permission, Request, Text, Tool
from coterie.base.clock import VirtualClock
from coterie.execution.runs.outcome import Outcome
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    RunFinished,
    RunOwned,
    RunStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.interfaces.cli.display import Display, Lines
from coterie.interfaces.cli.live import LiveTree
from coterie.interfaces.cli.text.outcomes import outcome
from coterie.interfaces.cli.watcher import Watch, choose
from coterie.team.planning.plan import AgentPlan, Wanted


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
        (False, False, False, False, False, True),
        (True, True, None, True, True, False),
        (True, True, False, True, False, True),
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
    """Without a terminal on both sides a run parks, or else says how its questions are answered."""
    monkeypatch.setattr(sys, "stderr", Screen(output))
    monkeypatch.setattr(sys, "stdin", Screen(keyboard))

    with choose(park, as_json) as watch:
        assert (watch.parks, watch.human is not None) == (parks, asks)


@pytest.mark.parametrize(("terminal", "draws"), [("xterm", True), ("dumb", False), ("", True)])
def test_a_terminal_on_which_nothing_can_be_drawn_gets_lines(
    terminal: str, draws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell of an editor shows what happens when it happens; a live tree would appear there at the end only."""
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", Screen(True))
    monkeypatch.setenv("TERM", terminal)
    with choose(None, False) as watch:
        watch.observe("r1", RunStarted(at=1.0, run="r1", engine="flow", topology="team"))
        watch.observe("r1", TurnStarted(at=1.0, turn="a#1", agent="a"))
        assert screen.getvalue().endswith("a#1 started\n") is not draws
        assert watch.human is not None


def test_the_live_tree_leaves_the_cursor_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed, or ended by a second Ctrl-C, could not show it again."""
    monkeypatch.setattr(sys, "stderr", screen := Screen(True))
    with LiveTree(on_stderr=True) as tree:
        tree.observe("r1", RunStarted(at=1.0, run="r1", engine="flow", topology="team"))
    assert "▶ team" in screen.getvalue()
    assert "\x1b[?25" not in screen.getvalue()


def test_a_pipe_gets_lines_and_json_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Records that are not worth a line print none."""
    lines = Lines()
    lines.observe("r1", TurnStarted(at=1.0, turn="a#1", agent="a"))
    lines.observe("r1", RunOwned(at=1.0, epoch=1))
    Display().observe("r1", TurnStarted(at=1.0, turn="a#1", agent="a"))

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "00:00.0  a#1 started\n")


def test_lines_of_a_system_keep_nothing_of_flows_that_have_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A system may call a million of them; what each said is the same as ever."""
    lines = Lines()
    lines.observe("r1", RunStarted(at=1.0, run="r1", engine="system"))
    for n in range(1, 4):
        run = f"r1/desk#{n}.1"
        lines.observe(run, RunStarted(at=1.0, run=run, engine="flow"))
        lines.observe(run, TurnStarted(at=1.0, turn="a#1", agent="a"))
        lines.observe(run, TurnFinished(at=3.0, turn="a#1", attempt=1, text="tea"))
        lines.observe(run, RunFinished(at=3.0, outcome="completed"))
    assert set(lines._runs) == {"r1"}
    assert capsys.readouterr().err.count("a#1 answered “tea” (2.0 s)") == 3


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

    assert "✓ w#1  finished  2.0 s  $0.25" in last
    assert "▶ x#1  running  6.0 s" in last


def test_the_live_tree_forgets_what_ended_attempts_printed() -> None:
    """It draws from what it knows eight times a second, for as long as the run lasts."""
    tree = LiveTree(Console(file=io.StringIO()), VirtualClock(start=110.0))
    tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
    for turn in ("w#1", "w#2", "w#3", "w#4"):
        tree.observe("r1", TurnStarted(at=100.0, turn=turn, agent="w"))
        tree.on_event(AttemptRef(run="r1", turn=turn, attempt=1), Text(text="half"))
    tree.observe("r1", TurnFinished(at=103.0, turn="w#1", attempt=1))
    tree.observe("r1", AttemptFailed(at=103.0, turn="w#2", attempt=1, kind="exit", reason="no"))
    tree.observe("r1", AttemptInterrupted(at=103.0, turn="w#3", attempt=1, reason="crash"))

    assert [*tree._activities] == ["r1/w#4.1"]


CAUSE = "`analyse --with a-rather-long-option --and another` ended with status 3: no such analysis as this one"


def test_the_live_tree_shows_the_cause_of_a_failure_once_and_whole() -> None:
    """On the line of the turn, folded in the last picture; the teams above it refer to it, and no note repeats it."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20, color_system=None)
    reason = f"w#1 failed (exit): {CAUSE}"
    with LiveTree(console, VirtualClock(start=110.0)) as tree:
        tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
        tree.observe("r1", TurnStarted(at=100.0, turn="in#1", agent="in"))
        tree.observe("r1/in#1.1", RunStarted(at=100.0, run="r1/in#1.1", engine="flow", topology="inner"))
        tree.observe("r1/in#1.1", TurnStarted(at=101.0, turn="w#1", agent="w"))
        for run, turn, why, text in (("r1/in#1.1", "w#1", CAUSE, "half"), ("r1", "in#1", reason, "")):
            tree.observe(run, AttemptFailed(at=103.0, turn=turn, attempt=1, kind="exit", reason=why, text=text))
            tree.observe(run, TurnFailed(at=103.0, turn=turn, kind="exit", reason=why))
            tree.observe(run, RunFinished(at=103.0, outcome="failed", reason=f"{turn} failed (exit): {why}"))
    last = screen.getvalue().split("✗ team")[-1].split("\x1b")[0]

    assert " ".join(last.split()) == (
        "failed 3.0 s in#1 failed (exit) "
        "✗ in#1 failed 3.0 s w#1 failed (exit) "
        "✗ inner failed 3.0 s w#1 failed (exit) "
        f"✗ w#1 failed 2.0 s {CAUSE}; its last line was “half”"
    )


def test_lines_name_a_cause_where_it_happens() -> None:
    """Each attempt has its own; its turn and the teams above it refer to it."""
    lines, reason = Lines(), f"w#1 failed (exit): {CAUSE}"
    said = [
        lines.line("r1/in#1.1", AttemptFailed(turn="w#1", attempt=1, kind="exit", reason=CAUSE)),
        lines.line("r1/in#1.1", AttemptFailed(turn="w#1", attempt=2, kind="exit", reason=CAUSE)),
        lines.line("r1/in#1.1", TurnFailed(turn="w#1", kind="exit", reason=CAUSE)),
        lines.line("r1", AttemptFailed(turn="in#1", attempt=1, kind="failed", reason=reason)),
        lines.line("r1", TurnFailed(turn="in#1", kind="failed", reason=reason)),
    ]

    assert said == [
        f"00:00.0  in#1.1: attempt 1 of w#1 failed (exit): {CAUSE}",
        f"00:00.0  in#1.1: attempt 2 of w#1 failed (exit): {CAUSE}",
        "00:00.0  in#1.1: w#1 failed for good (exit)",
        "00:00.0  attempt 1 of in#1 failed (failed): w#1 failed (exit)",
        "00:00.0  in#1 failed for good (failed)",
    ]


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


def test_the_live_tree_shows_the_last_line_of_each_running_agent() -> None:
    """Escape sequences of an agent are dropped and other control characters escaped: they never reach the screen."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=20, color_system=None)
    with LiveTree(console, VirtualClock(start=100.0)) as tree:
        tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
        tree.observe("r1", TurnStarted(at=100.0, turn="w#1", agent="w"))
        ref = AttemptRef(run="r1", turn="w#1", attempt=1, epoch=1)
        for said in ("step 1\nst", "ep \x1b[2J\x1b[31m2\x07", "\n"):
            tree.on_event(ref, Text(text=said))
    last = screen.getvalue().split("▶ team")[-1]

    assert "▶ w#1  running  0.0 s  step 2\\x07" in last
    assert "\x1b[2J" not in last


def test_a_question_without_a_terminal_says_how_it_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """With --no-park a run that waits for a person prints the question and the command, and waits."""
    boss = AgentPlan(name="boss", kind="human", outputs=(Wanted(name="verdict", values=("approve", "revise")),))
    asked = Request(run="r1/in#1.1", turn="boss#1", attempt=1, agent=boss, prompt="Shall we?")

    async def main() -> None:
        human = Watch(Lines(), parks=False, at_terminal=False, where=" --state-dir there").human
        assert human is not None
        asking = asyncio.ensure_future(human(asked))
        await asyncio.sleep(0)
        assert not asking.done()
        asking.cancel()

    asyncio.run(main())
    said = capsys.readouterr().err
    assert "Shall we?" in said
    assert "coterie control respond r1 'in#1.1/boss#1' TEXT --output verdict=approve|revise --state-dir there\n" in said


def test_failed_turns_are_counted_of_all_owners() -> None:
    """Those below a turn that failed itself are part of its failure."""
    watch = Watch(Display(), parks=True, at_terminal=False)
    watch.recall([("r1", TurnFailed(turn="a#1", kind="exit", reason="x"))])
    watch.observe("r1/b#1.1", TurnFailed(turn="c#1", kind="exit", reason="x"))
    watch.observe("r1", TurnFailed(turn="b#1", kind="failed", reason="x"))
    ended = Outcome(run="r1", status="completed", result="done", usage=Usage(turns=3), seconds=1.0)

    assert list(watch.failed) == ["a#1", "b#1.1/c#1", "b#1"]
    assert outcome(ended, watch.failed) == (
        "completed: 3 turns, worked 1.0 s, run r1, 2 failed turns skipped or replaced: a#1 and b#1"
    )


def test_the_live_tree_folds_the_tools_of_an_agent() -> None:
    """The current tool is shown and those before it are counted, until the agent writes again."""
    shown = [
        (Text(text="I look.\n"), "I look."),
        (Tool(id="1", name="Bash", detail="ls"), "Bash: ls"),
        (Tool(id="1", name="Bash", state="finished", result="a.py"), "Bash: ls"),
        (Tool(id="2", name="Read", detail="a.py"), "(1 tool) Read: a.py"),
        (Permission(id="3", tool="Write"), "(1 tool) Write needs permission"),
        (Text(text="It is "), "(2 tools) It is"),
        (Text(text="done"), "(2 tools) It is done"),
    ]
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=20, color_system=None)
    tree = LiveTree(console, VirtualClock(start=100.0))
    tree.observe("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="team"))
    tree.observe("r1", TurnStarted(at=100.0, turn="w#1", agent="w"))
    for event, line in shown:
        tree.on_event(AttemptRef(run="r1", turn="w#1", attempt=1, epoch=1), event)
        with console.capture() as drawn:
            console.print(tree._drawn())
        assert f"running  0.0 s  {line}\n" in re.sub(" *\n", "\n", drawn.get()), event


def test_a_cause_that_an_earlier_owner_showed_is_shown_again() -> None:
    """Its line is not on this terminal."""
    lines = Lines()
    lines.recall("r1", AttemptFailed(turn="w#1", attempt=1, kind="exit", reason=CAUSE))

    assert not lines.causes
