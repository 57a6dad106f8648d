"""Real processes, really killed: a run whose agents ask for permission, SIGKILL after every append, resumed."""

from pathlib import Path

import preforked
import pytest
from asking_team import make_asking

from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    AttentionAnswered,
    AttentionAsked,
    Record,
    RunFinished,
    TurnFinished,
    TurnStarted,
)

APPENDS = 20
"""Appends of the run that is not killed."""
ALLOWED = 'attention-policy: allow attention-timeout: "50ms"'


def records(folder: Path) -> list[Record]:
    runs = Runs(folder / ".coterie")
    [run] = JsonlStore(folder / ".coterie").list()
    return [record for _, record in runs.history(run)]


def check_end(folder: Path) -> int:
    """Return the number of asks: each belongs to another attempt, and the attempt that finished was allowed."""
    found = records(folder)
    asked = [one for one in found if isinstance(one, AttentionAsked)]
    answered = {one.id: one for one in found if isinstance(one, AttentionAnswered)}
    [finished] = [one for one in found if isinstance(one, TurnFinished) and one.turn == "coder#1"]
    assert finished.text == "allowed"
    assert len({one.id for one in asked}) == len({one.attempt for one in asked}) == len(asked)
    assert [answered[one.id].answer for one in asked if one.attempt == finished.attempt] == ["allow"]
    assert len([one for one in found if isinstance(one, TurnStarted) and one.turn == "coder#1"]) <= 2
    assert [one.outcome for one in found if isinstance(one, RunFinished)] == ["completed", "completed"]
    return len(asked)


@pytest.mark.extras("acp")
def test_the_policy_answers_where_no_person_does(tmp_path: Path) -> None:
    """The run that is not killed."""
    ended = preforked.run("run", make_asking(tmp_path, 2, ALLOWED), "go", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert check_end(tmp_path) == 1
    assert len(records(tmp_path)) == APPENDS


@pytest.mark.extras("acp")
@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=() if n % 3 == 2 else pytest.mark.long) for n in range(4, APPENDS)]
)
def test_an_open_ask_of_a_killed_owner_is_asked_anew(tmp_path: Path, n: int) -> None:
    """By the attempt that is tried again, under another id; an answer that was recorded is not given twice."""
    dead = preforked.run("run", make_asking(tmp_path, 2, ALLOWED), "go", cwd=tmp_path, kill=f"append:{n}")
    assert dead.returncode == -9, (dead.returncode, dead.stderr)
    ended = preforked.run("resume", "last", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert check_end(tmp_path) <= 2
