"""Turns of a flow that ask agents in a worker: the worker and the process of the run are killed, the run is resumed."""

import asyncio
import re
import signal
from pathlib import Path

import pytest
from nats_servers import NatsServer
from worker_processes import CoterieProcess, log_of, processes, until, write_system

REVIEW = """
topology review : [pipeline] {
  agent first { extensions { coterie { ask: "a" } } }
  agent second { extensions { coterie { ask: "b" } } }
  flow { first -> second }
}
"""

TURNS = """
import asyncio
from pathlib import Path

from coterie import AgentProcess


class Agent(AgentProcess):
    async def handle(self, message):
        self.note("begin", message.payload["turn"])
        while not Path(f"go-{self.name}").exists():
            await asyncio.sleep(0.02)
        self.note("end", message.payload["turn"])
        return self.reply({"text": f"{self.name} did it"})

    def note(self, word, turn):
        with open(f"{self.name}.log", "a") as log:
            log.write(f"{word} {turn.rpartition('/')[2]}\\n")
"""


def wait_for(folder: Path, name: str, lines: int) -> None:
    """Wait until the agent *name* has noted so many lines."""
    asyncio.run(until(lambda: len(log_of(folder, name)) >= lines))


@pytest.mark.long
@pytest.mark.parametrize("jetstream", ["false", "true"])
def test_a_run_survives_the_death_of_a_worker_and_its_own(tmp_path: Path, jetstream: str) -> None:
    """Each attempt that was cut off is made again, when its agent is back; nothing that was answered is repeated."""
    with NatsServer() as server, processes(tmp_path) as start:
        transport = f"{{type: nats, servers: '{server.url}', jetstream: {jetstream}, heartbeat_timeout: 5}}"
        path = write_system(tmp_path, transport, "a@w", "b@w", more="entry: review")
        path.write_text(path.read_text() + "    - flow: {name: review, source: review.at}\n")
        (tmp_path / "review.at").write_text(REVIEW)
        (tmp_path / "staff.py").write_text(TURNS)
        first: CoterieProcess = start("run", "-p", "w")
        run: CoterieProcess = start("run", "-t", "topology.yaml", "look at it")
        wait_for(tmp_path, "a", 1)
        first.send_signal(signal.SIGKILL)
        asyncio.run(until(lambda: "was cut off: lost" in run.text))
        start("run", "-p", "w")
        wait_for(tmp_path, "a", 2)
        (tmp_path / "go-a").touch()
        wait_for(tmp_path, "b", 1)
        run.send_signal(signal.SIGKILL)
        run.wait()
        found = re.search(r"run (\S+) of the team root", run.text)
        assert found is not None
        (tmp_path / "go-b").touch()
        resumed = start("resume", found[1])
        assert resumed.wait(120) == 0, resumed.text
        assert "b did it" in resumed.text
        assert log_of(tmp_path, "a") == ["begin first#1.1", "begin first#1.2", "end first#1.2"]
        assert set(log_of(tmp_path, "b")) == {
            "begin second#1.1",
            "end second#1.1",  # the worker had not yet missed its supervisors
            "begin second#1.2",
            "end second#1.2",
        }


FRONT = """
topology front : [pipeline] {
  agent only { extensions { coterie { ask: "review" } } }
  flow { only }
}
"""

WORK = """
topology review : [pipeline] {
  agent first { extensions { coterie { ask: "c" } } }
  agent second {
    extensions { coterie { command: ["sh", "-c", "echo begin >> second.log; test -e go || sleep 60; echo 7"] } }
  }
  flow { first -> second }
}
"""


@pytest.mark.long
def test_a_flow_in_a_worker_goes_on_when_its_run_is_resumed(tmp_path: Path) -> None:
    """Its journal is on the worker's disk; the attempt that asks again gets the turn that is open there."""
    with NatsServer() as server, processes(tmp_path) as start:
        path = write_system(
            tmp_path, f"{{type: nats, servers: '{server.url}', heartbeat_timeout: 5}}", "c@", more="entry: front"
        )
        teams = (
            "    - flow: {name: review, source: review.at, process: w}\n    - flow: {name: front, source: front.at}\n"
        )
        path.write_text(path.read_text() + teams)
        (tmp_path / "review.at").write_text(WORK)
        (tmp_path / "front.at").write_text(FRONT)
        worker: CoterieProcess = start("run", "-p", "w")
        run: CoterieProcess = start("run", "-t", "topology.yaml", "look at it")
        wait_for(tmp_path, "second", 1)
        worker.send_signal(signal.SIGKILL)
        found = re.search(r"run (\S+) of the team root@w", worker.text)
        assert found is not None
        asyncio.run(until(lambda: "attempt 1 of only#1 was cut off: lost" in run.text))
        (tmp_path / "go").touch()
        resumed: CoterieProcess = start("resume", found[1])
        assert run.wait(120) == 0, run.text
        assert "attempt 1 of only#1 was cut off: lost" in run.text
        assert "completed" in run.text
        assert log_of(tmp_path, "c") == ["begin  1", "end  1"]
        assert "review#2" not in resumed.text
