"""Turns of models that are killed everywhere: nothing that is kept is done twice, and the answer is the same.

Each case is a story of `killed_model.py`, a protocol, and a part of the places: about 1,400 kills in all, which may be
played in shares.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "support" / "killed_model.py"
ANSWERS = {"answers": 4, "gate": 4}
"""How many answers a story needs, if not three."""
ONCE = {"once": "123", "programs": "123", "servers": "3"}
"""The payments of a story that are made at most once."""
STORIES = ("answers", "gate", "quota", "retries", "once", "programs", "servers")
PARTS = 6
APIS = ("anthropic", "openai")


def played(folder: Path, *words: str | int) -> list[dict[str, Any]]:
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parent)}
    command = [sys.executable, str(PROGRAM), str(folder), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(report: dict[str, Any], story: str) -> None:
    """No request is sent after its answer was kept, no tool called after its result was, and the run completes.

    A tool that is called at most once is not called again, and each answer is paid once.
    """
    outcome, _, tokens = report["outcome"].rpartition(" ")
    assert (report["exit"], outcome) == (0, 'completed {"payer": {"total": 6}}'), report
    answered, asked, paid, kept = 0, 0, Counter[str](), list[str]()
    for line in report["ledger"]:
        match line.split():
            case ["asked", n]:
                assert int(n) == answered, report
                asked += 1
            case ["answered"]:
                answered += 1
            case ["pays", euros]:
                assert euros not in kept, report
                paid[euros] += 1
            case ["kept", *what]:
                kept += what[1:] or ["?"]
    assert answered == ANSWERS.get(story, 3), report
    once = ONCE.get(story, "")
    assert [paid[euros] for euros in once if paid[euros] > 1] == [], report
    assert [paid[euros] for euros in "123" if euros not in once and paid[euros] < 1] == [], report
    assert kept.count("?") <= (2 if once else 0), report
    assert len(kept) == 3, report
    assert 100 * answered <= int(tokens) <= 100 * asked, report
    assert report["left"] == [], report


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_model_that_is_killed_at_some_places_goes_on(tmp_path: Path, api: str) -> None:
    """In each phase of its turn; the places are the same for both protocols."""
    reports = played(tmp_path, api, "answers", 11, 19)
    assert [report["died"] for report in reports[1:-1]] == [True] * (len(reports) - 2)
    assert len(reports) > 3
    for report in reports:
        check(report, "answers")


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, PARTS + 1))
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("story", STORIES)
def test_a_model_that_is_killed_at_each_place_goes_on(tmp_path: Path, story: str, api: str, part: int) -> None:
    """Whatever happens in its turn: wrong answers, gates, a used-up quota, retries, and tools of every kind."""
    reports = played(tmp_path, api, story, part, PARTS)
    assert sum(report["died"] for report in reports) > 10
    for report in reports:
        check(report, story)
