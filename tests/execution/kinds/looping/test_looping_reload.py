"""A loop's files are read again before each iteration, and nothing in them ever ends a run."""

import json
from pathlib import Path

import msgspec
import preforked
import pytest
from loop_play import loop_plan, plan_of
from stage import Stage

from coterie.base.diagnostics import Diagnostic, Span, error, warning
from coterie.base.file_fingerprint import FileFingerprint
from coterie.errors import UsageError
from coterie.execution.kinds.loop.reload import LastReading, ReadFiles, changed, compared, difference, read_again
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import ConfigAnswer, ConfigChanged, ConfigKept, ConfigRejected
from coterie.history.views.run import RunView
from coterie.history.views.timeline import Timeline
from coterie.history.views.tree import tree
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan, from_json


def placed(**fields: object) -> Plan:
    return plan_of(loop_plan(place=RunPlace(project="/p"), **fields))


def asked(reread: ReadFiles, plan: Plan | None = None, run: str = "r") -> ConfigAnswer:
    return read_again(run, plan or placed(), reread, lambda found: found, LastReading())


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


def test_only_new_warnings_are_recorded() -> None:
    """Planning the run has reported the first ones; an edit that moves a line makes its warning no other."""
    old, moved = (warning("a", "old", Span(line, 1)) for line in (1, 2))
    last, plan = LastReading(), placed()

    def read(plan: Plan, *said: Diagnostic) -> ConfigAnswer:
        last.files = FileFingerprint()  # as if a file had changed
        return read_again("r", placed(), lambda _: (plan, said), lambda found: found, last)

    assert read(plan, old) == ConfigKept()
    assert read(plan, moved, warning("b", "new", hint="mend it")) == ConfigKept(warnings=("warning[b]: new; mend it",))
    changed = read(placed(max_iterations=7), moved, warning("b", "new"), warning("c", "newer"))
    assert isinstance(changed, ConfigChanged)
    assert changed.warnings == ("warning[c]: newer",)
    assert read(plan) == ConfigKept()
    assert read(plan, old) == ConfigKept(warnings=("1:1: warning[a]: old",))


def test_warnings_about_a_plan_that_changed_before_its_first_reading_are_new() -> None:
    answer = read_again(
        "r", placed(), lambda _: (placed(harness="x"), [warning("a", "b")]), lambda found: found, LastReading()
    )

    assert isinstance(answer, ConfigChanged)
    assert answer.warnings == ("warning[a]: b",)


AGENT = """#!/bin/sh
cat >/dev/null
case $AUTOLOOP_ITERATION in
  1) printf 'event_loop.max_iterations = [' > loop/autoloops.toml ;;
  2) rm loop/topology.toml ;;
  3) cp before.toml loop/topology.toml
     (cat before.settings; echo 'event_loop.max_failures = 2') > loop/autoloops.toml ;;
  4) "$AUTOLOOP_BIN" emit done ;;
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
    assert answers == ["config.kept", "config.rejected", "config.rejected", "config.changed"]
    [change] = [record for record in records if record["topic"] == "config.changed"]
    assert change["keys"] == ["event_loop.max_failures"]
    assert records[-1]["reason"] == "completion_event"


WARNS = """#!/bin/sh
cat >/dev/null
case $AUTOLOOP_ITERATION in
  1) echo 'event_loop.max_iteration = 9' >> loop/autoloops.toml ;;
  2) echo 'event_loop.stall_iterations = 8' >> loop/autoloops.toml ;;
  3) "$AUTOLOOP_BIN" emit done ;;
esac
"""


def test_a_warning_that_an_edit_brings_is_shown_once(tmp_path: Path) -> None:
    """In the lines and the tree of the run and in its timeline, with its place, when the files were read again."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop/topology.toml").write_text(
        'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\n'
    )
    (tmp_path / "loop/autoloops.toml").write_text(
        "event_loop.max_iterations = 4\nreview.enabled = false\nbackend.kind = 'command'\n"
        f"backend.command = '{tmp_path}/agent.sh'\nbackend.prompt_mode = 'stdin'\nold = 1\n"
    )
    (tmp_path / "agent.sh").write_text(WARNS)
    (tmp_path / "agent.sh").chmod(0o755)
    ended = preforked.run("run", "loop", "go", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    warned = "  loop/autoloops.toml:7:1: warning[unknown-setting]: "
    [at] = [n for n, line in enumerate(lines) if line.startswith(warned)]
    assert "the plan was read again and is unchanged" in lines[at - 1]
    assert lines[at].endswith("did you mean 'event_loop.max_iterations'?")
    assert ended.stderr.count("autoloops.toml:6:1: warning") == 1
    [run] = (runs := Runs(tmp_path / ".autoloop")).list()
    view, shown = RunView(), Timeline()
    for record in runs.store.read(run):
        view.apply(record)
        shown.apply(record)
    assert sum("unknown-setting" in line.text for line in shown.lines) == 1
    assert sum("unknown-setting" in line.label for node in tree(view, {}, 0.0).children for line in node.children) == 1


def test_a_plan_that_was_read_again_is_the_one_that_the_next_reading_is_compared_with() -> None:
    """So a change is recorded once, however often the files are read afterwards."""
    changed_plan = plan_of(loop_plan(max_iterations=3, harness="Hurry."))

    async def reread(run: str, plan: Plan) -> ConfigAnswer:
        return compared(plan, changed_plan)

    stage = Stage(plan_of(loop_plan(max_iterations=3)), reload=reread)
    stage.start()

    answers = stage.records(ConfigChanged, ConfigKept)
    assert [type(one) for one in answers] == [ConfigChanged, *[ConfigKept] * (len(answers) - 1)]
    assert len(answers) > 1
