"""The port through which a run starts turns, and its local form.

A run knows nothing of processes, models or machines: it starts an attempt and gets a `Session`. The local form asks
a backend in this process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from coterie.backends.base import Answer, Backend, Failure, Launched, OnEvent, Request, Result, Session
from coterie.errors import CoterieError, shortage
from coterie.journal.records import AttemptLaunched
from coterie.journal.rules import root_of
from coterie.runs import index


class Turns(Protocol):
    """Starts attempts, wherever they run."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt that *request* describes."""

    async def find(self, run: str, turn: str, attempt: int) -> Session | None:
        """The session of an attempt that an earlier owner started, if it still lives and can be adopted."""

    async def reap(self, run: str, launched: Sequence[AttemptLaunched]) -> None:
        """End whatever an earlier owner's attempts of *run* and of its child runs left alive, and wait until it is."""

    async def close(self) -> None:
        """End what still runs. Idempotent."""


class LocalTurns:
    """Asks the backend that each agent's plan names, in this process.

    Args:
        backends: By name; `default` answers for agents whose plan names none.
    """

    def __init__(self, backends: Mapping[str, Backend], default: str = "") -> None:
        self._backends, self._default = backends, default

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt with its agent's backend; an unknown backend is a `not_found` failure."""
        name = request.agent.backend or self._default
        backend = self._backends.get(name)
        if backend is None:
            known = ", ".join(sorted(self._backends))
            reason = f"agent {request.agent.name!r} wants the backend {name!r}, which is not one of {known}"
            return Settled(Failure(kind="not_found", reason=reason))
        return await backend.start(request, on_event)

    async def find(self, run: str, turn: str, attempt: int) -> Session | None:
        """None: what ran in an earlier process died with it, or is ended by `reap`."""
        return None

    async def reap(self, run: str, launched: Sequence[AttemptLaunched]) -> None:
        """End the processes that an earlier owner's attempts left alive.

        Those that only carry the run's name, too, unless there is another run of that name: they may be its own.
        """
        from coterie.backends.processes import end_orphans

        mark = "" if index.is_shared(root_of(run)) else f"{run}/"
        await end_orphans(mark, [Launched(pid=one.pid, group=one.group, started=one.started) for one in launched])

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.close()


class Settled:
    """A session that has its result already."""

    def __init__(self, result: Result) -> None:
        self._result = result

    async def result(self) -> Result:
        """The result."""
        return self._result

    async def interrupt(self) -> None:
        """Nothing runs."""

    async def steer(self, text: str) -> bool:
        """Nobody listens."""
        return False


async def ask(
    turns: Turns, request: Request, on_event: OnEvent, started: Callable[[Session], object]
) -> Answer | Failure:
    """Run one attempt to its result; *started* is given its session. What escapes from a backend becomes `crashed`."""
    try:
        session = await turns.start(request, on_event)
        started(session)
        return await session.result()
    except Exception as error:  # a failure becomes a record here, whatever a backend or a user's code raised
        if lacks := shortage(error):
            return Failure(kind="shortage", reason=lacks)
        if isinstance(error, CoterieError):
            return Failure(kind="failed", reason=str(error))
        return Failure(kind="crashed", reason=f"{type(error).__name__}: {error}")
