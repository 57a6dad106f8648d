"""A document under the keys of somebody who types."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol.types import TextDocumentContentChangePartial

from coterie.interfaces.lsp.completion import complete
from coterie.interfaces.lsp.diagnostics import findings, fixable
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.hover import hover
from coterie.interfaces.lsp.locations import definition, references
from coterie.interfaces.lsp.outline import folds, outline
from coterie.interfaces.lsp.rename import Edit, apply
from coterie.team import formats, planning

TEAM = (Path(__file__).parents[3] / "examples" / "code-review.at").read_text()
PIECES = st.sampled_from(
    [
        "",
        "a",
        "->",
        " -> ",
        "{",
        "}",
        "[",
        "]",
        "agent ",
        "flow {",
        '"',
        "# ",
        "\n",
        "when ",
        "reviewer.",
        "==",
        ",",
        "🙂",
        ":",
    ]
)
EDITS = st.lists(st.tuples(st.integers(0, len(TEAM)), st.integers(0, 30), PIECES), min_size=1, max_size=4)


@settings(max_examples=60)
@given(EDITS, st.data())
def test_whatever_is_typed_is_read_as_if_it_were_saved(edits: list[tuple[int, int, str]], data: st.DataObject) -> None:
    """After any edits the diagnostics are those of a fresh reading, in the text, and no question raises."""
    document, text = Document.of(TEAM), TEAM
    for at, length, piece in edits:
        start = min(at, len(text))
        length = min(length, len(text) - start)
        document = document.changed([TextDocumentContentChangePartial(document.text.range(start, length), piece)])
        text = text[:start] + piece + text[start + length :]

    assert document.text.content == text
    assert document.diagnostics == planning.examine(formats.read_text(text))[1]
    assert all(0 <= one.offset <= one.offset + one.length <= len(text) for one in findings(document))
    offset = data.draw(st.integers(0, len(text)))
    for proposal in complete(document, offset):
        assert proposal.offset <= offset <= proposal.offset + proposal.length
    hover(document, offset)
    assert definition(document, offset) == [] or references(document, offset)
    for part in outline(document.tree):
        assert part.offset <= part.name_offset <= part.offset + part.length <= len(text)
    assert all(text[opens] == "{" and text[closes] == "}" for opens, closes in folds(document.tree))


def test_names_stand_where_the_text_has_them() -> None:
    """Every occurrence is the text at its place."""
    document = Document.of(TEAM)

    for one in document.names.all:
        assert TEAM[one.offset : one.end] == one.symbol.name
        assert document.names.at(one.offset) == document.names.at(one.end) == one


def test_what_validate_says_is_underlined() -> None:
    """Place and hint of a finding are those of the command line; what concerns the whole file stands on top."""
    team = "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> c } }"
    (found,) = findings(Document.of(team))

    assert found.message == "the flow names 'c', which is not declared: declare it: agent c { model: … }"
    assert team[found.offset : found.offset + found.length] == "c"
    (nothing,) = findings(Document.of("# nothing yet"))
    assert (nothing.diagnostic.code, nothing.offset, nothing.length) == ("no-topology", 13, 0)


def test_prompts_are_looked_for_beside_the_file(tmp_path: Path) -> None:
    """A document that lies somewhere finds the files that it names; one that was never saved names texts."""
    (tmp_path / "there.md").write_text("Write well.")
    team = 'topology t : [pipeline] { agent a { model: m prompt: "%s.md" } agent b { model: m } flow { a -> b } }'

    assert [one.code for one in Document.of(team % "gone", tmp_path / "t.at").diagnostics] == ["no-prompt-file"]
    assert Document.of(team % "there", tmp_path / "t.at").diagnostics == ()
    assert Document.of(team % "gone").diagnostics == ()


def test_a_fix_that_is_offered_mends_its_finding() -> None:
    """Applied, the finding is gone."""
    team = "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a => b } }"
    document = Document.of(team)

    (found,) = fixable(document, team.index("=>") + 1)

    assert found.fix is not None
    mended = apply(team, [Edit(found.fix.span.offset, found.fix.span.length, found.fix.text)])
    assert findings(Document.of(mended)) == []
    assert fixable(document, 0) == []


def test_a_word_that_is_nearly_right_can_be_mended() -> None:
    """What a hint asks becomes a fix for the one word that is wrong."""
    team = "topology t : [pipeline] { agent a { model: m invocation: manul } agent b { model: m } flow { b -> b } }"
    document = Document.of(team)

    (found,) = fixable(document, team.index("manul"))

    assert found.fix is not None
    assert (found.fix.text, found.fix.span.offset, found.fix.span.length) == ("manual", team.index("manul"), 5)
