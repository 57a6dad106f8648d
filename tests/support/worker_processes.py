"""Workers as processes of their own: `coterie run -t FILE -p NAME`, killed, stopped and asked."""

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import preforked
import preforking
from until import soon

from coterie.agents.actors.runtime import Runtime

AGENTS = '''
import asyncio
import os
from pathlib import Path

from coterie import AgentProcess


class Agent(AgentProcess):
    """Does what the payload says, and notes what it handles in a file."""

    async def handle(self, message):
        payload = message.payload
        self.state["count"] = self.state.get("count", 0) + 1
        await self.checkpoint()
        with open(f"{self.name}.log", "a") as log:
            log.write(f"begin {payload.get('n', '')} {message.attempt}\\n")
        if "hang" in payload:
            await asyncio.sleep(payload["hang"])
        if "until" in payload:
            while not Path(payload["until"]).exists():
                await asyncio.sleep(0.02)
        if "kill" in payload:
            os.kill(os.getpid(), 9)
        if "ask" in payload:
            rest = {key: value for key, value in payload.items() if key != "ask"}
            return self.reply((await self.ask(payload["ask"], rest)).payload)
        with open(f"{self.name}.log", "a") as log:
            log.write(f"end {payload.get('n', '')} {message.attempt}\\n")
        return self.reply({"text": f"{self.name} {self.state['count']}", "pid": os.getpid()})
'''


def write_system(folder: Path, transport: str, *agents: str, more: str = "") -> Path:
    """A file with agents, each `NAME` or `NAME@PROCESS`, and their class beside it."""
    (folder / "staff.py").write_text(AGENTS)
    lines = [f"transport: {transport}", more, "plugins: {state: {type: sqlite, config: {db_path: state.db}}}"]
    lines += ["supervision:", "  name: root", "  backoff_base: 0.1", "  children:"]
    for agent in agents:
        name, _, process = agent.partition("@")
        at = f", process: {process}" if process else ""
        lines.append(f"    - agent: {{name: {name}, type: staff.Agent{at}}}")
    path = folder / "topology.yaml"
    path.write_text("\n".join(filter(None, lines)) + "\n")
    return path


class CoterieProcess:
    """`coterie ARGUMENTS` in *folder*: forked (see `preforked`), or a process of its own where that cannot be."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder / f"process-{len(list(folder.glob('process-*')))}.txt"
        environment = {**os.environ, "COTERIE_STATE_DIR": "", "PYTHONUNBUFFERED": "1"}
        with self.output.open("w") as out, open(os.devnull, "rb") as nothing:
            self._forked, self._status = None, None
            if not preforked.can_fork(environment):
                command, outputs = [*preforked.REAL, *arguments], {"stdout": out, "stderr": out}
                self._popen = subprocess.Popen(command, cwd=folder, stdin=nothing, env=environment, **outputs)
                self.pid = self._popen.pid
                return
            self._forked = socket.socket(socket.AF_UNIX)
            self._forked.connect(preforked._address())
            asked = preforking.packed(str(folder), arguments, str(folder), list(environment.items()))
            streams = [nothing.fileno(), out.fileno(), out.fileno()]
            socket.send_fds(self._forked, [preforking.NUMBER.pack(len(asked))], streams)
            self._forked.sendall(asked)
            self.pid = self._number(None)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        if self._forked is None:
            return self._popen.poll()
        return self.wait() if self._status is not None or select.select([self._forked], [], [], 0)[0] else None

    def wait(self, timeout: float = 120) -> int:
        if self._forked is None:
            return self._popen.wait(timeout)
        if self._status is None:
            self._status = self._number(timeout)
            self._forked.close()
        return self._status

    def _number(self, timeout: float | None) -> int:
        assert self._forked is not None
        self._forked.settimeout(timeout)
        return int(preforking.NUMBER.unpack(self._forked.recv(8, socket.MSG_WAITALL))[0])

    @property
    def text(self) -> str:
        return self.output.read_text()


@contextmanager
def processes(folder: Path) -> Iterator[Any]:
    """Starts processes in *folder*, and ends those that are left."""
    started: list[CoterieProcess] = []

    def start(*arguments: str) -> CoterieProcess:
        started.append(CoterieProcess(folder, *arguments))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.send_signal(signal.SIGKILL)
            one.wait()


until = partial(soon, within=120.0)
"""Wait for a state of other processes."""


def state_of(runtime: Runtime, name: str) -> str:
    """The state of the node *name*."""
    return next(node.state for node in runtime.describe() if node.name == name)


def log_of(folder: Path, name: str) -> list[str]:
    """What the agent *name* has noted."""
    path = folder / f"{name}.log"
    return path.read_text().splitlines() if path.exists() else []
