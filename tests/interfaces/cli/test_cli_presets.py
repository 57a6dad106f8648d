"""`coterie presets`, `init --preset`, presets as targets, and `mock-backend` in a run."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from command_line import Place

from coterie.team.options.backends import CODING
from coterie.team.planning import presets

pytestmark = pytest.mark.once


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
        (("autofx",), "unknown preset 'autofx'; did you mean 'autofix'?"),
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


CLAUDE = """#!/bin/sh
echo "$1 $2" >> claude.log
[ -n "$AUTOLOOP_REVIEW_MODE" ] || autoloops emit "$(sed -n "${AUTOLOOP_ITERATION}p" events.txt)"
"""
"""Stands for Claude Code: emits the event in the line of its iteration."""

every_preset = pytest.mark.parametrize("name", presets.names())
some_presets = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if n % 4 == 0 else pytest.mark.long) for n, name in enumerate(presets.names())]
)
"""For what starts a process for each turn: the others are marked `long`."""


@pytest.fixture
def without_claude(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, in which `claude` may be installed; the library that brings one is not."""
    monkeypatch.setitem(CODING, "claude-sdk", msgspec.structs.replace(CODING["claude-sdk"], library="no_such_library"))
    folder = place.folder / "bin"
    folder.mkdir()
    for program in ("sh", "sed", "git", "env"):
        (folder / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install_claude(place: Place, folder: Path, name: str) -> None:
    """Install a program that does what a rehearsal of the preset says."""
    (folder / "claude").write_text(CLAUDE)
    (folder / "claude").chmod(0o755)
    document = json.loads(place.look("run", name, "--rehearse", "--json").out)
    events = [event for turn in document["turns"] for event in turn["emitted"]]
    (place.folder / "events.txt").write_text("\n".join(events) + "\n")


def options_of(said: str) -> list[str]:
    """The options that the hint in the last line tells to add."""
    found = re.search(r"(?:add|use|backend:) (--rehearse|-b \w+|--set [\w.]+=\w+)", said.splitlines()[-1])
    assert found is not None, said
    return found[1].split()


def steps_of(said: str) -> Iterator[list[str]]:
    """The commands that the output names next."""
    for line in said.partition("next:\n")[2].splitlines():
        yield shlex.split(line, comments=True)


@every_preset
def test_the_hint_without_an_agent_program_works(name: str, place: Place, without_claude: Path) -> None:
    """A preset whose backend is not supported names an option with which the same command succeeds."""
    for backend in ((), ("-b", "claude"), ("-b", "pi"), ("-b", "kiro")):
        said = place.look("run", name, "Mend it", *backend, status=1).err
        assert re.search("are not supported yet|was not found|is not installed", said)
        assert "completed" in place.look("run", name, "Mend it", *backend, *options_of(said)).out
    shown = place.look("presets", "show", name).out.splitlines()[-1]
    assert "completed" in place.look(*shlex.split(shown.partition(": coterie ")[2])).out


@some_presets
def test_the_hint_with_claude_installed_works(name: str, place: Place, without_claude: Path) -> None:
    """It starts `claude` as a program for each turn."""
    install_claude(place, without_claude, name)
    said = place.look("run", name, "Mend it", status=1).err

    assert options_of(said) == ["-b", "command"]
    assert "completed (completion_event)" in place.call("run", name, "Mend it", *options_of(said)).err
    assert set((place.folder / "claude.log").read_text().splitlines()) == {"-p --dangerously-skip-permissions"}


@every_preset
def test_the_hints_for_a_model_work(
    name: str, place: Place, without_claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One missing model is one error; the next names the key, and a way to do without."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    words = ["run", name, "Mend it", "-b", "model"]
    said = place.look(*words, status=2).err
    assert said.count("no model is configured") == 1
    said = place.look(*words, *options_of(said), status=1).err
    assert "export ANTHROPIC_API_KEY=" in said
    assert said.endswith("--rehearse\n")
    assert "completed" in place.look(*words, "--set", "backend.model=sonnet", "--rehearse").out


@pytest.mark.extras("acp")
def test_the_hint_for_a_protocol_without_a_command_works(place: Place, without_claude: Path) -> None:
    """The form it shows is accepted; a program that is not there is named, with what to do without it."""
    said = place.look("run", "autofix", "Mend it", "-b", "acp", status=2).err
    assert "; use -b acp:NAME:COMMAND" in said
    said = place.look("run", "autofix", "Mend it", "-b", "acp:house:agent", status=1).err
    assert "the program 'agent' of the backend acp was not found" in said
    assert options_of(said) == ["--rehearse"]


@some_presets
@pytest.mark.parametrize("installed", [False, True])
def test_the_next_steps_after_a_copy_work(name: str, installed: bool, place: Place, without_claude: Path) -> None:
    """Each as it is printed, whether `claude` is installed or not."""
    if installed:
        install_claude(place, without_claude, name)
    steps = list(steps_of(place.look("init", "--preset", name, f"my loops/{name}").out))

    assert len(steps) == 3
    for program, *words in steps:
        assert program == "coterie"
        place.call(*words)
    assert (place.folder / "claude.log").exists() == installed


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
    said = place.call("run", "autofix", "Mend it", *options).err

    assert "bug.closed, which was not allowed" in said
    assert "review#1 answered “all is well”" in said
    assert "iteration#3 failed for good (exit)" in said
    assert "completed (completion_event): 6 turns" in said
    assert "$0.25, 100 tokens in, 7 out" in said
    assert (place.folder / "out" / "fixed.txt").read_text() == "yes"


def test_what_a_mock_backend_is_asked_does_not_matter(place: Place) -> None:
    """Not even a prompt that looks like an option."""
    (place.folder / "script.json").write_text('{"output": "here\\n", "exit_code": 5}')
    assert place.look("mock-backend", "script.json", "--help me", status=5).out == "here\n"
    assert place.look("mock-backend", "script.json", status=5).out == "here\n"
    assert "cannot be read" in place.look("mock-backend", "none.json", status=2).err
    assert "Act as an agent" in place.look("mock-backend", "--help").out


@every_preset
def test_a_preset_names_what_it_needs(name: str, place: Place) -> None:
    """What its agents do, in words and as data."""
    needs = json.loads(place.look("presets", "show", name, "--json").out)["needs"]

    assert "run programs" in needs
    assert f"needs an agent that can: {needs}\n" in place.look("presets", "show", name).out


def test_the_next_step_after_a_copy_is_a_run_with_its_own_backend(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the library is installed, which brings the program."""
    monkeypatch.setitem(CODING, "claude-sdk", msgspec.structs.replace(CODING["claude-sdk"], library="json"))

    assert '\n  coterie run autofix "What to do"\n' in place.look("init", "--preset", "autofix").out
