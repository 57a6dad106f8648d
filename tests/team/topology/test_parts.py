"""The named parts of frozen values."""

from typing import Any

import pytest
from bundles import bundle

from coterie.team.topology.block import Block
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import Human, Output
from coterie.team.topology.parts import both, by_name, fields_of, parts_of
from coterie.team.topology.patterns.model import Slot
from coterie.team.topology.system.fields import EvalFields, FlowFields

pytestmark = pytest.mark.once

STORE = Block(kind="store", name="notes", fields={"size": 2})


@bundle(
    ("value", "found"),
    [
        ({"a": 1}, {"a": 1}),
        (Block(kind="memory", fields={"x": 1}, entries=(STORE,), kept={"y": 2}), {"x": 1, "y": 2, "notes": STORE}),
        (Slot(name="s", node="a"), {"node": "a", "capabilities": (), "calls": None, "cost": None}),
        ((Output(name="v"), Output(name="w")), {"v": Output(name="v"), "w": Output(name="w")}),
        ((), {}),
        (("a",), None),
        (Condition("a", "b", Operator.EQ, 1), None),
        ("text", None),
    ],
)
def test_a_value_has_its_parts_by_name(value: Any, found: Any) -> None:
    """Its own name is none of them; a condition and a tuple of texts are compared whole."""
    assert parts_of(value) == found


def test_a_part_is_called_as_in_a_file() -> None:
    """With hyphens, but the fields of a struct as their file has them."""
    assert "on-timeout" in (parts_of(Human(name="h")) or {})
    assert "span" not in (parts_of(Human(name="h")) or {})
    assert [name for name, _, _ in fields_of(EvalFields(name="e"))][-1] == "class"


def test_a_required_field_has_no_default() -> None:
    """Others have that of their class."""
    given = {name: (value, default) for name, value, default in fields_of(FlowFields(name="f", source="x.at"))}

    assert given["source"] == ("x.at", None)
    assert given["mailbox_size"] == (1000, 1000)


def test_equal_names_are_numbered() -> None:
    """In their order."""
    assert list(by_name(("a", "b", "a", "a"), str)) == ["a", "b", "a#2", "a#3"]


def test_both_values_of_a_name_come_together() -> None:
    """The names of the first come first."""
    assert list(both({"a": 1, "b": 2}, {"c": 4, "b": 3})) == [("a", 1, None), ("b", 2, 3), ("c", None, 4)]
