"""Outputs with a JSON Schema: what fits, and the values that played agents give."""

from typing import Any

import flow_agents as functions
import msgspec
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.schemas import misfit, sample
from coterie.team.topology.typed.values import outputs_of, value_of

TYPES: list[Any] = [
    functions.Review, functions.Risk, functions.Place, functions.Node, functions.Point, list[int], dict[str, float],
    int | None, list[functions.Review], tuple[int, str], set[str], functions.Level, list[functions.Level | None],
]  # fmt: skip


@bundle("type_", TYPES, ids=str)
def test_a_sample_fits_its_schema(type_: Any) -> None:
    """What a played agent gives for a type is a value of that type."""
    typed = outputs_of(type_, "x")
    given = {one.name: sample(typed.schemas[one.name]) for one in typed.outputs if one.name in typed.schemas}
    assert {name: misfit(given[name], typed.schemas[name]) for name in given} == dict.fromkeys(given, "")
    plain = {"text": "t", "integer": 1, "number": 1.5, "boolean": True, "any": None}
    rest = {
        one.name: one.values[0] if one.values else plain[one.type] for one in typed.outputs if one.name not in given
    }

    value_of(type_, {**given, **rest})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_a_schema_accepts_what_msgspec_converts(value: Any) -> None:
    """The check of a reply and the conversion to its type agree."""
    type_ = list[int | str]
    try:
        msgspec.convert(value, type_)
        converts = True
    except msgspec.ValidationError:
        converts = False

    assert (misfit(value, msgspec.json.schema(type_)) == "") is converts


def test_a_misfit_says_where() -> None:
    """The message names the place in the value, for the agent that is asked again."""
    schema = msgspec.json.schema(list[functions.Issue])

    assert misfit([{"line": "x", "text": "t"}], schema) == "[0].line must be integer"
    assert misfit([{"line": 1}], schema) == "[0] must contain ['text'] properties"
