"""What every backend promises, whoever thinks behind it."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asking
import pytest
from asking import Heard, agent, asked_alone
from extras import coding_agents
from fake_models import FakeModels, Refuse, Reply, Say

from coterie.agents.backends.base import FAILURES, Answer, Backend, Failure, Request
from coterie.agents.backends.command import CommandBackend
from coterie.agents.backends.human import HumanBackend
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.scripted import ScriptedBackend
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import AgentPlan


async def at_terminal(request: Request) -> str:
    """A human with three moods."""
    match request.agent.name:
        case "answers":
            return "an answer"
        case "fails":
            raise OSError("no terminal")
        case _:
            await asyncio.sleep(600)
            return "too late"


@dataclass(frozen=True)
class Case:
    """A backend, and how to get it to answer, to fail, and to take its time."""

    make: Callable[[], Backend]
    plans: dict[str, AgentPlan]
    streams: bool = True
    """Whether an answer is heard before it is the result."""
    steers: bool = False
    """Whether it takes guidance while it works."""


def program(name: str, text: str) -> AgentPlan:
    return agent(name, argv=(sys.executable, "-c", text))


def model(name: str, **values: Any) -> AgentPlan:
    return agent(name, backend="model", model="claude-sonnet-5-5", **values)


def spoken(body: dict[str, Any]) -> Reply:
    """A model with three moods."""
    match body["messages"][0]["content"][0]["text"]:
        case "answers":
            return Say("an answer")
        case "fails":
            return Refuse(402, message="no credit")
        case _:
            return Say("too late", hold=lambda: time.sleep(0.01))


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeModels]:
    """Whoever answers for models."""
    with FakeModels(choose=spoken) as models:
        yield models


PLAYED = 'case "$1" in answers) printf "an answer";; fails) exit 3;; *) exec sleep 600;; esac'
"""A program that does what its last word says."""
PLAIN = {name: agent(name) for name in ("answers", "fails", "waits")}
CASES = {
    "command": Case(
        lambda: CommandBackend(grace=0.5),
        {
            "answers": program("answers", "print('an answer', end='')"),
            "fails": program("fails", "import sys; sys.exit('no')"),
            "waits": program("waits", "import time; time.sleep(600)"),
        },
    ),
    "command told by a word": Case(
        lambda: CommandBackend(grace=0.5),
        {
            name: agent(name, argv=("sh", "-c", PLAYED, "sh"), prompt_via="arg")
            for name in ("answers", "fails", "waits")
        },
    ),
    "action": Case(
        lambda: CommandBackend(grace=0.5),
        {
            "answers": agent("answers", kind="action", steps=(("printf", "an "), ("printf", "answer"))),
            "fails": agent("fails", kind="action", steps=(("true",), ("false",), ("sleep", "600"))),
            "waits": agent("waits", kind="action", steps=(("true",), ("sleep", "600"))),
        },
    ),
    "human": Case(lambda: HumanBackend(at_terminal), PLAIN, streams=False),
    "scripted": Case(
        lambda: ScriptedBackend(
            {
                "answers": [{"text": "an answer", "seconds": 0}],
                "fails": [{"fail": "quota", "seconds": 0}],
                "waits": [{"seconds": 600}],
            }
        ),
        PLAIN,
    ),
}


STEERED = {"claude-sdk", "pi"}
"""Coding agents that always take guidance; with ACP it depends on the agent."""


def coding(name: str) -> Case:
    """The backend *name* of a coding agent, with a fake agent that speaks its protocol and plays the moods."""
    backend = CODING[name]
    fake = Path(__file__).parents[1] / "support" / "fake_agents" / f"{name.removesuffix('-sdk')}_agent.py"
    moods = {mood: agent(mood, backend=name, argv=(sys.executable, str(fake))) for mood in PLAIN}
    return Case(backend.make, moods, steers=name in STEERED)


@pytest.fixture(params=[*CASES, *coding_agents(), "model"])
def case(request: pytest.FixtureRequest) -> Case:
    """Each backend in turn."""
    if request.param in CODING:
        return coding(request.param)
    if request.param == "model":
        provider: FakeModels = request.getfixturevalue("provider")
        moods = {name: model(name) for name in PLAIN}
        return Case(lambda: ModelBackend(environment=provider.environment), moods, steers=True)
    return CASES[request.param]


def request(plan: AgentPlan, **values: Any) -> Request:
    """The first attempt of the first turn of *plan*, who is told its name."""
    return asking.request(plan, **{"prompt": plan.name, **values})


def test_an_attempt_has_events_and_then_one_result(case: Case) -> None:
    """The result is the same however often it is asked for, and nothing is heard after it."""

    async def main() -> Heard:
        backend, heard = case.make(), Heard()
        session = await backend.start(request(case.plans["answers"]), heard)
        first = await session.result()
        count = len(heard)
        assert isinstance(first, Answer)
        assert first.text == "an answer"
        assert await session.result() == first
        await session.interrupt()
        await backend.close()
        assert await session.result() == first
        assert len(heard) == count
        return heard

    heard = asyncio.run(main())
    assert heard.said() == ("an answer" if case.streams else "")


def test_a_failure_is_a_result(case: Case) -> None:
    """Of a known kind, with a reason, and no exception."""
    result, _ = asyncio.run(asked_alone(case.make(), request(case.plans["fails"])))

    assert isinstance(result, Failure)
    assert result.kind in FAILURES - {"interrupted"}
    assert result.reason


def test_an_interruption_ends_it(case: Case) -> None:
    """Whoever waits gets a failure of kind `interrupted`; interrupting twice is once."""

    async def main() -> None:
        backend = case.make()
        session = await backend.start(request(case.plans["waits"]), Heard())
        waiting = asyncio.create_task(session.result())
        await asyncio.sleep(0)
        await session.interrupt()
        await session.interrupt()
        result = await asyncio.wait_for(waiting, 60)
        assert isinstance(result, Failure)
        assert (result.kind, bool(result.reason)) == ("interrupted", True)
        assert await session.result() == result
        await backend.close()

    asyncio.run(main())


def test_an_interruption_at_once_ends_it_too(case: Case) -> None:
    """Even before anybody waits, or anything has begun."""

    async def main() -> None:
        backend = case.make()
        session = await backend.start(request(case.plans["waits"]), Heard())
        await session.interrupt()
        assert getattr(await asyncio.wait_for(session.result(), 60), "kind", "") == "interrupted"
        await backend.close()

    asyncio.run(main())


def test_cancelling_the_wait_ends_it(case: Case) -> None:
    """The wait is cancelled, the attempt is over, and its result says so."""

    async def main() -> None:
        backend = case.make()
        session = await backend.start(request(case.plans["waits"]), Heard())
        waiting = asyncio.create_task(session.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert getattr(await asyncio.wait_for(session.result(), 60), "kind", "") == "interrupted"
        await backend.close()

    asyncio.run(main())


def test_it_says_whether_it_can_be_steered(case: Case) -> None:
    """Most backends take no guidance while they work, and each says so; none does when it is over."""

    async def main() -> None:
        backend = case.make()
        session = await backend.start(request(case.plans["waits"]), Heard())
        assert await session.steer("hurry up") is case.steers
        await session.interrupt()
        assert await session.steer("too late") is False
        await backend.close()

    asyncio.run(main())


def test_closing_ends_what_still_runs(case: Case) -> None:
    """Every attempt, and closing again does nothing."""

    async def main() -> None:
        backend = case.make()
        plan = case.plans["waits"]
        sessions = [await backend.start(request(plan, turn=f"{plan.name}#{n}"), Heard()) for n in range(1, 4)]
        await backend.close()
        await backend.close()
        results = [await asyncio.wait_for(session.result(), 60) for session in sessions]
        assert [getattr(result, "kind", "") for result in results] == ["interrupted"] * 3

    asyncio.run(main())


def test_a_backend_that_did_nothing_closes(case: Case) -> None:
    """Closing needs no attempt before."""
    asyncio.run(case.make().close())
