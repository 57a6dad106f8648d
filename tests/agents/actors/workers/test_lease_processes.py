"""The lease of real workers, that are cut off, frozen or busy: an agent never works in two processes at once."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_address
from nats_servers import NatsServer
from tcp_gate import TcpGate
from worker_processes import CoterieProcess, processes, state_of, until

from coterie.agents.actors.runtime import Runtime
from coterie.errors import ActorError

AGENTS = '''
import asyncio
import os
import time

from coterie import AgentProcess


class Agent(AgentProcess):
    """Writes a line into a file with each step of its work."""

    async def on_stop(self):
        with open("stopped", "w"):
            pass

    async def handle(self, message):
        for _ in range(message.payload.get("busy", 0)):
            self.note()
            time.sleep(0.05)
        for _ in range(message.payload.get("steps", 1)):
            self.note()
            await asyncio.sleep(0.05)
        return self.reply({"pid": os.getpid()})

    def note(self):
        with open("steps.log", "a") as log:
            log.write(f"{os.getpid()}\\n")
'''

SILENT = 4
FAULTS = ("cut off", "frozen", "busy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, whose modules are imported by this process, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("steps", None)
    (tmp_path / "steps.py").write_text(AGENTS)
    yield tmp_path
    sys.modules.pop("steps", None)


class Places(ExitStack):
    """A transport for all processes, and the same one behind gates for the process that is cut off."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.gates: list[TcpGate] = []
        more = f"heartbeat_timeout: {SILENT}, connect_timeout: 60"
        if kind == "zmq":
            pytest.importorskip("zmq")
            near = free_address(), free_address()
            far = tuple(f"tcp://{self.gate(address)}" for address in near)
            self.near, self.far = (
                f"{{type: zmq, start_proxy: true, {more}, pub_addr: '{pub}', sub_addr: '{sub}'}}"
                for pub, sub in (near, far)
            )
            return
        url = self.enter_context(NatsServer()).url
        self.near, self.far = (
            f"{{type: nats, jetstream: {str(kind == 'jetstream').lower()}, {more}, servers: '{server}'}}"
            for server in (url, f"nats://{self.gate(url)}")
        )

    def gate(self, target: str) -> str:
        gate = TcpGate(target)
        self.gates.append(gate)
        self.callback(gate.end)
        return gate.place


def write(folder: Path, name: str, transport: str) -> None:
    (folder / name).write_text(
        f"transport: {transport}\n"
        "supervision:\n  name: root\n  backoff_base: 0.1\n  max_restarts: 100\n  children:\n"
        "    - agent: {name: a, type: steps.Agent, process: w}\n"
    )


def workers(folder: Path) -> list[int]:
    """The processes in which the agent has worked, in order; one that worked again after another is there twice."""
    path = folder / "steps.log"
    return [int(pid) for pid, _ in groupby(path.read_text().split() if path.exists() else ())]


async def scene(folder: Path, start: Any, places: Places, fault: str, wait: float) -> CoterieProcess:
    """A worker fails at work, the spare takes over, the fault ends; return the worker."""
    write(folder, "topology.yaml", places.near)
    write(folder, "far.yaml", places.far)
    async with Runtime.from_config("topology.yaml") as runtime:
        worker: CoterieProcess = start("run", "-t", "far.yaml", "-p", "w")
        await until(lambda: state_of(runtime, "a") == "running")
        start("run", "-p", "w")
        traffic = [asyncio.create_task(ask(runtime, {"steps": 4 if fault == "busy" else 400}))]
        await until(lambda: workers(folder) == [worker.pid])
        await asyncio.sleep(wait)  # the fault comes at any time between two heartbeats
        if fault == "cut off":
            for gate in places.gates:
                gate.close()
        elif fault == "frozen":
            worker.send_signal(signal.SIGSTOP)
        else:
            traffic.append(asyncio.create_task(ask(runtime, {"busy": 600})))
        while len(workers(folder)) < 2:
            traffic.append(asyncio.create_task(ask(runtime, {})))
            await asyncio.sleep(0.1)
        for gate in places.gates:
            gate.open()
        if worker.poll() is None:
            worker.send_signal(signal.SIGCONT)
        for _ in range(20):
            await ask(runtime, {})
            await asyncio.sleep(0.1)
        for task in traffic:
            task.cancel()
    first, second = workers(folder)
    assert first == worker.pid != second != os.getpid()
    return worker


async def ask(runtime: Runtime, payload: dict[str, int]) -> None:
    with suppress(ActorError):
        await runtime.ask("a", payload, timeout=10)


def play(folder: Path, kind: str, fault: str, wait: float) -> CoterieProcess:
    with processes(folder) as start, Places(kind) as places:
        return asyncio.run(asyncio.wait_for(scene(folder, start, places, fault, wait), 300))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fault"), [("zmq", "cut off"), ("nats", "busy"), ("jetstream", "frozen")])
def test_an_agent_never_works_in_two_processes(kind: str, fault: str, folder: Path) -> None:
    """A worker that is cut off stops its agent; one that is frozen or busy is killed, and a line says why."""
    worker = play(folder, kind, fault, 0.0)
    assert ("was killed, because it did not run" in worker.text) == (fault != "cut off"), worker.text


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_an_agent_never_works_in_two_processes_at_any_moment(number: int, folder: Path) -> None:
    """All carriers and faults."""
    kind = ("zmq", "nats", "jetstream")[number % 3]
    play(folder, kind, FAULTS[number // 3 % 3], random.Random(number).uniform(0.0, 1.5))


@pytest.mark.slow
def test_agents_end_with_their_supervisors_and_its_broker(folder: Path) -> None:
    """The broker is in the supervisors' process, so the worker does not even hear itself."""
    with processes(folder) as start, Places("zmq") as places:
        write(folder, "topology.yaml", places.near)
        worker, supervisors = start("run", "-p", "w"), start("run")

        async def main() -> None:
            await until(lambda: "a started in w" in supervisors.text)
            supervisors.send_signal(signal.SIGKILL)
            await until((folder / "stopped").exists)
            assert worker.poll() is None, worker.text

        asyncio.run(main())
