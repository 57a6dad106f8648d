"""The worked example of the topology page, with a role for each kind of coding agent."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scripted_provider import Provider, RealAgents
from until import until as wait_until

from coterie.agents.backends.processes import any_alive
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore

pytestmark = pytest.mark.real_agents

SETTINGS = """
event_loop.max_iterations = 8
backend.kind = "pi"
backend.command = "{pi}"
backend.args = ["--model", "scripted/claude-sonnet-4-5"]
backend.timeout_ms = 600000
review.enabled = false
"""
TOPOLOGY = """
name = "worked"
completion = "task.complete"

[[role]]
id = "planner"
emits = ["tasks.ready"]
prompt_file = "planner.md"

[[role]]
id = "builder"
emits = ["review.ready"]
prompt_file = "builder.md"
backend_kind = "acp"
backend_provider = "claude-agent-acp"
backend_command = "{acp}"
backend_args = []

[[role]]
id = "critic"
emits = ["review.rejected", "task.complete"]
prompt_file = "critic.md"
backend_kind = "claude-sdk"
backend_command = "claude"

[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder"]
"""
PROMPTS = {
    "planner": "Plan.\n\nDO bash: coterie emit tasks.ready 'write a.txt'\nSAY planned",
    "builder": (
        "Build.\n\nDO write: {folder}/a.txt = built\nDO bash: coterie emit review.ready 'a.txt is written'\nSAY built"
    ),
    "critic": "Check.\n\nDO bash: cat {folder}/a.txt && coterie emit task.complete checked\nSAY checked",
}


def project(folder: Path, real: RealAgents, **prompts: str) -> Path:
    """The folder of the loop, in which the agents work."""
    folder.mkdir()
    (folder / "autoloops.toml").write_text(SETTINGS.format(pi=real.programs["pi"]))
    (folder / "topology.toml").write_text(TOPOLOGY.format(acp=real.programs["claude-agent-acp"]))
    for role, text in (PROMPTS | prompts).items():
        (folder / f"{role}.md").write_text(text.format(folder=folder))
    return folder


def start(folder: Path, real: RealAgents, *words: str) -> "subprocess.Popen[str]":
    """Start the loop in *folder*."""
    return subprocess.Popen(
        [sys.executable, "-m", "coterie", "run", ".", "Write a.txt", *words],
        cwd=folder,
        env=real.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def records(folder: Path) -> list[Any]:
    """The journal of the only run in *folder*, as far as it is written."""
    runs = [path.parent.name for path in folder.glob(".autoloop/runs/*/journal.jsonl")]
    return [one for run in runs for one in JsonlStore(folder / ".autoloop").read(run)]


def test_three_agents_complete_the_worked_example(real: RealAgents, provider: Provider, tmp_path: Path) -> None:
    """The planner is guided and interrupted, the builder meets a rate limit, and the critic asks for a permission.

    Each has its tools, its usage and what it said on the wire. An interrupted iteration is followed by another one.
    """
    folder = project(
        tmp_path / "project", real, planner=f"{PROMPTS['planner']}\nHOLD", builder=f"{PROMPTS['builder']}\nREFUSE 1"
    )
    topology = folder / "topology.toml"
    topology.write_text(topology.read_text().replace('"claude"', '"claude"\nbackend_attention = "ask"'))
    loop = start(folder, real)
    assert provider.held.wait(300)
    control(folder, real, "guide", "last", "Mind the gap")
    control(folder, real, "interrupt", "last")
    provider.go.set()
    asked = until(folder, r.AttentionAsked)
    coterie(folder, real, "attention", "last", "allow")
    out, err = loop.communicate(timeout=300)

    assert loop.returncode == 0, err
    assert out == "checked\n"
    assert (folder / "a.txt").read_text() == "built"
    assert (asked.turn, asked.tool) == ("iteration#4", "Bash")
    said = records(folder)
    cut = [(one.turn, one.reason) for one in said if isinstance(one, r.AttemptInterrupted)]
    failed = [(one.turn, one.kind) for one in said if isinstance(one, r.AttemptFailed)]
    answered = [one.answer for one in said if isinstance(one, r.AttentionAnswered)]
    assert (cut, failed, answered) == (
        [("iteration#1", "interrupted")], [("iteration#3", "rate_limited")], ["allow"]
    )  # fmt: skip
    assert any("Mind the gap" in prompt for prompt in provider.prompts)
    finished = [one for one in said if isinstance(one, r.TurnFinished)]
    assert [one.text for one in finished] == ["planned", "built", "checked"]
    assert all(one.usage.input_tokens and one.usage.output_tokens and one.usage.cost for one in finished)
    [run] = (folder / ".autoloop" / "runs").iterdir()
    for name in ("pi-stream.2.jsonl", "acp-stream.3.jsonl", "claude-stream.4.jsonl"):
        assert [json.loads(line) for line in (run / name).read_text().splitlines()], name
    for attempt, tool in (("2.1", "bash"), ("3.2", "Write"), ("4.1", "Bash")):
        stream = run / f"turns/iteration#{attempt}/stream.jsonl"
        used = [event for line in stream.read_text().splitlines() if (event := json.loads(line))["kind"] == "tool"]
        assert any(tool in event["name"] for event in used)
        assert {event.get("state", "started") for event in used} == {"started", "finished"}


ONLY = "event_loop.max_iterations = 3\nreview.enabled = false\nbackend.timeout_ms = 600000\n"
KINDS = {
    "pi": 'backend.kind = "pi"\nbackend.command = "{pi}"\nbackend.model = "scripted/claude-sonnet-4-5"\n',
    "acp": 'backend.kind = "acp"\nbackend.command = "{claude-agent-acp}"\nbackend.args = []\n',
    "claude-sdk": 'backend.kind = "claude-sdk"\n',
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def alone(folder: Path, real: RealAgents, kind: str, prompt: str, settings: str = "") -> Path:
    """The folder of a loop with one role, played by *kind*."""
    folder.mkdir()
    text = KINDS[kind].replace("{", "{0[").replace("}", "]}").format(real.programs)
    (folder / "autoloops.toml").write_text(ONLY + text + settings)
    (folder / "topology.toml").write_text(
        'name = "alone"\ncompletion = "task.complete"\n'
        '[[role]]\nid = "a"\nemits = ["task.complete"]\nprompt_file = "a.md"\n'
    )
    (folder / "a.md").write_text(f"Work.\n\n{prompt}\nDO bash: coterie emit task.complete done\nSAY finished")
    return folder


def until(folder: Path, kind: type[Any], seconds: float = 300) -> Any:
    """The first record of *kind* in the journal of the run in *folder*, once it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := [one for one in records(folder) if isinstance(one, kind)]:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"no {kind.__name__} within {seconds} s")


def coterie(folder: Path, real: RealAgents, *words: str) -> str:
    """What `coterie` prints, called from outside of the run."""
    return subprocess.run(
        [sys.executable, "-m", "coterie", *words], cwd=folder, env=real.environment, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip


def control(folder: Path, real: RealAgents, *words: str) -> str:
    """What `coterie control` prints."""
    return coterie(folder, real, "control", *words)


@every_kind
def test_an_interrupt_ends_the_turn_and_the_next_one_is_clean(
    real: RealAgents, provider: Provider, tmp_path: Path, kind: str
) -> None:
    """The same turn is tried again, in a session that knows nothing of the one before."""
    folder = alone(tmp_path / "project", real, kind, "HOLD")
    loop = start(folder, real)
    assert provider.held.wait(300)
    control(folder, real, "guide", "last", "Mind the gap")
    control(folder, real, "interrupt", "last")
    provider.go.set()
    _, err = loop.communicate(timeout=300)

    assert loop.returncode == 0, err
    assert [one.reason for one in records(folder) if isinstance(one, r.AttemptInterrupted)] == ["interrupted"]
    assert sum("Mind the gap" in str(body["messages"]) for body in provider.models.requests)


@every_kind
def test_guidance_counts_once_the_agent_has_taken_it_up(
    real: RealAgents, provider: Provider, tmp_path: Path, kind: str
) -> None:
    """Recorded as accepted at once, and as delivered when a request of the agent's has it."""
    folder = alone(tmp_path / "project", real, kind, f"DO bash: test -e {tmp_path}/held\nHOLD")
    loop = start(folder, real)
    assert provider.held.wait(300)
    said = control(folder, real, "guide", "last", "Mind the gap")
    assert "accepted" in said
    assert not [one for one in records(folder) if isinstance(one, r.GuidanceDelivered)]
    provider.go.set()
    _, err = loop.communicate(timeout=300)

    assert loop.returncode == 0, err
    delivered = [one for one in records(folder) if isinstance(one, r.GuidanceDelivered)]
    assert [(one.turn, one.attempt) for one in delivered] == [("iteration#1", 1)]
    assert "Mind the gap" in str(provider.models.requests[-1]["messages"])


def results_in_session(folder: Path, real: RealAgents) -> int:
    """How many results of tools the agent has written to the file of its session."""
    own = folder.glob(".autoloop/runs/*/agents/**/projects/**/*.jsonl")  # of an agent without a state folder at home
    sessions = [*real.home.rglob("*.jsonl"), *folder.rglob("sessions/*.jsonl"), *own]
    return sum(len(re.findall(r'"(?:tool_result|toolResult)"', path.read_text())) for path in sessions)


@every_kind
def test_a_turn_that_was_cut_off_goes_on_in_its_session(
    real: RealAgents, provider: Provider, tmp_path: Path, kind: str
) -> None:
    """After SIGKILL of the harness: the model is shown what it had said, and the tool that it had used is not repeated.

    The provider counts the results of tools in the messages that it gets.
    """
    work = f"DO bash: echo once >> {tmp_path}/project/log\nDO bash: test -e {tmp_path}/held"
    folder = alone(tmp_path / "project", real, kind, f"{work}\nHOLD AFTER 2", 'backend.on_interrupt = "resume"\n')
    loop = start(folder, real)
    assert provider.held.wait(300)
    # written with a delay; in a sandbox the agent ends with the harness
    wait_until(lambda: loop.poll() is not None or results_in_session(folder, real) >= 2, 300)
    loop.kill()
    loop.communicate(timeout=300)
    provider.go.set()
    resumed = subprocess.run(
        [sys.executable, "-m", "coterie", "resume", "last"],
        cwd=folder, env=real.environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert resumed.returncode == 0, resumed.stderr
    assert (folder / "log").read_text() == "once\n"
    first, second = [one for one in records(folder) if isinstance(one, r.TurnStarted)]
    assert (first.session, bool(second.session)) == ("", True)
    assert [one.lost for one in records(folder) if isinstance(one, r.AttemptSession)] == [""]


@pytest.mark.parametrize("kind", ["acp", "claude-sdk"])
def test_a_permission_is_asked_and_answered(real: RealAgents, provider: Provider, tmp_path: Path, kind: str) -> None:
    """By an operator; the agent goes on with the tool. The command that emits needs nobody."""
    folder = alone(tmp_path / "project", real, kind, f"DO write: {tmp_path}/project/a.txt = built",
                   'backend.attention = "ask"\n')  # fmt: skip
    loop = start(folder, real)
    allowed = set[str]()
    while loop.poll() is None:
        for asked in [one for one in records(folder) if isinstance(one, r.AttentionAsked) and one.id not in allowed]:
            coterie(folder, real, "attention", "last", asked.id, "allow")
            allowed.add(asked.id)
        time.sleep(0.05)
    _, err = loop.communicate(timeout=300)

    assert loop.returncode == 0, err
    assert len(allowed) == 1
    assert (folder / "a.txt").read_text() == "built"


@every_kind
def test_a_rate_limit_is_waited_for(real: RealAgents, provider: Provider, tmp_path: Path, kind: str) -> None:
    """The agent's own retries are off: the attempt fails as `rate_limited`, and the next one succeeds."""
    folder = alone(tmp_path / "project", real, kind, "REFUSE 1")
    loop = start(folder, real)
    _, err = loop.communicate(timeout=300)

    assert loop.returncode == 0, err
    failed = [one for one in records(folder) if isinstance(one, r.AttemptFailed)]
    assert [one.kind for one in failed] == ["rate_limited"]


@pytest.mark.parametrize("kind", ["pi", "claude-sdk"])
def test_a_long_limit_parks_the_run(real: RealAgents, provider: Provider, tmp_path: Path, kind: str) -> None:
    """One request, and the run stops until the time that the provider named."""
    folder = alone(tmp_path / "project", real, kind, "REFUSE 9 FOR 3600")
    loop = start(folder, real)
    _, err = loop.communicate(timeout=300)

    assert loop.returncode == 3, err
    [failed] = [one for one in records(folder) if isinstance(one, r.AttemptFailed)]
    assert failed.kind == "rate_limited"
    assert 3500 < failed.wait <= 4501  # Claude Code adds up to a quarter


def descendants(pid: int) -> list[int]:
    """The processes that *pid* has started, and those that they have."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


WHO = ("harness", "agents", "both")


@pytest.mark.parametrize(
    ("who", "moment"),
    [
        *zip(WHO, (0.5, 1.7, 3.1), strict=True),
        *(pytest.param(WHO[n % 3], 0.2 * n, marks=pytest.mark.long) for n in range(1, 21)),
    ],
)
def test_a_killed_run_of_real_agents_completes(real: RealAgents, tmp_path: Path, who: str, moment: float) -> None:
    """After SIGKILL of the harness or of agents at any moment: no finished turn is repeated, and nothing is left."""
    folder = project(tmp_path / "project", real)
    loop = start(folder, real)
    time.sleep(moment)  # real processes, which no virtual clock moves
    for pid in descendants(loop.pid) if who != "harness" else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if who != "agents":
        loop.kill()
    _, err = loop.communicate(timeout=300)
    assert loop.returncode == 0 or who != "agents", err
    if not records(folder):
        return  # the run had not begun
    before = [one.turn for one in records(folder) if isinstance(one, r.TurnFinished)]
    if not any(isinstance(one, r.RunFinished) for one in records(folder)):
        resumed = subprocess.run(
            [sys.executable, "-m", "coterie", "resume", "last"],
            cwd=folder, env=real.environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert resumed.returncode == 0, resumed.stderr

    finished = [one.turn for one in records(folder) if isinstance(one, r.TurnFinished)]
    assert finished[: len(before)] == before
    assert len(finished) == len(set(finished))
    assert (folder / "a.txt").read_text() == "built"
    [run] = (folder / ".autoloop" / "runs").iterdir()
    assert not any_alive(f"{run.name}/", [])
