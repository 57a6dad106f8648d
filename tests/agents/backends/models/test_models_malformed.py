"""Servers that say what nobody expects: the attempt fails in words, and a defect of ours still counts as one."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asking_models import answered, failed, plan
from fake_models import FakeModels, Refuse, Say, Send

from coterie.agents.backends.models.malformed import Malformed, guard_events, guard_request, note_response


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    """Each dialect in turn."""
    return str(request.param)


def events(*values: Any) -> Send:
    """A stream of OpenAI's dialect whose events hold *values*."""
    return Send(b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values))


def chunk(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    """A piece of OpenAI's dialect."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chat_1", "created": 1, "model": "m", "choices": [choice], **more}


WRONG = {
    "a list": events([1, 2]),
    "a number": events(7),
    "null": events(None),
    "choices that are text": events(chunk({}) | {"choices": "none"}),
    "a delta that is a number": events(chunk(5)),
    "a call without a name": events(chunk({"tool_calls": [{"index": 0, "function": 3}]})),
    "a time that is none": events(chunk({"content": "hi"}, created="soon")),
    "an end that is a list": events(chunk({"content": "hi"}, ["stop"])),
    "usage that is text": events(chunk({"content": "hi"}, "stop", usage="many")),
    "a list in the midst": events(chunk({"content": "hi"}), [3]),
    "no JSON": Send(b"data: {no\n\n"),
    "no text": Send(b"data: \xff\xfe\n\n"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_json_of_the_wrong_shape_is_transient(wrong: Send) -> None:
    """A proxy that hiccups may be well the next time; nobody shall take it for a defect of coterie."""
    with FakeModels(wrong) as models:
        failure = failed(models, plan("openai"))

    assert failure.kind == "transient"
    assert failure.reason.startswith("openai sent an answer that its protocol does not allow: ")
    assert len(models.requests) == 1


@pytest.mark.parametrize(
    "data",
    [
        '{"type": "message_start", "message": [1]}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}',
        "{no",
    ],
)
def test_so_it_is_in_the_other_dialect(data: str) -> None:
    """Whatever the client trips over, an assertion of its own included."""
    with FakeModels(Send(f"event: message_start\ndata: {data}\n\n".encode())) as models:
        failure = failed(models, plan("anthropic"))

    assert failure.kind == "transient"
    assert failure.reason.startswith("anthropic sent an answer that its protocol does not allow")


def test_what_the_next_attempt_finds_well_is_an_answer() -> None:
    """Nothing of the first is left behind."""
    with FakeModels(WRONG["a list"], Say("hi")) as models:
        assert failed(models, plan("openai")).kind == "transient"
        assert answered(models, plan("openai")).text == "hi"


def test_a_redirect_is_not_followed(api: str) -> None:
    """The key would go to wherever it leads; the failure says where that is, and what to do."""
    with FakeModels(Send(b"", {"location": "http://127.0.0.1:9/elsewhere"}), Say("hi")) as models:
        failure = failed(models, plan(api))

    assert failure.kind == "failed"
    assert "redirects to 'http://127.0.0.1:9/elsewhere'" in failure.reason
    assert "base-url" in failure.reason
    assert len(models.requests) == 1


def test_a_huge_answer_is_whole(api: str) -> None:
    """As many megabytes as it may be."""
    with FakeModels(Say("fox " * 500_000)) as models:
        assert answered(models, plan(api)).text == "fox " * 500_000


@pytest.mark.parametrize("said", ["", "soon", "-5", "nan", "inf", "1e400", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_wish_to_wait_that_says_nothing_is_none(api: str, said: str) -> None:
    """It stays a rate limit, and the run waits as long as it would by itself."""
    with FakeModels(Refuse(429, "rate_limit_error", headers={"retry-after": said})) as models:
        failure = failed(models, plan(api))

    assert (failure.kind, failure.wait) == ("rate_limited", 0.0)


def test_what_goes_wrong_before_a_server_answers_is_a_defect() -> None:
    """The same errors, but nobody has sent anything."""
    with pytest.raises(TypeError, match="ours"), guard_request():
        raise TypeError("ours")


def test_what_goes_wrong_with_an_answer_is_the_servers() -> None:
    """From the moment that it begins; the error stays the cause."""

    async def read() -> None:
        with guard_request():
            await note_response("200")
            raise KeyError("id")

    with pytest.raises(Malformed, match="KeyError: 'id'") as caught:
        asyncio.run(read())
    assert isinstance(caught.value.__cause__, KeyError)


def test_who_takes_events_answers_for_itself() -> None:
    """Only what reading raises is the server's."""

    async def sent() -> AsyncIterator[int]:
        yield 1
        raise AttributeError("'list' object has no attribute 'created'")

    async def take(fails: bool) -> None:
        async for _ in guard_events(sent()):
            if fails:
                raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        asyncio.run(take(fails=True))
    with pytest.raises(Malformed, match="no attribute 'created'"):
        asyncio.run(take(fails=False))
