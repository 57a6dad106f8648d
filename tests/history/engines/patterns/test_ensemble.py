from random import Random
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from parts import one_in
from pattern_chance import calls, chance, same_at_any_pace
from pattern_play import Performance, Refused, Says, failed, pattern, perform, scripted, text

from coterie.agents.backends.base import Request, Result
from coterie.history.journal.records import MessageSent
from coterie.patterns.builtin.ensemble import EnsembleSettings
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.patterns.kinds import KINDS, faults

P = {"prompt": "What is the capital of Australia?"}
FIVE = tuple(f"ensemble_{n}" for n in range(5))
THREE = FIVE[:3]


def ensemble(script: dict[str, list[Any]] | None = None, slots: tuple[str, ...] = THREE, **config: Any) -> Performance:
    """An ensemble with these agents; who is not scripted says `<slot> <n>`."""
    return perform(pattern("ensemble", slots, **config), P, script or {})


def answers(*said: Any) -> dict[str, list[Any]]:
    """A script in which each member says one thing; a number is a confidence in what stands before it."""
    return {f"ensemble_{n}": [one] for n, one in enumerate(said)}


def sure(answer: str, confidence: float) -> Result:
    return text(answer, _confidence=confidence)


# Who is asked, and what


def test_all_are_asked_at_once_what_was_asked() -> None:
    """Each sees the task, and none what another answered; the results are in the order declared."""
    done = ensemble(aggregation_method="concat")

    assert {prompt for slot in THREE for prompt in done.prompts(slot)} == {P["prompt"]}
    assert len({call.began for call in done.calls}) == 1
    assert done.text == "[ensemble_0]: ensemble_0 1\n\n[ensemble_1]: ensemble_1 1\n\n[ensemble_2]: ensemble_2 1"


def test_any_slots_are_members_when_none_is_named_so() -> None:
    """All but the aggregator; what is neither is refused among members."""
    done = ensemble(slots=("claude", "gpt", "aggregator"))
    assert done.counts() == {"claude": 1, "gpt": 1, "aggregator": 1}
    assert done.output["ensemble_size"] == 2

    with pytest.raises(Refused, match="observer"):
        ensemble(slots=(*THREE, "observer"))


def test_layers_show_each_member_what_all_answered_before() -> None:
    """A mixture of agents: the first layer sees the task, each further one the answers of the layer before."""
    done = ensemble(layers=3, aggregation_method="concat")

    for slot in THREE:
        first, second, third = done.prompts(slot)
        assert first == P["prompt"]
        assert all(P["prompt"] in prompt for prompt in (second, third))
        for n, prompt in ((1, second), (2, third)):
            assert [f"{member} {k}" in prompt for member in THREE for k in (1, 2, 3)] == [
                k == n for _ in THREE for k in (1, 2, 3)
            ]
    assert done.output["individual_results"][0]["output"] == "ensemble_0 3"
    assert done.output["successful"] == 3


def test_samples_ask_each_member_several_times() -> None:
    """Every answer is one of the votes."""
    script = {"ensemble_0": ["A"], "ensemble_1": ["B", "A", "B"], "ensemble_2": ["B"]}
    done = ensemble(script, samples=3, aggregation_method="vote")

    assert (done.output["ensemble_size"], done.output["successful"]) == (9, 9)
    assert done.output["votes"] == {"A": 4, "B": 5}


def test_samples_are_asked_for_member_by_member() -> None:
    """Everybody once, then everybody again: a vote that is soon decided has heard more than one of them."""
    done = ensemble(slots=THREE, samples=2, aggregation_method="concat")
    assert [one["slot"] for one in done.output["individual_results"]] == [*THREE, *THREE]
    early = ensemble({slot: ["A"] for slot in THREE}, samples=2, aggregation_method="vote", stop_when_decided=True)
    assert early.counts() == {"ensemble_0": 1, "ensemble_1": 1, "ensemble_2": 1}


def test_no_more_are_asked_at_a_time_than_may_be() -> None:
    """`max_concurrency` bounds the calls that overlap."""
    calls = ensemble(slots=FIVE, max_concurrency=2, aggregation_method="concat").calls

    assert max(sum(one.began <= call.began < one.ended for one in calls) for call in calls) == 2


def test_each_answer_is_told() -> None:
    """To the aggregator, or to everybody; the layer is the round."""
    rows = ensemble(slots=(*THREE, "aggregator"), layers=2).records(MessageSent)
    assert [(row.sender, row.recipient, row.type, row.round) for row in rows] == [
        (slot, "aggregator", "response", layer) for layer in (1, 2) for slot in THREE
    ]
    assert rows[0].content == {"content": "ensemble_0 1", "confidence": None}

    assert {row.recipient for row in ensemble(aggregation_method="vote").records(MessageSent)} == {""}


# One answer of several


def test_an_aggregator_sees_the_task_and_all_answers() -> None:
    """What it makes of them is the answer."""
    done = ensemble({"aggregator": ["all of it"]}, (*THREE, "aggregator"))

    [prompt] = done.prompts("aggregator")
    assert all(word in prompt for word in (P["prompt"], "ensemble_0 1", "ensemble_1 1", "ensemble_2 1"))
    assert (done.text, done.output["degraded"]) == ("all of it", False)


@pytest.mark.parametrize("reply", [failed(), text("  ")])
def test_answers_are_not_lost_with_their_aggregator(reply: Result) -> None:
    """They stand one after another, and the result says that this is less than was asked for."""
    done = ensemble({**answers("A", "B", "C"), "aggregator": [reply]}, (*THREE, "aggregator"))

    assert done.text == "[ensemble_0]: A\n\n[ensemble_1]: B\n\n[ensemble_2]: C"
    assert done.output["degraded"] is True
    assert [one["slot"] for one in done.output["failures"]] == ["aggregator"]
    assert "aggregator" in done.output["warnings"][0]


def test_a_vote_says_how_clear_it_was() -> None:
    """Votes, share, margin, entropy and whether it was a tie."""
    clear = ensemble(answers("Sydney", "Canberra", "canberra."), aggregation_method="vote")
    assert clear.text == "Canberra"
    assert clear.output["votes"] == {"Sydney": 1, "Canberra": 2}
    assert (clear.output["share"], clear.output["margin"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert clear.output["entropy"] == pytest.approx(0.9183, abs=1e-4)
    assert (clear.output["tie"], clear.output["warnings"]) == (False, [])

    tied = ensemble(answers("Sydney", "Canberra", "Perth"), aggregation_method="vote")
    assert (tied.text, tied.output["tie"], tied.output["margin"]) == ("Sydney", True, 0)
    assert "tied" in tied.output["warnings"][0]


def test_a_weighted_vote_follows_the_sure() -> None:
    """With log-odds, one who is nearly always right outweighs two who guess."""
    script = answers(sure("Sydney", 0.55), sure("Sydney", 0.55), sure("Canberra", 0.95))

    assert ensemble(script, aggregation_method="weighted").text == "Canberra"
    assert ensemble(script, aggregation_method="weighted", weights="linear").text == "Sydney"
    assert ensemble(script, aggregation_method="weighted", weights="uniform").text == "Sydney"


def test_measured_accuracy_comes_before_what_a_member_says_of_itself() -> None:
    """A braggart that is known to be wrong half of the time weighs nothing."""
    script = answers(sure("Sydney", 0.99), sure("Canberra", 0.6), "Sydney")
    accuracy = {"ensemble_0": 0.5, "ensemble_1": 0.9, "ensemble_2": 0.6}

    assert ensemble(script, aggregation_method="weighted").text == "Sydney"
    assert ensemble(script, aggregation_method="weighted", accuracy=accuracy).text == "Canberra"


@bundle(
    ("config", "asks"),
    [
        ({"aggregation_method": "weighted"}, True),
        ({"aggregation_method": "best_of"}, True),
        ({"aggregation_method": "weighted", "weights": "uniform"}, False),
        ({"aggregation_method": "weighted", "accuracy": dict.fromkeys(THREE, 0.8)}, False),
        ({"aggregation_method": "vote"}, False),
    ],
)
def test_a_confidence_is_asked_for_where_it_counts(config: dict[str, Any], asks: bool) -> None:
    """As JSON; an answer that comes as such is the `answer` in it."""
    script = {slot: ['{"answer": "Canberra", "confidence": 0.8}'] for slot in THREE}
    done = ensemble(script, **config)

    assert all(("confidence" in prompt) == asks for slot in THREE for prompt in done.prompts(slot))
    assert done.text == "Canberra"
    assert done.output["individual_results"][0] == {
        "slot": "ensemble_0",
        "output": "Canberra",
        "confidence": 0.8,
    }


def test_the_best_is_that_of_the_surest() -> None:
    """A confidence of 0 is one; whoever says nothing of it stands in the middle."""
    assert ensemble(answers(sure("A", 0.4), sure("B", 0.0), sure("C", 0.6)), aggregation_method="best_of").text == "C"
    assert ensemble(answers(sure("A", 0.4), sure("B", 0.0), "C"), aggregation_method="best_of").text == "C"
    known = {"ensemble_1": 0.9}
    assert ensemble(answers("A", sure("B", 0.0), "C"), aggregation_method="best_of", accuracy=known).text == "B"


@pytest.mark.parametrize(("how", "answer"), [("mean", "26.4"), ("median", "11"), ("trimmed", "11")])
def test_numbers_have_an_average(how: str, answer: str) -> None:
    """The result says how far they lie apart."""
    done = ensemble(answers("10", "about 11 km", "12", "9", "90"), FIVE, aggregation_method="average", average=how)

    assert done.text == answer
    assert done.output["spread"] == pytest.approx(31.82, abs=0.01)


def test_what_is_no_number_has_no_part_in_an_average() -> None:
    """It is told of; without a single number there is no average, and the run fails."""
    done = ensemble(answers("10", "no idea", "20"), aggregation_method="average")
    assert done.text == "15"
    assert "ensemble_1" in done.output["warnings"][0]

    ended = ensemble(aggregation_method="average", script=answers("no idea", "who knows", "ask Bob")).ended
    assert ended.status == "failed"
    assert "average" in ended.reason


def test_who_shows_an_aggregator_the_like_of_what_it_saw_shows_it_later() -> None:
    """`diversity_weight` 1 puts an answer unlike the first before its double."""
    script = {**answers("the sky is blue", "the sky is blue", "grass grows"), "aggregator": ["x"]}

    def order(weight: float) -> list[int]:
        prompt = ensemble(script, (*THREE, "aggregator"), diversity_weight=weight).prompts("aggregator")[0]
        return [prompt.index(words) for words in ("Answer 1:\nthe sky", "grass", "Answer 3:")]

    assert order(0.0) == sorted(order(0.0), key=order(0.0).index)
    first, grass, third = order(0.0)
    assert first < third < grass
    first, grass, third = order(1.0)
    assert first < grass < third


# Failures


def test_a_share_may_fail() -> None:
    """As many as the threshold says, and those who did are named; one more and the run fails."""
    script = answers("A", failed("down"), "A", "A", "A")
    done = ensemble(script, FIVE, aggregation_method="vote", failure_threshold=0.2)
    assert (done.text, done.output["successful"], done.output["failed"]) == ("A", 4, 1)
    assert done.output["failures"] == [{"slot": "ensemble_1", "kind": "failed", "reason": "down"}]

    ended = ensemble(script, FIVE, aggregation_method="vote", failure_threshold=0.19).ended
    assert ended.status == "failed"
    assert ended.reason.startswith("Too many ensemble failures: 1/5")
    assert "down" in ended.reason


def test_somebody_must_answer() -> None:
    """Whatever share may fail; an empty answer is none."""
    ended = ensemble(answers(failed(), text(" "), failed()), aggregation_method="vote", failure_threshold=1.0).ended

    assert (ended.status, ended.reason[:31]) == ("failed", "Too many ensemble failures: 3/3")


def test_a_layer_that_fails_fails_the_run() -> None:
    """Failures of earlier layers within the threshold are told with the others."""
    script = {"ensemble_0": ["A", failed(), "A"]}
    done = ensemble(script, layers=3, aggregation_method="concat")
    assert [one["slot"] for one in done.output["failures"]] == ["ensemble_0"]
    assert (done.output["failed"], done.output["successful"]) == (0, 3)

    assert ensemble(script, layers=2, aggregation_method="concat", failure_threshold=0.0).ended.status == "failed"


# Stopping early


def test_nobody_is_asked_whose_vote_cannot_matter() -> None:
    """Three of five that agree decide it: two calls saved, the same answer."""
    full = ensemble(answers(*"AAABB"), FIVE, aggregation_method="vote")
    early = ensemble(answers(*"AAABB"), FIVE, aggregation_method="vote", stop_when_decided=True)

    assert (sum(full.counts().values()), sum(early.counts().values())) == (5, 3)
    assert early.text == full.text
    assert (early.output["ensemble_size"], early.output["successful"], early.output["failed"]) == (5, 3, 0)


def test_all_of_an_earlier_layer_are_asked() -> None:
    """Only the last layer votes."""
    done = ensemble({slot: ["A"] for slot in FIVE}, FIVE, layers=2, aggregation_method="vote", stop_when_decided=True)

    assert sum(done.counts().values()) == 5 + 3


@given(st.lists(st.sampled_from("ABC"), min_size=1, max_size=7), st.booleans(), st.integers(0, 99))
def test_a_vote_that_ends_early_ends_the_same(said: list[str], weigh: bool, seed: int) -> None:
    """The answer is that of all votes, with no more calls."""
    random = Random(seed)
    slots = tuple(f"ensemble_{n}" for n in range(len(said)))
    script = answers(*(sure(one, round(random.random(), 2)) for one in said))
    method = "weighted" if weigh else "vote"

    full = ensemble(script, slots, aggregation_method=method)
    early = ensemble(script, slots, aggregation_method=method, stop_when_decided=True)
    assert early.text == full.text
    assert sum(early.counts().values()) <= len(said)


# The configuration

UNSURE = answers(sure("A", 0.55), sure("A", 0.55), sure("B", 0.95))
NUMBERS = answers("1", "2", "9")
WEIGHTED = {"aggregation_method": "weighted"}

FIELDS: dict[str, tuple[dict[str, list[Any]], tuple[str, ...], dict[str, Any], Any]] = {
    "aggregation_method": (UNSURE, THREE, {}, "vote"),
    "failure_threshold": (answers("A", failed(), "A"), THREE, {}, 0.1),
    "samples": ({}, THREE, {}, 2),
    "layers": ({}, THREE, {}, 2),
    "stop_when_decided": (answers(*"AAA"), THREE, {"aggregation_method": "vote"}, True),
    "weights": (UNSURE, THREE, WEIGHTED, "linear"),
    "accuracy": (UNSURE, THREE, WEIGHTED, dict.fromkeys(THREE, 0.7)),
    "average": (NUMBERS, THREE, {"aggregation_method": "average"}, "median"),
}


@bundle("field", FIELDS)
def test_every_setting_changes_what_happens(field: str) -> None:
    """Another value than the default makes other calls or another result."""
    script, slots, base, other = FIELDS[field]
    before, after = ensemble(script, slots, **base), ensemble(script, slots, **base, **{field: other})

    assert getattr(EnsembleSettings(), field) != other

    def told(done: Performance) -> tuple[Any, ...]:
        return done.counts(), done.ended.status, done.text if done.ended.status == "completed" else ""

    assert told(before) != told(after)


def test_no_setting_is_left_out() -> None:
    """What the table does not change has a test above."""
    assert {*FIELDS, "diversity_weight", "max_concurrency"} == set(EnsembleSettings.__struct_fields__)


@bundle(
    ("slots", "config", "words"),
    [
        (("aggregator",), {}, "Ensemble requires at least one ensemble agent"),
        (("ensemble_0", "observer"), {}, "observer"),
        (THREE, {"aggregation_method": "sum"}, "aggregation_method"),
        (THREE, {"failure_threshold": -0.1}, "failure_threshold"),
        (THREE, {"diversity_weight": 2}, "diversity_weight"),
        (THREE, {"samples": 0}, "samples"),
        (THREE, {"samples": 101}, "samples"),
        (THREE, {"layers": 11}, "layers"),
        (THREE, {"weights": "equal"}, "weights"),
        (THREE, {"accuracy": {"ensemble_0": 1.0}}, "accuracy"),
        (THREE, {"accuracy": {"ensemble_7": 0.9}}, "ensemble_7"),
        (THREE, {"average": "mode"}, "average"),
        (THREE, {"max_concurrency": 0}, "max_concurrency"),
        (THREE, {"stop_when_decided": True}, "stop_when_decided"),
        (THREE, {"stop_when_decided": "yes", "aggregation_method": "vote"}, "stop_when_decided"),
        (THREE, {"aggregation": "vote"}, "aggregation"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(
    slots: tuple[str, ...], config: dict[str, Any], words: str
) -> None:
    """Missing and unknown slots, unknown settings, values out of range or without sense."""
    with pytest.raises(Refused, match=words):
        pattern("ensemble", slots, **config)


@bundle(
    ("config", "idle"),
    [
        ({"accuracy": {"ensemble_0": 0.9}, "aggregation_method": "vote"}, ["config.accuracy"]),
        ({"accuracy": {"ensemble_0": 0.9}, "aggregation_method": "best_of"}, []),
        ({"weights": "linear", "aggregation_method": "best_of"}, ["config.weights"]),
        ({"average": "median"}, ["config.average"]),
        ({"diversity_weight": 0.3}, ["config.diversity_weight"]),
    ],
)
def test_a_setting_without_effect_is_told(config: dict[str, Any], idle: list[str]) -> None:
    """As a warning, before anybody is asked; so is an aggregator that nobody asks."""
    assert [fault.where for fault in faults(KINDS["ensemble"], config, THREE)] == idle

    spare = list(faults(KINDS["ensemble"], {"aggregation_method": "vote"}, (*THREE, "aggregator")))
    assert [(fault.code, fault.where) for fault in spare] == [("spare-slot", "slots.aggregator")]
    assert not list(faults(KINDS["ensemble"], {}, (*THREE, "aggregator")))


def test_an_ensemble_without_a_prompt_asks_nobody() -> None:
    """The run fails, and says what it needs."""
    done = perform(pattern("ensemble", THREE), {}, {})

    assert (done.ended.status, done.asked) == ("failed", [])
    assert "prompt" in done.ended.reason


# Calls

configs = st.fixed_dictionaries(
    {
        "aggregation_method": st.sampled_from(["vote", "average", "weighted", "concat", "best_of", "synthesis"]),
        "samples": st.integers(1, 3),
        "layers": st.integers(1, 3),
        "weights": st.sampled_from(["log_odds", "linear", "uniform"]),
        "average": st.sampled_from(["mean", "median", "trimmed"]),
        "diversity_weight": st.sampled_from([0.0, 0.5, 1.0]),
        "failure_threshold": st.sampled_from([0.0, 0.3, 1.0]),
        "max_concurrency": st.sampled_from([None, 1, 2]),
    }
)
teams = st.tuples(st.integers(1, 4), st.booleans()).map(
    lambda team: (*FIVE[: team[0]], *(["aggregator"] if team[1] else []))
)


def decided(random: Random, request: Request) -> Result:
    return sure(random.choice(["41", "42", "The answer is 42."]), round(random.random(), 2))


def moody(random: Random, request: Request) -> Result:
    if random.random() < 0.1:
        return failed()
    return random.choice([text(""), text('{"answer": '), text('{"answer": 7}'), decided(random, request), text("42")])


@one_in(2)
@given(teams, configs, st.booleans(), st.integers(0, 999))
def test_as_many_are_asked_as_the_formula_says(
    slots: tuple[str, ...], config: dict[str, Any], stop: bool, seed: int
) -> None:
    """Exactly as many when nothing ends early and nothing fails; otherwise never more."""
    plan = pattern("ensemble", slots, **config)
    done = Performance(plan, P, chance(seed, decided))
    assert done.ended.status == "completed"
    assert done.counts() == calls(plan).usual

    votes = config["aggregation_method"] in ("vote", "weighted")
    plan = pattern("ensemble", slots, **config, stop_when_decided=stop and votes)
    done = Performance(plan, P, chance(seed, moody))
    most = calls(plan).most
    assert all(turns <= most[slot] for slot, turns in done.counts().items())


@one_in(2)
@given(teams, configs, st.booleans(), st.integers(0, 999))
def test_it_does_not_matter_who_is_slow(slots: tuple[str, ...], config: dict[str, Any], stop: bool, seed: int) -> None:
    """Same questions, same end."""
    stop = stop and config["aggregation_method"] in ("vote", "weighted")
    same_at_any_pace(pattern("ensemble", slots, **config, stop_when_decided=stop), P, seed, moody)


def test_whoever_stands_in_for_a_member_votes_for_it() -> None:
    """A fallback agent answers under the name of the slot, and weighs what the slot weighs."""
    agents = {slot: AgentPlan(name=slot) for slot in THREE}
    agents["ensemble_0"] = AgentPlan(name="ensemble_0", on_fail="fallback", fallback="spare")
    plan = pattern("ensemble", agents, aggregation_method="weighted", accuracy={"ensemble_0": 0.95})
    plan.agents["spare"] = AgentPlan(name="spare")
    says: Says = scripted({**answers(failed(), "B", "B"), "spare": ["A"]})

    done = Performance(plan, P, says)
    assert done.text == "A"
    assert [one["slot"] for one in done.output["individual_results"]] == list(THREE)
