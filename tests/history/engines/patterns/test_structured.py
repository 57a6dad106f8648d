from typing import Any

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.patterns.structured import Answered, answer, ask, ask_all, confidence, parse
from coterie.history.engines.questions import AgentFailed, Question
from coterie.team.planning.plan import Wanted
from support.conversations import agents, in_turn, play, reply

VERDICT = (
    Wanted(name="approved", type="boolean"),
    Wanted(name="confidence", type="number", declared=False),
    Wanted(name="issues", type="list", declared=False),
)
SUBTASKS = (Wanted(name="approach", type="text", declared=False), Wanted(name="subtasks", type="list"))
ROUTE = (Wanted(name="route_to", type="enum", values=("code", "research")),)

GOOD = '{"approved": true, "confidence": 0.9, "issues": []}'


@bundle(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"I looked at it.\n\n```json\n{GOOD}\n```\nThat is all.",
        f"Here is my verdict: {GOOD}. Thanks!",
        f'{{"approved": false, "confidence": 0.2}} was my first thought, now: {GOOD}',
        "approved: true\nconfidence: 0.9\nissues: none\n",
        '{"approved": "true", "confidence": "0.9", "issues": "none"}',
        '{"Approved": true, "CONFIDENCE": "90%", "Issues": []}',
        "**Approved:** True.\n**Confidence:** 9/10",
    ],
)
def test_an_answer_is_found_wherever_it_stands(text: str) -> None:
    """Fenced, bare, in prose, on lines; the last one counts."""
    found = parse(reply(text), VERDICT)

    assert found is not None
    assert (found["approved"], found["confidence"]) == (True, 0.9)
    assert found.get("issues", []) == []


@pytest.mark.parametrize("value", ['"false"', '"False"', "false", '" FALSE "'])
def test_false_as_text_is_false(value: str) -> None:
    """A text is no approval for being a text."""
    found = parse(reply(f'{{"approved": {value}}}'), VERDICT)

    assert found is not None
    assert found["approved"] is False


@bundle("value", ['"yes"', '"no"', '""', "1", "0", "null", "[]", "[true]", "{}", '"approved"'])
def test_nothing_else_is_a_boolean(value: str) -> None:
    """What is neither true nor false is no verdict, whatever a programming language makes of it."""
    assert parse(reply(f'{{"approved": {value}}}'), VERDICT) is None


@bundle("text", ["", "{", "[", '{"approved": tru', "No JSON here.", '{"verdict": {"approved": true}}', "[" * 9999])
def test_without_an_answer_there_is_none(text: str) -> None:
    """Broken JSON, other JSON and prose are no answer, and no crash."""
    assert parse(reply(text), VERDICT) is None


@bundle(
    ("text", "subtasks"),
    [
        ('{"approach": "split", "subtasks": ["a", "b"]}', ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ('```json\n["a", "b"]\n```', ["a", "b"]),
        ('{"subtasks": ["a", 2, {"task": "ü"}]}', ["a", "2", '{"task": "ü"}']),
        ('{"subtasks": []}', []),
        ('{"subtasks": "a, b"}', None),
        ('{"approach": "split"}', None),
        ('"a, b"', None),
    ],
)
def test_a_list_is_a_list_of_texts(text: str, subtasks: list[str] | None) -> None:
    """A bare list is that of the only declared field; what is no text in it becomes one; a text is no list."""
    found = parse(reply(text), SUBTASKS)

    assert (found and found["subtasks"]) == subtasks


def test_a_bare_value_is_that_of_the_only_declared_field() -> None:
    """`true` is a verdict and the name of a slot a route; with two declared fields nobody knows which it is."""
    assert parse(reply("true"), VERDICT) == {"approved": True}
    assert parse(reply(" research\n"), ROUTE) == {"route_to": "research"}
    assert parse(reply("nobody"), ROUTE) is None
    assert parse(reply("true"), (*VERDICT, Wanted(name="signed", type="boolean"))) is None


def test_what_does_not_fit_and_need_not_be_there_is_left_out() -> None:
    """A verdict is not lost for a confidence in words."""
    assert parse(reply('{"approved": true, "confidence": "high", "issues": null}'), VERDICT) == {"approved": True}


@bundle("nothing", ["none", "None.", " N/A ", "no issues", "No issues.", "-", "", " ", "[]"])
def test_a_single_issue_may_be_a_text(nothing: str) -> None:
    """A rejection keeps its reason; a word for none is no issue."""
    said = '{"approved": false, "issues": %s}'
    assert parse(reply(said % '" The rhyme is bad. "'), VERDICT) == {"approved": False, "issues": ["The rhyme is bad."]}
    assert parse(reply("approved: false\nissues: None of it rhymes"), VERDICT) == {
        "approved": False,
        "issues": ["None of it rhymes"],
    }
    assert parse(reply(said % f'"{nothing}"'), VERDICT) == {"approved": False}
    assert parse(reply(f"approved: false\nissues: {nothing}"), VERDICT) == {"approved": False}


def test_outputs_count_before_the_text_and_the_text_fills_them_up() -> None:
    """A backend that gives outputs says them best; what they do not hold is looked for in the text."""
    said = reply('{"approved": true, "confidence": 0.3}', approved=False, _confidence=0.9)

    assert parse(said, VERDICT) == {"approved": False, "confidence": 0.3}


@bundle(
    ("text", "outputs", "sure"),
    [
        ("Canberra", {}, None),
        ("Canberra", {"_confidence": 0.9}, 0.9),
        ('{"confidence": 0.4}', {"_confidence": 0.9}, 0.4),
        ("Canberra\nconfidence: 0.7", {}, 0.7),
        ("Canberra", {"confidence": 1, "_confidence": 0.9}, 1.0),
        ("Canberra", {"_confidence": 0.0}, 0.0),
        ("Canberra", {"_confidence": True}, None),
        ("Canberra", {"_confidence": float("nan")}, None),
        ('{"confidence": 85}', {}, None),
        ('{"confidence": 85}', {"_confidence": 0.8}, 0.8),
        ("We say with confidence: yes", {}, None),
        ("Canberra\n**Confidence:** 80%", {}, 0.8),
        ("Canberra\nConfidence: 9/10", {}, 0.9),
        ("Canberra\nconfidence: 0.9.", {}, 0.9),
        ('{"Confidence": "62.5 %"}', {}, 0.625),
        ("Canberra\nconfidence: 9/0", {}, None),
        ("Canberra\nconfidence: 120%", {}, None),
    ],
)
def test_confidence_is_what_is_said_from_0_to_1(text: str, outputs: dict[str, Any], sure: float | None) -> None:
    """The JSON's comes first; 0 is a confidence, no number, a boolean and 85 are none."""
    assert confidence(reply(text, **outputs)) == sure


def test_the_answer_of_a_reply_in_json_is_its_answer() -> None:
    """So members of a vote may say how sure they are and still agree; any other reply is its whole text."""
    assert answer(reply('{"answer": "42", "confidence": 0.9}')) == "42"
    assert answer(reply('{"final_answer": 42}')) == "42"
    assert answer(reply('{"Answer": "42"}')) == "42"
    assert answer(reply("text", answer="from the outputs")) == "from the outputs"
    assert answer(reply('{"answer": ""}')) == '{"answer": ""}'
    assert answer(reply("The answer is 42")) == "The answer is 42"


def test_an_answer_of_use_is_asked_for_once() -> None:
    """The question tells what JSON is wanted and demands none of it: the turn does not fail."""
    answered, rounds = play(ask(Question("checker", "Good?"), VERDICT), in_turn(GOOD))

    assert answered.value == {"approved": True, "confidence": 0.9, "issues": []}
    assert (answered.asked, answered.fault, agents(rounds)) == (1, "", [["checker"]])
    assert (rounds[0][0].fields, rounds[0][0].wanted) == (VERDICT, ())


def test_an_answer_of_no_use_is_asked_for_once_more() -> None:
    """The second question says what is wrong and what is wanted, after what was said before."""
    question = Question("checker", "Good?", history=[("user", "Hello"), ("assistant", "Hi")], given={"prompt": "Good?"})

    answered, rounds = play(ask(question, VERDICT), in_turn("Looks fine", GOOD))

    assert answered.value is not None
    assert answered.value["approved"] is True
    assert answered.asked == 2
    [[first], [again]] = rounds
    assert first.history == (("user", "Hello"), ("assistant", "Hi"))
    assert again.history == (*first.history, ("user", "Good?"), ("assistant", "Looks fine"))
    assert (again.agent, again.given) == ("checker", {"prompt": "Good?"})
    assert "`approved` is to be true or false, but is missing" in again.prompt
    assert '"issues": a list of texts, if you can say' in again.prompt


def test_a_second_answer_of_no_use_is_the_last() -> None:
    """Then the first reply stands, since it answers the question, with what is wrong."""
    answered, rounds = play(ask(Question("checker", "Good?"), VERDICT), in_turn("Fine", '{"approved": "maybe"}'))

    assert len(rounds) == 2
    assert answered.value is None
    assert answered.reply.text == "Fine"
    assert answered.fault == "`approved` is to be true or false, but is something else"


def test_a_question_that_fails_fails_and_a_repair_that_fails_does_not() -> None:
    """Whoever answered once has answered."""
    down = AgentFailed("checker#1", "backend", "provider down")

    with pytest.raises(AgentFailed, match="provider down"):
        play(ask(Question("checker", "Good?"), VERDICT), in_turn(down))
    answered, _ = play(ask(Question("checker", "Good?"), VERDICT), in_turn("Fine", down))

    assert (answered.value, answered.reply.text, answered.asked) == (None, "Fine", 2)
    assert "provider down" in answered.fault


def test_several_are_asked_at_once_and_repaired_at_once() -> None:
    """What came keeps the order asked, failures among it; only who answered of no use is asked again."""
    down = AgentFailed("b#1", "backend", "provider down")
    questions = [Question(agent, "Good?") for agent in "abcd"]
    bad = '{"approved": false}'

    came, rounds = play(ask_all(questions, VERDICT, most=3), in_turn("hm", down, GOOD, "hm", bad, "hm"))

    assert agents(rounds) == [["a", "b", "c", "d"], ["a", "d"]]
    assert isinstance(came[0], Answered)
    assert came[0].value == {"approved": False}
    assert came[1] is down
    assert isinstance(came[2], Answered)
    assert came[2].asked == 1
    assert isinstance(came[3], Answered)
    assert came[3].value is None


@given(
    st.lists(st.sampled_from(["good", "bad", "down"]), max_size=5),
    st.lists(st.sampled_from(["good", "bad", "down"]), min_size=5, max_size=5),
)
def test_asking_all_at_once_gives_what_asking_each_gives(first: list[str], second: list[str]) -> None:
    """Together or one by one: the same answers, the same turns."""

    def said(kind: str) -> Any:
        return {"good": GOOD, "bad": "hm", "down": AgentFailed("x#1", "backend", "down")}[kind]

    script = {f"a{at}": [kind, second[at]] for at, kind in enumerate(first)}

    def answers_of(script: dict[str, list[str]]) -> Any:
        left = {agent: iter(kinds) for agent, kinds in script.items()}
        return lambda question: said(next(left[question.agent]))

    together, _ = play(ask_all([Question(agent, "Good?") for agent in script], VERDICT), answers_of(script))
    one_by_one: list[Any] = []
    answers = answers_of(script)
    for agent in script:
        try:
            one_by_one.append(play(ask(Question(agent, "Good?"), VERDICT), answers)[0])
        except AgentFailed as failed:
            one_by_one.append(failed)

    assert [str(one) for one in together] == [str(one) for one in one_by_one]


def test_prose_is_an_answer_where_prose_will_do() -> None:
    """Nobody is asked again for it; whoever tried to give JSON is."""
    plain, rounds = play(ask(Question("chief", "Divide"), SUBTASKS, prose=True), in_turn("I do it myself."))
    assert (plain.value, plain.asked, len(rounds)) == (None, 1, 1)

    broken, rounds = play(ask(Question("chief", "Divide"), SUBTASKS, prose=True), in_turn('{"subtasks": ["a"', '["a"]'))
    assert (broken.value, broken.asked, len(rounds)) == ({"subtasks": ["a"]}, 2, 2)


@given(
    st.dictionaries(
        st.sampled_from(["approved", "confidence", "issues", "else"]),
        st.one_of(st.none(), st.booleans(), st.floats(0, 1), st.text(max_size=5), st.lists(st.text(max_size=3))),
    )
)
def test_a_reply_that_is_nothing_but_json_reads_like_one_that_holds_it(said: dict[str, Any]) -> None:
    """Most replies are; they are not searched, and that must not show."""
    text = msgspec.json.encode(said).decode()

    assert parse(reply(text), VERDICT) == parse(reply(f"So:\n{text}\n"), VERDICT)
    assert confidence(reply(text)) == confidence(reply(f"So:\n{text}\n"))
