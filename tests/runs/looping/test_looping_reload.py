"""A loop's files are read again before each iteration, and nothing in them ever ends a run."""

import json
from pathlib import Path

import msgspec
import preforked
import pytest
from loop_play import loop_plan, plan_of

from coterie.diagnostics import Diagnostic, error
from coterie.errors import UsageError
from coterie.footprint import Footprint
from coterie.journal.records import ConfigAnswer, ConfigChanged, ConfigKept, ConfigRejected
from coterie.planning.loop import LoopPlan
from coterie.planning.place import RunPlace
from coterie.planning.plan import Plan, from_json
from coterie.runs.kinds.loop.reload import Reread, changed, compared, difference, read_again


def placed(**fields: object) -> Plan:
    return plan_of(loop_plan(place=RunPlace(project="/p"), **fields))


def asked(reread: Reread, plan: Plan | None = None, run: str = "r") -> ConfigAnswer:
    return read_again(run, plan or placed(), reread, lambda found: found, Footprint())


def test_the_same_plan_is_kept() -> None:
    assert compared(placed(), placed()) == ConfigKept()


def test_what_differs_is_named_as_the_settings_name_it() -> None:
    new = msgspec.structs.replace(placed(max_iterations=7, roles=()), agents={})

    assert list(changed(placed(), new))[:2] == ["event_loop.max_iterations", "role.planner"]
    assert list(changed(placed(), new))[-1] == "agent.@review"


def test_what_is_fixed_at_the_start_stays() -> None:
    moved = plan_of(loop_plan(max_cost=1.0, place=RunPlace(project="/p", state_dir="elsewhere")))
    answer = compared(placed(), moved)

    assert isinstance(answer, ConfigChanged)
    assert answer.keys == ("event_loop.max_cost_usd",)
    plan = from_json(answer.plan)
    assert isinstance(plan.coordination, LoopPlan)
    assert plan.coordination.place.state_dir == ".autoloop"
    assert answer.plan_hash == plan.content_hash()


def test_what_was_changed_is_told_line_by_line() -> None:
    """So that one sees what a review has made of prompts and settings."""
    new = placed(harness="Small steps.\nNever push.", max_iterations=7)
    old = placed(harness="Small steps.\nPush often.")
    lines = difference(old, new).splitlines()

    assert "-coordination.harness: Push often." in lines
    assert "+coordination.harness: Never push." in lines
    assert "+coordination.max_iterations: 7" in lines
    assert not any(line.startswith(("-", "+")) and "Small steps" in line for line in lines)


@pytest.mark.parametrize("trouble", [UsageError("no"), OSError("gone"), ValueError("odd")])
def test_whatever_goes_wrong_is_told_and_nothing_more(trouble: Exception) -> None:
    def fails(plan: Plan) -> tuple[None, list[Diagnostic]]:
        raise trouble

    answer = asked(fails)
    assert answer == ConfigRejected(reason=str(trouble))
    wrong = asked(lambda plan: (None, [error("no-id", "a role needs an id")]))
    assert isinstance(wrong, ConfigRejected)
    assert "a role needs an id" in wrong.reason


def test_child_runs_and_plans_without_a_folder_keep_theirs() -> None:
    def never(plan: Plan) -> tuple[None, list[Diagnostic]]:
        raise AssertionError

    assert asked(never, run="r/branch#1.1") == ConfigKept()
    assert asked(never, plan_of(loop_plan())) == ConfigKept()


AGENT = """#!/bin/sh
cat >/dev/null
case $AUTOLOOP_ITERATION in
  1) printf 'event_loop.max_iterations = [' > loop/autoloops.toml ;;
  2) rm loop/topology.toml ;;
  3) cp before.toml loop/topology.toml
     sed 's/= 4/= 5/' before.settings > loop/autoloops.toml ;;
  5) "$AUTOLOOP_BIN" emit done ;;
esac
echo "said $AUTOLOOP_ITERATION"
"""


def test_a_run_goes_on_under_the_last_good_plan(tmp_path: Path) -> None:
    """Defect I: a file that could not be parsed used to end the run. Here it breaks, goes, and comes back."""
    (tmp_path / "loop").mkdir()
    topology = 'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\n'
    settings = (
        "event_loop.max_iterations = 4\nreview.enabled = false\nbackend.kind = 'command'\n"
        f"backend.command = '{tmp_path}/agent.sh'\nbackend.prompt_mode = 'stdin'\n"
    )
    for name, text in [("loop/topology.toml", topology), ("before.toml", topology)]:
        (tmp_path / name).write_text(text)
    for name in ("loop/autoloops.toml", "before.settings"):
        (tmp_path / name).write_text(settings)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "agent.sh").chmod(0o755)
    ended = preforked.run("run", "loop", "go", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    [path] = tmp_path.glob(".autoloop/runs/*/journal.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    answers = [record["topic"] for record in records if record["topic"].startswith("config.")]
    assert answers == ["config.kept", "config.rejected", "config.rejected", "config.changed", "config.kept"]
    [change] = [record for record in records if record["topic"] == "config.changed"]
    assert change["keys"] == ["event_loop.max_iterations"]
    assert records[-1]["reason"] == "completion_event"
