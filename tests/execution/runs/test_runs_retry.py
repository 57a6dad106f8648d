"""Every reader of a run's end reads a run that was reopened: views, lists, rows, spans, forks and followers."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from nests import nested
from stage import Cast, flow

import coterie
from coterie.agents.backends.base import Answer, Failure
from coterie.errors import RetryRefused, RunIsFinished
from coterie.execution.runs import control, launch, removal, statistics
from coterie.execution.runs.attention import open_in
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import replay
from coterie.execution.runs.repository import LocalRuns, Runs
from coterie.execution.runs.turn_detail import detail, details
from coterie.history.journal.records import Record, RunReopened, TurnStarted, Usage
from coterie.history.journal.status import RunStatus
from coterie.history.views import attention, run, timeline, tree, usage, why
from coterie.history.views.spans import RunSpans
from coterie.patterns.rows.enums import ExecutionStatus
from coterie.patterns.rows.fold import RowFold
from coterie.team.planning.plan import AgentPlan, Plan

BROKEN = Failure(kind="exit", reason="exit status 1", usage=Usage(cost=1.0))
PAID = Answer(text="done", usage=Usage(cost=1.0))
PLAN = flow("go -> team -> last", team=nested(2, flow("first -> leaf -> end")))
"""A team in a team, whose middle turn fails."""
INNER = "r/team#1.1/team#1.1"


def start(folder: Path, plan: Plan = PLAN, cast: Cast | None = None) -> Outcome:
    """Run *plan*, whose leaf fails, in *folder*."""
    cast = cast or Cast({"leaf": [BROKEN], "first": [PAID]}, seconds=0.0)
    return asyncio.run(
        launch.start(plan, {"prompt": "go"}, state_dir=folder / ".coterie", run_id="r", cwd=folder, turns=cast)
    )


def retry(folder: Path, cast: Cast | None = None, turn: str = "", **how: Any) -> Outcome:
    """Retry what failed the run in *folder*."""
    cast = cast or Cast({"leaf": [PAID]}, seconds=0.0)
    runs = Runs(folder / ".coterie")
    return asyncio.run(control.resume(runs, "r", retry=turn, turns=cast, **how))


@pytest.fixture
def reopened(tmp_path: Path) -> Runs:
    """A run that failed, was reopened, failed again, was reopened, and completed."""
    assert start(tmp_path).status == "failed"
    assert retry(tmp_path, Cast({"leaf": [BROKEN]}, seconds=0.0)).status == "failed"
    ended = retry(tmp_path)
    assert (ended.status, ended.usage.cost, ended.usage.turns) == ("completed", 4.0, 6)
    return Runs(tmp_path / ".coterie")


def records(runs: Runs, which: str = "r") -> list[Record]:
    return list(runs.read(which))


# -- views ------------------------------------------------------------------------------------------------------------


def test_views_of_a_reopened_run_show_it_as_it_is_now(reopened: Runs) -> None:
    """At its end completed, with everything once; in between as a run that goes on."""
    log = records(reopened)
    views = {name: run.fold(records(reopened, name)) for name in ("r", "r/team#1.1", INNER)}
    seen = views["r"]
    assert (seen.state, seen.reason, [one.state for one in seen.turns]) == ("completed", "", ["finished"] * 3)
    assert [one.state for one in views[INNER].turns] == ["finished"] * 3
    [leaf] = [one for one in views[INNER].turns if one.agent == "leaf"]
    assert ([one.state for one in leaf.attempts], leaf.usage.cost) == (["failed", "failed", "finished"], 3.0)
    assert (seen.turn("team#1").kind, seen.turn("team#1").usage.cost) == ("", 4.0)  # type: ignore[union-attr]

    upto = next(one.seq for one in log if isinstance(one, RunReopened))
    midway = run.fold(log[:upto])
    assert (midway.state, midway.finished, midway.result) == ("running", None, None)
    assert [(one.id, one.state, one.finished) for one in midway.turns][1] == ("team#1", "running", None)
    inner = records(reopened, INNER)
    midway = run.fold(inner[: next(one.seq for one in inner if isinstance(one, RunReopened))])
    assert [(one.state, one.reason) for one in midway.turns] == [("finished", ""), ("waiting", "")]

    node = tree.tree(seen, views, time.time(), PLAN)
    assert (node.state, node.cost) == ("completed", 4.0)
    assert any("an operator reopened the run; retried: team#1.1/team#1.1/leaf#1" in one.label for one in node.children)
    assert usage.fold(log).total.cost == 4.0
    assert usage.fold(records(reopened, INNER)).total.cost == 4.0
    lines = [line.text for line in timeline.fold(log).lines]
    assert sum("reopened the run" in line for line in lines) == 2
    found = why.why(records(reopened, INNER), "end#1")
    assert [one.text for one in found if "reopened" in one.text] == [
        "an operator reopened the run; retried: leaf#1"
    ] * 2
    assert "leaf#1 answered" in " ".join(one.text for one in found)


def test_the_details_of_all_turns_of_a_reopened_run_are_those_of_each(reopened: Runs) -> None:
    """Though they are found in one fold, in which a failure counts until the run is reopened."""
    for name in ("r", "r/team#1.1", INNER):
        every = {one.data()["turn"]: one.data() for one in details(reopened, name)}
        turns = [turn.id for turn in run.fold(records(reopened, name)).turns]

        assert every == {turn: detail(reopened, name, turn).data() for turn in turns}


def test_what_needs_a_person_in_a_reopened_run_is_found() -> None:
    """A question that a child run asks after it was reopened; before, nothing of it was open."""
    view = attention.AttentionView()
    plan = flow("team -> b", team=nested(1, flow("a -> boss", boss=AgentPlan(name="boss", kind="human"))))
    from stage import Stage

    from coterie.execution.kernel.opening import RootOpening
    from coterie.execution.runs.retry import reopening
    from coterie.history.journal.runs import RunReader

    stage = Stage(plan, Cast({"a": [BROKEN, PAID]}), park=True)
    assert stage.start().status == "failed"
    opening = RootOpening(reopened=reopening(list(RunReader(stage.store).tree("r")), 1.0))
    ended = stage.clock.run(stage._shell(None).resume("r", plan, opening))
    assert ended.reason == "waiting"
    for name in ("r", "r/team#1.1"):
        for record in stage.records(run=name):
            view.apply(name, record)
    assert [(one.kind, one.id) for one in view.open(is_owned=False)] == [("question", "team#1.1/boss#1")]


def test_lists_statistics_and_the_index_have_a_reopened_run_once(reopened: Runs) -> None:
    """With its state now and its costs once."""
    folder = reopened.root.parent
    home = LocalRuns(reopened.root)
    [entry] = [one for one in home.newest() if one.run == "r"]
    stats = statistics.run_stats(home, entry)
    assert (stats.state, stats.turns, stats.cost, stats.reason) == ("completed", 6, 4.0, "")
    assert {name: one.cost for name, one in statistics.usage_by(reopened.tree("r"), "run").items()}[INNER] == 4.0
    assert open_in(reopened, "r") == []
    assert replay("r", state_dir=folder / ".coterie").left == ()
    shown = detail(reopened, INNER, "leaf#1")
    assert shown.question.same, "the prompt of the last attempt is rebuilt"
    assert "exit status 1" in shown.question.prompt


def test_a_reopened_run_is_pruned_only_after_its_last_end(tmp_path: Path) -> None:
    """While it goes on, or was cut off, it stays."""
    start(tmp_path)
    runs = Runs(tmp_path / ".coterie")
    assert runs.store.status("r").state == "failed"
    cut = [*records(runs)]
    ended = retry(tmp_path, Cast({"leaf": [BROKEN]}, seconds=0.0))
    assert ended.status == "failed"
    file = runs.file("r")
    lines = file.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"run.reopened"' in line)
    assert at >= len(cut)
    file.write_text("".join(lines[: at + 1]))
    assert runs.store.status("r") == RunStatus("cut off")
    assert list(removal.prune(tmp_path / ".coterie", time.time() + 1)) == []
    assert asyncio.run(control.resume(runs, "r", turns=Cast({}, seconds=0.0))).status == "failed", "its team had failed"
    assert retry(tmp_path).status == "completed"
    assert list(removal.prune(tmp_path / ".coterie", time.time() + 1)) == [("r", "")]


def test_rows_and_spans_of_a_reopened_run(tmp_path: Path) -> None:
    """A row has the state and the result of now; each owner and each attempt is a span."""
    from pattern_play import pattern

    plan = pattern("pipeline", ["stage_0", "stage_1"], retry_failed_stages=False)
    start(tmp_path, plan, Cast({"stage_1": [BROKEN]}, seconds=0.0))
    retry(tmp_path, Cast({"stage_1": [PAID]}, seconds=0.0))
    log, fold, spans = records(Runs(tmp_path / ".coterie")), RowFold(), RunSpans()
    rows = [row for record in log for row in fold.apply("r", record)]
    last = {(row.table, row.id): row.values for row in rows}
    [execution] = [values for (table, _), values in last.items() if table == "executions"]
    assert (execution["status"], execution["error"]) == (ExecutionStatus.COMPLETED, None)
    results = [values["output"] for (table, _), values in last.items() if table == "results"]
    assert sorted(one.get("content", "failed") for one in results) == ["done", "stage_0#1 done"]
    made = [span for record in log for span in spans.step("r", record)]
    assert [span.span_id for span in made] == ["r/stage_0#1.1", "r/stage_1#1.1", "r@1", "r/stage_1#1.2", "r@2"]


# -- followers, forks, owners ------------------------------------------------------------------------------------------


def test_a_follower_of_a_reopened_run_sees_every_record_once(tmp_path: Path) -> None:
    """Also those of child runs that are reopened after it has read their ends."""

    async def both() -> list[tuple[str, Record]]:
        runs = Runs(tmp_path / ".coterie")
        driven = asyncio.ensure_future(control.resume(runs, "r", retry="", turns=Cast({"leaf": [PAID]}, seconds=0.3)))
        seen = list[tuple[str, Record]]()
        reader = Runs(tmp_path / ".coterie", poll=0.01)
        while not reader.is_owned("r"):  # noqa: ASYNC110 - a file lock has no event
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            async for one in reader.follow("r", check_every=0.02):
                seen.append(one)
        assert (await driven).status == "completed"
        return seen

    start(tmp_path)
    seen = asyncio.run(both())
    runs = Runs(tmp_path / ".coterie")
    for name in ("r", "r/team#1.1", INNER):
        assert [record for which, record in seen if which == name] == records(runs, name), name


def test_a_fork_of_a_reopened_run_is_as_it_was_then(reopened: Runs) -> None:
    """At its reopening its child runs go on, at its failed end there is nothing to go on from."""
    log = records(reopened)
    first = next(one for one in log if isinstance(one, RunReopened))
    with pytest.raises(coterie.CoterieError, match=f"fork it at {first.seq}, where it was reopened, or before"):
        control.fork(reopened, "r", at=first.seq - 1, files=False)
    made = control.fork(reopened, "r", at=first.seq, run_id="f", files=False)
    cast = Cast({"leaf": [PAID]}, seconds=0.0)
    assert asyncio.run(control.resume(reopened, "f", turns=cast)).status == "completed"
    assert [request.turn for request in cast.asked] == ["leaf#1", "end#1", "after#1", "last#1"]
    assert made.seq == first.seq


def test_a_fork_without_a_place_begins_before_the_turn_that_failed_the_run(tmp_path: Path) -> None:
    """So it does not fail again for the old reason."""
    start(tmp_path)
    runs = Runs(tmp_path / ".coterie")
    made = control.fork(runs, "r", run_id="f", files=False)
    [team] = [one for one in records(runs) if isinstance(one, TurnStarted) and one.turn == "team#1"]
    assert made.seq == team.seq - 1
    assert asyncio.run(control.resume(runs, "f", turns=Cast({}, seconds=0.0))).status == "completed"


def test_of_two_owners_one_is_refused(tmp_path: Path) -> None:
    """While a process drives the run, and when it has driven it meanwhile."""
    start(tmp_path)
    runs = Runs(tmp_path / ".coterie")

    async def both() -> list[Any]:
        each = [control.resume(Runs(runs.root), "r", retry="", turns=Cast({}, seconds=0.1)) for _ in range(2)]
        return await asyncio.gather(*each, return_exceptions=True)

    ended = asyncio.run(both())
    assert sorted(type(one).__name__ for one in ended) == ["Outcome", "RunIsOwned"]
    assert sum(isinstance(one, RunReopened) for one in records(runs)) == 1


def test_python_retries_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`coterie.resume(…, retry=True)`, or a turn; without it a failed run is refused with the line to type."""
    monkeypatch.chdir(tmp_path)
    tool = 'extensions { coterie { command: ["sh", "-c", "test -e ok && echo fine"] } }'
    Path("t.at").write_text(
        f"topology t : [pipeline] {{\n agent a {{ {tool} }}\n agent b {{ {tool} }}\n flow {{ a -> b }}\n}}\n"
    )
    assert asyncio.run(coterie.run("t.at", "go")).way_on == "retry"
    with pytest.raises(RunIsFinished, match=r"`coterie resume .* --retry` retries what failed it"):
        asyncio.run(coterie.resume())
    with pytest.raises(RetryRefused, match="it has no turn 'x#1'"):
        asyncio.run(coterie.resume(retry="x#1"))
    Path("ok").touch()
    assert control.retriable(Runs(Path(".coterie")), Runs(Path(".coterie")).list()[0]).turns == ("a#1",)
    ended = asyncio.run(coterie.resume(retry="a#1"))
    assert (ended.status, ended.result.text.strip()) == ("completed", "fine")
