"""Stages one after the other: what each is given, what it leaves, and what happens when one fails."""

from random import Random
from typing import Any

import pytest
from bundles import bundle
from msgspec import structs
from parts import parts
from pattern_chance import chance, same_at_any_pace
from pattern_play import Performance, Refused, cost, failed, pattern, perform, scripted, text

from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.history.journal.records import MessageSent, Usage
from coterie.proofs.measures import attempts as measured_attempts
from coterie.team.planning import plan_or_raise
from coterie.team.planning.plan import AgentPlan, Wanted
from coterie.team.topology.model import Agent, Topology
from coterie.team.topology.patterns.model import Pattern, Slot

DOC = {"doc": "RAW"}


def test_every_stage_works_on_what_the_one_before_gave() -> None:
    """The next input is what the stage said, what came first, and who has worked on it."""
    done = perform(pattern("pipeline", ["parse", "write"]), DOC, {"parse": ["PARSED"], "write": ["WRITTEN"]})

    first, second = done.output["stage_results"]
    assert (first["stage"], first["input"], first["output"]["content"]) == ("parse", DOC, "PARSED")
    assert second["input"] == {"previous_stages": ["parse"], "original_input": DOC, "current": "PARSED"}
    assert done.output["final_output"] == {
        "previous_stages": ["parse", "write"],
        "original_input": DOC,
        "current": "WRITTEN",
    }
    assert done.text == "WRITTEN"


def test_a_pipeline_in_a_pipeline_is_given_values_and_no_json_in_json() -> None:
    """However deep pipelines lie in each other, what the innermost are shown grows by what each one adds."""

    def longest(depth: int) -> int:
        plan = pattern("pipeline", ["a", "b"])
        for _ in range(depth):
            plan = pattern("pipeline", {"in": pattern("compound", {"one": plan}), "out": plan})
        return max(len(request.prompt) for _, request in perform(plan, {"doc": 'say "x"\n' * 50}, {}).asked)

    one, *deeper = [longest(depth) for depth in range(4)]
    assert max(deeper) < 2 * one
    done = perform(pattern("pipeline", {"in": pattern("pipeline", ["a"])}), DOC, {})
    assert done.records(run="r/in#1.1")[0].input == DOC


def test_a_team_that_looks_for_a_task_is_given_the_whole_question_as_its_task() -> None:
    """Only who takes any input is given the values."""
    for team in (pattern("delegation", ["w"]), pattern("compound", {"first": pattern("delegation", ["w"])})):
        done = perform(pattern("pipeline", {"in": team}), DOC, {})
        assert '"doc": "RAW"' in done.records(run="r/in#1.1")[0].input["prompt"]


def test_stages_say_the_order_and_else_the_slots_do() -> None:
    """`stages` may put slots in another order, and leave some out."""
    slots = ["a", "b", "c"]

    assert perform(pattern("pipeline", slots), DOC, {}).output["stages"] == slots
    assert perform(pattern("pipeline", slots, stages=["c", "a"]), DOC, {}).output["stages"] == ["c", "a"]


def test_checkpoints_are_kept_of_the_stages_that_are_named() -> None:
    """With `checkpoint_after` the result has what went into a stage and what came out."""
    without = perform(pattern("pipeline", ["a", "b"]), DOC, {})
    kept = perform(pattern("pipeline", ["a", "b"], checkpoint_after=["b"]), DOC, {}).output["checkpoints"]

    assert without.output["checkpoints"] == {}
    assert list(kept) == ["b"]
    assert (kept["b"]["input"]["current"], kept["b"]["output"]["content"]) == ("a 1", "b 1")


@bundle(
    ("config", "attempts"),
    [
        ({}, 3),
        ({"max_stage_retries": 1}, 2),
        ({"max_stage_retries": 0}, 1),
        ({"retry_failed_stages": False}, 2),
        ({"retry_failed_stages": False, "max_stage_retries": 5}, 2),
    ],
)
def test_a_stage_is_tried_as_often_as_the_pipeline_says(config: dict[str, Any], attempts: int) -> None:
    """Its agent's own retries, one here, do not come on top; they count where the pipeline retries nothing."""
    topology = Topology(
        name="p",
        nodes=(Agent(name="reader", model="claude", retry=1),),
        pattern=Pattern(type="pipeline", config=config, slots=(Slot(name="parse", node="reader"),)),
    )
    done = perform(plan_or_raise(topology), DOC, {"parse": [failed("down")]})

    assert done.ended.reason == "Pipeline failed at stage 'parse': down"
    assert done.counts() == {"parse": attempts}


@bundle("retries", [0, 1, 5])
@bundle(
    "script",
    [
        [Failure(kind="transient", reason="down")],
        [Failure(kind="rate_limited", reason="down"), failed(), '{"other": 1}', Failure(kind="timeout", reason="slow")],
    ],
)
def test_failures_of_every_kind_count_as_attempts_of_a_stage(script: list[str | Result], retries: int) -> None:
    """Neither what passes by itself nor a reply that does not fit is tried on top of what the pipeline says."""
    slots = {"a": AgentPlan(name="a", outputs=(Wanted(name="answer", type="text"),))}
    done = perform(pattern("pipeline", slots, max_stage_retries=retries), DOC, {"a": script})

    assert done.ended.status == "failed"
    assert done.counts() == {"a": 1 + retries}


def test_what_trying_again_cannot_mend_is_not_tried_again() -> None:
    """A key that is refused is refused again."""
    done = perform(pattern("pipeline", ["a"]), DOC, {"a": [Failure(kind="auth", reason="no key")]})

    assert done.counts() == {"a": 1}


def test_a_stage_that_was_tried_again_says_so() -> None:
    """`retried` stands at that stage alone, with its checkpoint and what the attempt that counts took."""
    plan = pattern("pipeline", ["a", "b"], checkpoint_after=["a"])
    took = Answer(text="A", usage=Usage(seconds=1.234))
    done = perform(plan, DOC, {"a": [failed(), took]})

    first, second = done.output["stage_results"]
    assert (first["retried"], first["duration_ms"]) == (True, 1234)
    assert "retried" not in second
    assert done.output["checkpoints"]["a"]["output"]["content"] == "A"


def test_a_reply_that_does_not_fit_is_an_attempt() -> None:
    """What an agent declares, a stage's reply must hold."""
    slots = {"a": AgentPlan(name="a", outputs=(Wanted(name="answer", type="text"),))}
    done = perform(pattern("pipeline", slots), DOC, {"a": ['{"other": 1}', '{"answer": "yes"}']})

    [stage] = done.output["stage_results"]
    assert (stage["retried"], stage["output"]["outputs"]) == (True, {"answer": "yes"})


@bundle(
    ("script", "retries", "attempts"),
    [
        (['{"other": 1}'], 0, 2),
        (['{"other": 1}'], 1, 2),
        (['{"other": 1}'], 5, 6),
        ([failed(), '{"other": 1}'], 1, 3),
        ([failed(), '{"other": 1}', '{"answer": "yes"}'], 1, 3),
    ],
)
def test_an_invalid_reply_of_a_stage_is_repaired_once(script: list[str | Result], retries: int, attempts: int) -> None:
    """The repair is one of the attempts of the stage, and comes even after the last; its prompt shows the fault."""
    slots = {"a": AgentPlan(name="a", outputs=(Wanted(name="answer", type="text"),))}
    plan = pattern("pipeline", slots, max_stage_retries=retries)
    done = perform(plan, DOC, {"a": script})

    assert done.counts() == {"a": attempts}
    assert (done.ended.status == "completed") == (script[-1] == '{"answer": "yes"}')
    assert "expected the output 'answer'" in done.prompts("a")[-1]
    assert measured_attempts(plan.agents["a"]) == 2 + retries


def test_a_stage_of_an_earlier_plan_is_not_repaired() -> None:
    """Its journal says that the stage failed with its last attempt."""
    slots = {"a": AgentPlan(name="a", outputs=(Wanted(name="answer", type="text"),))}
    plan = pattern("pipeline", slots, max_stage_retries=0)
    earlier = structs.replace(plan, agents={"a": structs.replace(plan.agents["a"], repairs=0)})

    assert perform(earlier, DOC, {"a": ['{"other": 1}']}).counts() == {"a": 1}


def test_who_stands_in_for_a_stage_is_asked_after_its_attempts() -> None:
    """The agent of a stage may have a fallback, whose answer is the stage's."""
    slots = {"a": AgentPlan(name="a", on_fail="fallback", fallback="spare")}
    plan = pattern("pipeline", slots, max_stage_retries=1)
    plan.agents["spare"] = AgentPlan(name="spare")
    done = perform(plan, DOC, {"a": [failed()], "spare": ["SPARE"]})

    assert done.counts() == {"a": 2, "spare": 1}
    [stage] = done.output["stage_results"]
    assert (stage["stage"], stage["output"]["content"], stage["retried"]) == ("a", "SPARE", True)


def test_the_users_own_keys_are_not_taken_for_the_pipelines() -> None:
    """`original_input` and `previous_stages` in the first input are data like any other."""
    given = {"original_input": "mine", "previous_stages": ["mine, too"]}
    done = perform(pattern("pipeline", ["a", "b"]), given, {})

    assert done.output["stage_results"][1]["input"] == {
        "previous_stages": ["a"],
        "original_input": given,
        "current": "a 1",
    }


def test_outputs_speak_where_there_is_no_text() -> None:
    """A stage that gives outputs alone hands them on, as JSON; what is about the reply is left out."""
    done = perform(pattern("pipeline", ["a", "b"]), DOC, {"a": [text("", score=4, _confidence=0.9)]})

    assert done.output["stage_results"][1]["input"]["current"] == '{"score":4}'


def test_an_empty_answer_is_no_success() -> None:
    """Nothing that was said is nothing to go on with."""
    done = perform(pattern("pipeline", ["a", "b"]), DOC, {"a": [" \n"]})

    assert (done.ended.status, done.ended.reason) == (
        "failed",
        "Pipeline failed at stage 'a': it gave an empty answer",
    )
    assert done.counts() == {"a": 1}


def test_a_stage_tells_that_it_is_complete_and_only_then() -> None:
    """One response for each stage that was finished, in its round."""
    done = perform(pattern("pipeline", ["a", "b"]), DOC, {"b": [failed()]})

    told = [(one.sender, one.recipient, one.type, one.round) for one in done.records(MessageSent)]
    assert told == [("a", "", "response", 0)]


@bundle(
    ("config", "words"),
    [
        ({"stages": ["a", "ghost"]}, "No agent for stage: ghost"),
        ({"stages": ["a", "a"]}, "more than once"),
        ({"checkpoint_after": ["ghost"]}, "ghost"),
        ({"max_stage_retries": -1}, "max_stage_retries"),
        ({"retry_failed_stages": "yes"}, "retry_failed_stages"),
        ({"stage": ["a"]}, "stage"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(config: dict[str, Any], words: str) -> None:
    """Unknown stages and keys, and values out of range."""
    with pytest.raises(Refused, match=words):
        pattern("pipeline", ["a", "b"], **config)


def test_a_pipeline_without_stages_is_refused() -> None:
    """Somebody has to be asked."""
    with pytest.raises(Refused, match="at least one stage"):
        pattern("pipeline", [])


def _config(rng: Random) -> tuple[list[str], dict[str, Any]]:
    slots = [f"s{n}" for n in range(rng.randint(1, 6))]
    stages = rng.sample(slots, rng.randint(1, len(slots)))
    config = {
        "stages": rng.choice([[], stages]),
        "retry_failed_stages": rng.random() < 0.5,
        "max_stage_retries": rng.randint(0, 3),
    }
    return slots, config


@parts(4)
def test_what_it_costs_is_known(part: int) -> None:
    """Any pipeline, when nothing fails: as many turns as its formula says; when things fail never more."""
    for seed in range(part * 50, (part + 1) * 50):
        slots, config = _config(Random(seed))
        plan = pattern("pipeline", slots, **config)
        counted = cost(plan)

        assert Performance(plan, DOC, scripted({})).counts() == counted.usual
        for slot, n in Performance(plan, DOC, chance(seed, _unsure)).turns().items():
            assert n <= counted.most[slot]


def test_it_does_not_matter_who_is_slow() -> None:
    """Same questions, same end."""
    for seed in range(20):
        slots, config = _config(Random(seed))
        same_at_any_pace(pattern("pipeline", slots, **config), DOC, seed, _unsure)


def _unsure(rng: Random, request: Request) -> Result:
    return failed() if rng.random() < 0.3 else text(f"{request.turn} {rng.random()}")
