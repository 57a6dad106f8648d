"""`--log-format json`: one line for each event, with its time."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from free_ports import free_port

from coterie.interfaces.cli import app, output

TEAM = """topology t : [pipeline] {
  agent a { extensions { coterie { command: ["sh", "-c", "echo hello"] } } }
  agent b { retry: 0 extensions { coterie { command: ["sh", "-c", "exit 3"] } } }
  flow { a -> b }
}
"""


def events(text: str) -> list[dict[str, Any]]:
    """The events of *text*; every line is one."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_writes_an_event_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With absolute times, the run, the turn, and a level; the next command writes text again."""
    (tmp_path / "t.at").write_text(TEAM)
    monkeypatch.chdir(tmp_path)
    began = datetime.now(UTC).timestamp()
    try:
        assert app.main(["run", "t.at", "--log-format", "json"]) == 1
    finally:
        output.choose_log("text")
    found = events(capsys.readouterr().err)
    runs = [one for one in found if "run" in one]

    assert [one["event"] for one in runs][:3] == ["run.started", "turn.started", "turn.finished"]
    assert {"attempt.failed", "turn.failed"} <= {one["event"] for one in runs}
    assert next(one for one in runs if one["event"] == "turn.failed")["level"] != "info"
    assert [one["seq"] for one in runs] == sorted(one["seq"] for one in runs)
    assert next(one for one in runs if one["event"] == "turn.started")["turn"] == "a#1"
    assert found[-1]["event"] == "notice"
    times = [datetime.fromisoformat(one["time"]).timestamp() for one in found]
    assert times == sorted(times)
    assert began - 1 <= times[0] <= datetime.now(UTC).timestamp() + 1
    output.complain("as ever")
    assert capsys.readouterr().err == "as ever\n"


def test_a_gateway_is_watched_and_drains(tmp_path: Path) -> None:
    """A request is an event; `/health`, `/ready` and `/metrics` answer; SIGTERM ends it in order, with status 0."""
    port = free_port()
    (tmp_path / "crew.py").write_text(
        "from coterie import AgentProcess\n\n\nclass Echo(AgentProcess):\n"
        "    async def handle(self, message):\n        return self.reply({'said': message.payload})\n"
    )
    (tmp_path / "topology.yaml").write_text(
        "supervision:\n  name: root\n  children:\n    - agent: {name: echo, type: crew.Echo}\n"
        f"    - type: http_gateway\n      name: api\n      config: {{port: {port}, "
        "routes: [{path: /echo, agent: echo, method: POST}, {path: /metrics/own, agent: echo, method: GET}]}\n"
    )
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = [sys.executable, "-m", "coterie", "run", "--log-format", "json"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            told = []
            while '"root"' not in (line := process.stderr.readline()):
                told.append(line)
            at = f"http://127.0.0.1:{port}"
            assert httpx.get(f"{at}/health", timeout=60).json() == {"status": "ok"}
            assert httpx.get(f"{at}/ready", timeout=60).json() == {"ready": True}
            assert httpx.post(f"{at}/echo", json={"n": 1}, timeout=60).json() == {"said": {"n": 1}}
            counted = 'coterie_gateway_requests_total{gateway="api",status="200"} 3.0'
            assert counted in httpx.get(f"{at}/metrics", timeout=60).text
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            found = events(process.stderr.read())
            assert process.wait() == 0
            assert time.monotonic() - began < 20
        finally:
            process.kill()

    requests = [one for one in found if one["event"] == "http.request"]
    assert [(one["method"], one["path"], one["status"]) for one in requests] == [
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
        ("POST", "/echo", 200),
        ("GET", "/metrics", 200),
    ]
    assert all(one["client"] == "127.0.0.1" and one["milliseconds"] >= 0 for one in requests)
    assert {one["name"] for one in found if one["event"] == "actor.stopped"} == {"root", "api", "echo"}
