"""When a program is told of what came of its calls."""

import asyncio

from coterie.base.clock import VirtualClock
from coterie.history.engines.program import DROPPED
from coterie.history.journal.records import CallAsked, TurnCancelled, TurnFinished
from coterie.patterns.reference.replies import Replies


def asked(turn: str) -> CallAsked:
    return CallAsked(turn=turn, agent=turn[0])


def ended(turn: str) -> TurnFinished:
    return TurnFinished(turn=turn, attempt=1, text=f"of {turn}")


def test_an_outcome_waits_for_the_calls_before_it() -> None:
    """However long the program takes to make them."""

    async def main() -> list[str]:
        replies = Replies([asked("a#1"), asked("b#1"), ended("a#1"), ended("b#1")])
        told: list[str] = []

        async def call(turn: str) -> None:
            told.append((await replies.of(turn)).turn)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(call("a#1"))
            await asyncio.sleep(30)
            assert told == []
            tasks.create_task(call("b#1"))
        return told

    assert VirtualClock().run(main()) == ["a#1", "b#1"]


def test_a_program_that_does_not_make_a_call_again_does_not_wait_for_ever() -> None:
    """After a while it is told all the same, and what it does then shows that it is another one."""

    async def main() -> float:
        replies = Replies([asked("a#1"), asked("b#1"), ended("a#1")])
        await replies.of("a#1")
        return asyncio.get_running_loop().time()

    assert VirtualClock().run(main()) == 60.0


def test_who_was_told_goes_on_before_the_next_is_told() -> None:
    """Several levels of tasks deep."""

    async def main() -> list[str]:
        replies = Replies([])
        told: list[str] = []

        async def deep(turn: str, levels: int) -> None:
            if levels:
                await asyncio.gather(deep(turn, levels - 1))
            else:
                await replies.of(turn)

        async def call(turn: str) -> None:
            await deep(turn, 4)
            told.append(f"{turn} went on")

        async def watch(turn: str) -> None:
            await replies.of(turn)
            told.append(f"{turn} told")

        tasks = [asyncio.create_task(call("a#1")), asyncio.create_task(watch("b#1"))]
        await asyncio.sleep(1)
        replies.came(ended("a#1"))
        replies.came(ended("b#1"))
        await asyncio.gather(*tasks)
        return told

    assert VirtualClock().run(main()) == ["a#1 went on", "b#1 told"]


def test_nobody_is_told_of_a_call_that_was_dropped() -> None:
    """It waits, as it did before; a call that somebody else called off is told of."""

    async def main() -> list[str]:
        dropped = TurnCancelled(turn="a#1", reason=DROPPED)
        called_off = TurnCancelled(turn="b#1", reason="an operator cancelled it")
        replies = Replies([asked("a#1"), asked("b#1"), dropped, called_off])
        first = replies.of("a#1")
        second = await replies.of("b#1")
        await asyncio.sleep(100)
        assert not first.done()
        first.cancel()
        return [second.turn]

    assert VirtualClock().run(main()) == ["b#1"]


def test_who_gave_up_is_not_told_but_who_asks_later() -> None:
    """A caller that was called off while it waited; what came is kept."""

    async def main() -> list[str]:
        replies = Replies([asked("a#1")])
        replies.of("a#1").cancel()
        replies.came(ended("a#1"))
        return [(await replies.of("a#1")).turn]

    assert VirtualClock().run(main()) == ["a#1"]


def test_an_outcome_waits_until_it_is_safe() -> None:
    """And so do those after it."""

    async def main() -> list[bool]:
        replies = Replies([], safe=1)
        future = replies.of("a#1")
        replies.came(TurnFinished(turn="a#1", attempt=1, seq=3))
        replies.tell(2)
        before = future.done()
        replies.tell(3)
        return [before, future.done()]

    assert VirtualClock().run(main()) == [False, True]
