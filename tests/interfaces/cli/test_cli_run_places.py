"""Which runs a command acts on: those of this directory, others only if the user names their directory."""

import json
import os
import pty
import subprocess
from pathlib import Path

import preforked
import pytest
from command_line import Place, make

from coterie.execution.runs import index
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import RunFinished, RunOwned, RunStarted, RunStopped


@pytest.fixture
def other(tmp_path: Path) -> Place:
    """Another directory of the same user."""
    (tmp_path / "other").mkdir()
    return make(tmp_path / "other")


def kept(folder: Path, run: str = "run-1", *, stopped: bool = False) -> Path:
    """A run that was started in *folder* and has ended, or was stopped."""
    writer = JsonlStore(folder / ".coterie").claim(run)
    last = RunStopped(seq=3, reason="max_turns") if stopped else RunFinished(seq=3, outcome="completed", at=1.0)
    writer.append([RunStarted(seq=1, run=run, engine="flow", cwd=str(folder)), RunOwned(seq=2, epoch=1), last])
    writer.flush()
    writer.give_up()
    found = folder / ".coterie" / "runs" / run
    index.add(index.Entry(run=run, folder=str(found), cwd=str(folder)))
    return found


def test_rm_asks_for_the_directory_of_a_run_that_is_elsewhere(place: Place, other: Place) -> None:
    """`run-1` is a name that every project uses."""
    folder = kept(other.folder)

    said = place.look("runs", "rm", "run-1", status=2).err
    assert f"run 'run-1' is in {other.folder}, another directory" in said
    assert f"add --in {other.folder}" in said
    assert folder.exists()
    assert place.look("runs", "rm", "run-1", "--in", str(other.folder)).out == "removed run-1\n"
    assert not folder.exists()


def test_rm_of_several_runs_removes_none_if_one_is_elsewhere(place: Place, other: Place) -> None:
    """The command is refused before its first effect."""
    mine = kept(place.folder, "mine")
    kept(other.folder)

    place.look("runs", "rm", "mine", "run-1", status=2)
    assert mine.exists()


@pytest.mark.parametrize("answer", ["y", "n", ""])
def test_a_yes_on_a_terminal_that_shows_the_directory_is_enough(place: Place, other: Place, answer: str) -> None:
    """Anything else keeps the run."""
    folder = kept(other.folder)
    keyboard, line = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    done = preforked.start("runs", "rm", "run-1", cwd=place.folder, stdin=line, stderr=line, stdout=subprocess.DEVNULL)
    os.close(line)
    status = done.wait(60)

    shown = os.read(keyboard, 65536).decode()
    os.close(keyboard)
    assert str(other.folder) in shown
    assert (status, folder.exists()) == ((0, False) if answer == "y" else (2, True))


@pytest.mark.parametrize("words", [("runs", "rm"), ("resume",), ("fork",), ("inspect",), ("control", "interrupt")])
def test_the_beginning_of_an_id_names_runs_of_this_directory_only(
    place: Place, other: Place, words: tuple[str, ...]
) -> None:
    """A short word fits runs that the user has never seen."""
    kept(other.folder, "calm-brook")

    assert "there is no run 'calm'" in place.look(*words, "calm", status=1).err
    assert "there is no run ''" in place.look(*words, "", status=1).err


def test_a_run_of_this_directory_comes_before_one_with_the_same_id(place: Place, other: Place) -> None:
    """Whichever is newer; a beginning that fits one run here is that run."""
    mine = kept(place.folder, "run-12")
    kept(other.folder, "run-1")

    assert place.look("runs", "rm", "run-1").out == "removed run-12\n"
    assert not mine.exists()


def test_an_id_that_several_directories_have_names_none_of_them(place: Place, other: Place, tmp_path: Path) -> None:
    """The newest is no better guess than any other."""
    kept(other.folder)
    kept(tmp_path / "third")

    said = place.look("resume", "run-1", status=2).err
    assert str(other.folder) in said
    assert str(tmp_path / "third") in said
    assert "--state-dir" in said


@pytest.mark.slow
def test_what_changes_a_run_elsewhere_names_its_directory(place: Place, other: Place) -> None:
    """A full id is enough, and the user sees where the command works."""
    run = str(json.loads(other.call("run", "human.at", "--json", status=4).out)["run"])

    statuses = {
        ("resume", run): 4,
        ("fork", run): 4,
        ("control", "guide", run, "Mind it"): 0,
        ("memory", "list", "--run", run): 0,
        ("memory", "add", "learning", "Mind it", "--run", run): 2,  # queued
        ("task", "list", "--run", run): 0,
        ("task", "add", "Mind it", "--run", run): 2,
    }
    for words, status in statuses.items():
        said = place.call(*words, status=status)
        assert f"run {run} is in {other.folder}, another directory" in said.err, words


def test_prune_acts_on_this_directory_or_the_one_that_is_named(place: Place, other: Place) -> None:
    """Never on all runs that the index knows."""
    here, there = kept(place.folder), kept(other.folder)

    assert place.look("runs", "prune", "--older-than", "1d", "--in", str(other.folder)).out == "removed run-1\n"
    assert (here.exists(), there.exists()) == (True, False)
    assert place.look("runs", "prune", "--older-than", "1d").out == "removed run-1\n"


def test_rm_and_prune_do_not_act_here_while_runs_lists_a_cluster(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`last` would be another run than the one that `coterie runs` shows first."""
    folder = kept(place.folder)
    monkeypatch.setenv("COTERIE_CLUSTER", f"temporal://127.0.0.1:1/default?export={tmp_path}")

    for words in (("rm", "last"), ("prune", "--older-than", "1d")):
        said = place.look("runs", *words, status=2).err
        assert "a cluster keeps its runs" in said
        assert "--cluster ''" in said
    assert folder.exists()
    assert place.look("runs", "rm", "last", "--cluster", "").out == "removed run-1\n"


def test_a_directory_that_is_not_there_is_an_error(place: Place) -> None:
    """With the option that names it."""
    said = place.look("runs", "prune", "--older-than", "1d", "--in", "nowhere", status=2).err
    assert "--in" in said
    assert "nowhere" in said


def test_an_agent_that_names_its_run_means_its_own(place: Place, other: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its work tree no directory is that of its run, and another project may have a run of that name."""
    from coterie.agents.backends.agentside import client
    from coterie.interfaces.cli.emit import _run

    own = kept(other.folder)
    kept(place.folder)
    monkeypatch.setenv(client.RUN_FOLDER, str(own))
    monkeypatch.chdir(place.folder)
    found, _ = _run("run-1", Path(".coterie"))
    assert found is not None
    assert found[0].folder("run-1") == own
