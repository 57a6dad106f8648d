"""`coterie run` of a system with a gateway, as a process: its journal, its signals, its death."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Place
from free_ports import free_port
from gateways import events

AGENTS = '''
import asyncio

from coterie import AgentProcess, Message


class Teller(AgentProcess):
    """Streams as many pieces as asked for, then waits for `go` to exist."""

    async def handle(self, message: Message) -> Message | None:
        for n in range(1, int(message.payload.get("to", 3)) + 1):
            await self.stream({"n": n})
        if "wait" in message.payload:
            await asyncio.sleep(600)
        return self.reply({"done": True})
'''
TEAM = """
topology team : [pipeline] {
  agent first { extensions { coterie { command: ["sh", "-c", "echo one; cat more; echo two"] } } }
  agent second { extensions { coterie { command: ["sh", "-c", "echo three"] } } }
  flow { first -> second }
}
"""
SYSTEM = """
supervision:
  name: root
  children:
    - agent: {{name: teller, type: staff.Teller, shutdown: 0.2}}
    - flow: {{name: team, source: team.at}}
    - name: api
      type: http_gateway
      config: {{port: {port}}}
"""
SSE = {"accept": "text/event-stream"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a system, its agents and its team."""
    (tmp_path / "staff.py").write_text(AGENTS)
    (tmp_path / "team.at").write_text(TEAM)
    os.mkfifo(tmp_path / "more")
    (tmp_path / "topology.yaml").write_text(SYSTEM.format(port=free_port()))
    return Place(tmp_path)


@contextlib.contextmanager
def started(place: Place, *words: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """`coterie` once the root supervisor runs, and a client of its gateway; killed in the end."""
    process = place.start(*words, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    port = (place.folder / "topology.yaml").read_text().partition("config: {port: ")[2].partition("}")[0]
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "supervisor root started" in line:
                break
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def read(answer: httpx.Response, until: str, count: int = 1) -> list[dict[str, str]]:
    """The events of a stream, to the *count*-th of the kind *until*."""
    lines: list[str] = []
    for line in answer.iter_lines():
        lines.append(line)
        found = events(lines)
        if not line and sum(one["event"] == until for one in found) == count:
            return found
    return events(lines)


def records(place: Place) -> list[dict[str, Any]]:
    """The records of the system's own journal."""
    [journal] = (place.folder / ".coterie" / "runs").glob("*/journal.jsonl")
    return [json.loads(line) for line in journal.read_text().splitlines()]


def test_the_cursor_of_a_stream_is_the_seq_of_its_records(place: Place) -> None:
    """Pieces and replies are in the journal; a team streams what its agents say; the entry has a sentence."""
    with started(place, "run", "-t", "topology.yaml") as (process, client):
        found = read(client.post("/agents/teller", json={"to": 3}, headers=SSE), "reply")
        seqs = [int(one["id"].partition("-")[0]) for one in found[1:]]
        assert [json.loads(one["data"]) for one in found[1:]] == [{"n": 1}, {"n": 2}, {"n": 3}, {"done": True}]
        again = client.post("/agents/teller", headers={**SSE, "last-event-id": found[2]["id"]})
        assert read(again, "reply")[1:] == found[3:]
        with client.stream("POST", "/agents/team", json={"prompt": "Go"}, headers=SSE) as answer:
            lines = answer.iter_lines()
            begun = [next(lines)]
            while '"one' not in begun[-1]:
                begun.append(next(lines))
            (place.folder / "more").write_text("")  # a pipe: `two` comes once `one` has arrived
            team = events([*begun, *lines])
        said = [json.loads(one["data"]) for one in team if one["event"] == "piece"]
        assert [one["text"].split() for one in said if one["text"].strip()] == [["one"], ["two"], ["three"]]
        assert {one["attempt"].partition("/")[0] for one in said} == {"team#1.1"}
        assert json.loads(team[-1]["data"])["text"].strip() == "three"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
    of_teller = [one["seq"] for one in records(place) if one["topic"].startswith("reply.") and one["agent"] == "teller"]
    assert of_teller == seqs
    assert "teller ended its streamed reply" in place.look("inspect", "last", "timeline").out


@pytest.mark.slow
def test_an_agent_in_a_worker_streams(place: Place) -> None:
    """Its pieces go to the journal of the system in order; when its worker is killed, the stream ends with that."""
    ports = [free_port() for _ in range(2)]
    addresses = ", ".join(
        f"{name}: 'tcp://127.0.0.1:{port}'" for name, port in zip(("pub_addr", "sub_addr"), ports, strict=True)
    )
    file = place.folder / "topology.yaml"
    text = file.read_text().replace("staff.Teller", "staff.Teller, process: worker")
    file.write_text(f"transport: {{type: zmq, start_proxy: true, heartbeat_timeout: 5, {addresses}}}\n{text}")
    worker = place.start("run", "-t", "topology.yaml", "-p", "worker")
    try:
        with started(place, "run", "-t", "topology.yaml") as (process, client):
            found = read(client.post("/agents/teller", json={"to": 50}, headers=SSE), "reply")
            assert [json.loads(one["data"]) for one in found[1:]] == [*({"n": n} for n in range(1, 51)), {"done": True}]
            with client.stream("POST", "/agents/teller", json={"to": 2, "wait": 1}, headers=SSE) as answer:
                lines = answer.iter_lines()
                while '{"n":2}' not in next(lines):
                    pass
                worker.kill()
                rest = events(list(lines))
            assert json.loads(rest[-1]["data"])["kind"] == "lost"
            assert client.post("/agents/teller", json={}).status_code == 502
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    finally:
        worker.kill()
        worker.communicate()


def test_a_signal_ends_open_streams(place: Place) -> None:
    """Long before the shutdown time, without an event that says so, and the exit status is 0."""
    file = place.folder / "topology.yaml"
    file.write_text(f"{file.read_text()}      shutdown: 600\n")
    with (
        started(place, "run", "-t", "topology.yaml") as (process, client),
        client.stream("POST", "/agents/teller", json={"to": 1, "wait": 1}, headers=SSE) as answer,
    ):
        assert [one["event"] for one in read(answer, "piece")] == ["open", "piece"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_stream_continues_after_a_kill(place: Place) -> None:
    """What the journal has follows the cursor, and then that the ask was lost; nothing is repeated."""
    with started(place, "run", "-t", "topology.yaml") as (process, client):
        with client.stream("POST", "/agents/teller", json={"to": 3, "wait": 1}, headers=SSE) as answer:
            found = read(answer, "piece", 3)
        process.kill()
        process.wait()
    with started(place, "resume", "last") as (_, client):
        again = client.post("/agents/teller", headers={**SSE, "last-event-id": found[1]["id"]})
        assert [json.loads(one["data"]) for one in read(again, "error")[1:3]] == [{"n": 2}, {"n": 3}]
        assert json.loads(events(again.text.split("\n"))[-1]["data"])["kind"] == "lost"


@pytest.mark.slow
def test_a_system_says_where_its_gateway_is_and_that_it_waits_for_a_worker(place: Place) -> None:
    """At once, with the command that starts one; in the journal too, until a worker comes."""
    ports = [free_port() for _ in range(3)]
    addresses = f"pub_addr: 'tcp://127.0.0.1:{ports[0]}', sub_addr: 'tcp://127.0.0.1:{ports[1]}'"
    text = SYSTEM.format(port=ports[2]).replace(
        "    - agent: {name: teller, type: staff.Teller",
        "    - agent: {name: teller, process: worker, type: staff.Teller",
    )
    (place.folder / "topology.yaml").write_text(f"transport: {{type: zmq, start_proxy: true, {addresses}}}\n{text}")
    process = place.start("run", env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "http_gateway api started" in said and "without a worker" in said:
                break
        assert f"http_gateway api started at http://127.0.0.1:{ports[2]}\n" in said
        assert "teller cannot start without a worker: `coterie run FILE -p worker` starts one\n" in said
    finally:
        process.kill()
        process.communicate()
