"""Without RE2, expressions are matched by `re` where that is linear, with the meaning that RE2 gives them."""

import re
import sys
import time

import pytest
import re2  # type: ignore[import-untyped]
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.team.topology import expressions, linear

pytestmark = pytest.mark.once
CHARS = "ab-. \n\v9é"
ATOMS = st.sampled_from(
    ["a", "b", "-", r"\.", ".", r"\d", r"\w", r"\s", r"\S", "[ab]", "[^a]", "[^-.]", r"[\d.]", "é", "^", "$", r"\b"]
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(inner, repeats).map("({0[0]}){0[1]}".format),
        st.tuples(ATOMS, repeats).map("".join),
    )


EXPRESSIONS = st.recursive(ATOMS, _grown, max_leaves=8)


@given(EXPRESSIONS, st.lists(st.text(CHARS, max_size=8), min_size=1, max_size=8))
def test_what_is_accepted_means_the_same_as_for_re2(expression: str, texts: list[str]) -> None:
    """Of all of a text, and of a search in it."""
    found = linear.compiled(expression)
    if isinstance(found, str):
        return
    other = re2.compile(expression)
    for text in texts:
        assert (found.fullmatch(text) is None) == (other.fullmatch(text) is None), (expression, text)
        assert (found.search(text) is None) == (other.search(text) is None), (expression, text)


@given(EXPRESSIONS, st.text("ab-.", min_size=1, max_size=3))
def test_what_is_accepted_takes_linear_time(expression: str, period: str) -> None:
    """A text of 20,000 characters; what goes back and tries again in two places would take minutes, not moments."""
    found = linear.compiled(expression)
    if isinstance(found, str):
        return
    text = (period * 20_000)[:20_000]
    begin = time.process_time()
    for end in ("", "!", "\n"):
        found.fullmatch(text + end)
    assert time.process_time() - begin < 2


@bundle(
    "expression",
    [
        r"review\..*",
        r"(draft|review)\.(ready|done)",
        r".*\.ready",
        r"task(\.[a-z]+)*",
        r"\w+-\w+",
        "(ab*c)*d",
        "x{2,5}y",
    ],
)
def test_usual_expressions_are_accepted(expression: str) -> None:
    """Names of events with a wildcard, alternatives, and lists."""
    assert not isinstance(linear.compiled(expression), str)


@bundle(
    ("expression", "reason"),
    [
        ("(a+)+", "a repetition and what follows it"),
        ("(a|a)*", "two alternatives"),
        ("(a|aa)+", "two alternatives"),
        ("(.*a){20}", "a repetition and what follows it"),
        ("(a*)*b", "it repeats what can be empty"),
        ("a?a?a?aaa", "a repetition and what follows it"),
        (".*foo.*", "a repetition and what follows it"),
        (".{0,900}.{0,900}x", "a repetition and what follows it"),
        ("(?=a)b", "only RE2 can read"),
        ("(?!a)b", "assert not is not supported"),
        (r"(a)\1", "groupref is not supported"),
        ("a*+b", "possessive repeat"),
        ("(?i)a", "only RE2 can read"),
        ("[[:alpha:]]", "only RE2 can read"),
        (r"\pL", "bad escape"),
        (r"a\Z", "only RE2 can read"),
        ("a{,3}", "only RE2 can read"),
        ("a{1,2000}", "more than 1000 times"),
        (r"[\Sa]", "is not supported"),
        ("(a", "missing )"),
    ],
)
def test_others_are_refused_with_the_reason_and_the_line_that_installs_re2(
    expression: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may take long, and what the two libraries read differently."""
    monkeypatch.setitem(sys.modules, "re2", None)
    expressions._compiled.cache_clear()
    try:
        assert reason in expressions.problem(expression)
        assert expressions.problem(expression).endswith("pip install 'coterie[re2]' installs the library that reads it")
        assert expressions.matches("review\\..*", "review.passed")
        with pytest.raises(ValueError, match="a text of any length"):
            expressions.compiled("a*")
        assert expressions.compiled("a{2,9}$").search("baa") is not None
    finally:
        expressions._compiled.cache_clear()


def test_nothing_of_it_changes_what_re_does() -> None:
    """The expressions of all others mean what they meant."""
    assert not isinstance(linear.compiled(r"a\s\S$"), str)
    re.purge()

    assert re.fullmatch(r"a\s\S$", "a\vx") is not None
    assert re.match(r"\S", "\v") is None


def test_an_expression_of_any_depth_is_checked_in_time() -> None:
    """Each group is looked into once for each that it is in, not twice as often."""
    deep = "(" * 90 + "a" + "".join(f"{chr(98 + n % 20)})+" for n in range(90))
    begin = time.process_time()
    linear.compiled(deep)
    assert time.process_time() - begin < 2
