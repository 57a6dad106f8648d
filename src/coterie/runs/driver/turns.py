"""The port through which a run starts turns, and its local form.

A run knows nothing of processes, models or machines: it starts an attempt and gets a `Session`. The local form asks
a backend in this process.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from coterie.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Backend,
    Failure,
    Found,
    Lasting,
    Launched,
    OnEvent,
    Request,
    Result,
    Session,
    Unknown,
)
from coterie.errors import CoterieError, shortage
from coterie.journal.records import AttemptLaunched
from coterie.journal.rules import root_of
from coterie.planning.plan import AgentPlan
from coterie.runs import index


class Turns(Protocol):
    """Starts attempts, wherever they run."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt that *request* describes."""

    def uses_context(self, agent: AgentPlan) -> bool:
        """Whether the requests of *agent* need their `context`."""

    def abilities(self, agent: AgentPlan) -> Abilities:
        """What the backend of *agent* can do."""

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Look for the attempt that *request* describes, which an earlier owner started, and change nothing of it.

        *on_event* is given all that it has said from its beginning, if it is found.
        """

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        """The CPU seconds of the processes in *launched* and of those that they started, with their pids.

        None if that is not known.
        """

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End what earlier owners' attempts of *run* and of its child runs left alive, and wait until it has ended.

        The attempts in *spared*, and the child runs that they are, go on.
        """

    async def close(self) -> None:
        """End what still runs. Idempotent."""


class LocalTurns:
    """Asks the backend that each agent's plan names, in this process.

    Args:
        backends: By name; `default` answers for agents whose plan names none.
        makers: Make further backends, by name, when an attempt first needs them.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        default: str = "",
        makers: Mapping[str, Callable[[], Backend]] = MappingProxyType({}),
    ) -> None:
        self._backends, self._default, self._makers = dict(backends), default, makers

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt with its agent's backend; an unknown backend is a `not_found` failure."""
        backend = self._backend(request.agent)
        if backend is None:
            known = ", ".join(sorted({*self._backends, *self._makers}))
            name = request.agent.backend or self._default
            reason = f"agent {request.agent.name!r} needs the backend {name!r}; configured backends: {known}"
            return Settled(Failure(kind="not_found", reason=reason))
        return await backend.start(request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        """Whether the agent's backend says that it reads it."""
        return getattr(self._backend(agent), "uses_context", False)

    def abilities(self, agent: AgentPlan) -> Abilities:
        """What the agent's backend says; nothing without one."""
        return getattr(self._backend(agent), "abilities", NO_ABILITIES)

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Ask the agent's backend, if its attempts can outlive this process."""
        backend = self._backend(request.agent)
        return await backend.find(request, on_event) if isinstance(backend, Lasting) else Unknown()

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        """As the kernel counts them."""
        from coterie.backends.processes import activity

        return activity([Launched(pid=one.pid, group=one.group, started=one.started) for one in launched if one.pid])

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End the processes that an earlier owner's attempts left alive.

        Those that only carry the run's name, too, unless there is another run of that name: they may be its own.
        """
        from coterie.backends.processes import end_orphans

        mark = "" if index.is_shared(root_of(run)) else f"{run}/"
        processes = [Launched(pid=one.pid, group=one.group, started=one.started) for one in launched]
        await end_orphans(mark, processes, spared=[mark for one in spared for mark in (one.marker, f"{one.marker}/")])

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.close()

    def _backend(self, agent: AgentPlan) -> Backend | None:
        return self.backend(agent.backend or self._default)

    def backend(self, name: str) -> Backend | None:
        """The backend *name*, made if need be; None if there is none."""
        if name not in self._backends and (make := self._makers.get(name)) is not None:
            self._backends[name] = make()
        return self._backends.get(name)


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
        """Reject the text: nothing runs."""
        return False


async def ask(start: Callable[[], Awaitable[Session]], started: Callable[[Session], object]) -> Answer | Failure:
    """Run one attempt to its result; *started* is given its session. What escapes from a backend becomes `crashed`."""
    try:
        session = await start()
        started(session)
        return await session.result()
    except Exception as error:  # a failure becomes a record here, whatever a backend or a user's code raised
        if lacks := shortage(error):
            return Failure(kind="shortage", reason=lacks)
        if isinstance(error, CoterieError):
            return Failure(kind="failed", reason=str(error))
        return Failure(kind="crashed", reason=f"{type(error).__name__}: {error}")
