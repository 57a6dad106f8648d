"""`coterie presets`, `init --preset`, presets as targets, and `mock-backend` in a run."""

import json
from pathlib import Path

import pytest
from command_line import Place

from coterie.planning import presets


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_presets_are_listed(place: Place) -> None:
    said = place.look("presets").out
    assert "autofix\n  A bug is reproduced" in said
    assert "  roles: diagnoser, fixer, verifier, closer\n  required: fix.verified\n" in said

    found = json.loads(place.look("presets", "--json").out)
    assert [one["name"] for one in found] == list(presets.names())
    assert found[0]["required"] == ["review.passed"]


def test_a_preset_is_shown(place: Place) -> None:
    said = place.look("presets", "show", "autofix").out
    assert "fixer  You are the fixer: " in said
    assert "  fix.blocked -> diagnoser\n" in said
    assert "  task.complete -> the end\n" in said
    assert f"files: {presets.find('autofix')}" in said
    assert json.loads(place.look("presets", "show", "autofix", "--json").out)["first"] == ["diagnoser"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "write `coterie presets`, or `coterie presets show NAME`"),
        (("autofix",), "write `coterie presets`"),
        (("show", "autofx"), "unknown preset 'autofx'; did you mean 'autofix'?"),
    ],
)
def test_what_names_no_preset_is_told(words: tuple[str, ...], message: str, place: Place) -> None:
    assert message in place.look("presets", *words, status=2).err


def test_a_copy_of_a_preset_is_a_loop_of_its_own(place: Place) -> None:
    """It has every file, is valid, and rehearses; what is there is not overwritten."""
    said = place.look("init", "--preset", "autodoc").out
    copied = {path.relative_to(place.folder / "autodoc").as_posix() for path in place.folder.rglob("*.*")}
    assert copied == set(presets.texts("autodoc"))
    assert "  coterie run autodoc --rehearse\n" in said
    assert "autodoc: ok" in place.look("topology", "validate", "autodoc").out

    again = place.look("init", "autodoc", "--preset", "autodoc", status=2).err
    assert "nothing was created" in again
    other = json.loads(place.look("init", "loops/docs", "--preset", "autodoc", "--json").out)
    assert other == {"folder": "loops/docs", "name": "docs", "files": list(presets.texts("autodoc"))}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--preset", "autodog"), "did you mean 'autodoc'?"),
        (("--preset", "autodoc", "--name", "docs"), "omit --name"),
    ],
)
def test_what_cannot_be_copied_is_told(words: tuple[str, ...], message: str, place: Place) -> None:
    assert message in place.look("init", *words, status=2).err
    assert list(place.folder.iterdir()) == []


def test_a_preset_is_run_by_its_name_and_a_folder_goes_before(place: Place) -> None:
    """A folder of that name which is no loop does not hide it."""
    (place.folder / "autofix").mkdir()
    assert "diagnoser#1" in place.look("run", "autofix", "--rehearse").out
    assert "did you mean 'autofix'?" in place.look("run", "autofx", "--rehearse", status=2).err

    (place.folder / "autofix" / "topology.toml").write_text(
        'completion = "done"\n[[role]]\nid = "mine"\nemits = ["done"]\nprompt = "Do it."\n'
    )
    assert "mine#1" in place.look("run", "autofix", "--rehearse").out


SCRIPT = {
    "iterations": [
        {
            "events": [{"topic": "cause.found", "payload": "- it begins with a dash"}],
            "usage": {"input_tokens": 100, "output_tokens": 7, "cost_usd": 0.25},
            "output": "found",
        },
        {"events": [{"topic": "bug.closed"}, {"topic": "fix.applied"}], "files": {"out/fixed.txt": "yes"}},
        {"exit_code": 3},
        {"events": [{"topic": "fix.verified"}]},
        {"events": [{"topic": "task.complete"}], "output": "done"},
    ],
    "reviews": [{"output": "all is well"}],
}


def test_a_mock_backend_takes_a_preset_to_its_end(place: Place) -> None:
    """Answers, events accepted and rejected, a failure, files, a review and usage: all as the script says."""
    (place.folder / "script.json").write_text(json.dumps(SCRIPT))
    backend = (
        "backend.kind=command",
        "backend.command=coterie",
        f"backend.args=mock-backend,{place.folder}/script.json",
    )
    options = [word for setting in backend for word in ("--set", setting)]
    said = place.call("run", "autofix", "Mend it", *options).out

    assert "bug.closed, which was not allowed" in said
    assert "review#1 answered “all is well”" in said
    assert "iteration#3 failed for good (exit)" in said
    assert "completed (completion_event): 6 turns" in said
    assert "$0.2500, 100 tokens in, 7 out" in said
    assert (place.folder / "out" / "fixed.txt").read_text() == "yes"


def test_what_a_mock_backend_is_asked_does_not_matter(place: Place) -> None:
    """Not even a prompt that looks like an option."""
    (place.folder / "script.json").write_text('{"output": "here\\n", "exit_code": 5}')
    assert place.look("mock-backend", "script.json", "--help me", status=5).out == "here\n"
    assert place.look("mock-backend", "script.json", status=5).out == "here\n"
    assert "cannot be read" in place.look("mock-backend", "none.json", status=2).err
    assert "Act as an agent" in place.look("mock-backend", "--help").out
