"""What programs rely on: documents with `--json`, exit statuses, and `-` for standard input."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from bundles import bundle
from command_line import Place, make

from coterie.interfaces.cli.app import main

WRONG = """
topology wrong : [pipeline] {
  agent a { model: small prompt: "x" colour: red }
  flow { a -> nobody }
}
"""
READERS = [["run"], ["simulate"], *(["topology", one] for one in ("validate", "show", "check", "graph"))]
COMMANDS = [
    ["run", "wrong.at"],
    ["run", "wrong.at", "--rehearse"],
    ["simulate", "wrong.at"],
    ["topology", "validate", "wrong.at"],
    ["topology", "check", "wrong.at"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_wrong_file_is_one_document_with_json(place: Place, words: list[str]) -> None:
    """Of one form, on standard output, whatever the command; and it is not printed a second time."""
    (place.folder / "wrong.at").write_text(WRONG)
    said = place.look(*words, "--json", status=1)
    [line] = said.out.splitlines()
    found = json.loads(line)

    assert said.err == ""
    assert (found["file"], found["valid"]) == ("wrong.at", False)
    assert found["diagnostics"][0]["line"] is not None


def test_a_team_that_cannot_be_read_is_a_document_wherever_it_is_shown(place: Place) -> None:
    """`show`, `diff` and `graph` have their own form of it where it can be read."""
    (place.folder / "empty.at").write_text("nothing")
    for words in (
        ["show", "empty.at", "--json"],
        ["diff", "empty.at", "loop.at", "--json"],
        ["graph", "empty.at", "--format", "json"],
    ):
        said = place.look("topology", *words, status=2 if words[0] == "diff" else 1)
        assert json.loads(said.out)["valid"] is False
        assert said.err == ""


@pytest.mark.parametrize(
    "words", [["run"], ["simulate"], *(["topology", one] for one in ("validate", "show", "check", "graph", "fmt"))]
)
def test_a_file_that_does_not_exist_is_status_2_everywhere(place: Place, words: list[str]) -> None:
    """As any other argument that cannot be meant; 1 says that the file is wrong."""
    place.look(*words, "nowhere.at", status=2)


BAD = {
    "missing.at": None,
    "empty.at": b"",
    "binary.at": bytes(range(256)),
    "folder": None,
    "syntax.at": b"topology t : [pipeline] {\n flow { a -> \n",
    "notation.yaml": b"topology t : [pipeline] { }\n",
    "text.txt": b"hello",
}
"""Targets that are no team, by name; `folder` is one, and the first does not exist."""


GIVEN = ("run T", "run T --rehearse", "simulate T", *(f"topology {c} T" for c in ("validate", "check", "show", "diff")))
READABLE = {"topology show T": {"name": "t"}, "topology diff T": {"kind": "changed", "what": "topology"}}
"""What is shown of the part of `syntax.at` that can be read: some of it, or of its first entry."""


@bundle(("words", "target"), [(words, target) for words in GIVEN for target in BAD])
def test_every_bad_target_is_one_document_with_json(tmp_path: Path, words: str, target: str) -> None:
    """Nothing else is on standard output, the error is not printed again, and the status is that without --json."""
    place = make(tmp_path)
    if (content := BAD[target]) is not None:
        (place.folder / target).write_bytes(content)
    (place.folder / "folder").mkdir()
    given = [target if word == "T" else word for word in words.split()] + ["loop.at"] * words.endswith("diff T")
    statuses = []
    for more in ([], ["--json"]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(place.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            statuses.append(main([*given, *more]))
    found = json.loads(out.getvalue())

    assert statuses[0] == statuses[1]
    assert statuses[0] in (1, 2)
    if target == "syntax.at" and words in READABLE:  # what is wrong is beside it
        assert "syntax.at:2:7: error[unclosed-block]" in err.getvalue()
        assert READABLE[words].items() <= (found[0] if isinstance(found, list) else found).items()
        return
    assert err.getvalue() == ""
    if "error" in found:
        assert target in found["error"]
        assert found["exit"] == statuses[0]
    else:
        assert (found["file"], found["valid"]) == (target, False)
        assert [one["severity"] for one in found["diagnostics"]].count("error") > 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--nope", "loop.at"],
        ["runs", "--limit", "x"],
        ["stats", "--by", "zz"],
        ["control", "respond"],
        ["topology", "nope"],
        ["nope"],
    ],
)
def test_wrong_options_are_one_document_with_json(place: Place, words: list[str]) -> None:
    """A program that reads standard output does not have to read usage text on standard error as well."""
    found = json.loads((said := place.look(*words, "--json", status=2)).out)

    assert found["exit"] == 2
    assert found["error"]
    assert "coterie" in place.look(*words, status=2).err
    assert said.err == ""


def test_a_system_error_is_one_document_with_json(place: Place) -> None:
    """So is a folder where nothing can be written."""
    (place.folder / "file").write_text("")

    found = json.loads(place.look("init", "file/team", "--json", status=1).out)
    assert found == {"error": "file/team: Not a directory", "exit": 1}


def test_memory_and_tasks_are_listed_as_documents(place: Place) -> None:
    """With their ids, by which they are removed."""
    place.look("memory", "add", "learning", "Tests are slow")
    place.look("task", "add", "Speed up the tests")

    [entry] = json.loads(place.look("memory", "list", "--json").out)
    [task] = json.loads(place.look("task", "list", "--json").out)
    assert (entry["text"], task["text"]) == ("Tests are slow", "Speed up the tests")
    assert json.loads(place.look("memory", "find", "slow", "--json").out) == [entry]
    assert json.loads(place.look("memory", "find", "fast", "--json", status=1).out) == []
    place.look("task", "remove", task["id"])


@pytest.mark.parametrize("words", [["-"], ["--input-file", "-"]])
def test_a_dash_is_the_prompt_on_standard_input(
    place: Place, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the output of another program can be the prompt."""
    monkeypatch.setattr("sys.stdin", io.StringIO("Fix the parser\nand its tests"))
    place.look("run", "loop.at", *words, "--rehearse")
    monkeypatch.setattr("sys.stdin", io.StringIO("Fix the parser\nand its tests"))
    place.look("run", "loop.at", *words)

    assert "Fix the parser and its tests" in place.look("runs").out


@pytest.mark.parametrize("words", [["--project", "nowhere"], ["--preset", "autocod"]])
def test_settings_of_what_does_not_exist_are_not_shown(place: Place, words: list[str]) -> None:
    """The defaults would look as if they were its own."""
    said = place.look("config", "show", *words, status=1)

    assert said.out == ""
    assert f"'{words[1]}'" in said.err


@pytest.mark.parametrize("words", [[], ["run"], ["topology"], ["topology", "check"], ["runs"]])
def test_h_is_help(words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As in most programs."""
    from coterie.interfaces.cli.app import main

    assert main([*words, "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: coterie")


def test_here_in_the_arguments_of_a_loop_is_its_folder(place: Place) -> None:
    """So a loop can bring its own program along and be started from anywhere."""
    folder = place.folder / "loop"
    folder.mkdir()
    (folder / "autoloops.toml").write_text(
        'backend.kind = "command"\nbackend.command = "sh"\nbackend.args = ["{here}/agent.sh"]\n'
        'event_loop.completion_promise = "DONE"\n'
    )
    (folder / "agent.sh").write_text("echo DONE\n")
    place.call("run", "loop", "Go")
