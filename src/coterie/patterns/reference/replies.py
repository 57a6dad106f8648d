"""Deliver the outcomes of calls to a program: in the order of the journal, the first time and at every resume.

A restarted program makes the same calls, and no answer may arrive before the calls that precede it in the journal: code
that looks at the answers so far would see a different state. So an outcome waits for the calls before it. While other
outcomes are awaited, the next is delivered only when nothing is ready to run any more, or after some turns of the event
loop: by then the waiter of the first one has continued.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable

from coterie.history.engines.program import DROPPED, Outcome
from coterie.history.journal.records import CallAsked, TurnCancelled

_TURNS = 16
"""The most turns of the event loop between two outcomes; a few more than nested tasks need to continue."""


class Replies:
    """Delivers the outcomes of calls to one program.

    Args:
        history: The calls and outcomes of earlier owners.
        safe: The last record that the program may learn of.
        patience: Seconds that an earlier outcome waits for a call that the program does not repeat. After that,
            outcomes are delivered on request, and the end shows whether the program has changed.

    Attributes:
        asked: The calls made since the program began.
    """

    def __init__(self, history: Iterable[CallAsked | Outcome], safe: float = math.inf, patience: float = 60.0) -> None:
        self._queue: deque[CallAsked | Outcome] = deque(history)
        self._safe, self._patience = safe, patience
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._told: dict[str, Outcome] = {}
        self._busy = False
        self._stuck: asyncio.TimerHandle | None = None
        self._ordered = True
        self.asked: set[str] = set()

    def of(self, turn: str) -> asyncio.Future[Outcome]:
        """The outcome of the call *turn*, once it may be delivered; never, if an earlier caller dropped it."""
        self.asked.add(turn)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if turn in self._told:
            future.set_result(self._told[turn])
        else:
            self._waiting[turn] = future
            self._go_on()
        return future

    def came(self, outcome: Outcome) -> None:
        """Note that a call of this program has ended; its outcome is delivered once it is safe."""
        self._queue.append(outcome)
        self._go_on()

    def tell(self, upto: int) -> None:
        """Deliver outcomes up to the record *upto*."""
        self._safe = max(self._safe, upto)
        self._go_on()

    def deliver(self, outcome: Outcome) -> bool:
        """Deliver *outcome* at once, and return whether a caller waits for it."""
        if isinstance(outcome, TurnCancelled) and outcome.reason == DROPPED:
            return False
        self._told[outcome.turn] = outcome
        future = self._waiting.pop(outcome.turn, None)
        if future is None or future.done():
            return False
        future.set_result(outcome)
        return True

    def close(self) -> None:
        """Note that the program is over."""
        self._queue.clear()
        if self._stuck is not None:
            self._stuck.cancel()

    def _go_on(self) -> None:
        if not self._busy:
            self._next()

    def _next(self) -> None:
        """Deliver the next outcome if the calls before it were made."""
        self._busy = False
        loop = asyncio.get_running_loop()
        while self._queue and self._queue[0].seq <= self._safe:
            first = self._queue[0]
            if isinstance(first, CallAsked) and self._ordered and first.turn not in self.asked:
                self._stuck = self._stuck or loop.call_later(self._patience, self._give_up_order)
                return
            self._queue.popleft()
            if not isinstance(first, CallAsked) and self.deliver(first) and self._waiting:
                self._busy = True
                self._later(loop, _TURNS)
                break
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _later(self, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        """Go on when nothing else is ready to run, which only asyncio's own loops tell, or after *turns* turns."""
        if turns and getattr(loop, "_ready", True):
            loop.call_soon(self._later, loop, turns - 1)
        else:
            self._next()

    def _give_up_order(self) -> None:
        self._stuck, self._ordered = None, False
        self._go_on()
