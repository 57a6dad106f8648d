"""A loop whose roles are different kinds of coding agents, as on the page about overrides for roles."""

import json
import sys
from pathlib import Path
from typing import Any

import preforked
import pytest

pytestmark = pytest.mark.extras("acp")
FAKES = Path(__file__).parents[3] / "support" / "fake_agents"
AGENTS = {"pi": FAKES / "pi_agent.py", "acp": FAKES / "acp_agent.py"}
DECIDES = "[ -e again ] && coterie emit task.complete || { touch again; coterie emit review.rejected; }"
TOPOLOGY = f"""\
name = "worked"
completion = "task.complete"

[[role]]
id = "planner"
emits = ["tasks.ready"]
prompt = "RUN: coterie emit tasks.ready"

[[role]]
id = "builder"
emits = ["review.ready"]
prompt = "RUN: coterie emit review.ready"
backend_kind = "acp"
backend_provider = "mine"
backend_command = {sys.executable!r}
backend_args = ['{AGENTS["acp"]}']
backend_model = "small"

[[role]]
id = "critic"
emits = ["review.rejected", "task.complete"]
prompt = "RUN: {DECIDES}"
backend_kind = "acp"
backend_provider = "another"
backend_command = {sys.executable!r}
backend_args = ['{AGENTS["acp"]}']
backend_model = "large"
backend_agent = "plan"

[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a loop that has run."""
    tmp_path = tmp_path_factory.mktemp("loop")
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    (tmp_path / "autoloops.toml").write_text(
        f'backend.kind = "pi"\nbackend.command = {sys.executable!r}\nbackend.args = ["{AGENTS["pi"]}"]\n'
        "review.enabled = false\nevent_loop.max_iterations = 9\n"
    )
    done = preforked.run("run", ".", "go", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [found] = tmp_path.glob(".autoloop/runs/*/")
    return found


def sent(path: Path) -> list[str]:
    """What an ACP agent sent in *path*: its answers by their keys, and the names of its messages."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return [one.get("method") or ",".join(sorted(one["result"])) for one in lines]


def test_every_iteration_has_a_fresh_session_of_the_agent_of_its_role(folder: Path) -> None:
    """The builder that a rejection leads back to is a new process: it knows nothing of the critic."""
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    roles = [one["agent"] for one in records if one["topic"] == "turn.started"]
    pids = [one["pid"] for one in records if one["topic"] == "attempt.launched"]

    assert roles == ["planner", "builder", "critic", "builder", "critic"]
    assert len(set(pids)) == 5
    names = ["pi-stream.1.jsonl", *(f"acp-stream.{n}.jsonl" for n in (2, 3, 4, 5))]
    assert sorted(path.name for path in folder.glob("*-stream.*")) == sorted(names)
    assert all(one["usage"]["cost"] for one in records if one["topic"] == "turn.finished")


def test_a_session_begins_with_a_handshake_and_the_settings_of_the_role(folder: Path) -> None:
    """Initialize, a new session, its mode and its model, and only then the prompt."""
    begun = [one for one in sent(folder / "acp-stream.3.jsonl") if one != "session/update"]

    opened = next(k for k, one in enumerate(begun) if "sessionId" in one)
    assert "protocolVersion" in begun[opened - 1]
    assert begun[opened + 1 : opened + 3] == ["", ""]  # the answers to both settings
    assert "stopReason" in begun[-1]
    assert len([one for one in sent(folder / "acp-stream.2.jsonl") if one == ""]) == 1  # a model, and no mode
