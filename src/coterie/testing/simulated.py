"""The simulated parts of a run: a store that may lose its last records, and agents that answer at random."""

import asyncio
import random
from collections.abc import Iterator, Sequence

from coterie.agents.backends.attempt_timeout import InlineAttempt
from coterie.agents.backends.base import (
    Answer,
    AttemptRef,
    Emitted,
    Failure,
    Finished,
    Found,
    Launched,
    OnEvent,
    Request,
    Result,
    Running,
    Unknown,
)
from coterie.errors import NoSuchRun
from coterie.execution.kernel.turns import Turns
from coterie.history.journal.records import AttemptLaunched, Record, Usage
from coterie.team.planning.plan import AgentPlan
from coterie.testing.random_replies import random_outputs
from coterie.testing.world import Crash, World


class SimulatedStore:
    """Journals in memory, which may lose their last records in a power cut."""

    def __init__(self, world: World) -> None:
        self.world = world

    def claim(self, run: str) -> "SimulatedWriter":
        """The owner's writer; a second process that owns the run is not simulated."""
        self.world.claimed(run)
        return SimulatedWriter(self, run)

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records that were appended and not lost."""
        if run not in self.world.journals:
            raise NoSuchRun(run)
        return iter(list(self.world.journals[run])[from_seq - 1 :])

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        """All records of *run*."""
        return tuple(self.read(run))


class SimulatedWriter:
    """Appends to the world; durable after a random wait."""

    repaired: Record | None = None

    def __init__(self, store: SimulatedStore, run: str) -> None:
        self._world, self._run = store.world, run
        self._slow = store.world.dice.random() < 0.7

    @property
    def last(self) -> int:
        """The seq of the last record."""
        return len(self._world.journals.get(self._run, ()))

    def append(self, records: Sequence[Record]) -> int:
        """Append the records to the world, which may kill the owner at any of them."""
        for record in records:
            if self._world.killed:
                raise Crash
            self._world.appended(self._run, record)
        return self.last

    def is_durable(self, seq: int) -> bool:
        """Whether the record *seq* would survive a power cut."""
        return seq <= self._world.synced.get(self._run, 0)

    def begin(self) -> bool:
        """Whether the disk is fast; no record is durable yet."""
        return not self._slow

    def sync(self) -> bool:
        """Sync all records if the disk is fast, and return whether it is; may kill the owner."""
        if not self._slow and not self.is_durable(self.last):
            self._world.syncing()
            self._world.synced_to(self._run, self.last)
        return not self._slow

    async def durable(self, seq: int) -> None:
        """Wait a random time, until *seq* is durable."""
        while not self.is_durable(seq):
            upto = self.last
            await asyncio.sleep(self._world.dice.choice([0.0, 0.001, 0.4]))
            if not self._world.killed:
                self._world.synced_to(self._run, max(upto, self._world.synced.get(self._run, 0)))

    async def close(self) -> None:
        """Close the journal; all its records are then durable."""
        if not self._world.killed:
            await self.durable(self.last)
            self._world.closed(self._run)


class SimulatedTurns(Turns):
    """Starts attempts that answer at random."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def start(self, request: Request, on_event: OnEvent) -> "SimulatedSession":
        """Report the start to the world, and return a session that answers at random."""
        if self._world.killed:
            raise Crash
        self._world.start(request)
        return SimulatedSession(self._world, request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        """Return True: outputs and events are chosen from the context."""
        return True

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Find an attempt that outlived its owner, either running or with its result."""
        if self._world.killed:
            raise Crash
        if not self._world.lives(request):
            return Unknown()
        session = SimulatedSession(self._world, request, on_event, found=True)
        return Finished(await session.result()) if self._world.dice.random() < 0.5 else Running(session)

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """End orphans, at once or after a moment."""
        await asyncio.sleep(self._world.dice.choice([0.0, 0.1]))
        if not self._world.killed:
            self._world.end(run, spared)


class SimulatedSession(InlineAttempt):
    """An agent that answers at random; the same attempt always answers the same.

    A session that was *found* emits no events: the owner that started the attempt received them.
    """

    def __init__(self, world: World, request: Request, on_event: OnEvent, found: bool = False) -> None:
        super().__init__()
        self._world, self._request, self._found = world, request, found
        self._on_event = on_event if not found else lambda event: None
        self._dice = random.Random(f"{world.seed} {path_of(request.run)} {request.turn} {request.attempt}")

    async def _run(self) -> Result:
        """Events, a wait, and an answer or a failure."""
        request, dice = self._request, self._dice
        if dice.random() < 0.3:
            self._on_event(Launched(pid=1, group=1, started="1"))
        for event in self._world.events_of(request, dice):
            await asyncio.sleep(dice.choice([0.0, 0.25]))
            self._on_event(event)
        if dice.random() < 0.1:  # an event that may arrive after the attempt
            loop = asyncio.get_running_loop()
            loop.call_later(dice.uniform(0.0, 9.0), self._on_event, Emitted(event="late"))
        await asyncio.sleep(dice.choice([0.0, 0.5, 1.0, 1.0, 3.0]))
        if dice.random() < 0.12 * self._world.chaos:
            kind = dice.choice(["transient", "rate_limited", "exit", "timeout", "crashed", "interrupted", "auth"])
            return Failure(kind=kind, reason=f"{kind} by chance", usage=Usage(cost=0.25))
        wanted = request.context.get("wanted", ())  # of the node: a fallback's own may differ
        compared, longest = self._world.compared(request.run), self._world.longest(request.run)
        return Answer(
            text=f"{request.turn} {dice.randint(0, 99)}",
            outputs=random_outputs(wanted, compared, dice, self._world.chaos, longest) if wanted else None,
            usage=Usage(cost=0.5),
        )


def path_of(run: str) -> str:
    """The id *run* without attempt numbers, which do not matter for nested runs."""
    return "/".join(step.rpartition(".")[0] or step for step in run.split("/"))
