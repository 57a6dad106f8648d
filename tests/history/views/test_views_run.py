"""The views of a run: its state, what it used, how it looks as a tree."""

from pathlib import Path

import pytest
from msgspec import structs

from coterie.history.journal.codec import Decoder
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptQuiet,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    GuidanceDelivered,
    IterationStarted,
    Record,
    RunFinished,
    RunOwned,
    RunStarted,
    RunStopped,
    TreeAttested,
    TreeMerged,
    TreePosition,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.history.views import run, usage
from coterie.history.views.tree import RunNode, tree
from coterie.interfaces.cli.text.runs import usage_table
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan

HISTORIES = Path(__file__).parents[2] / "histories" / "0.1"


def history(name: str) -> list[Record]:
    path = HISTORIES / f"{name}.jsonl"
    with path.open("rb") as file:
        return list(Decoder(str(path)).read(file))


def test_a_finished_run() -> None:
    """A run that is over shows what it was asked, what it gave back, and how its turns went."""
    view = run.fold(history("review"))

    assert (view.id, view.topology, view.state, view.epoch) == ("review", "review", "completed", 1)
    assert view.input["prompt"] == "Review it"
    assert view.result == {"end": "done"}
    assert (view.started, view.finished, view.seq) == (1000.5, 1009.0, 18)
    assert [turn.id for turn in view.turns] == ["draft#1", "critic#1", "facts#1", "judge#1", "end#1"]
    judge = view.turn("judge#1")
    assert judge
    assert (judge.agent, judge.n, judge.state, judge.inputs) == ("judge", 1, "finished", ("critic#1", "facts#1"))
    assert judge.outputs == {"verdict": "revise"}
    assert judge.seconds(now=9999.0) == 0.5


def test_a_turn_with_two_attempts() -> None:
    """Each attempt has its times and its end; the turn's use is that of both."""
    draft = run.fold(history("review")).turn("draft#1")

    assert draft
    first, second = draft.attempts
    assert (first.n, first.state, first.kind, first.pid) == (1, "failed", "timeout", 4711)
    assert (first.started, first.finished) == (1001.5, 1002.5)
    assert (second.n, second.state, second.finished) == (2, "finished", 1003.5)
    assert (draft.started, draft.finished, draft.attempt) == (1001.5, 1003.5, 2)
    assert draft.usage == Usage(input_tokens=2400, output_tokens=680, cost=0.042, seconds=4.0)


@pytest.mark.parametrize(
    ("upto", "state", "turn"),
    [(4, "running", "running"), (7, "running", "waiting"), (8, "running", "running"), (13, "waiting", "running")],
)
def test_any_prefix_shows_what_was_true_then(upto: int, state: str, turn: str) -> None:
    """A turn between two attempts waits; a run that stopped for a human waits, too."""
    view = run.fold(history("nested")[:upto])

    assert view.state == state
    human = view.turn("human#1")
    assert human
    assert human.state == turn


def test_a_resumed_run_runs_again() -> None:
    """The next owner takes the stop back."""
    view = run.fold([*history("nested"), RunOwned(seq=14, at=2000.0, epoch=3)])

    assert (view.state, view.reason, view.finished, view.epoch) == ("running", "", None, 3)
    assert view.seconds(now=2000.5) == 1000.0


def test_failures_and_cancelled_turns() -> None:
    """A turn that failed says why, and so does its run; one that was called off ends its attempt."""
    view = run.fold(history("loop"))

    assert (view.state, view.reason) == ("failed", "builder#2 failed")
    failed, cancelled = view.turn("builder#2"), view.turn("critic#1")
    assert failed
    assert cancelled
    assert (failed.state, failed.kind, failed.reason) == ("failed", "exit", "it ended with status 2")
    assert (cancelled.state, cancelled.attempts[0].state, cancelled.reason) == (
        "cancelled",
        "cancelled",
        "the run failed",
    )


def test_no_records_are_no_run_yet() -> None:
    """A journal can be empty for a moment."""
    view = run.fold([])

    assert (view.id, view.turns, view.started, view.seconds(5.0)) == ("", [], None, 0.0)


def test_records_of_turns_it_has_not_seen_are_passed_over() -> None:
    """A fold that begins in the middle shows what it can."""
    ends = [
        AttemptFailed(seq=5, turn="a#1", attempt=1, kind="exit", reason=""),
        TurnFinished(seq=6, turn="a#1", attempt=1),
        TurnFailed(seq=7, turn="b#1", kind="exit", reason=""),
        TurnCancelled(seq=8, turn="c#1"),
    ]

    assert run.fold(ends).turns == []
    assert usage.fold(ends).agents == {}


def test_usage_adds_up_by_agent() -> None:
    """Every attempt counts, the failed ones too; turns count once."""
    view = usage.fold(history("review"))

    draft = view.agents["draft"]
    assert (draft.turns, draft.attempts, draft.input_tokens, draft.output_tokens) == (1, 2, 2400, 680)
    assert draft.cost == pytest.approx(0.042)
    assert list(view.agents) == ["draft", "critic", "facts", "judge", "end"]
    assert (view.total.turns, view.total.attempts, view.total.seconds) == (5, 6, 6.0)
    assert view.total.cost == pytest.approx(0.063)


def test_cached_tokens_and_answers_without_a_price_add_up() -> None:
    """Over the attempts of a turn, those of failed ones included, and over the agents."""
    records: list[Record] = []
    for agent in ("a", "b"):
        records.append(TurnStarted(turn=f"{agent}#1", agent=agent))
        failed = Usage(cached_tokens=3, unpriced=1)
        records.append(AttemptFailed(turn=f"{agent}#1", attempt=1, kind="exit", reason="", usage=failed))
        records.append(TurnStarted(turn=f"{agent}#1", agent=agent, attempt=2))
        records.append(TurnFinished(turn=f"{agent}#1", attempt=2, usage=Usage(cached_tokens=4, unpriced=2)))
    view = usage.fold(records)

    assert [(each.cached_tokens, each.unpriced) for each in view.agents.values()] == [(7, 3), (7, 3)]
    assert (view.total.cached_tokens, view.total.unpriced) == (14, 6)


def test_what_attempts_that_were_cut_off_cost_adds_up() -> None:
    """Also the part of a reservation that may have been spent unseen."""
    records = history("budget")
    view = usage.fold(records)

    assert (view.total.cost, view.total.unsettled, view.total.output_tokens) == (1.5, 0.25, 90)
    assert "may have cost up to $0.25 more" in usage_table(view.agents, view.total)
    [turn] = run.fold(records).turns
    assert [one.usage.cost for one in turn.attempts] == [0.25, 0.75, 0.5]


def test_the_time_of_attempts_that_were_cut_off_adds_up() -> None:
    """Until they were interrupted or cancelled; after a crash, until the last sign of the process that died."""
    records: list[Record] = [
        RunOwned(seq=1, at=0.0, epoch=1),
        TurnStarted(seq=2, at=1.0, turn="a#1", agent="a"),
        TurnStarted(seq=3, at=2.0, turn="b#1", agent="b"),
        AttemptInterrupted(seq=4, at=4.0, turn="a#1", attempt=1, reason="interrupted"),
        TurnStarted(seq=5, at=5.0, turn="a#1", agent="a", attempt=2),
        RunOwned(seq=6, at=5000.0, epoch=2),
        AttemptInterrupted(seq=7, at=5000.0, turn="b#1", attempt=1, reason="crash"),
        TurnCancelled(seq=8, at=5001.0, turn="b#1"),
        TurnFinished(seq=9, at=5002.0, turn="a#1", attempt=2, usage=Usage(seconds=1.5)),
    ]
    view = usage.fold(records)

    assert {name: each.seconds for name, each in view.agents.items()} == {"a": 4.5, "b": 3.0}


def test_usage_of_a_child_run_is_in_its_turn() -> None:
    """The turns inside are told apart from the run's own."""
    view = usage.fold(history("nested"))

    assert (view.agents["team"].turns, view.agents["team"].nested, view.agents["team"].cost) == (1, 3, 0.5)


def parent(*more: Record) -> run.RunView:
    records = [
        RunStarted(seq=1, at=10.0, run="r1", engine="flow", topology="team"),
        TurnStarted(seq=2, at=11.0, turn="debate#1", agent="debate"),
        TurnStarted(seq=3, at=12.0, turn="writer#1", agent="writer"),
        TurnFinished(seq=4, at=14.0, turn="writer#1", attempt=1, usage=Usage(cost=0.25)),
    ]
    return run.fold([*records, *more])


def child(*more: Record) -> run.RunView:
    records = [
        RunStarted(seq=1, at=11.0, run="r1/debate#1.1", engine="debate", topology="debate", parent="r1"),
        TurnStarted(seq=2, at=11.5, turn="pro#1", agent="pro"),
        TurnFinished(seq=3, at=13.0, turn="pro#1", attempt=1, usage=Usage(cost=0.5)),
        TurnStarted(seq=4, at=13.0, turn="con#1", agent="con"),
    ]
    return run.fold([*records, *more])


def test_a_tree_holds_child_runs_where_they_belong() -> None:
    """Below the turn that they are; what they cost so far counts above them at once."""
    root = tree(parent(), {"r1/debate#1.1": child()}, now=15.0)

    assert root == RunNode(
        id="r1", label="team", state="running", seconds=5.0, cost=0.75, detail="1 finished, 1 running",
        children=(
            RunNode(id="debate#1", label="debate#1", state="running", seconds=4.0, cost=0.5,
                 children=(
                     RunNode(id="r1/debate#1.1", label="debate", state="running", seconds=4.0, cost=0.5,
                          detail="1 finished, 1 running",
                          children=(
                              RunNode(id="pro#1", label="pro#1", state="finished", seconds=1.5, cost=0.5),
                              RunNode(id="con#1", label="con#1", state="running", seconds=2.0),
                          )),
                 )),
            RunNode(id="writer#1", label="writer#1", state="finished", seconds=2.0, cost=0.25),
        ),
    )  # fmt: skip


def test_a_child_s_cost_is_counted_once() -> None:
    """The turn's receipt repeats what its child used."""
    ended = child(RunFinished(seq=5, at=14.0, outcome="completed"))
    root = tree(
        parent(TurnFinished(seq=5, at=14.0, turn="debate#1", attempt=1, usage=Usage(cost=0.5, turns=2))),
        {"r1/debate#1.1": ended},
        now=15.0,
    )

    assert root.cost == 0.75
    assert root.children[0].children[0].seconds == 3.0


def test_a_tree_says_what_is_out_of_the_ordinary() -> None:
    """A failure, a pause between attempts, a later attempt, a stop: in words beside the node."""
    records = [
        TurnStarted(seq=5, at=15.0, turn="a#1", agent="a"),
        AttemptFailed(seq=6, at=15.0, turn="a#1", attempt=1, kind="exit", reason="status 2"),
    ]
    details = []
    for more in (
        [],
        [TurnStarted(seq=7, turn="a#1", agent="a", attempt=2)],
        [TurnFailed(seq=7, turn="a#1", kind="exit", reason="status 2")],
    ):
        node = tree(parent(*records, *more, RunStopped(seq=8, at=16.0, reason="max_cost")), {}, now=20.0)
        assert (node.state, node.detail, node.seconds) == ("stopped", "max_cost", 6.0)
        details.append(node.children[2].detail)

    assert details == ["attempt 1 failed: status 2", "attempt 2", "status 2"]


def test_a_tree_shows_where_an_attempt_worked_and_which_signs_of_life_it_lacks_now() -> None:
    """A tree that did not move, and signs that came back, are no news."""
    here = TreePosition(top="/r", repository="/r/.git", head="a" * 40, branch="x")
    records: list[Record] = [TurnStarted(seq=5, turn="a#1", agent="a")]
    notes = []
    for n, more in enumerate(
        (
            AttemptQuiet(turn="a#1", attempt=1, signs=("cpu", "file"), seconds=600.0),
            AttemptQuiet(turn="a#1", attempt=1),
            TreeAttested(turn="a#1", attempt=1, before=here, after=here),
            TreeAttested(turn="a#1", attempt=1, before=here, after=structs.replace(here, head="c" * 40)),
            AttemptQuiet(turn="a#1", attempt=1, signs=("cpu",), seconds=600.0),
            GuidanceDelivered(turn="a#1", messages=("m",)),
            GuidanceDelivered(turn="a#1", messages=("m",), attempt=1),
            TurnFinished(turn="a#1", attempt=1),
        ),
        6,
    ):
        records.append(structs.replace(more, seq=n))
        notes.append([each.label for each in tree(parent(*records), {}, now=20.0).children[2].children])

    moved = "a#1 moved its work tree to cccccccccccc"
    given = "a#1 was given the operator's guidance while it worked"
    idle = "a#1 has computed nothing for 10 min 00 s"
    assert notes == [
        ["a#1 has computed nothing and changed no file for 10 min 00 s"],
        [],
        [],
        [moved],
        [moved, idle],
        [moved, idle],
        [moved, idle, given],
        [moved, given],
    ]


def test_a_tree_of_a_flow_shows_pending_nodes_and_who_waits_for_a_person() -> None:
    """A pipe's reader can tell neither; a person who looks at a terminal has nothing else."""
    nodes = {"w": AgentPlan(name="w"), "boss": AgentPlan(name="boss", kind="human"), "end": AgentPlan(name="end")}
    plan = Plan(name="team", agents=nodes, coordination=FlowPlan(mentions=("w", "boss", "end"), groups=()))
    view = run.fold(
        [
            RunStarted(at=1.0, run="r1", engine="flow", topology="team"),
            TurnStarted(at=1.0, turn="w#1", agent="w"),
            TurnStarted(at=1.0, turn="boss#1", agent="boss"),
        ]
    )
    root = tree(view, {}, now=2.0, plan=plan, printed={"r1/w#1.1": "step 2"})

    assert root.detail == "1 running, 1 waiting, 1 pending"
    assert [(node.label, node.state, node.detail) for node in root.children] == [
        ("w#1", "running", "step 2"),
        ("boss#1", "waiting", "answer with: coterie control respond r1 'boss#1' TEXT"),
        ("end", "pending", ""),
    ]


def test_a_tree_says_what_a_silent_turn_waits_for() -> None:
    """After two seconds, while the run goes on, and only where it is known what was printed."""
    nodes = {"w": AgentPlan(name="w"), "m": AgentPlan(name="m", backend="model")}
    plan = Plan(name="team", agents=nodes, coordination=FlowPlan(mentions=("w", "m"), groups=()))
    records = [
        RunStarted(at=1.0, run="r1", engine="flow", topology="team"),
        TurnStarted(at=1.0, turn="w#1", agent="w"),
        TurnStarted(at=1.0, turn="m#1", agent="m"),
    ]

    def details(now: float, *more: Record, printed: dict[str, str] | None) -> list[str]:
        root = tree(run.fold([*records, *more]), {}, now=now, plan=plan, printed=printed)
        return [node.detail for node in root.children]

    assert details(2.9, printed={}) == ["", ""]
    assert details(3.0, printed={}) == ["waiting for its first output", "waiting for the model"]
    assert details(3.0, printed={"r1/w#1.1": "step 1"}) == ["step 1", "waiting for the model"]
    assert details(3.0, printed=None) == ["", ""]
    assert details(9.0, RunStopped(at=8.0, reason="interrupted"), printed={}) == ["", ""]


def test_a_tree_of_a_loop_shows_what_its_lines_say() -> None:
    """Role, event, N of max, rejected emits, failed reloads and merges."""
    plan = Plan(name="loop", coordination=LoopPlan(max_iterations=5))
    view = run.fold(
        [
            RunStarted(at=1.0, run="r1", engine="loop", topology="loop"),
            RunOwned(at=1.0, epoch=1, limits=Limits(add_iterations=2)),
            IterationStarted(at=1.0, n=1, role="writer", event="loop.start"),
            TurnStarted(at=1.0, turn="iteration#1", agent="writer"),
            EventInvalid(at=1.0, turn="iteration#1", event="done", allowed=("draft",)),
            EventEmitted(at=1.0, turn="iteration#1", event="draft"),
            TurnFinished(at=2.0, turn="iteration#1", attempt=1, text="ok"),
            ConfigRejected(at=2.0, reason="loop.toml: no"),
            TreeMerged(at=2.0, status="merged", path="p", branch="b", into="main"),
        ]
    )
    turn, rejected, merged = tree(view, {}, now=2.0, plan=plan).children

    assert turn.label == "iteration#1 of 7  writer  after loop.start  → draft"
    assert [(note.state, note.label) for note in turn.children] == [
        ("note", "iteration#1 emitted done, which was not allowed (allowed: draft)")
    ]
    assert rejected.label == "the plan could not be read again; the last valid one is kept:"
    assert [line.label for line in rejected.children] == ["loop.toml: no"]
    assert merged.label == "the work on b was merged into main"
