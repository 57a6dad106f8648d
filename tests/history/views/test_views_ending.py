"""The one sentence for each end that is not a plain completion, and the next line to type."""

from collections.abc import Sequence

import pytest

from coterie.history.journal import records as r
from coterie.history.views.ending import EndFacts
from coterie.team.planning.plan import Limits

OWNED = r.RunOwned(epoch=1, limits=Limits(max_turns=2, max_cost=0.5))
REFUSED = r.GateChecked(turn="iteration#1", attempt=1, argv=("make", "test"), status=2, output="1 failed\nE  x != y")


def facts(*records: r.Record) -> EndFacts:
    found = EndFacts()
    for one in (OWNED, *records):
        found.apply(one)
    return found


@pytest.mark.parametrize(
    ("records", "waiting", "text", "command"),
    [
        ([], (), "the process that drove it is gone", "coterie resume r1"),
        ([r.RunStopped(reason="max_turns")], (), "it has begun the 2 turns that --max-turns", " r1 --max-turns 4"),
        ([r.RunStopped(reason="max_cost")], (), "it has used the $0.50 of --max-cost", "resume r1 --max-cost 1"),
        (
            [r.IterationStarted(n=1), r.RunStopped(reason="max_iterations")],
            (),
            "it has begun all 1 iteration",
            "coterie resume r1 --add-iterations 1",
        ),
        (
            [r.IterationStarted(n=1), REFUSED, r.RunStopped(reason="max_iterations")],
            (),
            "that its settings allow; the gate “make test” last refused it: “1 failed E x != y”",
            "coterie resume r1 --add-iterations 1",
        ),
        *(
            (
                [REFUSED, r.RunStopped(reason=limit)],
                (),
                "; the gate “make test” last refused it",
                f"coterie resume r1{option}",
            )
            for limit, option in {
                "max_turns": " --max-turns 4",
                "max_cost": " --max-cost 1",
                "max_runtime": "",
                "cost_budget": "",
            }.items()
        ),
        ([r.RunStopped(reason="max_runtime")], (), "event_loop.max_runtime", "coterie resume r1"),
        (
            [REFUSED, r.RunStopped(reason="stalled")],
            (),
            "again and again; the gate “make test” last refused it: “1 failed E x != y”",
            "coterie resume r1",
        ),
        (
            [REFUSED, r.GateChecked(turn="t", attempt=1, argv=("x",), passed=True), r.RunStopped(reason="stalled")],
            (),
            "its last iterations came to the same result again and again",
            "coterie resume r1",
        ),
        ([r.RunStopped(reason="waiting")], ["boss#1"], "a person to answer boss#1", "attention r1 'boss#1' ANSWER"),
        ([r.RunStopped(reason="waiting")], (), "its questions are answered", "coterie resume r1"),
        ([r.RunStopped(reason="interrupted", by="person")], (), "a person stopped it", "coterie resume r1"),
        ([r.RunStopped(reason="interrupted", by="process")], (), "a signal to its process", "coterie resume r1"),
        ([r.RunStopped(reason="quota until x", until=60.0)], (), "until 1970-01-01T00:01:00Z", "--when-open r1"),
        ([r.RunStopped(reason="shortage: the disk is full")], (), "ran short: the disk is full", "coterie resume r1"),
        ([r.RunFinished(outcome="failed", reason="a#1 failed")], (), "a#1 failed", "coterie inspect r1"),
        ([r.RunFinished(outcome="failed", reason=r.MERGE_CONFLICT)], (), "could not be merged", "coterie inspect r1"),
        (
            [
                r.ConditionUnknown(turn="b#1", agent="b", field="verdict"),
                r.ConditionUnknown(turn="b#1", agent="b", field="verdict"),
                r.PathEnded(turn="b#1"),
                r.RunFinished(outcome="completed"),
            ],
            (),
            "the flow ended after b#1 because its conditions read nothing: no value for b.verdict",
            "coterie inspect r1 output 'b#1'",
        ),
    ],
)
def test_an_end_has_its_reason_and_the_next_line(
    records: list[r.Record], waiting: Sequence[str], text: str, command: str
) -> None:
    """Each in one sentence, and with a line that can be typed."""
    found = facts(*records).ending("r1", waiting=waiting)

    assert found is not None
    assert text in found.text
    assert found.command.endswith(command)
    assert found.command.startswith("coterie ")


@pytest.mark.parametrize(
    "records",
    [
        [r.RunFinished(outcome="completed")],
        [r.ConditionUnknown(turn="b#1", agent="b", field="x"), r.RunFinished(outcome="completed")],
        [r.PathEnded(turn="b#1", found={"b.x": '"no"'}), r.RunFinished(outcome="completed")],
        [
            r.ConditionUnknown(turn="b#1", agent="b", field="x"),
            r.PathEnded(turn="b#1", reason="end"),
            r.RunFinished(outcome="completed"),
        ],
    ],
)
def test_a_run_that_did_its_work_needs_no_sentence(records: list[r.Record]) -> None:
    """A condition that read nothing beside an arrow that fired, and a path that ended by a value, are plain."""
    assert facts(*records).ending("r1") is None


def test_a_run_at_work_needs_no_sentence() -> None:
    """Also after it had stopped or failed before."""
    assert facts().ending("r1", is_owned=True) is None
    assert facts(r.RunStopped(reason="max_turns"), r.RunOwned(epoch=2)).ending("r1", is_owned=True) is None
    assert facts(r.RunFinished(outcome="failed"), r.RunReopened()).ending("r1", is_owned=True) is None


@pytest.mark.parametrize(
    ("way_on", "command"),
    [("retry", "resume r1 --retry"), ("fork", "fork r1"), ("merge", "worktree merge r1"), ("", "inspect r1")],
)
def test_a_failed_run_goes_on_by_its_way(way_on: str, command: str) -> None:
    """As its outcome names it."""
    found = facts(r.RunFinished(outcome="failed", reason="x")).ending("r1", way_on=way_on)

    assert found is not None
    assert found.command == f"coterie {command}"
