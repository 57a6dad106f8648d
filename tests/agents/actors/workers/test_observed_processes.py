"""A system of several processes, looked into over HTTP and corrected while it runs."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from http_clients import client
from nats_servers import NatsServer
from worker_processes import processes, until

pytestmark = pytest.mark.long

AGENTS = """
from coterie import AgentProcess, Correction, EvalAgent

class Writer(AgentProcess):
    async def on_start(self):
        self.most = 1000

    async def handle(self, message):
        words = min(int(message.payload["words"]), self.most)
        await self.emit_eval("answer", {"words": words})
        return self.reply({"words": words})

    async def on_correction(self, message):
        self.most = message.payload["payload"]

class Judge(EvalAgent):
    async def on_eval_event(self, event):
        if event.payload["words"] == 666:
            return Correction(kind="halt", reason="beastly")
        if event.payload["words"] > 500:
            return Correction(kind="nudge", reason="be brief", payload=100)
"""
SYSTEM = """
transport: {{ type: nats, servers: "{nats}", heartbeat_timeout: 5 }}
supervision:
  name: root
  backoff_base: 0.1
  children:
    - agent: {{ name: writer, type: authors.Writer, process: w }}
    - {{ type: eval_agent, name: judge, class: authors.Judge }}
    - {{ type: topology_server, name: topo, config: {{ port: {topo}, token_env: TOPO_TOKEN }} }}
    - {{ type: http_gateway, name: api, config: {{ port: {api} }} }}
"""


def test_an_agent_in_a_worker_is_shown_corrected_and_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a killed worker's agent is known within the heartbeat; a halt is final."""
    monkeypatch.setenv("TOPO_TOKEN", "a-token-for-tests")
    topo, api = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    (tmp_path / "authors.py").write_text(AGENTS)

    async def scene(start: Any) -> None:
        async with client() as http, client(headers={"authorization": "Bearer a-token-for-tests"}) as trusted:

            async def write(words: int) -> tuple[int, Any]:
                answer = await http.post(f"{api}/agents/writer", json={"words": words})
                return answer.status_code, answer.json()

            async def state(wanted: str) -> None:
                async with asyncio.timeout(60):
                    while (await trusted.get(f"{topo}/agents/writer")).json()["state"] != wanted:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)

            system = start("run")
            await until(lambda: "supervisor root started" in system.text)
            assert (await trusted.get(f"{topo}/health")).json() == {"status": "degraded", "not_running": ["writer"]}
            worker = start("run", "-p", "w")
            await state("running")
            assert await write(700) == (200, {"words": 700})
            await until(lambda: "judge corrected writer (nudge)" in system.text)
            async with asyncio.timeout(60):  # the correction goes ahead of messages, but over the network
                while await write(700) != (200, {"words": 100}):
                    pass
            worker.send_signal(signal.SIGKILL)
            await state("absent")
            assert (await write(700))[0] == 502
            start("run", "-p", "w")
            await state("running")
            assert await write(700) == (200, {"words": 700})
            restarted = await trusted.post(f"{topo}/agents/writer/restart")
            assert restarted.json()["state"] == "running"
            metrics = (await trusted.get(f"{topo}/metrics")).text
            assert 'coterie_node_state{kind="agent",name="writer",state="running"} 1.0' in metrics
            await write(666)
            await state("stopped")
            assert await write(700) == (503, {"error": "agent 'writer' has stopped: shutdown", "kind": "stopped"})
            system.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(system.wait) == 0

    with NatsServer() as server, processes(tmp_path) as start:
        ports = [each.rpartition(":")[2] for each in (topo, api)]
        (tmp_path / "topology.yaml").write_text(SYSTEM.format(nats=server.url, topo=ports[0], api=ports[1]))
        asyncio.run(scene(start))
