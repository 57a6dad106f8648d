"""Regular expressions from files are matched in linear time, and what cannot be is refused by name."""

import pytest
from bundles import bundle

from coterie.team.topology.expressions import MAX_EXPRESSION, MAX_TEXT, matches, problem

pytestmark = pytest.mark.once


@bundle(
    ("expression", "text", "is_match"),
    [
        (r"review\..*", "review.passed", True),
        (r"review\..*", "a review.passed", False),
        (r"(draft|review)\.(ready|done)", "draft.done", True),
        (r"(?i)DRAFT\.\d+", "draft.12", True),
        ("é.", "éü", True),
        ("a", "a\n", False),
        (".*", "half \ud800", False),
        (".*", "x" * (MAX_TEXT + 1), False),
    ],
)
def test_an_expression_matches_the_whole_text(expression: str, text: str, is_match: bool) -> None:
    """As far as the text is one, and no longer than is matched."""
    assert problem(expression) == ""
    assert matches(expression, text) is is_match


@bundle(
    ("expression", "reason"),
    [
        ("(?=a)b", "lookahead, `(?=`, is not supported"),
        ("(?!a)b", "lookahead, `(?!`"),
        (r"(a)\1", r"a backreference, `\1`"),
        ("(?>a)", "an atomic group, `(?>`"),
        ("(a", "missing )"),
        ("a{1,2000}", "invalid repetition size"),
        ("\ud800", "a lone surrogate"),
        ("a" * (MAX_EXPRESSION + 1), "more than 1000 characters"),
    ],
)
def test_an_expression_that_cannot_be_used_says_why(expression: str, reason: str) -> None:
    """It matches nothing."""
    assert reason in problem(expression)
    assert not matches(expression, "a")


@bundle("expression", ["(a+)+", "(a|a)*", "(a|aa)+", "(.*a){20}", "([a-z]+)*", "(a*)*b"])
def test_no_expression_takes_exponential_time(expression: str) -> None:
    """A library that goes back and tries again would not come to an end with these."""
    assert not matches(expression, "a" * (MAX_TEXT - 1) + "!")
