"""The heartbeats of one node, with their times, so that the age of an answer is known."""

from collections.abc import Callable
from math import inf

BEATS = 6
"""The number of heartbeats within the heartbeat timeout."""

LEASE = 4
"""How many intervals between heartbeats a lease lasts; the rest is for stopping the agents under it."""

REMEMBERED = 64
"""How many heartbeats' times are kept."""


class Heartbeats:
    """Numbers the heartbeats from 1, and keeps the time when each was sent.

    Args:
        timeout: The heartbeat timeout of the system.
        now: A monotonic clock which, if the system has one, includes time in which the machine was suspended.

    Attributes:
        timeout: The heartbeat timeout of the system.
        every: Seconds between two heartbeats.
        number: The number of the last heartbeat.
        lease: Seconds for which a confirmed heartbeat counts, from its sending.
    """

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self.timeout, self.now = timeout, now
        self.every, self.lease = timeout / BEATS, timeout * LEASE / BEATS
        self.number = 0
        self._sent: dict[int, float] = {}

    def next(self) -> int:
        """Store the present time for the next heartbeat; return its number."""
        self.number += 1
        self._sent[self.number] = self.now()
        self._sent.pop(self.number - REMEMBERED, None)
        return self.number

    def sent_at(self, number: int) -> float:
        """When the heartbeat *number* was sent; minus infinity if that is unknown."""
        return self._sent.get(number, -inf)

    def age(self, number: int) -> float:
        """Seconds since the heartbeat *number*; infinity if that is unknown."""
        return self.now() - self.sent_at(number)
