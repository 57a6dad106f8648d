"""Attempts as tasks: what counts towards a time-out, whatever the libraries take."""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from asking import Heard, asked, request
from asking_models import plan
from fake_models import FakeModels, Say

from coterie.agents.backends.base import Answer, Failure, Result
from coterie.agents.backends.models import backend
from coterie.agents.backends.models.backend import ModelBackend
from coterie.base.clock import VirtualClock
from coterie.history.journal.records import NO_USAGE


class Talk:
    """A conversation that takes *seconds* until it answers."""

    used = NO_USAGE
    said = ""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def hold(self) -> Result:
        await asyncio.sleep(self._seconds)
        return Answer(text="hi")

    def hide(self, text: str) -> str:
        return text


async def loading(monkeypatch: pytest.MonkeyPatch, takes: float, talks: float) -> Result:
    """The result of an attempt with a time-out of 5 s, when loading takes *takes* and the answer *talks* seconds."""

    async def load(*modules: str) -> Any:
        await asyncio.sleep(takes)
        return SimpleNamespace(Conversation=lambda *_, **__: Talk(talks))

    monkeypatch.setattr(backend, "load_once", load)
    monkeypatch.setattr(ModelBackend, "_client", lambda self: None)
    models = ModelBackend(environment={"ANTHROPIC_API_KEY": "key"})
    result, _ = await asked(models, request(plan(timeout=5.0)))
    return result


def test_loading_the_libraries_is_not_the_agents_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it takes seconds, which no time-out of a team allows for."""
    result = VirtualClock().run(loading(monkeypatch, takes=20.0, talks=4.9))

    assert getattr(result, "text", "") == "hi"
    assert result.usage.seconds == pytest.approx(24.9)


def test_the_time_out_begins_when_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then it is as long as it says."""
    result = VirtualClock().run(loading(monkeypatch, takes=20.0, talks=60.0))

    assert isinstance(result, Failure)
    assert (result.kind, result.usage.seconds) == ("timeout", pytest.approx(25.0))


def test_a_backend_keeps_no_attempt_that_has_ended() -> None:
    """It lives as long as its process, and each attempt holds its whole conversation."""

    async def main(models: FakeModels) -> object:
        it = ModelBackend(environment=models.environment)
        session = await it.start(request(plan("openai"), prompt="a question"), Heard())
        await session.result()
        ended = weakref.ref(session)
        del session
        await asyncio.sleep(0)
        gc.collect()
        left = ended()
        await it.close()
        return left

    with FakeModels(Say("fine")) as models:
        assert asyncio.run(main(models)) is None
