"""What a run does on a machine where no sandbox works."""

import asyncio
import json
from pathlib import Path

import asking
import pytest

from coterie.backends.base import Answer
from coterie.backends.command import CommandBackend
from coterie.backends.sandbox import choice
from coterie.cli import app
from coterie.errors import TopologyError
from coterie.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.runs.backend_setup import unconfined


@pytest.fixture
def nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither implementation."""
    monkeypatch.setattr(choice, "probe", lambda name: "the kernel says no")


TEAM = """
topology t : [pipeline] {
  agent a { extensions { coterie { command: ["true"], sandbox: auto } } }
  agent b { extensions { coterie { command: ["true"] } } }
  flow { a -> b }
}
"""


def team(wanted: str) -> Plan:
    agent = AgentPlan(name="a", backend="command", argv=("true",), options={"sandbox": wanted})
    return Plan(name="t", agents={"a": agent}, coordination=FlowPlan(mentions=("a",), groups=()))


@pytest.mark.usefixtures("nothing_works")
def test_a_team_that_requires_a_sandbox_is_refused_before_it_begins() -> None:
    """With the agent, and why each implementation does not work."""
    with pytest.raises(TopologyError) as raised:
        asyncio.run(unconfined(team("required")))

    [found] = raised.value.diagnostics
    assert found.code == "no-sandbox"
    assert found.message == (
        "no sandbox works here, and a may not run without one: bwrap: the kernel says no; landlock: the kernel says no"
    )


@pytest.mark.usefixtures("nothing_works")
def test_a_run_without_its_sandbox_says_so_at_the_terminal_and_in_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each time that a process takes the run over; `logs` and `inspect` show it too."""
    monkeypatch.chdir(tmp_path)
    Path("t.at").write_text(TEAM)
    line = "NO SANDBOX works here: a can read and write whatever you can"

    assert app.main(["run", "t.at", "hello", "--max-turns", "1"]) == 3
    assert capsys.readouterr().err.count(line) == 1
    [journal] = Path(".coterie/runs").glob("*/journal.jsonl")
    run = journal.parent.name
    assert app.main(["resume", run]) == 0
    assert capsys.readouterr().err.count(line) == 1

    assert journal.read_text().count(line) == 2
    for command, said in ((["logs", run], "this agent runs without a sandbox"), (["inspect", run], line)):
        assert app.main(command) == 0
        assert said in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_works")
def test_an_agent_that_would_like_a_sandbox_runs_and_its_log_says_so() -> None:
    """One line in each attempt."""
    result, heard = asking.ask(CommandBackend(), asking.python("print('done')", options={"sandbox": "auto"}))

    assert isinstance(result, Answer)
    assert heard.said("log").count("this agent runs without a sandbox") == 1


@pytest.mark.usefixtures("nothing_works")
def test_doctor_warns_where_no_sandbox_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside why each implementation does not."""
    monkeypatch.chdir(tmp_path)
    app.main(["doctor", "--json"])

    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["sandbox bwrap"]["found"] == "the kernel says no"
    assert found["sandbox"]["status"] == "warn"
    assert found["sandbox"]["found"] == "none works: coding agents can read and write whatever you can"
