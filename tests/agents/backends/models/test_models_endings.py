"""How answers end: one that is not complete is not acted upon, and an empty one leaves the answer before it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from asking import Heard, ask, request
from asking_models import VERDICT, answered, failed, plan, put
from bundles import bundle
from fake_models import FakeModels, Reply, Say, Send, as_event, openai
from faulty_provider import STOPS, Faulty, FaultyProvider
from hostile_server import HostileServer

from coterie.agents.backends.base import Answer, Failure, Used
from coterie.agents.backends.models import backend, needs
from coterie.agents.backends.models.attempt_rules import unfinished
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.cassette import Cassette, Mode

NOTES: list[str] = []
TOOLS: dict[str, Any] = {"python_tools": {"note": f"{__name__}:note"}}
CALL = [("note", {"text": "x"})]
ENDINGS = {
    "length": "failed",
    "window": "failed",
    "filter": "refused",
    "aborted": "transient",
    "error": "transient",
    "unmarked": "transient",
}


def note(text: str) -> str:
    """Write a note."""
    NOTES.append(text)
    return "noted"


@bundle("api,ending", [(api, one) for api in STOPS for one in ENDINGS if one in {*STOPS[api], "error", "unmarked"}])
def test_no_tool_of_an_incomplete_answer_is_called(api: str, ending: str) -> None:
    """It was called for whole, but not by an answer that can be relied upon."""
    NOTES.clear()
    provider = FaultyProvider(api, [Faulty("I note it.", calls=1, ending=ending), Faulty("Done.")])
    with FakeModels(choose=provider) as models:
        failure = failed(models, plan(api, TOOLS))

    assert (failure.kind, failure.text) == (ENDINGS[ending], "I note it.")
    assert (NOTES, len(provider.answers)) == ([], 1)
    assert [failure.usage.input_tokens, failure.usage.output_tokens] == provider.tokens


@bundle(
    "ending,kind",
    [
        *[(ending, None) for ending in ("stop", "end_turn", "tool_calls", "tool_use", "eos", "stop_sequence", "done")],
        *[(ending, "failed") for ending in ("length", "max_tokens", "model_length", "model_context_window_exceeded")],
        *[(ending, "refused") for ending in ("content_filter", "refusal", "guardrail_intervened", "SAFETY")],
        *[(ending, "transient") for ending in ("", None, "error", "abort", "cancelled", "pause_turn")],
    ],
)
def test_the_words_for_an_end_have_a_kind(ending: str | None, kind: str | None) -> None:
    """Those of the two providers, and of servers that are compatible with one of them."""
    assert getattr(unfinished(ending, "the server", "max-tokens"), "kind", None) == kind


@bundle("api,last", [(api, last) for api in STOPS for last in (Say(""), Say(" \n\t"), Say("", thinking="hm"))])
def test_an_empty_closing_turn_leaves_the_answer_before_it(api: str, last: Say) -> None:
    """The model said all it had to say with its last call of a tool."""
    with FakeModels(Say("THE ANSWER", calls=CALL), last) as models:
        assert answered(models, plan(api, TOOLS)).text == "THE ANSWER"
        assert len(models.requests) == 2
    with FakeModels(Say("verdict: approve", calls=CALL), last) as models:
        answer = answered(models, plan(api, TOOLS, outputs=(VERDICT,)))
        assert (answer.text, answer.outputs) == ("verdict: approve", None)


@bundle("api,text", [(api, text) for api in STOPS for text in ("", " ", "\n\t ")])
def test_white_space_is_an_empty_answer(api: str, text: str) -> None:
    """The run asks again, as after any invalid output; the outputs of a tool are an answer without it."""
    with FakeModels(Say(text, calls=CALL), Say(text)) as models:
        assert failed(models, plan(api, TOOLS)).reason == "the model gave an empty answer"
    with FakeModels(Say(text, calls=[("give_outputs", {"verdict": "approve"})])) as models:
        answer = answered(models, plan(api, outputs=(VERDICT,)))
        assert (answer.text, answer.outputs) == ("", {"verdict": "approve"})


def test_a_paused_answer_is_one_answer() -> None:
    """What it said before and after the pauses is one text, and a call before one is made after the last."""
    NOTES.clear()
    replies = [Say("One. ", stop="pause_turn"), Say("Two. ", calls=CALL, stop="pause_turn"), Say("Three."), Say("End.")]
    with FakeModels(*replies) as models:
        result, heard = put(models, plan("anthropic", TOOLS))

    assert isinstance(result, Answer)
    assert (result.text, NOTES, result.usage.input_tokens) == ("End.", ["x"], 400)
    assert heard.said() == "One. Two. Three.\n\nEnd."
    assert [event.usage.input_tokens for event in heard if isinstance(event, Used)] == [100, 200, 300, 400]


def without_usage(say: Say) -> Send:
    """The answer of a server that does not report what it used."""
    events = openai(say, {"model": "m", "messages": []})
    return Send(b"".join(as_event(*event) for event in events if not (event[1] or {}).get("usage")))


def test_an_answer_whose_usage_is_not_reported_is_unpriced() -> None:
    """Its price is not known, whatever a token costs; where tokens are free, it is."""
    prices = {"price_in": 1.0, "price_out": 1.0}
    with FakeModels(without_usage(Say("hi"))) as models:
        result, heard = put(models, plan("openai", prices))
        free = answered(models, plan("openai", {"price_in": 0.0, "price_out": 0.0}))
        known = answered(models, plan("openai"))

    assert (result.usage.unpriced, result.usage.cost) == (1, 0.0)
    assert heard.said("log") == "openai did not report the usage of an answer, which counts as 0\n"
    assert (free.usage.unpriced, known.usage.unpriced) == (0, 1)


@bundle("api", STOPS)
def test_a_request_that_is_cut_off_before_its_answer_is_unpriced(api: str) -> None:
    """The provider may have worked on it."""
    asked, release = threading.Event(), threading.Event()

    def nothing() -> Any:
        asked.set()
        release.wait(60)
        yield b""

    async def main(server: HostileServer) -> Any:
        models = ModelBackend(environment=server.environment)
        session = await models.start(request(plan(api), prompt="a question"), Heard())
        await asyncio.to_thread(asked.wait, 60)
        await session.interrupt()
        release.set()
        await models.close()
        return await session.result()

    with HostileServer(nothing, head=b"") as server:
        result = asyncio.run(main(server))
    assert (result.kind, result.usage.unpriced) == ("interrupted", 1)


PARITY: dict[str, list[Reply]] = {
    "an empty close": [Say("THE ANSWER", calls=CALL), Say(" \n")],
    "white space": [Say(" ")],
    "a call cut off": [Say("a", calls=CALL, stop="max_tokens")],
    "a call refused": [Say("a", calls=CALL, stop="refusal")],
    "pauses": [Say("a", stop="pause_turn"), Say("b", stop="pause_turn"), Say("c", calls=CALL), Say("d")],
    "pauses for ever": [Say("a", stop="pause_turn")],
    "calls for ever": [Say("a", calls=CALL)],
}


@pytest.mark.parametrize("replies", PARITY.values(), ids=PARITY)
def test_a_cassette_without_the_library_ends_as_with_it(
    replies: list[Reply], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same result, the same calls, and the same requests."""
    agent = plan("anthropic", TOOLS | {"max_turns": 4, "price_in": 1.0})
    NOTES.clear()
    with FakeModels(*replies) as models:
        first, _ = ask(ModelBackend(Cassette(tmp_path / "tape", Mode.RECORD), models.environment), agent, prompt="hi")
    called, NOTES[:] = list(NOTES), []
    for module in (backend, needs):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    again, _ = ask(ModelBackend(Cassette(tmp_path / "tape"), {}), agent, prompt="hi")

    for one in (first, again):
        assert isinstance(one, Answer | Failure)
    assert (type(again), again.text, getattr(again, "kind", "")) == (
        type(first),
        first.text,
        getattr(first, "kind", ""),
    )
    assert getattr(again, "reason", "") == getattr(first, "reason", "")
    assert called == NOTES
    assert (again.usage.input_tokens, again.usage.cost) == (first.usage.input_tokens, first.usage.cost)
