import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.patterns.shown import as_json

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_in_a_prompt_is_json_in_indented_lines(value: Any) -> None:
    """The same as the standard library writes, whatever stands in it."""
    assert as_json(value) == json.dumps(value, indent=2, ensure_ascii=False)
