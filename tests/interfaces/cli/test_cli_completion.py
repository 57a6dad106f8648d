"""What Tab offers: commands, options, runs, turns, agents; nothing where the shell knows better."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from audited import audited
from command_line import Place

from coterie.interfaces.cli import completion
from coterie.interfaces.cli.completion import SCRIPTS


def offered(place: Place, *words: str) -> list[str]:
    """The candidates for the last of *words*."""
    said = place.look("__complete", *words)
    assert said.err == ""
    return [line.split("\t")[0] for line in said.out.splitlines()]


@pytest.fixture
def ran(place: Place) -> Place:
    """A folder in which a run has ended."""
    place.call("run", "loop.at")
    return place


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["simu"], ["simulate"]),
        (["control", "re"], ["respond"]),
        (["run", "loop.at", "--max-"], ["--max-turns", "--max-cost", "--max-parallel", "--max-iterations"]),
        (["run", "x.at", "--backend", "sc"], ["scripted"]),
        (["run", "x.at", "--backend", "ki"], ["kiro"]),
        (["run", "x.at", "--backend", "scripted", "--js"], ["--json"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["inspect", "last", "u"], ["usage"]),
        (["inspect", "last", "f"], ["failure", "files"]),
        (["run", "x.at", "--log-format", ""], ["text", "json"]),
        (["runs", "--all", "--st"], ["--state-dir"]),
        (["runs", "p"], ["prune"]),
        (["runs", "rm", "a", "la"], ["last"]),
        (["completion", "bash", "-"], []),
        (["presets", "-"], ["--json"]),
        (["validate", "-"], ["--fix", "--import", "--json"]),
        (["graph", "a.at", "-"], ["--format", "--nested", "--output"]),
        (["--v"], ["--version"]),
        (["init", "--preset", "autoc"], ["autocode"]),
        (["presets", "s"], ["show"]),
        (["presets", "show", "autofi"], ["autofix"]),
        (["run", ""], []),
        (["run", "x.at", "--input-file", ""], []),
        (["no", "such", "command"], []),
        (["inspect", "ghost", "turn", ""], []),
    ],
)
def test_what_fits_is_offered(words: list[str], candidates: list[str], place: Place) -> None:
    """Where nothing is, files are for the shell, and what is wrong with the words is for later."""
    assert offered(place, *words) == candidates


def test_runs_turns_and_agents_are_offered(ran: Place) -> None:
    """As the journals know them."""
    last, run = offered(ran, "resume", "")
    assert last == "last"
    assert offered(ran, "inspect", run[:12]) == [run]
    assert offered(ran, "inspect", run, "turn", "reviewer") == ["reviewer#1", "reviewer#2"]
    assert offered(ran, "inspect", "last", "why", "p") == ["publisher#1"]
    assert offered(ran, "fork", "last", "--prompt", "w") == ["writer="]
    assert offered(ran, "fork", "last", "--prompt", "writer=x", "--model", "p") == ["publisher="]
    assert offered(ran, "fork", "last", "--set", "writer.e") == ["writer.env."]
    assert offered(ran, "fork", "last", "--set", "writer.ret") == ["writer.retry="]
    assert offered(ran, "resume", "--state-dir", "elsewhere", run) == [run]


def test_of_many_runs_only_the_newest_are_read(ran: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are offered; a status is read from the files of a run."""
    monkeypatch.setattr(completion, "_DESCRIBED", 0)
    monkeypatch.chdir(ran.folder)
    with audited() as calls:
        _, run = completion.candidates(["resume", ""])
    assert run.count("\t") == 1
    assert "completed" not in run
    assert [path for event, path in calls if event == "open" and path.endswith("journal.jsonl")] == []


def test_bash_completes_with_what_is_printed(ran: Place, tmp_path: Path) -> None:
    """The script is sourced; quotes and hashes in the words do no harm."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (tmp_path / "bin").mkdir()
    called = tmp_path / "bin" / "coterie"
    called.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coterie "$@"\n')
    called.chmod(0o755)
    (tmp_path / "script").write_text(ran.look("completion", "bash").out)
    program = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _coterie
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        [bash, "-c", program, "bash", str(tmp_path / "script"), "coterie", "inspect", "last", "turn", "reviewer#"],
        cwd=ran.folder,
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["reviewer#1", "reviewer#2"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_that_is_here_takes_its_script(shell: str, place: Place, tmp_path: Path) -> None:
    """It can be parsed."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    script = tmp_path / "script"
    script.write_text(place.look("completion", shell).out)
    subprocess.run([program, "-n", str(script)], check=True, timeout=60)


def test_a_shell_that_is_not_known_is_told(place: Place) -> None:
    """With those that are."""
    assert "did you mean 'zsh'?" in place.look("completion", "zhs", status=2).err
