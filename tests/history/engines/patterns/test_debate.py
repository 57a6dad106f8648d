from itertools import pairwise
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
from coterie.history.engines.commands import Ask
from coterie.history.engines.patterns.engine import PatternEngine
from coterie.history.journal.records import MessageSent, RunStarted, TurnFinished
from coterie.patterns.builtin.debate import DebateSettings
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.patterns.kinds import KINDS, faults

SLOTS = ("proponent", "opponent", "mediator")
Q = {"question": "Should every module have tests?"}
VERDICT = "SUMMARY: both heard\nEVALUATION: close\nVERDICT: proponent\nCONCLUSION: write tests"


def debate(script: dict[str, list[Any]] | None = None, slots: tuple[str, ...] = SLOTS, **config: Any) -> Performance:
    """A debate with these agents; who is not scripted says `<slot> <n>`."""
    return perform(pattern("debate", slots, **config), Q, script or {})


def said(approval: float) -> str:
    return f"So be it.\nagreement: {approval}"


def vote(answer: str, confidence: float) -> str:
    return f'{{"answer": "{answer}", "confidence": {confidence}}}'


def spoken(done: Performance) -> list[str]:
    return [turn["role"] for turn in done.output["debate_history"]]


# The talk


def test_each_side_sees_its_own_part_of_the_talk_as_a_chat() -> None:
    """It opens with what the side was told; what it said is the assistant's; each question only adds to it."""
    done = debate(max_rounds=3)

    chats = [call.chat for call in done.calls if call.slot == "proponent"]
    assert [[role for role, _ in chat] for chat in chats] == [["user", "assistant"] * n + ["user"] for n in range(3)]
    for earlier, later in pairwise(chats):
        assert [told for _, told in later][: len(earlier) - 1] == [told for _, told in earlier][:-1]
    [asked] = [request for path, request in done.asked if request.turn == "opponent#2"]
    assert [words for _, words in asked.history][1] == "[Opponent]: opponent 1"
    assert "[Proponent]: proponent 2" in asked.latest
    assert Q["question"] in asked.history[0][1]


def test_the_mediator_sees_the_question_and_all_that_was_said() -> None:
    """Every argument, in order, with the side that made it."""
    prompt = debate(max_rounds=2).prompts("mediator")[0]

    places = [prompt.index(f"[{side.title()}]: {side} {n}") for n in (1, 2) for side in SLOTS[:2]]
    assert places == sorted(places)
    assert Q["question"] in prompt


def test_each_argument_is_told_to_the_two_others() -> None:
    """A message a recipient, with the round in which it was said."""
    rows = [(row.sender, row.recipient, row.round) for row in debate(max_rounds=2).records(MessageSent)]

    assert rows == [
        ("proponent", "opponent", 0),
        ("proponent", "mediator", 0),
        ("opponent", "proponent", 1),
        ("opponent", "mediator", 1),
        ("proponent", "opponent", 1),
        ("proponent", "mediator", 1),
        ("opponent", "proponent", 2),
        ("opponent", "mediator", 2),
    ]
    assert {row.type for row in debate().records(MessageSent)} == {"broadcast"}


def test_a_label_that_a_side_gives_itself_is_no_part_of_its_argument() -> None:
    """Whoever copies the form of the transcript is not labelled twice."""
    done = debate({"opponent": ["[Opponent]: No."]}, max_rounds=1)

    assert done.output["debate_history"][1]["argument"] == "No."


@bundle("slot", SLOTS)
@bundle(("reply", "why"), [(failed("provider down"), "provider down"), (text(" "), "gave an empty answer")])
def test_a_debate_without_one_of_its_voices_fails(slot: str, reply: Result, why: str) -> None:
    """It says who it was, and why; a verdict on half a debate is none."""
    ended = debate({slot: [reply]}).ended

    assert ended.status == "failed"
    assert slot in ended.reason
    assert why in ended.reason


# When it ends


def test_a_debate_ends_early_once_both_sides_agree() -> None:
    """Each side must reach the threshold in its latest turn; the agreement of one side is not enough."""
    one_sided = debate({"opponent": [said(1)]})
    assert (one_sided.output["rounds"], one_sided.output["convergence"]) == (3, 0)

    met = debate({"opponent": [said(0.9)], "proponent": ["Yes.", said(0.8)]})
    assert spoken(met) == ["proponent", "opponent", "proponent"]
    assert (met.output["rounds"], met.output["convergence"]) == (1, 0.8)

    assert debate({"opponent": [said(0.9)], "proponent": ["Yes.", said(0.79)]}).output["rounds"] == 3
    assert debate({"opponent": [said(0.9), "No, never.", said(1)], "proponent": [said(0.8)]}).output["rounds"] == 1


def test_either_side_may_be_the_second_to_agree() -> None:
    """The debate ends with that turn."""
    done = debate({"opponent": ["No.", said(1)], "proponent": ["Yes.", said(1)]})

    assert spoken(done) == ["proponent", "opponent", "proponent", "opponent"]
    assert done.output["rounds"] == 2


def test_a_debate_that_an_earlier_version_began_keeps_its_rule() -> None:
    """Up to version 2 the agreements of the sides were added up: one side that agrees wholly ended the debate."""
    plan = pattern("debate", SLOTS)
    asked = []
    for version in (2, 3):
        engine = PatternEngine(plan.coordination, plan.agents)
        engine.step(RunStarted(run="r", engine="pattern", engine_version=version, input=Q))
        for turn, words in (("proponent#1", "Yes."), ("opponent#1", said(1))):
            commands = engine.step(TurnFinished(turn=turn, attempt=1, text=words))
        asked.append([command.turn for command in commands if isinstance(command, Ask)])

    assert asked == [["mediator#1"], ["proponent#2"]]


def test_what_the_proponent_says_when_it_opens_agrees_with_nobody() -> None:
    """There is nobody yet to agree with."""
    done = debate({"proponent": ["I agree with the motion!"]}, max_rounds=1)

    assert done.output["debate_history"][0]["agreement"] is None
    assert done.output["convergence"] == 0


# Who decides


def test_the_conclusion_is_the_section_of_that_name() -> None:
    """Of a verdict in sections, of one in JSON, and all of one that has neither."""
    done = debate({"mediator": [VERDICT]})
    assert (done.output["conclusion"], done.output["winner"], done.text) == ("write tests", "proponent", "write tests")
    assert done.output["synthesis"] == VERDICT

    done = debate({"mediator": ['{"verdict": "opponent", "conclusion": "do not"}']})
    assert (done.output["conclusion"], done.output["winner"]) == ("do not", "opponent")

    done = debate({"mediator": ["VERDICT: neither proponent nor opponent\n**Conclusion:** it depends"]})
    assert (done.output["conclusion"], done.output["winner"]) == ("it depends", "")

    done = debate({"mediator": ["Both have a point: proponent and opponent."]})
    assert (done.output["conclusion"], done.output["winner"]) == ("", "")
    assert done.text == "Both have a point: proponent and opponent."


def test_a_majority_is_that_of_all_three_answers() -> None:
    """After the talk both sides and the mediator answer for themselves, at once."""
    votes = {"proponent": ["p", vote("Yes", 0.9)], "opponent": ["o", "The answer is yes."], "mediator": ["No"]}

    done = debate(votes, max_rounds=1, consensus_method="majority")

    assert [call.slot for call in done.calls] == ["proponent", "opponent", "proponent", "opponent", "mediator"]
    assert (done.text, done.output["conclusion"], done.output["tie"]) == ("Yes", "Yes", False)
    assert done.output["votes"] == {"proponent": "Yes", "opponent": "The answer is yes.", "mediator": "No"}
    assert (done.output["share"], done.output["margin"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_who_votes_has_heard_all_that_was_said() -> None:
    """The proponent is told the last word, the opponent said it, and the mediator sees everything."""
    done = debate({"opponent": ["LAST WORD", "A"]}, max_rounds=1, consensus_method="majority")

    ballots = dict(done.asked)
    assert ["LAST WORD" in ballots[slot].latest for slot in SLOTS] == [True, False, True]
    assert all("LAST WORD" in ballots[slot].prompt and Q["question"] in ballots[slot].latest for slot in SLOTS)


@bundle("slot", SLOTS)
@bundle("reply", [failed(), text(" ")])
def test_a_vote_that_does_not_come_fails_the_debate(slot: str, reply: Result) -> None:
    """Like an argument that does not come."""
    before = ["an argument"] if slot != "mediator" else []
    ended = debate({slot: [*before, reply]}, max_rounds=1, consensus_method="majority").ended

    assert ended.status == "failed"
    assert slot in ended.reason


def test_a_tie_is_told() -> None:
    """Three answers of three: the first counts, and the result says so."""
    votes = {"proponent": ["p", "A"], "opponent": ["o", "B"], "mediator": ["C"]}
    done = debate(votes, max_rounds=1, consensus_method="majority")

    assert (done.text, done.output["tie"], done.output["margin"]) == ("A", True, 0)
    assert "tied" in done.output["warnings"][0]


def test_votes_are_weighted_by_how_sure_they_are() -> None:
    """One who is sure outweighs two who are not."""
    votes = {"proponent": ["p", vote("A", 0.55)], "opponent": ["o", vote("B", 0.95)], "mediator": [vote("A", 0.55)]}

    assert debate(votes, max_rounds=1, consensus_method="majority").text == "A"
    assert debate(votes, max_rounds=1, consensus_method="weighted").text == "B"


def test_unanimous_is_unanimous() -> None:
    """One other answer, and there is none; the text says what each answered."""
    votes = {"proponent": ["p", "A"], "opponent": ["o", "a."], "mediator": ["A"]}
    done = debate(votes, max_rounds=1, consensus_method="unanimous")
    assert (done.text, done.output["share"]) == ("A", 1)

    done = debate({**votes, "opponent": ["o", "B"]}, max_rounds=1, consensus_method="unanimous")
    assert done.ended.status == "completed"
    assert done.text.startswith("There is no unanimous answer.\n\n[proponent]: A\n\n[opponent]: B")
    assert "unanimous" in done.output["warnings"][0]


def test_the_first_agreement_decides_without_a_mediator() -> None:
    """Whoever was agreed with wins, with the argument that was agreed with."""
    done = debate({"proponent": ["Yes.", "p2", said(0.9)], "opponent": ["No."]}, consensus_method="first_agree")

    assert "mediator" not in done.counts()
    assert (done.text, done.output["winner"], done.output["method"]) == ("No.", "opponent", "first_agree")


def test_without_an_agreement_the_mediator_decides() -> None:
    """The result says that it did."""
    done = debate({"mediator": [VERDICT]}, consensus_method="first_agree")

    assert (done.text, done.output["method"]) == ("write tests", "mediator")


def test_a_verdict_that_depends_on_the_order_is_none() -> None:
    """Asked twice, the sides in both orders: what differs is told, and nobody wins."""
    both = {"mediator": [VERDICT, VERDICT.replace("proponent", "opponent").replace("write", "write no")]}
    done = debate(both, max_rounds=2, swap_verdict=True)

    assert (done.output["winner"], done.output["tie"], done.output["consistent"]) == ("tie", True, False)
    assert "[proponent first]: write tests" in done.text
    assert "[opponent first]: write no tests" in done.text
    assert done.output["warnings"]
    one, other = done.prompts("mediator")
    assert one.index("[Proponent]: proponent 1") < one.index("[Opponent]: opponent 1")
    assert other.index("[Proponent]: proponent 1") > other.index("[Opponent]: opponent 1")


def test_a_verdict_that_is_the_same_in_both_orders_stands() -> None:
    """The winner counts; without one, the conclusion."""
    done = debate({"mediator": [VERDICT, VERDICT.replace("write tests", "tests are good")]}, swap_verdict=True)
    assert (done.text, done.output["consistent"], len(done.output["verdicts"])) == ("write tests", True, 2)

    assert debate({"mediator": ["42", "The answer is 42."]}, swap_verdict=True).output["consistent"]


# The configuration

BOTH = {"opponent": [said(1)], "proponent": ["Yes.", said(1)]}
HALFWAY = {"opponent": [said(0.6)], "proponent": ["Yes.", said(0.6)], "mediator": [VERDICT]}
SPLIT = {"opponent": ["o1", "o2", "o3", "B"], "proponent": ["p1", "p2", "p3", "B"], "mediator": ["A"]}

FIELDS: dict[str, tuple[dict[str, list[Any]], dict[str, Any], Any]] = {
    "max_rounds": ({}, {}, 2),
    "consensus_method": (SPLIT, {}, "majority"),
    "convergence_threshold": (HALFWAY, {}, 0.5),
    "allow_early_termination": (BOTH, {}, False),
    "min_rounds": (BOTH, {}, 2),
    "swap_verdict": ({"mediator": ["A", "B"]}, {}, True),
}


@bundle("field", FIELDS)
def test_every_setting_changes_what_happens(field: str) -> None:
    """Another value than the default makes other calls or another result."""
    script, base, other = FIELDS[field]
    before, after = debate(script, **base), debate(script, **base, **{field: other})

    assert getattr(DebateSettings(), field) != other
    assert (before.counts(), before.text) != (after.counts(), after.text)


def test_no_setting_is_left_out() -> None:
    """The two tests around this one look at each."""
    assert {*FIELDS, "mediator_agent_name"} == set(DebateSettings.__struct_fields__)


def test_another_agent_may_mediate() -> None:
    """`mediator_agent_name` fills the slot when no slot has that name."""
    done = debate({"judge": [VERDICT]}, ("proponent", "opponent", "judge"), mediator_agent_name="judge")

    assert done.counts()["judge"] == 1
    assert done.text == "write tests"


@pytest.mark.parametrize(
    ("field", "rounds"), [({"min_rounds": 2}, 2), ({"allow_early_termination": False}, 3), ({}, 1)]
)
def test_a_debate_goes_on_as_long_as_it_must(field: dict[str, Any], rounds: int) -> None:
    """Agreement ends it after `min_rounds`, or not at all."""
    assert debate(BOTH, **field).output["rounds"] == rounds


@bundle(
    ("slots", "config", "words"),
    [
        (("proponent", "opponent"), {}, "Debate requires 'mediator' slot"),
        (("opponent", "mediator"), {}, "Debate requires 'proponent' slot"),
        (("proponent", "mediator"), {}, "Debate requires 'opponent' slot"),
        (("proponent", "opponent"), {"mediator_agent_name": "judge"}, "judge"),
        ((*SLOTS, "audience"), {}, "audience"),
        (SLOTS, {"max_rounds": 0}, "max_rounds"),
        (SLOTS, {"max_rounds": 11}, "max_rounds"),
        (SLOTS, {"max_rounds": "3"}, "max_rounds"),
        (SLOTS, {"min_rounds": 0}, "min_rounds"),
        (SLOTS, {"min_rounds": 4}, "min_rounds"),
        (SLOTS, {"convergence_threshold": 1.1}, "convergence_threshold"),
        (SLOTS, {"consensus_method": "duel"}, "consensus_method"),
        (SLOTS, {"allow_early_termination": "no"}, "allow_early_termination"),
        (SLOTS, {"swap_verdict": 1}, "swap_verdict"),
        (SLOTS, {"max_round": 3}, "max_round"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(
    slots: tuple[str, ...], config: dict[str, Any], words: str
) -> None:
    """Missing and unknown slots, unknown settings, values out of range."""
    with pytest.raises(Refused, match=words):
        pattern("debate", slots, **config)


@bundle(
    ("config", "idle"),
    [
        ({"swap_verdict": True, "consensus_method": "majority"}, ["config.swap_verdict"]),
        ({"swap_verdict": True, "consensus_method": "first_agree"}, []),
        ({"min_rounds": 2, "allow_early_termination": False}, ["config.min_rounds"]),
        ({"convergence_threshold": 0.5, "allow_early_termination": False}, ["config.convergence_threshold"]),
        (
            {"convergence_threshold": 0.5, "allow_early_termination": False, "consensus_method": "first_agree"},
            [],
        ),
    ],
)
def test_a_setting_without_effect_is_told(config: dict[str, Any], idle: list[str]) -> None:
    """As a warning, before anybody is asked."""
    assert [fault.where for fault in faults(KINDS["debate"], config, SLOTS)] == idle


def test_a_debate_without_a_question_asks_nobody() -> None:
    """The run fails, and says what it needs."""
    done = perform(pattern("debate", SLOTS), {"title": "x"}, {})

    assert (done.ended.status, done.asked) == ("failed", [])
    assert "question" in done.ended.reason


# Calls

configs = st.fixed_dictionaries(
    {
        "max_rounds": (rounds := st.integers(1, 5)),
        "consensus_method": st.sampled_from(["majority", "unanimous", "weighted", "mediator", "first_agree"]),
        "convergence_threshold": st.sampled_from([0.1, 0.5, 0.8, 1.0]),
        "min_rounds": rounds,
        "swap_verdict": st.booleans(),
        "mediator_agent_name": st.sampled_from([None, "judge"]),
    }
).map(lambda config: {**config, "min_rounds": min(config["min_rounds"], config["max_rounds"])})


def slots(config: dict[str, Any]) -> dict[str, AgentPlan]:
    mediator = config["mediator_agent_name"] or "mediator"
    return {name: AgentPlan(name=name) for name in ("opponent", mediator, "proponent")}


def stubborn(random: Random, request: Request) -> Result:
    return text(random.choice([vote("A", 0.5), "I disagree.", "B", said(0), "VERDICT: tie"]))


def moody(random: Random, request: Request) -> Result:
    if random.random() < 0.05:
        return failed()
    return text(
        random.choice(["I agree.", "A valid point.", said(round(random.random(), 2)), "{", vote("A", 2), VERDICT])
    )


@one_in(2)
@given(configs, st.integers(0, 999))
def test_as_many_are_asked_as_the_formula_says(config: dict[str, Any], seed: int) -> None:
    """Exactly as many when nothing ends early and nothing fails; otherwise never more."""
    full = pattern("debate", slots(config), **config, allow_early_termination=False)
    done = Performance(full, Q, chance(seed, stubborn))
    assert done.ended.status == "completed"
    assert done.counts() == calls(full).usual

    plan = pattern("debate", slots(config), **config)
    done = Performance(plan, Q, chance(seed, moody))
    most = calls(plan).most
    assert all(turns <= most[slot] for slot, turns in done.counts().items())


@one_in(2)
@given(configs, st.integers(0, 999))
def test_it_does_not_matter_who_is_slow(config: dict[str, Any], seed: int) -> None:
    """Same questions, same end."""
    same_at_any_pace(pattern("debate", slots(config), **config), Q, seed, moody)
