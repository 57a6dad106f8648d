"""A process with agents that note each message that they have handled; killed by tests.

    python wire_worker.py '{"plan": {…}, "system": "…", "log": "FILE", "agents": {"NAME": {"pause": 0.001}}}'

Prints `ready` when it is connected. The log has a line `AGENT NUMBER ATTEMPT` for each message, when it is handled.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.transports.choose import transport_for
from coterie.team.planning.system import TransportPlan


class Noting(AgentProcess):
    """Waits a moment, or for the file *gate*, notes the message, replies."""

    def __init__(self, name: str, log: int, pause: float = 0.0, every: int = 1, gate: str = "") -> None:
        super().__init__(name)
        self.log, self.pause, self.every, self.count, self.gate = log, pause, every, 0, gate

    async def handle(self, message: Message) -> Message:
        self.count += 1
        if message.payload.get("kill"):
            os.write(self.log, f"{self.name} {message.payload['n']} {message.attempt}\n".encode())
            os.kill(os.getpid(), 9)
        if self.pause and self.count % self.every == 0:
            await asyncio.sleep(self.pause)
        if self.gate:
            Path(f"{self.gate}.begun").touch()  # noqa: ASYNC240 - another process looks for it
            while not Path(self.gate).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
                await asyncio.sleep(0.02)
        os.write(self.log, f"{self.name} {message.payload['n']} {message.attempt}\n".encode())
        return self.reply(message.payload)


async def main(given: Mapping[str, Any]) -> None:
    plan = msgspec.convert(given["plan"], TransportPlan)
    node = ActorNode(transport=transport_for(plan, system=given["system"], process="w"))
    await node.start()
    log = os.open(given["log"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    for name, options in given["agents"].items():
        factory = lambda name=name, options=options: Noting(name, log, **options)  # noqa: E731
        await AgentChild(ChildSpec(name=name, factory=factory), node).start(1)
    print("ready", flush=True)
    await asyncio.Event().wait()


class Handled(NamedTuple):
    """A line of the log."""

    agent: str
    number: int
    attempt: int


class Worker:
    """The process, seen from a test."""

    def __init__(
        self, plan: TransportPlan, system: str, log: Path, agents: Mapping[str, Any], prefix: tuple[str, ...] = ()
    ) -> None:
        given = {"plan": msgspec.to_builtins(plan), "system": system, "log": str(log), "agents": agents}
        self._command = [*prefix, sys.executable, __file__, json.dumps(given)]
        self.log = log
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE)

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def written(self) -> int:
        """Bytes of the log."""
        return self.log.stat().st_size if self.log.exists() else 0

    def handled(self) -> list[Handled]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [Handled(agent, int(number), int(attempt)) for agent, number, attempt in map(str.split, lines)]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
