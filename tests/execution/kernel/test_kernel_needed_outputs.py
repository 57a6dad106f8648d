"""Outputs that only conditions read: agents and people must give them, programs need not."""

import json
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from command_line import Place, make

import coterie
from coterie.history.engines.commands import Reply
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import AttemptFailed, RunStarted, TurnFinished
from coterie.team.planning.plan import FlowPlan, Plan

FLOW = """
  flow {
    writer -> reviewer
    reviewer -> writer [when reviewer.verdict == revise, max 2]
    reviewer -> publisher [when reviewer.verdict == approve]
  }
}
"""
PROGRAM = 'extensions { coterie { command: ["echo", "Fine."] } }'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory in which coterie is called."""
    return make(tmp_path)


def team(tmp_path: Path, reviewer: str) -> Path:
    """A team whose *reviewer* declares no outputs, and whose other agents are programs."""
    agents = f"agent writer {{ {PROGRAM} }}\n  agent publisher {{ {PROGRAM} }}"
    file = tmp_path / "team.at"
    file.write_text(f"topology t : [pipeline, human-gate] {{\n  {agents}\n  {reviewer}\n{FLOW}")
    return file


def plan(tmp_path: Path, reviewer: str, **how: Any) -> Plan:
    return coterie.plan(coterie.load(team(tmp_path, reviewer)), **how)


@bundle(
    ("reviewer", "needed"),
    [
        ('agent reviewer { model: "m" }', True),
        ('agent reviewer { model: "openai/m" extensions { coterie { backend: model } } }', True),
        ("human reviewer { }", True),
        (f"agent reviewer {{ {PROGRAM} }}", False),
        ('action reviewer { commands: ["true"] }', False),
    ],
)
def test_conditions_need_outputs_of_those_that_think(tmp_path: Path, reviewer: str, needed: bool) -> None:
    """Of an agent without a program of its own, and of a person."""
    [wanted] = plan(tmp_path, reviewer).agents["reviewer"].outputs

    assert (wanted.name, wanted.declared, wanted.needed) == ("verdict", False, needed)


def test_a_field_that_only_other_arrows_read_is_not_needed(tmp_path: Path) -> None:
    """The rule is about the arrows that the reply decides."""
    reviewer = 'agent reviewer { model: "m" }'
    file = team(tmp_path, reviewer)
    file.write_text(
        file.read_text().replace("flow {", "flow {\n    writer -> reviewer [when reviewer.mood == x, max 1]")
    )

    wanted = {one.name: one.needed for one in coterie.plan(coterie.load(file)).agents["reviewer"].outputs}
    assert wanted == {"verdict": True, "mood": False}


@pytest.mark.parametrize("version", [2, 3])
def test_a_recorded_run_keeps_the_rule_it_began_with(tmp_path: Path, version: int) -> None:
    """A resume decides as the run did before."""
    made = plan(tmp_path, 'agent reviewer { model: "m" }')
    assert isinstance(made.coordination, FlowPlan)
    engine = FlowEngine(made.coordination, made.agents)
    engine.step(RunStarted(run="r", engine="flow", engine_version=version))
    engine.step(TurnFinished(turn="writer#1", attempt=1))

    record = engine.judge(Reply(turn="reviewer#1", attempt=1, text="Looks fine."))
    assert isinstance(record, TurnFinished if version == 2 else AttemptFailed)
    if isinstance(record, AttemptFailed):
        assert record.kind == "invalid_output"
        assert '"revise", "approve"' in record.reason


def test_a_review_without_a_verdict_does_not_pass(place: Place) -> None:
    """It is asked again, and then fails; the flow does not go on as if it were approved."""
    team(place.folder, 'agent reviewer { model: "m" }')
    script = place.folder / "script.json"
    script.write_text(json.dumps({"reviewer": [{"text": "Fine."}, {"text": "verdict: approve"}]}))
    said = json.loads(place.look("run", "team.at", "--rehearse", str(script), "--json").out)
    assert said["outcome"] == "completed"

    script.write_text(json.dumps({"reviewer": [{"text": "Fine."}]}))
    failed = place.look("run", "team.at", "--rehearse", str(script), status=1)
    assert "invalid_output" in failed.out + failed.err
    assert "expected the output 'verdict'" in failed.out + failed.err
    assert "publisher#1" not in failed.out


def test_the_end_names_the_value_that_a_program_did_not_give(place: Place) -> None:
    """In the last lines and in the data; the status says that the run did not do what its team is for."""
    team(place.folder, f"agent reviewer {{ {PROGRAM} }}")

    said = place.look("run", "team.at", status=1).err.splitlines()
    assert said[-4].startswith("ended early: 2 turns, ")
    assert said[-4].endswith("; no value for reviewer.verdict, which conditions read")
    why = "the flow ended after reviewer#1 because its conditions read nothing: no value for reviewer.verdict"
    assert said[-3] == why
    data = json.loads(place.look("run", "team.at", "--json", status=1).out)
    assert (data["missing"], data["unread"], data["exit"]) == (["reviewer.verdict"], ["reviewer#1"], 1)
    assert place.look("inspect", "last").out.splitlines()[-3:] == [*said[-3:-1], said[-1].replace(*_ids(said, data))]


def _ids(said: list[str], data: dict[str, Any]) -> tuple[str, str]:
    """The id in the lines of the first run, and that of the second."""
    return said[-1].split()[2], data["run"]
