"""Topologies of several files: what they say together, and the exact words about what is wrong with them.

Each case is a folder with a `main.at`. To see what changed after a change of the reader, run
`python tests/team/formats/test_formats_compose.py`: it writes the expected files anew, for reading them in a diff.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from at_texts import check_place
from bundles import bundle
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from test_formats_files import _said

from coterie.team.formats import files, imports, read, read_text
from coterie.team.planning import examine
from coterie.team.topology.composition import Included, located
from coterie.team.topology.model import Agent

DATA = Path(__file__).parents[2] / "data" / "at" / "composing"
VALID = sorted((DATA / "valid").glob("*/main.at"))
INVALID = sorted((DATA / "invalid").glob("*/main.at"))

ENTRIES = (
    'roles { writer: "You write." }',
    "agent start { model: haiku }",
    'agent writer { model: "${param.model}"  retry: "${param.rounds}" }',
    "agent critic { model: opus  outputs { verdict: revise | approve } }",
    'gates { gate one { after: writer  before: critic  run: "true" } }',
    'gates { gate two { after: critic  run: "true" } }',
    "flow { start -> writer -> critic }",
    'flow { critic -> writer [when critic.verdict == revise, max "${param.rounds}"] }',
    "flow { critic -> done }",
    "action done { kind: report }",
    'settings { allow: ["Read"] }',
    "params { rounds: number = 3 }",
    "params { model: string = sonnet }",
    "interface { entry: start, exit: done }",
)
"""What a topology may say, each in a block of its own."""


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.parent.name)
def test_files_together_say_what_is_expected(path: Path) -> None:
    """They give the topology beside them, and the warnings and notes listed there."""
    assert _together_said(path) == json.loads(path.with_suffix(".json").read_text())


@bundle(
    ("keyword", "entries"),
    [
        ("triggers", 'command NAME { pattern: "/NAME" }'),
        ("hooks", 'hook NAME { on: agent.end  run: "true" }'),
        ("env", "NAME: x"),
        ("mcp-servers", 'NAME { type: stdio  command: "x" }'),
        ("schedule", 'job NAME { every: "1h" }'),
        ("schemas", "NAME { a: text }"),
    ],
)
def test_blocks_with_named_entries_are_joined(keyword: str, entries: str, tmp_path: Path) -> None:
    """Each file of a team may have one."""
    one, two = (f"{keyword} {{ {entries.replace('NAME', name)} }}" for name in ("one", "two"))
    (tmp_path / "part.at").write_text(f"fragment part {{ {two} }}")
    head = "topology t : [pipeline] { agent a { model: m }  agent b { model: m }  flow { a -> b }"

    topology = read_text(f'{head}  include "part.at"  {one} }}', str(tmp_path / "t.at"), tmp_path).topology
    whole = read_text(f"{head}  {one[:-1]} {entries.replace('NAME', 'two')} }} }}").topology
    assert topology is not None
    assert whole is not None
    assert sorted(topology.block(keyword).fields) == sorted(whole.block(keyword).fields)
    assert {each.name for each in topology.block(keyword).entries} == {
        each.name for each in whole.block(keyword).entries
    }


@bundle("path", INVALID, ids=lambda path: path.parent.name)
def test_files_that_do_not_fit_together_are_told_exactly_why(path: Path) -> None:
    """Each fault is one diagnostic, in the file where it is."""
    assert _rendered(path) == path.with_suffix(".txt").read_text()
    assert read(path).has_errors


@settings(max_examples=40)
@given(st.permutations(range(len(ENTRIES))), st.lists(st.integers(0, 3), min_size=len(ENTRIES), max_size=len(ENTRIES)))
def test_fragments_say_together_what_one_file_says(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], places: list[int]
) -> None:
    """However a topology is split into files that include each other, it is the same, but for where things stand."""
    folder = tmp_path_factory.mktemp("split")
    split = _split([(ENTRIES[i], place) for i, place in zip(order, places, strict=True)])
    for name, text in split.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    parts = read(folder / "main.at")
    joined = read_text(_joined(split, "main.at"), folder=folder)
    assert sorted(each.message for each in parts.diagnostics) == sorted(each.message for each in joined.diagnostics)
    assert parts.topology is not None
    assert joined.topology is not None
    assert len(parts.topology.included) == len(split) - 1
    assert replace(parts.topology, file="") == joined.topology


def _split(entries: list[tuple[str, int]]) -> dict[str, str]:
    """The entries in four files, each in the one of its number; the second includes the third."""
    names = ("main.at", "one.at", "parts/two.at", "three.at")
    texts = {name: _together([text for text, place in entries if names[place] == name]) for name in names}
    texts["one.at"].insert(len(texts["one.at"]) // 2, 'include "parts/two.at"')
    texts["main.at"] = ['include "one.at"', *texts["main.at"], 'include "./three.at"']
    heads = ("topology t : [pipeline] {", "fragment f {")
    return {name: "\n  ".join([heads[name != "main.at"], *texts[name]]) + "\n}\n" for name in names}


def _joined(split: dict[str, str], name: str) -> str:
    """The text of a file with those it includes in it."""
    return "topology t : [pipeline] {\n" + "\n".join(_together(_flat(split, name))) + "\n}\n"


def _together(entries: list[str]) -> list[str]:
    """*entries* with the blocks of which there is one put together."""
    found: dict[str, str] = {}
    for entry in entries:
        keyword, _, body = entry.partition(" {")
        found[keyword] = found[keyword].removesuffix("}") + body if keyword in found else entry
    return list(found.values())


def _flat(split: dict[str, str], name: str) -> list[str]:
    flat = []
    for line in split[name].splitlines()[1:-1]:
        entry = line.strip()
        included = entry.removeprefix("include ").strip('"').removeprefix("./")
        flat += _flat(split, included) if entry.startswith("include ") else [entry]
    return flat


@given(st.sampled_from([*VALID, *INVALID]), st.data())
def test_a_mutated_text_gives_findings_and_nothing_else(path: Path, data: st.DataObject) -> None:
    """Whatever is cut out, put in or moved about, and its tree is still the whole text."""
    text = path.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        new = data.draw(st.sampled_from(["", "{", "}", '"', ":", "import ", "include ", "with ", "params {", " x "]))
        text = text[:start] + new + text[end:]

    source = read_text(text, str(path), path.parent)
    assert str(source.tree) == text
    assert source.topology is not None or source.has_errors
    _, found = examine(source)
    for each in found:
        check_place(each, text if each.file == str(path) else each.text)


def test_a_text_without_a_folder_names_no_files() -> None:
    """It is told where it does."""
    source = read_text(
        'topology t : [pipeline] {\n  include "a.at"\n  import "b.at" as b\n  flow { b -> b [max 2] }\n}'
    )

    assert [(each.code, each.span.line) for each in source.diagnostics if each.span] == [
        ("no-folder", 2),
        ("no-folder", 3),
    ]


def test_an_editors_text_counts_for_the_root_alone(tmp_path: Path) -> None:
    """What it includes is read from disk."""
    (tmp_path / "part.at").write_text("fragment part { agent b { model: m } }")
    (tmp_path / "main.at").write_text("saved long ago")
    text = 'topology t : [pipeline] { include "part.at"  agent a { model: m }  flow { a -> b } }'

    source = read_text(text, str(tmp_path / "main.at"), tmp_path)
    assert source.diagnostics == ()
    assert source.tree is not None
    assert str(source.tree) == text


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is included and imported, and with whichever values."""
    asked: list[str] = []
    real = files._read

    def counted(path: Path, most: int) -> bytes:
        asked.append(path.name)
        return real(path, most)

    monkeypatch.setattr(files, "_read", counted)
    (tmp_path / "part.at").write_text("fragment part { params { n: number = 1 }  agent x { model: m } }")
    (tmp_path / "inner.at").write_text(
        'topology inner : [pipeline] { include "part.at"  flow { x -> x [max "${param.n}"] } }'
    )
    (tmp_path / "main.at").write_text(
        'topology t : [pipeline] { import "inner.at" as a  import "inner.at" as b with { n: 2 }  include "part.at"\n'
        "flow { a -> b -> x } }"
    )

    assert read(tmp_path / "main.at").diagnostics == ()
    assert sorted(asked) == ["inner.at", "main.at", "part.at"]


def test_files_together_are_no_larger_than_one_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no chain of includes fills the memory."""
    monkeypatch.setattr(files, "MAX_BYTES", 200)
    (tmp_path / "part.at").write_text(f"fragment part {{ {'#' * 100}\n}}")
    (tmp_path / "main.at").write_text(
        'topology t : [pipeline] { include "part.at"  agent a { model: m }  flow { a -> a [max 2] } }'
    )

    [found] = read(tmp_path / "main.at").diagnostics
    assert found.code == "unreadable-file"
    assert "it and the files it includes are larger than" in found.message


def test_what_multiplies_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven files that each import the next ten times would be ten million topologies, or errors."""
    for i in range(7):
        uses = " ".join(f'import "f{i + 1}.at" as n{k}' for k in range(10))
        flow = " -> ".join(f"n{k}" for k in range(10))
        (tmp_path / f"f{i}.at").write_text(f"topology f{i} : [pipeline] {{ {uses}  flow {{ {flow} }} }}")
    (tmp_path / "f7.at").write_text("topology f7 : [pipeline] { agent a { model: m }  flow { a -> a [max 2] } }")

    assert read(tmp_path / "f0.at").diagnostics == ()
    monkeypatch.setattr(imports, "MAX_IMPORTS", 6)
    assert {each.code for each in read(tmp_path / "f0.at").diagnostics} == {"too-many-topologies"}
    (tmp_path / "f7.at").write_text("topology f7 : [pipeline] { agent a { }  flow { a -> a [max 2] } }")
    monkeypatch.undo()
    found = read(tmp_path / "f0.at").diagnostics
    assert {each.code for each in found} == {"no-model"}
    assert len(found) <= 10 * imports.MAX_REPORTED


def test_values_are_given_by_whoever_reads(tmp_path: Path) -> None:
    """A command line knows texts only; they count as what they read as."""
    text = (
        "topology t : [pipeline] {\n  params { n: number  tone: string = dry  b: boolean = false }\n"
        '  agent a { model: m  retry: "${param.n}"  prompt: "${param.tone} ${param.b}" }\n  flow { a -> a [max 2] }\n}'
    )
    path = tmp_path / "t.at"
    path.write_text(text)

    source = read(path, {"n": "4", "tone": 2.5, "b": "true"})
    assert source.diagnostics == ()
    assert source.topology is not None
    node = source.topology.node("a")
    assert isinstance(node, Agent)
    assert (node.retry, node.prompt) == (4, "2.5 true")
    wrong = read(path, {"n": "many", "b": 1, "tonne": "x"}).diagnostics
    assert [(each.code, each.message, each.hint) for each in wrong] == [
        ("bad-param", "the parameter 'n' of 't' is a number, not 'many'", ""),
        ("bad-param", "the parameter 'b' of 't' is a boolean, not 1", ""),
        ("unknown-param", "'t' has no parameter 'tonne'", "did you mean 'tone'?"),
    ]


@given(st.text())
def test_any_text_can_be_given(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    """It stands in a prompt as it is, whatever it holds."""
    head = "topology t : [pipeline] { params { x: string }  flow { a -> a [max 2] }"
    text = 'agent a { model: m  prompt: "<${param.x}>"  role: "${param.x}" } }'
    source = read_text(f"{head} {text}", params={"x": value})

    assert source.topology is not None
    node = source.topology.node("a")
    assert isinstance(node, Agent)
    assert node.prompt == f"<{value}>"


def test_a_finding_knows_its_file() -> None:
    """By its offset, which is counted on over all files; what knows its file already keeps it."""
    found = read_text("topology t : [pipeline] {\n  agent a { }\n}").diagnostics[0]
    included = (Included(file="one", start=10), Included(file="two", start=30, text="a\nb"))

    assert located(replace(found, file=""), included, "main").file == "two"
    assert located(replace(found, file=""), included[:1], "main").file == "one"
    assert located(replace(found, file=""), (), "main").file == "main"
    assert located(replace(found, file="own"), included, "main").file == "own"


def test_spans_of_included_files_lie_behind_those_of_the_root() -> None:
    """So one offset names one place, and no two nodes stand at the same."""
    source = read(DATA / "valid" / "include" / "main.at")

    assert source.topology is not None
    offsets = [node.span.offset for node in source.topology.nodes if node.span is not None]
    assert len(set(offsets)) == len(source.topology.nodes)
    starts = [part.start for part in source.topology.included]
    assert starts == sorted(starts)
    assert starts[0] == len(source.text) + 1


def _together_said(path: Path) -> Any:
    """What the files say, with their paths from the folder on."""
    return json.loads(json.dumps(_said(read(path)), ensure_ascii=False).replace(f"{path.parent}/", ""))


def _rendered(path: Path) -> str:
    source = read(path)
    rendered = "".join(diagnostic.render(source.text) for diagnostic in source.diagnostics)
    return rendered.replace(f"{path.parent}/", "").replace(repr(str(path.parent)), "FOLDER")


if __name__ == "__main__":
    for file in VALID:
        file.with_suffix(".json").write_text(json.dumps(_together_said(file), indent=1, ensure_ascii=False) + "\n")
    for file in INVALID:
        file.with_suffix(".txt").write_text(_rendered(file))
