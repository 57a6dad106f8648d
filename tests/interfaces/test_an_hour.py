"""What an hour does to a system with a gateway and to the server of the page: nothing grows.

A round is about a second of that hour, played as fast as it goes: an agent answers, streams and crashes; a run begins,
is shown with what its agent says, and is removed.
"""

import asyncio
import logging
from pathlib import Path

import context_agents as functions
import httpx
import msgspec
import pytest
from gateways import Reached, events, gateway
from held import held
from page_runs import client_of

import coterie
from coterie import agent, flow
from coterie.execution.runs import removal
from coterie.execution.runs.repository import Runs
from coterie.interfaces.ui import stream
from coterie.interfaces.ui.stream import Feeds

ROUTES = [
    {"path": "/echo", "agent": "echo", "method": "POST"},
    {"path": "/count", "agent": "counter", "method": "GET"},
]


async def ask(system: Reached, n: int) -> None:
    """A call, a stream, and now and then a crash with a restart."""
    answer = await system.post("/echo", json={"n": n})
    assert answer.json()["payload"] == {"n": n}
    answer = await system.get("/count?to=3", headers={"accept": "text/event-stream"})
    assert [one["event"] for one in events(answer.text.split("\n"))][-1] == "reply"
    if n % 20 == 0:
        assert (await system.post("/echo", json={"boom": "as it happens"})).status_code >= 500


async def show(feeds: Feeds, page: httpx.AsyncClient, folder: Path, team: coterie.Topology) -> None:
    """A run is played, opened on the page with its list and its output, looked at in detail, and removed."""
    run = (await coterie.run(team, "tea", state_dir=folder)).run
    topics = {"home?": "", f"run/{run}": "", f"output/{run}?turn=tells%231": ""}
    opened, left = stream.events(feeds, topics), set(topics)
    async for event in opened:
        left = {topic for topic in left if b'"topic":%s' % msgspec.json.encode(topic) not in event}
        if not left:
            break
    await opened.aclose()
    assert (await page.get(f"/api/runs/{run}/turn?turn=tells%231")).status_code == 200
    removal.remove(Runs(folder), run)


@pytest.mark.parametrize(
    ("rounds", "share"),
    [pytest.param(60, 0.06, marks=pytest.mark.slow), pytest.param(3_600, 0.01, marks=pytest.mark.long)],
)
def test_an_hour_leaves_nothing(
    rounds: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After the first tenth neither the system nor the page's server adds memory, tasks, threads or descriptors."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.CRITICAL + 1, "coterie")  # pytest keeps what is logged
    one = agent(functions.tells)
    team = flow("one", [one], result=one)
    folder = tmp_path / ".coterie"

    async def hour() -> list[dict[str, float]]:
        found = []
        async with gateway(routes=ROUTES) as system, client_of(folder) as (server, page):
            for _ in range(10):
                for n in range(rounds // 10):
                    await asyncio.gather(ask(system, n), show(server.feeds, page, folder, team))
                found.append(held())
        return found

    found = asyncio.run(hour())
    for what, varies in (("descriptors", 3), ("tasks", 5), ("threads", 2)):
        assert found[-1][what] <= max(one[what] for one in found[1:5]) + varies, found
    assert found[-1]["blocks"] <= (1 + share) * found[1]["blocks"], found
