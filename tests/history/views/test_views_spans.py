"""Spans of runs, folded from their records."""

import asyncio
from pathlib import Path
from typing import Any

import coterie
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptStep,
    Record,
    RunFinished,
    RunOwned,
    RunStarted,
    RunStopped,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.history.views.spans import RunSpans, TraceSpan

USED = Usage(input_tokens=10, output_tokens=2, cost=0.25)


def fold(*records: tuple[str, Record]) -> list[TraceSpan]:
    spans = RunSpans()
    return [span for run, record in records for span in spans.step(run, record)]


def started(turn: str, at: float, attempt: int = 1) -> TurnStarted:
    return TurnStarted(at=at, turn=turn, agent=turn.partition("#")[0], attempt=attempt)


def test_each_request_of_a_model_is_a_span_whose_money_is_counted_once() -> None:
    """Each begins where the one before ended; a sum over the usage of spans is that of the attempts."""
    one = Usage(input_tokens=4, output_tokens=1, cost=0.125)
    first, second, attempt = fold(
        ("r", RunStarted(at=1.0, run="r", engine="flow", plan='{"agents": {"writer": {"model": "sonnet"}}}')),
        ("r", started("writer#1", 2.0)),
        ("r", AttemptStep(at=3.0, turn="writer#1", attempt=1, n=1, usage=one, calls=("read", "grep"))),
        ("r", AttemptStep(at=5.0, turn="writer#1", attempt=1, n=2, usage=one)),
        ("r", TurnFinished(at=6.0, turn="writer#1", attempt=1, usage=USED)),
        ("r", AttemptStep(at=7.0, turn="writer#1", attempt=1, n=3, usage=one)),
    )

    assert (first.name, first.kind, first.start, first.end) == ("chat sonnet", "client", 2.0, 3.0)
    assert (first.attributes["coterie.request.tools"], first.attributes["coterie.request.number"]) == ("read, grep", 1)
    assert (second.span_id, second.start, second.end) == ("r/writer#1.1/2", 3.0, 5.0)
    assert first.parent_id == second.parent_id == attempt.span_id
    assert first.trace_id == attempt.trace_id
    spans = (first, second, attempt)
    for name, sum_of in (("coterie.usage.cost_usd", 0.25), ("gen_ai.usage.input_tokens", 10)):
        assert sum(span.attributes.get(name, 0) for span in spans) == sum_of


def test_each_attempt_and_each_owner_is_a_span() -> None:
    """An attempt that failed has its error; the next one its own span; both are below the run."""
    plan = '{"agents": {"writer": {"model": "sonnet"}}}'
    first, second, run = fold(
        ("r", RunStarted(at=1.0, run="r", engine="flow", topology="review", plan=plan)),
        ("r", RunOwned(at=1.0, epoch=1)),
        ("r", started("writer#1", 2.0)),
        ("r", AttemptFailed(at=3.0, turn="writer#1", attempt=1, kind="transient", reason="overloaded", usage=USED)),
        ("r", started("writer#1", 4.0, 2)),
        ("r", TurnFinished(at=6.0, turn="writer#1", attempt=2, usage=USED)),
        ("r", RunFinished(at=7.0, outcome="completed")),
    )

    assert (first.name, first.span_id, first.start, first.end) == ("invoke_agent writer", "r/writer#1.1", 2.0, 3.0)
    assert (first.error, first.attributes["error.type"]) == ("transient: overloaded", "transient")
    assert (second.span_id, second.start, second.end, second.error) == ("r/writer#1.2", 4.0, 6.0, "")
    assert second.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "writer",
        "gen_ai.conversation.id": "r",
        "gen_ai.request.model": "sonnet",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "coterie.run": "r",
        "coterie.turn": "writer#1",
        "coterie.attempt": 2,
        "coterie.usage.cost_usd": 0.25,
    }
    assert (run.name, run.span_id, run.parent_id, run.start, run.end) == ("invoke_workflow review", "r@1", "", 1.0, 7.0)
    assert first.parent_id == second.parent_id == run.span_id
    assert run.attributes["coterie.outcome"] == "completed"
    assert {span.trace_id for span in (first, second, run)} == {"r"}


def test_a_child_run_is_below_its_attempt() -> None:
    """In the trace of its root."""
    inner, child, outer, root = fold(
        ("r", RunStarted(at=1.0, run="r", engine="flow")),
        ("r", started("panel#1", 1.0)),
        ("r/panel#1.1", RunStarted(at=2.0, run="r/panel#1.1", engine="debate", topology="panel")),
        ("r/panel#1.1", started("critic#1", 2.0)),
        ("r/panel#1.1", TurnFinished(at=3.0, turn="critic#1", attempt=1)),
        ("r/panel#1.1", RunFinished(at=4.0, outcome="completed")),
        ("r", TurnFinished(at=5.0, turn="panel#1", attempt=1)),
        ("r", RunFinished(at=6.0, outcome="failed", reason="it was not enough")),
    )

    assert [span.trace_id for span in (inner, child, outer, root)] == ["r"] * 4
    assert inner.parent_id == child.span_id
    assert child.parent_id == outer.span_id == "r/panel#1.1"
    assert outer.parent_id == root.span_id
    assert root.error == "it was not enough"


def test_a_resumed_run_continues_its_trace() -> None:
    """Whoever resumes it sees only the records from there on; what a kill cut off ends with the next owner."""
    spans = fold(
        ("r", RunOwned(at=10.0, epoch=2)),
        ("r", AttemptInterrupted(at=10.0, turn="a#1", attempt=1, reason="crash")),
        ("r", started("a#1", 11.0, 2)),
        ("r", AttemptInterrupted(at=12.0, turn="a#1", attempt=2, reason="interrupted")),
        ("r", RunStopped(at=13.0, reason="interrupted")),
    )

    assert [(span.span_id, span.error) for span in spans] == [
        ("r/a#1.2", "interrupted: interrupted"),
        ("r@2", ""),
    ]
    assert spans[1].attributes["coterie.outcome"] == "stopped: interrupted"
    assert (spans[1].start, spans[1].end) == (10.0, 13.0)


def test_a_turn_that_fails_or_is_cancelled_ends_its_attempt_once() -> None:
    """A failure that an attempt has already reported is no second span."""
    spans = fold(
        ("r", started("a#1", 1.0)),
        ("r", AttemptFailed(at=2.0, turn="a#1", attempt=1, kind="failed", reason="no")),
        ("r", TurnFailed(at=2.0, turn="a#1", kind="failed", reason="no")),
        ("r", started("b#1", 1.0)),
        ("r", TurnCancelled(at=3.0, turn="b#1", reason="not needed")),
    )

    assert [(span.span_id, span.error) for span in spans] == [
        ("r/a#1.1", "failed: no"),
        ("r/b#1.1", "cancelled: not needed"),
    ]


def test_a_turn_belongs_to_the_trace_that_asked_for_it_and_leaves_nothing_behind() -> None:
    """With the child run below; a system that runs for months does not grow."""
    spans = RunSpans()
    sizes: list[list[int]] = []
    for n in (1, 2):
        spans.link("r", f"flow#{n}", f"trace {n}", "message")
        child = f"r/flow#{n}.1"
        records = (
            ("r", started(f"flow#{n}", 1.0)),
            (child, RunStarted(at=1.0, run=child, engine="flow")),
            (child, RunOwned(at=1.0, epoch=1)),
            (child, started("a#1", 1.0)),
            (child, TurnFinished(at=2.0, turn="a#1", attempt=1)),
            (child, RunFinished(at=2.0, outcome="completed")),
            ("r", TurnFinished(at=3.0, turn=f"flow#{n}", attempt=1)),
        )
        found = [span for run, record in records for span in spans.step(run, record)]
        assert [span.trace_id for span in found] == [f"trace {n}"] * 3
        assert found[-1].parent_id == "message"
        sizes.append([len(kept) for kept in vars(spans).values()])
    assert sizes[0] == sizes[1]


FLOW = """topology two : [pipeline] {
  agent writer { extensions { coterie { command: ["echo", "hello"] } } }
  agent reader { extensions { coterie { command: ["false"] } } }
  flow { writer -> reader }
}
"""


def test_a_real_run_has_a_span_for_each_turn(tmp_path: Path) -> None:
    """Folded while it runs."""
    (tmp_path / "two.at").write_text(FLOW)
    spans, seen = RunSpans(), list[TraceSpan]()

    def observe(run: str, record: Any) -> None:
        seen.extend(spans.step(run, record))

    topology = coterie.load(tmp_path / "two.at")
    asyncio.run(coterie.run(topology, {"prompt": "x"}, state_dir=tmp_path / "state", observe=observe))

    assert [span.name for span in seen] == ["invoke_agent writer", "invoke_agent reader", "invoke_workflow two"]
    assert [bool(span.error) for span in seen] == [False, True, True]
    assert all(span.start <= span.end for span in seen)
