import importlib.metadata
import inspect
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import coterie
from coterie.base.diagnostics import Span, error
from coterie.errors import CoterieError, NoSuchRun, TopologyError, UsageError
from coterie.interfaces.cli import app, named_command, output, topology
from coterie.interfaces.cli.commands import COMMANDS, GROUPS, load
from coterie.interfaces.cli.named_command import find_command
from coterie.interfaces.cli.overview import overview
from coterie.interfaces.cli.parameters import Command

ROOT = Path(__file__).parents[3]
COTERIE = [sys.executable, "-m", "coterie"]


def raising(exception: BaseException) -> Command:
    """A command that ends in *exception*."""

    def fail() -> int:
        """Fail."""
        raise exception

    return fail


@pytest.mark.parametrize(
    ("exception", "status", "message"),
    [
        (CoterieError("it broke"), 1, "coterie: it broke\n"),
        (NoSuchRun("x"), 1, "coterie: there is no run 'x'; `coterie runs --all` lists them\n"),
        (UsageError("not so"), 2, "coterie: not so\n"),
        (TopologyError([error("bad", "it is bad", Span(1, 1, 3))], "abc"), 1, "1:1: error[bad]: it is bad\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "coterie: /x: Permission denied\n"),
        (ZeroDivisionError("oops"), 1, "coterie: this is a bug in coterie: ZeroDivisionError: oops; please report"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_exception_becomes_one_message_and_a_status(
    exception: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No traceback reaches a user, whatever a command raises; errors go to standard error."""
    monkeypatch.setattr(named_command, "load", lambda place: raising(exception))
    monkeypatch.setattr(named_command, "COMMANDS", {"fail": ("fail.fail", "Fail.")})

    assert app.main(["fail"]) == status
    told = capsys.readouterr()
    assert told.err.startswith(message)
    assert "Traceback" not in told.err
    assert told.out == ""


def test_a_defect_shows_its_traceback_when_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """COTERIE_DEBUG is for whoever mends it."""
    monkeypatch.setattr(named_command, "load", lambda place: raising(ZeroDivisionError("oops")))
    monkeypatch.setattr(named_command, "COMMANDS", {"fail": ("fail.fail", "Fail.")})
    monkeypatch.setenv("COTERIE_DEBUG", "1")

    assert app.main(["fail"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["fly"],
        ["run"],
        ["run", "a.at", "--max-turns", "many"],
        ["run", "a.at", "--max-parallel", "0"],
        ["topology", "validate"],
        ["inspect", "last", "fly"],
        ["inspect", "last", "usage", "a#1"],
        ["run", "nowhere.at"],
        ["run", "topology.yaml"],
        ["run", "nowhere.at", "--input", "x"],
        ["control", "respond", "last", "a#1", "yes", "please"],
        ["resume", "last", "-b", "command"],
    ],
)
def test_a_call_that_cannot_work_is_status_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what is wrong on standard error, and nothing on standard output."""
    monkeypatch.chdir(tmp_path)

    assert app.main(words) == 2
    told = capsys.readouterr()
    assert told.err
    assert told.out == ""


def test_a_target_that_does_not_run_today_is_told_what_does(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage error names the value and what can be given instead."""
    assert app.main(["run", "team.toml"]) == 2

    assert "'team.toml' cannot be run: TARGET is an .at or .yaml file" in capsys.readouterr().err
    assert app.main(["run", "team.py"]) == 2
    assert "name the program in it, team.py:NAME" in capsys.readouterr().err
    assert app.main(["run", "my.module:team"]) == 1
    assert "my.module:team: error[no-program]: my.module cannot be imported" in capsys.readouterr().err


def test_every_command_says_what_it_does() -> None:
    """Each has a help text that begins with a sentence."""
    places = [place for place, _ in COMMANDS.values() if place]
    places += [place for group in GROUPS.values() for place in group.values()]

    assert all((load(place).__doc__ or "").split("\n")[0].endswith(".") for place in places)
    names = """run resume fork replay simulate runs inspect logs emit init presets mock-backend doctor completion
               cluster watch attention stats submit serve zmq-proxy topology control memory task worktree state
               config explain validate check graph fmt diff ui recover chat threads thread"""
    assert COMMANDS.keys() == set(names.split())
    assert all(GROUPS[name] for name, (place, _) in COMMANDS.items() if not place)


def test_the_overview_says_of_each_command_what_its_help_says() -> None:
    """The text is prepared, so that `--help` imports no command; each line is the beginning of the command's help."""
    for name, (place, about) in COMMANDS.items():
        text = " ".join(str(inspect.getdoc(load(place))).split()) if place else about
        assert text.startswith(about.rstrip(".")), name
        assert f"\n  {name:13} {about.rstrip('.')}\n" in overview()
    assert max(map(len, overview().splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["run", "a.at"], ["run.run"]),
        (["topology", "check"], ["check.check"]),
        (["runs", "--json"], ["runs.list_"]),
        (["runs", "rm", "a"], ["runs.rm"]),
        (["topology", "--json"], []),
        (["rnu"], []),
        (["--help"], []),
    ],
)
def test_only_the_command_that_is_called_is_loaded(
    words: list[str], loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group without a command of its own loads none, and neither does a mistyped name."""
    seen = list[str]()
    monkeypatch.setattr(named_command, "load", lambda place: (seen.append(place), load(place))[1])
    find_command(words)

    assert seen == loaded


@pytest.mark.parametrize("words", [["--version"], ["--version", "--help"], ["topology", "--help"], ["run", "--help"]])
def test_help_and_version_succeed(words: list[str]) -> None:
    """Asked for help, a command gives it on standard output with status 0."""
    done = subprocess.run([*COTERIE, *words], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


HELP = [[], *([name] for name in COMMANDS), *([group, name] for group in GROUPS for name in GROUPS[group])]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_fits_80_columns_and_is_complete(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line is longer, none is cut short, and `-h` says the same as `--help`."""
    monkeypatch.setenv("COLUMNS", "80")
    assert app.main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert app.main([*words, "-h"]) == 0

    assert capsys.readouterr().out == shown
    assert [line for line in shown.splitlines() if len(line) > 80 or line.endswith("-")] == []
    monkeypatch.setenv("COLUMNS", "200")
    assert app.main([*words, "-h"]) == 0
    assert capsys.readouterr().out == shown
    assert [line for line in shown.splitlines()[1:] if line.endswith(("...", "…"))] == []


def test_no_command_at_all_is_an_error_with_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, so that a script notices."""
    assert app.main([]) == 2
    assert capsys.readouterr() == ("", overview())


def test_there_is_one_version() -> None:
    """What the command says is what the package is called, here and where it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    done = subprocess.run([*COTERIE, "--version"], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == f"coterie {coterie.__version__}\n"
    assert "version" in project.get("dynamic", []) or project["version"] == coterie.__version__
    assert importlib.metadata.version("coterie") == coterie.__version__


def test_a_reader_that_goes_away_does_not_disturb_a_command() -> None:
    """The pipe is closed before the first line: no complaint, and the status that the command has anyway."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([*COTERIE, "runs"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    _, complaint = process.communicate(timeout=60)

    assert (process.returncode, complaint) == (0, "")


def test_a_command_without_standard_output_works(tmp_path: Path) -> None:
    """Closed by the caller, as in `coterie runs >&-`."""
    done = subprocess.run(
        ["bash", "-c", 'exec "$0" -m coterie runs >&-', sys.executable], stderr=subprocess.PIPE, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_of_a_command_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """Else a program that it starts, or Python when it aborts, would print into a journal or a socket."""
    opened = "print([os.fstat(n).st_rdev for n in range(3)], file=open('x', 'w'))"
    opened = f"import os, coterie.__main__ as m\nm.main()\n{opened}"
    line = 'exec "$0" -c "$1" --version <&- >&- 2>&-'
    subprocess.run(["bash", "-c", line, sys.executable, opened], cwd=tmp_path, check=True, timeout=60)

    assert (tmp_path / "x").read_text() == f"{[os.stat(os.devnull).st_rdev] * 3}\n"


def test_a_character_that_cannot_be_shown_is_escaped(tmp_path: Path) -> None:
    """A terminal without Unicode gets an escape, not an error."""
    done = subprocess.run(
        [*COTERIE, "topology", "validate", str(tmp_path / "Café.at")],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=60,
    )

    assert done.returncode == 2
    assert b"Caf\\xe9.at" in done.stdout
    assert b"Traceback" not in done.stderr


def test_an_agents_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """They are shown as what they are; line ends and tabs stay."""
    output.say("red \x1b[31m, bell \a, C1 \x9b\n\tindented")

    assert capsys.readouterr().out == "red \\x1b[31m, bell \\x07, C1 \\x9b\n\tindented\n"


def test_json_is_one_line_of_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Text stays readable, paths are texts, and a line break inside a value does not break the line."""
    output.say_json({"text": "é\n", "path": Path("a/b")})

    assert capsys.readouterr().out == '{"text":"é\\n","path":"a/b"}\n'


def test_a_command_is_a_plain_function_that_returns_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    """It can be called without a command line."""
    assert topology.validate([ROOT / "examples" / "code-review.at"]) == 0
    assert capsys.readouterr().out.endswith("code-review.at: ok\n")
