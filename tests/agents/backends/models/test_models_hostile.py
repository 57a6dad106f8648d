"""Servers that send too much, too slowly, or text that is none: the attempt ends, with bounded memory."""

import gzip
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asking import Heard, ask
from asking_models import MODELS, answered, failed, plan, put
from bundles import bundle
from fake_models import FakeModels, Say, Send
from hostile_server import HostileServer

from coterie.agents.backends.base import Answer, Failure, Result
from coterie.agents.backends.models import response_guard
from coterie.agents.backends.models.backend import ModelBackend

BLOCK = b"x" * 65_536
NESTED = "[" * 200_000
NOTE = "not valid Unicode"


def asked(server: HostileServer, api: str, **values: Any) -> tuple[Result, Heard]:
    """The result of one attempt with *server*."""
    return ask(ModelBackend(environment=server.environment), plan(api, **values), prompt="a question")


def status(number: int, headers: str = "") -> bytes:
    """The head of an answer."""
    return f"HTTP/1.1 {number} Whatever\r\ncontent-type: application/json\r\n{headers}\r\n".encode()


def event(api: str, text: str) -> bytes:
    """A piece of a streamed answer."""
    if api == "anthropic":
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        return b"event: content_block_delta\ndata: " + json.dumps(delta).encode() + b"\n\n"
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "1", "created": 1, "model": "m", "choices": [choice]}).encode() + b"\n\n"


@bundle("api", MODELS)
def test_an_endless_error_is_cut_off(api: str) -> None:
    """Only its beginning is read; the attempt fails with the status."""
    with HostileServer(lambda: itertools.repeat(BLOCK), status(500)) as server:
        result, _ = asked(server, api)

    assert isinstance(result, Failure)
    assert result.kind == "transient"
    assert "500" in result.reason
    assert len(result.reason) < 1_000
    assert server.left.wait(5)
    assert server.sent < 16 << 20  # most of it is in the buffers of the sockets


@bundle("api", MODELS)
def test_an_endless_line_is_cut_off(api: str) -> None:
    """The attempt can be tried again, as with any answer that the protocol does not allow."""
    with HostileServer(lambda: itertools.chain([b"data: "], itertools.repeat(BLOCK))) as server:
        result, _ = asked(server, api)

    assert isinstance(result, Failure)
    assert result.kind == "transient"
    assert "a line of more than" in result.reason
    assert server.left.wait(5)
    assert server.sent < response_guard.LINE_MOST + (16 << 20)


@bundle("api", MODELS)
def test_an_endless_answer_is_cut_off(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its lines is short."""
    monkeypatch.setattr(response_guard, "ANSWER_MOST", 1 << 20)
    with HostileServer(lambda: itertools.repeat(b": still thinking" * 4_000 + b"\n\n")) as server:
        result, _ = asked(server, api)

    assert isinstance(result, Failure)
    assert result.kind == "transient"
    assert "more than 1,048,576 bytes" in result.reason
    assert server.left.wait(5)


@bundle("api", MODELS)
def test_brackets_without_end_are_a_malformed_answer(api: str) -> None:
    """Whether they are a chunk, or what a tool is called with."""
    deep = {"anthropic": b"event: message_start\n", "openai": b""}[api] + b"data: " + NESTED.encode() + b"\n\n"
    with FakeModels(Send(deep)) as models:
        failure = failed(models, plan(api))
    assert failure.kind == "transient"
    assert "sent an answer that its protocol does not allow" in failure.reason


@bundle("api", MODELS)
def test_brackets_as_arguments_are_answered_as_a_wrong_call(api: str) -> None:
    """The conversation goes on."""
    options = {"built_in_tools": ["Read"]}
    with FakeModels(
        Say(calls=[("Read", NESTED)]), Say(calls=[("Read", '{"path": ' + "[" * 900 + "]" * 900 + "}")]), Say("done")
    ) as models:
        assert answered(models, plan(api, options)).text == "done"


@bundle("api", MODELS)
def test_brackets_in_an_error_are_an_error(api: str) -> None:
    """Its text cannot be read as JSON."""
    with HostileServer(lambda: [NESTED.encode()], status(500, f"content-length: {len(NESTED)}\r\n")) as server:
        result, _ = asked(server, api)
    assert isinstance(result, Failure)
    assert result.kind == "transient"


SURROGATE = {
    "in text": Say("a\ud800b"),
    "of which the other half comes in the next piece": Say("\ud83d\ude00\ud83d"),
    "in thoughts": Say("ab", thinking="a\udfffb"),
}


@bundle(
    "api,say",
    [(api, say) for api in MODELS for say in SURROGATE.values()],
    ids=[f"{api} {name}" for api in MODELS for name in SURROGATE],
)
def test_half_a_character_is_replaced(api: str, say: Say) -> None:
    """The answer can be recorded, and the log of the attempt says that it was changed."""
    with FakeModels(say) as models:
        result, heard = put(models, plan(api))

    assert isinstance(result, Answer)
    result.text.encode()
    assert "�" in result.text or "�" in heard.said("thinking")
    assert heard.said("log").count(NOTE) == 1


CALLS = {
    "the name of a tool": ("Re\ud800ad", {"path": "a"}),
    "its arguments": ("Read", {"path": "a\ud800"}),
    "arguments that are no object": ("Read", '"\ud800"'),
    "the name of an argument": ("Read", {"pa\ud800th": 3}),
    "an escape in the arguments": ("Read", '{"path": "\\ud800"}'),
}


@bundle(
    "api,call",
    [(api, call) for api in MODELS for call in CALLS.values()],
    ids=[f"{api} {name}" for api in MODELS for name in CALLS],
)
def test_half_a_character_in_a_call_is_a_wrong_call(api: str, call: Any) -> None:
    """The model receives the error, and can go on."""
    with FakeModels(Say(calls=[call]), Say("done")) as models:
        result, heard = put(models, plan(api, {"built_in_tools": ["Read"]}))

    assert isinstance(result, Answer), result
    assert result.text == "done"
    for event in heard:
        json.dumps(str(event), ensure_ascii=False).encode()


def test_a_text_about_surrogates_is_left_alone() -> None:
    """A backslash that is written is no escape, and a pair is a character."""
    text = "write \\ud83d, \\\\ud83d or 😀"
    with FakeModels(Say(text)) as models:
        result, heard = put(models, plan("openai"))
    assert isinstance(result, Answer)
    assert result.text == text
    assert NOTE not in heard.said("log")


@bundle("api", MODELS)
def test_wrong_calls_end_in_words_for_the_user(api: str) -> None:
    """No advice for those who program with the library."""
    with FakeModels(Say(calls=[("Read", {"pat": "a"})])) as models:
        failure = failed(models, plan(api, {"built_in_tools": ["Read"]}))
    assert failure.kind == "invalid_output"
    assert "'Read'" in failure.reason
    assert "6 times" in failure.reason
    assert "retry budget" not in failure.reason
    assert "retries" not in failure.reason


@bundle("api,number", [(api, number) for api in MODELS for number in (200, 429)])
def test_a_compressed_body_is_not_unpacked(api: str, number: int) -> None:
    """A megabyte of zeros is a kilobyte on the way, and the request forbids it."""
    head = status(number, "content-encoding: gzip\r\n")
    with HostileServer(lambda: [gzip.compress(bytes(1 << 20), 9)], head) as server:
        result, _ = asked(server, api)

    assert isinstance(result, Failure)
    assert result.kind == ("transient" if number == 200 else "rate_limited")
    assert "gzip" in result.reason or number == 429


def drops() -> Iterator[bytes]:
    for _ in range(300):
        yield b" "
        time.sleep(0.1)  # the server is slow


@bundle("api,number", [(api, number) for api in MODELS for number in (200, 500)])
def test_a_time_out_counts_in_total(api: str, number: int) -> None:
    """However many bytes come one by one, of an answer or an error."""
    began = time.monotonic()
    with HostileServer(drops, status(number)) as server:
        result, _ = asked(server, api, timeout=0.6)

    assert isinstance(result, Failure)
    assert result.kind == "timeout"
    assert time.monotonic() - began < 15
