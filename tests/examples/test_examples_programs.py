"""The examples of programs run as their pages say, and end alike when they are killed."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.testing import simulate

FOLDER = Path(__file__).parents[2] / "examples" / "programs"


def output_of(*words: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "coterie", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_report_is_revised_once(tmp_path: Path) -> None:
    """The critic sends short sections back."""
    said = output_of("run", f"{FOLDER}/research.py:report", "tea", folder=tmp_path)
    assert json.loads(said)["sections"][0] == "This is the history of tea. It is a long story."


def test_the_tournament_has_one_winner(tmp_path: Path) -> None:
    """A proposal that fails does not take part."""
    assert output_of("run", f"{FOLDER}/tournament.py:tournament", "a tea shop", folder=tmp_path) == "Tea Shop\n"


def test_a_person_decides_where_the_sorter_is_unsure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked about the others; an answer in time counts, and without one the guess."""
    monkeypatch.chdir(tmp_path)
    team = coterie.load(f"{FOLDER}/triage.py:triage")
    asked = []

    async def clerk(question: object) -> str:
        asked.append(question)
        return "desk: support"

    messages = ["It crashes", "Hello", "My invoice is wrong"]
    outcome = asyncio.run(coterie.run(team, {"messages": messages}, human=clerk))
    assert outcome.result == {"support": ["It crashes", "Hello"], "money": ["My invoice is wrong"]}
    assert len(asked) == 1

    outcome = asyncio.run(coterie.run(team, {"messages": messages}))
    assert (outcome.status, outcome.reason, outcome.exit) == ("stopped", "waiting", 4)


@pytest.mark.parametrize("name", ["research.py:report", "triage.py:triage", "tournament.py:tournament"])
def test_the_examples_can_be_killed_anywhere(name: str) -> None:
    """Crashes at random points in virtual time: no finished turn is repeated, and a replay asks the same."""
    team = coterie.load(f"{FOLDER}/{name}")
    for seed in range(20):
        simulate(team, seed)


@pytest.mark.parametrize("name", ["research.py:report", "triage.py:triage", "tournament.py:tournament"])
def test_the_examples_are_valid_without_findings(name: str) -> None:
    """Nothing in them is unsteady, and their bound is known."""
    assert coterie.read(f"{FOLDER}/{name}").diagnostics == ()
    team = coterie.load(f"{FOLDER}/{name}")
    report = coterie.check(team)
    assert report.ends
    assert report.worst is not None
    assert team.pattern is not None
    assert report.worst.turns == team.pattern.max_turns
