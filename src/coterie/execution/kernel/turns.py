"""The port through which a run starts turns, and the stream of their events.

A run knows nothing of processes, models or machines: it starts an attempt and gets a `Session`. The local
implementation is `coterie.execution.runs.local_turns`.
"""

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Backend,
    Event,
    Failure,
    Found,
    Request,
    Result,
    Session,
    Unknown,
)
from coterie.base.shortages import shortage
from coterie.base.user_code import CANCELLED, error_line, leaves_loop
from coterie.errors import CoterieError
from coterie.execution.kernel.stall import Quiet
from coterie.history.journal.records import AttemptLaunched
from coterie.team.planning.plan import AgentPlan

TurnEvent = Event | Quiet
"""An event of an attempt, or of the watch on it where it runs."""
OnTurnEvent = Callable[[TurnEvent], None]


class Turns(Protocol):
    """Starts attempts, wherever they run. By default nothing else is supported, and attempts leave nothing behind."""

    async def start(self, request: Request, on_event: OnTurnEvent) -> Session:
        """Start the attempt that *request* describes."""
        ...

    def uses_context(self, agent: AgentPlan) -> bool:
        """Whether the requests of *agent* need their `context`."""
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        """The abilities of the backend of *agent*."""
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnTurnEvent) -> Found:
        """Find the attempt that *request* describes, which an earlier owner started, without changing it.

        If it is found, *on_event* receives all its events from the beginning.
        """
        return Unknown()

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        """The CPU seconds and pids of the processes in *launched* and of their descendants; None if unknown."""
        return None

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End the processes that earlier owners' attempts of *run* and its child runs left alive; wait for their end.

        The attempts in *spared*, and their child runs, continue.
        """
        return

    async def close(self) -> None:
        """End all running attempts. Idempotent."""
        return


@runtime_checkable
class InProcess(Protocol):
    """Turns whose attempts run on backends in this process."""

    def backend(self, name: str) -> Backend | None:
        """The backend *name*, created on first use; None if there is none."""


Subscriber = Callable[[AttemptRef, Event], object]
"""Called with the attempt and its event, on the event loop."""


class AttemptEvents:
    """Passes each event of each attempt on to every subscriber, in the order they subscribed.

    The events of one attempt come in order. They are not durable; their consequences for the run are in its journal.
    """

    def __init__(self) -> None:
        self.subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call *subscriber* with every event from now on, until the function returned is called."""
        self.subscribers.append(subscriber)
        return lambda: self.subscribers.remove(subscriber)

    def publish(self, ref: AttemptRef, event: Event) -> None:
        """Pass *event* of the attempt *ref* on."""
        for subscriber in tuple(self.subscribers):
            subscriber(ref, event)


class CompletedSession:
    """A session that already has its result."""

    def __init__(self, result: Result) -> None:
        self._result = result

    async def result(self) -> Result:
        """The result."""
        return self._result

    async def interrupt(self) -> None:
        """Do nothing: nothing runs."""

    async def steer(self, text: str) -> bool:
        """Reject the text: nothing runs."""
        return False


async def ask(
    start: Awaitable[Session], started: Callable[[Session], object], is_ended: Callable[[], bool] = lambda: True
) -> Answer | Failure:
    """Run one attempt to its result; *started* is called with its session. An exception becomes `crashed`.

    Args:
        is_ended: Whether a cancellation of this task comes from its owner; else the attempt's own code made it.
    """
    try:
        session = await start
        started(session)
        return await session.result()
    except CancelledError:
        if (task := current_task()) is None or (task.cancelling() and is_ended()):
            raise
        own = bool(task.cancelling())
        while task.cancelling():
            task.uncancel()
        return Failure(kind="crashed", reason="it cancelled its own task" if own else CANCELLED)
    except BaseException as error:  # a failure becomes a record here, whatever a backend or a user's code raised
        if leaves_loop(error):
            raise
        if lacks := shortage(error):
            return Failure(kind="shortage", reason=lacks)
        if isinstance(error, CoterieError):
            return Failure(kind="failed", reason=str(error))
        raised = error if isinstance(error, Exception) else RuntimeError(error_line(error))
        return Failure(kind="crashed", reason=f"{type(raised).__name__}: {raised}")
