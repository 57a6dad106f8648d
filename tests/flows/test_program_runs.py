"""Runs of programs from the command line: targets, findings, a kill after each append."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLED = Path(__file__).parents[1] / "support" / "killed.py"
PROGRAM = """
import time
from dataclasses import dataclass

from coterie import agent, first, note, program, sleep, together


@dataclass
class Plan:
    topics: list[str]


def plan(topic: str) -> Plan:
    return Plan([topic, topic * 2])


def write(topic: str) -> str:
    return topic.upper()


planner, writer = agent("planner", plan), agent("writer", write)


@program(agents=[planner, writer], max_turns=9)
async def report(topic: str) -> list[str]:
    found = await planner(topic)
    note(f"{len(found.topics)} topics")
    sections = await together([writer(one) for one in found.topics])
    await sleep(0.01)
    return [*sections, await first([writer("last"), sleep(50)])]


@program(agents=[writer], max_turns=9)
async def unsteady(topic: str) -> str:
    return await writer(f"{topic} {stamp()}")


def stamp() -> float:
    return time.time()
"""


def called(folder: Path, *words: str, status: int = 0, killed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(KILLED), killed] if killed else [sys.executable, "-m", "coterie"]
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "team.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.slow
def test_a_program_killed_after_each_append_ends_alike(folder: Path) -> None:
    """By SIGKILL, and resumed by its module and name in a new process."""
    whole = called(folder, "run", "team.py:report", "tea", "--id", "whole").stdout
    records = (folder / ".coterie" / "runs" / "whole" / "journal.jsonl").read_text().count('"topic"')
    resumed = 0
    for n in range(2, records, 3):
        done = subprocess.run(
            [sys.executable, str(KILLED), f"append:{n}", "run", "team.py:report", "tea", "--id", f"k{n}"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == -9
        again = subprocess.run(
            [sys.executable, "-m", "coterie", "resume", f"k{n}"], cwd=folder, capture_output=True, text=True
        )
        if "the run never began" not in again.stderr:  # nothing was durable yet
            assert again.stdout == whole, again.stderr
            resumed += 1
    assert resumed > 2
    assert json.loads(whole) == ["TEA", "TEATEA", "LAST"]


def test_a_changed_program_is_refused_with_both_questions(folder: Path) -> None:
    """And with the fork that goes on with the new code."""
    called(folder, "run", "team.py:report", "tea", "--id", "one")
    (folder / "team.py").write_text(PROGRAM.replace("writer(one)", "writer(one + '!')"))
    said = called(folder, "replay", "one", status=1).stderr
    assert "which asks 'tea'" in said
    assert "which asks 'tea!'" in said
    assert "`coterie fork one --at" in said


def test_what_is_unsteady_is_warned_of_with_its_place_and_found_by_a_rehearsal(folder: Path) -> None:
    """Also in a function that the program calls; functions of agents may do anything."""
    said = called(folder, "topology", "validate", "team.py:report", "team.py:unsteady")
    place = PROGRAM.splitlines().index("    return time.time()") + 1
    assert f"team.py:{place}:12: warning[unsteady-program]: time.time() may give another value" in said.stderr
    assert said.stderr.count("unsteady-program") == 1
    assert "which asks" in called(folder, "run", "team.py:unsteady", "tea", "--rehearse", status=1).stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("team.py:reprot", "team has no program 'reprot'"),
        ("flows.py:pair", "flows.pair is a flow, and a command runs flows of files and programs"),
        ("tame.py:report", "there is no file 'tame.py'"),
        ("team.py", "name the program in it, team.py:NAME"),
        ("tame:report", "No module named 'tame'"),
        ("json.py:report", "the module 'json' is"),
        ("broken.py:report", "broken cannot be imported: SyntaxError"),
        ("leaving.py:report", "leaving cannot be imported: RuntimeError: SystemExit"),
    ],
)
def test_targets_that_name_no_program_are_refused_in_words(folder: Path, target: str, words: str) -> None:
    """Before anything runs."""
    (folder / "json.py").write_text(PROGRAM)
    (folder / "flows.py").write_text(
        'from coterie import agent, flow\npair = flow("pair", [agent("a", command=["cat"])])\n'
    )
    (folder / "broken.py").write_text("def")
    (folder / "leaving.py").write_text("raise SystemExit")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "coterie", "run", target, "tea"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
