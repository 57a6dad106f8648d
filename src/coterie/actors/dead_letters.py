"""Messages that were not handled, and of which no asker was informed."""

import os
from asyncio import TimerHandle, get_running_loop
from collections import Counter, deque
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from coterie.actors.message import Message
from coterie.backends.secrets import Secrets
from coterie.journal.records import LetterDead, Record

Sink = Callable[[Record], None]
"""Takes records of actors; returns at once, never raises, and writes them later."""

TEXTS = ("detail", "error", "payload", "problem", "reason", "result", "trace")
"""The fields of records of actors that have what code of users says."""


def hiding_secrets(sink: Sink | None) -> Sink | None:
    """*sink* for records without the secrets of the environment."""
    secrets = Secrets(os.environ)
    if sink is None or not secrets.values:
        return sink
    return lambda record: sink(secrets.hide_fields(record, *TEXTS))


SINGLE, WINDOW = 100, 60.0
"""How many of one recipient and reason have a record each, in so many seconds; further ones are counted."""

COUNTED = 1.0
"""Seconds after which those that were counted have a record."""

KEPT = 1000
"""How many dead letters a node keeps; all of them are counted and recorded."""


class DeadLetters:
    """The messages of a node that no agent handled, with the reason.

    Attributes:
        counts: How many there were, by reason.
        on_add: Called with each.
    """

    def __init__(self, sink: Sink) -> None:
        self.counts: Counter[str] = Counter()
        self.on_add: Callable[[Message], None] | None = None
        self._sink = sink
        self._began = float("-inf")
        self._single: Counter[tuple[str, str]] = Counter()
        self._counted: dict[tuple[str, str], LetterDead] = {}
        self._timer: TimerHandle | None = None
        self._kept: deque[tuple[Message, str]] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[tuple[Message, str]]:
        """The latest ones with their reasons, oldest first."""
        return iter(self._kept)

    def of(self, recipient: str) -> list[Message]:
        """The latest ones to *recipient*, oldest first."""
        return [message for message, _ in self._kept if message.recipient == recipient]

    def add(self, message: Message, reason: str, detail: str = "") -> None:
        """Count, keep and record that *message* was not handled; in a burst, one record counts several."""
        self.counts[reason] += 1
        self._kept.append((message, reason))
        self._record(
            LetterDead(
                id=message.id,
                recipient=message.recipient,
                sender=message.sender,
                type=message.type,
                reason=reason,
                detail=detail,
            )
        )
        if self.on_add is not None:
            self.on_add(message)

    def count_elsewhere(self, letter: LetterDead) -> None:
        """Count what a worker reports; it recorded the letter itself."""
        self.counts[letter.reason] += letter.count
        about = letter.id, letter.type, letter.sender, letter.recipient
        self._kept.append((Message(*about), letter.reason))

    def _record(self, letter: LetterDead) -> None:
        key, loop = (letter.recipient, letter.reason), get_running_loop()
        if loop.time() - self._began >= WINDOW:
            self._began = loop.time()
            self._single.clear()
        if self._single[key] < SINGLE:
            self._single[key] += 1
            self._sink(letter)
            return
        before = self._counted.get(key)
        self._counted[key] = letter if before is None else replace(letter, count=before.count + 1)
        if self._timer is None:
            self._timer = loop.call_later(COUNTED, self.flush)

    def flush(self) -> None:
        """Record those that were only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counted, self._counted = self._counted, {}
        for letter in counted.values():
            self._sink(letter)
