"""A topology class with a user's own `_run`, below a compound, killed after every fourth append and resumed."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).parents[2] / "support" / "killed_program.py"
ASKED = {"planner": 1, "finder": 3, "broken": 1, "writer": 1, "ensemble_0": 1, "ensemble_1": 1}


@pytest.fixture(
    scope="module",
    params=[pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)],
    ids=["every-fourth", "every"],
)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Any]]:
    """What became of the run left alone, of those killed after every fourth append, and of the first that ended."""
    command = [sys.executable, str(DRIVER), str(tmp_path_factory.mktemp("killed")), str(request.param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def came_to(output: Any) -> Any:
    """*output* without what is measured."""
    if isinstance(output, dict):
        return {name: came_to(value) for name, value in output.items() if name != "usage"}
    return [came_to(one) for one in output] if isinstance(output, list) else output


def begun(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of the killed runs that had begun to be written down."""
    return [report] if report["ledger"] != ["resumed"] or report["output"] is not None else []


def test_every_append_was_one_to_die_at(reports: Sequence[dict[str, Any]]) -> None:
    """Until one run comes to its end; only the very first die before anything is on disk."""
    assert [one["died"] for one in reports] == [False, *[True] * (len(reports) - 2), False]
    assert len(reports) > 10
    assert sum(not begun(one) for one in reports) <= 2


def test_the_undisturbed_run_asks_whom_it_should(reports: Sequence[dict[str, Any]]) -> None:
    """Each once; who fails is tried again once, and fails in the end without failing the run."""
    began = Counter(line.rpartition(":")[2].partition("#")[0] for line in reports[0]["ledger"] if "began" in line)

    assert began == Counter({**ASKED, "broken": 2})
    assert reports[0]["output"]["sub_results"][0]["output"]["broken"] == "nobody is there"


def test_killed_anywhere_it_comes_to_the_same_output(reports: Sequence[dict[str, Any]]) -> None:
    """What the agents remember included: their hooks saw every call once."""
    expected = came_to(reports[0]["output"])
    for report in reports[1:]:
        assert report["resumed"] == 0
        for one in begun(report):
            assert came_to(one["output"]) == expected, f"killed after append {one['n']}"


def test_nobody_is_asked_again_for_what_had_its_answer(reports: Sequence[dict[str, Any]]) -> None:
    """Nor are the hooks of such a call run again; what was in flight may be repeated, once."""
    for report in reports[1:]:
        cut = report["ledger"].index("resumed")
        after = report["ledger"][cut + 1 :]
        assert not set(report["before"]) & {line.removeprefix("began ") for line in after}, report["n"]
        heard = [line.removeprefix("heard ") for line in after if line.startswith("heard")]
        assert not {turn.rpartition(":")[2] for turn in report["before"]} & set(heard), report["n"]
        assert all(n <= 3 for n in Counter(report["ledger"]).values())
