"""A loop of pi, an ACP agent and Claude Code, played by fake agents: SIGKILL of an agent, of its owner, or of both."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.extras("acp", "claude"), pytest.mark.slow]
DRIVER = Path(__file__).parents[3] / "support" / "killed_agents.py"


@pytest.fixture(
    scope="module", params=["3", pytest.param("", marks=pytest.mark.long)], ids=["every-third-append", "every-append"]
)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Any]]:
    """How the run ended that was not killed, and those that were."""
    command = [sys.executable, str(DRIVER), str(tmp_path_factory.mktemp("killed")), *request.param.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_agents_and_owners_were_killed(reports: Sequence[dict[str, Any]]) -> None:
    """Before, while and after they worked."""
    assert reports[0]["ledger"] == ["iteration#1.1", "iteration#2.1", "iteration#3.1"]
    assert sum(one["died"] for one in reports) >= 4
    assert sum(bool(one["failed"]) for one in reports if one["who"] == "agent") >= 1
    assert {len(one.get("before", ())) for one in reports} == {0, 1, 2}


def test_every_run_completes(reports: Sequence[dict[str, Any]]) -> None:
    """By itself after the death of an agent, else by its next owner."""
    assert [one for one in reports if (one["exit"], one["outcome"]) != (0, "completed")] == []


def test_no_finished_turn_is_repeated(reports: Sequence[dict[str, Any]]) -> None:
    """What has its receipt on disk is not prompted again; what was in flight is, once."""
    for one in reports:
        cut = one["ledger"].index("resumed") if "resumed" in one["ledger"] else len(one["ledger"])
        again = {attempt.rpartition(".")[0] for attempt in one["ledger"][cut + 1 :]}
        assert not again & {turn.rpartition("/")[2] for turn in one.get("before", ())}, one
        assert max(Counter(one["receipts"]).values()) == 1, one
        prompted = Counter(line.rpartition(".")[0] for line in one["ledger"] if line != "resumed")
        assert max(prompted.values()) <= 1 + one["died"], one


def test_nothing_is_left_after_five_seconds(reports: Sequence[dict[str, Any]]) -> None:
    """Neither after the run nor, where both were killed, before it is resumed."""
    assert [one for one in reports if one["orphans"] or one.get("left")] == []
