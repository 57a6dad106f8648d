"""`coterie topology show` of a system with a topology server: whether it runs, and what its nodes do."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port

from coterie import Runtime
from coterie.interfaces.cli import app

TEAM = """
supervision:
  name: {root}
  children:
    - agent: {{ name: clerk, type: test_cli_live_topology.Clerk }}
    - {{ type: dynamic_supervisor, name: pool }}
    - {{ type: topology_server, name: topo, config: {{ port: {port} }} }}
"""
ANSWERS: dict[str, Any] = {}


class Server(BaseHTTPRequestHandler):
    """Answers as the test says."""

    def do_GET(self) -> None:
        status, headers, body = ANSWERS["now"]
        ANSWERS["seen"] = (self.path, self.headers.get("Authorization"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server."""
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def show(capsys: pytest.CaptureFixture[str], port: int, root: str = "root") -> list[str]:
    Path("topology.yaml").write_text(TEAM.format(port=port, root=root))
    assert app.main(["topology", "show", "topology.yaml"]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def node(name: str, state: str = "running", **others: Any) -> dict[str, Any]:
    return {"name": name, "kind": "agent", "state": state, "restarts": 0, **others}


def test_a_running_system_shows_its_state(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """States other than running, restarts, and agents that were spawned."""
    helper = node("helper", type="shop.Helper")
    children = [node("clerk", "waiting", restarts=2), node("pool", children=[helper]), node("topo")]
    ANSWERS["now"] = 200, {}, json.dumps({"root": node("root", children=children)}).encode()

    lines = show(capsys, port)

    assert lines[0] == "Coterie Topology: topology.yaml  (live)"
    assert "├── clerk  test_cli_live_topology.Clerk  [waiting]  restarted: 2" in lines
    assert "│   └── helper  shop.Helper" in lines
    assert f"└── topo   http://127.0.0.1:{port}" in lines
    assert app.main(["topology", "show", "--json", "topology.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["live"] is True


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b'{"root": {"name": "another", "state": "running"}}'),
        (404, {}, b'{"error": "Not Found"}'),
    ],
)
def test_another_server_on_the_port_is_not_the_system(
    answer: Any, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a system with another root."""
    ANSWERS["now"] = answer

    assert show(capsys, port)[0] == "Coterie Topology: topology.yaml  (runtime not running)"


def test_no_secret_is_sent(port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file could name any variable and any server; one that wants a token only shows that it runs."""
    monkeypatch.setenv("TOPO_TOKEN", "secret")
    ANSWERS["now"] = 401, {"www-authenticate": "Bearer"}, b"{}"
    Path("topology.yaml").write_text(
        TEAM.format(port=port, root="root").replace(f"port: {port}", f"port: {port}, token_env: TOPO_TOKEN")
    )

    assert app.main(["topology", "show", "topology.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "  Coterie Topology: topology.yaml  (live)"
    assert ANSWERS["seen"] == ("/topology", None)


def test_a_system_that_does_not_run_is_said_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    """The port is closed."""
    assert show(capsys, 1)[0] == "Coterie Topology: topology.yaml  (runtime not running)"


def test_the_real_server_is_understood(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """From a system that runs here."""
    from coterie import AgentProcess

    Path("topology.yaml").write_text(
        TEAM.format(port=free_port(), root="root").replace("test_cli_live_topology.Clerk", "C")
    )

    async def main() -> int:
        async with Runtime.from_config("topology.yaml", agent_classes={"C": AgentProcess}):
            return await asyncio.to_thread(app.main, ["topology", "show", "topology.yaml"])

    assert asyncio.run(main()) == 0
    assert "(live)" in capsys.readouterr().out.splitlines()[0]
