import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from asking import ask
from asking_models import MODELS, VERDICT, plan
from fake_models import FakeModels, Refuse, Say
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.backends.base import Answer, Failure, Result, Text
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.cassette import (
    Cassette,
    CassetteMiss,
    Exchange,
    Mode,
    RecordedRequest,
    RecordedResponse,
)
from coterie.agents.backends.models.redaction import redacted_events
from coterie.agents.backends.secrets import Secrets
from coterie.errors import UsageError
from coterie.team.planning.plan import AgentPlan, Wanted
from coterie.testing import cassette


def record(file: Path, models: FakeModels, agent: AgentPlan, *prompts: str, mode: Mode = Mode.RECORD) -> list[Result]:
    """What *agent* answers, with *file* in between."""
    tape = Cassette(file, mode)
    return [ask(ModelBackend(tape, models.environment), agent, prompt=prompt)[0] for prompt in prompts]


def replay(file: Path, agent: AgentPlan, *prompts: str) -> list[Result]:
    """The same from *file* alone: no key, no server."""
    tape = Cassette(file)
    return [ask(ModelBackend(tape, {}), agent, prompt=prompt)[0] for prompt in prompts]


def said(results: list[Result]) -> list[Any]:
    """What was answered, with the outputs, or the kind of failure."""
    return [
        (one.text, one.outputs, one.usage.input_tokens, one.usage.cost) if isinstance(one, Answer) else one.kind
        for one in results
    ]


@pytest.mark.parametrize("api", MODELS)
def test_what_was_recorded_is_answered_again(api: str, tmp_path: Path) -> None:
    """Text, outputs, usage and cost are the same, failures too, without a key and without a server."""
    file, agent = tmp_path / "tapes" / "one.jsonl", plan(api, outputs=(VERDICT,))
    replies = [Say("Good.", calls=[("give_outputs", {"verdict": "approve"})]), Refuse(429, "rate_limit_error")]
    with FakeModels(*replies) as models:
        first = record(file, models, agent, "one", "two")

    again = replay(file, agent, "one", "two")
    assert said(again) == said(first)
    assert said(first)[1] == "rate_limited"
    assert len(file.read_text().splitlines()) == 2


def test_a_recorded_answer_streams(tmp_path: Path) -> None:
    """It comes in the pieces in which it came then."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("a longer answer")) as models:
        record(file, models, plan(), "x")
    _, heard = ask(ModelBackend(Cassette(file), {}), plan(), prompt="x")

    assert len([event for event in heard if isinstance(event, Text)]) == 3


def test_equal_questions_get_their_answers_in_order(tmp_path: Path) -> None:
    """The last repeats."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("first"), Say("second")) as models:
        record(file, models, plan(), "x", "x")

    assert [one[0] for one in said(replay(file, plan(), "x", "x", "x"))] == ["first", "second", "second"]


@pytest.mark.parametrize("api", MODELS)
def test_nothing_secret_is_on_a_cassette(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No header of a request, no cookie of an answer, no value of a secret variable, asked or answered in pieces."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-test")
    monkeypatch.setenv("DEPLOY_TOKEN", "token-of-the-user")
    file, agent = tmp_path / "tape.jsonl", plan(api, outputs=(Wanted(name="why", type="text"),))
    answer = Say("it is token-of-the-user", calls=[("give_outputs", {"why": "token-of-the-user says so"})])
    with FakeModels(answer, Refuse(401, message="not token-of-the-user")) as models:
        record(file, models, agent, "is it token-of-the-user?", "and now?")

    text = file.read_text()
    assert "is it ***?" in text
    assert "not ***" in text
    for secret in ("key-of-the-test", "token-of-the-user", "session=", "authorization", "x-api-key"):
        assert secret not in text.lower()
    (again, _) = replay(file, agent, "is it ***?", "and now?")
    assert isinstance(again, Answer)
    assert (again.text, again.outputs) == ("it is ***", {"why": "*** says so"})


PIECES = st.lists(st.text("seckrt-", max_size=4), max_size=8)


@given(PIECES, PIECES)
def test_a_secret_in_pieces_is_hidden_and_the_rest_stays(one: list[str], other: list[str]) -> None:
    """Whatever is said side by side, each is read on by itself."""
    secrets = Secrets({"A_SECRET": "secret"})
    pieces = [(0, text) for text in one] + [(1, text) for text in other]
    events = [f"event: x\ndata: {json.dumps({'index': n, 'delta': {'text': text}})}\n\n" for n, text in pieces]

    shown = [json.loads(event.split("data: ")[1]) for event in redacted_events(events, secrets)]
    for index, said in ((0, one), (1, other)):
        told = "".join(data["delta"]["text"] for data in shown if data["index"] == index)
        assert told == secrets.hide("".join(said))


def test_events_without_a_secret_stay_to_the_letter() -> None:
    """However they are written, also when they are no JSON."""
    events = ["data: [DONE]\n\n", ": a comment\n\n", 'event: x\ndata:  {"text" :"a"}\n\n', 'data: ["text"]\n\n']

    assert redacted_events(events, Secrets({"A_SECRET": "secret"})) == events


def test_a_question_that_is_not_there_says_what_differs(tmp_path: Path) -> None:
    """From the recording that is most like it; the turn fails for good, since asking again would not help."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("hi")) as models:
        record(file, models, plan(options={"temperature": 0.5}, model="claude-sonnet-4-6"), "the same question")
        record(file, models, plan("openai"), "another", mode=Mode.AUTO)

    (failure,) = replay(file, plan(options={"temperature": 1.0}, model="claude-sonnet-4-6"), "the same question")
    assert isinstance(failure, Failure)
    assert failure.kind == "not_found"
    assert f"POST v1/messages is not on the cassette {file}: temperature is '1.0', recorded as '0.5'" in failure.reason
    assert f"--cassette record:{file}" in failure.reason
    (failure,) = replay(file, plan("openai"), "yet another")
    assert isinstance(failure, Failure)
    assert "messages[0].content is 'yet another', recorded as 'another'" in failure.reason


def test_auto_asks_only_what_it_lacks(tmp_path: Path) -> None:
    """And adds that."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("hi")) as models:
        record(file, models, plan(), "one", mode=Mode.AUTO)
        record(file, models, plan(), "one", "two", mode=Mode.AUTO)
        assert len(models.requests) == 2

    assert len(replay(file, plan(), "one", "two")) == 2


def test_recording_makes_the_file_anew(tmp_path: Path) -> None:
    """Old answers are gone as soon as the first new one is there."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("hi")) as models:
        record(file, models, plan(), "one", "two")
        record(file, models, plan(), "three")

    assert len(file.read_text().splitlines()) == 1


def test_half_an_answer_is_not_recorded(tmp_path: Path) -> None:
    """A connection that broke off would break off for ever."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("a long answer", drop=3)) as models:
        assert said(record(file, models, plan(), "x")) == ["transient"]

    assert not file.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be read"), ("{}\n", "tape.jsonl:1: this is not a line of a cassette"), ("x", "tape.jsonl:1")],
)
def test_a_file_that_is_no_cassette_is_refused(content: str | None, reason: str, tmp_path: Path) -> None:
    """Before anything runs."""
    file = tmp_path / "tape.jsonl"
    if content is not None:
        file.write_text(content)

    with pytest.raises(UsageError, match=reason):
        Cassette(file)


@pytest.mark.parametrize(
    ("text", "mode", "file"),
    [
        ("record:a/b.jsonl", Mode.RECORD, "a/b.jsonl"),
        ("auto:b.jsonl", Mode.AUTO, "b.jsonl"),
        ("record:record:x", Mode.RECORD, "record:x"),
    ],
)
def test_a_name_may_hold_a_mode(text: str, mode: Mode, file: str) -> None:
    """Before the first colon; anything else is a path."""
    named = Cassette.named(text)

    assert (named.mode, named.file) == (mode, Path(file))


def test_a_program_can_be_given_a_cassette(tmp_path: Path) -> None:
    """For as long as it wants, and for the programs that it starts; what was there before is there again."""
    file = tmp_path / "tape.jsonl"
    with FakeModels(Say("hi")) as models:
        record(file, models, plan(), "x")

    with cassette(file) as path:
        assert os.environ["COTERIE_CASSETTE"] == f"replay:{path}"
        with cassette(file, "auto"):
            assert os.environ["COTERIE_CASSETTE"] == f"auto:{path}"
        result, _ = ask(ModelBackend(), plan(), prompt="x")
    assert getattr(result, "text", "") == "hi"
    assert "COTERIE_CASSETTE" not in os.environ
    with pytest.raises(ValueError, match="no-mode"), cassette(file, "no-mode"):
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, min_size=1, max_size=4), JSON)
def test_a_question_is_found_exactly_when_it_was_asked(recorded: list[Any], asked: Any) -> None:
    """Whatever its body is, however its keys are ordered; and when it is not, something is named that differs."""
    tape = Cassette(Path("unused.jsonl"), Mode.AUTO)
    for n, body in enumerate(recorded):
        tape._keep(Exchange(RecordedRequest("POST", "v1/messages", body), _answer(n)))
    tape.mode = Mode.REPLAY
    body = json.dumps(asked, sort_keys=True).encode()

    known = [json.dumps(one, sort_keys=True) for one in recorded]
    if body.decode() in known:
        found = tape.answer("POST", "/some/where/v1/messages", body)
        assert found == _answer(known.index(body.decode()))
    else:
        with pytest.raises(CassetteMiss) as miss:
            tape.answer("POST", "/v1/messages", body)
        assert "the difference is unknown" not in str(miss.value)


def _answer(n: int) -> Any:
    return RecordedResponse(status=200, headers={}, body=(str(n),))


def test_attempts_at_once_do_not_mix_their_answers_up(tmp_path: Path) -> None:
    """Each question has its own."""
    file = tmp_path / "tape.jsonl"
    prompts = [f"question {n}" for n in range(8)]
    with FakeModels(choose=lambda body: Say(body["messages"][0]["content"][0]["text"].upper())) as models:
        record(file, models, plan(), *prompts)

    async def main() -> list[str]:
        from asking import asked, request

        backend = ModelBackend(Cassette(file), {})
        results = await asyncio.gather(*(asked(backend, request(plan(), prompt=prompt)) for prompt in prompts))
        await backend.close()
        return [getattr(result, "text", "") for result, _ in results]

    assert asyncio.run(main()) == [prompt.upper() for prompt in prompts]
