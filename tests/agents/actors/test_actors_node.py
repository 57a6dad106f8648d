"""A node: names, ids, traces, dead letters, and what an idle agent costs."""

import asyncio
import gc
import signal
import tracemalloc
from typing import Any

import pytest
from actor_stage import Echo, Stage, play
from until import soon

from coterie.agents.actors import dead_letters, registry
from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.crashes import TRACE
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.state.checkpoints import restore
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec
from coterie.base.clock import VirtualClock
from coterie.base.user_code import leaves_loop
from coterie.errors import AgentCrashed, AgentStopped, AskTimedOut, NoSuchAgent, StateFailed
from coterie.history.journal.records import ActorCrashed, LetterDead
from coterie.history.views.actors import ActorsView
from coterie.history.views.timeline import sentence


class Relay(Echo):
    """Passes a message on: by a send, then by an ask."""

    async def handle(self, message: Message) -> Message | None:
        await self.send("b", "sent")
        answer = await self.ask("b", "asked")
        return self.reply({"answer": answer.id})


def test_messages_of_a_chain_share_their_trace() -> None:
    """Each knows the message that was in hand when it was sent; ids are unique, 16 hexadecimal digits."""
    spans: list[tuple[Message, float, BaseException | None]] = []

    async def scene(stage: Stage) -> None:
        stage.node.on_span = lambda *span: spans.append(span)
        await stage.add(lambda: Relay("a"))
        await stage.add(lambda: Echo("b"))
        reply = await stage.node.ask("a")
        sent, asked, first = (span[0] for span in spans)
        assert (sent.payload, asked.payload, first.recipient) == ("sent", "asked", "a")
        assert sent.trace_id == asked.trace_id == first.trace_id == reply.trace_id == first.span_id
        assert sent.parent_span_id == asked.parent_span_id == reply.parent_span_id == first.span_id
        assert first.parent_span_id is None
        other = await stage.node.ask("b", "other")
        assert other.trace_id != first.trace_id
        with pytest.raises(Exception, match="boom"):
            await stage.node.ask("b", {"boom": "boom"})
        await asyncio.sleep(0)
        assert [str(span[2]) for span in spans[3:]] == ["None", "boom"]
        ids = {message.id for message, *_ in spans} | {reply.id, other.id, reply.payload["answer"]}
        assert len(ids) == 8
        assert all(len(id) == 16 and int(id, 16) for id in ids)

    play(scene)


def test_an_error_beside_the_handler_hangs_no_agent() -> None:
    """What an exporter raises is a crash like any other: the agent comes back and answers."""

    def fail(*span: Any) -> None:
        stage.node.on_span = None
        raise OSError("no collector")

    async def scene(one: Stage) -> None:
        nonlocal stage
        stage = one
        stage.node.on_span = fail
        await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", 1)
        assert (await stage.node.ask("echo", 2)).payload == 2
        assert stage.clock.now() == 1000.0

    stage: Stage
    assert [down.name for down in play(scene).downs] == ["echo"]


def test_names_of_stopped_agents_are_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long-lived system with many short-lived agents does not grow; an old name is an unknown one."""
    monkeypatch.setattr(registry, "REMEMBERED", 3)

    async def scene(stage: Stage) -> None:
        for n in range(4):
            await (await stage.add(lambda n=n: Echo(f"e{n}"))).stop(SHUTDOWN)  # type: ignore[misc]
        with pytest.raises(AgentStopped, match="agent 'e1' has stopped"):
            await stage.node.send("e1")
        with pytest.raises(NoSuchAgent, match="there is no agent 'e0'"):
            await stage.node.send("e0")
        again = await stage.add(lambda: Echo("e1"))
        assert (await stage.node.ask("e1", 1)).payload == 1
        await again.stop(SHUTDOWN)

    play(scene)


def test_dead_letters_are_all_counted_and_the_latest_kept() -> None:
    """Each is a record, too."""
    records: list[Any] = []
    dead = dead_letters.DeadLetters(records.append)

    async def lose() -> None:
        for n in range(dead_letters.KEPT + 5):
            dead.add(Message(str(n), "message", "a", "b" if n % 2 else "c"), "crashed", "ValueError")

    VirtualClock().run(lose())

    assert len(dead) == dead_letters.KEPT + 5
    assert next(message.id for message, _ in dead) == "5"
    assert {message.recipient for message in dead.of("b")} == {"b"}
    assert records[7] == LetterDead(
        id="7", recipient="b", sender="a", type="message", reason="crashed", detail="ValueError"
    )


def test_a_burst_of_dead_letters_is_counted_in_few_records() -> None:
    """The first of each recipient and reason in a minute are told one by one; the count of all is kept."""
    records: list[Any] = []
    dead = dead_letters.DeadLetters(records.append)

    def lose(count: int, recipient: str) -> None:
        for n in range(count):
            dead.add(Message(str(n), "message", "a", recipient), "stopped", "gone")

    async def main() -> None:
        lose(100_000, "b")
        lose(3, "c")
        assert len(records) == dead_letters.SINGLE + 3
        await asyncio.sleep(2)
        assert records[-1] == LetterDead(
            id="99999", recipient="b", sender="a", type="message", reason="stopped", detail="gone", count=99_900
        )
        lose(2, "b")
        dead.flush()
        assert records[-1].count == 2
        await asyncio.sleep(60)
        lose(1, "b")
        assert records[-1].count == 1

    VirtualClock().run(main())

    assert (len(dead), len(records)) == (100_006, dead_letters.SINGLE + 6)
    view = ActorsView()
    for record in records:
        view.apply(record)
    assert view.letters == {("b", "stopped"): 100_003, ("c", "stopped"): 3}
    assert sentence(records[-3]) == "99900 messages to b were not handled: stopped: gone"


def test_a_system_that_stops_records_the_dead_letters_it_has_counted() -> None:
    """Also those that became dead by the stop itself."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("a"))
        child.mailbox.resize(0)
        await stage.node.send("a", {"hang": 3600})
        for n in range(150):
            await stage.node.send("a", n)

    told = [one.count for one in play(scene).records if isinstance(one, LetterDead)]

    assert (len(told), sum(told)) == (dead_letters.SINGLE + 1, 151)


def test_a_crash_is_recorded_before_its_dead_letter() -> None:
    """So that a timeline reads in the order of cause and effect; the trace begins in the agent's code."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", {"boom": 1})
        await asyncio.sleep(1)

    crash, letter = play(scene).records[1:3]
    assert isinstance(crash, ActorCrashed)
    assert isinstance(letter, LetterDead)
    assert (crash.message, crash.type, crash.sender, crash.during) == (letter.id, "message", "_runtime", "message")
    assert crash.trace.splitlines()[1].strip().startswith("File")
    assert "actor_stage.py" in crash.trace.splitlines()[1]


def test_of_a_long_trace_the_end_is_kept() -> None:
    """Where the error was raised, and its text."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        with pytest.raises(AgentCrashed) as raised:
            await stage.node.ask("echo", {"boom": "x" * 2 * TRACE + " the end"})
        assert raised.value.trace.endswith("xx the end\n")

    [crash] = [one for one in play(scene).records if isinstance(one, ActorCrashed)]
    assert (len(crash.trace), crash.trace[-8:]) == (TRACE, "the end\n")


def test_an_idle_agent_has_no_task_and_needs_little() -> None:
    """At most 3 kB each, after it has handled messages."""

    class Idle(AgentProcess):
        async def handle(self, message: Message) -> None:
            pass

    async def main() -> None:
        node = ActorNode()
        await node.start()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        children = []
        for n in range(300):
            child = AgentChild(ChildSpec(name=f"a{n}", factory=lambda n=n: Idle(f"a{n}")), node)  # type: ignore[misc]
            await child.start(1)
            children.append(child)
        await node.broadcast("*", {})
        await asyncio.gather(*(node.ask(child.spec.name) for child in children))
        await asyncio.sleep(0)
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / len(children)
        tracemalloc.stop()
        assert len(asyncio.all_tasks()) == 1
        assert each <= 3000

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [0, 0.0, -1, float("nan")])
def test_an_ask_without_time_times_out_at_once(timeout: float) -> None:
    """The message is not sent."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("a"))
        with pytest.raises(AskTimedOut):
            await stage.node.ask("a", 1, timeout=timeout)
        await asyncio.sleep(1)
        assert child.handled == 0

    play(scene)


class Interrupting(Echo):
    """Raises what Ctrl-C raises, or the end of a coroutine."""

    async def handle(self, message: Message) -> Message | None:
        if message.payload == "task":
            self.start_task(self.interrupt())
            return None
        raise self.error

    async def interrupt(self) -> None:
        raise self.error

    error: type[BaseException] = KeyboardInterrupt


class Closing(Interrupting):
    error = GeneratorExit


@pytest.mark.parametrize("agent", [Interrupting, Closing])
def test_an_agent_that_raises_what_ends_a_program_crashes_alone(agent: type[Interrupting]) -> None:
    """In a handler and in a task, where Ctrl-C has a signal handler, as `asyncio.run` and the command line have."""
    records: list[Any] = []
    name = agent.error.__name__

    async def main() -> None:
        stage = Stage(VirtualClock(1000.0))
        await stage.node.start()
        await stage.add(lambda: agent("a"))
        with pytest.raises(AgentCrashed, match=name):
            await stage.node.ask("a", 1)
        await stage.node.send("a", "task")
        await soon(lambda: len(stage.downs) == 2)
        await stage.close()
        records.extend(stage.records)

    asyncio.run(main())

    crashes = [(one.error, one.during) for one in records if isinstance(one, ActorCrashed)]
    assert crashes == [(name, "message"), (f"RuntimeError: {name}", "task")]


class Leaving(Echo):
    made = 0

    def __init__(self, name: str) -> None:
        Leaving.made += 1
        if Leaving.made > 1:
            raise SystemExit(3)
        super().__init__(name)


class Wiping(InMemoryStateStore):
    async def get(self, agent_name: str) -> Any:
        raise SystemExit(3)


def test_sys_exit_in_a_constructor_or_a_store_ends_no_process() -> None:
    """It is an error of the agent that was to start."""

    async def scene(stage: Stage) -> None:
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            await stage.add(lambda: Leaving("a"))

    play(scene)
    with pytest.raises(StateFailed, match=r"Wiping.*SystemExit: 3"):
        asyncio.run(restore(Wiping(), "a"))


def test_ctrl_c_without_a_signal_handler_ends_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that runs its event loop itself is interrupted as any Python program."""
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)

    assert leaves_loop(KeyboardInterrupt())
    assert leaves_loop(GeneratorExit()), "a coroutine is closed where no task makes a step"
    assert not leaves_loop(SystemExit())
