"""Types of Python as outputs, and values of them."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import coterie
from coterie import agent, flow
from coterie.topology.typed.values import converted, schema_of


@dataclasses.dataclass
class Line:
    number: int


class Note(msgspec.Struct):
    text: str
    lines: list[Line]
    mood: str = "calm"


class Pair(NamedTuple):
    first: Line
    second: int


class Page(msgspec.Struct):
    note: Note


@pytest.mark.parametrize(
    ("type_", "option", "backend"),
    [("claude-sdk", {}, "claude-sdk"), ("shop.till.Till", {"type": "shop.till.Till"}, "actor")],
)
def test_the_type_of_an_agent_is_a_backend_or_a_class(type_: str, option: dict[str, str], backend: str) -> None:
    """A word names a backend, a dotted path a class of agents."""
    planned = coterie.plan(flow("one", [agent("a", type=type_)], [])).agents["a"]

    assert (planned.backend, dict(planned.options)) == (backend, option)


def test_the_fields_of_a_named_tuple_have_their_types() -> None:
    """A mapping becomes a named tuple, its values what its fields declare."""
    assert converted({"first": {"number": 3}, "second": 4}, Pair) == Pair(Line(3), 4)
    with pytest.raises(ValueError, match="int"):
        converted({"first": {"number": "three"}, "second": 4}, Pair)


def test_a_schema_says_what_is_required_and_defines_what_it_shares() -> None:
    """A field with a default is not required; a schema of several types has all their definitions."""
    outputs = coterie.plan(flow("one", [agent("a", model="sonnet", outputs=Note)], [])).agents["a"].outputs
    schema = schema_of(Page, "note", Note, "a")

    assert [(one.name, one.optional) for one in outputs] == [("text", False), ("lines", False), ("mood", True)]
    assert outputs[2].schema["default"] == "calm"
    assert schema["required"] == ["text", "lines"]
    assert set(schema["$defs"]) >= {"Line"}


def test_words_that_the_notation_reserves_are_quoted(tmp_path: Path) -> None:
    """A tool named `true` stays a text when it is written and read again."""
    team = flow("one", [agent("a", model="sonnet", tools=["Read", "true"])], [])

    (tmp_path / "one.at").write_text(coterie.to_at(team))
    assert coterie.plan(coterie.load(tmp_path / "one.at")).agents["a"].tools == ("Read", "true")
