from collections.abc import Sequence
from pathlib import Path

import pytest

from coterie.execution.kernel.run_exit import Waiting
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import ReplayReport
from coterie.execution.runs.repository import LocalRuns
from coterie.history.journal.records import (
    AttemptLaunched,
    ConditionUnknown,
    ConfigKept,
    EventEmitted,
    EventInvalid,
    PathEnded,
    Record,
    RunOwned,
    RunStarted,
    RunStopped,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.history.views.run import RunView
from coterie.history.views.timeline import sentence
from coterie.history.views.tree import RunNode, tree
from coterie.history.views.words import result as result_text
from coterie.interfaces.cli.display import Lines
from coterie.interfaces.cli.text import outcomes, progress, rehearsals
from coterie.interfaces.cli.text.proofs import shares
from coterie.interfaces.cli.text.words import clock, table
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan, to_json


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "00:00.0"), (1.24, "00:01.2"), (59.96, "01:00.0"), (605.0, "10:05.0"), (6000, "100:00.0")],
)
def test_a_time_is_minutes_seconds_and_tenths(seconds: float, shown: str) -> None:
    """Rounding carries over to the next minute."""
    assert clock(seconds) == shown


def test_a_table_is_as_wide_as_its_cells() -> None:
    """No line ends in blanks."""
    assert table([("a", "1"), ("long", "")], ("x", "n")) == "x     n\na     1\nlong"


def test_a_completed_run_says_what_it_used() -> None:
    """There is nothing to do next. The time is the run's, not the sum of its turns'."""
    usage = Usage(turns=2, seconds=5.0, cost=0.5, input_tokens=10, output_tokens=4)
    ended = Outcome(run="r1", status="completed", result={"text": "All fine.\n"}, usage=usage, seconds=3.0)

    assert outcomes.outcome(ended) == "completed: 2 turns, worked 3.0 s, $0.50, 10 tokens in, 4 out, run r1"
    assert outcomes.next_steps(ended, "") == ""


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (None, ""),
        ("text\n", "text"),
        ({"text": "", "outputs": {"w": {"v": "ok"}}}, '{"w": {"v": "ok"}}'),
        ({"text": 'It holds.\n\n```json\n{"verdict": "ok"}\n```\n', "outputs": {"w": {"verdict": "ok"}}}, "It holds."),
        ({"text": '```json\n{"verdict": "ok"}\n```', "outputs": {}}, '```json\n{"verdict": "ok"}\n```'),
        ({"said": [1]}, '{"said": [1]}'),
        (3, "3"),
    ],
)
def test_a_result_is_its_text_or_else_its_values(result: object, shown: str) -> None:
    """Whatever an engine gives back can be shown."""
    assert result_text(result) == shown


@pytest.mark.parametrize(
    ("status", "reason", "steps"),
    [
        (
            "stopped",
            "max_turns",
            "it has begun all turns that --max-turns allows\ncontinue with:\n  coterie resume r1 --max-turns N",
        ),
        ("stopped", "interrupted", "an interruption stopped it\ncontinue with:\n  coterie resume r1"),
        (
            "stopped",
            "cost_budget",
            "it has reached event_loop.max_cost_usd\ncontinue with (first raise event_loop.max_cost_usd):\n"
            "  coterie resume r1",
        ),
        ("failed", "a#1 failed", "inspect it with:\n  coterie inspect r1"),
    ],
)
def test_a_run_that_did_not_complete_says_what_to_do_next(status: str, reason: str, steps: str) -> None:
    """A limit must be given anew; a failure is looked into."""
    assert outcomes.next_steps(Outcome(run="r1", status=status, reason=reason), "") == steps


def test_an_open_question_says_how_it_is_answered() -> None:
    """A question in a child run is addressed through the turn that the child is; a state directory is named."""
    question = Waiting(run="r1/inner#1.1", turn="boss#1", agent="boss", prompt="Shall\nwe?")
    ended = Outcome(run="r1", status="stopped", reason="waiting", exit=4, waiting=(question,))

    assert outcomes.next_steps(ended, LocalRuns(Path("my state")).option) == (
        "inner#1.1/boss#1 asks: “Shall we?”\n"
        "  coterie control respond r1 'inner#1.1/boss#1' TEXT --state-dir 'my state'\n"
        "continue with:\n"
        "  coterie resume r1 --state-dir 'my state'"
    )


def test_a_long_question_says_where_all_of_it_can_be_read() -> None:
    """What a person is to decide about is seldom in its first words."""
    question = Waiting(run="r1/inner#1.1", turn="boss#1", agent="boss", prompt="Shall we? " * 100)
    told = outcomes.next_steps(Outcome(run="r1", status="stopped", reason="waiting", exit=4, waiting=(question,)), "")

    assert told.splitlines()[0].endswith("…”")
    assert told.splitlines()[1] == "  coterie inspect r1/inner#1.1 prompt 'boss#1'  # in full"


def test_the_outcome_as_data_leaves_nothing_out() -> None:
    """Zeros are written too, so a reader needs no defaults."""
    data = outcomes.outcome_data(Outcome(run="r1", status="stopped", reason="waiting", exit=4))

    assert data["usage"] == {
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": 0.0,
        "seconds": 0.0,
        "turns": 0,
        "cached_tokens": 0,
        "unpriced": 0,
        "context_tokens": 0,
        "context_window": 0,
        "unsettled": 0.0,
    }
    assert list(data)[:7] == ["run", "outcome", "exit", "reason", "result", "usage", "seconds"]


def test_of_a_great_many_agents_those_with_most_turns_are_named() -> None:
    """A line stays a line; the order is that of the file."""
    assert shares({"writer": 3, "publisher": 1}) == "writer 3, publisher 1"
    told = shares({f"a{n}": 1 + n % 3 for n in range(3000)})

    assert told.startswith("a2 3, a5 3, a8 3, ")
    assert told.endswith(", a35 3 and 2988 agents more")


def test_a_replay_that_agrees_says_what_is_left() -> None:
    """A finished run leaves nothing to do."""
    assert outcomes.replayed(ReplayReport(run="r1", records=1)) == "r1: the current engine agrees with 1 record"
    assert outcomes.replayed(ReplayReport(run="r1", records=2, left=("a#1",))).endswith("\npending:\n  a#1")


def test_lines_tell_what_is_worth_telling() -> None:
    """Times count from the first record; a child run's lines name the turn that it is."""
    printer = Lines()
    records: list[tuple[str, Record]] = [
        ("r1", RunStarted(at=100.0, run="r1", engine="flow", topology="t", input={"prompt": "Go"})),
        ("r1", RunOwned(at=100.0, epoch=1)),
        ("r1", TurnStarted(at=100.0, turn="in#1", agent="in")),
        ("r1", AttemptLaunched(at=100.0, turn="in#1", attempt=1, pid=7, group=7)),
        ("r1/in#1.1", RunStarted(at=100.5, run="r1/in#1.1", engine="flow")),
        ("r1/in#1.1", TurnStarted(at=100.5, turn="w#1", agent="w")),
        ("r1/in#1.1", TurnFinished(at=102.0, turn="w#1", attempt=1, outputs={"verdict": "ok"})),
        ("r1", RunStopped(at=103.0, reason="waiting")),
    ]

    lines = [line for run, record in records if (line := printer.line(run, record))]
    assert lines[:3] == [
        f"00:00.0  {sentence(records[0][1])}",
        f"00:00.0  {sentence(records[2][1])}",
        f"00:00.5  in#1.1: {sentence(records[5][1])}",
    ]
    assert lines[3].startswith(f"00:02.0  in#1.1: {sentence(records[6][1])}")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", range(8)), ("info", (0, 2, 3, 4, 5, 6)), ("warn", (3, 4, 5)), ("error", (4,)), ("none", ())],
)
def test_the_log_level_of_a_loop_selects_its_lines(level: str, shown: Sequence[int]) -> None:
    """Each level has the lines of the levels above it; a warning about an edited file is one whatever it came with."""
    plan = Plan(name="t", coordination=LoopPlan(place=RunPlace(log_level=level)))
    printer = Lines()
    records: list[Record] = [
        RunStarted(run="r1", engine="loop", plan=to_json(plan).decode()),
        RunOwned(epoch=1),
        TurnStarted(turn="iteration#1", agent="a"),
        EventInvalid(turn="iteration#1", event="x", allowed=()),
        TurnFailed(turn="iteration#1", kind="exit", reason="1"),
        ConfigKept(warnings=("warning[x]: y",)),
        EventEmitted(turn="iteration#2", event="x"),
        ConfigKept(),
    ]

    assert [n for n, record in enumerate(records) if printer.line("r1", record)] == list(shown)


def test_a_condition_that_nothing_satisfies_is_shown_with_the_value_that_was_found() -> None:
    """In the lines of a pipe and beside the turn in a tree: a flow never goes another way in silence."""
    records = [
        RunStarted(run="r1", engine="flow"),
        TurnStarted(turn="r#1", agent="r"),
        TurnFinished(turn="r#1", attempt=1, outputs={"verdict": "maybe"}),
        ConditionUnknown(turn="r#1", agent="r", field="score"),
        PathEnded(turn="r#1", found={"r.verdict": '"maybe"'}),
    ]
    printer, view = Lines(), RunView()
    for record in records:
        view.apply(record)

    assert [printer.line("r1", record) for record in records][-2:] == [
        "00:00.0  after r#1, a condition read r.score, which has no value yet; it counted as false",
        '00:00.0  the path ended after r#1: no arrow\'s condition held (r.verdict is "maybe")',
    ]
    (turn,) = tree(view, {}, now=0.0).children
    assert turn.detail == 'r.score has no value; no arrow\'s condition held (r.verdict is "maybe"); verdict = "maybe"'


def node(name: str, state: str, *children: RunNode) -> RunNode:
    return RunNode(id=name, label=name, state=state, seconds=1.0, children=children)


def test_a_tree_that_fits_is_shown_whole() -> None:
    """One line for each turn, indented below the run that it belongs to."""
    root = node("team", "running", node("a#1", "finished"), node("b#1", "running", node("inner", "running")))

    assert progress.tree(root, 10) == [
        ("running", "▶ team  running  1.0 s"),
        ("finished", "  ✓ a#1  finished  1.0 s"),
        ("running", "  ▶ b#1  running  1.0 s"),
        ("running", "    ▶ inner  running  1.0 s"),
    ]


@pytest.mark.parametrize("most", [2, 5, 9])
def test_a_tree_that_does_not_fit_leaves_out_what_ended_first(most: int) -> None:
    """It never takes more lines than there are; what runs is kept as long as there is room for it."""
    turns = [node(f"t#{i}", "finished" if i < 20 else "running") for i in range(22)]
    lines = progress.tree(node("team", "running", *turns), most)

    assert len(lines) <= most
    assert lines[1][1] == f"  … {23 - (len(lines) - 1)} more"
    assert most < 4 or [line for state, line in lines[-2:]] == ["  ▶ t#20  running  1.0 s", "  ▶ t#21  running  1.0 s"]


def test_a_rehearsal_shows_every_turn_and_what_it_led_to() -> None:
    """Times are virtual seconds; a child run lies below its turn."""
    turn = {
        "agent": "r",
        "n": 2,
        "started": 1.0,
        "finished": 2.0,
        "marked_by": ["w"],
        "outputs": {"verdict": "revise", "text": "w" * 99, "rows": list(range(99)), "none": None, "n": 0},
        "fired": [],
        "exhausted": [["r", ["w"]]],
        "forced": ["r", ["p", "q"]],
    }
    inner = {"run": "x/r#2.1", "outcome": "completed", "exit": 0, "turns": [], "never_ran": ["z"]}
    shown = rehearsals.rehearsal(
        {"outcome": "completed", "exit": 0, "turns": [turn | {"child": inner}], "never_ran": ["p"]}
    )

    assert shown.splitlines() == [
        "00:01.0 – 00:02.0  r#2 <- w",
        f'    verdict = "revise", text = "{"w" * 58}…, n = 0, 2 more',
        "    r -> w has reached its bound",
        "    r -> [p, q] (forced)",
        "    child run: completed",
        "    never ran: z",
        "never ran: p",
        "completed (rehearsed: no backend was called)",
    ]


def test_a_rehearsal_shows_sets_before_their_items() -> None:
    """Each with its number of items, and the arrows that its end fired."""
    turn = {"started": 1.0, "finished": 2.0, "marked_by": [], "outputs": {"ok": True}, "fired": [], "exhausted": []}
    reader = turn | {"agent": "reader", "n": 1, "forced": None, "item": [1, 1]}
    its = reader | {"n": 2, "items": 1, "marked_by": ["scout"], "outputs": {"ok": [True]}, "fired": [["reader", ["w"]]]}
    shown = rehearsals.rehearsal({"outcome": "completed", "turns": [reader], "sets": [its], "never_ran": []})

    assert shown.splitlines()[:5] == [
        "00:01.0 – 00:02.0  reader@2, 1 item <- scout",
        "    ok = [true]",
        "    reader -> w",
        "00:01.0 – 00:02.0  reader#1, item 1 of 1",
        "    ok = true",
    ]
