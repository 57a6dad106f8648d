"""The one stream of what attempts do while they run, for all who show or keep it."""

from collections.abc import Callable

from coterie.backends.base import AttemptRef, Event

Subscriber = Callable[[AttemptRef, Event], object]
"""Called with the attempt and its event, on the event loop."""


class AttemptEvents:
    """Passes each event of each attempt on to every subscriber, in the order they subscribed.

    The events of one attempt come in order. They are not durable, and what they lead to in the run is in its journal.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call *subscriber* with every event from now on, until the function returned is called."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def publish(self, ref: AttemptRef, event: Event) -> None:
        """Pass *event* of the attempt *ref* on."""
        for subscriber in tuple(self._subscribers):
            subscriber(ref, event)
