"""The types that users see; `tests/test_typing.py` checks this file with mypy and never runs it."""

from pathlib import Path
from typing import Any, assert_type

import coterie
from coterie.execution.runs.outcome import RunResult
from coterie.patterns import (
    AgentRole,
    AgentType,
    BaseTopology,
    Execution,
    TopologyRegistry,
    TopologyType,
    agent,
    chain_of_command,
    compound,
    cross_check,
    debate,
    delegation,
    ensemble,
    pipeline,
)
from coterie.patterns import Topology as TopologyRow
from coterie.testing import (
    Assumptions,
    Series,
    SimulatedAgents,
    Skill,
    Survived,
    cassette,
    rehearse,
    simulate,
    simulate_many,
)

team = debate(proponent="haiku", opponent=agent(command=["cat"]), mediator="haiku", max_rounds=2)
assert_type(team, coterie.Topology)
assert_type(coterie.load("team.at", {"depth": 2}), coterie.Topology)
assert_type(coterie.read("team.at").diagnostics, tuple[coterie.Diagnostic, ...])
assert_type(coterie.plan(team, backend="command"), coterie.Plan)
cat = agent(command=["cat"], max_retries=1, timeout_seconds=5, fallback="haiku", calls=3, cost=0.5, temperature=0.2)
assert_type(ensemble(cat, "haiku", team, Path("team.at"), aggregator=cat, samples=2), coterie.Topology)
assert_type(pipeline({"draft": cat, "edit": "haiku"}, max_stage_retries=1), coterie.Topology)
assert_type(cross_check("haiku", cat, cat, mediator=cat), coterie.Topology)
assert_type(chain_of_command({"commander": cat, "worker_1": cat}, description="A firm"), coterie.Topology)
assert_type(delegation({"coder": cat}, coordinator=cat, name="desk"), coterie.Topology)
assert_type(compound({"first": team, "second": cat}, composition_type="parallel"), coterie.Topology)

rehearse(team, "Will it rain?", {"mediator": [{"text": "Yes."}]}, limits=coterie.Limits(max_turns=5))
assert_type(simulate(team, 7), Survived)
assert_type(simulate_many(coterie.plan(team), 10, jobs=1), Series)
assert_type(SimulatedAgents(coterie.plan(team), Assumptions(skill=Skill(0.7))), SimulatedAgents)
with cassette("team.jsonl", "record") as recording:
    assert_type(recording, Path)

row = TopologyRow(name="duo", description="Two", topology_type=TopologyType.ENSEMBLE)
members = {"ensemble_0": AgentType(name="ada", description="One", role=AgentRole.EXECUTOR)}
duo = TopologyRegistry.create(row, members)
assert_type(duo, BaseTopology)


async def play() -> None:
    outcome = await coterie.run(team, {"question": "Will it rain?"})
    assert_type(outcome, coterie.Outcome)
    assert_type(outcome.result, RunResult)
    assert_type(outcome.result.text, str)
    assert_type(outcome.result.to_dict(), dict[str, Any])
    assert_type(await coterie.resume(outcome.run, limits=coterie.Limits(max_cost=1)), coterie.Outcome)
    assert_type(await coterie.fork(outcome.run, at=3, changes={"mediator.prompt": "Be brief."}), coterie.Outcome)
    assert_type(await duo.execute({"prompt": "?"}, "case-7", limits=coterie.Limits(max_turns=2)), Execution)


class Greeter(coterie.AgentProcess):
    """An agent of a user."""

    async def handle(self, message: coterie.Message) -> coterie.Message | None:
        """Ask another agent."""
        answer = await self.ask("other", {"n": 1}, timeout=2.0)
        assert_type(answer, coterie.Message)
        assert_type(await self.spawn(Greeter, "helper", into="pool"), str)
        return self.reply(answer.payload)

    async def on_error(self, exc: BaseException, message: coterie.Message) -> coterie.ErrorAction:
        """Go on."""
        return coterie.ErrorAction.SKIP


async def _system() -> None:
    tree = coterie.Supervisor(
        "root",
        strategy="ONE_FOR_ALL",
        children=[
            Greeter("greeter"),
            coterie.AgentNode(Greeter("other"), restart="transient", shutdown=1.5),
            coterie.DynamicSupervisor("pool", max_children=3),
            coterie.HTTPGateway("api", port=8080),
            coterie.TopologyServer("server"),
        ],
    )
    runtime = coterie.Runtime(supervisor=tree, state_store=coterie.SQLiteStateStore("state.db"))
    assert_type(coterie.Runtime.from_config("topology.yaml", agent_classes={"Greeter": Greeter}), coterie.Runtime)
    async with runtime:
        assert_type(await runtime.ask("greeter", {"name": "Ada"}), coterie.Message)
        await runtime.send("greeter", {"name": "Bob"})
        runtime.print_tree()
