"""A project that has loops and other teams: one state directory, and no command needs to know which."""

import asyncio
import json
from pathlib import Path

import pytest
from bundles import bundle
from command_line import Place
from loop_projects import project

import coterie
from coterie.errors import NoSuchRun, RunExists
from coterie.execution.runs import given_ids, index
from coterie.execution.runs.run_ids import choose_id
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan

ASKING = """topology asking : [pipeline] {
  human boss { outputs { verdict: approve | revise } }
  flow { boss }
}
"""
DONE = "subprocess.run([emit, 'emit', 'done', 'ok'], check=True)"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder in which a loop has run, and then a flow that waits for a person."""
    place = Place(project(tmp_path_factory.mktemp("both"), DONE))
    (place.folder / "asking.at").write_text(ASKING)
    place.call("run", ".", "go")
    place.call("run", "asking.at", "May I?", status=4)
    return place


def ids(place: Place, *words: str) -> dict[str, str]:
    return {one["topology"]: one["run"] for one in json.loads(place.look("runs", "--json", *words).out)}


def test_teams_of_both_kinds_have_one_state_directory(both: Place) -> None:
    """That of loops, which their page names: no second one is made beside it."""
    assert not (both.folder / ".coterie").exists()
    assert len([*(both.folder / ".autoloop" / "runs").iterdir()]) == 2


@bundle("words", [(), ("--state-dir", ".coterie"), ("--state-dir", ".autoloop")])
def test_every_command_finds_the_runs_of_both_kinds(words: tuple[str, ...], both: Place) -> None:
    """Whichever of the two directories is named, or none."""
    found = ids(both, *words)
    assert found.keys() == {"work", "asking"}
    for run in found.values():
        assert run in both.look("inspect", run, *words).out
        both.look("logs", run, *words)
        both.look("replay", run, *words)
    assert found["asking"] in both.look("attention", *words).out
    assert json.loads(both.look("stats", "--json", *words).out)["total"]["runs"] == 2


def test_runs_of_two_directories_are_found_from_either(tmp_path: Path) -> None:
    """As in a project whose flow ran before its loop."""
    for home, run in ((".coterie", "one"), (".autoloop", "two")):
        (tmp_path / home / "runs" / run).mkdir(parents=True)
        (tmp_path / home / "runs" / run / "journal.jsonl").touch()
    for home in (".coterie", ".autoloop"):
        assert index.find("one", tmp_path / home) == (tmp_path / ".coterie/runs/one").resolve()
        assert index.find("two", tmp_path / home) == (tmp_path / ".autoloop/runs/two").resolve()
    (tmp_path / "other").mkdir()
    with pytest.raises(NoSuchRun):
        index.find("one", tmp_path / "other")


def test_new_runs_go_where_the_project_keeps_its_runs(tmp_path: Path) -> None:
    """The settings and profiles of a loop are no runs, and a state directory that is there is not left."""
    (tmp_path / ".autoloop" / "profiles").mkdir(parents=True)
    assert index.usual_home(tmp_path) == tmp_path / ".coterie"
    (tmp_path / ".autoloop" / "runs").mkdir()
    assert index.usual_home(tmp_path) == tmp_path / ".autoloop"
    (tmp_path / ".coterie").mkdir()
    assert index.usual_home(tmp_path) == tmp_path / ".coterie"


def test_a_run_that_is_there_is_continued_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that repeats its id has the run of before, although the project keeps new runs elsewhere by now."""
    monkeypatch.chdir(tmp_path)
    team = 'topology t : [pipeline] { agent a { extensions { coterie { command: ["echo", "hi"] } } } flow { a } }\n'
    (tmp_path / ".autoloop" / "runs").mkdir(parents=True)
    first = asyncio.run(coterie.run(coterie.load(team), "go", id="order-of-two-homes"))
    (tmp_path / ".coterie").mkdir()
    second = asyncio.run(coterie.run(coterie.load(team), "go", id="order-of-two-homes"))

    assert (first.status, second.status) == ("completed", "completed")
    assert [path.name for path in (tmp_path / ".autoloop" / "runs").iterdir()] == ["order-of-two-homes"]
    assert not (tmp_path / ".coterie" / "runs").exists()


@bundle("pair", [(".coterie", ".autoloop"), (".autoloop", ".coterie")])
def test_a_given_id_is_taken_once_in_both_directories(pair: tuple[str, str], tmp_path: Path) -> None:
    """The second caller learns where the run is, and leaves nothing; nor is the id of a removed run given again."""
    first, second = (tmp_path / home for home in pair)
    assert given_ids.claim("order-1", first)
    assert not given_ids.claim("order-1", first)
    with pytest.raises(RunExists, match=f"it is kept in {first}"):
        given_ids.claim("order-1", second)
    assert not (second / "runs" / "order-1").exists()
    given_ids.keep_id("order-1", first)
    (first / "runs" / "order-1" / "given-id").unlink()
    (first / "runs" / "order-1").rmdir()
    with pytest.raises(RunExists, match="it was removed"):
        given_ids.claim("order-1", second)


def test_a_counted_id_is_free_in_both_directories(tmp_path: Path) -> None:
    """A flow may have been given the id that a loop's counter would reach."""
    assert given_ids.claim("run-1", tmp_path / ".coterie")
    loop = Plan(name="x", agents={}, coordination=LoopPlan(place=RunPlace(project="p", run_id_format="counter")))

    assert choose_id(loop, tmp_path / ".autoloop") == "run-2"
