"""Where the messages of coding agents are kept: of iterations, reviews, branches of waves, turns and their retries."""

import json
import sys
from pathlib import Path

import preforked

FAKE = Path(__file__).parents[2] / "support" / "fake_agents" / "pi_agent.py"
SETTINGS = f"""\
backend.kind = "pi"
backend.command = {sys.executable!r}
backend.args = [{str(FAKE)!r}]
"""
WAVES = """\
completion = "all.done"

[[role]]
id = "planner"
emits = ["part.ready", "all.done"]
prompt = '''
RUN: [ $AUTOLOOP_ITERATION = 1 ] && coterie emit part.ready.parallel "$(cat parts)"
RUN: [ $AUTOLOOP_ITERATION = 1 ] || coterie emit all.done
'''

[[role]]
id = "builder"
emits = ["part.done"]
prompt = "RUN: coterie emit part.done"

[handoff]
"loop.start" = ["planner"]
"part.ready" = ["builder"]
"part.ready.parallel.joined" = ["planner"]
"""
FLOW = """\
topology two : [pipeline] {
  extensions { coterie { backend: pi  command: ["{python}", "FAKE"] } }
  agent first { model: small  retry: 1  prompt: "RUN: [ -e again ] || { touch again; kill -9 $PPID; }" }
  agent second { model: small  prompt: "RUN: true" }

  flow { first -> second }
}
"""


def run(folder: Path, target: str) -> Path:
    """Run *target* to completion; the folder of the run."""
    done = preforked.run("run", target, "go", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = folder.glob(".*/runs/*/")
    return found


def prompts(path: Path) -> list[str]:
    """The last lines of what was answered in the transcript: one `agent_start` for each attempt."""
    assert path.stat().st_mode & 0o077 == 0
    return [line for line in path.read_text().splitlines() if json.loads(line)["type"] == "agent_start"]


def test_a_loop_names_them_after_iterations_reviews_and_branches(tmp_path: Path) -> None:
    """A branch of a wave has its own in its folder, where its other files are."""
    (tmp_path / "topology.toml").write_text(WAVES)
    (tmp_path / "autoloops.toml").write_text(
        f'{SETTINGS}review.prompt = "RUN: true"\n'
        "parallel.enabled = true\nreview.every_iterations = 1\nevent_loop.max_iterations = 3\n"
    )
    (tmp_path / "parts").write_text("- left\n- right\n")
    folder = run(tmp_path, ".")

    assert sorted(path.name for path in folder.glob("*-*.jsonl")) == [
        "pi-review.1.jsonl",
        "pi-stream.1.jsonl",
        "pi-stream.2.jsonl",
    ]
    [wave] = tmp_path.glob(".autoloop/waves/*/")
    for branch in ("branch-1", "branch-2"):
        assert [path.name for path in (wave / branch).glob("*-*.jsonl")] == ["pi-stream.1.jsonl"]
        assert len(prompts(wave / branch / "pi-stream.1.jsonl")) == 1
        assert (wave / branch / "objective.md").exists()
    assert list(folder.glob("turns/**/pi-*")) == []


def test_a_flow_names_them_after_turns_and_a_retry_adds_to_them(tmp_path: Path) -> None:
    """The first attempt of the first agent dies; both are in one file."""
    (tmp_path / "two.at").write_text(FLOW.replace("FAKE", str(FAKE)))
    folder = run(tmp_path, "two.at")

    assert sorted(path.name for path in folder.glob("*-*.jsonl")) == [
        "pi-stream.first#1.jsonl",
        "pi-stream.second#1.jsonl",
    ]
    assert len(prompts(folder / "pi-stream.first#1.jsonl")) == 2
    assert len(prompts(folder / "pi-stream.second#1.jsonl")) == 1
