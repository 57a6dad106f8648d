import time
import unicodedata
from decimal import Decimal
from typing import Literal

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.patterns.answers import _composed, normalise, number

SAME = [
    "42",
    " 42.",
    "The answer is 42",
    "the answer is: 42",
    "**Answer:** 42",
    "**The answer is 42.**",
    "**The final answer is 42**.",
    "The answer is **42**.",
    "Final answer:\n\n42\n",
    "6 times 7. Wrong: the answer is 41. No, the answer is 42.",
    r"Therefore \boxed{42}.",
    r"First \boxed{41}, then \boxed{\text{42}}",
    "I think it is 42",
    "It's 42.",
    '"42"',
    "“42”",
    "`42`",
    "$42",
    "$42$",
    "(42)",
    "42.0",
    "+42",
    "0042",
    "4.2e1",
]


@bundle("text", SAME)
def test_one_answer_in_many_forms(text: str) -> None:
    """What leads up to an answer and what stands around it is no part of it; a number is a number."""
    assert normalise(text) == "42"


@bundle(
    ("one", "other"),
    [
        ("Canberra", "the  CANBERRA."),
        ("An apple", "apple"),
        ("(A)", "a)"),
        ("A.", "a"),
        (r"\boxed{\text{Canberra}}", "Canberra"),
        ("1,000,000", "1000000"),
        ("0.50", ".5"),
        ("-0", "0"),
        ("Stra\u00dfe", "STRASSE"),
        ("cafe\u0301", "caf\u00e9"),
        ("yes!", "Yes."),
    ],
)
def test_the_same_answer(one: str, other: str) -> None:
    """Case, spaces, punctuation at the ends, a leading article, how a number or a choice is written."""
    assert normalise(one) == normalise(other)


@bundle(
    ("one", "other"),
    [
        ("41", "42"),
        ("-5", "5"),
        ("4.2", "42"),
        ("42%", "42"),
        ("42 km", "42"),
        ("1/2", "12"),
        ("5!", "5"),
        ("C++", "C"),
        ("C#", "C"),
        ("x²", "x2"),
        ("vitamin A", "vitamin"),
        ("A B", "B"),
        ("the answer is not 42", "42"),
        ("(0, 1)", "[0, 1]"),
        ("1,2", "12"),
        ("__init__", "init"),
        ("**kwargs", "kwargs"),
        ("{1, 2}", "1, 2"),
        ("yes", "no"),
        ("9" * 61, "9" * 60 + "8"),
        ("12345678901234567890123456789012345678901", "12345678901234567890123456789012345678902"),
    ],
)
def test_another_answer(one: str, other: str) -> None:
    """What stands in an answer stays: two that differ are never made one."""
    assert normalise(one) != normalise(other)


@bundle("text", ["", " ", "...", '""', "the", "Answer:", r"\boxed{}", "**", "!", "The answer is"])
def test_what_says_nothing_stays_as_it_is(text: str) -> None:
    """There is always a form, and it is empty only for an empty text."""
    assert bool(normalise(text)) == bool(text.strip())


@given(st.integers(-(10**50), 10**50), st.sampled_from(SAME))
def test_a_whole_number_is_itself_however_it_is_presented(value: int, frame: str) -> None:
    """No whole number is ever taken for another, whatever its size."""
    shown = frame.replace("42.0", "42").replace("0042", "42").replace("4.2e1", "42").replace("+42", "42")

    assert normalise(shown.replace("42", str(value))) == str(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_a_number_is_written_in_one_way(value: Decimal) -> None:
    """Its form is that number, without what does not count."""
    plain = normalise(f"{value:f}")

    assert Decimal(plain) == value
    assert plain == normalise(f"{value:,f}00") == normalise(plain)
    assert not plain.endswith("0") or "." not in plain


@given(st.lists(st.sampled_from(["e", "가", "ᄀ", "ᅡ", "ᆨ", "\u0323", "\u0301", "か", "\u3099", " ", "-"]), max_size=60))
def test_letters_are_composed_part_by_part_as_they_are_in_one(drawn: list[str]) -> None:
    """However a letter is written it is one, also behind a long row of other signs."""
    text = "".join(drawn)
    whole = unicodedata.normalize("NFC", text)

    assert _composed(text) == whole
    assert _composed("·" * 40 + "x" + text + "x") == "·" * 40 + unicodedata.normalize("NFC", f"x{text}x")


def test_marks_beyond_number_are_composed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Putting n of them in order takes n * n steps; no language has thirty on a letter."""
    asked: list[int] = []
    compose = unicodedata.normalize

    def counted(form: Literal["NFC"], text: str) -> str:
        asked.append(len(text))
        return compose(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    normalise("e" + "\u0301\u0323" * 500)
    assert max(asked) <= 31


@given(st.text(), st.sampled_from(["{}", " {}\n", "{}.", '"{}"', "**{}**", "The answer is: {}", r"\boxed{{{}}}"]))
def test_a_frame_does_not_make_another_answer_of_words(text: str, frame: str) -> None:
    """Letters in a frame are the letters."""
    words = "".join(letter for letter in text if letter.isalpha() and letter.isascii())

    assert normalise(frame.format(f"xy{words}")) == f"xy{words}".lower()


@bundle(
    ("text", "value"),
    [
        ("42", 42),
        ("about 42 km", 42),
        ("It costs $1,200.50 in all", Decimal("1200.50")),
        ("-3 degrees", -3),
        ("The answer is 7 metres", 7),
        ("between 40 and 44", None),
        ("1,2", None),
        ("Canberra", None),
        ("B52 or so", None),
        ("", None),
    ],
)
def test_the_number_of_an_answer_is_the_only_one_in_it(text: str, value: Decimal | int | None) -> None:
    """One number with its unit is a number; several are none."""
    assert number(text) == value


@bundle(
    "piece", ["answer: ", "answer is ", "answer  ", '"', "**", r"\boxed{", "}", "the ", "1,", "1", "(", "!", ". ", "\n"]
)
def test_a_huge_text_takes_linear_time(piece: str) -> None:
    """A reply may be a log of a million lines."""
    began = time.process_time()
    normalise(piece * 50_000)
    number(piece * 50_000)

    assert time.process_time() - began < 6  # in square time it would be minutes
