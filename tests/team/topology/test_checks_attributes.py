import pytest
from teams import codes, findings, letters

pytestmark = pytest.mark.once


def test_arrows_with_different_conditions_are_two() -> None:
    """Two ways to one node."""
    text = letters("a -> b [when a.v == x]\na -> b [when a.v == y]", a="outputs { v: x | y }")

    assert codes(text) == []


def test_an_arrow_in_a_list_may_repeat_one_outside() -> None:
    """It is told where the second stands."""
    assert findings(letters("a -> b\na -> [c, b]")) == ["warning[repeated-arrow] b: a -> b is written twice"]


@pytest.mark.parametrize(
    "flow",
    ["a -> b", "c -> a\na -> b", "a -> c -> b", "b -> a [max 2]\na -> b"],
)
def test_what_is_written_before_may_be_read(flow: str) -> None:
    """On any path, a loop's too."""
    assert "read-before-written" not in codes(letters(flow, a='writes: ["x.md"]', b='reads: ["x.md"]'))


def test_what_nobody_writes_may_be_read() -> None:
    """It was there before."""
    assert codes(letters("a -> b", b='reads: ["x.md"]')) == []


def test_whoever_writes_a_file_may_read_it() -> None:
    """Its own, from an earlier round."""
    assert codes(letters("a -> b", a='reads: ["x.md"]  writes: ["x.md"]', b='writes: ["x.md"]')) == []


def test_a_reflection_on_a_way_back_is_fine() -> None:
    """With its bound."""
    text = letters("a -> b\nb -> a [when b.v == x, max 2, reflection]")

    assert "reflection-without-loop" not in codes(text)
