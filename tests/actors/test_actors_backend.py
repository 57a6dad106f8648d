"""Agents in Python as nodes of teams: a turn is an ask, a crash an attempt that failed."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import coterie
from coterie.actors.turns import ActorBackend
from coterie.backends.base import Answer, Emitted, Event, Failure, Request
from coterie.errors import TopologyError
from coterie.planning.plan import AgentPlan

AGENTS = '''
import asyncio

from coterie.actors.process import AgentProcess
from coterie.errors import TurnFailure


class Teller(AgentProcess):
    """Does what the task says."""

    started = 0
    working = asyncio.Event()

    async def on_start(self):
        type(self).started += 1
        self.guidance = asyncio.Queue()

    async def on_guidance(self, text):
        self.guidance.put_nowait(text)

    async def handle(self, message):
        match message.payload["task"]:
            case "text":
                return self.reply("done")
            case "outputs":
                return self.reply({"verdict": "good", "text": "fine"})
            case "event":
                return self.reply({"event": "work.done", "payload": "all of it", "text": "ok"})
            case "crash":
                raise KeyError("price")
            case "fail":
                raise TurnFailure("rate_limited", "try later")
            case "wait":
                return self.reply(await self.guidance.get())
            case "hang":
                type(self).working.set()
                await asyncio.Event().wait()
            case "count":
                return self.reply(str(type(self).started))
            case "payload":
                return self.reply({"outputs": {key: message.payload[key] for key in ("key", "turn", "input")}})
'''


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Path]:
    """A folder with the module `people`."""
    (tmp_path / "people.py").write_text(AGENTS)
    yield tmp_path
    sys.modules.pop("people", None)
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def request(folder: Path, task: str, turn: str = "teller#1", attempt: int = 1, timeout: float | None = 60) -> Request:
    agent = AgentPlan(name="teller", backend="actor", options={"type": "people.Teller"}, timeout=timeout)
    context = {"task": task, "input": {"prompt": task}, "inputs": []}
    key = f"run/{turn}"
    return Request(
        run="run", turn=turn, attempt=attempt, agent=agent, prompt=task, context=context, here=folder, key=key
    )


async def answer(backend: ActorBackend, asked: Request, events: list[Event] | None = None) -> Answer | Failure:
    heard: list[Event] = [] if events is None else events
    session = await backend.start(asked, heard.append)
    return await session.result()


def test_what_a_reply_says_becomes_the_answer(people: Path) -> None:
    """A text, outputs, an event of a loop; the payload has the turn, and the key that is the same in each attempt."""

    async def main() -> None:
        backend, events = ActorBackend(), list[Event]()
        assert await answer(backend, request(people, "text")) == Answer(text="done")
        assert await answer(backend, request(people, "outputs")) == Answer(text="fine", outputs={"verdict": "good"})
        assert await answer(backend, request(people, "event"), events) == Answer(text="ok")
        assert events == [Emitted(event="work.done", payload="all of it")]
        found = await answer(backend, request(people, "payload", attempt=2))
        assert isinstance(found, Answer)
        assert found.outputs == {"key": "run/teller#1", "turn": "run/teller#1.2", "input": {"prompt": "payload"}}
        await backend.close()

    asyncio.run(main())


def test_a_crash_fails_the_attempt_and_the_next_finds_a_fresh_actor(people: Path) -> None:
    """A failure that the agent raises on purpose leaves the actor as it is."""

    async def main() -> None:
        backend = ActorBackend()
        failed = await answer(backend, request(people, "fail"))
        assert (failed.kind, failed.reason) == ("rate_limited", "try later")  # type: ignore[union-attr]
        assert await answer(backend, request(people, "count")) == Answer(text="1")
        crashed = await answer(backend, request(people, "crash"))
        assert isinstance(crashed, Failure)
        assert (crashed.kind, crashed.reason) == ("crashed", "teller crashed: KeyError: 'price'")
        assert "people.py" in crashed.log
        assert await answer(backend, request(people, "count", attempt=2)) == Answer(text="2")
        await backend.close()

    asyncio.run(main())


def test_when_the_supervisor_has_given_up_the_turn_fails(people: Path) -> None:
    """Four crashes within a minute are one too many."""

    async def main() -> None:
        backend = ActorBackend()
        for _ in range(4):
            assert (await answer(backend, request(people, "crash"))).kind == "crashed"  # type: ignore[union-attr]
        failed = await answer(backend, request(people, "text"))
        assert isinstance(failed, Failure)
        assert failed.kind == "failed"
        assert "'teller' has stopped" in failed.reason
        await backend.close()

    asyncio.run(main())


def test_guidance_reaches_the_agent_while_it_works(people: Path) -> None:
    """Its mailbox is live; after the turn there is nothing to guide."""

    async def main() -> None:
        backend = ActorBackend()
        session = await backend.start(request(people, "wait"), lambda event: None)
        assert not await session.steer("too early")
        waiting = asyncio.ensure_future(session.result())
        async with asyncio.timeout(30):
            while not await session.steer("faster"):  # noqa: ASYNC110
                await asyncio.sleep(0)  # the message is not in its hand yet
        assert await waiting == Answer(text="faster")
        assert not await session.steer("too late")
        await backend.close()

    asyncio.run(main())


def test_an_interrupt_and_a_time_out_end_the_work_and_the_actor_lives(people: Path) -> None:
    """The next turn is answered by the same incarnation."""

    async def main() -> None:
        backend = ActorBackend()
        session = await backend.start(request(people, "hang"), lambda event: None)
        waiting = asyncio.ensure_future(session.result())
        await sys.modules["people"].Teller.working.wait()
        await session.interrupt()
        assert (await waiting).kind == "interrupted"  # type: ignore[union-attr]
        late = await answer(backend, request(people, "hang", turn="teller#3", timeout=0.05))
        assert (late.kind, late.reason) == ("timeout", "no answer within 0.05 s")  # type: ignore[union-attr]
        assert await answer(backend, request(people, "count", turn="teller#4")) == Answer(text="1")
        await backend.close()

    asyncio.run(main())


def team(folder: Path, critic: str) -> Path:
    (folder / "team.at").write_text(
        f"""topology team : [pipeline] {{
          agent writer {{ extensions {{ coterie {{ type: "people.Teller" }} }} }}
          agent critic {{ extensions {{ coterie {{ {critic} }} }} }}
          flow {{ writer -> critic }}
        }}"""
    )
    return folder / "team.at"


async def ran(folder: Path, file: Path) -> coterie.Outcome:
    return await coterie.run(coterie.load(str(file)), {"prompt": "text"}, state_dir=folder / "state")


def test_a_flow_of_agents_in_python_runs(people: Path) -> None:
    """Each has an actor under a supervisor."""
    outcome = asyncio.run(ran(people, team(people, 'type: "people.Teller"')))

    assert (outcome.status, outcome.result.text) == ("completed", "done")


def test_an_agent_of_the_system_around_a_flow_answers(people: Path) -> None:
    """By its name; outside of a system the run is refused before it begins."""
    file = team(people, "ask: chief")
    with pytest.raises(TopologyError, match="this run is not part of one"):
        asyncio.run(ran(people, file))
    system = people / "topology.yaml"
    children = "children: [{flow: {name: team, source: team.at}}, {agent: {name: chief, type: people.Teller}}]"
    system.write_text(f"supervision: {{name: root, {children}}}\nentry: team\n")

    outcome = asyncio.run(ran(people, system))

    assert (outcome.status, outcome.result.text) == ("completed", "done")


@pytest.mark.parametrize(
    ("critic", "said"),
    [
        ('type: "people.Nobody"', "critic: cannot load class 'people.Nobody': module 'people' has no class 'Nobody'"),
        ('type: "nowhere.Critic"', "there is no module 'nowhere'"),
    ],
)
def test_a_class_that_is_missing_is_found_before_the_run(people: Path, critic: str, said: str) -> None:
    """No turn is started."""
    with pytest.raises(TopologyError) as refused:
        asyncio.run(ran(people, team(people, critic)))

    assert said in str(refused.value)
