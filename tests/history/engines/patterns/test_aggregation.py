import itertools
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.patterns.aggregation import (
    Candidate,
    average,
    best_of,
    cluster,
    concat,
    needed,
    vote,
    weighted,
)
from coterie.history.engines.patterns.weights import CLIP, ONE, heaviest, weight
from coterie.team.topology.patterns.configs import Weights

WEIGHTS = st.sampled_from(get_args(Weights))
SURE = st.one_of(st.none(), st.floats(0, 1))


def said(*texts: str) -> list[Candidate]:
    return [Candidate(f"ensemble_{at}", text) for at, text in enumerate(texts)]


candidates = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), SURE), min_size=1, max_size=7).map(
    lambda drawn: [Candidate(f"m{at}", text, sure) for at, (text, sure) in enumerate(drawn)]
)


# -- weights ----------------------------------------------------------------------------------------------------------


def test_what_a_vote_weighs() -> None:
    """Log-odds are those of the probability, linear is the probability, uniform is one."""
    assert weight(0.95, "log_odds") == round(ONE * math.log(19))
    assert weight(0.5, "log_odds") == 0
    assert weight(0.25, "log_odds") < 0
    assert weight(0.3, "linear") == 300_000
    assert weight(0.0, "linear") == 0
    assert weight(0.3, "uniform") == weight(None, "uniform") == ONE


@pytest.mark.parametrize("certain", [1.0, 0.999999, 1 - CLIP, 7.0])
def test_nobody_is_certain(certain: float) -> None:
    """A probability is clipped before its odds are taken: one voter does not outweigh five good ones."""
    assert weight(certain, "log_odds") == round(ONE * math.log(99)) == -weight(1 - certain, "log_odds")
    assert weight(certain, "log_odds") < 5 * weight(0.75, "log_odds")


@given(st.floats(0, 1))
def test_being_wrong_weighs_what_being_right_weighs(p: float) -> None:
    """With log-odds, p against is 1 - p for."""
    assert weight(p, "log_odds") == -weight(1 - p, "log_odds")


@given(WEIGHTS, SURE)
def test_who_did_not_vote_yet_weighs_no_more_than_is_expected(how: Weights, p: float | None) -> None:
    """That is what stopping early builds on."""
    assert abs(weight(p, how)) <= heaviest(None, how)


# -- clusters ---------------------------------------------------------------------------------------------------------


def test_answers_that_say_the_same_are_one() -> None:
    """In the order of their first members, with these as they were said."""
    found = cluster(said("41", "The answer is 42", " 42.", "41.0"))

    assert [(one.key, one.text, one.members) for one in found] == [
        ("41", "41", (0, 3)),
        ("42", "The answer is 42", (1, 2)),
    ]


def test_numbers_are_the_same_within_a_tolerance_and_whole_numbers_only_when_they_are() -> None:
    """0.1 + 0.2 is 0.3; a large number is not its neighbour."""
    assert len(cluster(said("0.3", "0.30000000000000004"))) == 1
    assert len(cluster(said("3.14", "3.1416"))) == 2
    assert len(cluster(said("3.14", "3.1416", "3.15", "-3.14"), tolerance=0.001)) == 3
    assert len(cluster(said("10000000000.5", "10000000000", "10000000001"))) == 3
    assert len(cluster(said("41", "42"), tolerance=0.5)) == 2
    assert len(cluster(said("0.3", "0.30000000000000004"), tolerance=0)) == 2


# -- votes ------------------------------------------------------------------------------------------------------------


def test_the_answer_that_most_give_wins() -> None:
    """However it is written; its first giver's words are the text."""
    won = vote(said("42", " 42.", "The answer is 42", "41", "41"))

    assert (won.text, won.slot, won.tie) == ("42", "ensemble_0", False)
    assert won.tally is not None
    assert (won.tally.answer, won.tally.votes, won.tally.share) == ("42", (3.0, 2.0), 0.6)
    assert won.tally.margin == pytest.approx(0.2)
    assert won.tally.entropy == pytest.approx(0.971, abs=0.001)


def test_a_tie_goes_to_the_first_and_is_told() -> None:
    """Sydney was said first; nobody is told that it was more."""
    won = vote(said("Sydney", "Canberra"))

    assert (won.text, won.tie) == ("Sydney", True)
    assert won.tally is not None
    assert (won.tally.share, won.tally.margin, won.tally.tie, won.tally.entropy) == (0.5, 0.0, True, 1.0)


def test_all_say_the_same() -> None:
    """Then there is no doubt, and no negative zero either."""
    tally = vote(said("x", "X", "x.")).tally

    assert tally is not None
    assert (tally.share, tally.margin, tally.tie, str(tally.entropy)) == (1.0, 1.0, False, "0.0")


@pytest.mark.parametrize(("how", "answer"), [("log_odds", "Canberra"), ("linear", "Sydney"), ("uniform", "Sydney")])
def test_one_who_is_sure_against_two_who_are_not(how: Weights, answer: str) -> None:
    """.95 against .55 twice: 2.94 to 0.40 in log-odds, 0.95 to 1.10 as they stand."""
    drawn = [Candidate("a", "Sydney", 0.55), Candidate("b", "Sydney", 0.55), Candidate("c", "Canberra", 0.95)]

    assert weighted(drawn, how).text == answer


def test_measured_accuracy_counts_before_what_is_said() -> None:
    """A boaster is known by its works."""
    drawn = [Candidate("a", "x", 0.99), Candidate("b", "y", 0.6)]

    assert weighted(drawn).text == "x"
    assert weighted(drawn, accuracy={"a": 0.55}).text == "y"


def test_who_is_mostly_wrong_speaks_against_what_it_says() -> None:
    """A voter with accuracy .2 makes the other answer likelier."""
    drawn = [Candidate("liar", "x"), Candidate("b", "x"), Candidate("c", "y")]

    assert weighted(drawn, accuracy={"liar": 0.2, "b": 0.7, "c": 0.6}).text == "y"


def test_without_a_word_of_confidence_all_weigh_the_same() -> None:
    """Then a weighted vote is a vote."""
    drawn = said("x", "y", "y")

    assert weighted(drawn).text == vote(drawn).text == "y"


@given(candidates, WEIGHTS, st.randoms())
def test_who_won_does_not_depend_on_the_order_unless_it_is_a_tie(
    drawn: list[Candidate], how: Weights, dice: Any
) -> None:
    """Nor do votes, share, margin and entropy; and a tie is a tie in every order."""
    shuffled = drawn.copy()
    dice.shuffle(shuffled)
    one, other = weighted(drawn, how).tally, weighted(shuffled, how).tally

    assert one is not None
    assert other is not None
    counts = [{c.key: votes for c, votes in zip(tally.clusters, tally.votes, strict=True)} for tally in (one, other)]
    assert counts[0] == counts[1]
    assert (one.tie, one.share, one.entropy) == (other.tie, other.share, pytest.approx(other.entropy))
    assert one.tie or one.answer == other.answer


@given(candidates, WEIGHTS)
def test_the_numbers_of_a_vote_are_what_they_say(drawn: list[Candidate], how: Weights) -> None:
    """Shares lie between 0 and 1, the winner has the most, and entropy is at most that of an even vote."""
    tally = weighted(drawn, how).tally

    assert tally is not None
    won = [cluster.key for cluster in tally.clusters].index(tally.answer)
    assert tally.votes[won] == max(tally.votes)
    assert tally.tie == (tally.votes.count(max(tally.votes)) > 1)
    assert 0 <= tally.margin <= tally.share <= 1
    assert 0 <= tally.entropy <= math.log2(len(tally.clusters)) + 1e-9


# -- stopping early ---------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "y", "z"]), st.sampled_from([None, 0.1, 0.5, 0.9]), st.booleans()), max_size=7
    ),
    WEIGHTS,
    st.dictionaries(st.sampled_from([f"m{at}" for at in range(7)]), st.sampled_from([0.2, 0.5, 0.6, 0.95])),
)
def test_asking_as_many_as_needed_costs_what_asking_one_by_one_costs(
    drawn: list[tuple[str, float | None, bool]], how: Weights, accuracy: dict[str, float]
) -> None:
    """The same turns, and the answer of all votes, whoever fails: the third of each voter says whether it answers."""
    slots = [f"m{at}" for at in range(len(drawn))]
    answers = [
        Candidate(slot, text, sure) if comes else None for slot, (text, sure, comes) in zip(slots, drawn, strict=True)
    ]

    def asked(batch: bool) -> int:
        n = 0
        while k := needed([one for one in answers[:n] if one], slots[n:], how, accuracy):
            n += k if batch else 1
        return n

    n = asked(batch=True)
    came = [one for one in answers[:n] if one]
    assert n == asked(batch=False)
    whole = [one for one in answers if one]
    if whole:
        assert came
        assert normal(came, how, accuracy) == normal(whole, how, accuracy)


def normal(came: Sequence[Candidate], how: Weights, accuracy: dict[str, float]) -> str:
    tally = weighted(came, how, accuracy).tally
    assert tally is not None
    return tally.answer


@bundle("so_far", ["", "x", "xx", "xy", "xyy", "xyz", "xxy"])
@bundle("left", [0, 1, 2, 3])
def test_a_vote_is_known_when_no_one_can_change_it_and_not_later(so_far: str, left: int) -> None:
    """Played over everything that can still be said: old answers, new ones, none at all."""
    came = said(*so_far)
    slots = [f"n{at}" for at in range(left)]

    def can_be_known(k: int) -> bool:
        """Whether some k votes more leave one answer only."""
        for next_ones in itertools.product("xyzuvw-", repeat=k):
            after = came + [Candidate("n", text) for text in next_ones if text != "-"]
            endings = {
                normal(whole, "uniform", {}) if (whole := after + [Candidate("n", t) for t in rest if t != "-"]) else ""
                for rest in itertools.product("xyzuvw-", repeat=left - k)
            }
            if len(endings) == 1:
                return True
        return False

    assert needed(came, slots) == next(k for k in range(left + 1) if can_be_known(k))


def test_no_call_is_paid_beyond_the_one_that_decides() -> None:
    """Of 15 voters, 8 who agree decide; a tie falls to the one who spoke first."""
    assert needed([], ["m"] * 15) == 8
    assert needed(said("x", "x"), ["m"]) == 0
    assert needed(said("x"), ["m"]) == 0
    assert needed(said("x", "y"), ["m", "m"]) == 1
    assert needed(said("x", "y", "y"), ["m"]) == 1
    assert needed([], ["expert", "b", "c"], "log_odds", {"expert": 0.95, "b": 0.6, "c": 0.6}) == 1


def test_an_answer_that_only_a_liar_gives_is_behind_one_that_nobody_gave_yet() -> None:
    """So the next good voter decides, and nobody is asked with it in vain."""
    accuracy = {"liar": 0.2, "good": 0.7, "weak": 0.55}

    assert needed([Candidate("liar", "x")], ["good", "weak"], "log_odds", accuracy) == 1
    assert needed([Candidate("liar", "x"), Candidate("good", "y")], ["weak"], "log_odds", accuracy) == 0


# -- other ways -------------------------------------------------------------------------------------------------------


def test_the_mean_of_what_is_answered() -> None:
    """With its spread; units do not matter, and who gave no number is told."""
    mean = average(said("about 40 km", "42", "dunno", "The answer is 44."))

    assert mean is not None
    assert (mean.text, mean.left_out) == ("42", ("ensemble_2",))
    assert mean.spread == pytest.approx(statistics.pstdev([40, 42, 44]))


@pytest.mark.parametrize(("how", "text"), [("mean", "211"), ("median", "12"), ("trimmed", "12")])
def test_an_outlier_moves_the_mean_alone(how: Any, text: str) -> None:
    """A trimmed mean leaves a fifth out at either end."""
    outcome = average(said("10", "11", "12", "13", "1009"), how)

    assert outcome is not None
    assert outcome.text == text


def test_there_is_no_mean_of_words() -> None:
    """Nor a made-up one."""
    assert average(said("Sydney", "between 1 and 2")) is None


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=9),
    st.sampled_from(["mean", "median", "trimmed"]),
    st.randoms(),
)
def test_a_mean_lies_among_the_numbers_and_does_not_depend_on_their_order(
    values: list[int], how: Any, dice: Any
) -> None:
    """As thirds are written, to fifteen digits."""
    texts = [str(value) for value in values]
    one = average(said(*texts), how)
    dice.shuffle(texts)
    other = average(said(*texts), how)

    assert one is not None
    assert other is not None
    assert (one.text, one.spread) == (other.text, other.spread)
    assert min(values) - 1e-9 <= float(one.text) <= max(values) + 1e-9


def test_the_surest_answer_is_the_best_one() -> None:
    """0 is a confidence: it is the least there is. Whoever says none is in the middle."""
    assert best_of([Candidate("a", "x", 0.4), Candidate("b", "y", 0.0)]).text == "x"
    assert best_of([Candidate("a", "x", 0.0), Candidate("b", "y")]).text == "y"
    assert best_of([Candidate("a", "x"), Candidate("b", "y", 0.6)]).text == "y"
    assert best_of([Candidate("a", "x", 0.9), Candidate("b", "y", 0.6)], {"a": 0.55}).text == "y"


def test_who_is_best_is_told_as_a_tie_when_another_is_as_sure_of_something_else() -> None:
    """The first wins; that two are sure of the same is no tie."""
    tie = best_of(said("x", "y"))

    assert (tie.text, tie.slot, tie.tie) == ("x", "ensemble_0", True)
    assert not best_of(said("x", "X.")).tie


def test_all_answers_one_after_the_other() -> None:
    """Each with its slot, in the order given."""
    assert concat(said("one", "two")).text == "[ensemble_0]: one\n\n[ensemble_1]: two"


def test_many_answers_take_linear_time() -> None:
    """Ten thousand numbers, no two alike, none of them whole."""
    many = [Candidate(f"m{n}", f"{n}.5") for n in range(10_000)]
    began = time.process_time()

    assert vote(many).tie
    assert needed(many, ["m"] * 10_000) == 5_000
    assert average(many) is not None
    assert time.process_time() - began < 2.0
