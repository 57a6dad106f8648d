"""A loop whose roles are a cross-check and a debate, killed after every second append and resumed: it ends alike."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from killed_role import CALLS

DRIVER = Path(__file__).parents[3] / "support" / "killed_role.py"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(2, marks=pytest.mark.slow, id="every-second"),
        pytest.param(1, marks=pytest.mark.long, id="every"),
    ],
)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Any]]:
    """What became of the uncrashed run, of those killed after every second append, and of the first not killed."""
    command = [sys.executable, str(DRIVER), str(tmp_path_factory.mktemp("killed")), str(request.param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_rejection_leads_back_and_the_council_completes(reports: Sequence[dict[str, Any]]) -> None:
    first = reports[0]
    assert len([line for line in first["ledger"] if line.startswith("began")]) == CALLS
    assert first["result"] == {"text": "print it", "reason": "completion_event", "iterations": 5}
    assert first["emitted"] == [
        "iteration#1 draft.ready",
        "iteration#2 draft.rejected",
        "iteration#3 draft.ready",
        "iteration#4 draft.passed",
        "iteration#5 task.complete",
    ]


def test_every_append_was_one_to_die_at(reports: Sequence[dict[str, Any]]) -> None:
    assert [one["died"] for one in reports] == [False, *[True] * (len(reports) - 2), False]
    assert len(reports) - 2 > 3 * CALLS / 2


def test_killed_anywhere_it_comes_to_the_same_end(reports: Sequence[dict[str, Any]]) -> None:
    for one in reports[1:]:
        assert one.get("resumed", 0) == 0, one
        assert one["result"] == reports[0]["result"], f"killed after append {one['n']}"


def test_what_a_team_emits_it_emits_once(reports: Sequence[dict[str, Any]]) -> None:
    """Only the writer, if it was cut off, says again what it had said."""
    for one in reports:
        assert list(dict.fromkeys(one["emitted"])) == reports[0]["emitted"], f"append {one['n']}"
        twice = [event for event, times in Counter(one["emitted"]).items() if times > 1]
        assert all(event.endswith("draft.ready") for event in twice), f"append {one['n']}"


def test_no_call_that_had_finished_is_made_again(reports: Sequence[dict[str, Any]]) -> None:
    """Neither the writer's nor one of a team's: a team goes on where it stood."""
    for one in reports[1:-1]:
        cut = one["ledger"].index("resumed")
        before, after = one["ledger"][:cut], one["ledger"][cut + 1 :]
        again = {line for line in after if line.startswith("began") and line in before}
        assert not {line.removeprefix("began ") for line in again} & set(one["before"]), f"append {one['n']}"
        assert len({line for line in one["ledger"] if line.startswith("began")}) == CALLS
        assert sorted(one["receipts"]) == sorted(reports[0]["receipts"])
