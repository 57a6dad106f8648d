"""Agents in Python as nodes of teams: a turn is an ask, a crash an attempt that failed."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import coterie
from coterie.agents.actors.turns import ActorBackend, ActorTurn
from coterie.agents.backends.base import Answer, Emitted, Event, Failure, Request, Used
from coterie.errors import ActorError, AgentCrashed, AgentStopped, CoterieError, TopologyError, WorkerLost
from coterie.history.journal.records import NO_USAGE, Usage
from coterie.team.planning.plan import AgentPlan

AGENTS = '''
import asyncio

from coterie.agents.actors.process import AgentProcess
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
            case "only outputs":
                return self.reply({"verdict": "good", "points": 3})
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
            case "fail late":
                await self.guidance.get()
                raise TurnFailure("rate_limited", "try later")
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
    return Request(run="run", turn=turn, attempt=attempt, agent=agent, prompt=task, context=context, here=folder)


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
        found = await answer(backend, request(people, "only outputs"))
        assert found == Answer(text='{"verdict": "good", "points": 3}', outputs={"verdict": "good", "points": 3})
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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (WorkerLost("teller", "w1"), "lost"),
        (AgentStopped("teller"), "failed"),
        (AgentCrashed("teller", "KeyError", "trace"), "crashed"),
    ],
    ids=["worker lost", "stopped", "crashed"],
)
def test_what_became_of_the_ask_is_the_kind_of_the_failure(people: Path, error: ActorError, kind: str) -> None:
    """A lost worker is tried again as a lost node is; an agent that has stopped is not."""

    class Node:
        plugins = SimpleNamespace(models=SimpleNamespace(meters={}, kept={}), tracer=SimpleNamespace(exporters=()))
        remote_agents = ()

        async def ask(self, *words: object, **options: object) -> None:
            raise error

    node: Any = Node()
    turn = ActorTurn(node, "teller", request(people, "text"), lambda event: None)
    failed = asyncio.run(turn.result())
    assert isinstance(failed, Failure)
    assert (failed.kind, "teller" in failed.reason) == (kind, True)


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


@pytest.mark.parametrize("how", ["wait", "fail late", "hang"])
def test_what_an_agent_used_is_on_the_result_however_it_ends(people: Path, how: str) -> None:
    """An answer, a failure, an interrupt; and the owner hears of it while the turn runs. The next turn starts at 0."""
    used = Usage(cost=0.75, input_tokens=3)

    async def main() -> None:
        backend, events = ActorBackend(), list[Event]()
        session = await backend.start(request(people, how), events.append)
        waiting = asyncio.ensure_future(session.result())
        system = await backend._own["run", "teller"]
        async with asyncio.timeout(30):
            while "run/teller#1.1" not in system.plugins.models.meters:  # noqa: ASYNC110
                await asyncio.sleep(0)
            meter = system.plugins.models.meters["run/teller#1.1"]
            meter(Usage(cost=0.25, input_tokens=3))
            meter(Usage(cost=0.5))
            if how == "hang":
                await sys.modules["people"].Teller.working.wait()
                await session.interrupt()
            while how != "hang" and not await session.steer("go"):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert (await waiting).usage == used
        assert events == [Used(usage=Usage(cost=0.25, input_tokens=3)), Used(usage=used)]
        assert (await answer(backend, request(people, "text", turn="teller#2"))).usage == NO_USAGE
        assert system.plugins.models.meters == {}
        await backend.close()

    asyncio.run(main())


def test_an_agent_that_could_not_start_is_started_for_the_next_turn(people: Path) -> None:
    """A failed start is no supervisor that has given up."""

    async def main() -> None:
        backend = ActorBackend()
        module = people / "people.py"
        module.write_text("broken = True\n")
        with pytest.raises(CoterieError):
            await backend.start(request(people, "text"), lambda event: None)
        module.write_text(AGENTS)
        sys.modules.pop("people", None)
        assert await answer(backend, request(people, "text", turn="teller#2")) == Answer(text="done")
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
