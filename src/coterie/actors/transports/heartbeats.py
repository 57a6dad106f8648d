"""The heartbeats of one node: when each was sent, so that an answer to one has an age."""

from collections.abc import Callable
from math import inf

BEATS = 6
"""Heartbeats within the heartbeat timeout."""

LEASE = 4
"""Intervals between heartbeats that a lease lasts; the others are for the end of what works under it."""

REMEMBERED = 64
"""Heartbeats whose time is known."""


class Heartbeats:
    """Numbers from 1, and the time at which each was sent.

    Args:
        timeout: The heartbeat timeout of the system.
        now: A clock that never goes back and, where there is one, counts the time in which the machine was suspended.

    Attributes:
        timeout: As it was given.
        every: Seconds between two heartbeats.
        number: That of the last one.
        lease: Seconds for which a confirmed heartbeat counts, from when it was sent.
    """

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self.timeout, self.now = timeout, now
        self.every, self.lease = timeout / BEATS, timeout * LEASE / BEATS
        self.number = 0
        self._sent: dict[int, float] = {}

    def next(self) -> int:
        """Note that the next heartbeat is sent now; return its number."""
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
