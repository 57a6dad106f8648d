"""What becomes of messages when agents crash, hang and stop; all in virtual time."""

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from actor_stage import Echo, Stage, play

from coterie.agents.actors.exits import Crashed, Normal, Terminated
from coterie.agents.actors.message import CORRECTION, TERMINATED, Message
from coterie.agents.actors.process import LATER, AgentProcess, ErrorAction
from coterie.agents.actors.supervision.spec import KILLED, RESTART, SHUTDOWN
from coterie.errors import (
    AgentCrashed,
    AgentStopped,
    AskTimedOut,
    CoterieError,
    MailboxFull,
    NoSuchAgent,
    StateRefused,
    TurnFailure,
)
from coterie.history.journal.records import ActorCrashed, ActorStopped, LetterDead


def agent_of(stage: Stage, name: str) -> Any:
    return stage.children[name].agent


async def settle() -> None:
    """Let everything that can run do so."""
    for _ in range(50):
        await asyncio.sleep(0)


# Crashes


def test_a_crash_fails_the_ask_in_hand_and_no_other() -> None:
    """The ask in hand gets `AgentCrashed` at once; queued messages wait for the next incarnation, in order."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        asks = [stage.node.ask("echo", payload) for payload in ({"boom": "no"}, {"n": 1}, {"n": 2})]
        first, *others = await asyncio.gather(*asks, return_exceptions=True)

        assert isinstance(first, AgentCrashed)
        assert first.error == "ValueError: no"
        assert "raise ValueError" in first.trace
        assert [reply.payload for reply in others] == [{"n": 1}, {"n": 2}]
        assert agent_of(stage, "echo").seen == [{"n": 1}, {"n": 2}], "a new instance handled them"
        assert stage.clock.now() == 1000.0, "no time-out was waited for"
        assert len(stage.node.letters) == 0

    stage = play(scene)
    assert [type(down.reason) for down in stage.downs] == [Crashed]
    assert stage.topics("echo") == ["actor.started", "actor.crashed", "actor.started", "actor.stopped"]


def test_a_send_that_crashes_its_agent_is_a_dead_letter() -> None:
    """It is recorded, counted and kept with its reason; what was queued behind it is handled."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", {"boom": "no"}, "order")
        await stage.node.send("echo", {"n": 1})
        await settle()

        assert agent_of(stage, "echo").seen == [{"n": 1}]
        assert dict(stage.node.letters.counts) == {"crashed": 1}
        [letter] = stage.node.letters.of("echo")
        assert (letter.payload, letter.type, letter.sender) == ({"boom": "no"}, "order", "_runtime")

    [record] = [record for record in play(scene).records if isinstance(record, LetterDead)]
    assert (record.recipient, record.reason, record.detail) == ("echo", "crashed", "ValueError: no")


def test_messages_wait_while_an_agent_restarts() -> None:
    """Between two incarnations messages are taken, and answered by the next one."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"), restart=False)
        with pytest.raises(AgentCrashed):
            await stage.node.ask("echo", {"boom": 1})
        assert stage.node.health("echo").phase == "restarting"
        ask = asyncio.create_task(stage.node.ask("echo", {"n": 1}, timeout=60))
        await asyncio.sleep(10)
        assert stage.node.health("echo").queued == 1
        await child.start(2)
        assert (await ask).payload == {"n": 1}
        assert stage.clock.now() == 1010.0
        assert stage.node.health("echo").restarts == 1

    play(scene)


def test_a_supervisor_that_gives_up_releases_the_queue() -> None:
    """Queued and later askers get `AgentStopped`; queued sends become dead letters."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"), restart=False)
        asks = [asyncio.create_task(stage.node.ask("echo", payload)) for payload in ({"boom": 1}, {}, {})]
        await settle()
        await stage.node.send("echo", {"n": 1})
        await child.stop(SHUTDOWN)
        errors = await asyncio.gather(*asks, return_exceptions=True)
        assert [type(error) for error in errors] == [AgentCrashed, AgentStopped, AgentStopped]
        assert dict(stage.node.letters.counts) == {"stopped": 1}
        with pytest.raises(AgentStopped):
            await stage.node.send("echo", {})

    play(scene)


def test_a_handler_that_is_cancelled_from_inside_crashes() -> None:
    """CancelledError is a failure like any other unless the agent is being stopped."""

    class Cancelled(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(1)
            if message.payload == "raise":
                raise asyncio.CancelledError
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Cancelled("echo"))
        for payload in ("cancel", "raise"):
            with pytest.raises(AgentCrashed, match="CancelledError"):
                await stage.node.ask("echo", payload)
        assert (await stage.node.ask("echo", "ok")).payload == "ok"

    assert len(play(scene).downs) == 2


@pytest.mark.parametrize("error", [SystemExit(3), RecursionError()])
def test_other_exceptions_crash_the_agent_only(error: BaseException) -> None:
    """`sys.exit` in a handler does not end the process."""

    class Odd(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "raise":
                raise error
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Odd("echo"))
        with pytest.raises(AgentCrashed):
            await stage.node.ask("echo", "raise")
        assert (await stage.node.ask("echo", "ok")).payload == "ok"

    play(scene)


def test_sys_exit_in_a_hook_or_a_task_does_not_end_the_process() -> None:
    """It is a failure of its agent, wherever it is called."""

    class Exiting(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            if self.name == "start":
                sys.exit("no")
            self.start_task(self.work())

        async def on_stop(self) -> None:
            sys.exit("no")

        async def work(self) -> None:
            await asyncio.sleep(1)
            sys.exit("no")

    async def scene(stage: Stage) -> None:
        with pytest.raises(RuntimeError, match="SystemExit: no"):
            await stage.add(lambda: Exiting("start"))
        await stage.add(lambda: Exiting("work"), restart=False)
        await asyncio.sleep(2)

    stage = play(scene)
    assert [down.reason.error for down in stage.downs if isinstance(down.reason, Crashed)] == [
        "RuntimeError: SystemExit: no"
    ]


def test_an_error_without_a_text_is_an_error_like_any_other() -> None:
    """A broken `__str__` of the agent's own error class leaves no asker without an answer."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise TypeError("no text")

    class Breaking(Echo):
        async def handle(self, message: Message) -> Message | None:
            raise Broken

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Breaking("echo"))
        with pytest.raises(AgentCrashed, match="Broken: its text cannot be made"):
            await stage.node.ask("echo")
        assert stage.clock.now() == 1000.0

    play(scene)


# Asks that fail


@pytest.mark.parametrize(
    ("case", "error"),
    [("unknown", NoSuchAgent), ("stopped", AgentStopped), ("crashing", AgentCrashed), ("hanging", AskTimedOut)],
)
def test_each_failing_ask_has_its_own_error(case: str, error: type[Exception]) -> None:
    """Only a hanging agent costs the timeout."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"))
        payload: dict[str, Any] = {"boom": 1} if case == "crashing" else {"hang": 100} if case == "hanging" else {}
        if case == "stopped":
            await child.stop(SHUTDOWN)
        with pytest.raises(error) as raised:
            await stage.node.ask("ecko" if case == "unknown" else "echo", payload, timeout=7.0)
        assert stage.clock.now() == (1007.0 if case == "hanging" else 1000.0)
        if case == "unknown":
            assert "did you mean 'echo'?" in str(raised.value)

    play(scene)


def test_a_timeout_covers_the_wait_for_room() -> None:
    """An ask to an agent whose mailbox is full ends within its timeout, and its message is not handled later."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo", mailbox_size=2))
        await stage.node.send("echo", {"hang": 50})
        await settle()
        await stage.node.send("echo", 1)
        await stage.node.send("echo", 2)
        with pytest.raises(AskTimedOut, match="within 5 s"):
            await stage.node.ask("echo", "late", timeout=5)
        assert stage.clock.now() == 1005.0
        await asyncio.sleep(60)
        assert agent_of(stage, "echo").seen == [{"hang": 50}, 1, 2]

    play(scene)


def test_an_ask_that_has_ended_is_not_handled_later() -> None:
    """Nothing waits for the work, so a message that is still queued is taken out."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", {"hang": 10})
        ask = asyncio.create_task(stage.node.ask("echo", "cancelled"))
        await settle()
        ask.cancel()
        with pytest.raises(AskTimedOut):
            await stage.node.ask("echo", "late", timeout=1)
        await asyncio.sleep(60)
        assert agent_of(stage, "echo").seen == [{"hang": 10}]

    play(scene)


def test_a_late_reply_is_dropped_and_counted() -> None:
    """After the timeout nothing waits for the reply."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        with pytest.raises(TimeoutError):
            await stage.node.ask("echo", {"hang": 10}, timeout=1)
        await asyncio.sleep(20)
        assert stage.node.late == 1
        assert (await stage.node.ask("echo", "next")).payload == "next"

    play(scene)


def test_a_handler_that_returns_none_gives_an_empty_reply() -> None:
    """An ask never waits for a reply that does not come; another value than a message is an error."""

    class Silent(AgentProcess):
        async def handle(self, message: Message) -> Any:
            return message.payload.get("value")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Silent("silent"))
        reply = await stage.node.ask("silent")
        assert (reply.type, reply.payload, reply.sender) == ("reply", {}, "silent")
        with pytest.raises(AgentCrashed, match=r"returned dict: return self\.reply"):
            await stage.node.ask("silent", {"value": {"a": 1}})

    play(scene)


def test_a_hanging_handler_ends_by_handle_timeout() -> None:
    """The asker gets the error of the agent; a send becomes a dead letter with the reason `timeout`."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo", handle_timeout=2.5))
        with pytest.raises(AgentCrashed, match=r"longer than its handle_timeout of 2\.5 s"):
            await stage.node.ask("echo", {"hang": 100})
        assert stage.clock.now() == 1002.5
        await stage.node.send("echo", {"hang": 100})
        await asyncio.sleep(5)
        assert dict(stage.node.letters.counts) == {"timeout": 1}

    assert [type(down.reason) for down in play(scene).downs] == [Crashed, Crashed]


def test_a_timeout_of_the_handler_itself_is_a_crash_like_any_other() -> None:
    """Only the one of `handle_timeout` is reported as such; the handler may also catch its own."""

    class Timing(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "raise":
                raise TimeoutError("of a socket")
            try:
                async with asyncio.timeout(1):
                    await asyncio.Event().wait()
            except TimeoutError:
                return self.reply("caught")
            return None

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Timing("echo", handle_timeout=2.5))
        with pytest.raises(AgentCrashed, match="TimeoutError: of a socket"):
            await stage.node.ask("echo", "raise")
        assert (await stage.node.ask("echo", "wait")).payload == "caught"
        await stage.node.send("echo", "raise")
        await settle()
        assert dict(stage.node.letters.counts) == {"crashed": 1}

    play(scene)


# Mailboxes


class Knot(Echo):
    """Sends and asks as its messages say."""

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case {"ask": [first, *rest]}:
                reply = await self.ask(first, {"ask": rest} if rest else {}, timeout=20)
                return self.reply(reply.payload)
            case {"gather": names}:
                replies = await asyncio.gather(*(self.ask(name, {"ask": [self.name]}) for name in names))
                return self.reply(len(replies))
            case {"fill": name, "times": times}:
                for n in range(times):
                    await self.send(name, n)
        return await super().handle(message)


def test_a_self_send_to_a_full_mailbox_fails() -> None:
    """It would wait for itself for ever."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Knot("knot", mailbox_size=3))
        with pytest.raises(AgentCrashed, match=r"MailboxFull: the mailbox of 'knot' is full \(3 messages\)"):
            await stage.node.ask("knot", {"fill": "knot", "times": 4})
        await settle()
        assert agent_of(stage, "knot").seen == [0, 1, 2], "what it had sent before is not lost"

    play(scene)


def test_two_full_mailboxes_that_wait_for_each_other_fail() -> None:
    """A send that closes a cycle of waiting agents raises instead of stopping both for ever."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Knot("a", mailbox_size=2))
        await stage.add(lambda: Knot("b", mailbox_size=2))
        asks = [
            stage.node.ask(name, {"fill": other, "times": 9}, timeout=None) for name, other in (("a", "b"), ("b", "a"))
        ]
        ends = await asyncio.gather(*asks, return_exceptions=True)
        assert any(isinstance(end, AgentCrashed) and "wait for each other" in str(end) for end in ends)

    play(scene)


@pytest.mark.parametrize(
    ("names", "chain"), [(["a"], "a → a"), (["b", "a"], "b → a → b"), (["b", "c", "b"], "c → b → c")]
)
def test_an_ask_that_closes_a_cycle_fails(names: list[str], chain: str) -> None:
    """Agents that would wait for each other get `AskCycle` at once."""

    async def scene(stage: Stage) -> None:
        for name in "abc":
            await stage.add(lambda name=name: Knot(name))  # type: ignore[misc]
        with pytest.raises(AgentCrashed, match=f"AskCycle: .*{chain}"):
            await stage.node.ask("a", {"ask": names})
        assert stage.clock.now() == 1000.0

    play(scene)


def test_a_cycle_is_seen_through_tasks_of_a_handler() -> None:
    """`asyncio.gather` in a handler is still the handler."""

    async def scene(stage: Stage) -> None:
        for name in "abc":
            await stage.add(lambda name=name: Knot(name))  # type: ignore[misc]
        with pytest.raises(AgentCrashed, match="AskCycle"):
            await stage.node.ask("a", {"gather": ["b", "c"]})
        assert stage.clock.now() == 1000.0

    play(scene)


def test_asking_in_turns_is_no_cycle() -> None:
    """Two agents may ask each other as long as neither waits for the other."""

    async def scene(stage: Stage) -> None:
        for name in "ab":
            await stage.add(lambda name=name: Knot(name))  # type: ignore[misc]
        for _ in range(3):
            assert (await stage.node.ask("a", {"ask": ["b"]})).payload == {}
            assert (await stage.node.ask("b", {"ask": ["a"]})).payload == {}
        assert stage.downs == []

    play(scene)


def test_a_task_beside_the_handler_may_ask_back() -> None:
    """A task of the agent that no message waits for closes no cycle."""

    class Beside(Knot):
        async def on_start(self) -> None:
            await super().on_start()
            self.answers: list[Any] = []

        async def handle(self, message: Message) -> Message | None:
            if message.payload == "begin":
                self.start_task(self.work())
                return None
            return await super().handle(message)

        async def work(self) -> None:
            self.answers.append((await self.ask("b", {"ask": ["a"]})).payload)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Beside("a"))
        await stage.add(lambda: Knot("b"))
        await stage.node.ask("a", "begin")
        await settle()
        assert agent_of(stage, "a").answers == [{}]

    play(scene)


def test_a_full_mailbox_makes_senders_wait_in_order() -> None:
    """`send` returns when there is room, and what waits keeps its order."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo", mailbox_size=1))
        await stage.node.send("echo", {"hang": 10})
        await settle()
        await stage.node.send("echo", 0)
        sends = [asyncio.create_task(stage.node.send("echo", n)) for n in range(1, 5)]
        await settle()
        assert not any(send.done() for send in sends)
        sends[1].cancel()
        await asyncio.sleep(20)
        assert [send.done() for send in sends] == [True] * 4
        assert agent_of(stage, "echo").seen == [{"hang": 10}, 0, 1, 3, 4]

    play(scene)


def test_a_sender_that_waits_for_room_learns_of_the_stop() -> None:
    """A blocked `send` raises `AgentStopped` when the agent ends for good."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo", mailbox_size=1))
        await stage.node.send("echo", {"hang": 1})
        await settle()
        await stage.node.send("echo", 0)
        send = asyncio.create_task(stage.node.send("echo", 1))
        await settle()
        await child.stop(SHUTDOWN)
        with pytest.raises(AgentStopped):
            await send

    play(scene)


def test_messages_with_a_priority_go_ahead() -> None:
    """The highest first, in order of arrival among equals; a full mailbox does not stop them."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo", mailbox_size=3))
        await stage.node.send("echo", {"hang": 1})
        await settle()
        for n, priority in enumerate((0, 0, 0, 1, 5, 1)):
            await stage.node.send("echo", n, priority=priority)
        await asyncio.sleep(2)
        assert agent_of(stage, "echo").seen == [{"hang": 1}, 4, 3, 5, 0, 1, 2]

    play(scene)


def test_an_ask_that_was_answered_closes_no_cycle() -> None:
    """What a handler asked for earlier is not what it waits for now, nor is what its last message left behind."""

    class First(Knot):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "begin":
                await self.ask("b", {})
                await self.ask("c", {"hang": 5})
                return None
            if message.payload == "leave":
                self.left = asyncio.create_task(asyncio.wait_for(self.ask("b", {"hang": 5, "ask": ["a"]}), 60))
                await asyncio.sleep(0.1)
                return None
            return await super().handle(message)

    class Second(Knot):
        async def handle(self, message: Message) -> Message | None:
            if isinstance(message.payload, dict) and "hang" in message.payload:
                await asyncio.sleep(message.payload["hang"])
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        for factory in (lambda: First("a"), lambda: Second("b"), lambda: Second("c")):
            await stage.add(factory)
        begun = asyncio.create_task(stage.node.ask("a", "begin"))
        await settle()
        assert (await stage.node.ask("b", {"ask": ["a"]})).payload == {}
        await begun
        await stage.node.ask("a", "leave")
        assert (await stage.node.ask("a", {"ask": ["c"]})).payload == {}
        await agent_of(stage, "a").left

    assert play(scene).downs == []


def test_a_task_beside_the_handler_cannot_fill_its_own_mailbox() -> None:
    """A self-send to a full mailbox fails, from a task of the agent, too."""

    class Flooding(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            self.errors: list[Exception] = []
            self.start_task(self.flood())

        async def flood(self) -> None:
            try:
                for n in range(5):
                    await self.send("echo", {"hang": n})
            except MailboxFull as error:
                self.errors.append(error)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Flooding("echo", mailbox_size=2))
        await asyncio.sleep(1)
        assert [error.size for error in agent_of(stage, "echo").errors] == [2]

    play(scene)


def test_a_busy_agent_lets_others_work() -> None:
    """Handlers that never wait give way after a while."""

    async def scene(stage: Stage) -> None:
        busy = await stage.add(lambda: Echo("busy"))
        await stage.add(lambda: Echo("other"))
        for n in range(900):
            await stage.node.send("busy", n)
        await stage.node.ask("other")
        assert busy.handled < 900

    play(scene)


def test_an_ask_that_fails_while_it_is_cancelled_leaves_no_trace() -> None:
    """No error is reported as never retrieved."""
    complaints: list[Any] = []

    async def scene(stage: Stage) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        child = await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", {"hang": 10})
        ask = asyncio.create_task(stage.node.ask("echo"))
        await settle()
        stop = asyncio.create_task(child.stop(KILLED))
        while stage.node.names():  # noqa: ASYNC110 - the moment counts
            await asyncio.sleep(0)
        ask.cancel()
        await asyncio.wait({ask, stop})
        del ask
        gc.collect()

    play(scene)
    assert complaints == []


# Starting and stopping


def test_an_on_start_that_fails_at_boot_leaves_nothing() -> None:
    """Its error surfaces, and the name is free."""

    class Refusing(Echo):
        async def on_start(self) -> None:
            self.start_task(asyncio.sleep(1000))
            raise OSError("no such device")

    async def scene(stage: Stage) -> None:
        with pytest.raises(OSError, match="no such device"):
            await stage.add(lambda: Refusing("echo"))
        assert stage.node.names() == []
        with pytest.raises(AgentStopped):
            await stage.node.ask("echo")
        await asyncio.sleep(0)  # the task of `on_start` ends
        assert len(asyncio.all_tasks()) == 1

    [crash] = [record for record in play(scene).records if isinstance(record, ActorCrashed)]
    assert (crash.during, crash.error) == ("start", "OSError: no such device")


def test_an_on_start_that_fails_on_restart_keeps_the_queue() -> None:
    """The next attempt to start serves the messages that waited."""
    fails = iter([False, True, False])

    class Flaky(Echo):
        async def on_start(self) -> None:
            if next(fails):
                raise OSError("not yet")
            await super().on_start()

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Flaky("echo"), restart=False)
        with pytest.raises(AgentCrashed):
            await stage.node.ask("echo", {"boom": 1})
        ask = asyncio.create_task(stage.node.ask("echo", "waits"))
        await settle()
        with pytest.raises(OSError, match="not yet"):
            await child.start(2)
        await child.start(3)
        assert (await ask).payload == "waits"

    play(scene)


def test_on_start_that_cancels_itself_is_a_failure() -> None:
    """It does not look like a cancelled supervisor."""

    class Cancelling(Echo):
        async def on_start(self) -> None:
            raise asyncio.CancelledError

    async def scene(stage: Stage) -> None:
        with pytest.raises(AgentCrashed, match="CancelledError in on_start"):
            await stage.add(lambda: Cancelling("echo"))

    play(scene)


def test_a_cancelled_start_leaves_nothing_running() -> None:
    """A supervisor that is stopped while a child starts cancels the start."""

    class Slow(Echo):
        async def on_start(self) -> None:
            await asyncio.sleep(100)

    async def scene(stage: Stage) -> None:
        start = asyncio.create_task(stage.add(lambda: Slow("echo")))
        await settle()
        start.cancel()
        await asyncio.wait({start})
        assert len(asyncio.all_tasks()) == 1
        assert stage.node.names() == []

    play(scene)


def test_an_on_stop_that_fails_is_recorded() -> None:
    """The stop goes on."""

    class Bad(Echo):
        async def on_stop(self) -> None:
            raise RuntimeError("cannot close")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Bad("echo"))

    [stopped] = [record for record in play(scene).records if isinstance(record, ActorStopped)]
    assert (stopped.reason, stopped.error) == ("shutdown", "RuntimeError: cannot close")


def test_stopping_lets_the_message_in_hand_end() -> None:
    """Within the shutdown time it is finished and answered; 20 queued ones are reported, none is handled."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"))
        asks = [asyncio.create_task(stage.node.ask("echo", {"hang": 3, "n": n})) for n in range(11)]
        await settle()
        for n in range(10):
            await stage.node.send("echo", n)
        await child.stop(SHUTDOWN)
        ends = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(ends[0], Message)
        assert [type(end) for end in ends[1:]] == [AgentStopped] * 10
        assert dict(stage.node.letters.counts) == {"stopped": 10}
        assert stage.clock.now() == 1003.0

    play(scene)


@pytest.mark.parametrize(("reason", "seconds"), [(SHUTDOWN, 5.0), (KILLED, 0.0)])
def test_a_handler_is_cancelled_after_the_shutdown_time(reason: str, seconds: float) -> None:
    """The ask in hand gets `AgentStopped`; a send a dead letter; the record says `killed`, and no crash."""
    closed = []

    class Closing(Echo):
        async def on_stop(self) -> None:
            closed.append(self.name)

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Closing("echo"))
        other = await stage.add(lambda: Echo("other"))
        ask = asyncio.create_task(stage.node.ask("echo", {"hang": 100}))
        await stage.node.send("other", {"hang": 100})
        await settle()
        await asyncio.gather(child.stop(reason), other.stop(reason))
        assert stage.clock.now() == 1000.0 + seconds
        with pytest.raises(AgentStopped):
            await ask
        assert dict(stage.node.letters.counts) == {"stopped": 1}

    stage = play(scene)
    assert stage.downs == []
    assert closed == []
    assert [record.reason for record in stage.records if isinstance(record, ActorStopped)] == ["killed", "killed"]


def test_on_stop_is_cancelled_after_the_shutdown_time() -> None:
    """`on_stop` has what the message in hand left of it."""

    class Slow(Echo):
        async def on_stop(self) -> None:
            await asyncio.sleep(100)

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Slow("echo"), shutdown=4.0)
        await stage.node.send("echo", {"hang": 1})
        await settle()
        await child.stop(SHUTDOWN)
        assert stage.clock.now() == 1004.0

    play(scene)


def test_an_agent_that_ignores_cancelling_is_abandoned() -> None:
    """The stop ends one second later, the ask fails, and the late handler disturbs no later incarnation."""

    class Stubborn(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "stubborn":
                for _ in range(30):
                    try:
                        await asyncio.sleep(1)
                    except asyncio.CancelledError:
                        continue
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Stubborn("echo"), shutdown=2.0)
        ask = asyncio.create_task(stage.node.ask("echo", "stubborn", timeout=100))
        await settle()
        await child.stop(RESTART)
        assert stage.clock.now() == 1003.0
        with pytest.raises(AgentStopped):
            await ask
        await child.start(2)
        asks = [stage.node.ask("echo", {"hang": 20, "n": n}, timeout=100) for n in range(3)]
        await asyncio.gather(*asks)
        assert stage.clock.now() == 1063.0, "one message at a time"

    play(scene)


def test_a_stop_for_a_restart_keeps_the_mailbox() -> None:
    """A sibling that is replaced with a failed child loses no queued message."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"))
        asks = [asyncio.create_task(stage.node.ask("echo", {"hang": 1, "n": n})) for n in range(3)]
        await settle()
        await child.stop(RESTART)
        await child.start(2)
        assert len(await asyncio.gather(*asks)) == 3
        assert [one["n"] for one in agent_of(stage, "echo").seen] == [1, 2]

    play(scene)


def test_exit_is_a_normal_end_after_the_message_in_hand() -> None:
    """The ask is answered, the end reported as `Normal`; queued messages wait for the supervisor's decision."""

    class Leaving(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "leave":
                self.exit()
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Leaving("echo"))
        asks = [stage.node.ask("echo", payload) for payload in ("leave", "stay")]
        assert [reply.payload for reply in await asyncio.gather(*asks)] == ["leave", "stay"]
        assert agent_of(stage, "echo").seen == ["stay"]

    stage = play(scene)
    assert [down.reason for down in stage.downs] == [Normal()]


def test_an_agent_may_exit_while_it_starts_or_idles() -> None:
    """Without a message in hand the end comes at once."""

    class Leaving(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            if self.name == "early":
                self.exit()
            else:
                self.start_task(self.leave())

        async def leave(self) -> None:
            await asyncio.sleep(5)
            self.exit()

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Leaving("early"), restart=False)
        await stage.add(lambda: Leaving("idle"), restart=False)
        await settle()
        assert [down.name for down in stage.downs] == ["early"]
        await asyncio.sleep(6)

    stage = play(scene)
    assert [(down.name, down.reason) for down in stage.downs] == [("early", Normal()), ("idle", Normal())]


def test_an_agent_that_ends_itself_slowly_can_be_killed() -> None:
    """The stop does not wait for its `on_stop`, and its end is not reported any more."""

    class Slow(Echo):
        async def handle(self, message: Message) -> Message | None:
            self.exit()
            return None

        async def on_stop(self) -> None:
            await asyncio.sleep(100)

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Slow("echo"), restart=False, shutdown=500.0)
        await stage.node.ask("echo")
        await asyncio.sleep(1)
        await child.stop(KILLED)
        assert stage.clock.now() == 1001.0
        assert stage.node.names() == []
        assert len(asyncio.all_tasks()) == 1

    stage = play(scene)
    assert stage.downs == []
    assert stage.topics("echo") == ["actor.started", "actor.stopped"]


def test_on_stop_runs_after_a_crash() -> None:
    """What the instance holds is released before the next one starts."""
    steps = []

    class Holding(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            steps.append("start")

        async def on_stop(self) -> None:
            await asyncio.sleep(1)
            steps.append("stop")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Holding("echo"))
        with pytest.raises(AgentCrashed):
            await stage.node.ask("echo", {"boom": 1})
        await stage.node.ask("echo", "next")
        assert steps == ["start", "stop", "start"]

    play(scene)


class Reluctant(Echo):
    """Does not end its `on_stop`."""

    async def handle(self, message: Message) -> Message | None:
        if message.payload == "exit":
            self.exit()
        if message.payload == "task":
            self.start_task(asyncio.wait_for(asyncio.Event().wait(), 0))
        return await super().handle(message)

    async def on_stop(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("payload", [{"boom": 1}, "exit", "task"])
def test_an_on_stop_that_hangs_delays_the_next_incarnation_by_the_shutdown_time(payload: Any) -> None:
    """After a crash, an exit and a failed task; it does not keep the agent down."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Reluctant("echo"), shutdown=2.0)
        await stage.node.send("echo", payload)
        await settle()
        assert (await stage.node.ask("echo", "next")).payload == "next"
        assert stage.clock.now() == 1002.0

    assert [down.name for down in play(scene).downs] == ["echo"]


# on_error


class Deciding(Echo):
    """Crashes as often as the payload says, and has `on_error` answer with its action."""

    tries = 0

    async def handle(self, message: Message) -> Message | None:
        self.tries += 1
        if message.attempt <= message.payload["fails"]:
            raise ValueError(f"try {message.attempt}")
        return self.reply({"attempt": message.attempt, "id": message.id})

    async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
        return ErrorAction(message.payload["action"])


def test_retry_repeats_the_message_in_place() -> None:
    """Its id stays, its attempt counts; after max_retries the agent crashes."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Deciding("echo"))
        first = asyncio.create_task(stage.node.ask("echo", {"fails": 3, "action": "retry"}))
        second = asyncio.create_task(stage.node.ask("echo", {"fails": 0, "action": "retry"}))
        assert (await first).payload["attempt"] == 4
        assert (await second).payload["attempt"] == 1
        assert agent_of(stage, "echo").tries == 5
        with pytest.raises(AgentCrashed, match="try 4"):
            await stage.node.ask("echo", {"fails": 4, "action": "retry"})

    assert len(play(scene).downs) == 1


def test_a_turn_is_not_retried_by_its_agent() -> None:
    """The run alone repeats turns."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Deciding("echo"))
        with pytest.raises(AgentCrashed, match="try 1"):
            await stage.node.ask("echo", {"fails": 1, "action": "retry"}, "turn")

    play(scene)


def test_skip_goes_on_with_the_next_message() -> None:
    """The asker gets the error, a send becomes a dead letter, and the instance lives."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Deciding("echo"))
        with pytest.raises(AgentCrashed, match="try 1"):
            await stage.node.ask("echo", {"fails": 1, "action": "skip"})
        await stage.node.send("echo", {"fails": 1, "action": "skip"})
        await settle()
        assert dict(stage.node.letters.counts) == {"skipped": 1}
        assert agent_of(stage, "echo").tries == 2

    assert play(scene).downs == []


def test_a_cancelled_handler_leaves_no_cancellation_behind() -> None:
    """A message that is skipped, or a turn that ignores its interrupt, does not cancel the next message."""

    class Counting(Echo):
        async def handle(self, message: Message) -> Message | None:
            task = asyncio.current_task()
            assert task is not None
            pending = task.cancelling()
            if message.payload == "cancel":
                task.cancel()
                await asyncio.sleep(1)
            if message.type == "turn":
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(10)
            return self.reply(pending)

        async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
            return ErrorAction.SKIP

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Counting("echo"))
        asks = [asyncio.create_task(stage.node.ask("echo", payload)) for payload in ("cancel", "next")]
        ends = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(ends[0], AgentCrashed)
        assert isinstance(ends[1], Message)
        assert ends[1].payload == 0
        turn = asyncio.create_task(stage.node.ask("echo", {"turn": "t"}, "turn"))
        after = asyncio.create_task(stage.node.ask("echo", "next"))
        await settle()
        await stage.node.send("echo", {"turn": "t"}, "turn.interrupt")
        assert [(await ask).payload for ask in (turn, after)] == [0, 0]

    play(scene)


def test_stop_ends_the_agent_for_good() -> None:
    """The reason reported is `Terminated`, after which a supervisor never restarts."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Deciding("echo"), restart=False)
        with pytest.raises(AgentCrashed, match="try 1"):
            await stage.node.ask("echo", {"fails": 1, "action": "stop"})
        await settle()

    assert [down.reason for down in play(scene).downs] == [Terminated("ValueError: try 1")]


def test_an_on_error_that_fails_is_a_crash() -> None:
    """Its own error counts, the first one is in the trace."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Deciding("echo"))
        with pytest.raises(AgentCrashed, match="is not a valid ErrorAction") as raised:
            await stage.node.ask("echo", {"fails": 1, "action": "dance"})
        assert "try 1" in raised.value.trace

    play(scene)


# State


class Counter(AgentProcess):
    public = ("seen",)

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case "hang":
                await asyncio.sleep(100)
            case "boom":
                self.state["lost"] = True
                raise ValueError
            case "bad":
                self.state["bad"] = object()
                await self.checkpoint()
            case _:
                self.state["n"] = self.state.get("n", 0) + 1
                await self.checkpoint()
                self.state["n"] += 100
                self.state["seen"] = True
        return self.reply(self.state)


def test_only_what_was_checkpointed_survives_a_crash() -> None:
    """The store gives it back before `on_start`."""

    async def scene(stage: Stage) -> None:
        started = []

        class Starting(Counter):
            async def on_start(self) -> None:
                started.append(dict(self.state))

        await stage.add(lambda: Starting("counter"))
        await stage.node.ask("counter", "count")
        with pytest.raises(AgentCrashed):
            await stage.node.ask("counter", "boom")
        await settle()
        assert started == [{}, {"n": 1}]
        with pytest.raises(AgentCrashed, match=StateRefused.__name__):
            await stage.node.ask("counter", "bad")

    play(scene)


def test_the_state_is_answered_without_the_handler() -> None:
    """A hanging agent answers with its last checkpoint and its public keys."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Counter("counter"))
        await stage.node.ask("counter", "count")
        await stage.node.send("counter", "hang")
        await settle()
        reply = await stage.node.ask("counter", {"__op__": "state"}, timeout=1)
        assert reply.payload == {"n": 1, "seen": True}
        assert (reply.sender, reply.type) == ("counter", "reply")

    play(scene)


# Beside messages


def test_a_task_that_fails_crashes_its_agent() -> None:
    """The message in hand fails with it; queued ones wait for the next incarnation."""

    class Working(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "work":
                self.start_task(self.fail(2))
                return None
            return await super().handle(message)

        async def fail(self, seconds: float) -> None:
            await asyncio.sleep(seconds)
            raise OSError("lost the connection")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Working("echo"))
        await stage.node.ask("echo", "work")
        asks = [stage.node.ask("echo", payload) for payload in ({"hang": 100}, "next")]
        first, second = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(first, AgentCrashed)
        assert first.error == "OSError: lost the connection"
        assert isinstance(second, Message)
        assert stage.clock.now() == 1002.0
        await stage.node.ask("echo", "work")
        await asyncio.sleep(3)
        assert len(stage.downs) == 2, "an idle agent crashes, too"

    crashes = [record for record in play(scene).records if isinstance(record, ActorCrashed)]
    assert [crash.during for crash in crashes] == ["task", "task"]


def test_tasks_and_timers_end_with_their_incarnation() -> None:
    """Nothing of a crashed instance works on."""
    done = []

    class Timed(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            self.send_after(5, "tick")
            cancel = self.send_after(1, "never")
            cancel()
            self.start_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(5)
            done.append(self)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Timed("echo"))
        await asyncio.sleep(3)
        await stage.node.send("echo", {"boom": 1})
        await asyncio.sleep(3)
        assert agent_of(stage, "echo").seen == []
        await asyncio.sleep(3)
        assert agent_of(stage, "echo").seen == ["tick"]
        assert done == [agent_of(stage, "echo")]

    play(scene)


def test_a_stop_waits_for_tasks_that_clean_up() -> None:
    """Tasks beside the messages are cancelled after `on_stop`; a failure of one disturbs no later incarnation."""
    steps = []

    class Cleaning(Echo):
        async def on_start(self) -> None:
            await super().on_start()
            self.start_task(self.work())

        async def on_stop(self) -> None:
            steps.append("on_stop")

        async def work(self) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(0.5 if self.name == "quick" else 1.5)
                steps.append(self.name)
                raise OSError("cannot clean up")

    async def scene(stage: Stage) -> None:
        for name in ("quick", "slow"):
            child = await stage.add(lambda name=name: Cleaning(name))  # type: ignore[misc]
            await asyncio.sleep(1)
            await child.stop(RESTART)
            await child.start(2)
            assert steps == (["on_stop", "quick"] if name == "quick" else ["on_stop", "quick", "on_stop"])
        await asyncio.sleep(1)
        assert steps == ["on_stop", "quick", "on_stop", "slow"]

    assert play(scene).downs == []


def test_an_abandoned_instance_cannot_send() -> None:
    """What is left of an earlier incarnation does not act for the agent."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Echo("echo"))
        old = agent_of(stage, "echo")
        await child.stop(RESTART)
        await child.start(2)
        with pytest.raises(RuntimeError, match="is not started"):
            await old.send("echo", 1)

    play(scene)


def test_an_answer_may_come_later() -> None:
    """`LATER` lets an agent handle further messages before it answers; a crash fails the open asks."""

    class Slow(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "now":
                return self.reply("now")
            if message.payload == "boom":
                raise ValueError("boom")
            self.start_task(self.work(message))
            return LATER

        async def work(self, message: Message) -> None:
            await asyncio.sleep(message.payload)
            self.answer(message, f"after {message.payload}")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Slow("slow"))
        ask = asyncio.create_task(stage.node.ask("slow", 5))
        assert (await stage.node.ask("slow", "now")).payload == "now"
        assert (await ask).payload == "after 5"
        ask = asyncio.create_task(stage.node.ask("slow", 50, timeout=100))
        await settle()
        with pytest.raises(AgentCrashed):
            await stage.node.ask("slow", "boom")
        with pytest.raises(AgentCrashed, match="ended before it answered"):
            await ask
        assert stage.clock.now() == 1005.0

    play(scene)


def test_corrections_and_ends_of_children_go_ahead() -> None:
    """They call their hooks before the next message of the mailbox."""
    calls: list[Any] = []

    class Corrected(Echo):
        async def on_correction(self, message: Message) -> None:
            calls.append(("correction", message.payload, message.sender))

        async def on_child_terminated(self, name: str, reason: str) -> None:
            calls.append(("terminated", name, reason))

        async def handle(self, message: Message) -> Message | None:
            calls.append(message.payload)
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Corrected("echo", mailbox_size=1))
        await stage.node.send("echo", {"hang": 1})
        await settle()
        await stage.node.send("echo", "next")
        stage.node.post("echo", {"why": "slower"}, CORRECTION, "judge", ahead=True)
        stage.node.post("echo", {"name": "kid", "reason": "crashed"}, TERMINATED, "sup", ahead=True)
        await asyncio.sleep(2)

    play(scene)
    assert calls == [
        {"hang": 1},
        ("correction", {"why": "slower"}, "judge"),
        ("terminated", "kid", "crashed"),
        "next",
    ]


def test_the_types_of_the_runtime_cannot_be_sent() -> None:
    """A message never chooses a hook."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        for call in (stage.node.send, stage.node.ask):
            with pytest.raises(ValueError, match="reserved"):
                await call("echo", {}, "_correction")

    play(scene)


def test_a_monitor_learns_of_the_end_of_an_incarnation() -> None:
    """Once, by name; unknown and stopped names raise at once."""

    class Watching(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "watch":
                self.monitor("echo")
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Watching("watcher"))
        with pytest.raises(AgentCrashed, match="NoSuchAgent"):
            await stage.node.ask("watcher", "watch")
        child = await stage.add(lambda: Echo("echo"))
        await stage.node.ask("watcher", "watch")
        for _ in range(2):
            await stage.node.send("echo", {"boom": 1})
            await settle()
        assert agent_of(stage, "watcher").seen == [
            "watch",
            {"name": "echo", "incarnation": 1, "reason": "crashed", "error": "ValueError: 1"},
        ]
        await stage.node.ask("watcher", "watch")
        await stage.node.send("watcher", {"boom": 1})
        await settle()
        await stage.node.send("echo", {"boom": 1})
        await settle()
        assert agent_of(stage, "watcher").seen == [], "a new instance monitors nothing yet"
        await stage.node.ask("watcher", "watch")
        await child.stop(SHUTDOWN)
        await settle()
        assert agent_of(stage, "watcher").seen[-1]["reason"] == "shutdown"
        with pytest.raises(AgentStopped):
            stage.node.monitor("echo", lambda down: None)

    play(scene)


# Turns


class Turning(Echo):
    async def on_guidance(self, text: str) -> None:
        self.seen.append(text)

    async def handle(self, message: Message) -> Message | None:
        if message.payload.get("fail"):
            raise TurnFailure("refused", "I will not")
        return await super().handle(message)


def test_a_failed_turn_is_a_reply() -> None:
    """The agent lives, and no restart limit is touched."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Turning("echo"))
        reply = await stage.node.ask("echo", {"turn": "w#1", "fail": True}, "turn")
        assert (reply.type, reply.payload) == ("turn.failed", {"kind": "refused", "reason": "I will not"})

    assert play(scene).downs == []


def test_a_turn_is_steered_watched_and_interrupted_while_it_works() -> None:
    """Its agent answers about it at once, and lives after an interrupt."""

    async def scene(stage: Stage) -> None:
        node = stage.node
        await stage.add(lambda: Turning("echo"))
        turn = asyncio.create_task(node.ask("echo", {"turn": "w#1", "hang": 100}, "turn", timeout=None))
        await settle()
        assert (await node.ask("echo", {"turn": "w#1"}, "turn.status")).payload == {"turn": "w#1", "phase": "working"}
        assert (await node.ask("echo", {"turn": "w#2"}, "turn.status")).payload["phase"] == "unknown"
        await node.send("echo", {"turn": "w#1", "text": "shorter"}, "turn.steer")
        await settle()
        assert agent_of(stage, "echo").seen[-1] == "shorter"
        queued = asyncio.create_task(node.ask("echo", {"turn": "w#9"}, "turn"))
        await settle()
        assert (await node.ask("echo", {"turn": "w#9"}, "turn.status")).payload["phase"] == "queued"
        await node.send("echo", {"turn": "w#9"}, "turn.interrupt")
        assert (await queued).payload["kind"] == "interrupted"
        await node.send("echo", {"turn": "w#2"}, "turn.interrupt")
        await node.send("echo", {"turn": "w#1"}, "turn.interrupt")
        reply = await turn
        assert (reply.type, reply.payload["kind"]) == ("turn.failed", "interrupted")
        assert {"turn": "w#9"} not in agent_of(stage, "echo").seen
        assert stage.clock.now() == 1000.0
        assert (await node.ask("echo", {"turn": "w#3"}, "turn")).payload == {"turn": "w#3"}

    assert play(scene).downs == []


# Names


def test_a_broadcast_reaches_the_others_that_match() -> None:
    """A full mailbox holds up no other agent, the sender is left out, and the names reached are returned."""

    class Calling(Echo):
        async def handle(self, message: Message) -> Message | None:
            if message.payload == "call":
                return self.reply(await self.broadcast("w.*", "news"))
            return await super().handle(message)

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Calling("w.chief"))
        for name in ("w.a", "w.b", "other"):
            await stage.add(lambda name=name: Echo(name, mailbox_size=1))  # type: ignore[misc]
        await stage.node.send("w.a", {"hang": 10})
        await settle()
        await stage.node.send("w.a", "queued")
        ask = asyncio.create_task(stage.node.ask("w.chief", "call"))
        await asyncio.sleep(1)
        assert agent_of(stage, "w.b").seen == ["news"]
        assert (await ask).payload == ("w.a", "w.b")
        assert stage.clock.now() == 1010.0
        assert await stage.node.broadcast("none.*") == ()
        with pytest.raises(ValueError, match="reserved"):
            await stage.node.broadcast("w.*", {}, "_correction")

    play(scene)


def test_two_agents_cannot_have_one_name() -> None:
    """The second does not start, the first is not disturbed."""

    async def scene(stage: Stage) -> None:
        first = await stage.add(lambda: Echo("echo"))
        with pytest.raises(ValueError, match="there is an agent 'echo' already"):
            await stage.add(lambda: Echo("echo"))
        stage.children["echo"] = first
        assert (await stage.node.ask("echo", 1)).payload == 1

    play(scene)


def test_an_agent_says_how_it_is() -> None:
    """Queue, phase, messages and restarts, by name."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Echo("echo"))
        await stage.node.send("echo", 1)
        await asyncio.sleep(1)
        await stage.node.send("echo", {"hang": 5})
        await settle()
        await stage.node.send("echo", 2)
        health = stage.node.health("echo")
        assert health.type == "actor_stage.Echo"
        assert (health.phase, health.queued, health.handled, health.restarts) == ("running", 1, 1, 0)
        assert health.in_hand
        assert health.last_message == 1000.0
        with pytest.raises(NoSuchAgent):
            stage.node.health("nobody")

    play(scene)


@pytest.mark.parametrize(
    ("factory", "error"),
    [
        (lambda: AgentProcess.__new__(AgentProcess), "does not call super().__init__"),
        (lambda: object(), "is not an AgentProcess"),
    ],
)
def test_a_class_that_is_no_agent_does_not_start(factory: Callable[[], Any], error: str) -> None:
    """The error names what is wrong."""
    from coterie.agents.actors.child import AgentChild
    from coterie.agents.actors.supervision.spec import ChildSpec

    async def scene(stage: Stage) -> None:
        with pytest.raises(TypeError, match=error.replace("(", r"\(").replace(")", r"\)")):
            await AgentChild(ChildSpec(name="x", factory=factory), stage.node).start(1)

    play(scene)


def test_an_agent_that_is_not_started_says_so() -> None:
    """Sending from `__init__` is a mistake with a clear error."""
    with pytest.raises(RuntimeError, match="is not started"):
        Echo("echo").send("other")
    with pytest.raises(RuntimeError, match="message in hand"):
        Echo("echo").reply()


def test_pending_asks_end_with_the_node() -> None:
    """Nothing waits for a system that has stopped."""

    async def scene(stage: Stage) -> None:
        class Never(AgentProcess):
            async def handle(self, message: Message) -> Message | None:
                return LATER

        child = await stage.add(lambda: Never("never"))
        ask = asyncio.create_task(stage.node.ask("never", timeout=None))
        await settle()
        await child.stop(SHUTDOWN)
        with pytest.raises(CoterieError):
            await ask

    play(scene)
