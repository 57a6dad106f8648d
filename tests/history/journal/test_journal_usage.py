"""How the usage of several turns is added."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.history.journal.records import NO_USAGE, Usage

COUNTS = st.integers(0, 1_000)
USAGES = st.builds(
    Usage,
    **dict.fromkeys(("input_tokens", "output_tokens", "turns", "cached_tokens", "unpriced"), COUNTS),
    **dict.fromkeys(("cost", "seconds", "unsettled"), COUNTS.map(float)),
    context_tokens=COUNTS,
    context_window=COUNTS,
)
WINDOW = ("context_tokens", "context_window")


@given(USAGES, USAGES)
def test_everything_adds_up_but_the_context_window(first: Usage, second: Usage) -> None:
    """That is of the last turn that reported it."""
    both = first + second

    for name in Usage.__struct_fields__:
        one, other = getattr(first, name), getattr(second, name)
        assert getattr(both, name) == (other or one if name in WINDOW else one + other), name
        assert getattr(both - second, name) == (getattr(both, name) if name in WINDOW else one), name


def test_nothing_adds_nothing() -> None:
    used = Usage(input_tokens=1, cost=0.5, context_tokens=7, context_window=9)

    assert used + NO_USAGE == NO_USAGE + used == used
