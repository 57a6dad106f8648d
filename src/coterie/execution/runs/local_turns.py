"""Turns whose attempts are performed by the backends of this process."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from coterie.agents.backends.base import (
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
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.runs import index
from coterie.history.journal.records import AttemptLaunched
from coterie.history.journal.rules import root_of
from coterie.team.planning.plan import AgentPlan


class LocalTurns:
    """Starts attempts with the backend that each agent's plan names, in this process.

    Args:
        backends: Backends by name.
        makers: Functions by name that make further backends when an attempt first needs them.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        makers: Mapping[str, Callable[[], Backend]] = MappingProxyType({}),
    ) -> None:
        self._backends, self._makers = dict(backends), makers

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start the attempt with its agent's backend; an unknown backend is a `not_found` failure."""
        agent = request.agent
        if (backend := self.backend(agent.backend)) is None:
            known = ", ".join(sorted({*self._backends, *self._makers}))
            reason = f"agent {agent.name!r} needs the backend {agent.backend!r}; configured backends: {known}"
            return CompletedSession(Failure(kind="not_found", reason=reason))
        return await backend.start(request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        """Whether the agent's backend reads the context."""
        return getattr(self.backend(agent.backend), "uses_context", False)

    def abilities(self, agent: AgentPlan) -> Abilities:
        """The abilities of the agent's backend; none without a backend."""
        return getattr(self.backend(agent.backend), "abilities", NO_ABILITIES)

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Ask the agent's backend, if its attempts can outlive this process."""
        backend = self.backend(request.agent.backend)
        return await backend.find(request, on_event) if isinstance(backend, Lasting) else Unknown()

    def activity(self, launched: Sequence[AttemptLaunched]) -> tuple[float, frozenset[int]] | None:
        """As the operating system counts them."""
        from coterie.agents.backends.processes import activity

        return activity([Launched(pid=one.pid, group=one.group, started=one.started) for one in launched if one.pid])

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End the processes that an earlier owner's attempts left alive.

        This includes processes that only carry the run's name, unless another run has that name: they may belong to it.
        """
        from coterie.agents.backends.processes import end_orphans

        mark = "" if index.is_shared(root_of(run)) else f"{run}/"
        processes = [Launched(pid=one.pid, group=one.group, started=one.started) for one in launched]
        await end_orphans(mark, processes, spared=[mark for one in spared for mark in (one.marker, f"{one.marker}/")])

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.close()

    def backend(self, name: str) -> Backend | None:
        """The backend *name*, created on first use; None if there is none."""
        if name not in self._backends and (make := self._makers.get(name)) is not None:
            self._backends[name] = make()
        return self._backends.get(name)
