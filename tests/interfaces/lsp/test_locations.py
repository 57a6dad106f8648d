"""Where names are declared and used."""

from pathlib import Path

import pytest
from bundles import bundle
from editing import cursor

from coterie.errors import UsageError
from coterie.interfaces.lsp.completion import complete
from coterie.interfaces.lsp.diagnostics import findings
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.locations import FileRange, definition, references
from coterie.interfaces.lsp.names import NameKind
from coterie.interfaces.lsp.rename import rename

TEAM = """topology t : [pipeline] {
  import "./other.at" as other
  params { tone: string = dry }
  interface { entry: writer, exit: reviewer }
  meta { error-handler: boss }
  roles { critic: "You doubt" }
  orchestrator { model: m handles: [fetch] }
  agent writer { model: m on-fail: fallback reviewer produces: [draft] memory: [notes] mcp-servers: [git] }
  agent reviewer { model: m role: critic outputs { verdict: approve | revise } tools: [lint] skills: [reading] }
  action fetch { commands: ["git fetch ${param.tone}"] }
  gate tests { after: writer before: reviewer }
  human boss { on-timeout: fallback reviewer }
  agent lister { model: m outputs { parts: list of text, all: text } }
  agent piece { model: m outputs { size: small | large } }
  agent clerk { retrieval: near reads: [writer, notes] skip: reviewer.verdict == 'revise' }
  group panel { members: [writer, "reviewer"] }
  artifacts { artifact draft { } artifact paper { depends-on: [draft] } }
  memory { store notes { } retrieval near { sources: [notes] } }
  mcp-servers { git { type: stdio } }
  tools { tool lint { } }
  skill reading { scripts: [lint] agent: reviewer }
  schemas { schema finding { title: string } schema list { items: array of finding, best?: finding } }
  schedule { job nightly { agent: writer } }
  depth { level 1 "quick" { omit: [reviewer] } }
  flow {
    orchestrator -> fetch -> other -> writer
    writer -> [reviewer, boss]
    reviewer -> writer [when reviewer.verdict == "revise", max 3, per fetch]
    boss -> lister
    lister -> piece [each lister.parts, at-most 5, until any piece.size == large]
    piece -> boss [when all piece.size == "large", max 2]
  }
}
"""


@bundle(
    ("kind", "owner", "name", "places"),
    [
        (NameKind.NODE, "", "writer", 9),
        (NameKind.NODE, "", "reviewer", 12),
        (NameKind.NODE, "", "fetch", 4),
        (NameKind.NODE, "", "boss", 5),
        (NameKind.NODE, "", "lister", 4),
        (NameKind.NODE, "", "piece", 5),
        (NameKind.OUTPUT, "lister", "parts", 2),
        (NameKind.OUTPUT, "piece", "size", 3),
        (NameKind.VALUE, "piece.size", "large", 3),
        (NameKind.NODE, "", "orchestrator", 2),
        (NameKind.NODE, "", "other", 2),
        (NameKind.OUTPUT, "reviewer", "verdict", 3),
        (NameKind.VALUE, "reviewer.verdict", "revise", 3),
        (NameKind.ROLE, "", "critic", 2),
        (NameKind.ARTIFACT, "", "draft", 3),
        (NameKind.STORE, "", "notes", 3),
        (NameKind.RETRIEVAL, "", "near", 2),
        (NameKind.SERVER, "", "git", 2),
        (NameKind.TOOL, "", "lint", 3),
        (NameKind.SKILL, "", "reading", 2),
        (NameKind.SCHEMA, "", "finding", 3),
        (NameKind.PARAM, "", "tone", 2),
    ],
)
def test_a_name_is_found_wherever_it_stands(kind: NameKind, owner: str, name: str, places: int) -> None:
    """From each of its places, the same places and the same declaration."""
    document = Document.of(TEAM)
    (symbol,) = [each for each in document.names.symbols(kind, owner) if each.name == name]

    found = document.names.of(symbol)

    assert len(found) == places
    assert [one.declares for one in found].count(True) == 1
    for one in found:
        (declared,) = definition(document, one.offset)
        assert TEAM[declared.offset : declared.offset + declared.length] == name
        assert len(references(document, one.offset)) == places
        assert len(references(document, one.offset, declarations=False)) == places - 1


def test_what_is_not_declared_has_no_definition() -> None:
    """Its other places are found all the same."""
    document, offset = cursor("topology t : [pipeline] { flow { a -> ‸ghost ghost -> a } }")

    assert definition(document, offset) == []
    assert len(references(document, offset)) == 2


def test_another_file_is_opened_from_where_it_is_named(tmp_path: Path) -> None:
    """The beginning of the file; nothing while there is none."""
    text = 'topology t : [pipeline] {\n  include "./more.at"\n}\n'
    document = Document.of(text, tmp_path / "team.at")

    assert definition(document, text.index("more")) == []
    (tmp_path / "more.at").write_text("fragment more { }")
    assert definition(document, text.index("more")) == [FileRange(0, 0, (tmp_path / "more.at").resolve())]
    assert definition(Document.of(text), text.index("more")) == []


def test_a_part_in_another_file_is_known(tmp_path: Path) -> None:
    """What an included file declares is found and proposed; what is wrong in it is said where it is named."""
    (tmp_path / "more.at").write_text("# parts\nfragment more { agent helper { model: m retry: lots } }")
    text = 'topology t : [pipeline] { include "./more.at" agent a { model: m } flow { a -> helper } }'
    document = Document.of(text, tmp_path / "team.at")

    (place,) = definition(document, text.index("helper"))
    assert place.path == tmp_path / "more.at"
    assert place.text[place.offset : place.offset + place.length] == "helper"
    assert "helper" in [one.label for one in complete(document, text.index("helper"))]
    (found,) = findings(document)
    assert text[found.offset : found.offset + found.length] == '"./more.at"'
    assert found.message.startswith(f"{tmp_path / 'more.at'}:2:48: ")
    with pytest.raises(UsageError, match=r"'helper' is declared in .*more.at"):
        rename(document, text.index("helper"), "other")
    with pytest.raises(UsageError, match="'helper' is the name of another node"):
        rename(document, text.index("a ->"), "helper")
