"""Ctrl-C on a real loop: it is let go of with status 130, what was accepted stands, and resuming goes on behind it."""

import json
import os
import signal
import subprocess
from pathlib import Path

import preforked

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
cat >/dev/null
case $AUTOLOOP_ITERATION in
  1) "$AUTOLOOP_BIN" emit made >/dev/null; echo up >started; exec sleep 600 ;;
  *) "$AUTOLOOP_BIN" emit done >/dev/null; echo closed ;;
esac
"""


def test_what_was_accepted_stands_over_ctrl_c(tmp_path: Path) -> None:
    """The turn that was interrupted had emitted: it is not asked again, and its event routes."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "topology.toml").write_text(TOPOLOGY)
    settings = "review.enabled = false\nbackend.kind = 'command'\nbackend.prompt_mode = 'stdin'\n"
    (tmp_path / "loop" / "autoloops.toml").write_text(settings + f"backend.command = '{tmp_path}/agent.sh'\n")
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "agent.sh").chmod(0o755)
    os.mkfifo(tmp_path / "started")
    with subprocess.Popen([*preforked.REAL, "run", "loop", "go"], cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        with (tmp_path / "started").open() as started:
            assert started.read() == "up\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=300) == 130

    ended = preforked.run("resume", "last", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    [path] = tmp_path.glob(".autoloop/runs/*/journal.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    began = [(r["event"], r["role"]) for r in records if r["topic"] == "iteration.start"]
    assert began == [("loop.start", "maker"), ("made", "closer")]
    assert [r["reason"] for r in records if r["topic"] == "run.stopped"] == ["interrupted"]
    assert [r["turn"] for r in records if r["topic"] == "turn.cancelled"] == ["iteration#1"]
    assert records[-1]["reason"] == "completion_event"
