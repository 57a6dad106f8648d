"""The real server, as a process, and a small editor that speaks to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client, Refused, packed

from coterie.interfaces.lsp.server import serve

TEAM = """\
topology review : [pipeline] {
  agent writer { model: sonnet }
  agent reviewer { model: opus  outputs { verdict: approve | revise } }
  flow {
    writer -> reviewer
    reviewer -> writer [when reviewer.verdict == "revise", max 3]
  }
}
"""
LAID_OUT = """\
topology t : [pipeline] {
  agent a { model: m }
  agent b { model: m }

  flow {
    a -> b
  }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One server for all tests: what it imports takes a second. It says goodbye and has written nothing else."""
    client = Client(tmp_path_factory.mktemp("root"))
    try:
        client.hello(snippets=True)
        yield client
        assert client.leave() == (0, b"")
        assert client.complaints == b""
    finally:
        client.kill()


@pytest.fixture
def client(server: Client, tmp_path: Path) -> Client:
    """An editor that works in a folder of its own."""
    server.folder = tmp_path
    return server


def replaced(line: int, start: int, end: int, text: str) -> dict[str, object]:
    """A change within one line."""
    places = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    return {"range": places, "text": text}


def test_an_editor_is_served_from_hello_to_goodbye(client: Client) -> None:
    """Everything an editor asks for, over the real protocol."""
    assert client.server["serverInfo"]["name"] == "coterie"
    assert client.server["capabilities"]["textDocumentSync"]["change"] == 2
    assert client.open("team.at", TEAM)["diagnostics"] == []

    client.change("team.at", 2, replaced(4, 4, 10, "wrter"))
    (found,) = client.diagnostics(2)["diagnostics"][:1]
    assert (found["code"], found["severity"]) == ("unknown-agent", 1)
    assert found["range"] == {"start": {"line": 4, "character": 4}, "end": {"line": 4, "character": 9}}
    client.change("team.at", 3, replaced(4, 4, 9, "writer"))
    assert client.diagnostics(3)["diagnostics"] == []

    labels = [item["label"] for item in client.at("completion", "team.at", 5, 50)]
    assert labels[:2] == ["approve", "revise"]
    assert "opus" in client.at("hover", "team.at", 4, 16)["contents"]["value"]
    (place,) = client.at("definition", "team.at", 4, 16)
    assert place["range"]["start"] == {"line": 2, "character": 8}
    places = client.at("references", "team.at", 4, 16, context={"includeDeclaration": True})
    assert [place["range"]["start"]["line"] for place in places] == [2, 4, 5, 5]
    assert len(client.at("documentHighlight", "team.at", 4, 16)) == 4
    uri = client.uri("team.at")
    assert client.at("prepareRename", "team.at", 4, 16)["placeholder"] == "reviewer"
    assert len(client.at("rename", "team.at", 4, 16, newName="critic")["changes"][uri]) == 4
    with pytest.raises(Refused, match="'writer' is the name of another node"):
        client.at("rename", "team.at", 4, 16, newName="writer")

    document = {"textDocument": {"uri": uri}}
    (symbol,) = client.ask("textDocument/documentSymbol", **document)
    assert [child["name"] for child in symbol["children"]] == ["writer", "reviewer", "flow"]
    assert {"startLine": 0, "endLine": 6} in client.ask("textDocument/foldingRange", **document)
    client.tell("textDocument/didClose", **document)
    with pytest.raises(Refused, match="is not open"):
        client.ask("textDocument/documentSymbol", **document)


def test_a_refusal_is_an_answer_and_no_more(client: Client) -> None:
    """Nothing is said of it on the error stream, which an editor shows as a defect, or never reads (see `server`)."""
    client.open("team.at", TEAM)
    for _ in range(3):
        with pytest.raises(Refused, match="there is no name here"):
            client.at("rename", "team.at", 6, 0, newName="critic")


def test_a_fix_is_offered_where_the_mistake_stands(client: Client) -> None:
    """A diagnostic that knows its fix becomes a quick fix."""
    client.open("team.at", LAID_OUT.replace("->", "=>"))
    place = {"start": {"line": 5, "character": 7}, "end": {"line": 5, "character": 7}}
    about = {"uri": client.uri("team.at")}

    (action,) = client.ask("textDocument/codeAction", textDocument=about, range=place, context={"diagnostics": []})

    assert action["title"] == "Write '->'"
    (edit,) = action["edit"]["changes"][client.uri("team.at")]
    assert (edit["newText"], edit["range"]["start"]) == ("->", {"line": 5, "character": 6})


def test_the_layout_comes_as_one_small_edit(client: Client) -> None:
    """Only the lines that change are sent."""
    client.open("team.at", LAID_OUT.replace("a -> b", "a   ->b"))
    about = {"uri": client.uri("team.at")}

    (edit,) = client.ask("textDocument/formatting", textDocument=about, options={"tabSize": 2, "insertSpaces": True})

    assert edit["newText"] == "    a -> b\n"
    assert (edit["range"]["start"]["line"], edit["range"]["end"]["line"]) == (5, 6)


def test_what_is_typed_quickly_is_answered_once_it_rests(client: Client) -> None:
    """The answer is about the text after all changes; characters count as in UTF-16, two for an emoji."""
    client.open("team.at", TEAM)
    character, version = 0, 1
    for letter in "# 🙂é!":
        version += 1
        client.change("team.at", version, replaced(8, character, character, letter))
        character += len(letter.encode("utf-16-le")) // 2
    client.change(
        "team.at", version + 1, replaced(8, character, character, "\n}"), replaced(8, character - 1, character, "")
    )

    (found,) = client.diagnostics(version + 1)["diagnostics"]

    assert (found["code"], found["range"]["start"]) == ("text-behind-end", {"line": 9, "character": 0})


def test_what_is_saved_in_another_file_counts(client: Client, tmp_path: Path) -> None:
    """A part that lies in another file is read again when something is saved."""
    text = LAID_OUT.replace("  agent b { model: m }", '  include "part.at"')
    assert client.open("team.at", text)["diagnostics"] != []

    (tmp_path / "part.at").write_text("fragment part { agent b { model: m } }")
    client.tell("textDocument/didSave", textDocument={"uri": client.uri("part.at")})

    assert client.diagnostics(1)["diagnostics"] == []
    (place,) = client.at("definition", "team.at", 5, 9)
    assert place["uri"] == client.uri("part.at")
    assert place["range"]["start"] == {"line": 0, "character": 22}


def test_places_to_fill_in_are_for_editors_that_know_them(client: Client) -> None:
    """Snippets where the editor says that it has them, else plain words."""
    client.open("team.at", LAID_OUT)

    items = client.at("completion", "team.at", 3, 0)

    (agent,) = [item for item in items if item["label"] == "agent"]
    assert (agent["insertTextFormat"], agent["textEdit"]["newText"]) == (2, "agent ${1:name} {\n  $0\n}")


@pytest.mark.parametrize(("words", "status"), [(["shutdown", "exit"], 0), (["exit"], 1), ([], 1)])
def test_a_client_that_just_goes_away_ends_the_server(
    words: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a goodbye the exit status is 1."""
    said = [{"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}]
    said += [{"id": 2, "method": word} for word in words]
    (tmp_path / "said").write_bytes(b"".join(map(packed, said)))
    with (tmp_path / "said").open() as stdin, (tmp_path / "answers").open("w") as stdout:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", stdout)
        assert serve("1.0") == status
    assert b'"name": "coterie"' in (tmp_path / "answers").read_bytes()


SYSTEM = """\
supervision:
  name: root
  strategy: ONE_FOR_SOME
  children:
    - supervisor:
        name: inner
        children:
          - agent: {name: clerk, type: shop.Clerk}
"""


def test_an_editor_is_served_with_a_supervised_system(client: Client) -> None:
    """Diagnostics, the rule under the cursor and the tree; what YAML has other tools for is left to them."""
    (found,) = client.open("topology.yaml", SYSTEM)["diagnostics"]
    assert found["code"] == "bad-strategy"
    assert found["range"]["start"] == {"line": 2, "character": 12}
    assert "bad-strategy" in client.at("hover", "topology.yaml", 2, 14)["contents"]["value"]

    document = {"textDocument": {"uri": client.uri("topology.yaml")}}
    (root,) = client.ask("textDocument/documentSymbol", **document)
    (inner,) = root["children"]
    assert (inner["name"], [child["name"] for child in inner["children"]]) == ("inner", ["clerk"])
    for question in ("completion", "definition"):
        assert client.at(question, "topology.yaml", 7, 22) == []
    assert client.ask("textDocument/formatting", **document, options={"tabSize": 2, "insertSpaces": True}) == []
