"""`coterie init`: what it makes runs, is tested, and overwrites nothing."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from bundles import bundle
from command_line import Place

from coterie.interfaces.cli.init import FILES, KINDS, SYSTEM
from coterie.team.formats import read


def made(folder: Path) -> set[str]:
    """Every file below *folder*."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_made_runs(tmp_path: Path) -> None:
    """It is valid, rehearses, and writes its note."""
    Place(tmp_path).look("init", "notes")
    project = Place(tmp_path / "notes")

    assert made(project.folder) == set(FILES)
    assert "team.at: ok" in project.look("topology", "validate", "team.at").out
    assert "completed: 5 turns" in project.call("run", "team.at", "Why we drink tea").err
    assert (project.folder / "note.md").read_text().startswith("# Why we drink tea\n")
    assert "completed (rehearsed" in project.look("run", "team.at", "--rehearse").out


@pytest.mark.slow
def test_the_next_steps_work_and_the_test_of_what_is_made_passes(tmp_path: Path) -> None:
    """By the commands that are printed next, with pytest and, as after README's first line, without."""
    home = Place(tmp_path)
    said = home.look("init", "notes")
    enter, *steps = [line.split() for line in said.out.partition("next:\n")[2].splitlines()]
    assert enter == ["cd", "notes"]
    hidden = tmp_path / "pytest.py"
    hidden.write_text("raise ImportError('it is not installed')")
    for program, *words in steps:
        module = ["-m", "coterie"] if program == "coterie" else []
        done = subprocess.run(
            [sys.executable, *module, *shlex.split(" ".join(words))],
            cwd=tmp_path / "notes",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr
    hidden.unlink()

    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path / "notes",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].files not in (FILES, SYSTEM)])
def test_each_kind_is_valid_runs_at_once_and_passes_its_test(tmp_path: Path, kind: str) -> None:
    """By the commands that are printed next."""
    home = Place(tmp_path)
    said = home.look("init", "notes", "--kind", kind)
    assert f"created the {kind} notes in notes:" in said.out
    assert made(tmp_path / "notes") == set(KINDS[kind].files)
    project = Place(tmp_path / "notes")
    assert project.call("topology", "validate", KINDS[kind].target).out.endswith(": ok\n")
    for line in said.out.partition("next:\n")[2].splitlines()[1:]:
        program, *words = shlex.split(line)
        module = ["-m", "coterie"] if program == "coterie" else []
        done = subprocess.run(
            [sys.executable, *module, *words], cwd=project.folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_a_system_runs_at_once_and_its_test_passes(tmp_path: Path) -> None:
    """By the commands that are printed; the project imports nothing but coterie."""
    home = Place(tmp_path)
    said = home.call("init", "hotel", "--kind", "system")
    assert made(tmp_path / "hotel") == set(SYSTEM)
    assert "  coterie run -t topology.yaml Ada\n" in said.out
    project = Place(tmp_path / "hotel")

    assert "✔ Valid  2 agents · 1 supervisor · in_process" in project.call("topology", "validate", "topology.yaml").out
    answered = project.call("run", "-t", "topology.yaml", "Ada")
    assert answered.out == "Hello, Ada! You are guest number 1.\n"
    tested = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "tests"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert tested.returncode == 0, tested.stderr
    assert "Ran 2 tests" in tested.stderr
    assert "there is no kind 'robot' of project" in home.look("init", "x", "--kind", "robot", status=2).err


def test_what_git_shall_not_see_is_named(tmp_path: Path) -> None:
    """A run leaves nothing behind that would be committed."""
    home = Place(tmp_path)
    home.look("init", ".", "--name", "notes")

    assert ".coterie/" in (tmp_path / ".gitignore").read_text().splitlines()


@bundle(
    ("folder", "name", "team"),
    [
        ("notes", None, "notes"),
        ("my notes 2", None, "my-notes-2"),
        ("2025", None, "team"),
        ("ünï cödé", None, "uni-code"),
        ("nai\u0308ve", None, "naive"),
        ("ﬁne", None, "fine"),
        ("команда", None, "team"),
        ("команда x", None, "team"),
        ("日本", None, "team"),
        ("deep/er", None, "er"),
        ("notes", "other_team", "other_team"),
    ],
)
def test_the_team_is_called_as_the_folder_is(folder: str, name: str | None, team: str, tmp_path: Path) -> None:
    """As far as a file can write it; `--name` says otherwise."""
    words = ["init", folder, "--json", *(["--name", name] if name is not None else [])]
    document = json.loads(Place(tmp_path).look(*words).out)

    assert (document["name"], document["files"]) == (team, list(FILES))
    source = read(tmp_path / folder / "team.at")
    assert source.diagnostics == ()
    assert source.topology is not None
    assert source.topology.name == team
    assert "@NAME@" not in (tmp_path / folder / "README.md").read_text()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """What is in the way is named, and nothing is made beside it."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "writer.py").write_text("mine")
    (tmp_path / "README.md").symlink_to("nowhere")
    said = Place(tmp_path).look("init", status=2)

    assert "already contains agents/writer.py, README.md: nothing was created" in said.err
    assert made(tmp_path) == {"agents/writer.py"}
    assert (tmp_path / "agents" / "writer.py").read_text() == "mine"


def test_a_name_that_no_file_could_write_is_refused(tmp_path: Path) -> None:
    """Before anything is made."""
    assert "is not a valid name" in Place(tmp_path).look("init", "--name", "my team", status=2).err
    assert made(tmp_path) == set()


def test_an_empty_folder_name_is_refused(tmp_path: Path) -> None:
    """It is what a script says whose variable is not set: nothing is made where it happens to be."""
    assert "FOLDER is empty" in Place(tmp_path).look("init", "", status=2).err
    assert "FOLDER is empty" in Place(tmp_path).look("init", "", "--preset", "autofix", status=2).err
    assert made(tmp_path) == set()
