"""Workers as processes of their own: `coterie run -t FILE -p NAME`, killed, stopped and asked."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.actors.runtime import Runtime

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
    """`coterie ARGUMENTS` in *folder*."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder / f"process-{len(list(folder.glob('process-*')))}.txt"
        with self.output.open("w") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "coterie", *arguments],
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COTERIE_STATE_DIR": "", "PYTHONUNBUFFERED": "1"},
            )

    def send_signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, timeout: float = 120) -> int:
        return self.popen.wait(timeout)

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
            if one.popen.poll() is None:
                one.send_signal(signal.SIGKILL)
            one.wait()


async def until(condition: Any, seconds: float = 120.0) -> None:
    """Wait until *condition()* is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


def state_of(runtime: Runtime, name: str) -> str:
    """The state of the node *name*."""
    return next(node.state for node in runtime.describe() if node.name == name)


def log_of(folder: Path, name: str) -> list[str]:
    """What the agent *name* has noted."""
    path = folder / f"{name}.log"
    return path.read_text().splitlines() if path.exists() else []
