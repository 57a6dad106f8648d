"""What is said of the word at the cursor."""

import pytest
from bundles import bundle
from editing import cursor

from coterie.interfaces.lsp.hover import hover

TEAM = """topology t : [pipeline, fan-out] {{
  roles {{ critic: "You doubt" }}
  agent writer {{ model: sonnet description: "Writes a draft" }}
  agent reviewer {{ model: opus role: critic outputs {{ verdict: approve | revise }} }}
  agent idle {{ model: haiku invocation: manual }}
  {}
  flow {{
    writer -> reviewer
    {}
  }}
}}
"""
MAP = "writer -> reviewer [each writer.l, at-most 5, until any reviewer.verdict == revise]"
LOOP = 'reviewer -> writer [when reviewer.verdict == "revise", max 3]'


def said(text: str = "", flow: str = LOOP) -> str:
    """What is said at the cursor, which stands in one of the two texts."""
    note = hover(*cursor(TEAM.format(text, flow)))
    return note.text if note is not None else ""


def test_a_node_is_shown_at_a_glance() -> None:
    """Who thinks, what it is for, what it gives back, where its arrows lead and come from, and how often."""
    text = said(flow=LOOP.replace("reviewer ->", "revie‸wer ->"))

    assert text.splitlines()[0] == "**agent reviewer**: opus, no backend chosen"
    assert "- gives `verdict: approve | revise`" in text
    assert '- → `writer` when `reviewer.verdict == "revise"`, at most 3 times per run' in text
    assert "- ← `writer`" in text
    assert "Writes a draft" in said(flow=LOOP.replace("-> writer", "-> ‸writer"))


def test_a_node_outside_the_flow_says_so() -> None:
    """Nobody asks it."""
    assert "not in the flow" in said("group g { members: [‸idle] }")


def test_a_bound_that_the_file_leaves_open_is_told() -> None:
    """A conditional way back counts as `max 10`."""
    assert "at most 10 times per run (the file gives no bound)" in said(
        flow='idle -> writer\n ‸reviewer -> writer [when reviewer.verdict == "revise"]'
    )


@bundle(
    ("text", "flow", "expected"),
    [
        ("", LOOP.replace("verdict", "ver‸dict"), "verdict: approve | revise"),
        ("", LOOP.replace("verdict", "mo‸od"), "not declared"),
        ("", LOOP.replace('"revise', '"re‸vise'), "A value of `reviewer.verdict`"),
        ("", LOOP.replace("max", "m‸ax"), "`reviewer -> writer` fires at most 3 times per run; then the flow goes on"),
        ("", LOOP.replace("max 3", "max 1, on-max e‸nd"), "fires at most once per run; then the path ends"),
        ("", LOOP.replace("when", "wh‸en"), "The arrow fires if the output has this value"),
        ("", MAP.replace("each", "ea‸ch"), "The target runs once for each item of this list, or each 10"),
        ("", MAP.replace("at-most", "at-mo‸st"), "How many items there may be"),
        ("", MAP.replace("until", "unt‸il"), "An item of the target that ends the rest early."),
        ("", MAP.replace("each writer", "each wri‸ter"), "**agent writer**"),
        ("", MAP.replace(".l", ".‸l"), "An output of `writer`"),
        ("", MAP.replace("any reviewer", "any revie‸wer"), "**agent reviewer**"),
        ("agent a { mod‸el: m }", LOOP, "Name of the model."),
        ("agent a { temperature‸: 1 }", LOOP, "It has an effect only where a model runs the agent."),
        ("agent a { pro‸mpt { text } }", LOOP, "The prompt."),
        ("memory { store s { sea‸rch { } } }", LOOP, "How the store is searched."),
        ("mem‸ory { }", LOOP, "no effect yet"),
        ("agent a { role: cri‸tic }", LOOP, "You doubt"),
        ("fl‸ow { }", LOOP, "The order in which the nodes run."),
        ("skill read‸ing { }", LOOP, "**skill reading**"),
        ("agent a { tools: [Re‸ad] }", LOOP, "not declared in this file"),
        (
            "agent a { extensions { coterie { back‸end: command } } }",
            LOOP,
            "The kind of backend; empty: derived from the command.",
        ),
    ],
)
def test_words_are_explained(text: str, flow: str, expected: str) -> None:
    """Names by what they stand for, words of the notation by the table that describes it."""
    assert expected in said(text, flow)


@pytest.mark.parametrize("text", ["# a comm‸ent", "agent a { prompt { some te‸xt } }", "‸   # nothing"])
def test_of_the_rest_nothing_is_said(text: str) -> None:
    """Comments, texts, blanks."""
    assert said(text) == ""


def test_the_note_is_about_the_whole_word() -> None:
    """An editor marks what is explained."""
    document, offset = cursor(TEAM.format("", LOOP.replace("max 3", "max ‸3")))

    note = hover(document, offset)

    assert note is not None
    assert document.text.content[note.offset : note.offset + note.length] == "max 3"


def test_a_mistake_is_explained_by_its_rule() -> None:
    """Beside what there is to say of the word."""
    assert said(flow="writer -> ghost ghost -> gho‸st").startswith("**undeclared ghost**")
    assert "`unknown-agent`: A node is not declared." in said(flow="writer -> gho‸st")
    assert said("agent a { nonsense‸: 1 }").startswith("`unknown-field`: A field is unknown")
