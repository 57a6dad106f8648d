"""The description of the notation: it fits the values that are made from it, and what the reader takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bundles import bundle

from coterie.team.formats import read_text
from coterie.team.formats.at.flow_parser import ATTRIBUTE_WORDS
from coterie.team.formats.at.language import ATTRIBUTES, BLOCKS, LANGUAGE, BlockSpec, FieldSpec, within
from coterie.team.topology.block import NOTHING
from coterie.team.topology.checks.facts import kind_of
from coterie.team.topology.model import Agent

DATA = Path(__file__).parents[2] / "data" / "at" / "valid"


def blocks(outer: tuple[BlockSpec, ...] = LANGUAGE) -> Iterator[BlockSpec]:
    """Every block, however deep."""
    for block in outer:
        yield block
        yield from blocks(within(block))


def test_nodes_have_the_fields_that_are_described() -> None:
    """Each under its name, `extensions` as `extension`; one file says them all."""
    source = read_text((DATA / "every-field.at").read_text())
    assert source.topology is not None
    said_by: dict[str, set[str]] = {}
    for node in source.topology.nodes:
        said_by.setdefault(kind_of(node), set()).update(node.spans)
        for field in BLOCKS[kind_of(node)].fields:
            attribute = {"extensions": "extension", "invocation": "manual"}.get(
                field.name, field.name.replace("-", "_")
            )
            assert hasattr(node, attribute) or isinstance(node, Agent)  # all else an agent says is in `extra`

    for kind, names in said_by.items():
        assert BLOCKS[kind].by_name.keys() <= names, kind


def test_words_are_described_once() -> None:
    """No block twice, no field twice in one block."""
    assert len(BLOCKS) == len(LANGUAGE)
    for block in blocks():
        assert len(block.by_name) == len(block.fields), block.name


def test_everything_is_told_in_a_line() -> None:
    """Pages and editors show it: a sentence, and what a field may hold."""
    for block in blocks():
        assert block.about.endswith((".", "…")), block.name
        for field in block.fields:
            assert field.about.endswith((".", "…")), (block.name, field.name)
            assert field.kind.words


def test_the_attributes_of_arrows_are_those_of_the_parser() -> None:
    """In its order."""
    assert tuple(each.name for each in ATTRIBUTES) == ATTRIBUTE_WORDS


@bundle("block", [block for block in LANGUAGE if block.example], ids=lambda block: block.name)
def test_an_example_is_read_without_a_word_against_its_form(block: BlockSpec) -> None:
    """It is copied from pages."""
    example = f"gates {{ {block.example} }}" if block.name == "gate" else block.example
    text = f"topology t : [pipeline, fan-out] {{\n  {example.replace('NAME {', 'x {').replace('{ … }', '{ }')}\n}}\n"
    about_form = {"bad-value", "unknown-field", "unknown-block", "unread-text", "unexpected-text", "missing-colon"}

    assert about_form & {each.code for each in read_text(text).diagnostics} == set()


@pytest.mark.parametrize("field", BLOCKS["agent"].fields, ids=lambda field: field.name)
def test_a_value_that_does_not_fit_is_an_error_at_its_place(field: FieldSpec) -> None:
    """Nothing an agent says is taken as something else, and one fault is told once."""
    if field.name in ("prompt", "description", "skip"):
        wrong = "[a, b]"  # any text fits
    elif field.kind.words.startswith("a list"):
        wrong = "a b"
    else:
        wrong = "[a] "
    model = "" if field.name == "model" else "model: m  "
    text = f"topology t : [pipeline] {{\n  agent a {{ {model}{field.name}: {wrong} }}\n}}\n"

    found = [each for each in read_text(text).diagnostics if each.is_error]
    assert [each.code for each in found] == ["bad-value"]
    assert f"{field.name!r} of agent 'a'" in found[0].message


def test_what_is_not_said_takes_no_room() -> None:
    """Most agents say little, so what they leave out is not there."""
    source = read_text("topology t : [pipeline] { agent a { model: m }  agent b { model: m  seed: 3 } }")
    assert source.topology is not None
    a, b = source.topology.nodes

    assert isinstance(a, Agent)
    assert isinstance(b, Agent)
    assert a.extra is NOTHING
    assert b.extra.fields == {"seed": 3}


def test_what_stands_where_nothing_can_is_kept() -> None:
    """In a block that holds only entries, and in an agent's."""
    source = read_text("topology t : [pipeline] { agent a { model: m  hooks { log: true } }  schedule { loose: 3 } }")
    assert source.topology is not None
    agent = source.topology.nodes[0]

    assert agent.kept == {"hooks": {"log": True}}
    assert source.topology.block("schedule").kept == {"loose": 3}
