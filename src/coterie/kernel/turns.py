"""The port through which a run starts turns.

A run knows nothing of processes, models or machines: it starts an attempt and gets a `Session`. The local form is
`coterie.runs.local_turns`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from coterie.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Backend,
    Failure,
    Found,
    OnEvent,
    Request,
    Result,
    Session,
    Unknown,
)
from coterie.errors import CoterieError
from coterie.journal.records import AttemptLaunched
from coterie.planning.plan import AgentPlan
from coterie.shortages import shortage


class Turns(Protocol):
    """Starts attempts, wherever they run. By default they can do no more than that, and leave nothing behind."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt that *request* describes."""
        ...

    def uses_context(self, agent: AgentPlan) -> bool:
        """Whether the requests of *agent* need their `context`."""
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        """What the backend of *agent* can do."""
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Look for the attempt that *request* describes, which an earlier owner started, and change nothing of it.

        *on_event* is given all that it has said from its beginning, if it is found.
        """
        return Unknown()

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        """The CPU seconds of the processes in *launched* and of those that they started, with their pids.

        None if that is not known.
        """
        return None

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End what earlier owners' attempts of *run* and of its child runs left alive, and wait until it has ended.

        The attempts in *spared*, and the child runs that they are, go on.
        """
        return

    async def close(self) -> None:
        """End what still runs. Idempotent."""
        return


@runtime_checkable
class InProcess(Protocol):
    """Turns that are attempts of backends in this process."""

    def backend(self, name: str) -> Backend | None:
        """The backend *name*, made if need be; None if there is none."""


class CompletedSession:
    """A session that has its result already."""

    def __init__(self, result: Result) -> None:
        self._result = result

    async def result(self) -> Result:
        """The result."""
        return self._result

    async def interrupt(self) -> None:
        """Nothing runs."""

    async def steer(self, text: str) -> bool:
        """Reject the text: nothing runs."""
        return False


async def ask(start: Awaitable[Session], started: Callable[[Session], object]) -> Answer | Failure:
    """Run one attempt to its result; *started* is given its session. What escapes from a backend becomes `crashed`."""
    try:
        session = await start
        started(session)
        return await session.result()
    except Exception as error:  # a failure becomes a record here, whatever a backend or a user's code raised
        if lacks := shortage(error):
            return Failure(kind="shortage", reason=lacks)
        if isinstance(error, CoterieError):
            return Failure(kind="failed", reason=str(error))
        return Failure(kind="crashed", reason=f"{type(error).__name__}: {error}")
