"""The outline, the folds and the layout of a document."""

from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.layout import format_document
from coterie.interfaces.lsp.outline import OutlineItem, folds, outline
from coterie.interfaces.lsp.rename import apply

TEAM = """topology t : [pipeline] {
  import "./x.at" as other
  agent a { model: opus  outputs { verdict: approve | revise } }
  gates { gate g { after: a } }
  flow { a -> a [max 2] }
"""


def shown(parts: tuple[OutlineItem, ...] | list[OutlineItem]) -> list[object]:
    """Kind, name and detail of each part, with its children."""
    return [(part.kind, part.name, part.detail, *shown(part.children)) for part in parts]


def test_the_outline_has_blocks_and_outputs() -> None:
    """Also of a file whose last brace is not there yet."""
    assert shown(outline(Document.of(TEAM).tree)) == [
        (
            "topology",
            "t",
            "",
            ("import", "other", ""),
            ("agent", "a", "opus", ("output", "verdict", "approve | revise")),
            ("gates", "gates", "", ("gate", "g", "")),
            ("flow", "flow", ""),
        )
    ]


def test_blocks_fold_from_brace_to_brace() -> None:
    """Those that are closed."""
    assert [(TEAM[first], TEAM[last]) for first, last in folds(Document.of(TEAM).tree)] == [("{", "}")] * 5


def test_the_layout_changes_no_line_more_than_it_must() -> None:
    """One edit, which gives what `fmt` would; none where nothing changes, or nothing can be read."""
    tidy = "topology t : [pipeline] {\n  agent a { model: m }\n\n  flow {\n    a -> b\n  }\n}\n"
    untidy = tidy.replace("agent a {", "agent   a {")

    (edit,) = format_document(Document.of(untidy))

    assert apply(untidy, [edit]) == tidy
    assert edit.text.count("\n") == 1
    assert format_document(Document.of(tidy)) == []
    assert format_document(Document.of(tidy + "}")) == []
    assert apply("", format_document(Document.of(""))) == ""
