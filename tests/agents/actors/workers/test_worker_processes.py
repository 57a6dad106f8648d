"""Workers as real processes over ZeroMQ and NATS, killed and stopped at work."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from nats_servers import NatsServer
from worker_processes import log_of, processes, state_of, until, write_system

from coterie.agents.actors.declared import AgentNode, Supervisor
from coterie.agents.actors.runtime import Runtime
from coterie.errors import WorkerLost


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, whose modules are imported by this process, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("staff", None)
    yield tmp_path
    sys.modules.pop("staff", None)


def over(first: str) -> pytest.MarkDecorator:
    """Plays a test over *first*, and with `-m long` over the others."""
    others = [pytest.param(name, marks=pytest.mark.long) for name in ("nats", "zmq", "jetstream") if name != first]
    return pytest.mark.parametrize("transport", [first, *others], indirect=True)


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """A transport as a file writes it, with a broker or server of its own."""
    if request.param == "zmq":
        pytest.importorskip("zmq")
        addresses = [f"{name}: 'tcp://127.0.0.1:{free_port()}'" for name in ("pub_addr", "sub_addr")]
        yield f"{{type: zmq, start_proxy: true, heartbeat_timeout: 5, {', '.join(addresses)}}}"
    else:
        with NatsServer() as server:
            durable = str(request.param == "jetstream").lower()
            yield f"{{type: nats, servers: '{server.url}', jetstream: {durable}, heartbeat_timeout: 5}}"


@pytest.mark.slow
@over("nats")
def test_a_worker_is_killed_with_a_message_in_hand(folder: Path, transport: str) -> None:
    """It came before its supervisors. Its ask fails at once, the spare worker takes over, and nothing runs twice."""

    async def scene(start: Any) -> None:
        write_system(folder, transport, "a@w", "b@w", "c")
        first = start("run", "-p", "w")
        await until(lambda: "began" in first.text)
        async with Runtime.from_config("topology.yaml") as runtime:
            pid = (await runtime.ask("a", {"n": 1})).payload["pid"]
            assert pid == first.pid
            assert (await runtime.ask("b", {"ask": "c"})).payload["pid"] == os.getpid()
            start("run", "-p", "w")
            hanging = asyncio.create_task(runtime.ask("a", {"n": 2, "hang": 600}, timeout=60))
            await until(lambda: "begin 2 1" in log_of(folder, "a"))
            first.send_signal(signal.SIGKILL)
            with pytest.raises(WorkerLost):  # by its heartbeats: the handler hangs for ten minutes
                await hanging
            await until(lambda: state_of(runtime, "a") == "running")
            answer = (await runtime.ask("a", {"n": 3})).payload
            assert answer["text"] == "a 3"  # the count is a checkpoint, in the store of the file
            assert answer["pid"] not in (pid, os.getpid())
        assert log_of(folder, "a") == ["begin 1 1", "end 1 1", "begin 2 1", "begin 3 1", "end 3 1"]

    with processes(folder) as start:
        asyncio.run(scene(start))


@over("zmq")
def test_a_worker_is_drained_by_a_signal(folder: Path, transport: str) -> None:
    """Its agents handle what they have; what is sent meanwhile waits for the next worker."""

    async def scene(start: Any) -> None:
        write_system(folder, transport, "a@w")
        async with Runtime.from_config("topology.yaml") as runtime:
            first = start("run", "-p", "w")
            asks = [asyncio.create_task(runtime.ask("a", {"n": n, "until": "go"})) for n in range(3)]
            await until(lambda: log_of(folder, "a"))
            first.send_signal(signal.SIGTERM)
            await until(lambda: state_of(runtime, "a") == "absent")
            asks.append(asyncio.create_task(runtime.ask("a", {"n": 3})))
            second = start("run", "-p", "w")
            (folder / "go").touch()
            answers = [(await one).payload["pid"] for one in asks]
            kept = 1 if "jetstream: true" in transport else 3  # there the others are still in the stream
            assert answers == [first.pid] * kept + [second.pid] * (4 - kept)
            assert (await asyncio.to_thread(first.wait), first.text.count("crashed")) == (0, 0)

    with processes(folder) as start:
        asyncio.run(scene(start))


@pytest.mark.long
@over("zmq")
def test_workers_go_with_the_command_line_in_any_order(folder: Path, transport: str) -> None:
    """The supervisors come and go, by SIGKILL too; the worker serves the next, and another file is refused."""

    async def scene(start: Any) -> None:
        path = write_system(folder, transport, "front", "a@w", more="entry: a")
        worker = start("run", "-p", "w")
        supervisors = start("run")
        await until(lambda: "a started in w" in supervisors.text)
        second = start("run")
        assert await asyncio.to_thread(second.wait) == 1
        refusals = ("'root' is supervised by another process already", "the broker cannot bind")
        assert any(refusal in second.text for refusal in refusals)
        supervisors.send_signal(signal.SIGKILL)
        supervisors.wait()
        asked = start("run", "-t", "topology.yaml", "hello")
        assert await asyncio.to_thread(asked.wait) == 0, asked.text
        assert "a 1" in asked.text
        path.write_text(path.read_text() + "    - agent: {name: more, type: staff.Agent}\n")
        changed = start("run")
        assert await asyncio.to_thread(worker.wait) == 1
        assert "run another file than this worker 'w'" in worker.text
        changed.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(changed.wait) == 0

    with processes(folder) as start:
        asyncio.run(scene(start))


@pytest.mark.long
def test_a_tree_in_python_has_workers_by_file(folder: Path) -> None:
    """The plans of both are equal, so the worker fits; its agent is never built in this process."""

    async def scene(start: Any, url: str) -> None:
        write_system(folder, f"{{type: nats, servers: '{url}'}}", "a@w", "b")
        import staff  # beside the file

        start("run", "-p", "w")
        tree = Supervisor(
            "root", backoff_base=0.1, children=[AgentNode(staff.Agent("a"), process="w"), staff.Agent("b")]
        )
        async with Runtime(tree, transport="nats", nats_servers=url) as runtime:
            assert (await runtime.ask("b", {"ask": "a"})).payload["pid"] != os.getpid()

    with NatsServer() as server, processes(folder) as start:
        asyncio.run(scene(start, server.url))
