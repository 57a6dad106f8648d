"""The end of the owner of a real loop: what was accepted stands, and the rest of the turn is done at the resume."""

import json
import os
import signal
import subprocess
from pathlib import Path

import preforked
import pytest

TOPOLOGY = """
completion = "done"
[[role]]
id = "maker"
emits = ["made"]
prompt = "Make it."
[[role]]
id = "closer"
emits = ["done"]
prompt = "Close it."
[handoff]
"loop.start" = ["maker"]
"made" = ["closer"]
"""
AGENT = """#!/bin/sh
cat >>prompts
case $AUTOLOOP_ITERATION in 1) event=made ;; *) event=done ;; esac
"$AUTOLOOP_BIN" emit $event >/dev/null
if [ "$AUTOLOOP_ITERATION" = "$(cat slow)" ] && [ "$COTERIE_ATTEMPT" = 1 ]; then echo up >started; exec sleep 600; fi
echo "work of $AUTOLOOP_ITERATION"
"""


@pytest.mark.slow
@pytest.mark.parametrize("slow", [1, 2])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_iteration_that_had_emitted_is_retried(tmp_path: Path, ending: signal.Signals, slow: int) -> None:
    """Ctrl-C and SIGTERM do what a kill does: the event stands, the turn is retried, then the run ends or goes on."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "topology.toml").write_text(TOPOLOGY)
    settings = "review.enabled = false\nbackend.kind = 'command'\nbackend.prompt_mode = 'stdin'\n"
    (tmp_path / "loop" / "autoloops.toml").write_text(settings + f"backend.command = '{tmp_path}/agent.sh'\n")
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "agent.sh").chmod(0o755)
    (tmp_path / "slow").write_text(f"{slow}")
    os.mkfifo(tmp_path / "started")
    with subprocess.Popen([*preforked.REAL, "run", "loop", "go"], cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        with (tmp_path / "started").open() as started:
            assert started.read() == "up\n"
        running.send_signal(ending)
        assert running.wait(timeout=300) == (-9 if ending == signal.SIGKILL else 130)

    ended = preforked.run("resume", "last", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "work of 2"
    [path] = tmp_path.glob(".autoloop/runs/*/journal.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    began = [(r["event"], r["role"]) for r in records if r["topic"] == "iteration.start"]
    assert began == [("loop.start", "maker"), ("made", "closer")]
    assert [(r["turn"], r["text"]) for r in records if r["topic"] == "turn.finished"] == [
        ("iteration#1", "work of 1\n"),
        ("iteration#2", "work of 2\n"),
    ]
    assert not [r for r in records if r["topic"] == "turn.cancelled"]
    assert records[-1]["reason"] == "completion_event"
    told = f"must not be repeated: `{('made', 'done')[slow - 1]}`. Do the rest of the work"
    assert told in (tmp_path / "prompts").read_text()
