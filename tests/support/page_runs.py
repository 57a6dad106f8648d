"""Runs of some milliseconds for the page, and its API without a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from page_stage import ACTS
from stage import Cast, flow

from coterie.agents.backends.base import Failure
from coterie.execution.runs import launch
from coterie.execution.runs.repository import LocalRuns, Runs
from coterie.history.journal.records import Usage
from coterie.interfaces.ui.places import ServedRun
from coterie.interfaces.ui.routes import Api
from coterie.interfaces.ui.serve import PageOptions, PageServer
from coterie.team.planning.plan import AgentPlan, Plan, Wanted

BOSS = AgentPlan(
    name="boss", kind="human", backend="human", outputs=(Wanted(name="verdict", type="enum", values=("yes", "no")),)
)
ASKS = flow("boss -> chief", boss=BOSS, chief=AgentPlan(name="chief", kind="human", backend="human"))
FAILS = Cast({"b": [Failure(kind="exit", reason="it broke here", usage=Usage(cost=0.25))]}, seconds=0)


def played(state_dir: Path, plan: Plan, run: str = "r1", cast: Cast | None = None) -> ServedRun:
    """A run of *plan* that nothing drives any more: it asks a person, or has ended."""
    asyncio.run(launch.start(plan, {"prompt": "Shall we?"}, state_dir=state_dir, run_id=run, turns=cast))
    return ServedRun(key=run, runs=Runs(state_dir), run=run, option=" --state-dir elsewhere")


@asynccontextmanager
async def client_of(state_dir: Path, **options: Any) -> AsyncIterator[tuple[PageServer, httpx.AsyncClient]]:
    """A client of the API itself, without a guard and a connection."""
    server = PageServer([LocalRuns(state_dir)], PageOptions(open=False, **options))
    may_act = None if options.get("read_only") else (lambda scope: "an agent asks" if "x-agent" in str(scope) else "")
    api = Api(server.feeds, server.access, {"homes": []}, may_act)
    transport = httpx.ASGITransport(api.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://page", headers=ACTS) as client:
        yield server, client
    server.feeds.close()
