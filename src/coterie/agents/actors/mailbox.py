"""The bounded queue of messages in front of an actor."""

from asyncio import Future
from bisect import insort
from collections import deque
from collections.abc import Callable

from coterie.agents.actors.message import Message


class Mailbox:
    """Unhandled messages in order of arrival; messages with a priority come first.

    Each of the two lanes holds at most *size* messages (0: any number). Further messages wait outside, in order. Empty
    mailboxes allocate no queues, since most agents of a large system are idle.
    """

    __slots__ = ("_queue", "_urgent", "_waiting", "size")

    def __init__(self, size: int) -> None:
        self.resize(size)
        self._queue: deque[Message] | None = None
        self._urgent: list[Message] | None = None
        self._waiting: deque[tuple[Message, Future[None] | None]] | None = None

    def resize(self, size: int) -> None:
        """Set the capacity of a lane; 0: unlimited."""
        self.size = size or 1 << 62

    def __len__(self) -> int:
        return len(self._queue or ()) + len(self._urgent or ()) + len(self._waiting or ())

    def offer(self, message: Message) -> bool:
        """Take *message*, unless its lane is full or other messages wait for room."""
        if message.priority or self._waiting or (queue := self._queue) is None:
            if not self.has_room(message.priority):
                return False
            self.post(message)
            return True
        if len(queue) >= self.size:
            return False
        queue.append(message)
        return True

    def has_room(self, priority: int = 0) -> bool:
        """Whether a message would be taken at once."""
        return not self._waiting and len((self._urgent if priority else self._queue) or ()) < self.size

    def post(self, message: Message) -> None:
        """Take *message* even if the mailbox is full; for messages of the runtime, which cannot wait."""
        if message.priority:
            if self._urgent is None:
                self._urgent = []
            insort(self._urgent, message, key=lambda one: -one.priority)
        else:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(message)

    def wait(self, message: Message, taken: "Future[None] | None") -> None:
        """Let *message* wait for room; *taken* is resolved when the mailbox has it."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((message, taken))

    def withdraw(self, message: Message) -> bool:
        """Remove *message* if it is in the mailbox or waits for room; False if it was taken or handled."""
        for entry in self._waiting or ():
            if entry[0] is message:
                assert self._waiting is not None
                self._waiting.remove(entry)
                return True
        lane = self._urgent if message.priority else self._queue
        if lane is None or message not in lane:
            return False
        lane.remove(message)
        self._admit()
        return True

    def find(self, matches: Callable[[Message], bool]) -> Message | None:
        """The first message that *matches*."""
        everything = (*(self._urgent or ()), *(self._queue or ()), *(entry[0] for entry in self._waiting or ()))
        return next((message for message in everything if matches(message)), None)

    def pop(self) -> Message | None:
        """The next message to handle, if any; the first that waits for room takes its place."""
        if self._urgent:
            message = self._urgent.pop(0)
        elif queue := self._queue:
            message = queue.popleft()
        else:
            return None
        if self._waiting:
            self._admit()
        return message

    def _admit(self) -> None:
        for entry in self._waiting or ():
            message, taken = entry
            lane = self._urgent if message.priority else self._queue
            if len(lane or ()) < self.size:
                assert self._waiting is not None
                self._waiting.remove(entry)
                self.post(message)
                if taken is not None and not taken.done():
                    taken.set_result(None)
                return

    def empty(self) -> list[tuple[Message, "Future[None] | None"]]:
        """Remove and return all messages, with the futures of the senders that still wait for room."""
        held: list[tuple[Message, Future[None] | None]] = [
            (one, None) for one in (*(self._urgent or ()), *(self._queue or ()))
        ]
        held.extend(self._waiting or ())
        self._urgent = self._queue = self._waiting = None
        return held
