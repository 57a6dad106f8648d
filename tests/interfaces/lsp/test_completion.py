"""What is proposed where: the cursor is the sign ‸ in the text."""

import pytest
from bundles import bundle
from editing import cursor

from coterie.interfaces.lsp.completion import Proposal, complete

TEAM = """topology t : [pipeline] {{
  roles {{ critic: "You doubt" }}
  agent writer {{ model: sonnet description: "Writes" }}
  agent reviewer {{ model: opus outputs {{ verdict: approve | revise, score: number }} }}
  gate tests {{ after: writer }}
  {}
}}
"""


def proposals(text: str) -> list[Proposal]:
    """What is proposed in a team that holds *text*."""
    return complete(*cursor(TEAM.format(text)))


def labels(text: str) -> list[str]:
    """The words of the proposals."""
    return [one.label for one in proposals(text)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("flow { ‸ }", ["writer", "reviewer", "tests"]),
        ("flow { wri‸ }", ["writer", "reviewer", "tests"]),
        ("flow { writer -> ‸ }", ["writer", "reviewer", "tests"]),
        ("flow { writer -> ‸\n reviewer -> writer }", ["writer", "reviewer", "tests"]),
        ("flow { writer -> [reviewer, ‸] }", ["writer", "tests"]),
        ("flow { writer ‸ }", ["->"]),
        ("flow { writer -> reviewer ‸ }", ["->", "[when …]", "[max …]"]),
        ("flow { writer -> reviewer [‸] }", ["when", "max", "per", "on-max", "each", "race"]),
        ("flow { writer -> reviewer [max 3, ‸] }", ["per", "on-max", "each", "race"]),
        ("flow { writer -> reviewer [each writer.l, ‸] }", ["at-most", "at-once", "on-more", "tolerate", "until"]),
        ("flow { writer -> reviewer [‸, per run] }", ["when", "max", "race"]),
        ("flow { writer -> reviewer [each writer.l ‸] }", ["by"]),
        ("flow { writer -> reviewer [each writer.l, at-most 5, on-more ‸] }", ["fail", "first"]),
        ("flow { writer -> reviewer [each writer.l, until ‸] }", ["any"]),
        ("flow { writer -> reviewer [each writer.l, until any ‸] }", ["writer", "reviewer"]),
        ("flow { writer -> reviewer [each writer.l, until any reviewer.‸] }", ["verdict", "score"]),
        ("flow { writer -> reviewer [each writer.l, until any reviewer.verdict ‸] }", ["==", "!="]),
        ("flow { writer -> reviewer [each writer.l, until any reviewer.verdict == ‸] }", ['"approve"', '"revise"']),
        ("flow { writer -> reviewer [when ‸] }", ["writer", "reviewer", "tests", "any", "all"]),
        ("flow { reviewer -> writer [when all ‸] }", ["reviewer", "writer"]),
        ("flow { reviewer -> writer [when all reviewer.‸] }", ["verdict", "score"]),
        ("flow { reviewer -> writer [when any reviewer.verdict == ‸] }", ['"approve"', '"revise"']),
        ("agent a { outputs { l: list of text } } flow { writer -> reviewer [each ‸] }", ["a", "writer", "reviewer"]),
        ("agent a { outputs { n: text, l: list of text, k: list } } flow { a -> writer [each a.‸] }", ["l", "k"]),
        ("agent a { outputs { x: list of ‸ } }", ["text", "number", "integer", "boolean"]),
        ("flow { reviewer -> writer [when ‸] }", ["reviewer", "writer", "tests"]),
        ("flow { reviewer -> writer [when reviewer.‸] }", ["verdict", "score"]),
        ("flow { reviewer -> writer [when reviewer.‸verdict == 1] }", ["verdict", "score"]),
        ("flow { reviewer -> writer [when tests.‸] }", ["passed"]),
        ("flow { reviewer -> writer [when reviewer.verdict ‸] }", ["==", "!=", "<", "<=", ">", ">="]),
        ("flow { reviewer -> writer [when reviewer.verdict == ‸] }", ['"approve"', '"revise"']),
        ('flow { reviewer -> writer [when reviewer.verdict == "‸"] }', ["approve", "revise"]),
        ('flow { reviewer -> writer [when reviewer.verdict == "re‸ }', ["approve", "revise"]),
        ("flow { reviewer -> writer [when tests.passed == ‸] }", ["true", "false"]),
        ('flow { writer -> tests [when writer.mood == "sad"] writer -> reviewer [when writer.‸] }', ["mood"]),
        ('flow { writer -> tests [when writer.mood == "sad"] a -> b [when writer.mood == ‸] }', ['"sad"']),
        ("flow { reviewer -> writer [max 3, per ‸] }", ["run", "phase", "writer"]),
        ("flow { reviewer -> writer [max 3, on-max ‸] }", ["forward", "end", "fail", "human"]),
        ("agent a { model: ‸ }", ["sonnet", "opus"]),
        ("agent a { role: ‸ }", ["critic"]),
        ("agent a { on-fail: ‸ }", ["halt", "skip", "continue", "fallback"]),
        ("agent a { on-fail: fallback ‸ }", ["writer", "reviewer", "tests", "a"]),
        ("agent a { invocation: ‸ }", ["auto", "manual"]),
        ("agent a { background: ‸ }", ["true", "false"]),
        ("agent a { outputs { verdict: ‸ } }", ["text", "number"]),
        ("gate g { after: ‸ }", ["writer", "reviewer", "tests", "g"]),
        ("group g { members: [‸] }", ["writer", "reviewer", "tests", "g"]),
        ("agent a { extensions { ‸ } }", ["coterie"]),
        ("agent a { extensions { coterie { backend: ‸ } } }", ["acp", "claude-sdk"]),
        ("agent a { extensions { coterie { sandbox: ‸ } } }", ["auto", "required", "no-network", "off"]),
        ("observability { capture { prompts: ‸ } }", ["true", "false"]),
    ],
)
def test_the_likeliest_come_first(text: str, first: list[str]) -> None:
    """Names, values and words of the notation, in the order in which they are wanted."""
    assert labels(text)[: len(first)] == first


@bundle(
    ("text", "some"),
    [
        ("‸", {"agent", "flow", "mcp-servers", "memory"}),
        ("agent a { ‸ }", {"model", "prompt", "outputs", "temperature"}),
        ("agent a { model: m\n mo‸\n tools: [x] }", {"prompt", "on-fail"}),
        ("agent a { model: m ‸ }", {"prompt"}),
        ("agent a {\n model: m\n ‸\n\nagent b { model: m }", {"prompt"}),
        ("memory { ‸ }", {"store", "retrieval", "domains"}),
        ("memory { store s { search { ‸ } } }", {"strategy", "top-k"}),
        ("memory { store s { type: ‸ } }", {"semantic", "graph"}),
        ("gates { ‸ }", {"gate"}),
        ("gates { gate g { ‸ } }", {"after", "run"}),
        ("agent a { hooks { hook h { ‸ } } }", {"on", "run"}),
        ("agent a { retry { ‸ } }", {"max", "backoff"}),
        ("agent a { extensions { coterie { ‸ } } }", {"backend", "topology", "cwd"}),
    ],
)
def test_blocks_and_fields_are_those_of_the_place(text: str, some: set[str]) -> None:
    """Each block offers its own fields."""
    assert some <= set(labels(text))


@pytest.mark.parametrize(
    ("text", "not_there"),
    [
        ("agent a { model: m ‸ }", "model"),
        ("roles { } ‸", "roles"),
        ("flow { writer -> reviewer [when reviewer.verdict == approve, ‸] }", "when"),
        ("agent ‸a { model: m }", "a"),
    ],
)
def test_what_is_there_once_is_not_proposed_again(text: str, not_there: str) -> None:
    """A field, a block or an attribute of which there is one."""
    assert not_there not in labels(text)


@bundle(
    "text",
    [
        "# a comment ‸",
        'agent a { description: "writer -> ‸" }',
        "agent a { prompt { Write a ‸ text } }",
        "agent ‸ { model: m }",
        "flow { reviewer -> writer [max ‸] }",
    ],
)
def test_nothing_is_proposed_where_anything_may_stand(text: str) -> None:
    """In comments, texts, prompts, new names and numbers."""
    assert labels(text) == []


def test_outside_a_topology_one_can_begin() -> None:
    """An empty file, and a file of which only the first word is there."""
    assert [one.label for one in complete(*cursor("‸"))] == ["topology", "fragment"]
    assert [one.label for one in complete(*cursor("# first\n‸"))] == ["topology", "fragment"]


def test_the_header_knows_the_published_patterns() -> None:
    """What stands in the brackets of the header."""
    assert [one.label for one in complete(*cursor("topology t : [pipeline, fa‸] { }"))][:2] == ["pipeline", "fan-out"]


def test_what_is_typed_is_replaced() -> None:
    """A proposal takes the place of the whole word at the cursor, inside quotes without them."""
    document, offset = cursor(TEAM.format('flow { reviewer -> writer [when reviewer.verdict == "app‸rove"] }'))

    one = complete(document, offset)[0]

    assert document.text.content[one.offset : one.offset + one.length] == "approve"
    assert document.text.content[one.offset - 1] == '"'


def test_a_proposal_says_what_it_is() -> None:
    """A node its description, a field its values and its meaning, a block how it is written."""
    (node,) = [one for one in proposals("flow { ‸ }") if one.label == "writer"]
    (field,) = [one for one in proposals("agent a { ‸ }") if one.label == "invocation"]
    (block,) = [one for one in proposals("‸") if one.label == "agent"]
    (sign,) = [one for one in proposals("flow { writer -> reviewer ‸ }") if one.label == "[max …]"]

    (option,) = [one for one in proposals("agent a { extensions { coterie { ‸ } } }") if one.label == "sandbox"]

    assert option.snippet == "sandbox: $0"
    assert node.detail == "Writes"
    assert field.detail == "auto | manual"
    assert "Default: auto." in field.about
    assert block.snippet == "agent ${1:name} {\n  $0\n}"
    assert (sign.snippet, sign.plain) == ("[max ${1:3}]", "[max 3]")
