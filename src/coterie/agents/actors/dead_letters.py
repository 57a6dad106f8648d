"""Dead letters: messages that were not handled and whose sender does not wait for an answer."""

import os
from asyncio import TimerHandle, get_running_loop
from collections import Counter, deque
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from coterie.agents.actors.message import Message
from coterie.agents.backends.secrets import Secrets
from coterie.history.journal.records import LetterDead, Record

Sink = Callable[[Record], None]
"""Accepts records of actors; returns at once, never raises, and writes them later."""

TEXTS = ("detail", "error", "payload", "problem", "reason", "result", "trace")
"""The fields of actors' records with text from user code."""


def hiding_secrets(sink: Sink | None) -> Sink | None:
    """Wrap *sink* so that it receives records without the secrets of the environment."""
    secrets = Secrets(os.environ)
    if sink is None or not secrets.values:
        return sink
    return lambda record: sink(secrets.hide_fields(record, *TEXTS))


SINGLE, WINDOW = 100, 60.0
"""How many letters with one recipient and reason are recorded one by one within so many seconds."""

COUNTED = 1.0
"""Seconds after which counted letters are recorded together."""

KEPT = 1000
"""How many dead letters a node keeps; all are counted and recorded."""


class DeadLetters:
    """The dead letters of a node, with reasons.

    Attributes:
        counts: Their number by reason.
        on_add: Called with each one.
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
        """The latest dead letters with their reasons, oldest first."""
        return iter(self._kept)

    def of(self, recipient: str) -> list[Message]:
        """The latest dead letters to *recipient*, oldest first."""
        return [message for message, _ in self._kept if message.recipient == recipient]

    def add(self, message: Message, reason: str, detail: str = "") -> None:
        """Count, keep and record *message*; in a burst, one record covers several letters."""
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
        """Count a letter that a worker reports; the worker has recorded it."""
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
        """Record the letters that were only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counted, self._counted = self._counted, {}
        for letter in counted.values():
            self._sink(letter)
