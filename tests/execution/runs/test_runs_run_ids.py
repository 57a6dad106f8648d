"""Runs of loops are called as their settings say."""

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_cases import cases

from coterie.execution.runs import index
from coterie.execution.runs.run_ids import candidates, choose_id
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
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", choose_id(Plan(name="x", agents={}, coordination=None), tmp_path))
    assert not (tmp_path / "runs").exists()
