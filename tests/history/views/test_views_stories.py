"""The views that tell: the timeline, and why a turn ran."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from steps import Compared, comparisons, most_held

from coterie.errors import NoSuchTurn
from coterie.history.journal.codec import Decoder
from coterie.history.journal.records import (
    RECORDS,
    AttemptFailed,
    EventInvalid,
    KeptTree,
    Record,
    RunStarted,
    TreesJoined,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.views import run, timeline
from coterie.history.views.timeline import sentence
from coterie.history.views.tree import tree
from coterie.history.views.why import why
from coterie.history.views.words import arrow, duration, listed, pairs, quoted

HISTORIES = Path(__file__).parents[2] / "histories" / "0.1"


def history(name: str) -> list[Record]:
    path = HISTORIES / f"{name}.jsonl"
    with path.open("rb") as file:
        return list(Decoder(str(path)).read(file))


@pytest.mark.parametrize("name", ["review", "nested", "loop", "waves"])
def test_a_timeline(name: str, request: pytest.FixtureRequest) -> None:
    """Every record is one sentence that can be read without the others."""
    found = [f"{line.seq:3} {line.seconds:5.1f}  {line.text}\n" for line in timeline.fold(history(name)).lines]

    assert "".join(found) == (Path(__file__).parent / f"timeline-{name}.txt").read_text()


def test_every_kind_of_record_has_a_sentence() -> None:
    """A kind that is added is told, too; what was found in files has lines below the sentence."""
    told = {
        type(record): sentence(record)
        for name in (
            "review",
            "nested",
            "loop",
            "reloaded",
            "waves",
            "prepared",
            "noted",
            "files",
            "closed",
            "pattern",
            "program",
            "adopted",
            "attention",
            "gates",
            "parked",
            "attested",
            "misreported",
            "held",
            "reopened",
            "system",
            "corrected",
            "streamed",
            "steered",
            "mapped",
            "stepped",
            "slept",
            "suspended",
        )
        for record in history(name)
    }

    assert set(told) == set(RECORDS)
    assert all(text and not text.endswith(".") and "\n" not in text.replace("\n  ", "") for text in told.values())


def test_a_supervised_system_is_no_program() -> None:
    """What its actors call is called by the system."""
    texts = [line.text for line in timeline.fold(history("system")).lines]

    assert "the system calls review: review#1" in texts
    assert "the program asks a: a#1" in [line.text for line in timeline.fold(history("program")).lines]


@bundle(
    ("fields", "told"),
    [
        ({"kind": "exit", "exit_code": 3}, "(exit 3): no"),
        ({"kind": "exit", "exit_code": 137, "signal": "SIGKILL"}, "(exit 137 (SIGKILL)): no"),
        ({"kind": "timeout", "exit_code": 143, "signal": "SIGTERM"}, "(timeout, exit 143 (SIGTERM)): no"),
        ({"kind": "exit"}, "(exit): no"),
        (
            {"kind": "exit", "text": "a\nhalf of it\n\n", "log": "x"},
            "(exit): no; its last line was “half of it”",
        ),
        ({"kind": "exit", "log": "it\nbroke"}, "(exit): no; its last line was “broke”"),
        ({"kind": "exit", "log": "no\n"}, "(exit): no"),
    ],
)
def test_a_failure_is_told_with_its_exit_and_its_last_words(fields: dict[str, Any], told: str) -> None:
    """What the reason already quotes is not said twice."""
    record = AttemptFailed(turn="a#1", attempt=2, reason="no", **fields)

    assert sentence(record) == f"attempt 2 of a#1 failed {told}"


def test_why_a_turn_ran_goes_back_to_the_start() -> None:
    """Its start, the ends of what marked it, the loop that was spent, the retry, the question: nearest first."""
    told = [(reason.seq, reason.turn, reason.text) for reason in why(history("review"), "end#1")]

    assert told == [
        (16, "end#1", "end#1 started, marked by judge#1"),
        (15, "judge#1", "after judge#1, judge -> draft had fired as often as allowed; went on by judge -> end"),
        (14, "judge#1", 'judge#1 answered verdict = "revise"'),
        (13, "judge#1", "judge#1 started, marked by critic#1 and facts#1"),
        (12, "facts#1", "facts#1 answered “@text: is no reference”"),
        (11, "critic#1", "critic#1 answered score = 3"),
        (9, "facts#1", "facts#1 started, marked by draft#1"),
        (8, "critic#1", "critic#1 started, marked by draft#1"),
        (7, "draft#1", told[8][2]),
        (5, "draft#1", "attempt 1 of draft#1 failed (timeout, $0.021): no answer within 30 s; it was tried again"),
        (3, "draft#1", "draft#1 started"),
        (1, "", "run review of the team review began: “Review it”"),
    ]
    assert told[8][2].startswith('draft#1 answered notes = "The findings')


def test_a_long_way_back_is_gone_once() -> None:
    """The work grows with the turns, not with their square."""

    def asked(turns: int) -> int:
        records: list[Record] = [RunStarted(seq=1, run="r", engine="flow", engine_version=1)]
        for n in range(1, turns + 1):
            turn, marked = Compared(f"a#{n}"), (Compared(f"a#{n - 1}"),) if n > 1 else ()
            records.append(TurnStarted(seq=2 * n, turn=turn, agent="a", inputs=marked, cause=(2 * n - 1, 0)))
            records.append(TurnFinished(seq=2 * n + 1, turn=turn, attempt=1))
        assert len(why(records, f"a#{turns}")) == 2 * turns
        return comparisons(lambda: why(records, f"a#{turns}"))

    assert asked(400) < 2.2 * asked(200)


def test_why_leaves_out_what_is_not_a_cause() -> None:
    """Turns beside it are no reason, nor is how the turn itself ended."""
    assert [reason.seq for reason in why(history("review"), "critic#1")] == [8, 7, 5, 3, 1]
    assert [reason.seq for reason in why(history("review"), "draft#1")] == [5, 3, 1]


def test_why_tells_what_a_join_waited_for() -> None:
    """A turn can be marked early and start when a branch that did not mark it has ended."""
    records: list[Record] = [
        RunStarted(seq=1, run="r", engine="flow"),
        TurnStarted(seq=2, cause=(1, 0), turn="b#1", agent="b"),
        TurnStarted(seq=3, cause=(1, 1), turn="c#1", agent="c"),
        TurnFinished(seq=4, turn="c#1", attempt=1),
        TurnFinished(seq=5, turn="b#1", attempt=1),
        TurnStarted(seq=6, cause=(5, 0), turn="d#1", agent="d", inputs=("c#1",)),
    ]

    told = why(records, "d#1")
    assert told[0].text == "d#1 started, marked by c#1, once b#1 had ended"
    assert [reason.seq for reason in told] == [6, 4, 3, 1]


def test_why_follows_who_asked_when_nothing_marked_it() -> None:
    """A fallback, or a turn of a pattern, names no inputs: the record that made the engine ask is its cause."""
    records: list[Record] = [
        RunStarted(seq=1, run="r", engine="debate"),
        TurnStarted(seq=2, cause=(1, 0), turn="pro#1", agent="pro"),
        TurnFailed(seq=3, turn="pro#1", kind="exit", reason="status 2"),
        TurnStarted(seq=4, cause=(3, 0), turn="stand-in#1", agent="stand-in"),
    ]

    assert [reason.text for reason in why(records, "stand-in#1")] == [
        "stand-in#1 started, once pro#1 had ended",
        "pro#1 failed for good (exit): status 2",
        "pro#1 started",
        "run r began",
    ]


def test_only_a_failure_that_another_attempt_followed_was_tried_again() -> None:
    """The last one is the end of the turn, which is told by itself."""
    failed = {"turn": "a#1", "kind": "exit", "reason": "status 2"}
    records: list[Record] = [
        RunStarted(seq=1, run="r", engine="flow"),
        TurnStarted(seq=2, cause=(1, 0), turn="a#1", agent="a"),
        AttemptFailed(seq=3, attempt=1, **failed),
        TurnStarted(seq=4, cause=(3, 0), turn="a#1", agent="a", attempt=2),
        AttemptFailed(seq=5, attempt=2, **failed),
        TurnFailed(seq=6, **failed),
        TurnStarted(seq=7, cause=(6, 0), turn="b#1", agent="b", inputs=("a#1",)),
    ]

    for turn in ("a#1", "b#1"):
        again = [reason.seq for reason in why(records, turn) if "tried again" in reason.text]
        assert again == [3], turn


def test_a_turn_nobody_started_has_no_reason() -> None:
    """The error offers a name that exists."""
    with pytest.raises(NoSuchTurn, match="did you mean 'judge#1'"):
        why(history("review"), "juge#1")


def test_a_huge_text_is_cut_short_before_it_is_taken_apart() -> None:
    """A line of a timeline takes no room for the million words that it leaves out."""
    text = "word " * 200_000
    assert most_held(lambda: quoted(text)) < 2 * len(text)
    assert quoted("a " * 29 + "bc") == "“" + "a " * 29 + "bc”"
    assert quoted("a " * 29 + "bcd") == "“" + "a " * 29 + "b…”"


def test_an_empty_list_leaves_no_gap() -> None:
    """The work of a branch that failed was kept for its reason, not for the files of a conflict."""
    kept = KeptTree(turn="wave-1.1#1", path="/w", branch="x", reason="the branch did not complete")

    assert sentence(TreesJoined(kept=(kept,))) == "those of wave-1.1#1 stay on x, in /w: the branch did not complete"
    assert sentence(EventInvalid(turn="a#1", event="x")).endswith("(allowed: none)")


def test_words() -> None:
    """Values are put as people say them, on one line, and not too long."""
    assert quoted("two\nlines") == "“two lines”"
    assert len(quoted("long " * 100)) == 62
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert pairs({"a": True, "b": "ü", "c": [1, 2]}) == 'a = true, b = "ü", c = [1, 2]'
    assert pairs({"many": [{"file": "a.py"}] * 20, "one": {"k": "v" * 60}}) == "many = [20 items], one = {1 item}"
    assert arrow(("a", ("b",))) == "a -> b"
    assert arrow(("a", ("b", "c"))) == "a -> [b, c]"
    assert [duration(s) for s in (0, 9.94, 9.96, 59.4, 59.6, 3599, 3600, 7860)] == [
        "0.0 s", "9.9 s", "10 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "2 h 11 min",
    ]  # fmt: skip


def test_a_promise_that_did_not_count_is_shown_with_its_reason() -> None:
    """In the line of the turn, and in a row of the tree below it."""
    begun = RunStarted(run="r", engine="loop")
    asked = TurnStarted(turn="iteration#1", agent="@loop", attempt=1)
    done = TurnFinished(turn="iteration#1", attempt=1, text="LOOP_COMPLETE", promise_refused="missing none.left")

    assert sentence(done) == "iteration#1 answered “LOOP_COMPLETE”; its promise did not count: missing none.left"
    [turn] = tree(run.fold([begun, asked, done]), {}, now=0.0).children
    assert [node.label for node in turn.children] == ["its promise did not count: missing none.left"]
