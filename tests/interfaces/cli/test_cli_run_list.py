"""`coterie runs`: what a list of runs shows, which runs it shows, and how they are removed."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import Place, make

LOOP = "loop.at"


@pytest.fixture
def other(tmp_path: Path) -> Place:
    """Another directory of the same user."""
    (tmp_path / "other").mkdir()
    return make(tmp_path / "other")


def run(place: Place, team: str = LOOP, *words: str, status: int = 0) -> str:
    """Run a team and return the id of the run."""
    return str(json.loads(place.call("run", team, *words, "--json", status=status).out)["run"])


def listed(place: Place, *words: str) -> list[dict[str, object]]:
    """What `coterie runs --json` lists."""
    found: list[dict[str, object]] = json.loads(place.look("runs", *words, "--json").out)
    return found


def test_a_list_shows_prompt_duration_and_directory(place: Place) -> None:
    """As text and as data, so that a run is recognized."""
    run(place, LOOP, "Fix the parser")
    [one] = listed(place)

    assert (one["prompt"], one["turns"], one["cost"], one["cwd"]) == ("Fix the parser", 5, 0.0, str(place.folder))
    assert float(str(one["seconds"])) > 0
    head, line = place.look("runs").out.splitlines()
    assert head.split() == ["run", "team", "started", "state", "worked", "cost", "folder", "prompt"]
    assert line.endswith(" .       “Fix the parser”")


def test_the_question_of_a_pattern_is_its_prompt(place: Place) -> None:
    """In the list, and in the first line of the run: a debate is given a question, a chain a task."""
    slots = "proponent: {command: [echo, Yes]}, opponent: {command: [echo, No]}, mediator: {command: [echo, No]}"
    (place.folder / "debate.pattern.yaml").write_text(f"pattern: {{type: debate, slots: {{{slots}}}}}\n")

    said = place.call("run", "debate.pattern.yaml", "--input", "question=Will it rain?").err
    assert said.splitlines()[0].endswith(" of the team debate began: “Will it rain?”")
    assert [one["prompt"] for one in listed(place)] == ["Will it rain?"]


def test_a_list_is_of_this_directory_unless_all_are_wanted(place: Place, other: Place) -> None:
    """This directory's come first."""
    here, there = run(place), run(other)

    assert [one["run"] for one in listed(place)] == [here]
    assert [one["run"] for one in listed(place, "--all")] == [here, there]


def test_a_limit_shows_the_newest_and_says_that_there_are_more(place: Place) -> None:
    """On standard error, so that the list can be read by a program."""
    run(place)
    newest = run(place)
    said = place.look("runs", "--limit", "1", "--json")

    assert [one["run"] for one in json.loads(said.out)] == [newest]
    assert "there are older runs" in said.err
    assert place.look("runs", "--limit", "2").err == ""


def test_last_is_never_a_run_of_another_directory(place: Place, other: Place) -> None:
    """What acts on `last` must not act on a run that the user does not think of."""
    run(other)

    said = place.look("control", "interrupt", "last", status=1)
    assert "no run was started in this directory; `coterie runs --all` lists" in said.err


def test_last_is_the_newest_run_started_here_wherever_it_is_kept(place: Place) -> None:
    """A loop's settings may choose another state directory."""
    run(place)
    elsewhere = run(place, LOOP, "--state-dir", "elsewhere")

    assert listed(place)[0]["run"] == elsewhere
    assert elsewhere in place.look("inspect", "last").out


def test_a_copied_directory_keeps_the_names_and_times_of_its_runs(place: Place, tmp_path: Path) -> None:
    """They come from the journals; the times of the files are those of the copy."""
    for _ in range(2):
        run(place)
    copy = Place(tmp_path / "copy")
    shutil.copytree(place.folder / ".coterie", copy.folder / ".coterie")
    for number, folder in enumerate(sorted((copy.folder / ".coterie" / "runs").iterdir(), reverse=True)):
        os.utime(folder / "journal.jsonl", (number, number))
    known = ("run", "topology", "prompt")

    assert [[one[name] for name in known] for one in listed(copy)] == [
        [one[name] for name in known] for one in listed(place)
    ]
    for copied, one in zip(listed(copy), listed(place), strict=True):
        assert copied["started"] == pytest.approx(one["started"], abs=1)


def test_what_acts_on_a_run_names_it(place: Place) -> None:
    """`last` may be another than one thinks."""
    name = run(place, "human.at", status=4)

    assert place.look("control", "respond", "last", "Go", "--output", "verdict=approve").out.startswith(f"run {name}: ")
    assert json.loads(place.look("control", "guide", "last", "Mind it", "--json").out)["run"] == name


def test_rm_removes_a_run_with_its_files(place: Place) -> None:
    """And nothing of another run; one that is named twice is one."""
    first, second = run(place), run(place)

    assert place.look("runs", "rm", first, first).out == f"removed {first}\n"
    assert [path.name for path in (place.folder / ".coterie" / "runs").glob("[!.]*")] == [second]
    assert not list((place.folder / ".coterie" / "runs" / ".removed").glob("*"))
    assert "there is no run" in place.look("runs", "rm", first, status=1).err


def test_rm_leaves_a_run_that_a_process_drives(place: Place) -> None:
    """It would go on writing."""
    process = place.start_slow()
    try:
        assert "owned by a living process" in place.look("runs", "rm", "last", status=1).err
        assert [one["state"] for one in listed(place)] == ["running"]
    finally:
        process.terminate()  # which ends the agent, too
        process.communicate(timeout=60)


def test_prune_removes_what_ended_long_ago_and_nothing_that_can_be_resumed(place: Place) -> None:
    """The age is that of the run's end."""
    waiting, ended = run(place, "human.at", status=4), run(place)

    assert place.look("runs", "prune", "--older-than", "1d").out == "nothing to remove\n"
    assert place.look("runs", "prune", "--older-than", "0s").out == f"removed {ended}\n"
    assert [one["run"] for one in listed(place)] == [waiting]
    assert "is not an age" in place.look("runs", "prune", "--older-than", "30", status=2).err


def test_journals_that_are_not_shown_are_not_opened(place: Place) -> None:
    """So the cost of a list does not grow with them: one that cannot be opened does no harm."""
    older = run(place)
    newest = run(place)
    journal = place.folder / ".coterie" / "runs" / older / "journal.jsonl"
    journal.unlink()
    journal.symlink_to("/dev/null")  # reading refuses links

    assert [one["run"] for one in listed(place, "--limit", "1")] == [newest]


@pytest.mark.parametrize("words", [("runs", "prune", "--older-than", "1d"), ("run", "loop.at")])
def test_the_files_of_an_interrupted_removal_are_removed_by_the_next_command(
    place: Place, words: tuple[str, ...]
) -> None:
    """One that removes runs, or one that begins a run."""
    left = place.folder / ".coterie" / "runs" / ".removed" / "run-1-abcd"
    left.mkdir(parents=True)
    (left / "journal.jsonl").write_text("{}\n")

    place.call(*words)
    assert not left.parent.exists()
