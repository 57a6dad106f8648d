"""Numbers in sentences: at most three decimals, wherever they come from."""

import re
from pathlib import Path

import coterie
from coterie.history.views.words import answer, dollars, number, pairs, progress

SOURCES = Path(coterie.__file__).parent
FIXED = {"history/engines/generator.py", "team/topology/patterns/as_flow.py"}
"""Prompts quote this text, so a replay compares it; and this shows a limit as it was written."""


def test_numbers_have_at_most_three_decimals() -> None:
    """Amounts of money have two at least; what is almost nothing is not nothing."""
    assert [number(value) for value in (0.0, 2.0, 0.125, 1 / 3, 1e-9, 12345.6789, -0.5)] == [
        *("0", "2", "0.125", "0.333", "under 0.001", "12345.679", "-0.5")
    ]
    assert [dollars(value) for value in (0.0, 1.0, 0.5, 0.25, 0.1234, 0.0005001, 1e-6)] == [
        *("$0.00", "$1.00", "$0.50", "$0.25", "$0.123", "$0.001", "under $0.001")
    ]


def test_values_of_agents_are_rounded_in_sentences() -> None:
    """At any depth; whole numbers and texts are left alone."""
    values = {
        "score": 2 / 3,
        "near": [0.1 + 0.2, 7],
        "by": {"a": 1 / 7},
        "text": "0.123456",
        "n": 12345678901,
        "no": True,
    }
    assert pairs(values) == (
        'score = 0.667, near = [0.3, 7], by = {"a": 0.143}, text = "0.123456", n = 12345678901, no = true'
    )


def test_an_answer_is_its_outputs_or_the_text_that_says_the_same() -> None:
    """A pattern gives back a dozen outputs, among them its answer as a text."""
    assert answer({"verdict": "revise"}, "Not yet.") == 'verdict = "revise"'
    assert answer({"text": "42", "votes": {"42": 2}, "failures": []}, "42") == answer({}, "42") == "“42”"
    assert answer({"text": "41"}, "42") == 'text = "41"'
    assert answer({}, "") == ""


def test_the_progress_of_a_run_counts_each_turn_once() -> None:
    """Failed turns are not done; with a limit, of how many at most."""
    assert progress(2, 3, 1, 1, 14) == "1 of at most 14 turns done, 1 open, 1 failed, 1 not begun"
    assert progress(1, 1, 0, 0, None) == "1 turn done"
    assert progress(0, 0, 0, 0, 1) == "0 of at most 1 turn done"


def test_no_message_formats_money_by_itself() -> None:
    """`dollars` does, so that all sentences agree."""
    money = re.compile(r"\$\{[^{}]*:[.,\w]*[fgd]\}")
    found = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if money.search(path.read_text("utf-8"))
    }
    assert found == FIXED
