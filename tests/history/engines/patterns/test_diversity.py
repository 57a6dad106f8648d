from hypothesis import given
from hypothesis import strategies as st
from steps import most_held

from coterie.history.engines.patterns.aggregation import Candidate
from coterie.history.engines.patterns.diversity import likeness, spread

TWICE = [
    Candidate("a", "use a database with an index", 0.9),
    Candidate("b", "use a database with an index too", 0.8),
    Candidate("c", "write to files", 0.3),
]


def order(candidates: list[Candidate], weight: float) -> str:
    return "".join(one.slot for one in spread(candidates, weight))


def test_without_weight_the_surest_comes_first() -> None:
    """Diversity 0 looks at confidence alone."""
    assert order(TWICE, 0.0) == "abc"
    assert order(TWICE[::-1], 0.0) == "abc"


def test_with_weight_what_was_not_said_yet_comes_before_what_was() -> None:
    """The second voice of the same opinion waits."""
    assert order(TWICE, 0.9) == "acb"


def test_equals_stay_as_they_were_declared() -> None:
    """Nobody says how sure, and nobody says the same: nothing is to be changed."""
    assert (
        order([Candidate(slot, text) for slot, text in zip("abc", ["one", "two", "three"], strict=True)], 0.3) == "abc"
    )


def test_who_says_nothing_of_its_confidence_is_in_the_middle() -> None:
    """Before the unsure, after the sure; 0 is a confidence."""
    assert order([Candidate("a", "one", 0.0), Candidate("b", "two"), Candidate("c", "three", 0.9)], 0.0) == "cba"


def test_answers_without_words_are_alike() -> None:
    """There is nothing to tell them apart by."""
    assert order([Candidate("a", "!"), Candidate("b", "?"), Candidate("c", "word")], 0.5) == "acb"


def test_long_answers_of_words_that_nobody_else_has_take_little_room() -> None:
    """Names, numbers, and languages without spaces: a bit for each such word would be room for all in each answer."""

    def held(n: int) -> int:
        answers = [Candidate(str(k), " ".join(f"{k}x{j}" for j in range(500)) + " same") for k in range(n)]
        return most_held(lambda: spread(answers, 0.3))

    assert held(60) < 2.2 * held(30)
    words = [f"w{n}" for n in range(1000)]
    assert (
        order([Candidate("a", " ".join(words)), Candidate("b", " ".join(words[1:])), Candidate("c", "w")], 1.0) == "acb"
    )


@given(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_likeness_is_the_share_of_words_that_both_have(one: set[str], other: set[str]) -> None:
    """Of the words of two answers."""
    assert likeness(one, other) == (len(one & other) / len(one | other) if one | other else 1.0)


@given(st.lists(st.tuples(st.text(max_size=20), st.one_of(st.none(), st.floats(0, 1))), max_size=8), st.floats(0, 1))
def test_nobody_is_lost_or_heard_twice(drawn: list[tuple[str, float | None]], weight: float) -> None:
    """An order of what was given, and the same one every time."""
    candidates = [Candidate(str(at), text, sure) for at, (text, sure) in enumerate(drawn)]
    ordered = spread(candidates, weight)

    assert sorted(one.slot for one in ordered) == sorted(one.slot for one in candidates)
    assert ordered == spread(candidates, weight)
    if candidates:
        surest = max(0.5 if one.confidence is None else one.confidence for one in candidates)
        first = 0.5 if ordered[0].confidence is None else ordered[0].confidence
        assert weight == 1 or first == surest or (1 - weight) * first == (1 - weight) * surest
