"""The page's affinity and production examples, run for real over NATS with agents of the test."""

import asyncio
import signal
from pathlib import Path

import pytest
from nats_servers import NatsServer
from worker_processes import processes, until

PAGE = Path(__file__).parents[3] / "data" / "systems" / "page"

AGENTS = """
import asyncio
import os

from coterie import AgentProcess


class Named(AgentProcess):
    async def handle(self, message):
        self.state["asked"] = self.state.get("asked", 0) + 1
        await self.checkpoint()
        return self.reply({"text": f"{self.name} {self.state['asked']} {os.getpid()}"})


class Orchestrator(AgentProcess):
    others = ()

    async def on_start(self):
        self.start_task(self.work())

    async def work(self):
        for round in range(2):
            texts = [(await self.ask(name, {"prompt": "go"}, timeout=120)).payload["text"] for name in self.others]
            with open("unfinished", "w") as file:
                file.write("\\n".join(texts))
            os.rename("unfinished", f"round{round}")


WebResearcher = ApiCaller = DbWriter = Summarizer = Named
"""


def outcome(folder: Path, round: int) -> list[list[str]]:
    return [line.split() for line in (folder / f"round{round}").read_text().splitlines()]


def test_the_affinity_example_runs_as_two_processes(tmp_path: Path) -> None:
    """As printed, with the transport of the command line."""
    text = AGENTS.replace("others = ()", 'others = ("researcher",)')
    (tmp_path / "myapp.py").write_text(text)
    (tmp_path / "topology.yaml").write_text((PAGE / "affinity.yaml").read_text())
    with NatsServer() as server, processes(tmp_path) as start:
        options = ("--transport", "nats", "--nats-url", server.url)
        worker = start("run", "--topology", "topology.yaml", "--process", "worker", *options)
        supervisors = start("run", "--topology", "topology.yaml", *options)
        asyncio.run(until((tmp_path / "round1").exists))
        assert outcome(tmp_path, 1) == [["researcher", "2", str(worker.pid)]]
        for process in (worker, supervisors):
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, process.text


@pytest.mark.long
def test_the_production_example_runs_with_jetstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed but for the path of the database; the worker is killed, and its agents come back with their state."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    names = ("web_researcher", "api_caller", "db_writer", "summarizer")
    (tmp_path / "myapp").mkdir()
    (tmp_path / "myapp" / "__init__.py").touch()
    (tmp_path / "myapp" / "agents.py").write_text(AGENTS.replace("others = ()", f"others = {names}"))
    text = (PAGE / "production.yaml").read_text()
    assert "/data/agency_state.db" in text
    (tmp_path / "production.yaml").write_text(text.replace("/data/agency_state.db", "agency_state.db"))
    with NatsServer() as server, processes(tmp_path) as start:
        options = ("--topology", "production.yaml", "--nats-url", server.url)
        supervisors = start("run", *options)
        worker = start("run", *options, "--process", "worker")
        asyncio.run(until((tmp_path / "round1").exists))
        pids = [str(worker.pid)] * 3 + [str(supervisors.pid)]
        assert outcome(tmp_path, 1) == [[name, "2", pid] for name, pid in zip(names, pids, strict=True)]
        worker.send_signal(signal.SIGKILL)
        asyncio.run(until(lambda: "execution_sup restarts api_caller and db_writer" in supervisors.text))
        assert "research_sup restarts web_researcher" in supervisors.text
        assert "web_researcher is gone: its worker 'worker' was lost" in supervisors.text
        worker = start("run", *options, "--process", "worker")
        asyncio.run(until(lambda: "db_writer started again (incarnation 2) in worker" in supervisors.text))
        for process in (worker, supervisors):
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, process.text
