"""A mailbox keeps order, bounds and what waits for room; tasks and timers end with their incarnation."""

import asyncio
from asyncio import Future
from typing import Any

import pytest
from actor_stage import Held, Stage, play
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.agents.actors.mailbox import Mailbox
from coterie.agents.actors.message import Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.owned_work import OwnedWork
from coterie.errors import AskTimedOut

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "pop", "cancel", "withdraw", "post"]), st.integers(0, 2), st.integers(0, 9)
    )
)


def taken_order(steps: list[tuple[str, int, int]], size: int) -> tuple[list[int], list[int]]:
    """The numbers of the messages in the order in which a mailbox and a plain model give them out."""
    loop = asyncio.new_event_loop()
    box = Mailbox(size)
    inside: list[tuple[int, int]] = []
    outside: list[tuple[int, int]] = []
    messages: dict[int, tuple[Message, Future[None] | None]] = {}
    given_out: list[int] = []
    expected: list[int] = []

    def is_full(priority: int) -> bool:
        return sum((other > 0) == (priority > 0) for other, _ in inside) >= size

    def admit() -> None:
        for one in outside:
            if not is_full(one[0]):
                outside.remove(one)
                inside.append(one)
                return

    def pop() -> None:
        message = box.pop()
        given_out.append(-1 if message is None else int(message.id))
        best = max(inside, key=lambda one: one[0], default=None)
        expected.append(-1 if best is None else best[1])
        if best is not None:
            inside.remove(best)
            admit()

    for number, (step, priority, choice) in enumerate(steps):
        message = Message(str(number), "message", "a", "b", priority=priority)
        match step:
            case "put" | "post":
                taken: Future[None] | None = None
                if step == "post":
                    box.post(message)
                    inside.append((priority, number))
                elif box.offer(message):
                    assert not outside
                    assert not is_full(priority)
                    inside.append((priority, number))
                else:
                    taken = loop.create_future()
                    box.wait(message, taken)
                    outside.append((priority, number))
                messages[number] = message, taken
            case "pop":
                pop()
            case "cancel" | "withdraw" if messages:
                chosen = sorted(messages)[choice % len(messages)]
                message, taken = messages.pop(chosen)
                if step == "cancel" and taken is not None:
                    taken.cancel()  # its sender withdraws it a moment later
                else:
                    one = (message.priority, chosen)
                    assert box.withdraw(message) == (one in inside or one in outside)
                    if one in outside:
                        outside.remove(one)
                    elif one in inside:
                        inside.remove(one)
                        admit()
        assert len(box) == len(inside) + len(outside)
        waiting = {number for number, (_, taken) in messages.items() if taken is not None and not taken.done()}
        assert waiting <= {number for _, number in outside}, "admitted, and its sender does not know"
    while len(box):
        pop()
    for number, (_, taken) in messages.items():
        assert taken is None or taken.done()
        assert number in given_out
    loop.close()
    return given_out, expected


@example([("put", 0, 0), ("put", 0, 0), ("cancel", 0, 1), ("pop", 0, 0)], 1)
@example([("put", 0, 0), ("put", 0, 0), ("withdraw", 0, 0)], 1)
@example([("put", 1, 0), ("put", 0, 0), ("put", 2, 0), ("put", 0, 0), ("withdraw", 0, 0), ("withdraw", 0, 0)], 1)
@example([("put", 0, 0), ("put", 0, 0), ("put", 1, 0)], 1)
@given(STEPS, st.integers(1, 3))
def test_messages_come_out_in_order(steps: list[tuple[str, int, int]], size: int) -> None:
    """Higher priorities first, otherwise in order of arrival, whatever waits, is cancelled or withdrawn."""
    given_out, expected = taken_order(steps, size)

    assert given_out == expected


def test_what_a_mailbox_held_is_given_back_once() -> None:
    """The urgent messages, the others, those that wait for room with the futures of their senders; then it is empty."""
    loop, box = asyncio.new_event_loop(), Mailbox(1)
    plain, urgent, waits = (Message(id, "message", "a", "b", priority=id == "urgent") for id in ("1", "urgent", "2"))
    taken: Future[None] = loop.create_future()
    assert [box.offer(one) for one in (plain, urgent, waits)] == [True, True, False]
    box.wait(waits, taken)

    assert box.empty() == [(urgent, None), (plain, None), (waits, taken)]
    assert (len(box), box.empty(), box.pop(), taken.done()) == (0, [], None, False)
    assert box.offer(waits)
    loop.close()


def test_an_ask_that_times_out_makes_room_for_the_sender_behind_it() -> None:
    """Which does not wait until the agent takes its next message."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Held("echo", mailbox_size=1))
        await stage.node.send("echo", "held")
        await asyncio.sleep(0)
        ask = asyncio.create_task(stage.node.ask("echo", "queued", timeout=1))
        await asyncio.sleep(0)
        async with asyncio.timeout(1.5):
            await stage.node.send("echo", "behind")
        with pytest.raises(AskTimedOut):
            await ask
        assert isinstance(child.agent, Held)
        child.agent.release.set()
        await stage.node.ask("echo", "end")
        assert child.agent.seen == ["held", "behind", "end"]

    play(scene)


def test_work_that_begins_after_the_end_is_cancelled() -> None:
    """A task that cleans up may start another; nothing outlives the incarnation."""

    async def main() -> None:
        node = ActorNode()
        await node.start()
        failures: list[Any] = []
        owned = OwnedWork(node, failures.append)
        first = owned.start(asyncio.sleep(100))
        fired: list[int] = []
        owned.call_later(0.0, lambda: fired.append(1))
        await owned.end()
        second = owned.start(asyncio.sleep(100))
        await asyncio.wait({second}, timeout=1)
        assert first.cancelled()
        assert second.cancelled()
        assert failures == fired == []

    asyncio.run(main())
