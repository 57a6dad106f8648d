"""Kinds of coordination: one object each, found by the plan; a further one needs no change anywhere else."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from coterie.execution.kinds import KINDS, Kind, kind_of
from coterie.execution.runs import launch
from coterie.execution.runs.replay import replay
from coterie.history.engines.commands import Ask, Command, Emit, Engine, Finish, Reply
from coterie.history.engines.replies import judge_reply
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import EventInvalid, Record, RunStarted, TurnFinished, TurnStarted
from coterie.team.planning.coordination import Coordination
from coterie.team.planning.plan import AgentPlan, Plan, from_json, to_json


class RelayPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="relay"):
    """A toy: each agent in turn, *rounds* times, and the last answer is the result."""

    rounds: int = 1


class Relay:
    """The engine of the toy."""

    name: ClassVar[str] = "relay"
    version: ClassVar[int] = 1

    def __init__(self, agents: Sequence[str], rounds: int) -> None:
        self._left = [f"{name}#{n}" for n in range(1, rounds + 1) for name in agents]

    def judge(self, said: Reply | Emit) -> Record:
        if isinstance(said, Reply):
            return judge_reply(said, ())
        return EventInvalid(turn=said.turn, event=said.event, attempt=said.attempt, reason="a relay takes no events")

    def step(self, record: Record) -> Sequence[Command]:
        if not isinstance(record, RunStarted | TurnFinished):
            return []
        if not self._left:
            assert isinstance(record, TurnFinished)
            return [Finish(outcome="completed", result={"text": record.text, "outputs": {}})]
        turn = self._left.pop(0)
        inputs = (record.turn,) if isinstance(record, TurnFinished) else ()
        return [Ask(turn=turn, agent=turn.partition("#")[0], inputs=inputs)]


class RelayKind(Kind):
    """The toy as a kind."""

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        return Relay(list(self.plan.agents), self.plan.coordination.rounds), self.plan.agents

    def asked(self) -> Sequence[str]:
        return list(self.plan.agents)


def relay(folder: Path, rounds: int = 3) -> Plan:
    """A relay of two programs that count what reaches them; the third turn kills its owner, once."""
    program = """
import json, os, pathlib, signal, sys
turn, here = os.environ["COTERIE_TURN"], pathlib.Path(sys.argv[1])
with (here / "ledger").open("a") as ledger:
    ledger.write(turn + "\\n")
if turn == "left#2" and not (here / "killed").exists() and "OWNER" in os.environ:
    (here / "killed").touch()
    os.kill(int(os.environ["OWNER"]), signal.SIGKILL)
    signal.pause()
print(turn)
"""
    argv = (sys.executable, "-c", program, str(folder))
    agents = {name: AgentPlan(name=name, backend="command", argv=argv) for name in ("left", "right")}
    return Plan(name="toy", agents=agents, coordination=RelayPlan(rounds=rounds))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a further kind takes."""
    monkeypatch.setitem(KINDS, "relay", RelayKind)


def test_a_plan_of_a_further_kind_is_read_back(tmp_path: Path) -> None:
    """The registry is open: what a journal holds becomes the class of its kind again."""
    plan = relay(tmp_path)

    assert from_json(to_json(plan)) == plan
    assert isinstance(kind_of(plan), RelayKind)


def test_an_unknown_kind_is_refused() -> None:
    """A plan of another coterie names a kind that this one lacks: it is told which there are."""
    with pytest.raises(
        ValueError, match="unknown coordination 'swarm'; known: flow, flow-each, flow-each-by, loop, pattern, program"
    ):
        from_json('{"name": "p", "coordination": {"engine": "swarm"}}')


def test_a_further_kind_runs(tmp_path: Path) -> None:
    """Started, journalled and replayed like any other."""
    outcome = asyncio.run(launch.start(relay(tmp_path), {"prompt": "go"}, state_dir=tmp_path / "state"))

    assert (outcome.status, outcome.result["text"].strip()) == ("completed", "right#3")
    assert replay(outcome.run, state_dir=tmp_path / "state").left == ()


@pytest.mark.slow
def test_a_further_kind_is_killed_and_resumed(tmp_path: Path) -> None:
    """SIGKILL in its third turn: what had answered is not asked again."""
    state = tmp_path / "state"
    owner = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert owner.returncode == -9
    [run] = JsonlStore(state).list()

    outcome = asyncio.run(launch.resume(run, state_dir=state))
    assert (outcome.status, outcome.result["text"].strip()) == ("completed", "right#3")
    assert (tmp_path / "ledger").read_text().split() == [
        "left#1",
        "right#1",
        *["left#2"] * 2,
        *["right#2", "left#3", "right#3"],
    ]
    starts = [one for one in JsonlStore(state).read(run) if isinstance(one, TurnStarted) and one.attempt == 1]
    assert [one.turn for one in starts] == ["left#1", "right#1", "left#2", "right#2", "left#3", "right#3"]


if __name__ == "__main__":
    KINDS["relay"] = RelayKind
    os.environ["OWNER"] = str(os.getpid())
    there = Path(sys.argv[1])
    asyncio.run(launch.start(relay(there), {"prompt": "go"}, state_dir=there / "state"))
