"""Turns of a team inside a system, and the agents of the system that they ask."""

import asyncio
from pathlib import Path

import preforked
import pytest
from actor_stage import Stage, play

from coterie.agents.actors.message import Asker, Message
from coterie.agents.actors.process import AgentProcess
from coterie.errors import AskCycle

AGENTS = """
from coterie import AgentProcess

class Desk(AgentProcess):
    async def handle(self, message):
        answer = await self.ask("team", {"prompt": "help"}, timeout=600)
        return self.reply({"text": answer.payload["reason"]})
"""
TEAM = """
topology team : [pipeline] {
  meta { version: "1.0.0"  description: "Asks back" }
  agent a { extensions { coterie { ask: "desk" } } }
  agent b { extensions { coterie { command: ["cat"] } } }
  flow { a -> b }
}
"""
SYSTEM = """
supervision:
  name: root
  children:
    - flow: { name: team, source: team.at }
    - agent: { name: desk, type: agents.Desk }
entry: desk
"""


def test_an_ask_for_an_agent_closes_its_cycles() -> None:
    """A turn is asked for by the run of an agent, not by its handler; the agent waits all the same."""

    class Asking(AgentProcess):
        async def handle(self, message: Message) -> Message | None:
            await self.ask("team", timeout=None)
            return None

    class Team(AgentProcess):
        async def handle(self, message: Message) -> Message | None:
            await done.wait()
            return None

    done = asyncio.Event()

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Asking("desk"))
        await stage.add(lambda: Team("team"))
        ask = asyncio.create_task(stage.node.ask("desk", timeout=None))
        await asyncio.sleep(1)
        with pytest.raises(AskCycle, match="team → desk → team"):
            await stage.node.ask("desk", timeout=None, asker=Asker(waiting="team"))
        done.set()
        await ask

    play(scene)


def test_a_team_that_asks_its_asker_fails_at_once(tmp_path: Path) -> None:
    """Both would wait for each other; the turn fails and says so."""
    for name, text in {"agents.py": AGENTS, "team.at": TEAM, "topology.yaml": SYSTEM}.items():
        (tmp_path / name).write_text(text)
    done = preforked.run("run", "topology.yaml", "hello", cwd=tmp_path)

    assert "agents would wait for each other for ever: team → desk → team" in done.stdout, done.stderr
    assert done.returncode == 0
