"""Types of Python as outputs, and values of them."""

import asyncio
import dataclasses
import enum
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, Required, TypedDict

import msgspec
import pydantic
import pytest
import recursive_types
from recursive_types import VALUES

import coterie
from coterie import agent, flow
from coterie.errors import UsageError
from coterie.history.engines.schemas import misfit, sample
from coterie.team.topology.typed import fits
from coterie.team.topology.typed.values import (
    as_outputs,
    converted,
    fields_of,
    lost,
    outputs_of,
    required_fields,
    schema_of,
    value_of,
)


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
    for type_ in (Pair, Pair | None):
        assert converted({"first": {"number": 3}, "second": 4}, type_) == Pair(Line(3), 4)
        assert lost(Pair(Line(3), 4), type_, whole=True) == ""
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


class Aliased(pydantic.BaseModel):
    count: int = pydantic.Field(alias="theCount")


class Renamed(msgspec.Struct, rename="camel"):
    long_name: int


class Partial(TypedDict, total=False):
    note: str
    title: Required[str]


@dataclasses.dataclass
class Holder:
    item: Aliased


@dataclasses.dataclass
class Nothing:
    pass


class Even(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


def test_records_with_other_names_and_in_other_records_come_back() -> None:
    """What a function returns has the names of its schema, and is read as what it was."""
    given = Aliased(theCount=3)
    for type_, value, names in (
        (Aliased, given, ["theCount"]),
        (Renamed, Renamed(4), ["longName"]),
        (Partial, {"title": "Tea"}, ["note", "title"]),
        (Holder, Holder(given), ["item"]),
        (Nothing, Nothing(), []),
        (list[Aliased], [given], ["result"]),
        (Aliased | None, given, ["result"]),
    ):
        typed = outputs_of(type_, "x")
        outputs = as_outputs(value, whole=fields_of(type_) is None)
        assert [one.name for one in typed.outputs] == names, type_
        assert set(outputs) <= set(names), type_
        assert value_of(type_, outputs) == value, type_
        assert not any(misfit(outputs[name], schema) for name, schema in typed.schemas.items() if name in outputs)


class Quoted(TypedDict):
    title: "str"
    note: "NotRequired[str]"


class QuotedPartial(TypedDict, total=False):
    title: "Required[str]"
    note: "str"


def test_annotations_that_are_texts_say_what_is_required() -> None:
    """As in a module with `from __future__ import annotations`, where the class itself does not know it."""
    for type_ in (Quoted, QuotedPartial):
        assert required_fields(type_) == {"title"}


def test_any_iterable_is_read_as_a_list() -> None:
    """Also where what is given can be no list."""
    assert converted([[1, 2], []], Iterable[Iterable[int]]) == [[1, 2], []]
    assert fits.misfit(list[int], Iterable[int]) == ""
    assert fits.misfit(int, Iterable[int]) == "it is int, never collections.abc.Iterable[int]"


class Mixed(enum.Enum):
    WORD = "a"
    NUMBER = 1


def test_an_enum_that_nothing_reads_back_is_refused_where_it_is_declared() -> None:
    """Its members are texts and numbers."""
    with pytest.raises(UsageError, match="the output 'result' of x has a type that JSON cannot express: Enums must"):
        outputs_of(Mixed, "x")


@pytest.mark.parametrize(("type_", "value"), VALUES, ids=lambda one: getattr(one, "__name__", "")[:9])
def test_types_that_contain_themselves_come_back(type_: Any, value: object) -> None:
    """Their schema knows itself, and a played agent gives a value that ends."""
    typed = outputs_of(type_, "x")
    outputs = as_outputs(value, whole=fields_of(type_) is None)
    samples = {name: sample(schema) for name, schema in typed.schemas.items()}
    plain = {one.name: {"text": "t", "integer": 1}[one.type] for one in typed.outputs if one.name not in samples}

    assert set(outputs) == {one.name for one in typed.outputs}
    assert value_of(type_, outputs) == value
    for given in (outputs, samples):
        assert not any(misfit(given[name], schema) for name, schema in typed.schemas.items())
    value_of(type_, samples | plain)


def test_a_value_without_an_end_has_no_sample() -> None:
    """A type whose every value contains another one."""
    with pytest.raises(RecursionError, match="always contains another one"):
        sample({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}})


def test_a_tree_goes_from_function_to_function() -> None:
    """In a run, as any other value."""
    first, second = coterie.agent(recursive_types.grown), coterie.agent(recursive_types.counted)
    outcome = asyncio.run(coterie.run(flow("trees", [first, second], [first >> second], result=second)))

    assert outcome.result == 3


@dataclasses.dataclass
class Settings:
    limit: int | None = 5
    most: int = 7
    extra: Any = 1


@pytest.mark.parametrize(
    ("printed", "settings"),
    [
        ('{"limit": null}', Settings(limit=None)),
        ('{"extra": null}', Settings(extra=None)),
        ('{"most": null}', Settings()),
        ("limit: null", Settings(limit=None)),
        ('{"limit": 6}', Settings(limit=6)),
    ],
)
def test_null_is_a_value_where_the_type_has_it(printed: str, settings: Settings) -> None:
    """It does not become the default; elsewhere it means that the field is left out."""
    node = agent("program", command=["echo", printed], outputs=Settings)

    assert asyncio.run(coterie.run(flow("one", [node], result=node))).result == settings


def test_a_completed_run_without_a_fitting_result_says_so_and_keeps_its_outcome() -> None:
    """Its exit never ran, or gave what its type refuses: the run is paid for all the same."""
    node = coterie.agent("last", command=["echo", '{"number": 3}'], outputs=Even)
    outcome = asyncio.run(coterie.run(coterie.flow("odd", [node], result=node)))
    first = coterie.agent("first", command=["false"], on_fail="skip")
    skipped = asyncio.run(coterie.run(coterie.flow("none", [first, node], [first >> node], result=node)))
    for found, why in ((outcome, "does not fit its type: ValidationError"), (skipped, "'last' gave no answer")):
        assert found.status == "completed"
        assert why in repr(found.result)
