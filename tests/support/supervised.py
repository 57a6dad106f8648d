"""Children without actors for tests of supervisors: they log what happens to them."""

import asyncio
from collections.abc import Callable
from typing import Any

from coterie.agents.actors.exits import Down, Exit
from coterie.agents.actors.supervision.spec import ChildSpec
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.history.journal.records.actor import SupervisorFailed
from coterie.history.journal.records.base import Record


class Boom(Exception):
    """Raised by a start that fails."""


class Log:
    """What happened, in order: `+` start, `!` failed start, `-` stop, `g` gave up.

    Attributes:
        fails: How many of the next starts of a child fail.
        records: What supervisors recorded.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.fails: dict[str, int] = {}
        self.records: list[Record] = []

    def note(self, kind: str, name: str) -> None:
        """Add an event."""
        self.events.append(f"{kind}{name}")

    def text(self) -> str:
        """All events in a line."""
        return " ".join(self.events)


class FakeChild:
    """A child that runs nothing."""

    def __init__(self, spec: ChildSpec, log: Log) -> None:
        self.spec = spec
        self.log = log
        self.report: Callable[[Down], None] = lambda down: None
        self.incarnation = 0
        self.is_running = False
        self.reasons: list[str] = []

    async def start(self, incarnation: int) -> None:
        """Start, or fail as the log says."""
        self.incarnation = incarnation
        if self.log.fails.get(self.spec.name, 0) > 0:
            self.log.fails[self.spec.name] -= 1
            self.log.note("!", self.spec.name)
            raise Boom(self.spec.name)
        self.log.note("+", self.spec.name)
        self.is_running = True

    async def stop(self, reason: str) -> None:
        """Stop, if it runs."""
        self.reasons.append(reason)
        if self.is_running:
            self.log.note("-", self.spec.name)
            self.is_running = False

    def end(self, reason: Exit) -> None:
        """End by itself."""
        if self.is_running:
            self.is_running = False
            self.report(Down(self.spec.name, self.incarnation, reason))


class LoggedSupervisor(SupervisorActor):
    """A supervisor that logs its starts and that it gave up."""

    def __init__(self, spec: ChildSpec, *args: Any, log: Log, **kwargs: Any) -> None:
        super().__init__(spec, *args, sink=self._sunk, **kwargs)
        self.log = log

    def _sunk(self, record: Record) -> None:
        self.log.records.append(record)
        if isinstance(record, SupervisorFailed):
            self.log.note("g", record.name)

    async def start(self, incarnation: int) -> None:
        """Start, noted first."""
        self.log.note("+", self.name)
        await super().start(incarnation)


async def settled() -> None:
    """Wait until nothing can go on; virtual time only passes then."""
    await asyncio.sleep(1e-6)
