"""A terminal of 80 columns and 24 lines: no line loses its cost, its answer or the command to type."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from bundles import bundle
from command_line import Place
from screen import Screen

from coterie.execution.kernel.run_exit import Waiting
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.statistics import RunStats
from coterie.history.journal.records import MERGE_CONFLICT
from coterie.history.views.attention import Attention
from coterie.history.views.tree import RunNode
from coterie.interfaces.cli.text import attention, outcomes, progress
from coterie.interfaces.cli.text import runs as text
from coterie.interfaces.cli.text.words import cut, table

LONG = """topology a_team_with_quite_a_long_name : [pipeline] {
  human boss { outputs { verdict: approve | revise } }
  agent end { extensions { coterie { command: ["printf", "the end"] } } }
  flow { boss -> end }
}
"""


@contextmanager
def screen(folder: Path, *words: str) -> Iterator[Screen]:
    """`coterie` in a terminal of 80 columns and 24 lines."""
    made = Screen(folder, 80, *words)
    try:
        yield made
    finally:
        made.close()


def stats(**values: object) -> RunStats:
    known = {
        "run": "20261121-121517-f650bc",
        "topology": "a-team-with-quite-a-long-name",
        "started": 1.8e9,
        "state": "failed",
        "folder": "/x",
        "cwd": "/home/ada/projects/parser",
        "prompt": "Fix the parser, and everything else that you may find on the way to it",
        "cost": 12.3456,
        "seconds": 725.0,
    }
    return RunStats(**{**known, **values})  # type: ignore[arg-type]


def test_runs_fit_and_columns_give_way_in_their_order() -> None:
    """First the prompt and the folder, then the start and the name; id, state, time and cost never."""
    found = [stats(), stats(state="completed", topology="t", prompt="Go", cwd=".")]
    shown = {width: text.runs(found, width, everywhere=False).split("\n") for width in (240, 140, 120, 100, 86, 80, 66)}
    for width, lines in shown.items():
        assert max(map(len, lines)) <= width, width
        assert not [
            part for part in ("20261121-121517-f650bc", "failed", "12 min 05 s", "$12.346") if part not in lines[1]
        ], (width, lines[1])
    heads = {width: lines[0].split() for width, lines in shown.items()}
    assert heads[240] == ["run", "team", "started", "state", "worked", "cost", "folder", "prompt"]
    assert "“Fix the parser, and everything else that you may find on the way to it”" in shown[240][1]
    assert heads[140] == heads[240]
    assert shown[140][1].endswith("…”")
    assert "prompt" not in heads[100]
    assert heads[86] == ["run", "team", "started", "state", "worked", "cost"]
    assert "a-team-with…" in shown[80][1]
    assert heads[80] == heads[66] == ["run", "team", "state", "worked", "cost"]
    wide = text.runs(found, None, everywhere=False)
    assert "a-team-with-quite-a-long-name" in wide
    assert re.search(r"2027-01-1\d \d\d:\d\d:\d\d", wide)


@bundle(
    "values",
    [
        {"state": "stopped", "reason": MERGE_CONFLICT, "run": "thoughtful-clever-kestrel"},
        {"state": "running", "reason": "waiting for the quota of a provider to open at 12:30"},
        {"run": "order-" + "1" * 40},
    ],
)
def test_a_long_state_and_a_long_id_fit_80_columns(values: dict[str, str]) -> None:
    """The id is whole, as it is typed; time and cost stay, and the state begins as it does."""
    lines = text.runs([stats(**values)], 80, everywhere=False).split("\n")

    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(values.get("run", "20261121-121517-f650bc"))
    for part in (f"  {values.get('state', 'failed')}", "  12 min 05 s", "  $12.346"):
        assert part in lines[1]


def test_a_table_cuts_before_it_leaves_out() -> None:
    """As far as needed and no further; a quotation stays one, and a title is never cut."""
    rows = [("one", "“a long quotation”", "1")]
    order = (("quote", 8), ("quote", 0), ("name", 1))
    assert table(rows, ("name", "quote", "n"), 99, order) == table(rows, ("name", "quote", "n"))
    assert table(rows, ("name", "quote", "n"), 22, order).split("\n")[1] == "one   “a long quo…”  1"
    assert table(rows, ("name", "quote", "n"), 12, order).split("\n") == ["name  n", "one   1"]
    assert (cut("abc", 3), cut("abcd", 3), cut("“abcd”", 4), cut("abcd", 0)) == ("abc", "ab…", "“a…”", "…")


@bundle("depth", [0, 3, 12])
def test_a_line_of_the_tree_keeps_state_time_cost_and_a_whole_command(depth: int) -> None:
    """The name is cut before them; a command that would be cut is replaced by a short one that shows it."""
    detail = "answer with: coterie control respond 20261121-190244-cafc6a 'editor#1' TEXT"
    node = RunNode(id="x", label="a node with a name that is far too long for a line " * 2, state="waiting",
                   seconds=75.0, cost=1.5, detail=detail)  # fmt: skip
    for _ in range(depth):
        node = RunNode(id="x", label="team", state="running", children=(node,))
    line = progress.tree(node, 99, 80)[-1][1]
    assert "waiting  1 min 15 s  $1.50  " in line
    assert line.index("$1.50") < 80
    short = RunNode(id="x", label="editor#1", state="waiting", seconds=75.0, cost=1.5, detail=detail)
    assert progress.tree(short, 99, 80)[-1][1].endswith("$1.50  see: coterie attention")
    assert progress.tree(short, 99, 200)[-1][1].endswith(detail)
    assert progress.tree(short, 99)[-1][1].endswith(detail)


def test_a_line_of_a_loop_keeps_its_cost_and_its_answer() -> None:
    """What an iteration follows, which the line above shows, gives way first; then the end of its name."""
    node = RunNode(id="x", label="iteration#2 of 20  builder  after work.rejected  → work.ready", state="finished",
                   seconds=7.0, cost=1.5, detail="“I built it”")  # fmt: skip
    assert progress.tree(node, 9, 80) == [
        ("finished", "✓ iteration#2 of 20  builder  → work.ready  finished  7.0 s  $1.50  “I built it”")
    ]
    assert progress.tree(node, 9, 120)[0][1].startswith("✓ iteration#2 of 20  builder  after work.rejected  →")
    long = msgspec.structs.replace(node, label=f"a role {node.label}", detail="“" + "word " * 30 + "”")
    assert progress.tree(long, 9, 80)[0][1][:80].endswith("…  finished  7.0 s  $1.50  “word word wo")


def test_what_needs_a_person_fits_and_says_where_the_rest_is() -> None:
    """A text has one line, the command is whole, and a further one shows what was cut."""
    words, command = "a long question " * 30, "coterie control respond r x TEXT"
    asks = Attention(kind="question", run="r/inner#1.1", id="x", turn="boss#1", since=0.0, text=words, command=command)
    lines = attention.items([asks], everywhere=True, width=80).split("\n")
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("…")
    assert lines[2:] == ["  coterie inspect 'r/inner#1.1' prompt 'boss#1'  # in full", f"  {command}"]
    assert len(attention.items([asks], everywhere=True).split("\n")) == 3


def test_a_parked_question_has_a_short_form_and_the_way_to_see_all() -> None:
    """One line on a terminal; in a pipe more of it."""
    waiting = Waiting(run="r", turn="boss#1", agent="boss", prompt="May this be published? " * 40)
    ended = Outcome(run="r", status="stopped", reason="waiting", waiting=(waiting,))
    lines = outcomes.next_steps(ended, "", 80).split("\n")
    assert len(lines[0]) <= 80
    assert lines[0].startswith("boss#1 asks: “May this be")
    assert lines[1:] == [
        "  coterie inspect r prompt 'boss#1'  # in full",
        "  coterie control respond r 'boss#1' TEXT",
        "continue with:",
        "  coterie resume r",
    ]
    assert len(outcomes.next_steps(ended, "").split("\n")[0]) > 300


def test_a_run_says_how_long_it_worked_and_how_long_it_waited() -> None:
    """Waiting is the time between its stops and resumes."""
    ended = Outcome(run="r", status="completed", seconds=3.0, waited=65.0)
    assert outcomes.outcome(ended) == "completed: 0 turns, worked 3.0 s, waited 1 min 05 s, run r"


@pytest.mark.slow
def test_a_long_question_fits_the_terminal_and_a_key_shows_the_rest(place: Place) -> None:
    """In a real terminal: the first lines, how many more there are, all of them, and the answer."""
    (place.folder / "long.at").write_text(LONG)
    with screen(place.folder, "run", "long.at", "\n".join(f"line {n}" for n in range(1, 61))) as terminal:
        terminal.until("boss#1 asks you")
        shown = terminal.until("> ").replace("\r", "")
        assert "line 1\n" in shown
        assert "line 60" not in shown
        assert re.search(r"… \d+ more lines: \? and Enter shows all\n> ", shown)
        assert shown.count("\n") <= 24 - 5
        terminal.type("?")
        assert "line 60" in terminal.until("\n> ")
        terminal.type("approve")
        terminal.until("completed: 2 turns, worked ")
        assert terminal.process.wait(timeout=60) == 0
    with screen(place.folder, "runs") as terminal:
        terminal.until("completed")
        terminal.process.wait(timeout=60)
        lines = terminal.picture().split("\n")
        assert lines[0].split() == ["run", "team", "started", "state", "worked", "cost"]
    with screen(place.folder, "runs", "--wide") as terminal:
        terminal.until("“line 1 line 2 line 3 line 4 line 5")


def test_logs_of_an_ended_run_are_in_order_when_followed(place: Place) -> None:
    """As without: each turn's output is whole before the next one's, also where its last line has no end."""
    echo = 'agent {name} {{ extensions {{ coterie {{ command: ["printf", "{name} 1\\n{name} 2"] }} }} }}'
    agents = "\n".join(echo.format(name=name) for name in ("a", "b", "c"))
    (place.folder / "said.at").write_text(f"topology said : [pipeline] {{\n{agents}\nflow {{ a -> b -> c }}\n}}\n")
    place.look("run", "said.at", "go")
    followed = place.look("logs", "last", "-f").out
    assert followed == place.look("logs", "last").out
    assert followed.split("\n") == [f"{name}#1 | {name} {n}" for name in "abc" for n in (1, 2)] + [""]
    assert place.look("logs", "last", "-f", "--json").out == place.look("logs", "last", "--json").out
