import pytest
from flow_driver import (
    agent,
    asked,
    asks,
    enum,
    failed,
    finished,
    group,
    make_flow,
    notes,
    play,
    start,
)
from msgspec.structs import replace

from coterie.history.engines.commands import Ask, Cancel, Emit, Finish, Note, Reply
from coterie.history.engines.flow import Decision, FlowEngine
from coterie.history.engines.flow.counters import Counters
from coterie.history.journal.records import (
    AttemptFailed,
    ConditionUnknown,
    EventInvalid,
    LoopExhausted,
    PathEnded,
    RunStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from coterie.team.planning.on_max import human_agent
from coterie.team.planning.plan import FlowPlan
from coterie.team.topology.graph import FlowGraph

REVIEW = (group("w -> r"), group("r -> w", "r.verdict == revise", max=1), group("r -> p", "r.verdict == approve"))


def after(flow: FlowEngine, *turns: str, **outputs: object) -> list[object]:
    """What the last of *turns* leads to, the run begun and the others ended before; *outputs* are the last one's."""
    commands = list(flow.step(start()))
    for turn in turns:
        commands = list(flow.step(finished(turn, **(outputs if turn == turns[-1] else {}))))
    return commands


def decided(flow: FlowEngine) -> Decision | None:
    """Its last decision, without the places of the arrows in the plan."""
    found = flow.decision
    return found if found is None else replace(found, fired_at=(), exhausted_at=())


# -- start, marks, settling


def test_every_entry_starts_with_the_run() -> None:
    """Rule 1: in rank order, with nothing but the run's input."""
    flow = make_flow(group("a -> c"), group("b -> c"), group("x -> x", max=2))

    assert asks(flow.step(start())) == [("a#1", []), ("b#1", []), ("x#1", [])]


def test_a_flow_without_nodes_is_complete_at_once() -> None:
    """There is nothing to run and nothing that could go wrong."""
    assert list(FlowEngine(FlowPlan(mentions=(), groups=()), {}).step(start())) == [
        Finish(outcome="completed", result={"outputs": {}, "text": ""})
    ]


def test_inputs_come_in_the_source_order_of_the_arrows() -> None:
    """Rule 2: whoever was first to finish, the prompt shows them as the file draws them."""
    flow = make_flow(group("a -> x y"), group("y -> z"), group("x -> z"))
    flow.step(start())
    flow.step(finished("a#1"))
    flow.step(finished("x#1"))

    assert asks(flow.step(finished("y#1"))) == [("z#1", ["y#1", "x#1"])]


def test_an_arrow_that_did_not_fire_gives_no_place() -> None:
    """Rule 2: the order is that of the arrows which brought the marks, not of all that lead into the node."""
    flow = make_flow(group("a -> z", "a.n >= 2"), group("b -> z"), group("a -> z"))
    flow.step(start())
    flow.step(finished("a#1", n=1))

    assert asks(flow.step(finished("b#1"))) == [("z#1", ["b#1", "a#1"])]


def test_a_source_with_two_arrows_marks_once() -> None:
    """Rule 2: the same result is not shown twice."""
    flow = make_flow(group("a -> b", "a.n >= 1"), group("a -> b", "a.n >= 0"))

    assert asks(after(flow, "a#1", n=1)) == [("b#1", ["a#1"])]


def test_a_waiting_node_sees_the_latest_result_of_its_source() -> None:
    """Marks on one arrow do not add up: of three reviews that marked the publisher it is given the last."""
    flow = make_flow(group("w -> r"), group("r -> p"), group("r -> w", "r.verdict == revise", max=2))
    after(flow, "w#1", "r#1", verdict="revise")
    flow.step(finished("w#2"))

    assert asks(flow.step(finished("r#2", verdict="approve"))) == [("p#1", ["r#2"])]


def test_a_mark_that_comes_while_its_node_runs_waits_for_its_end() -> None:
    """Rule 3: an agent runs one turn at a time; nobody waits for a loop arrow, so it may come at such a time."""
    flow = make_flow(group("s -> b c"), group("b -> d"), group("d -> c", max=1), group("c -> b", max=1))
    assert asked(after(flow, "s#1")) == ["b#1", "c#1"]

    assert flow.step(finished("c#1")) == []
    assert asks(flow.step(finished("b#1"))) == [("b#2", ["c#1"])]
    assert asks(flow.step(finished("b#2"))) == [("d#1", ["b#2"])]


def test_records_that_decide_nothing_lead_to_nothing() -> None:
    """The engine hears every record; those of turns it does not know are none of its business."""
    flow = make_flow(group("a -> b"))
    flow.step(start())

    assert list(flow.step(TurnStarted(turn="a#1", agent="a"))) == []
    assert list(flow.step(finished("b#7"))) == []
    assert flow.decision is None


# -- conditions, exhaustion


def test_an_output_that_was_never_produced_is_noted_once() -> None:
    """Rule 5: it satisfies nothing, `!=` included; the path ends, and the journal says why."""
    flow = make_flow(group("a -> b", "a.verdict == x"), group("a -> c", "a.verdict != x"), group("a -> d", "z.n > 1"))

    commands = after(flow, "a#1")
    assert notes(commands) == [
        ConditionUnknown(turn="a#1", agent="a", field="verdict"),
        ConditionUnknown(turn="a#1", agent="z", field="n"),
        PathEnded(turn="a#1", reason="no_match"),
    ]
    assert isinstance(commands[-1], Finish)


def test_a_turn_replaces_its_agents_outputs_as_a_whole() -> None:
    """Rule 5: what an earlier turn said and the latest does not is not there any more."""
    flow = make_flow(group("a -> b"), group("b -> a", "b.n == 1", max=5), group("b -> c", "a.verdict == go"))
    flow.step(start())
    flow.step(finished("a#1", verdict="go"))
    assert flow.step(finished("b#1", n=1))
    assert flow.decision is not None
    assert flow.decision.fired == (("b", ("a",)), ("b", ("c",)))

    flow.step(finished("a#2", other=1))
    assert ConditionUnknown(turn="b#2", agent="a", field="verdict") in notes(flow.step(finished("b#2", n=2)))


def test_a_spent_loop_is_forced_forward() -> None:
    """Rule 6: the first forward group that is not spent itself fires, whatever its condition says."""
    flow = make_flow(*REVIEW)
    after(flow, "w#1", "r#1", verdict="revise")
    flow.step(finished("w#2"))

    commands = flow.step(finished("r#2", verdict="revise"))
    record = LoopExhausted(turn="r#2", exhausted=(("r", ("w",)),), forced=("r", ("p",)))
    assert commands == [Note(record=record), Ask(turn="p#1", agent="p", inputs=("r#2",))]
    assert decided(flow) == Decision(
        turn="r#2", node="r", fired=(("r", ("p",)),), exhausted=record.exhausted, forced=record.forced
    )


def test_a_spent_group_does_not_count_while_another_fires() -> None:
    """Rule 6: nothing is exhausted as long as the flow goes on by itself."""
    flow = make_flow(group("a -> a", "a.n == 1", max=1), group("a -> b"))
    after(flow, "a#1", n=1)

    assert notes(flow.step(finished("a#2", n=1))) == []
    assert decided(flow) == Decision(turn="a#2", node="a", fired=(("a", ("b",)),))


def test_the_forced_group_is_the_first_that_is_neither_loop_nor_spent() -> None:
    """Rule 6: a list that holds a loop arrow is a loop group, and a spent forward group is passed over."""
    flow = make_flow(
        group("a -> a z", "a.n == 1", max=1),
        group("a -> b", "a.n == 1", max=1),
        group("a -> c", "a.n == 2"),
        group("a -> d", "a.n == 3"),
    )
    after(flow, "a#1", n=1)
    assert asked(flow.step(finished("a#2", n=1))) == ["z#1", "b#1", "c#1"], "c is forced, d is not"
    assert flow.decision is not None
    assert flow.decision.exhausted == (("a", ("a", "z")), ("a", ("b",)))
    assert flow.decision.forced == ("a", ("c",))


def test_a_forced_firing_counts() -> None:
    """Rule 6: a bounded way forward is spent by being forced, too."""
    flow = make_flow(group("a -> a", "a.n == 1", max=1), group("a -> b", "a.n == 2", max=1), group("b -> a", max=5))
    after(flow, "a#1", n=1)
    assert asked(flow.step(finished("a#2", n=1))) == ["b#1"]
    flow.step(finished("b#1"))

    assert notes(flow.step(finished("a#3", n=1))) == [
        LoopExhausted(turn="a#3", exhausted=(("a", ("a",)),)),
        PathEnded(turn="a#3", reason="exhausted"),
    ]


def test_a_spent_loop_with_no_way_forward_ends_the_path() -> None:
    """Rule 6: recorded like a forced way, with none."""
    flow = make_flow(group("w -> r"), group("r -> w", max=1))
    after(flow, "w#1", "r#1", "w#2")

    commands = flow.step(finished("r#2"))
    assert notes(commands) == [
        LoopExhausted(turn="r#2", exhausted=(("r", ("w",)),)),
        PathEnded(turn="r#2", reason="exhausted"),
    ]
    assert commands[-1] == Finish(outcome="completed", result={"outputs": {"r": {}}, "text": "said by r#2"})


def test_on_max_end_ends_the_path_though_a_way_is_open() -> None:
    """The extension's `end`: nothing is forced."""
    flow = make_flow(group("a -> a", max=1, on_max="end"), group("a -> b", "a.n == 1"))
    after(flow, "a#1")

    assert notes(flow.step(finished("a#2", n=0)))[-1] == PathEnded(turn="a#2", reason="end")


def test_on_max_fail_ends_the_run() -> None:
    """The extension's `fail`: what runs is cancelled, the reason names the turn and the group."""
    flow = make_flow(group("s -> a b"), group("a -> a", max=1, on_max="fail"))
    after(flow, "s#1", "a#1")

    reason = "a#2: a -> a has fired as often as its max allows"
    assert flow.step(finished("a#2")) == [
        Note(record=LoopExhausted(turn="a#2", exhausted=(("a", ("a",)),))),
        Cancel(turn="b#1", reason=reason),
        Finish(outcome="failed", reason=reason),
    ]
    assert list(flow.step(TurnCancelled(turn="b#1"))) == []


HUMAN = (
    group("s -> a b"),
    group("a -> a", "a.verdict == revise", max=1, on_max="human"),
    group("a -> c", "a.verdict == approve"),
    group("b -> d"),
    group("c -> d"),
)


def asked_human() -> FlowEngine:
    """The engine, waiting for a human's word on `a`; `b` still runs."""
    flow = make_flow(*HUMAN)
    after(flow, "s#1", "a#1", verdict="revise")
    assert flow.step(finished("a#2", verdict="revise")) == [Ask(turn="on-max:a#1", agent="on-max:a", inputs=("a#2",))]
    assert decided(flow) == Decision(turn="a#2", node="a", exhausted=(("a", ("a",)),))
    return flow


def test_the_source_of_a_spent_loop_is_in_flight_until_the_human_answers() -> None:
    """A join downstream waits for the answer, since it may still be marked."""
    flow = asked_human()
    assert asked(flow.step(finished("b#1"))) == []

    assert asked(flow.step(finished("on-max:a#1", decision="forward"))) == ["c#1"]
    assert asks(flow.step(finished("c#1"))) == [("d#1", ["b#1", "c#1"])]


def test_while_a_human_is_asked_the_agent_itself_is_free() -> None:
    """It may stand in for another, who waited for it."""
    flow = make_flow(*HUMAN, b=agent("b", on_fail="fallback", fallback="a"))
    after(flow, "s#1", "a#1", verdict="revise")
    assert flow.step(failed("b#1")) == []

    assert asked(flow.step(finished("a#2", verdict="revise"))) == ["on-max:a#1", "a#3"]


def test_a_human_may_force_the_flow_forward() -> None:
    """`forward`: as the default does, and recorded alike."""
    flow = asked_human()

    commands = flow.step(finished("on-max:a#1", decision="forward"))
    assert notes(commands) == [LoopExhausted(turn="on-max:a#1", exhausted=(("a", ("a",)),), forced=("a", ("c",)))]
    assert asks(commands) == [("c#1", ["a#2"])]


def test_a_human_may_grant_another_round() -> None:
    """`again`: the spent group fires once more, and is spent still."""
    flow = asked_human()

    commands = flow.step(finished("on-max:a#1", decision="again"))
    assert commands == [Ask(turn="a#3", agent="a", inputs=("a#2",))]
    assert decided(flow) == Decision(turn="on-max:a#1", node="a", fired=(("a", ("a",)),))
    assert asked(flow.step(finished("a#3", verdict="revise"))) == ["on-max:a#2"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(finished("on-max:a#1", decision="end"), "end"), (TurnCancelled(turn="on-max:a#1"), "failed")],
    ids=["end", "cancelled"],
)
def test_a_human_may_end_the_path(answer: TurnFinished, reason: str) -> None:
    """`end`, and a question that an operator called off."""
    flow = asked_human()

    assert notes(flow.step(answer)) == [
        LoopExhausted(turn="on-max:a#1", exhausted=(("a", ("a",)),)),
        PathEnded(turn="on-max:a#1", reason=reason),
    ]
    assert asks(flow.step(finished("b#1"))) == [("d#1", ["b#1"])]


def test_a_question_to_a_human_that_fails_ends_the_run() -> None:
    """A human has no `on-fail`: the default holds."""
    commands = asked_human().step(failed("on-max:a#1"))

    assert isinstance(commands[0], Cancel)
    assert isinstance(commands[-1], Finish)
    assert commands[-1].outcome == "failed"


def test_the_human_is_told_the_facts_and_held_to_the_choices() -> None:
    """The question states the bound; another word than the three is an invalid output."""
    asked = human_agent("on-max:a", [g for g in HUMAN if g.max or g.source == "s"])
    assert (asked.name, asked.kind, asked.backend) == ("on-max:a", "human", "human")
    assert '- `a -> a` when `a.verdict == "revise"`: at most 1 times per run\n' in asked.prompt
    assert "s -> " not in asked.prompt

    flow = asked_human()
    assert isinstance(flow.judge(Reply(turn="on-max:a#1", attempt=1, text="decision: perhaps")), AttemptFailed)
    assert isinstance(flow.judge(Reply(turn="on-max:a#1", attempt=1, text="decision: again")), TurnFinished)


# -- per


def test_per_an_agent_counts_from_each_of_its_starts() -> None:
    """Rule 7: the inner loop has a fresh bound in every round of the outer one."""
    flow = make_flow(
        group("a -> b"),
        group("b -> b", "b.n < 9", max=1, per="a"),
        group("b -> a", "b.n == 9", max=5),
        group("b -> c", "b.n == 10"),
    )
    after(flow, "a#1", "b#1", n=1)
    flow.step(finished("b#2", n=9))
    flow.step(finished("a#2"))

    assert asked(flow.step(finished("b#3", n=1))) == ["b#4"]
    assert asked(flow.step(finished("b#4", n=1))) == ["c#1"]


def test_a_phase_is_not_entered_again_from_within() -> None:
    """Rule 7: a mark from an agent of the same phase leaves its counters as they are."""
    phased = {name: agent(name, phase=1.0) for name in "ab"}
    loop = group("b -> a", max=1, per="phase")
    flow = make_flow(group("a -> b"), loop, **phased)
    after(flow, "a#1", "b#1", "a#2")

    assert asked(flow.step(finished("b#2"))) == []


def test_without_phases_per_phase_is_per_run() -> None:
    """Rule 7."""
    flow = make_flow(group("a -> a", max=1, per="phase"))
    after(flow, "a#1")

    assert isinstance(flow.step(finished("a#2"))[-1], Finish)


# -- ends


def test_the_result_holds_what_the_paths_ended_with() -> None:
    """Rule 8: the outputs where a path ended, in rank order, and the last text; a node that went on does not count."""
    flow = make_flow(group("a -> b c"), group("c -> c", "c.n == 1", max=3), group("c -> d", "c.n == 2"))
    after(flow, "a#1", "b#1", n=3)
    flow.step(finished("c#1", n=1))

    assert flow.step(finished("c#2", n=7))[-1] == Finish(
        outcome="completed", result={"outputs": {"b": {"n": 3}, "c": {"n": 7}}, "text": "said by c#2"}
    )
    assert list(flow.step(finished("c#2"))) == []


def test_a_node_that_went_on_after_all_is_no_end() -> None:
    """Rule 8: what counts is a node's latest turn."""
    flow = make_flow(
        group("s -> b c"),
        group("b -> d"),
        group("d -> c", max=1),
        group("c -> e", "c.n == 2"),
        group("c -> b", "c.n == 3", max=1),
    )
    after(flow, "s#1", "c#1", n=1)
    for turn in ("b#1", "d#1"):
        flow.step(finished(turn))

    assert asked(flow.step(finished("c#2", n=2))) == ["e#1"]
    assert flow.step(finished("e#1"))[-1] == Finish(
        outcome="completed", result={"outputs": {"e": {}}, "text": "said by e#1"}
    )


def test_a_path_that_ends_at_a_last_node_is_no_news() -> None:
    """Rule 8: `path.ended` is for nodes that have arrows, none of which fired."""
    flow = make_flow(group("a -> b"))

    assert notes(after(flow, "a#1", "b#1")) == []


def test_halt_cancels_what_runs_in_start_order_and_fails() -> None:
    """Rule 9: the default; the reason names the turn."""
    flow = make_flow(group("a -> d c b"), group("c -> b"))
    after(flow, "a#1")

    reason = "d#1 failed (exit): status 3"
    assert flow.step(failed("d#1")) == [
        Cancel(turn="c#1", reason=reason),
        Finish(outcome="failed", reason=reason, result={"kind": "exit"}, at_fault=("d#1",)),
    ]


@pytest.mark.parametrize("end", [failed("b#1"), TurnCancelled(turn="b#1")], ids=["skip", "cancelled"])
def test_skip_ends_the_path_and_nobody_waits(end: TurnFinished) -> None:
    """Rule 9: nothing fires; what an operator calls off is taken the same way."""
    flow = make_flow(group("a -> b c"), group("b -> d"), group("c -> d"), b=agent("b", on_fail="skip"))
    after(flow, "a#1", "c#1")

    commands = flow.step(end)
    assert notes(commands) == [PathEnded(turn="b#1", reason="failed")]
    assert asks(commands) == [("d#1", ["c#1"])]
    assert decided(flow) == Decision(turn="b#1", node="b")


def test_continue_judges_without_new_outputs() -> None:
    """Rule 9: conditions read what the agent said last, and its arrows carry that result."""
    flow = make_flow(group("a -> b"), group("b -> a", "b.n == 1", max=5), b=agent("b", on_fail="continue"))
    after(flow, "a#1", "b#1", n=1)
    flow.step(finished("a#2"))

    assert asks(flow.step(failed("b#2"))) == [("a#3", ["b#1"])]


def test_continue_goes_on_even_if_the_agent_never_said_anything() -> None:
    """Rule 9: arrows without a condition fire; the failed turn is named as the mark's origin."""
    flow = make_flow(group("a -> b"), a=agent("a", on_fail="continue"))
    flow.step(start())

    assert asks(flow.step(failed("a#1"))) == [("b#1", ["a#1"])]


# -- fallback


def test_the_reply_of_a_fallback_counts_as_the_nodes() -> None:
    """Rule 9: it is asked the same, in the node's name; outputs, arrows and marks are the node's."""
    writer = agent("w", on_fail="fallback", fallback="f", outputs=(enum("verdict", "go", "no"),))
    flow = make_flow(group("s -> w"), group("w -> x", "w.verdict == go"), w=writer, f=agent("f"))
    after(flow, "s#1")

    assert flow.step(failed("w#1")) == [Ask(turn="f#1", agent="f", inputs=("s#1",), instead_of="w")]
    assert flow.decision is None
    assert isinstance(flow.judge(Reply(turn="f#1", attempt=1, text="I do not know")), AttemptFailed)
    assert flow.step(finished("f#1", verdict="go")) == [Ask(turn="x#1", agent="x", inputs=("f#1",))]
    assert decided(flow) == Decision(turn="f#1", node="w", fired=(("w", ("x",)),))


def test_a_join_waits_for_a_fallback() -> None:
    """The node whose fallback is at work is in flight."""
    flow = make_flow(
        group("s -> a b"),
        group("a -> d"),
        group("b -> d"),
        a=agent("a", on_fail="fallback", fallback="f"),
        f=agent("f"),
    )
    after(flow, "s#1")
    flow.step(failed("a#1"))

    assert asked(flow.step(finished("b#1"))) == []
    assert asks(flow.step(finished("f#1"))) == [("d#1", ["f#1", "b#1"])]


def test_a_busy_fallback_is_waited_for() -> None:
    """A node that is another's fallback runs one turn at a time, and helps out before it does its own."""
    helped = {name: agent(name, on_fail="fallback", fallback="f") for name in "ab"}
    flow = make_flow(group("s -> a b g"), group("g -> f"), group("f -> z"), **helped)
    after(flow, "s#1")
    assert asked(flow.step(finished("g#1"))) == ["f#1"]

    assert flow.step(failed("b#1")) == []
    assert flow.step(failed("a#1")) == []
    assert flow.step(finished("f#1")) == [
        Ask(turn="f#2", agent="f", inputs=("s#1",), instead_of="b"),
        Ask(turn="z#1", agent="z", inputs=("f#1",)),
    ]
    assert flow.step(finished("f#2")) == [Ask(turn="f#3", agent="f", inputs=("s#1",), instead_of="a")]
    assert flow.step(finished("f#3")) == []
    assert isinstance(flow.step(finished("z#1"))[-1], Finish)


def test_a_marked_node_waits_while_it_stands_in_for_another() -> None:
    """The one turn at a time holds for the agent, in whatever name it is asked."""
    flow = make_flow(group("s -> a g"), group("g -> f"), a=agent("a", on_fail="fallback", fallback="f"))
    after(flow, "s#1")
    assert asked(flow.step(failed("a#1"))) == ["f#1"]

    assert flow.step(finished("g#1")) == []
    assert flow.step(finished("f#1")) == [Ask(turn="f#2", agent="f", inputs=("g#1",))]


def test_a_node_whose_agent_is_busy_elsewhere_is_still_waited_for() -> None:
    """Rule 3: a marked node of lower rank is in flight, also when nothing upstream runs."""
    flow = make_flow(
        group("s -> x g"), group("g -> m n"), group("m -> n"), x=agent("x", on_fail="fallback", fallback="m")
    )
    after(flow, "s#1")
    assert asked(flow.step(failed("x#1"))) == ["m#1"]

    assert flow.step(finished("g#1")) == []
    assert asked(flow.step(finished("m#1"))) == ["m#2"]
    assert asks(flow.step(finished("m#2"))) == [("n#1", ["g#1", "m#2"])]


def test_a_fallback_that_fails_follows_its_own_policy() -> None:
    """Rule 9: on behalf of the node, whose path it is."""
    plans = {
        "a": agent("a", on_fail="fallback", fallback="f"),
        "f": agent("f", on_fail="fallback", fallback="g"),
        "g": agent("g", on_fail="skip"),
    }
    flow = make_flow(group("a -> b"), **plans)
    flow.step(start())
    flow.step(failed("a#1"))

    assert flow.step(failed("f#1")) == [Ask(turn="g#1", agent="g", instead_of="a")]
    assert notes(flow.step(failed("g#1"))) == [PathEnded(turn="g#1", reason="failed")]


def test_fallbacks_that_name_each_other_do_not_go_round() -> None:
    """Who has failed at a question is not asked it again: the run halts."""
    plans = {"a": agent("a", on_fail="fallback", fallback="f"), "f": agent("f", on_fail="fallback", fallback="a")}
    flow = make_flow(group("a -> b"), **plans)
    flow.step(start())
    flow.step(failed("a#1"))

    assert flow.step(failed("f#1")) == [
        Finish(outcome="failed", reason="f#1 failed (exit): status 3", result={"kind": "exit"}, at_fault=("f#1",))
    ]


# -- judge


def test_a_reply_is_held_against_the_nodes_outputs() -> None:
    """Without effect on the engine: the same reply may be judged twice."""
    flow = make_flow(group("a -> b"), a=agent("a", outputs=(enum("verdict", "go", "no"),)))
    flow.step(start())
    reply = Reply(turn="a#1", attempt=1, text="verdict: go")

    assert flow.judge(reply) == flow.judge(reply)
    assert flow.judge(reply) == TurnFinished(turn="a#1", attempt=1, text="verdict: go", outputs={"verdict": "go"})
    assert isinstance(flow.judge(Reply(turn="a#1", attempt=1, text="well")), AttemptFailed)


def test_a_flow_takes_no_events() -> None:
    """An emit is refused with the reason, and traced to its message."""
    flow = make_flow(group("a -> b"))
    flow.step(start())

    assert flow.judge(Emit(turn="a#1", attempt=2, event="done", message="m1")) == EventInvalid(
        turn="a#1", event="done", reason="a flow takes no events", attempt=2, message="m1"
    )


# -- cost


def test_a_wide_flow_costs_no_more_per_turn_than_a_narrow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that wait are looked at when what they wait for ends, not at every step."""
    looks: list[str] = []
    upstream = FlowGraph.upstream
    monkeypatch.setattr(FlowGraph, "upstream", lambda graph, node: looks.append(node) or upstream(graph, node))

    def looks_per_turn(size: int) -> float:
        names = [f"b{i}" for i in range(size)]
        flow = make_flow(
            group("a -> s " + " ".join(names)),
            *(group(f"{name} -> c{name}") for name in names),
            group("s -> " + " ".join(f"c{name}" for name in names)),
        )
        looks.clear()
        played = play(flow, lambda ask, n: finished(ask.turn), lambda ask, n: 9 if ask.agent == "s" else 1)
        assert played.finish is not None
        return len(looks) / sum(played.most.values())

    assert looks_per_turn(500) < 1.1 * looks_per_turn(50)


def test_a_chain_never_asks_who_is_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing else is in flight there is nobody to wait for."""
    monkeypatch.delattr(FlowGraph, "upstream")
    flow = make_flow(*(group(f"n{i} -> n{i + 1}") for i in range(50)))

    assert play(flow, lambda ask, n: finished(ask.turn)).finish is not None


def test_a_phase_is_entered_again_when_only_some_marks_come_from_outside() -> None:
    """Rule 7: one mark from an agent of another phase, or of none, is enough; its counters begin anew."""
    phases = {"a": 1.0, "b": 1.0, "other": 2.0}
    for outside in ("other", "none"):
        counters = Counters([group("b -> a", max=1, per="phase")], phases)
        counters.start_node("a", ["other"])
        counters.fire(0)
        counters.start_node("a", ["b"])
        assert counters.is_spent(0)
        counters.start_node("a", ["b", outside])
        assert not counters.is_spent(0)


def test_the_text_of_the_result_is_that_of_the_exit() -> None:
    """An entry of the interface says where the result comes from, whoever answers last."""
    plan = FlowPlan(mentions=("a", "b", "c"), groups=(group("a -> b"), group("a -> c")), exit="b")
    flow = FlowEngine(plan, {name: agent(name) for name in "abc"})
    flow.step(start())
    flow.step(finished("a#1"))
    flow.step(finished("b#1", n=1))

    assert list(flow.step(finished("c#1", n=2))) == [
        Finish(outcome="completed", result={"outputs": {"b": {"n": 1}}, "text": "said by b#1"})
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [("Revise.", "revise"), (" REVISE ", "revise"), ("revise", "Revise."), (True, "true"), ("True", "true")],
)
def test_conditions_ignore_case_and_a_closing_full_stop(value: object, text: str) -> None:
    """Rule 5: what models write around a word does not change its meaning, for `==` and `!=` alike."""
    for op, follows in (("==", ["w#1"]), ("!=", ["e#1"])):
        flow = make_flow(
            group("r -> w", f"r.verdict {op} {text}"),
            group("r -> e", f"r.verdict {'!=' if op == '==' else '=='} {text}"),
        )
        flow.step(RunStarted(run="r", engine="flow", engine_version=2))

        assert asked(flow.step(finished("r#1", verdict=value))) == follows


def test_the_end_of_a_path_names_the_values_that_were_found() -> None:
    """An author who reads it sees at once why no arrow fired; long values are cut."""
    flow = make_flow(group("r -> w", "r.verdict == revise"), group("r -> e", "r.score > 3"))
    flow.step(RunStarted(run="r", engine="flow", engine_version=2))

    unknown, ended = notes(flow.step(finished("r#1", verdict="m" * 100)))
    assert unknown == ConditionUnknown(turn="r#1", agent="r", field="score")
    assert ended == PathEnded(turn="r#1", found={"r.verdict": '"' + "m" * 79 + "…"})


def test_runs_of_the_first_version_compare_as_they_did() -> None:
    """A journal that an earlier version began is decided as it was."""
    flow = make_flow(group("r -> w", "r.verdict == revise"))
    flow.step(RunStarted(run="r", engine="flow"))

    assert notes(flow.step(finished("r#1", verdict="Revise."))) == [PathEnded(turn="r#1")]
