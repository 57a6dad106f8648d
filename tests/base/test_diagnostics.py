import copy
import pickle
import time

import pytest
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, Severity, Span, did_you_mean, error, note, warning
from coterie.team.topology.composition import Included, Param
from coterie.team.topology.model import Import, Output, Topology
from coterie.team.topology.patterns.model import Slot
from coterie.team.topology.typed.flow import TypedFlow

TEXT = "flow {\n  writer -> reviwer\n\tx\n}\n"


def test_a_diagnostic_shows_its_line_and_a_caret() -> None:
    """Place, severity, code and sentence; the line; a caret under the span, with the hint beside it."""
    found = Diagnostic(
        code="unknown-agent",
        severity=Severity.ERROR,
        message="the flow names 'reviwer', which is not declared",
        span=Span(2, 13, 7, 19),
        hint="did you mean 'reviewer'?",
        file="review.at",
    )

    assert found.render(TEXT) == (
        "review.at:2:13: error[unknown-agent]: the flow names 'reviwer', which is not declared\n"
        "  2 |   writer -> reviwer\n"
        "    |             ^^^^^^^ did you mean 'reviewer'?\n"
    )


def test_a_tab_before_the_caret_stays_a_tab() -> None:
    """So the caret stands under its text however wide tabs are shown."""
    assert warning("w", "m", Span(3, 2, 1)).render(TEXT) == "3:2: warning[w]: m\n  3 | \tx\n    | \t^\n"


@pytest.mark.parametrize(("length", "carets"), [(0, "^"), (3, "^^^"), (500, "^^^^^^")])
def test_a_caret_stays_on_its_line(length: int, carets: str) -> None:
    """At least one, at most up to the end of the line."""
    rendered = note("n", "m", Span(1, 1, length)).render(TEXT)

    assert rendered.splitlines()[2] == f"    | {carets}"


def test_of_a_very_long_line_a_part_is_shown() -> None:
    """What is meant, and something on both sides of it, with the caret still below."""
    text = "x" * 5_000 + "here" + "y" * 5_000
    first, shown, below = note("n", "m", Span(1, 5_001, 4), "a hint").render(text).splitlines()

    assert first == "1:5001: note[n]: m"
    assert shown == f"  1 | …{'x' * 80}here{'y' * 156}…"
    assert below == f"    | {' ' * 81}^^^^ a hint"


def test_many_diagnostics_of_a_large_text_are_shown_at_once() -> None:
    """Its lines are told apart once, not for each of them."""
    text = "a line of a large file\n" * 100_000
    started = time.process_time()
    for line in range(1, 100_000, 100):
        assert "large" in note("n", "m", Span(line, 1, 1)).render(text)

    assert time.process_time() - started < 5  # a thousand times some 10 ms otherwise


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_readers_count_them(end: str) -> None:
    """A form feed or a Unicode separator ends no line."""
    text = f"a\x0cb\u2028c{end}second{end}"

    assert "second" in error("e", "m", Span(2, 1, 6)).render(text)


@pytest.mark.parametrize("span", [None, Span(9, 1, 1)])
def test_without_a_line_to_show_the_hint_stands_below(span: Span | None) -> None:
    """A finding about the whole file, or about another text, shows no line."""
    rendered = error("e", "m", span, "do this").render(TEXT)

    assert rendered.endswith("error[e]: m\n  do this\n")


def test_the_json_form_has_stable_keys() -> None:
    """The keys are the contract of `topology validate --json`."""
    found = error("e", "m", Span(2, 3, 4, 9), "h", Fix("f", Span(2, 3, 4, 9), ""))

    assert found.to_dict() == {
        "code": "e",
        "severity": "error",
        "message": "m",
        "file": "",
        "line": 2,
        "column": 3,
        "length": 4,
        "hint": "h",
    }
    assert note("n", "m").to_dict() == {
        "code": "n",
        "severity": "note",
        "message": "m",
        "file": "",
        "line": None,
        "column": None,
        "length": None,
        "hint": "",
    }


def test_only_an_error_keeps_a_file_from_running() -> None:
    """Warnings and notes do not."""
    assert [found.is_error for found in (error("e", "m"), warning("w", "m"), note("n", "m"))] == [True, False, False]


@pytest.mark.parametrize(
    ("word", "hint"), [("reviwer", "did you mean 'reviewer'?"), ("zzz", ""), ("writer", "did you mean 'writer'?")]
)
def test_a_close_word_is_suggested(word: str, hint: str) -> None:
    """The closest, or none."""
    assert did_you_mean(word, ["writer", "reviewer"]) == hint


def test_a_name_that_begins_with_the_word_is_meant() -> None:
    """Even if another one is as close."""
    assert did_you_mean("timeout", ["gate_timeout", "timeout_seconds"]) == "did you mean 'timeout_seconds'?"


def test_a_span_does_not_count_in_a_comparison() -> None:
    """Neither in equality nor in the hash; in all else the values of a file are compared by value and by class."""
    one = Output(name="verdict", values=("yes", "no"), span=Span(1, 1))
    moved, other = replace(one, span=Span(7, 7)), replace(one, name="score")

    assert one == moved
    assert not one != moved  # noqa: SIM202 - a method of its own
    assert hash(one) == hash(moved)
    assert one != other
    assert not one == other  # noqa: SIM201 - as above
    assert Slot(name="a") != Param(name="a")
    assert one.__eq__("verdict") is not True
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(one)).span == one.span
    assert TypedFlow(name="t", folder="a", result=int) == TypedFlow(name="t", folder="b", result=str)
    assert TypedFlow(name="t") != Topology(name="t")


def test_what_holds_a_whole_text_is_not_printed() -> None:
    """A team that is shown where a test fails does not show the files that it was read from."""
    inner = Topology(name="inner")

    assert repr(Import(source="a.at", topology=inner)) == "Import(source='a.at', given={}, sha256='')"
    assert repr(Included(file="f.at", start=3, text="long")) == "Included(file='f.at', start=3, name='')"
    assert "long" not in repr(replace(error("c", "m"), text="long"))
    assert repr(Output(name="v", span=Span(1, 2))).startswith("Output(name='v', type='text', values=(), span=Span(")
