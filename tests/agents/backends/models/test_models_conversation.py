import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import fake_models
import pytest
from asking import Heard, ask, request, timed_out
from asking_models import VERDICT, answered, failed, plan, put, results_of, tools_of
from fake_models import FakeModels, Refuse, Say, Send, openai, text_of

from coterie.agents.backends.base import Answer, Event, Failure, Session, Text, Tool, Used
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.key import turn_attempt, turn_key
from coterie.team.planning.plan import Wanted


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    """Each dialect in turn."""
    return str(request.param)


def test_an_answer_is_heard_as_it_comes(api: str) -> None:
    """What it thinks and what it says, each on its channel, in pieces; then what it used, and what that cost."""
    with FakeModels(Say("a short answer", thinking="let me see", tokens=(1000, 200), cached=100)) as models:
        result, heard = put(models, plan(api))

    assert isinstance(result, Answer)
    assert (result.text, result.outputs) == ("a short answer", None)
    assert (heard.said(), heard.said("thinking")) == ("a short answer", "let me see")
    assert len([event for event in heard if isinstance(event, Text) and event.channel == "answer"]) == 3
    usage = result.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.unpriced) == (1000, 200, 100, 0)
    assert usage.cost > 0
    assert usage.seconds > 0
    assert [event.usage.cost for event in heard if isinstance(event, Used)] == [usage.cost]
    assert models.requests[0]["stream"] is True
    assert "a question" in text_of(models.requests[0])


def test_what_was_said_before_is_told_as_a_chat(api: str) -> None:
    """Its own words come as the assistant's, the others' as the user's, and the question last."""
    said = (("user", "For tests."), ("assistant", "They cost time."), ("user", "They save more."))
    prompt = "For tests.\n\nThey cost time.\n\nThey save more.\n\nAnswer."
    with FakeModels(Say("fine")) as models:
        assert answered(models, plan(api), prompt=prompt, history=said).text == "fine"

    told = [(one["role"], text_of({"messages": [one]})) for one in models.requests[0]["messages"]]
    roles = [role for role, _ in told]
    assert roles == ["user", "assistant", "user", "user"][: len(told)]  # some providers join neighbours of one role
    for (_, text), word in zip(told, ("For tests.", "They cost time.", "They save more."), strict=False):
        assert word in text
    assert "For tests." not in told[-1][1]
    assert told[-1][1].count("Answer.") == 1


def test_who_it_is_is_told_apart_from_what_it_is_asked(api: str) -> None:
    """What comes first as `system` is no part of the chat where the provider has a place of its own for it."""
    said = (("system", "You doubt."), ("user", "For tests."))
    with FakeModels(Say("fine")) as models:
        answered(models, plan(api), prompt="You doubt.\n\nFor tests.\n\nAnswer.", history=said)

    body = models.requests[0]
    assert body["messages"][0]["role"] == ("user" if api == "anthropic" else "system")
    assert "You doubt." in str(body["system"] if api == "anthropic" else body["messages"][0])
    assert str(body).count("You doubt.") == 1


def test_declared_outputs_are_given_by_a_tool(api: str) -> None:
    """Its schema is made of what is declared; the text that comes with it stays the answer's text."""
    wanted = (
        VERDICT,
        Wanted(name="score", type="number"),
        Wanted(name="sure", type="boolean"),
        Wanted(name="lines", type="integer"),
        Wanted(name="why", type="text"),
        Wanted(name="mood", values=("dry",), declared=False),
    )
    given = {"verdict": "approve", "score": 0.5, "sure": True, "lines": 3, "why": "it holds"}
    with FakeModels(Say("Read, and it holds.", calls=[("give_outputs", given)])) as models:
        answer = answered(models, plan(api, outputs=wanted))

    assert (answer.text, answer.outputs) == ("Read, and it holds.", given)
    schema = tools_of(models.requests[0])["give_outputs"]
    assert {name: schema["properties"][name].get("type") for name in schema["properties"]} == {
        "verdict": "string",
        "score": "number",
        "sure": "boolean",
        "lines": "integer",
        "why": "string",
        "mood": None,
    }
    assert schema["properties"]["verdict"]["enum"] == ["approve", "revise"]
    assert schema["required"] == ["verdict", "score", "sure", "lines", "why"]


def test_the_text_before_outputs_without_one_is_the_answer(api: str) -> None:
    """A model may say what it has to say, use a tool, and then give nothing but its outputs."""
    replies = [
        Say("Read, and it holds.", calls=[("size", {"length": 7})]),
        Say(calls=[("give_outputs", {"verdict": "approve"})]),
    ]
    with FakeModels(*replies) as models:
        answer = answered(models, plan(api, {"python_tools": {"size": f"{HERE}measure"}}, outputs=(VERDICT,)))

    assert (answer.text, answer.outputs) == ("Read, and it holds.", {"verdict": "approve"})


def test_outputs_that_do_not_fit_are_left_to_the_run(api: str) -> None:
    """It judges them, and asks again with the reason: they are given as they came."""
    with FakeModels(Say(calls=[("give_outputs", {"verdict": "maybe"})])) as models:
        assert answered(models, plan(api, outputs=(VERDICT,))).outputs == {"verdict": "maybe"}
        assert len(models.requests) == 1


def test_a_model_may_answer_in_words(api: str) -> None:
    """Then the outputs are found in the text, as in a program's; without declared outputs there is no tool."""
    with FakeModels(Say("verdict: approve")) as models:
        assert answered(models, plan(api, outputs=(VERDICT,))).outputs is None
        undeclared = Wanted(name="verdict", values=("approve",), declared=False)
        assert answered(models, plan(api, outputs=(undeclared,))).text == "verdict: approve"

    assert tools_of(models.requests[1]) == {}


def test_arguments_that_are_no_json_are_asked_for_again(api: str) -> None:
    """In the same attempt: the model is told what was wrong with them."""
    good = Say(calls=[("give_outputs", {"verdict": "revise"})])
    with FakeModels(Say(calls=[("give_outputs", '{"verdict": ')]), good) as models:
        done = answered(models, plan(api, outputs=(VERDICT,)))
        assert (done.outputs, done.usage.input_tokens) == ({"verdict": "revise"}, 200)

    assert len(models.requests) == 2


def test_a_repair_within_an_attempt_counts_as_a_request(api: str) -> None:
    """Towards the maximum of the attempt, and with its usage if the attempt fails."""
    bad = Say(calls=[("give_outputs", '{"verdict": ')])
    with FakeModels(bad) as models:
        failure = failed(models, plan(api, {"max_turns": 2}, outputs=(VERDICT,)))

    assert (failure.kind, failure.usage.input_tokens, len(models.requests)) == ("failed", 200, 2)


def look_up(word: str, times: int = 1) -> str:
    """Look a word up.

    Args:
        word: What to look up.
        times: How often.
    """
    if word == "nonsense":
        raise ValueError(f"no such word: {word}")
    return f"{word} found {times} times by {turn_key()}, attempt {turn_attempt()}, in {threading.current_thread().name}"


async def measure(length: int) -> int:
    """Give it back."""
    return length


HERE = f"{__name__}:"


def test_a_function_is_a_tool(api: str) -> None:
    """It is described by its docstring and its arguments, runs in a thread, and knows the key of its turn."""
    replies = [Say("I look.", calls=[("look_up", {"word": "fox", "times": 2}), ("size", {"length": 7})]), Say("Done.")]
    tools = {"look_up": f"{HERE}look_up", "size": f"{HERE}measure"}
    with FakeModels(*replies) as models:
        result, heard = put(models, plan(api, {"python_tools": tools}), run="run", attempt=2)

    assert isinstance(result, Answer)
    assert result.text == "Done."
    told = " ".join(results_of(models.requests[1]))
    assert "fox found 2 times by run/a#1, attempt 2, in coterie-look_up" in told
    assert "7" in told
    schema = tools_of(models.requests[0])["look_up"]
    assert schema["properties"]["word"]["description"] == "What to look up."
    assert schema["required"] == ["word"]
    states = [(event.name, event.state) for event in heard if isinstance(event, Tool)]
    assert sorted(states) == [
        ("look_up", "finished"),
        ("look_up", "started"),
        ("size", "finished"),
        ("size", "started"),
    ]
    assert heard.said() == "I look.\n\nDone."
    assert result.usage.input_tokens == 200


def test_what_a_tool_raises_is_told_to_the_model(api: str) -> None:
    """It can do something about it, and the attempt goes on."""
    replies = [Say(calls=[("look_up", {"word": "nonsense"})]), Say("There is no such word.")]
    with FakeModels(*replies) as models:
        result, heard = put(models, plan(api, {"python_tools": {"look_up": f"{HERE}look_up"}}))

    assert getattr(result, "text", "") == "There is no such word."
    assert "ValueError: no such word: nonsense" in results_of(models.requests[1])[0]
    assert [event.state for event in heard if isinstance(event, Tool)] == ["started", "failed"]


async def _leaves() -> str:
    raise SystemExit(3)


@pytest.mark.parametrize("leave", [_leaves, lambda: sys.exit(3)], ids=["async", "in a thread"])
def test_sys_exit_in_a_tool_is_told_to_the_model(leave: Any) -> None:
    """It ends neither the attempt nor the process."""
    globals()["leave"] = leave
    with FakeModels(Say(calls=[("leave", {})]), Say("I go on.")) as models:
        result, _ = put(models, plan(options={"python_tools": {"leave": f"{HERE}leave"}}))

    assert getattr(result, "text", "") == "I go on."
    assert "SystemExit: 3" in results_of(models.requests[1])[0]


async def _clings() -> str:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(60)


@pytest.mark.parametrize("kind", ["interrupted", "timeout"])
def test_a_tool_that_ignores_its_cancellation_is_abandoned(kind: str) -> None:
    """A moment after the attempt was interrupted or took too long; the attempt says so."""
    heard = Heard()
    globals()["cling"] = _clings

    async def main(models: FakeModels) -> Any:
        backend = ModelBackend(environment=models.environment)
        agent = plan(options={"python_tools": {"cling": f"{HERE}cling"}})
        session: Any = await backend.start(request(agent), heard)
        await heard.until(lambda heard: any(isinstance(event, Tool) for event in heard))
        session._cut_off(kind, "it is over")
        result = await session.result()
        await backend.close()
        return result, session.abandoned

    with FakeModels(Say(calls=[("cling", {})])) as models:
        result, is_left = asyncio.run(main(models))
    assert (result.kind, is_left) == (kind, True)
    assert result.reason == "it is over; it ignored its cancellation and was abandoned"


def test_a_key_in_a_call_of_a_tool_is_hidden(api: str) -> None:
    """In its arguments, in what it gives, and in what it raises."""
    calls = [("look_up", {"word": "key-of-the-test"}), ("look_up", {"word": "nonsense", "times": "key-of-the-test"})]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        _, heard = put(models, plan(api, {"python_tools": {"look_up": f"{HERE}look_up"}}))

    events = [event for event in heard if isinstance(event, Tool)]
    details = [event.detail or event.result for event in events]
    assert len(details) == 4
    assert len({event.id for event in events}) == 2, "a call and its result have the same id"
    assert all("***" in detail and "key-of-the-test" not in detail for detail in details)


def test_a_tool_called_wrongly_is_told_to_the_model(api: str) -> None:
    """Arguments that do not fit never reach the function."""
    replies = [Say(calls=[("look_up", {"times": "x"})]), Say("Sorry.")]
    with FakeModels(*replies) as models:
        assert answered(models, plan(api, {"python_tools": {"look_up": f"{HERE}look_up"}})).text == "Sorry."

    assert "word" in results_of(models.requests[1])[0]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module_here:f", "No module named 'no_such_module_here'"),
        (f"{HERE}nothing", "has no attribute 'nothing'"),
        (f"{HERE}HERE", "is not a function"),
    ],
)
def test_a_tool_that_is_not_there_fails_the_turn(path: str, said: str) -> None:
    """Before anything is asked; trying again would not mend it."""
    with FakeModels(Say("hi")) as models:
        failure = failed(models, plan(options={"python_tools": {"look_up": path}}))

    assert failure.kind == "not_found"
    assert said in failure.reason
    assert models.requests == []


def test_a_turn_key_is_for_tools() -> None:
    """Elsewhere nobody calls."""
    with pytest.raises(LookupError, match="only in a tool that a model calls"):
        turn_key()
    with pytest.raises(LookupError, match="turn_attempt\\(\\) works only in a tool"):
        turn_attempt()


def test_the_rounds_of_tools_are_bounded(api: str) -> None:
    """`max-turns` says how often the model is asked; one that never stops calling is stopped."""
    with FakeModels(Say(calls=[("size", {"length": 1})])) as models:
        options = {"python_tools": {"size": f"{HERE}measure"}, "max_turns": 3}
        failure = failed(models, plan(api, options))

    assert (failure.kind, len(models.requests)) == ("failed", 3)
    assert "max-turns" in failure.reason
    assert failure.usage.input_tokens == 300


def test_settings_reach_the_provider() -> None:
    """In its own words; one that it does not have is left out, and the log says so."""
    options = {"max_tokens": 500, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ["END"], "seed": 7}
    with FakeModels(Say("hi")) as models:
        _, heard = put(models, plan(options=options, model="claude-sonnet-4-6"))
        put(models, plan("openai", options, model="gpt-4o"))

    first, second = models.requests
    assert (first["max_tokens"], first["temperature"], first["top_k"]) == (500, 0.5, 5)
    assert (first["stop_sequences"], "seed" in first) == (["END"], False)
    assert "anthropic has no setting 'seed'" in heard.said("log")
    assert (second["temperature"], second["top_p"], second["stop"], second["seed"]) == (0.5, 0.9, ["END"], 7)
    assert [second[name] for name in ("max_completion_tokens", "max_tokens") if name in second] == [500]


@pytest.mark.parametrize(("level", "sent"), [("high", True), ("off", False)])
def test_how_hard_it_thinks_can_be_said(level: str, sent: bool) -> None:
    """Off is off."""
    with FakeModels(Say("hi")) as models:
        answered(models, plan(options={"thinking": level}, model="claude-opus-4-8"))

    thinking = models.requests[0].get("thinking", {"type": "disabled"})
    assert (thinking["type"] != "disabled") is sent


def test_guidance_is_read_before_the_model_is_asked_again(api: str) -> None:
    """What is said while it works joins the next request; when its answer is complete, it is too late."""
    heard, started = Heard(), threading.Event()

    def choose(body: dict[str, Any]) -> Say:
        return (
            Say("Dogs it is.") if "rather dogs" in text_of(body) else Say("Cats are", hold=lambda: started.wait(0.01))
        )

    async def main(models: FakeModels) -> tuple[Any, bool]:
        backend = ModelBackend(environment=models.environment)
        session: Session = await backend.start(request(plan(api), prompt="cats"), heard)
        await heard.until(lambda heard: "Cats" in heard.said())
        assert await session.steer("rather dogs")
        started.set()
        result = await session.result()
        late = await session.steer("or birds")
        await backend.close()
        return result, late

    with FakeModels(choose=choose) as models:
        result, late = asyncio.run(main(models))

    assert (result.text, late, len(models.requests)) == ("Dogs it is.", False, 2)


def test_guidance_that_comes_at_once_is_read_with_the_question(api: str) -> None:
    """Before the library is even loaded."""

    async def main(models: FakeModels) -> None:
        backend = ModelBackend(environment=models.environment)
        session = await backend.start(request(plan(api), prompt="cats"), Heard())
        assert await session.steer("rather dogs")
        await session.result()
        await backend.close()

    with FakeModels(Say("Dogs it is.")) as models:
        asyncio.run(main(models))

    assert len(models.requests) == 1
    assert "rather dogs" in text_of(models.requests[0])


def test_guidance_after_the_last_request_is_refused() -> None:
    """Though the attempt still has to be closed: the operator is told that it comes too late."""
    taken: list[bool] = []

    async def main(models: FakeModels) -> None:
        backend = ModelBackend(environment=models.environment)

        def heard(event: Event) -> None:
            if getattr(event, "channel", "") == "log":  # that the price is not known: said of a complete answer
                with pytest.raises(StopIteration) as done:
                    session.steer("or birds").send(None)
                taken.append(done.value.value)

        session: Session = await backend.start(request(plan("openai", model="openai/house-model")), heard)
        assert isinstance(await session.result(), Answer)
        await backend.close()

    with FakeModels(Say("Cats are")) as models:
        asyncio.run(main(models))

    assert taken == [False]


def test_a_defect_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a crash, and whoever reports it shows no key."""
    from coterie.agents.backends.models import conversation

    def broken(wanted: Any) -> None:
        raise RuntimeError("schema of key-of-the-test")

    monkeypatch.setattr(conversation, "schema_of", broken)
    with FakeModels(Say("hi")) as models:
        failure = failed(models, plan())

    assert (failure.kind, failure.reason) == ("crashed", "RuntimeError: schema of ***")


def test_prices_of_the_file_come_first(api: str) -> None:
    """US dollars for a million tokens, read and written."""
    with FakeModels(Say("hi", tokens=(1000, 500))) as models:
        usage = answered(models, plan(api, {"price_in": 2.0, "price_out": 10.0})).usage

    assert (usage.cost, usage.unpriced) == (pytest.approx(0.007), 0)


def test_a_price_that_nobody_knows_is_told() -> None:
    """It counts as 0, and each request is counted; a free model has a price, 0."""
    replies = [Say(calls=[("size", {"length": 7})]), Say("hi")]
    with FakeModels(*replies) as models:
        options: dict[str, Any] = {"python_tools": {"size": f"{HERE}measure"}}
        result, heard = put(models, plan("openai", options, model="openai/house-model"))
        free = answered(models, plan("openai", {"price_in": 0.0}, model="openai/house-model"))

    assert (result.usage.cost, result.usage.unpriced) == (0.0, 2)
    assert "the price of house-model is not known" in heard.said("log")
    assert (free.usage.cost, free.usage.unpriced) == (0.0, 0)


def test_a_cut_answer_is_no_answer(api: str) -> None:
    """Half a sentence is not handed on as if it were whole, but it is kept."""
    with FakeModels(Say("Half a", stop={"anthropic": "max_tokens", "openai": "length"}[api])) as models:
        failure = failed(models, plan(api))

    assert failure.kind == "failed"
    assert "max-tokens" in failure.reason
    assert failure.text == "Half a"


def test_keys_are_hidden_wherever_they_turn_up(api: str) -> None:
    """In what the model says, also when two pieces share one, and in what its provider complains of."""
    with FakeModels(Say("the key is key-of-the-test, I was told", tokens=(1, 1))) as models:
        result, heard = put(models, plan(api))

    assert isinstance(result, Answer)
    assert result.text == heard.said() == "the key is ***, I was told"


def test_a_key_in_an_error_is_hidden(api: str) -> None:
    """Providers quote it."""
    with FakeModels(Say("hi"), key="another-key") as models:
        environment = models.environment | {"ANTHROPIC_API_KEY": "wrong-key-1", "OPENAI_API_KEY": "wrong-key-1"}
        failure, _ = ask(ModelBackend(environment=environment), plan(api))

    assert isinstance(failure, Failure)
    assert failure.kind == "auth"
    assert "*** is not known" in failure.reason
    assert "wrong-key-1" not in failure.reason


def test_without_a_key_nothing_is_asked() -> None:
    """The failure says which variable to set."""
    result, _ = ask(ModelBackend(environment={}), plan())

    assert isinstance(result, Failure)
    assert result.kind == "auth"
    assert "ANTHROPIC_API_KEY is not set" in result.reason


def test_no_key_goes_to_an_address_that_wants_none() -> None:
    """A file that gives an address and no key gets none of the user's."""
    with FakeModels(Say("hi"), key="no-key-wanted") as models:
        options = {"base_url": f"{models.url}/v1"}
        backend = ModelBackend(environment={"OPENAI_API_KEY": "mine-alone"})
        result, _ = ask(backend, plan("openai", options, model="house"))

    assert getattr(result, "text", "") == "hi"
    assert "mine-alone" not in str(models.headers)


def test_a_refused_question_says_so(api: str) -> None:
    """A model that will not is no model that cannot."""
    stop = {"anthropic": "refusal", "openai": "content_filter"}[api]
    with FakeModels(Say("I will not.", stop=stop)) as models:
        assert failed(models, plan(api)).kind == "refused"
    with FakeModels(Say("", stop=stop)) as models:
        assert failed(models, plan(api)).kind == "refused"


FAILURES = [
    (Refuse(401), "auth"),
    (Refuse(403), "auth"),
    (Refuse(402), "quota"),
    (Refuse(404, "not_found_error"), "not_found"),
    (Refuse(400, "invalid_request_error"), "failed"),
    (Refuse(405), "failed"),
    (Refuse(408), "transient"),
    (Refuse(409), "transient"),
    (Refuse(425), "transient"),
    (Refuse(429, "rate_limit_error"), "rate_limited"),
    (Refuse(500), "transient"),
    (Refuse(503), "transient"),
    (Refuse(529, "overloaded_error"), "transient"),
]


@pytest.mark.parametrize(("refuse", "kind"), FAILURES, ids=lambda value: str(getattr(value, "status", value)))
def test_what_a_provider_answers_has_a_kind(api: str, refuse: Refuse, kind: str) -> None:
    """By which the run decides whether to try again; the provider's words are in the reason, and it is asked once."""
    with FakeModels(refuse) as models:
        failure = failed(models, plan(api))

    assert failure.kind == kind
    assert f"{refuse.status} no" in failure.reason
    assert "broke off" not in failure.reason
    assert len(models.requests) == 1


def test_an_error_amid_an_answer_is_transient(api: str) -> None:
    """The provider had begun to answer, so the request was fine."""
    named = {"anthropic": "event: error\n", "openai": ""}[api]
    error = {"type": "error", "error": {"type": "odd_error", "message": "no"}}
    with FakeModels(Send(f"{named}data: {json.dumps(error)}\n\n".encode())) as models:
        failure = failed(models, plan(api))

    assert (failure.kind, failure.reason) == ("transient", f"{api} broke off its answer: no")


def test_a_used_up_quota_is_no_rate_limit() -> None:
    """OpenAI tells both with 429."""
    with FakeModels(Refuse(429, "insufficient_quota")) as models:
        assert failed(models, plan("openai")).kind == "quota"


SPENT = [
    Refuse(429, "rate_limit_error", "You exceeded your current quota, please check your plan and billing"),
    Refuse(429, "odd_error", "quota"),
    Refuse(400, "invalid_request_error", "Your credit balance is too low. Please go to Plans & Billing"),
    Refuse(403, "permission_error", "There is a billing issue with your account"),
]


@pytest.mark.parametrize("refuse", SPENT, ids=lambda refuse: refuse.message[:20])
def test_a_quota_is_known_by_its_words(api: str, refuse: Refuse) -> None:
    """Whatever the status; a time in the words is taken, too."""
    with FakeModels(refuse, Refuse(429, "odd_error", "slow down, retry after 5 s")) as models:
        spent, limited = (failed(models, plan(api)) for _ in range(2))

    assert (spent.kind, spent.wait) == ("quota", 0.0)
    assert (limited.kind, limited.wait) == ("rate_limited", 5.0)


@pytest.mark.parametrize(
    ("headers", "wait", "told"),
    [
        ({"retry-after": "17"}, 17.0, "wait 17 s"),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5, "wait 1.5 s"),
        ({"retry-after": "1.5"}, 1.5, "wait 1.5 s"),
        ({"retry-after": "inf"}, 0.0, ""),
        ({"retry-after": "soon"}, 0.0, ""),
    ],
)
def test_how_long_to_wait_is_handed_on(api: str, headers: dict[str, str], wait: float, told: str) -> None:
    """The run waits so long before it asks again; milliseconds are the more exact of the two."""
    with FakeModels(Refuse(429, "rate_limit_error", headers=headers)) as models:
        failure = failed(models, plan(api))

    assert failure.wait == wait
    assert told in failure.reason


def test_a_connection_that_breaks_off_is_transient(api: str) -> None:
    """In the midst of an answer too."""
    with FakeModels(Say("a long answer", drop=3)) as models:
        assert failed(models, plan(api)).kind == "transient"


def test_a_server_that_is_not_there_is_named(api: str) -> None:
    """By its address: the provider's name does not say which of the user's servers has to be started."""
    with FakeModels() as models:
        pass
    failure = failed(models, plan(api))

    assert failure.kind == "transient"
    assert f" cannot be reached at {urlsplit(models.url).netloc}, " in failure.reason


def test_an_answer_that_just_ends_is_not_taken_for_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection may close in good order before the provider has said why it stops: half an answer is none."""

    def half(say: Say, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
        yield from itertools.islice(openai(say, body), 2)
        yield "", None

    monkeypatch.setattr(fake_models, "openai", half)
    with FakeModels(Say("a long answer")) as models:
        failure = failed(models, plan("openai"))

    assert failure.kind == "transient"
    assert "without marking it as complete" in failure.reason


def test_nobody_there_is_transient(api: str) -> None:
    """A server that is down may come back."""
    with FakeModels(Say("hi")) as models:
        environment = models.environment
    result, _ = ask(ModelBackend(environment=environment), plan(api))

    assert getattr(result, "kind", "") == "transient"


def test_a_time_out_ends_the_request(api: str) -> None:
    """The provider sees the connection go."""
    with FakeModels(Say("slow", hold=lambda: threading.Event().wait(0.01))) as models:
        backend = ModelBackend(environment=models.environment)
        failure, _ = asyncio.run(timed_out(backend, plan(api, timeout=600.0), lambda heard: heard.said() != ""))
        assert models.dropped.wait(60)

    assert getattr(failure, "kind", "") == "timeout"
    assert getattr(failure, "reason", "") == "it took longer than its time-out of 600 s"


def test_nobody_waiting_ends_the_request(api: str) -> None:
    """A cancelled wait costs no more tokens, and nothing is heard afterwards."""
    heard = Heard()

    async def main(models: FakeModels) -> None:
        backend = ModelBackend(environment=models.environment)
        session = await backend.start(request(plan(api)), heard)
        await heard.until(lambda heard: len(heard) > 0)
        waiting = asyncio.create_task(session.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert models.dropped.wait(60)
        assert getattr(await session.result(), "kind", "") == "interrupted"
        await backend.close()

    with FakeModels(Say("slow", hold=lambda: threading.Event().wait(0.01))) as models:
        asyncio.run(main(models))


def test_a_tool_that_hangs_holds_nothing_up() -> None:
    """The attempt is over at once; the thread is left to itself."""
    heard, release = Heard(), threading.Event()
    globals()["hang"] = lambda: release.wait(60)

    async def main(models: FakeModels) -> Any:
        backend = ModelBackend(environment=models.environment)
        agent = plan(options={"python_tools": {"hang": f"{HERE}hang"}})
        session = await backend.start(request(agent), heard)
        await heard.until(lambda heard: any(isinstance(event, Tool) for event in heard))
        await session.interrupt()
        await backend.close()
        return await session.result()

    with FakeModels(Say(calls=[("hang", {})])) as models:
        try:
            assert asyncio.run(main(models)).kind == "interrupted"
        finally:
            release.set()


@pytest.mark.parametrize("outputs", [(), (VERDICT,)])
def test_an_empty_answer_is_one_request(api: str, outputs: tuple[Wanted, ...]) -> None:
    """The run repeats an attempt, and counts it; the library behind the backend does not."""
    with FakeModels(Say("")) as models:
        failure = failed(models, plan(api, outputs=outputs))

    assert (failure.kind, failure.reason) == ("invalid_output", "the model gave an empty answer")
    assert len(models.requests) == 1
