import itertools
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from coterie.cli.text.laboratory import compared
from coterie.testing import Assumptions, Comparison, Measured, Skill
from coterie.testing.lab import Scales, letter, picture

pytestmark = pytest.mark.once

SVG = "{http://www.w3.org/2000/svg}"


def measured(name: str, calls: float, accuracy: float, *, worth: bool = True, decided: float = 1.0) -> Measured:
    return Measured(
        name=name,
        calls=calls,
        accuracy=accuracy,
        low=max(0.0, accuracy - 0.02),
        high=min(1.0, accuracy + 0.02),
        failed=0.0,
        decided=decided,
        right_when_decided=accuracy if decided else None,
        worth=worth,
    )


def comparison(*options: Measured) -> Comparison:
    return Comparison(pattern="pa<nel", runs=200, seed=1, assumptions=Assumptions(skill=Skill(0.7)), options=options)


THREE = comparison(
    measured("a alone", 1.0, 0.7), measured("all & one", 9.0, 0.75, worth=False), measured("vote", 3.0, 0.78)
)


def test_options_have_letters() -> None:
    """As many as there are options."""
    assert [letter(n) for n in (0, 1, 25, 26, 27, 52)] == ["a", "b", "z", "aa", "ab", "ba"]


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 1)), min_size=1, max_size=6))
def test_every_option_is_on_the_picture_and_more_is_further(drawn: list[tuple[float, float]]) -> None:
    """From 0 to 1 both ways, in the order of calls and accuracies, between the marks at the ends."""
    options = [measured(str(n), calls, accuracy) for n, (calls, accuracy) in enumerate(drawn)]
    scales = Scales(options)

    assert len(scales.calls) >= 2
    assert len(scales.accuracies) >= 2
    for one in options:
        assert -1e-9 <= scales.right(one.calls) <= 1 + 1e-9
        assert -1e-9 <= scales.up(one.low) <= scales.up(one.accuracy) <= scales.up(one.high) <= 1 + 1e-9
    for one in options:
        for other in options:
            assert one.calls >= other.calls or scales.right(one.calls) <= scales.right(other.calls)


def test_marks_are_round_numbers() -> None:
    """1, 2, 3, 5, 10 calls; accuracies by twentieths."""
    scales = Scales(THREE.options)

    assert scales.calls == [1, 2, 3, 5, 10]
    assert scales.accuracies == pytest.approx([0.65, 0.7, 0.75, 0.8])
    assert scales.right(math.sqrt(10)) == pytest.approx(0.5)


def test_the_drawing_is_a_whole_file_with_every_option() -> None:
    """Well-formed, with a title and a description for those who do not see it; what is worth having is in a line."""
    root = ElementTree.fromstring(picture(THREE))
    texts = [node.text for node in root.iter(f"{SVG}text")]

    assert root.findtext(f"{SVG}title") == "pa<nel: how often it is right, against calls"
    assert "Worth having: a alone: right 70.0%, 1.0 calls; vote" in (root.findtext(f"{SVG}desc") or "")
    assert {"a", "a alone", "b", "all & one", "c", "vote", "70.0%, 1.0", "75%", "10"} <= set(texts)
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    [line] = root.iter(f"{SVG}polyline")
    assert len(line.get("points", "").split()) == 2
    assert picture(THREE) == picture(THREE)


CROWDED = comparison(
    measured("one", 1.0, 0.7),
    *(measured(f"the same {n}", 1.0, 0.7, worth=False) for n in range(3)),
    measured("as_long_a_name_as_a_slot_may_ever_have 5 times, vote, stop", 4.0, 0.8),
    measured("as good for a little more", 4.02, 0.8, worth=False),
    measured("漢字" * 20, 99.0, 1.0),
)


@pytest.mark.parametrize("shown", [THREE, CROWDED, structs.replace(CROWDED, pattern="long" * 20)])
def test_nothing_on_the_drawing_lies_over_a_text_or_outside(shown: Comparison) -> None:
    """Letters keep off dots and each other, names off numbers, and the picture is as wide as what it says."""
    root = ElementTree.fromstring(picture(shown))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    areas = [area(node) for node in root.iter(f"{SVG}text")]
    for dot in root.iter(f"{SVG}circle"):
        x, y, r = (float(dot.get(name, "")) for name in ("cx", "cy", "r"))
        assert 0 <= x - r < x + r <= width
        assert not any(meet((x - r, y - r, x + r, y + r), one) for one in areas)

    assert all(0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in areas)
    assert not [pair for pair in itertools.combinations(areas, 2) if meet(*pair)]


Area = tuple[float, float, float, float]


def area(text: ElementTree.Element) -> Area:
    """About what *text* takes up: a Latin letter is half as wide as high, others are as wide as high."""
    x, y, kind, said = float(text.get("x", "")), float(text.get("y", "")), text.get("class", ""), text.text or ""
    high = 15 if "title" in kind else 12
    wide = sum(0.5 if one.isascii() else 1.0 for one in said) * high
    left = x - wide if "end" in kind else x - wide / 2 if "middle" in kind else x
    return left, y - high * 0.75, left + wide, y


def meet(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_a_name_with_what_no_xml_may_hold_is_drawn() -> None:
    """A file may be called anything."""
    root = ElementTree.fromstring(picture(structs.replace(THREE, pattern="a\x01b\ud800")))

    assert root.findtext(f"{SVG}title") == "a\ufffdb\ufffd: how often it is right, against calls"


def test_a_program_that_knows_no_themes_draws_it_light() -> None:
    """Every colour stands in a rule of its own before those for dark pages: a variable would be black on black."""
    style = ElementTree.fromstring(picture(THREE)).findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")

    assert "var(" not in style
    rules = [re.findall(r"([.\w][.\w ]*) \{ (?:fill|stroke): #", part) for part in (light, dark)]
    assert rules[0] == rules[1]
    assert {".paper", "circle", "text"} <= set(rules[0])


def test_the_terminal_shows_table_and_picture() -> None:
    """A row for each option, a star at what is worth having, and each letter once in the picture."""
    table, _, rest = compared(THREE).partition("\n\n")
    drawn, _, notes = rest.partition("\n\n")

    assert table.splitlines() == [
        "     pa<nel     calls  right  19 times in 20",
        "a *  a alone    1.0    70.0%  68.0% to 72.0%",
        "b    all & one  9.0    75.0%  73.0% to 77.0%",
        "c *  vote       3.0    78.0%  76.0% to 80.0%",
    ]
    *field, line, marks = drawn.splitlines()
    assert sorted(" ".join(row[7:] for row in field).split()) == ["a", "b", "c"]
    assert [row.index("a") for row in field if "a" in row] == [7]
    assert [row[:5].strip() for row in field if row[:5].strip()] == ["80%", "75%", "70%", "65%"]
    assert line.endswith("-" * 60)
    assert marks.split() == ["1", "2", "3", "5", "10", "calls"]
    assert notes.startswith("200 questions each, the same for all (seed 1)\n* no other variant")


def test_what_is_not_decided_and_what_failed_have_columns_when_there_is_any() -> None:
    """A dash where nothing was ever decided."""
    unsure = compared(comparison(measured("x", 1, 0.5, decided=0.5), measured("y", 2, 0.5, decided=0.0)))

    head, *rows = unsure.splitlines()[:3]
    assert head.split()[-3:] == ["decided", "right", "then"]
    assert rows[0].split()[-2:] == ["50.0%", "50.0%"]
    assert rows[1].split()[-2:] == ["0.0%", "-"]


def test_of_options_in_one_place_the_one_worth_having_shows() -> None:
    """The other is in the table."""
    text = compared(comparison(measured("x", 2, 0.5, worth=False), measured("y", 2, 0.5)))

    field = text.split("\n\n")[1]
    assert "b" in field
    assert "a" not in field.replace("calls", "")
