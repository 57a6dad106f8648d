"""What every form of `Turns` promises, wherever it runs the attempts."""

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asking import RUN, Heard, agent, request
from until import soon

from coterie.agents.backends.base import (
    Answer,
    AttemptRef,
    Finished,
    Launched,
    Request,
    Running,
    Unknown,
)
from coterie.agents.backends.command import CommandBackend
from coterie.base.clock import VirtualClock
from coterie.execution.cluster.wire import from_json, to_json
from coterie.execution.kernel.turns import Turns
from coterie.execution.runs.local_turns import LocalTurns
from coterie.execution.runs.rehearsal import _Stage
from coterie.history.journal.records import AttemptLaunched
from coterie.team.planning.plan import Wanted
from coterie.testing.simulated import SimulatedTurns

PROGRAM = "import sys; print('first', flush=True); sys.stdin.read(); open('go').read(); print('second')"
"""Says one line at once, and another when it is released."""


class World:
    """A simulated world in which nothing fails, and in which all that is not ended lives on."""

    def __init__(self) -> None:
        self.seed, self.chaos, self.killed, self.dice = 1, 0.0, False, random.Random(1)
        self.begun: set[str] = set()

    def longest(self, run: str) -> dict[str, int]:
        return {}

    def start(self, asking: Request) -> None:
        self.begun.add(asking.ref.marker)

    def lives(self, asking: Request) -> bool:
        return asking.ref.marker in self.begun

    def end(self, run: str, spared: Sequence[AttemptRef] = ()) -> None:
        self.begun &= {one.marker for one in spared}

    def events_of(self, asking: Request, dice: random.Random) -> Sequence[Any]:
        return ()

    def compared(self, run: str) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Case:
    """A form, whether its attempts outlive the process that started them, and whether they take real time."""

    make: Callable[[World], Turns]
    lasting: bool = False
    real: bool = False

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """What *main* returns, at once if its time is not real."""
        return asyncio.run(main) if self.real else VirtualClock().run(main)


CASES = {
    "local": Case(lambda world: LocalTurns({"command": CommandBackend(grace=0.5)}), lasting=True, real=True),
    "rehearsal": Case(lambda world: _Stage(None)),
    "simulated": Case(lambda world: SimulatedTurns(world), lasting=True),  # type: ignore[arg-type]
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """Each form in turn."""
    return CASES[request.param]


def asking(folder: Path, **values: Any) -> Request:
    (folder / "go").touch()
    worker = agent(argv=(sys.executable, "-c", PROGRAM), on_interrupt="adopt")
    return request(worker, folder=folder / "attempt", cwd=folder, **values)


def launched(heard: Heard) -> list[AttemptLaunched]:
    found = [one for one in heard if isinstance(one, Launched)]
    return [AttemptLaunched(turn="a#1", attempt=1, pid=one.pid, group=one.group, started=one.started) for one in found]


def test_an_attempt_gives_one_result(case: Case, tmp_path: Path) -> None:
    """Whoever waits for it."""

    async def play() -> None:
        turns = case.make(World())
        session = await turns.start(asking(tmp_path), Heard())
        assert isinstance(await asyncio.wait_for(session.result(), 60), Answer)
        await turns.close()
        await turns.close()

    case.run(play())


def test_a_request_that_travelled_as_data_starts_the_same_attempt(case: Case, tmp_path: Path) -> None:
    """It encodes to plain data, paths and plan included, and what is decoded is equal and gets the same answer."""
    wanted = (Wanted(name="verdict", type="enum", values=("yes", "no")),)
    values = {"nodes": ("panel",), "root": tmp_path, "token": "t", "env": {"A": "1"}, "history": (("user", "Hello"),)}
    context = {"task": "Größe", "inputs": [{"agent": "b", "outputs": {"n": 1}}], "wanted": []}
    (tmp_path / "again").mkdir()

    async def play(one: Request) -> Any:
        turns = case.make(World())
        session = await turns.start(one, Heard())
        result = await asyncio.wait_for(session.result(), 60)
        await turns.close()
        return result.text if isinstance(result, Answer) else result

    one = asking(tmp_path, prompt="Well?", context=context, wanted=wanted, taken=1.5, **values)
    sent = to_json(one)
    assert isinstance(json.loads(sent), dict)
    assert from_json(sent, Request) == one
    again = msgspec.structs.replace(one, folder=tmp_path / "again")
    assert case.run(play(from_json(to_json(again), Request))) == case.run(play(one))


def test_an_attempt_that_was_never_started_is_unknown(case: Case, tmp_path: Path) -> None:
    """Nothing is said of it."""

    async def play() -> None:
        turns, heard = case.make(World()), Heard()
        assert await turns.find(asking(tmp_path), heard) == Unknown()
        assert heard == []
        await turns.close()

    case.run(play())


def test_an_attempt_that_outlives_its_owner_is_found_with_its_result(case: Case, tmp_path: Path) -> None:
    """At work or finished, by another owner: both owners get the same answer. Where it cannot last, it is unknown."""

    async def play() -> None:
        world = World()
        first, second = case.make(world), case.make(world)
        session = await first.start(asking(tmp_path), Heard())
        answer = await asyncio.wait_for(session.result(), 60)
        heard = Heard()
        found = await asyncio.wait_for(second.find(asking(tmp_path, epoch=1), heard), 60)
        if case.lasting:
            assert isinstance(found, Finished | Running)
            again = found.result if isinstance(found, Finished) else await found.session.result()
            assert isinstance(again, Answer)
            assert isinstance(answer, Answer)
            assert again.text == answer.text
            assert heard.said() in ("", answer.text)
        else:
            assert found == Unknown()
        await second.close()
        await first.close()

    case.run(play())


def test_what_is_ended_is_not_found_any_more_and_what_is_spared_is(case: Case, tmp_path: Path) -> None:
    """`end` ends all of the run but the attempts that it is to spare."""

    async def play() -> None:
        world = World()
        first, second = case.make(world), case.make(world)
        one = asking(tmp_path)
        (tmp_path / "go").unlink()
        os.mkfifo(tmp_path / "go")  # nothing is ever written to it
        heard = Heard()
        await first.start(one, heard)
        if isinstance(first, LocalTurns):
            await heard.until(lambda all_said: bool(launched(all_said)))
            await soon((tmp_path / "attempt" / "kept.out").exists)
        await second.end(RUN, [], [one.ref])
        assert isinstance(await asyncio.wait_for(second.find(one, Heard()), 60), Unknown) is not case.lasting
        await asyncio.wait_for(
            second.end(RUN, launched(heard)), 60
        )  # what a program says when it is ended may be found
        assert not isinstance(await second.find(one, Heard()), Running)
        await second.close()
        await first.close()

    case.run(play())
