"""A run on its plan as text: nodes with what they cost, arrows, actors, events, the first failure, changed files."""

from typing import Any

import msgspec
from bundles import bundle
from stage import Cast, Stage, flow

from coterie.agents.backends.base import Answer, Failure
from coterie.execution.runs.changed_files import ChangedFile, ChangedFiles, TurnSnapshots
from coterie.history.journal.records import Usage
from coterie.history.views.costs import costs
from coterie.history.views.failure import FirstFailure
from coterie.history.views.live import fold
from coterie.interfaces.cli.text import plan_run
from coterie.proofs.worst_case import WorstCase
from coterie.team.planning.plan import AgentPlan, Limits


def tables_of(stage: Stage, limits: Limits | None = None) -> dict[str, Any]:
    """The tables of the run of *stage*, as `live --json` prints them."""
    stage.start(limits)
    live = fold([("r", record) for record in stage.store.read("r")], "r")
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(live.state(), enc_hook=str))
    return found


def lines_of(tables: dict[str, Any]) -> list[str]:
    """The text without blanks that only align it."""
    return [" ".join(line.split()) for line in plan_run.plan(tables).splitlines()]


ONCE = Failure(kind="exit", reason="no", usage=Usage(cost=0.5))


def test_a_node_has_its_attempts_and_their_cost() -> None:
    """Those that failed cost something, too; an arrow says whether and after which turn it fired."""
    plan = flow("a -> b -> c", a=AgentPlan(name="a", retry=1))
    cast = Cast({"a": [ONCE, Answer(usage=Usage(cost=0.25))], "b": [Failure(kind="auth", reason="no key")]})

    assert lines_of(tables_of(Stage(plan, cast), Limits(max_cost=2.0))) == [
        "test: failed: b#1 failed (auth): no key, 1 turn done, 1 failed, 1 not begun, $0.75 of $2.00",
        "node state turns",
        "a finished 1 $0.75 last a#1",
        "b failed 1 (1 failed) last b#1",
        "c pending 0",
        "a -> b: fired 1x, last after a#1",
        "b -> c: not fired",
    ]


@bundle(
    ("row", "line"),
    [
        ({}, "a running worker"),
        ({"above": "root", "restarts": 2}, "a running worker below root restarted 2x"),
        ({"crashes": 1, "reason": "KeyError"}, "a running worker 1 crash KeyError"),
        ({"crashes": 3, "letters": {"stopped": 1, "crashed": 1}}, "a running worker 3 crashes 2 dead letters"),
    ],
    ids=["quiet", "restarted", "crashed", "lost letters"],
)
def test_actors_are_shown_in_place_of_nodes(row: dict[str, Any], line: str) -> None:
    """With what became of them; zeros are left out."""
    tables = tables_of(Stage(flow("a -> b")))
    actor = {"name": "a", "state": "running", "kind": "worker", "above": "", "restarts": 0, "crashes": 0}
    tables["actors"] = {"r/a": actor | {"letters": {}, "reason": ""} | row}

    assert lines_of(tables)[1:] == ["node state turns", line]


@bundle(
    ("of_run", "of_arrow", "line"),
    [
        (
            {"last_event": {"event": "done", "source": "a", "target": "b", "turn": "a#1", "at": 1.0}},
            {},
            "last event: done of a, to b",
        ),
        (
            {"last_event": {"event": "done", "source": "", "target": "", "turn": "", "at": 1.0}},
            {},
            "last event: done, to (no role)",
        ),
        ({}, {"fired": 2, "turn": "a#2", "spent": True}, "a -> b: fired 2x, last after a#2, spent"),
        ({}, {"fired": 2, "turn": "a#2", "forced": True}, "a -> b: fired 2x, last after a#2, forced"),
    ],
)
def test_the_last_line_of_a_plan(of_run: dict[str, Any], of_arrow: dict[str, Any], line: str) -> None:
    """Marks of an arrow; the event that came last and where it led."""
    tables = tables_of(Stage(flow("a -> b")))
    tables["runs"]["r"] |= of_run
    tables["arrows"]["r/0"] = tables["arrows"].get("r/0", {}) | of_arrow

    assert lines_of(tables)[-1] == line


def test_a_loop_says_how_far_it_is() -> None:
    """And of a child run where it is, indented."""
    tables = tables_of(Stage(flow("a -> b")))
    tables["runs"]["r"] |= {"iteration": 3, "most_iterations": 9}
    tables["runs"]["r/a#1.1"] = tables["runs"]["r"] | {"id": "r/a#1.1", "most_iterations": None}
    lines = plan_run.plan(tables).splitlines()

    assert lines[0] == "test: completed, iteration 3 of at most 9, 2 turns done"
    assert "  test (r/a#1.1): completed, 2 turns done" in lines


def test_costs_are_by_agent_and_turn_beside_the_budget() -> None:
    """With the worst case, as far as it is known."""
    stage = Stage(flow("a -> b"), Cast({"a": [Answer(usage=Usage(cost=0.25, input_tokens=3, seconds=1.5))]}))
    stage.start()
    live = fold([("r", record) for record in stage.store.read("r")], "r")
    text = plan_run.costs(costs(live.costs.values(), "r", 2.0), "not known")

    assert text.startswith("$0.25 of $2.00; worst case: not known\n\nagent")
    assert " ".join(text.splitlines()[3].split()) == "a 1 3 0 $0.25 1.5"
    assert plan_run.costs(costs((), "r"), "1 turn") == "$0.00; worst case: 1 turn"


@bundle(
    ("found", "words"),
    [
        (None, "not known"),
        (WorstCase(turns=None), "not known"),
        (WorstCase(turns=1, is_exact=True), "1 turn"),
        (WorstCase(turns=3, is_exact=False), "at most 3 turns"),
        (
            WorstCase(turns=3, cost=1.5, is_exact=True),
            "3 turns, $1.50 if each costs what the most expensive one of its agent did",
        ),
    ],
)
def test_the_worst_case_in_words(found: WorstCase | None, words: str) -> None:
    """What is not exact is a bound."""
    assert plan_run.worst(found) == words


@bundle(
    ("found", "text"),
    [
        (None, "nothing failed"),
        (FirstFailure(run="r", turn="", at=1.0, reason="no consensus"), "the run failed: no consensus"),
        (
            FirstFailure(run="r", turn="a#1", at=1.0, reason="no", kind="exit", exit_code=3),
            "a#1 of r failed first (exit, exit 3): no\nmore: coterie inspect 'r' turn 'a#1'",
        ),
        (
            FirstFailure(run="r", turn="a#1", at=1.0, reason="no", kind="exit", attempt=2, output="x\n", log="y\n"),
            "a#1 of r failed first (exit): no\n── output of attempt 2 ──\nx\n── standard error ──\ny\n"
            "more: coterie inspect 'r' turn 'a#1'",
        ),
    ],
    ids=["nothing", "the run", "a turn", "with output"],
)
def test_the_first_failure_has_what_was_printed(found: FirstFailure | None, text: str) -> None:
    """And the command that shows more."""
    assert plan_run.failure(found) == text


SNAPSHOTS = msgspec.convert({"before": "a", "after": "b"}, TurnSnapshots)
FILE = ChangedFile(path="x", added=1, removed=0)


@bundle(
    ("given", "text"),
    [
        ({"problem": "no snapshots"}, "no diff: no snapshots"),
        ({}, "a#1 changed no files"),
        (
            {"files": (FILE,), "diff": "+x", "notes": ("b#1 worked, too",), "take": "git apply"},
            "+x\n\nb#1 worked, too\nto take these changes:\n  git apply",
        ),
        (
            {"files": (FILE,), "diff": "+x", "is_cut": True, "take": "git apply"},
            "+x\n… (cut)\n\nto take these changes:\n  git apply",
        ),
    ],
)
def test_changed_files_come_with_the_command_that_takes_them(given: dict[str, Any], text: str) -> None:
    """A diff that is cut says so."""
    assert plan_run.files(ChangedFiles(turn="a#1", snapshots=SNAPSHOTS, **given)) == text
