"""When a program hears what came of its calls: in the order of the journal, the first time and at every resume.

A program that begins again makes the same calls, and each answer must not come before the calls that stood before it in
the journal: code that looks at what has come so far would see something else. So an outcome waits for the calls before
it; and while others are waited for, the next is told only when nothing is ready to run any more, or after some turns of
the event loop: whoever waited for the first has then gone on.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from coterie.engines.program import DROPPED, Outcome
from coterie.journal.records import CallAsked, TurnCancelled

_TURNS = 16
"""Turns of the event loop between two outcomes at most; a few more than nested tasks take to go on."""


class Replies:
    """Tells one program of the outcomes of its calls.

    Args:
        history: The calls and outcomes of earlier owners.
        patience: Seconds that an outcome of those waits for a call that the program does not make again. Then all are
            told as they are asked for, and the end shows whether the program is another one.

    Attributes:
        asked: The calls that were made since the program began.
    """

    def __init__(self, history: Iterable[CallAsked | Outcome], patience: float = 60.0) -> None:
        self._queue: deque[CallAsked | Outcome] = deque(history)
        self._patience = patience
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._told: dict[str, Outcome] = {}
        self._busy = False
        self._stuck: asyncio.TimerHandle | None = None
        self._ordered = True
        self.asked: set[str] = set()

    def of(self, turn: str) -> asyncio.Future[Outcome]:
        """What comes of the call *turn*, once it is to be told; never, if an earlier caller had dropped it."""
        self.asked.add(turn)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if turn in self._told:
            future.set_result(self._told.pop(turn))
        else:
            self._waiting[turn] = future
            self._go_on()
        return future

    def came(self, outcome: Outcome) -> None:
        """A call of this program has ended."""
        self._queue.append(outcome)
        self._go_on()

    def close(self) -> None:
        """The program is over."""
        self._queue.clear()
        if self._stuck is not None:
            self._stuck.cancel()

    def _go_on(self) -> None:
        if not self._busy:
            self._next()

    def _next(self) -> None:
        """Tell the next outcome, if the calls before it were made."""
        self._busy = False
        while self._queue:
            first = self._queue[0]
            if isinstance(first, CallAsked):
                if self._ordered and first.turn not in self.asked:
                    self._wait_for_it()
                    return
                self._queue.popleft()
                continue
            self._queue.popleft()
            if self._tell(first) and self._waiting:
                self._busy = True
                self._later(_TURNS)
                break
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _tell(self, outcome: Outcome) -> bool:
        if isinstance(outcome, TurnCancelled) and outcome.reason == DROPPED:
            return False
        future = self._waiting.pop(outcome.turn, None)
        if future is None or future.done():
            self._told[outcome.turn] = outcome
            return False
        future.set_result(outcome)
        return True

    def _later(self, turns: int) -> None:
        loop = asyncio.get_running_loop()
        if turns and not _is_quiet(loop):
            loop.call_soon(self._later, turns - 1)
        else:
            self._next()

    def _wait_for_it(self) -> None:
        if self._stuck is None:
            self._stuck = asyncio.get_running_loop().call_later(self._patience, self._give_up_order)

    def _give_up_order(self) -> None:
        self._stuck, self._ordered = None, False
        self._go_on()


def _is_quiet(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nothing but this is ready to run. Loops other than asyncio's own do not say."""
    ready = getattr(loop, "_ready", None)
    return ready is not None and not ready
