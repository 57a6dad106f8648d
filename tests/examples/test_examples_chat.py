"""The chat over HTTP, as its file says it is used."""

import asyncio
from pathlib import Path

import pytest
from gateways import events
from http_clients import client

from coterie.agents.actors.runtime import Runtime

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[2] / "examples" / "chat"


def test_the_chat_answers_in_one_piece_and_in_several(tmp_path: Path) -> None:
    """A call, a stream, a note that nothing waits for, and the documentation."""
    text = (FOLDER / "topology.yaml").read_text().replace("      config:\n", "      config:\n        port: 0\n")
    (tmp_path / "topology.yaml").write_text(text.replace("agents.Parrot", "Parrot"))
    space: dict[str, type] = {}
    exec((FOLDER / "agents.py").read_text(), space)

    async def scene() -> None:
        runtime = Runtime.from_config(tmp_path / "topology.yaml", agent_classes={"Parrot": space["Parrot"]})
        async with runtime, client() as one:
            address = f"http://127.0.0.1:{(await runtime.ask('api', {'__op__': 'state'})).payload['port']}"
            answer = await one.post(f"{address}/v1/chat", json={"text": "good day"})
            assert answer.json() == {"text": "good good, day day", "heard": 2}
            answer = await one.get(f"{address}/v1/chat?text=hello", headers={"accept": "text/event-stream"})
            assert [event["event"] for event in events(answer.text.split("\n"))] == ["open", "piece", "reply"]
            answer = await one.post(f"{address}/v1/rooms/7/notes", json={"text": "a b c"})
            assert answer.status_code == 202
            assert (await runtime.ask("parrot", {"text": "d"})).payload["heard"] == 7
            assert (await one.get(f"{address}/docs")).status_code == 200

    asyncio.run(scene())
