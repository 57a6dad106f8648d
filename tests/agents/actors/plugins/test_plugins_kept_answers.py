"""An agent in Python whose turn was cut off does not pay again for what models have answered, nor for its tools."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Refuse, Reply, Say, text_of

import coterie
from coterie.agents.backends.models.steps import STEPS
from coterie.history.journal import records as r

AGENTS = """
import asyncio
from coterie import AgentProcess
from coterie.agents.backends import once

PAID = []
GO = asyncio.Event()

def pay(euros: int) -> str:
    '''Pay.'''
    PAID.append(euros)
    return f"paid {euros}"

async def wait(euros: int) -> str:
    '''Pay when there is word.'''
    PAID.append(euros)
    await GO.wait()
    return f"paid {euros}"

@once
async def wait_once(euros: int) -> str:
    '''Pay when there is word, at most once.'''
    return await wait(euros)

class Clerk(AgentProcess):
    async def handle(self, message):
        tools = [pay, wait, wait_once]
        done = await self.llm.answer(message.payload["prompt"], model="claude-sonnet-4-6", tools=tools)
        return self.reply({"text": done.content, "total": 5 if "Done" in done.content else "many"})
"""
TEAM = """topology t : [pipeline] {
  agent clerk { outputs { total: number }  extensions { coterie { type: clerks.Clerk  retry: 1 } } }
  flow { clerk }
}
"""


class Stage:
    """A run of the clerk in *folder*."""

    def __init__(self, folder: Path, models: FakeModels) -> None:
        self.folder, self.models = folder, models
        self.seen: list[r.Record] = []

    @property
    def clerks(self) -> Any:
        return sys.modules["clerks"]

    async def begin(self) -> coterie.Outcome[Any]:
        state = self.folder / "state"
        team = coterie.load(self.folder / "t.at")
        return await coterie.run(team, "Pay.", state_dir=state, observe=lambda run, record: self.seen.append(record))

    async def cut(self, when: Callable[[], bool]) -> coterie.Outcome[Any]:
        """Interrupt the run when *when()* is true, and resume it."""
        running = asyncio.create_task(self.begin())
        while "clerks" not in sys.modules or not when():  # noqa: ASYNC110 - a state of the agent
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        self.clerks.GO = asyncio.Event()
        self.clerks.GO.set()
        return await coterie.resume("last", state_dir=self.folder / "state")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[FakeModels], Stage]]:
    (tmp_path / "clerks.py").write_text(AGENTS)

    (tmp_path / "t.at").write_text(TEAM)

    def make(models: FakeModels) -> Stage:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        return Stage(tmp_path, models)

    yield make
    sys.modules.pop("clerks", None)
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def calls(*names: str) -> list[Reply]:
    return [*(Say(calls=[(name, {"euros": n})]) for n, name in enumerate(names, 1)), Say("Done.")]


@pytest.mark.slow
def test_a_cut_turn_asks_for_nothing_that_was_answered(stage: Callable[[FakeModels], Stage]) -> None:
    """The finished tool is not called again; the one that was under way is."""
    with FakeModels(*calls("pay", "wait")) as models:
        clerk = stage(models)
        ended = asyncio.run(clerk.cut(lambda: clerk.clerks.PAID == [1, 2]))
    assert (ended.status, len(models.requests), clerk.clerks.PAID) == ("completed", 3, [1, 2, 2])
    assert "paid 2" in text_of(models.requests[2])
    assert ended.usage.input_tokens == 300
    assert [(one.n, one.calls) for one in clerk.seen if isinstance(one, r.AttemptStep)] == [
        (1, ("pay",)),
        (2, ("wait",)),
    ]
    assert not list(clerk.folder.rglob(STEPS)), "it is removed with the end of the turn"


def test_a_tool_marked_once_is_not_called_again(stage: Callable[[FakeModels], Stage]) -> None:
    """The model reads that its effect is unknown."""
    with FakeModels(*calls("wait_once")) as models:
        clerk = stage(models)
        ended = asyncio.run(clerk.cut(lambda: clerk.clerks.PAID == [1]))
    assert (ended.status, len(models.requests), clerk.clerks.PAID) == ("completed", 2, [1])
    assert "not known whether this call of wait_once took effect" in text_of(models.requests[1])


def test_a_failure_of_the_provider_loses_nothing(stage: Callable[[FakeModels], Stage]) -> None:
    """A retry of the run goes on behind what was answered."""
    pays, done = calls("pay")
    with FakeModels(pays, Refuse(401, "authentication_error"), done) as models:
        clerk = stage(models)
        assert asyncio.run(clerk.begin()).status == "failed"
        ended = asyncio.run(coterie.resume("last", retry=True, state_dir=clerk.folder / "state"))
    assert (ended.status, len(models.requests), clerk.clerks.PAID) == ("completed", 3, [1])


def test_an_answer_that_does_not_count_is_asked_for_again(stage: Callable[[FakeModels], Stage]) -> None:
    """The same answers would lead to it again, so the next attempt begins anew."""
    with FakeModels(Say("No."), Say("Done.")) as models:
        clerk = stage(models)
        ended = asyncio.run(clerk.begin())
    assert (ended.status, ended.result["outputs"]["clerk"], len(models.requests)) == ("completed", {"total": 5}, 2)
