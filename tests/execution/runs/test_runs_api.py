import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from repositories import git, repository

import coterie
from coterie.errors import UsageError
from coterie.execution.runs.launch import until_stopped
from coterie.history.journal.records import Record, RunFinished, TurnStarted
from coterie.testing import rehearse, simulate_many

TEAM = """\
topology team : [pipeline] {
  agent greet { extensions { coterie { command: ["cat"] } } }
  agent echo { extensions { coterie { command: ["cat"] } } }
  flow { greet -> echo }
}
"""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "team.at"
    path.write_text(TEAM)
    return path


def test_a_file_is_run_and_resumed_in_two_calls(team: Path) -> None:
    """A prompt or named values, limits, and `last` for the run to carry on."""
    stopped = asyncio.run(coterie.run(team, "Hello", limits=coterie.Limits(max_turns=1)))
    assert (stopped.status, stopped.exit) == ("stopped", 3)

    assert asyncio.run(coterie.resume()).status == "stopped"
    outcome = asyncio.run(coterie.resume(limits=coterie.Limits(max_turns=-1)))
    assert (outcome.run, outcome.status, outcome.usage.turns) == (stopped.run, "completed", 2)
    assert "Hello" in outcome.result["text"]


def test_a_run_is_forked_under_other_words(team: Path) -> None:
    """At a record, with changes for one agent or for all; the first run stays as it was."""
    first = asyncio.run(coterie.run(team, "Hello"))
    changes = {"echo.prompt": "Be an echo.", "retry": 2}
    forked = asyncio.run(coterie.fork(first.run, at=5, changes=changes))

    assert forked.run != first.run
    assert (forked.status, forked.usage.turns) == ("completed", 2)
    assert "Be an echo." in forked.result["text"]
    assert "Be an echo." not in first.result["text"]


def test_resume_and_fork_of_a_run_elsewhere_log_its_directory(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full id is enough, and the directory in which they work is not silent."""
    stopped = asyncio.run(coterie.run(team, "Hello", limits=coterie.Limits(max_turns=1)))
    asyncio.run(coterie.resume(stopped.run))
    assert "another directory" not in caplog.text
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")

    for act in (coterie.resume, coterie.fork):
        caplog.clear()
        asyncio.run(act(stopped.run, limits=coterie.Limits(max_turns=1)))
        assert f"run {stopped.run} is in {tmp_path}, another directory" in caplog.text


def test_a_topology_and_a_plan_run_like_their_file(team: Path) -> None:
    """Each step can be taken by itself, and every record is seen as it is appended."""
    topology = coterie.load(team)
    plan = coterie.plan(topology)
    seen: list[str] = []

    for one in (topology, plan):
        outcome = asyncio.run(coterie.run(one, {"prompt": "Hi", "n": 3}, observe=lambda run, record: seen.append(run)))
        assert outcome.status == "completed"
        assert "- n: 3" in outcome.result["text"]
        assert set(seen[-5:]) == {outcome.run}


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), asyncio.CancelledError("no")])
def test_an_observer_that_raises_stops_its_run_which_goes_on_without_it(
    team: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is in the journal, whatever was raised, and who iterates over the run still sees its end."""
    calls: list[Record] = []

    def observe(run: str, record: Record) -> None:
        calls.append(record)
        if isinstance(record, TurnStarted):
            raise error

    async def main() -> tuple[coterie.Outcome, list[str]]:
        run = coterie.start(team, {"prompt": "Hi", "n": 3}, observe=observe)
        return await run, [event.topic async for event in run]

    stopped, topics = asyncio.run(main())
    assert stopped.status == "stopped"
    assert re.fullmatch(rf"observe failed: .*{type(error).__name__}: no", stopped.reason)
    assert isinstance(calls[-1], TurnStarted)
    assert topics[-1] == "run.stopped"
    assert f"observe failed at record {calls[-1].seq} of {stopped.run}" in caplog.text
    assert asyncio.run(coterie.resume(stopped.run)).status == "completed"


def test_an_observer_that_raises_at_the_end_changes_no_outcome(team: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A run that has ended cannot stop."""

    def observe(run: str, record: Record) -> None:
        if isinstance(record, RunFinished):
            raise ValueError("too late")

    outcome = asyncio.run(coterie.run(team, {"prompt": "Hi", "n": 3}, observe=observe))
    assert outcome.status == "completed"
    assert "too late" in caplog.text


def test_a_file_that_is_wrong_raises_all_its_errors_at_once(team: Path) -> None:
    """With the lines they point at."""
    team.write_text(TEAM.replace("greet -> echo", "greet -> ecko -> grete"))

    with pytest.raises(coterie.TopologyError) as raised:
        coterie.load(str(team))

    assert [one.code for one in raised.value.diagnostics if one.is_error] == ["unknown-agent"] * 2
    assert "    | " in str(raised.value)


def test_warnings_of_a_file_are_reachable(tmp_path: Path) -> None:
    """Those of the text and those of the plan; `load` raises errors only, `read` raises none."""
    (tmp_path / "team.at").write_text(
        "topology t : [pipeline] { flow { a -> b }"
        ' agent a { model: opus tools: [Read] extensions { coterie { command: ["cat"] } } }'
        ' agent b { model: opus extensions { coterie { command: ["cat"] nonsense: 1 } } } }'
    )
    found = coterie.read(tmp_path / "team.at")
    assert not found.has_errors
    assert {"unknown-key", "not-enforced"} <= {one.code for one in found.diagnostics}
    assert coterie.load(tmp_path / "team.at") == found.topology
    (tmp_path / "team.at").write_text("topology {")
    assert coterie.read(tmp_path / "team.at").has_errors


def test_a_topology_that_cannot_be_run_is_refused_at_planning(team: Path) -> None:
    """A team without a flow is a good file, but nothing says who is asked."""
    team.write_text("topology t : [pipeline] { agent a { model: m } }")

    with pytest.raises(coterie.TopologyError, match="no-flow"):
        coterie.plan(coterie.load(team))


@bundle(
    ("limits", "why"),
    [
        ({"max_turns": 1}, "limits is coterie.Limits(…), not {'max_turns': 1}"),
        (coterie.Limits(max_turns=-2), "max_turns must be a whole number from 0, not -2"),
        (coterie.Limits(max_turns=1.5), "max_turns must be a whole number from 0, not 1.5"),  # type: ignore[arg-type]
        (coterie.Limits(max_cost=float("nan")), "max_cost must be a number from 0, not nan"),
        (coterie.Limits(max_cost="1"), "max_cost must be a number from 0, not '1'"),  # type: ignore[arg-type]
        (coterie.Limits(max_parallel=0), "max_parallel must be a whole number from 1, not 0"),
    ],
)
def test_wrong_limits_are_refused(limits: Any, why: str, team: Path) -> None:
    """By all functions that take them, before anything starts."""
    for call in (lambda: coterie.run(team, "x", limits=limits), coterie.resume, coterie.fork):
        with pytest.raises(UsageError) as refused:
            asyncio.run(call() if call.__name__ == "<lambda>" else call(limits=limits))
        assert str(refused.value) == why
    assert not Path(".coterie").exists()


def test_an_argument_of_a_run_says_what_it_takes(team: Path) -> None:
    """In place of an error from within; nothing has started."""
    for call, wrong, why in (
        (coterie.run, {"backend": 5}, "backend is the name of a backend, not 5"),
        (coterie.run, {"state_dir": None}, "state_dir is the path of a directory, not None"),
        (coterie.run, {"observe": 5}, "observe is a function, not 5"),
        (coterie.run, {"params": [1]}, "params is values by name, not [1]"),
        (
            coterie.run,
            {"max_turns": 3},
            "run() has no argument 'max_turns'; write limits=coterie.Limits(max_turns=3)",
        ),
        (coterie.run, {"statedir": "x"}, "run() has no argument 'statedir'; did you mean 'state_dir'?"),
        (coterie.resume, {"run": 5}, "run is the id of a run, not 5"),
        (coterie.resume, {"team": "team.at"}, "team is the flow that it runs, not 'team.at'"),
        (coterie.fork, {"at": "x"}, "at is the number of a record, not 'x'"),
        (coterie.fork, {"changes": ["a"]}, """changes is words by name, {"writer.prompt": "…"}, not ['a']"""),
    ):
        with pytest.raises(UsageError) as refused:
            asyncio.run(call(*([team] if call is coterie.run else []), **wrong))  # type: ignore[operator]
        assert str(refused.value) == why
    assert not Path(".coterie").exists()


@pytest.mark.parametrize(
    "call", [lambda: asyncio.run(coterie.run(3)), lambda: coterie.plan("team.at"), lambda: coterie.load(3)]
)
def test_an_argument_of_another_type_is_refused_by_name(call: Any) -> None:
    """With what the function takes."""
    with pytest.raises(UsageError, match=r"^(run\(\) takes a Topology|plan\(\) takes a Topology|a team is read)"):
        call()


def test_the_tools_for_tests_take_a_topology_as_run_does(team: Path) -> None:
    """Not only its plan; and a prompt."""
    topology = coterie.load(team)

    assert rehearse(topology, "x") == rehearse(coterie.plan(topology), {"prompt": "x"})
    assert simulate_many(topology, 1, jobs=1).schedules == 1
    with pytest.raises(UsageError, match="a team must be a Topology or a Plan, not str"):
        rehearse("team.at", "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="script: team has no agent 'great'; did you mean 'greet'"):
        rehearse(topology, "x", {"great": [{}]})


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="'coterie' has no attribute 'fly'"):
        _ = coterie.fly  # type: ignore[attr-defined]


def test_git_overlooks_what_runs_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that adds all files to a commit does not add the journals."""
    found = repository(tmp_path / "r", **{"team.at": TEAM})
    monkeypatch.chdir(found)
    asyncio.run(coterie.run("team.at", "Hello"))

    assert list(found.glob(".coterie/runs/*/journal.jsonl"))
    assert git(found, "status", "--porcelain") == ""


def test_what_fails_while_a_run_stops_is_raised() -> None:
    """Rather than the cancellation: it may be a journal that cannot be written."""

    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("no space")

    async def main() -> None:
        task = asyncio.ensure_future(until_stopped(fails()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(OSError, match="no space"):
            await task

    asyncio.run(main())
