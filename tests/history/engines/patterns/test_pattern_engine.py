"""What the engine of a pattern does for all of them: whom it asks, what it tells them first, which replies count."""

from itertools import takewhile
from typing import Any

from bundles import bundle
from msgspec.structs import replace
from pattern_play import failed, pattern, perform

from coterie.agents.backends.base import Answer, Failure
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.prompts import render
from coterie.execution.kinds import kind_of
from coterie.history.engines.patterns.engine import input_faults
from coterie.history.journal.records import TurnFinished, Usage
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Wanted

DOC = {"doc": "RAW"}


def test_whoever_is_asked_is_told_first_what_it_is() -> None:
    """Its own prompt and its role stand before the question, apart for those who can be told them apart."""
    slots = {"a": AgentPlan(name="a", prompt="You are terse.", role="A reader."), "b": AgentPlan(name="b")}
    done = perform(pattern("pipeline", slots), DOC, {})

    (_, first), (_, second) = done.asked
    assert first.history == (("system", "You are terse.\n\nA reader."),)
    assert first.prompt.startswith("You are terse.\n\nA reader.\n\nYou work at the stage 'a'")
    assert first.latest.startswith("You work at the stage 'a'")
    assert second.history == ()


def test_whoever_stands_in_is_told_what_that_one_is() -> None:
    """Not what the agent is that it stands in for."""
    slots = {"a": AgentPlan(name="a", prompt="You are A.", on_fail="fallback", fallback="spare")}
    plan = pattern("pipeline", slots, retry_failed_stages=False)
    plan.agents["spare"] = AgentPlan(name="spare", prompt="You are the spare.")
    done = perform(plan, DOC, {"a": [failed()]})

    assert [request.history for _, request in done.asked] == [
        (("system", "You are A."),),
        (("system", "You are the spare."),),
    ]


def test_an_agent_is_told_how_to_give_what_it_declares() -> None:
    """The question of a pattern knows nothing of it; a reply without it is an attempt that does not count."""
    slots = {"a": AgentPlan(name="a", outputs=(Wanted(name="score", type="number"),))}
    done = perform(pattern("pipeline", slots), DOC, {"a": ["no idea", '{"score": 4}']})

    assert all("- `score`: a number" in prompt for prompt in done.prompts("a"))
    assert "did not count" in done.prompts("a")[1]
    assert done.output["stage_results"][0]["output"]["outputs"] == {"score": 4}


def test_a_file_that_an_agent_reads_joins_its_question() -> None:
    """Of other agents it sees what the pattern shows it."""
    slots = {"a": AgentPlan(name="a"), "b": AgentPlan(name="b", reads=("style.md", "a", "gone.md"))}
    plan = pattern("pipeline", slots)
    fold = Fold("r", kind_of(plan))
    records = perform(plan, DOC, {"a": ["RESULT OF A"]}).records()
    fold.fold([*takewhile(lambda record: not (isinstance(record, TurnFinished) and record.turn == "b#1"), records)])

    turn = fold.turns["b#1"]
    turn.used = {"file:style.md": "Be short.", "file:gone.md": None}
    asked, _ = render(fold, turn)
    assert asked.endswith("# style.md\n\n~~~text\nBe short.\n~~~")
    assert asked.count("RESULT OF A") == 1


def test_a_budget_of_a_slot_bounds_its_turns_and_is_a_failure_like_any_other() -> None:
    """Nobody is asked beyond it; what that means is the pattern's policy."""
    plan = pattern("ensemble", ["a", "b"], samples=3, aggregation_method="concat", failure_threshold=0.4)
    assert isinstance(plan.coordination, PatternPlan)
    slots = (SlotPlan(name="a", calls=1), SlotPlan(name="b"))
    done = perform(replace(plan, coordination=replace(plan.coordination, slots=slots)), {"prompt": "p"}, {})

    assert done.counts() == {"a": 1, "b": 3}
    assert [(one["slot"], one["kind"]) for one in done.output["failures"]] == [("a", "budget")] * 2

    slots = (SlotPlan(name="a", calls=1), SlotPlan(name="b", calls=1))
    over = perform(replace(plan, coordination=replace(plan.coordination, slots=slots)), {"prompt": "p"}, {})
    assert over.ended.reason.startswith(
        "Too many ensemble failures: 4/6 (a: a has had all the turns it may have: 1; b: "
    )


def test_the_result_says_what_its_turns_used() -> None:
    """Attempts that failed and the turns of teams included; that of a team counts as none of its own."""
    team = pattern("pipeline", ["c", "d"])
    plan = pattern("compound", {"a": AgentPlan(name="a", retry=1), "b": team})
    took = Usage(input_tokens=10, cost=0.5, seconds=2)
    done = perform(plan, DOC, {"a": [Failure(kind="failed", reason="no", usage=took), Answer(text="x", usage=took)]})

    used = done.output["usage"]
    assert (used["input_tokens"], used["cost"], used["seconds"], used["turns"]) == (20, 1, 4, 3)
    assert done.ended.usage.turns == 3


@bundle(
    ("config", "lacking"),
    [
        ({}, ["first: Ensemble needs an input `prompt`"]),
        ({"mapping": {"first": {"prompt": "doc"}}}, []),
        ({"composition_type": "parallel"}, [f"{name}: Ensemble needs an input `prompt`" for name in ("first", "then")]),
        ({"composition_type": "parallel", "failure_policy": "any"}, []),
        ({"composition_type": "conditional"}, ["first: Ensemble needs an input `prompt`"]),
    ],
)
def test_what_a_team_of_a_compound_lacks_is_known_before_anybody_is_asked(
    config: dict[str, Any], lacking: list[str]
) -> None:
    """Of those that are given what the compound is given; what comes later depends on what came before."""
    panel = pattern("ensemble", ["ensemble_0"], aggregation_method="vote")
    plan = pattern("compound", {"first": panel, "then": panel}, **config)
    assert [fault.message for fault in input_faults(plan, {"doc": "a text"})] == lacking
    assert list(input_faults(plan, {"prompt": "q", "doc": "a text"})) == []
