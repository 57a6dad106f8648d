"""What a run does on a machine where no sandbox works."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import asking
import pytest

from coterie.agents.backends.base import Answer, Failure
from coterie.agents.backends.command import CommandBackend
from coterie.agents.backends.sandbox import choice
from coterie.agents.backends.sandbox.policy import SandboxPolicy
from coterie.errors import TopologyError
from coterie.execution.runs.backend_setup import unconfined
from coterie.interfaces.cli import app
from coterie.team.options.agents import REQUIRED
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan


@pytest.fixture
def nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither implementation."""
    monkeypatch.setattr(choice, "probe", lambda name: "the kernel says no")


def test_bubblewrap_is_used_where_it_can_make_a_sandbox() -> None:
    """Else a fault of its command line would look like a machine without it, and its tests would be left out."""
    words = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    if shutil.which("bwrap") is None or subprocess.run(["bwrap", *words], capture_output=True, check=False).returncode:
        pytest.skip("bubblewrap can make no sandbox here")

    assert choice.probe("bwrap") == ""


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
    assert app.main(["resume", run, "--max-turns", "none"]) == 0
    assert capsys.readouterr().err.count(line) == 1

    assert journal.read_text().count(line) == 2
    for command, said in ((["logs", run], "this agent runs without a sandbox"), (["inspect", run], line)):
        assert app.main(command) == 0
        assert said in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_works")
@pytest.mark.parametrize("wanted", REQUIRED)
@pytest.mark.parametrize("backend", ["command", "pi"])
def test_an_attempt_that_requires_a_sandbox_does_not_begin(tmp_path: Path, backend: str, wanted: str) -> None:
    """Whoever started it: a node of a cluster looks at no team before. Its program is not started without one."""
    words = (sys.executable, "-c", "open('begun', 'w')")
    plan = asking.agent(backend=backend, argv=words, options={"sandbox": wanted})
    result, heard = asking.ask(CODING[backend].make() if backend in CODING else CommandBackend(), plan, cwd=tmp_path)

    assert isinstance(result, Failure)
    assert (result.kind, heard) == ("refused", [])
    assert result.reason == ("no sandbox works here: bwrap: the kernel says no; landlock: the kernel says no")
    assert not (tmp_path / "begun").exists()


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


TRIALS = {
    "it says nothing": (["false"], "its trial failed with status 1"),
    "it allows nothing": (["sh", "-c", "echo one >&2; echo not permitted >&2; exit 2"], "not permitted"),
    "it hangs": (["sleep", "600"], "its trial took more than 0.2 s"),
    "it cannot be started": (["/no/such/program"], "its trial could not be started: "),
    "it is missing": ([], "it is not installed"),
}


@pytest.mark.parametrize("case", TRIALS)
def test_a_sandbox_whose_trial_fails_does_not_count(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next implementation is tried; what a trial attacks is tested with the sandbox's walls weakened."""
    words, why = TRIALS[case]

    class Fake:
        NAME = case

        @staticmethod
        def missing() -> str:
            return "" if words else why

        @staticmethod
        def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
            return words

    class Works(Fake):
        NAME = f"not {case}"

        @staticmethod
        def missing() -> str:
            return ""

        @staticmethod
        def command(policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
            return ["true"]

    monkeypatch.setattr(choice, "IMPLEMENTATIONS", (Fake, Works))
    monkeypatch.setattr(choice, "PATIENCE", 0.2 if case == "it hangs" else 60.0)

    assert choice.probe(case).startswith(why)
    assert choice.working() is Works
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", (Fake,))
    assert choice.working() is None
    assert choice.absence().startswith(f"{case}: {why}")


def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    """And not its sandbox to have failed; as are a folder, and a command without words."""
    plans = [
        (asking.agent(argv=("no-such-program",), options={"sandbox": "auto"}), "program not found"),
        (asking.agent(argv=("true",), cwd="gone", options={"sandbox": "auto"}), "does not exist"),
    ]
    for plan, why in plans:
        result, _ = asking.ask(CommandBackend(), plan, cwd=tmp_path)
        assert isinstance(result, Failure)
        assert (result.kind, why in result.reason) == ("not_found", True)
