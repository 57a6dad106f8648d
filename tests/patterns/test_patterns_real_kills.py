"""A compound of an ensemble, a cross-check and a debate, killed after every 16th append: resumed, it ends alike."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from killed_compound import CALLS

DRIVER = Path(__file__).parent.parent / "support" / "killed_compound.py"


@pytest.fixture(scope="module", params=[16, pytest.param(1, marks=pytest.mark.long)], ids=["some", "every"])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Any]]:
    """What became of the uncrashed run, of those killed after some appends, and of the first not killed."""
    command = [sys.executable, str(DRIVER), str(tmp_path_factory.mktemp("killed")), str(request.param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_uncrashed_run_makes_the_calls_it_should(reports: Sequence[dict[str, Any]]) -> None:
    first = reports[0]
    assert not first["died"]
    assert len([line for line in first["ledger"] if line.startswith("began")]) == CALLS
    names = [sub["name"] for sub in first["result"]["outputs"]["compound"]["sub_results"]]
    assert names == ["panel", "review", "argue"]


def test_every_append_was_one_to_die_at(reports: Sequence[dict[str, Any]]) -> None:
    assert [one["died"] for one in reports] == [False, *[True] * (len(reports) - 2), False]
    assert len(reports) - 2 > 3 * CALLS / 16


def test_killed_anywhere_it_comes_to_the_same_result(reports: Sequence[dict[str, Any]]) -> None:
    expected = reports[0]["result"]
    for one in reports[1:]:
        assert one.get("resumed", 0) == 0, one
        assert one["result"] == expected, f"killed after append {one['n']}"


def test_no_call_that_had_finished_is_made_again(reports: Sequence[dict[str, Any]]) -> None:
    """What had its receipt on disk is not asked again; only what was in flight may be, once."""
    for one in reports[1:-1]:
        cut = one["ledger"].index("resumed")
        before, after = one["ledger"][:cut], one["ledger"][cut + 1 :]
        again = {line for line in after if line.startswith("began") and line in before}
        assert not {line.removeprefix("began ") for line in again} & set(one["before"]), f"append {one['n']}"
        began = Counter(line for line in one["ledger"] if line.startswith("began"))
        assert len(began) == CALLS
        assert max(began.values()) <= 2
        assert sorted(one["receipts"]) == sorted(reports[0]["receipts"])
