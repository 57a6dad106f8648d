import json
from random import Random
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from parts import one_in
from pattern_chance import calls, chance, same_at_any_pace
from pattern_play import Performance, Refused, failed, pattern, perform, text

from coterie.agents.backends.base import Request, Result
from coterie.history.journal.records import MessageSent
from coterie.patterns.builtin.crosscheck import CrossCheckSettings
from coterie.team.topology.patterns.kinds import KINDS, faults

P = {"prompt": "Write a poem."}
FIVE = ("primary", *(f"checker_{n}" for n in range(5)))
THREE = FIVE[:4]
YES, NO = '{"approved": true}', '{"approved": false}'


def crosscheck(
    script: dict[str, list[Any]] | None = None, slots: tuple[str, ...] = THREE, **config: Any
) -> Performance:
    """A cross-check with these agents; the primary says `POEM`, and who is not scripted approves."""
    defaults = {"primary": ["POEM"], **{slot: [YES] for slot in slots if slot != "primary"}}
    return perform(pattern("crosscheck", slots, **config), P, defaults | (script or {}))


def verdict(approved: Any, confidence: float | None = None, *issues: str, feedback: str = "") -> str:
    said: dict[str, Any] = {"approved": approved, "issues": issues, "feedback": feedback}
    return json.dumps(said if confidence is None else {**said, "confidence": confidence})


def verdicts(*said: Any) -> dict[str, list[Any]]:
    """A script in which each checker says one thing, again and again."""
    return {f"checker_{n}": [one] for n, one in enumerate(said)}


def outcome(done: Performance) -> tuple[bool, int, int]:
    return done.output["final_approved"], done.output["approvals"], done.output["rejections"]


# Who is asked, and what


def test_checkers_see_the_answer_and_nothing_of_each_other() -> None:
    """All at once, each with what was asked and what was answered."""
    done = crosscheck(verdicts(verdict(True, feedback="FINE"), verdict(False, 0.9, "WRONG"), YES))

    assert done.prompts("primary") == [P["prompt"]]
    for slot in THREE[1:]:
        [prompt] = done.prompts(slot)
        assert P["prompt"] in prompt
        assert "POEM" in prompt
        assert "FINE" not in prompt
        assert "WRONG" not in prompt
    assert len({call.began for call in done.calls[1:]}) == 1
    assert done.text == "POEM"


def test_a_single_checker_is_asked_as_often_as_the_setting_says() -> None:
    """Each time independently: the same question, a verdict of its own."""
    done = crosscheck({"checker": [YES, NO, NO, YES]}, ("primary", "checker"), num_checkers=4)

    assert done.counts() == {"primary": 1, "checker": 4}
    assert len(set(done.prompts("checker"))) == 1
    assert outcome(done) == (False, 2, 2)


def test_a_specialization_joins_the_question_of_its_checker() -> None:
    """The first that of the first; who has none looks at everything."""
    special = ("the metre", "the rhymes")
    prompts = [crosscheck(checker_specializations=special).prompts(slot)[0] for slot in THREE[1:]]
    assert [[word in prompt for word in special] for prompt in prompts] == [[True, False], [False, True], [False] * 2]

    prompts = crosscheck(slots=("primary", "checker"), checker_specializations=special).prompts("checker")
    assert [[word in prompt for word in special] for prompt in prompts] == [[True, False], [False, True], [False] * 2]

    prompts = crosscheck(verdicts(YES, NO), checker_specializations=("a", "b", "c!"), stop_when_decided=True).prompts
    assert "c!" in prompts("checker_2")[0]


def test_no_more_check_at_a_time_than_may() -> None:
    """`max_concurrency` bounds the calls that overlap."""
    played = crosscheck(slots=FIVE, max_concurrency=2).calls

    assert max(sum(one.began <= call.began < one.ended for one in played) for call in played) == 2


def test_each_verdict_is_told_to_the_primary() -> None:
    """With the revision that it is about as the round; an abstention says nothing."""
    rows = crosscheck(verdicts(verdict(False, 0.7, "bad"), failed(), NO), max_revisions=1).records(MessageSent)

    assert [(row.sender, row.recipient, row.type, row.round) for row in rows] == [
        (slot, "primary", "response", revision) for revision in (0, 1) for slot in ("checker_0", "checker_2")
    ]
    assert rows[0].content == {"approved": False, "confidence": 0.7, "issues": ["bad"], "feedback": ""}


@pytest.mark.parametrize(("reply", "why"), [(failed("provider down"), "provider down"), (text(""), "said nothing")])
def test_without_an_answer_there_is_nothing_to_check(reply: Result, why: str) -> None:
    """The run fails, names the primary, and no checker is paid."""
    done = crosscheck({"primary": [reply]})

    assert (done.ended.status, done.counts()) == ("failed", {"primary": 1})
    assert "primary" in done.ended.reason
    assert why in done.ended.reason


# Verdicts


@bundle("said", [f"```json\n{YES}\n```", f"Well. {YES}", '{"approved": "true"}', "true", "approved: true"])
def test_a_verdict_is_found_wherever_it_stands(said: str) -> None:
    """Fenced, in prose, as a text, alone: nobody is asked again."""
    done = crosscheck(verdicts(said, said, said))

    assert outcome(done) == (True, 3, 0)
    assert sum(done.counts().values()) == 4


def test_whoever_gives_no_verdict_is_asked_once_more() -> None:
    """Told what was wrong; a verdict that comes then counts."""
    done = crosscheck({"checker_1": ["Looks good to me!", NO]})

    assert outcome(done) == (True, 2, 1)
    assert done.counts()["checker_1"] == 2
    assert "approved" in done.prompts("checker_1")[1]


def test_whoever_gives_no_verdict_even_then_abstains() -> None:
    """It is neither for nor against, and named; garbage is no rejection and `"yes"` no approval."""
    done = crosscheck(verdicts(YES, '{"approved": "yes"}', failed("down")), quorum=1)

    assert outcome(done) == (True, 1, 0)
    assert done.output["consensus"]["abstained"] == ["checker_1", "checker_2"]
    failures = done.output["failures"]
    assert [(one["slot"], one["kind"]) for one in failures] == [
        ("checker_1", "invalid_output"),
        ("checker_2", "failed"),
    ]
    assert "approved" in failures[0]["reason"]
    assert failures[1]["reason"] == "down"


def test_too_few_verdicts_approve_nothing() -> None:
    """Below the quorum the answer is not approved, which is told, and no ground for a revision."""
    done = crosscheck(verdicts(YES, failed(), failed()), max_revisions=3)

    assert outcome(done) == (False, 1, 0)
    assert done.counts()["primary"] == 1
    assert "not approved" in done.output["warnings"][0]


def test_without_a_single_verdict_the_run_fails() -> None:
    """Nothing was checked; the reasons are told."""
    ended = crosscheck(verdicts(failed("down"), "hm", failed("down"))).ended

    assert ended.status == "failed"
    assert "No checker gave a verdict" in ended.reason
    assert "checker_0: down" in ended.reason
    assert "checker_1" in ended.reason


@bundle(
    ("method", "approves"),
    [("majority", True), ("unanimous", False), ("weighted", False), ("first_agree", True), ("mediator", False)],
)
def test_the_method_decides(method: str, approves: bool) -> None:
    """Two of three approve, and the third is surer than both."""
    script = verdicts(verdict(True, 0.6), verdict(True, 0.6), verdict(False, 0.95, "bad rhyme"))
    slots = (*THREE, "mediator") if method == "mediator" else THREE
    done = crosscheck({**script, "mediator": [NO]}, slots, consensus_method=method)

    assert done.output["final_approved"] is approves
    assert (done.output["consensus"]["method"], done.output["consensus"]["issues"]) == (method, ["bad rhyme"])
    assert done.text == "POEM"
    assert bool(done.output["warnings"]) is not approves


def test_a_mediator_sees_the_answer_and_all_verdicts() -> None:
    """It is asked after the others, and its word is told like theirs."""
    script = verdicts(verdict(True, 0.6, feedback="FINE"), verdict(False, 0.9, "BAD RHYME"), failed())
    done = crosscheck({**script, "mediator": [YES]}, (*THREE, "mediator"), consensus_method="mediator")

    [prompt] = done.prompts("mediator")
    assert all(word in prompt for word in (P["prompt"], "POEM", "FINE", "BAD RHYME", "0.6", "[checker_2]: no verdict"))
    assert done.calls[-1].slot == "mediator"
    assert done.records(MessageSent)[-1].sender == "mediator"
    assert outcome(done) == (True, 1, 1)


def test_without_the_word_of_its_mediator_the_majority_decides() -> None:
    """And the result names who failed."""
    script = {**verdicts(YES, YES, NO), "mediator": [failed("asleep")]}
    done = crosscheck(script, (*THREE, "mediator"), consensus_method="mediator")

    assert done.output["final_approved"] is True
    assert [(one["slot"], one["reason"]) for one in done.output["failures"]] == [("mediator", "asleep")]


# Revisions


def test_a_rejected_answer_is_revised_and_checked_again() -> None:
    """The primary sees its answer and all that was found wrong, once each; the checkers see the new answer alone."""
    script = {
        "primary": ["POEM", "BETTER"],
        "checker_0": [verdict(False, 0.9, "bad rhyme", "too short", feedback="try harder"), YES],
        "checker_1": [verdict(False, 0.9, "bad rhyme", feedback="try harder"), YES],
    }
    done = crosscheck(script, max_revisions=2)

    assert (done.text, done.output["revisions"], outcome(done)) == ("BETTER", 1, (True, 3, 0))
    [again] = [request for path, request in done.asked if request.turn == "primary#2"]
    assert again.history == (("user", P["prompt"]), ("assistant", "POEM"))
    assert again.latest.count("- bad rhyme") == 1
    assert "- too short" in again.latest
    assert again.latest.count("- try harder") == 1
    fresh = done.prompts("checker_0")[1]
    assert "BETTER" in fresh
    assert "POEM" not in fresh
    assert "bad rhyme" not in fresh


def test_what_a_mediator_rejects_is_revised() -> None:
    """Though all others approve; the primary is told what the mediator found."""
    script = {"primary": ["POEM", "BETTER"], "mediator": [verdict(False, 0.9, "dull", feedback="no wit"), YES]}
    done = crosscheck(script, (*THREE, "mediator"), consensus_method="mediator", max_revisions=1)

    assert (done.text, outcome(done)) == ("BETTER", (True, 3, 0))
    assert "- dull" in done.prompts("primary")[1]
    assert "- no wit" in done.prompts("primary")[1]


def test_revisions_come_to_an_end() -> None:
    """The last answer stands, not approved."""
    done = crosscheck({"primary": ["A", "B", "C", "D"], **verdicts(NO, NO, YES)}, max_revisions=2)

    assert (done.text, done.output["revisions"], outcome(done)) == ("C", 2, (False, 1, 2))
    assert done.counts() == {"primary": 3, "checker_0": 3, "checker_1": 3, "checker_2": 3}


def test_an_answer_that_cannot_be_revised_stays() -> None:
    """With the verdicts on it, and the failure named."""
    done = crosscheck({"primary": ["POEM", failed("down")], **verdicts(NO, NO, YES)}, max_revisions=2)

    assert (done.text, done.output["revisions"], outcome(done)) == ("POEM", 0, (False, 1, 2))
    assert [(one["slot"], one["reason"]) for one in done.output["failures"]] == [("primary", "down")]


# Stopping early


def test_nobody_checks_once_it_is_decided() -> None:
    """Two of three that agree save the third, and three of five the others."""
    done = crosscheck(stop_when_decided=True)
    assert (done.output["checkers"], done.output["asked"], outcome(done)) == (3, 2, (True, 2, 0))
    assert crosscheck(slots=FIVE, stop_when_decided=True).output["asked"] == 3
    assert crosscheck(verdicts(NO), consensus_method="unanimous", stop_when_decided=True).output["asked"] < 3


@given(
    st.lists(st.sampled_from([(True, 0.9), (True, 0.6), (False, 0.9), (False, 0.6), None]), min_size=2, max_size=6),
    st.sampled_from(["majority", "unanimous", "weighted", "first_agree"]),
    st.booleans(),
    st.integers(1, 2),
)
def test_a_decision_that_ends_early_is_the_same(
    said: list[tuple[bool, float] | None], method: str, unanimous: bool, quorum: int
) -> None:
    """Whether it is approved is what it is with all verdicts, and nobody is asked in vain."""
    slots = ("primary", *(f"checker_{n}" for n in range(len(said))))
    script = verdicts(*(failed() if one is None else verdict(*one) for one in said))
    config = {"consensus_method": method, "require_unanimous_for_approval": unanimous, "quorum": quorum}

    full = crosscheck(script, slots, **config)
    early = crosscheck(script, slots, **config, stop_when_decided=True)
    assert early.ended.status == full.ended.status
    if full.ended.status == "completed":
        assert early.output["final_approved"] == full.output["final_approved"]
    assert sum(early.counts().values()) <= sum(full.counts().values())


# The configuration

SPLIT = verdicts(verdict(True, 0.95), verdict(False, 0.55), verdict(False, 0.55))
WEIGHTED = {"consensus_method": "weighted"}

FIELDS: dict[str, tuple[dict[str, list[Any]], tuple[str, ...], dict[str, Any], Any]] = {
    "num_checkers": ({}, ("primary", "checker"), {}, 2),
    "consensus_method": (SPLIT, THREE, {}, "weighted"),
    "require_unanimous_for_approval": (verdicts(YES, YES, NO), THREE, {}, True),
    "quorum": (verdicts(YES, failed(), failed()), THREE, {}, 1),
    "weights": (SPLIT, THREE, WEIGHTED, "linear"),
    "accuracy": (SPLIT, THREE, WEIGHTED, {"checker_0": 0.51}),
    "max_revisions": (verdicts(NO, NO, NO), THREE, {}, 1),
    "stop_when_decided": ({}, THREE, {}, True),
}


@bundle("field", FIELDS)
def test_every_setting_changes_what_happens(field: str) -> None:
    """Another value than the default makes other calls or another decision."""
    script, slots, base, other = FIELDS[field]
    before, after = crosscheck(script, slots, **base), crosscheck(script, slots, **base, **{field: other})

    assert getattr(CrossCheckSettings(), field) != other
    assert (before.counts(), outcome(before)) != (after.counts(), outcome(after))


def test_no_setting_is_left_out() -> None:
    """What the table does not change has a test above."""
    assert {*FIELDS, "checker_specializations", "max_concurrency"} == set(CrossCheckSettings.__struct_fields__)


@bundle(
    ("slots", "config", "words"),
    [
        (("primary", "checker_0"), {}, "Cross-check requires at least 2 checkers"),
        (("primary",), {}, "Cross-check requires at least 2 checkers"),
        (THREE[1:], {}, "Cross-check requires 'primary' agent"),
        (THREE, {"consensus_method": "mediator"}, "mediator"),
        ((*THREE, "mediator"), {}, "mediator"),
        ((*THREE, "observer"), {}, "observer"),
        (THREE, {"num_checkers": 1}, "num_checkers"),
        (THREE, {"num_checkers": 11}, "num_checkers"),
        (THREE, {"quorum": 0}, "quorum"),
        (THREE, {"quorum": 4}, "quorum"),
        (THREE, {"consensus_method": "vote"}, "consensus_method"),
        (THREE, {"checker_specializations": ("a", "b", "c", "d")}, "4 specializations for 3 checkers"),
        (THREE, {"require_unanimous_for_approval": "true"}, "require_unanimous_for_approval"),
        (THREE, {"weights": "none"}, "weights"),
        (THREE, {"accuracy": {"checker_0": 0}}, "accuracy"),
        (THREE, {"accuracy": {"primary": 0.9}}, "primary"),
        (THREE, {"max_revisions": 11}, "max_revisions"),
        (THREE, {"max_revisions": -1}, "max_revisions"),
        (THREE, {"stop_when_decided": None}, "stop_when_decided"),
        (THREE, {"max_concurrency": 0}, "max_concurrency"),
        (THREE, {"checkers": 3}, "checkers"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(
    slots: tuple[str, ...], config: dict[str, Any], words: str
) -> None:
    """Missing and unknown slots, unknown settings, values out of range."""
    with pytest.raises(Refused, match=words):
        pattern("crosscheck", slots, **config)


@bundle(
    ("config", "idle"),
    [
        ({"accuracy": {"checker_0": 0.9}}, ["config.accuracy"]),
        ({"accuracy": {"checker_0": 0.9}, "consensus_method": "weighted"}, []),
        ({"stop_when_decided": True, "consensus_method": "mediator"}, ["config.stop_when_decided"]),
        ({"num_checkers": 3}, ["config.num_checkers"]),
        ({"weights": "linear"}, ["config.weights"]),
    ],
)
def test_a_setting_without_effect_is_told(config: dict[str, Any], idle: list[str]) -> None:
    """As a warning, before anybody is asked."""
    slots = (*THREE, "mediator") if config.get("consensus_method") == "mediator" else THREE
    assert [fault.where for fault in faults(KINDS["crosscheck"], config, slots)] == idle


def test_a_cross_check_without_a_prompt_asks_nobody() -> None:
    """The run fails, and says what it needs."""
    done = perform(pattern("crosscheck", THREE), {"prompt": "  "}, {})

    assert (done.ended.status, done.asked) == ("failed", [])
    assert "prompt" in done.ended.reason


# Calls

configs = st.fixed_dictionaries(
    {
        "num_checkers": st.integers(2, 4),
        "consensus_method": st.sampled_from(["majority", "unanimous", "weighted", "mediator", "first_agree"]),
        "require_unanimous_for_approval": st.booleans(),
        "quorum": st.integers(1, 2),
        "weights": st.sampled_from(["log_odds", "linear", "uniform"]),
        "max_revisions": st.integers(0, 3),
        "max_concurrency": st.sampled_from([None, 1, 2]),
    }
)


def team(config: dict[str, Any], several: int) -> tuple[str, ...]:
    """The slots for *config*: *several* checkers, or one that is asked several times."""
    named = ("checker",) if several == 1 else tuple(f"checker_{n}" for n in range(several))
    return ("primary", *named, *(("mediator",) if config["consensus_method"] == "mediator" else ()))


def content(random: Random, request: Request) -> Result:
    return text("POEM" if request.agent.name == "primary" else verdict(True, round(random.random(), 2)))


def moody(random: Random, request: Request) -> Result:
    if random.random() < 0.1:
        return failed()
    approved = random.choice([True, False, "false", "maybe"])
    return text(random.choice(["{", verdict(approved, round(random.random(), 2), "bad"), YES, NO, ""]))


@one_in(2)
@given(configs, st.integers(1, 4), st.booleans(), st.integers(0, 999))
def test_as_many_are_asked_as_the_formula_says(config: dict[str, Any], several: int, stop: bool, seed: int) -> None:
    """Exactly as many when all approve at once and nothing fails; otherwise never more."""
    plan = pattern("crosscheck", team(config, several), **config)
    done = Performance(plan, P, chance(seed, content))
    assert done.ended.status == "completed"
    assert done.counts() == calls(plan).usual

    plan = pattern("crosscheck", team(config, several), **config, stop_when_decided=stop)
    done = Performance(plan, P, chance(seed, moody))
    most = calls(plan).most
    assert all(turns <= most[slot] for slot, turns in done.counts().items())


@one_in(2)
@given(configs, st.integers(1, 4), st.booleans(), st.integers(0, 999))
def test_it_does_not_matter_who_is_slow(config: dict[str, Any], several: int, stop: bool, seed: int) -> None:
    """Same questions, same end."""
    plan = pattern("crosscheck", team(config, several), **config, stop_when_decided=stop)
    same_at_any_pace(plan, P, seed, moody)


def test_the_most_calls_can_come_to_pass() -> None:
    """The bound is no larger than it must be: every verdict asked for twice, after every revision."""
    plan = pattern("crosscheck", (*THREE, "mediator"), max_revisions=2, consensus_method="mediator")
    done = perform(plan, P, {slot: ["hm", NO] * 3 for slot in (*THREE[1:], "mediator")})

    assert done.counts() == calls(plan).most
