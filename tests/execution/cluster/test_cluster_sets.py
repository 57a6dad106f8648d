"""Sets on a cluster: each item is an activity, and a long set is continued across histories."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_stage import WITHIN, MemoryExport, Server, node_of, topics
from msgspec.structs import replace
from stage import Cast, flow

from coterie.agents.backends.base import Answer, Failure, Request
from coterie.base.clock import SystemClock
from coterie.execution.cluster.submit import ended, submit
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import RunOwned, SetEnded, TurnFailed, TurnFinished, TurnStarted
from coterie.history.journal.runs import RunReader, RunRecord
from coterie.team.planning.plan import AgentPlan, MappedFlowPlan, MapPlan, Plan, Wanted

pytestmark = pytest.mark.slow


def mapped(plan: Plan, **maps: MapPlan) -> Plan:
    """*plan* with maps."""
    found = plan.flow
    assert found is not None
    return replace(plan, coordination=MappedFlowPlan(mentions=found.mentions, groups=found.groups, maps=maps))


def scout(name: str = "scout") -> AgentPlan:
    return AgentPlan(name=name, outputs=(Wanted(name="files", type="list"),))


def lists(count: int) -> Answer:
    return Answer(text="files", outputs={"files": [f"f{k}" for k in range(count)]})


def reads(request: Request) -> Answer | Failure:
    """Reads an item; one in ten never succeeds."""
    item = request.env["COTERIE_ITEM"]
    return Failure(kind="exit", reason="no") if item.endswith("7") else Answer(text=f"read {item}")


def played(server: Server, folder: Path, plan: Plan, parts: Any, links: int) -> tuple[RunExit, list[RunRecord], Cast]:
    """A run of *plan* on the cluster, its records, and what its agents were asked."""
    cast = Cast(parts, seconds=0.0)

    async def main() -> tuple[RunExit, Sequence[RunRecord]]:
        export, run = MemoryExport(), folder.name
        async with node_of(server, export, cast, folder) as client:
            await submit(client, export, plan, {"prompt": "go"}, run=run, link_events=links)
            return await asyncio.wait_for(ended(client, run), WITHIN), await export.load(run)

    done, found = asyncio.run(main())
    return done, list(found), cast


def here(plan: Plan, parts: Any) -> list[RunRecord]:
    """The records of the same run on this machine."""
    store = MemoryStore()
    ports = RunPorts(store=store, turns=Cast(parts, seconds=0.0), clock=SystemClock(), make_kind=kind_of)
    asyncio.run(Shell(ports).start("here", plan, {"prompt": "go"}))
    return list(RunReader(store).history("here"))


def test_a_long_set_is_continued_across_histories(temporal_server: Server, tmp_path: Path) -> None:
    """Every item is asked once, in several links of the chain, and the records are those of a run elsewhere."""
    of = MapPlan(agent="scout", field="files", at_most=200, at_once=8, tolerate="10%")
    plan = mapped(flow("scout -> reader -> writer", scout=scout()), reader=of)
    parts = {"scout": [lists(120)], "reader": [reads]}
    done, found, cast = played(temporal_server, tmp_path, plan, parts, links=200)

    assert done.status == "completed", done.reason
    assert sum(isinstance(one, RunOwned) for _, one in found) > 2
    asked = [one.turn for one in cast.asked if one.agent.name == "reader"]
    assert sorted(asked, key=lambda turn: int(turn.partition("#")[2])) == [f"reader#{n}" for n in range(1, 121)]
    assert [(one.set, one.done) for _, one in found if isinstance(one, SetEnded)] == [("reader@1", 108)]
    assert len([one for _, one in found if isinstance(one, TurnFailed)]) == 12
    writer = next(one.prompt for one in cast.asked if one.agent.name == "writer")
    assert "read f0" in writer
    assert "read f119" in writer
    assert topics(found) == topics(here(plan, parts))


def test_a_set_of_teams_that_map_runs_on_a_cluster(temporal_server: Server, tmp_path: Path) -> None:
    """Each item is a child run with a set of its own; links repeat nothing."""
    inner = MapPlan(agent="scout", field="files", at_most=5, at_once=2)
    child = mapped(flow("scout -> reader", scout=scout()), reader=inner)
    team = AgentPlan(name="team", kind="topology", child=child)
    outer = MapPlan(agent="lister", field="files", at_most=5, at_once=3)
    plan = mapped(flow("lister -> team -> writer", lister=scout("lister"), team=team), team=outer)
    parts = {"lister": [lists(4)], "scout": [lists(3)], "reader": [lambda request: Answer(text=request.turn)]}
    done, found, cast = played(temporal_server, tmp_path, plan, parts, links=150)

    assert done.status == "completed", done.reason
    assert len([one for one in cast.asked if one.agent.name == "reader"]) == 12
    assert sorted(one.set for _, one in found if isinstance(one, SetEnded)) == [*["reader@1"] * 4, "team@1"]
    ended_turns = [(run, one.turn) for run, one in found if isinstance(one, TurnFinished)]
    assert len(ended_turns) == len({*ended_turns})
    assert {one.item_name for _, one in found if isinstance(one, TurnStarted) and one.agent == "team"} == {
        "f0",
        "f1",
        "f2",
        "f3",
    }
    assert topics(found) == topics(here(plan, parts))
