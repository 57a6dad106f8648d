"""What happens to the runs of one owner, in line."""

import asyncio

from coterie.clock import VirtualClock
from coterie.runs.line import Line


def test_what_came_together_is_handled_in_order() -> None:
    """The lower number first; of equals, whichever came first."""
    line, heard = Line(), list[str]()
    for order, name in ((2, "late"), (0, "first"), (1, "middle"), (0, "second")):
        line.put(order, lambda name=name: heard.append(name))  # type: ignore[misc]

    assert line.handle()
    assert heard == ["first", "second", "middle", "late"]
    assert not line
    assert not line.handle()


def test_what_comes_while_something_is_handled_waits_for_the_next_time() -> None:
    """One event's consequences do not overtake what stood in line with it, whatever their number."""
    line, heard = Line(), list[str]()

    def first() -> None:
        heard.append("first")
        line.put(0, lambda: heard.append("consequence"))

    line.put(1, first)
    line.put(2, lambda: heard.append("second"))

    assert line.handle()
    assert heard == ["first", "second"]
    assert line.handle()
    assert heard == ["first", "second", "consequence"]


def test_the_owner_is_woken_up_once_for_all_that_came() -> None:
    """It sleeps until the first event and, when that is handled, until the next."""
    line, woken = Line(), list[float]()
    clock = VirtualClock()

    async def owner() -> None:
        line.put_later(2.0, lambda: None)
        line.put_later(2.0, lambda: None)
        line.put_later(5.0, lambda: None)
        for _ in range(2):
            await line.rung()
            await asyncio.sleep(0)  # whoever came at the same instant is there, too
            line.handle()
            woken.append(clock.now())

    clock.run(owner())
    assert woken == [2.0, 5.0]


def test_an_owner_may_be_woken_up_though_nothing_came() -> None:
    """Something has changed that it should see."""
    line, clock = Line(), VirtualClock()

    async def owner() -> float:
        asyncio.get_running_loop().call_later(3.0, line.ring)
        await line.rung()
        return clock.now()

    assert clock.run(owner()) == 3.0
    assert not line


def test_what_is_due_already_does_not_wait() -> None:
    """A time that has passed is now."""
    line, heard = Line(), list[str]()
    line.put_later(-1.0, lambda: heard.append("due"))

    assert line.handle()
    assert heard == ["due"]


def test_a_closed_line_keeps_nobody_waiting() -> None:
    """What stood in line is still handled; what comes then is handled at once."""
    line, heard = Line(), list[str]()
    line.put(0, lambda: heard.append("before"))
    line.close()
    line.put(0, lambda: heard.append("after"))
    assert heard == ["after"]

    line.handle()
    assert heard == ["after", "before"]


def test_an_owner_that_failed_forgets_what_stood_in_line() -> None:
    """Nothing is judged any more."""
    line = Line()
    line.put(0, lambda: None)
    line.clear()

    assert not line
