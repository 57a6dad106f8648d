"""Turns whose attempts are performed by the backends of this process."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from coterie.backends.base import (
    NO_ABILITIES,
    Abilities,
    AttemptRef,
    Backend,
    Failure,
    Found,
    Lasting,
    Launched,
    OnEvent,
    Request,
    Session,
    Unknown,
)
from coterie.journal.records import AttemptLaunched
from coterie.journal.rules import root_of
from coterie.kernel.turns import CompletedSession
from coterie.planning.plan import AgentPlan
from coterie.runs import index


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
            return CompletedSession(Failure(kind="not_found", reason=reason))
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
