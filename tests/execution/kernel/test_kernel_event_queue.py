"""The queue of events of one owner."""

import asyncio

from coterie.base.clock import VirtualClock
from coterie.execution.kernel.event_queue import EventQueue


def test_what_came_together_is_handled_in_order() -> None:
    """The lower number first; of equals, whichever came first."""
    queue, heard = EventQueue(), list[str]()
    for order, name in ((2, "late"), (0, "first"), (1, "middle"), (0, "second")):
        queue.put(order, lambda name=name: heard.append(name))  # type: ignore[misc]

    assert queue.handle()
    assert heard == ["first", "second", "middle", "late"]
    assert not queue
    assert not queue.handle()


def test_what_comes_while_something_is_handled_waits_for_the_next_time() -> None:
    """One event's consequences do not overtake what was queued with it, whatever their number."""
    queue, heard = EventQueue(), list[str]()

    def first() -> None:
        heard.append("first")
        queue.put(0, lambda: heard.append("consequence"))

    queue.put(1, first)
    queue.put(2, lambda: heard.append("second"))

    assert queue.handle()
    assert heard == ["first", "second"]
    assert queue.handle()
    assert heard == ["first", "second", "consequence"]


def test_the_owner_is_woken_up_once_for_all_that_came() -> None:
    """It sleeps until the first event and, when that is handled, until the next."""
    queue, woken = EventQueue(), list[float]()
    clock = VirtualClock()

    async def owner() -> None:
        queue.put_later(2.0, lambda: None)
        queue.put_later(2.0, lambda: None)
        queue.put_later(5.0, lambda: None)
        for _ in range(2):
            await queue.wait()
            await asyncio.sleep(0)  # whoever came at the same instant is there, too
            queue.handle()
            woken.append(clock.now())

    clock.run(owner())
    assert woken == [2.0, 5.0]


def test_an_event_whose_time_has_come_is_first() -> None:
    """As one without a delay: what an attempt does at the same moment comes after its time-out."""
    queue, heard, clock = EventQueue(), list[str](), VirtualClock()

    async def owner() -> None:
        for wait in (0.0, 1.0):
            queue.put(1, lambda: heard.append("attempt"))
            queue.put_later(wait, lambda: heard.append("timer"))
            await asyncio.sleep(wait)
            queue.handle()

    clock.run(owner())
    assert heard == ["timer", "attempt"] * 2


def test_an_owner_may_be_woken_up_though_nothing_came() -> None:
    """Something has changed that it should see."""
    queue, clock = EventQueue(), VirtualClock()

    async def owner() -> float:
        asyncio.get_running_loop().call_later(3.0, queue.wake)
        await queue.wait()
        return clock.now()

    assert clock.run(owner()) == 3.0
    assert not queue


def test_what_is_due_already_does_not_wait() -> None:
    """A time that has passed is now."""
    queue, heard = EventQueue(), list[str]()
    queue.put_later(-1.0, lambda: heard.append("due"))

    assert queue.handle()
    assert heard == ["due"]


def test_a_closed_line_keeps_nobody_waiting() -> None:
    """What stood in queue is still handled; what comes then is handled at once."""
    queue, heard = EventQueue(), list[str]()
    queue.put(0, lambda: heard.append("before"))
    queue.close()
    queue.put(0, lambda: heard.append("after"))
    assert heard == ["after"]

    queue.handle()
    assert heard == ["after", "before"]


def test_an_owner_that_failed_forgets_what_stood_in_line() -> None:
    """Nothing is judged any more."""
    queue = EventQueue()
    queue.put(0, lambda: None)
    queue.clear()

    assert not queue
