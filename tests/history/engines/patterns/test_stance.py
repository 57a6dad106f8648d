from bundles import bundle
from conversations import reply
from hypothesis import given
from hypothesis import strategies as st

from coterie.patterns.builtin.stance import HALF, agreement, in_words


@bundle(
    "text",
    [
        "I agree completely, no objection",
        "You're right, I agree",
        "You’re absolutely right.",
        "No, I agree.",
        "I must concede.",
        "I was wrong about this.",
        "I cannot disagree: you are right",
        "But I am now convinced.",
        "I agree with no reservations",
    ],
)
def test_somebody_who_gives_in_agrees(text: str) -> None:
    """Whoever says so without a reservation agrees wholly."""
    assert in_words(text) == 1


@bundle(
    "text",
    [
        "I agree, but tests cost time",
        "I agree. However, costs matter.",
        "While I agree with you, I think costs matter",
        "You are right. Still, I disagree about the rest.",
        "I partly agree",
        "I agree that tests take time",
        "I concede the point about costs",
        "That is a valid point",
    ],
)
def test_a_reservation_halves_an_agreement(text: str) -> None:
    """Granting a point, or agreeing with a `but`, is half an agreement."""
    assert in_words(text) == HALF


@bundle(
    "text",
    [
        "I will not concede; that is not a valid point",
        "I can't say that I agree",
        "I don't think you're right",
        "I do not, and never will, concede",
        "If you're right, I lose",
        "I would agree if there were proof",
        "Do you think I agree?",
        'You claim "I agree" and "you are right" too early',
        "Let us agree to disagree; I agree to disagree",
        "My opponent must concede",
        "I disagree",
        "Nobody would call that a valid point",
        "You're not right",
        "You are hardly right",
        "I'm not convinced",
        "I agree with none of this",
        "We concede nothing",
        "Tests cost time",
        "",
    ],
)
def test_words_of_agreement_alone_agree_with_nothing(text: str) -> None:
    """Negations, conditions, questions, quotations and what others should do are no agreement."""
    assert in_words(text) == 0


def test_what_a_turn_says_of_itself_comes_before_its_words() -> None:
    """An agreement as a number, else a stance, else the words; what is no agreement is not taken for one."""
    assert agreement(reply("I agree!\n\nagreement: 0.25")) == 0.25
    assert agreement(reply("I agree!", agreement=0.1)) == 0.1
    assert agreement(reply("No way.\n\n**Agreement:** 80%")) == 0.8
    assert agreement(reply("No way.\n\nAgreement: 9/10.")) == 0.9
    assert agreement(reply("I agree!\n\nStance: Disagree.")) == 0
    assert agreement(reply('Certainly not. {"stance": "agree"}')) == 1
    assert agreement(reply("I agree!", stance="Disagree")) == 0
    assert agreement(reply("Hm.", stance="partly")) == HALF
    assert agreement(reply("I agree!\nagreement: 80")) == 1
    assert agreement(reply("No way.", agreement=True, stance="who knows")) == 0


@given(
    st.text()
    | st.lists(st.sampled_from(["i agree", "not", "but", ",", ".", "?", '"', "“", "you're right"])).map(" ".join)
)
def test_every_text_has_a_stance(text: str) -> None:
    """Any text agrees wholly, by half or not at all, and a no before it does not make it agree more."""
    degree = in_words(text)

    assert degree in (0, HALF, 1)
    assert in_words(f"{text}\nBut I disagree.") <= HALF
