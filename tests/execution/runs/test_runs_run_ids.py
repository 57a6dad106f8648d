"""Runs of loops are called as their settings say."""

import asyncio
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_cases import cases

import coterie
from coterie import agent, flow
from coterie.errors import CoterieError
from coterie.execution.runs import index, launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.run_ids import candidates, choose_id
from coterie.execution.runs.threads import Continues, follow
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan


def loop(how: str) -> Plan:
    return Plan(name="x", agents={}, coordination=LoopPlan(place=RunPlace(project="p", run_id_format=how)))


@bundle("case", cases("run_id"), ids=lambda case: str(case["id"]))
def test_ids_look_as_in_the_earlier_system(case: dict[str, Any], tmp_path: Path) -> None:
    """A word that is no format stands for the readable one."""
    for n in range(case.get("existing_loop_starts", 0)):
        (tmp_path / "runs" / f"whatever-{n}").mkdir(parents=True)
    name = choose_id(loop(case["format"]), tmp_path)

    assert re.fullmatch(case.get("pattern", case.get("result")), name)
    assert (tmp_path / "runs" / name).is_dir()


def test_a_counter_goes_on_from_the_highest(tmp_path: Path) -> None:
    """Runs that were removed do not make it begin anew, and two that start at once get two numbers."""
    for name in ("run-7", "run-07x", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)

    assert choose_id(loop("counter"), tmp_path) == "run-8"
    assert choose_id(loop("counter"), tmp_path) == "run-9"
    assert list(islice(candidates("counter", [], []), 3)) == ["run-1", "run-2", "run-3"]


def test_readable_ids_are_taken_only_once_by_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the other run lies; when pairs of words get scarce there are three."""
    monkeypatch.setattr("coterie.execution.runs.run_ids._HOW", "calm")
    monkeypatch.setattr("coterie.execution.runs.run_ids._WHAT", "brook")
    folder = tmp_path / "there" / "runs" / "calm-brook"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    index.add(index.Entry(run="calm-brook", folder=str(folder)))

    assert choose_id(loop("human"), tmp_path / "here") == "calm-calm-brook"


def test_other_teams_are_called_by_the_time(tmp_path: Path) -> None:
    """Only loops have settings."""
    name = choose_id(Plan(name="x", agents={}, coordination=None), tmp_path)

    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", name)
    assert (tmp_path / "runs" / name).is_dir()


def echo(prompt: str) -> str:
    return prompt


def echoes() -> coterie.Topology:
    one = agent(echo)
    return flow("echoes", [one], [], result=one)


def test_an_id_made_twice_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run under the id of another would be taken for that one and give its result; a fork could not be made."""
    made = iter(["same", "same", "other", "same", "third"])
    monkeypatch.setattr("coterie.execution.runs.run_ids.new_run_id", lambda: next(made))

    async def twice() -> list[coterie.Outcome[Any]]:
        return await asyncio.gather(*(coterie.run(echoes(), given, state_dir=tmp_path) for given in ("tea", "milk")))

    assert [(one.run, one.result) for one in asyncio.run(twice())] == [("same", "tea"), ("other", "milk")]
    assert fork("same", state_dir=tmp_path, at=1).run == "third"


@bundle("taken", ["runs", ""])
def test_where_no_folder_can_be_made_the_run_says_so(taken: str, tmp_path: Path) -> None:
    """Choosing an id has no other words for it, and ends."""
    state = tmp_path / "state"
    (state / taken).parent.mkdir(exist_ok=True)
    (state / taken).touch()

    with pytest.raises(CoterieError, match=re.escape(str(state))):
        asyncio.run(coterie.run(echoes(), "tea", state_dir=state))


async def never(**how: Any) -> coterie.Outcome[Any]:
    raise AssertionError(how)


def test_a_run_that_does_not_begin_leaves_no_folder(tmp_path: Path) -> None:
    """Begun from Python, in a thread, or in a work tree of no repository."""
    plan, thread = coterie.plan(echoes()), "../no name"
    for refused in (
        coterie.run(echoes(), "tea", state_dir=tmp_path, thread=thread),
        coterie.run(echoes(), "tea", state_dir=tmp_path, after="no-run", thread="talk"),
        launch.start(plan, {"prompt": "tea"}, state_dir=tmp_path, cwd=tmp_path, place=RunPlace(worktree=True)),
    ):
        with pytest.raises(CoterieError):
            asyncio.run(refused)
        assert not list(tmp_path.glob("runs/*"))

    behind = Continues("talk", "no-run")
    with pytest.raises(CoterieError):
        asyncio.run(follow(Runs(tmp_path), choose_id(plan, tmp_path), plan, behind, never, tell=print))
    assert not list(tmp_path.glob("runs/*"))
