"""The program that stands in for an agent: which entry it takes, what it does, and what a script may say."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from programs import program

from coterie.agents.backends.mock import MockScript, MockTurn, perform, read
from coterie.agents.backends.script_file import Emission
from coterie.errors import UsageError

TOOL = """import os, sys
with open(os.environ["SAID"], "a") as said:
    said.write(repr(sys.argv[1:]) + "\\n")
print("emitted", sys.argv[2])
sys.exit(sys.argv[2] == "wrong.event")
"""


def script(tmp_path: Path, data: Any) -> MockScript:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(data))
    return read(path)


def attempt(turn: str, run: str = "r1") -> dict[str, str]:
    return {"COTERIE_RUN": run, "COTERIE_TURN": turn}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An attempt, whose command writes down what it was told."""
    tool = tmp_path / "autoloops"
    tool.write_text(program(TOOL))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return {
        "AUTOLOOP_BIN": str(tool),
        "SAID": str(tmp_path / "said.txt"),
        "AUTOLOOP_USAGE_FILE": str(tmp_path / "usage.json"),
    }


@pytest.mark.parametrize(
    ("env", "output"),
    [
        (attempt("iteration#1"), "one"),
        (attempt("iteration#2"), "two"),
        (attempt("iteration#9"), "two"),
        (attempt("review#1"), "fine"),
        (attempt("review#3"), "fine"),
        (attempt("iteration#1", run="r1/wave-1.1#1.1"), "first branch"),
        (attempt("iteration#2", run="r1/wave-2.1#1.1"), "first branch"),
        (attempt("iteration#1", run="r1/wave-1.2#1.1"), "second branch"),
        (attempt("iteration#1", run="r1/wave-4.7#1.2"), "second branch"),
        (attempt("writer#2"), "two"),
        ({}, "one"),
    ],
)
def test_each_turn_has_its_entry(env: dict[str, str], output: str, tmp_path: Path) -> None:
    """By iteration, review and branch; the last repeats; other agents count their turns."""
    found = script(
        tmp_path,
        {
            "iterations": [{"output": "one"}, {"output": "two"}],
            "reviews": [{"output": "fine"}],
            "branches": [{"output": "first branch"}, {"output": "second branch"}],
        },
    )
    assert found.entry(env).output == output


def test_what_no_part_is_said_of_does_nothing(tmp_path: Path) -> None:
    """A review or a branch does not do what an iteration would."""
    found = script(tmp_path, [{"output": "one", "events": [{"topic": "task.complete"}]}])
    assert found.entry(attempt("iteration#4")).output == "one"
    assert found.entry(attempt("review#1")) == MockTurn()
    assert found.entry(attempt("iteration#1", run="r1/wave-1.1#1.1")) == MockTurn()


def test_a_fixture_of_autoloop_is_one_entry(tmp_path: Path) -> None:
    """Its words are other ones for the same."""
    fixture = {
        "output": "done",
        "exit_code": 2,
        "delay_ms": 1500,
        "emit_event": "task.complete",
        "emit_payload": "all of it",
        "usage": {"input_tokens": 10, "cost_usd": 0.5},
    }
    assert script(tmp_path, fixture).entry(attempt("iteration#3")) == MockTurn(
        output="done",
        exit_code=2,
        delay=1.5,
        events=(Emission(topic="task.complete", payload="all of it"),),
        usage={"input_tokens": 10, "cost_usd": 0.5},
    )


def test_it_writes_emits_and_reports(env: dict[str, str], tmp_path: Path) -> None:
    """An event that is rejected is told, and does not end the turn; a payload that is no text is JSON."""
    entry = MockTurn(
        files={"deep/note.md": "hello"},
        events=(Emission(topic="wrong.event"), Emission(topic="gaps.found", payload="- one\n- two")),
        usage={"input_tokens": 3},
        exit_code=7,
    )
    told: list[str] = []
    assert perform(entry, env, tmp_path, told.append) == 7
    assert (tmp_path / "deep" / "note.md").read_text() == "hello"
    said = Path(env["SAID"]).read_text().splitlines()
    assert said == ["['emit', 'wrong.event']", repr(["emit", "gaps.found", "- one\n- two"])]
    assert told == ["emitted wrong.event", "emitted gaps.found"]
    assert json.loads(Path(env["AUTOLOOP_USAGE_FILE"]).read_text()) == {"input_tokens": 3}


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt"])
def test_it_writes_below_its_folder_only(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(UsageError, match="outside the working folder"):
        perform(MockTurn(files={name: "x"}), {}, folder, print)
    assert list(tmp_path.rglob("out.txt")) == []


def test_without_a_run_there_is_nobody_to_emit_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="started by a run"):
        perform(MockTurn(events=(Emission(topic="task.complete"),)), {"PATH": str(tmp_path)}, tmp_path, print)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"iterations": {}}, r"iterations: expected `array`, got `object`"),
        ({"iterations": [], "review": []}, r"unknown key 'review'; did you mean 'reviews'"),
        ([{"outptu": "x"}], r"iterations\[0\]: unknown key 'outptu'; did you mean 'output'"),
        ([{}, {"output": 3}], r"iterations\[1\].output: expected `str`, got `int`"),
        ([{"exit_code": True}], r"exit_code: expected `int`, got `bool`"),
        ([{"exit_code": 256}], r"exit_code: expected `int` <= 255"),
        ([{"delay": -1}], r"delay: expected `float` >= 0"),
        ([{"delay": "1s"}], r"delay: expected `float`, got `str`"),
        ([{"delay": 1, "delay_ms": 1}], r"'delay_ms' and 'delay' are the same"),
        ([{"emit_payload": "x"}], r"'emit_payload' needs 'emit_event'"),
        ([{"events": [{"payload": "x"}]}], r"events\[0\]: object missing required field `topic`"),
        ([{"events": ["task.complete"]}], r"events\[0\]: expected `object`, got `str`"),
        ([{"files": {"a": 1}}], r"files\[...\]: expected `str`, got `int`"),
        ([{"usage": {"cost_usd": None}}], r"usage\[...\]: expected `float`, got `null`"),
        ("x", r"iterations\[0\]: expected `object`, got `str`"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        script(tmp_path, data)


def test_a_script_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: the script cannot be read: No such file"):
        read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UsageError, match=r"bad\.json:1:2: the script is not JSON"):
        read(tmp_path / "bad.json")


def test_a_payload_may_be_any_json(tmp_path: Path) -> None:
    found = script(tmp_path, [{"events": [{"topic": "a", "payload": {"n": 1}}]}])
    assert found.entry({}).events == (Emission(topic="a", payload='{"n": 1}'),)
