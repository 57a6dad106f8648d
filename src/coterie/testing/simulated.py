"""The simulated parts of a run: a store that can lose its last records, and agents that answer at random."""

import asyncio
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from coterie.backends.base import (
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
from coterie.journal.records import AttemptLaunched, Record, Usage
from coterie.planning.plan import AgentPlan
from coterie.topology.conditions import Scalar, is_number

Compared = Mapping[str, Sequence[Scalar]]
"""The values with which the conditions of a flow compare each output, by the output's name."""


class World(Protocol):
    """The state that outlives the owners of a simulated run, and observes them.

    Attributes:
        journals: The appended records, by run.
        synced: The number of them that would survive a power cut.
        killed: Whether the current owner is dead: its actions have no effect.
    """

    seed: int
    chaos: float
    dice: random.Random
    journals: dict[str, list[Record]]
    synced: dict[str, int]
    killed: bool

    def claimed(self, run: str) -> None:
        """See a journal opened."""

    def closed(self, run: str) -> None:
        """See a journal closed."""

    def appended(self, run: str, record: Record) -> None:
        """Take a record; may kill the owner."""

    def syncing(self) -> None:
        """Wait for the disk; may kill the owner."""

    def synced_to(self, run: str, seq: int) -> None:
        """Let everything up to *seq* survive."""

    def start(self, request: Request) -> None:
        """Observe the start of an attempt."""

    def lives(self, request: Request) -> bool:
        """Whether the attempt of *request* was started by an earlier owner and has outlived it."""

    def end(self, run: str, spared: Sequence[AttemptRef] = ()) -> None:
        """See the attempts of *run*, and of the runs below it, end; those in *spared* go on."""

    def events_of(self, request: Request, dice: random.Random) -> Sequence[Emitted]:
        """The events that an attempt emits."""

    def compared(self, run: str) -> Compared:
        """The values with which the flow of *run* compares outputs."""


class Crash(KeyboardInterrupt):
    """The kill of the owner: not an error to handle, but the end of its process."""


class SimulatedStore:
    """Journals in memory whose last records are lost in a power cut."""

    def __init__(self, world: World) -> None:
        self.world = world

    def claim(self, run: str) -> "SimulatedWriter":
        """The owner's writer; that another process owns the run is not simulated."""
        self.world.claimed(run)
        return SimulatedWriter(self, run)

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records that were appended and not lost."""
        if run not in self.world.journals:
            raise NoSuchRun(run)
        return iter(list(self.world.journals[run])[from_seq - 1 :])


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
        """Whether a power cut would leave *seq*."""
        return seq <= self._world.synced.get(self._run, 0)

    def begin(self) -> bool:
        """Whether the disk is quick; nothing is safe yet."""
        return not self._slow

    def sync(self) -> bool:
        """Sync everything, if the disk is quick; may kill the owner."""
        if not self._slow and not self.is_durable(self.last):
            self._world.syncing()
            self._world.synced_to(self._run, self.last)
        return not self._slow

    async def durable(self, seq: int) -> None:
        """Wait a random time, until *seq* is safe."""
        while not self.is_durable(seq):
            upto = self.last
            await asyncio.sleep(self._world.dice.choice([0.0, 0.001, 0.4]))
            if not self._world.killed:
                self._world.synced_to(self._run, max(upto, self._world.synced.get(self._run, 0)))

    async def close(self) -> None:
        """Have the world see it; all that was appended is safe then."""
        if not self._world.killed:
            await self.durable(self.last)
            self._world.closed(self._run)


class SimulatedTurns:
    """Starts attempts that answer at random."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def start(self, request: Request, on_event: OnEvent) -> "SimulatedSession":
        """Report the start to the world, and answer at random."""
        if self._world.killed:
            raise Crash
        self._world.start(request)
        return SimulatedSession(self._world, request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        """True: outputs and events are chosen from it."""
        return True

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Find an attempt if it has outlived its owner, at work or with its result."""
        if self._world.killed:
            raise Crash
        if not self._world.lives(request):
            return Unknown()
        session = SimulatedSession(self._world, request, on_event, found=True)
        return Finished(await session.result()) if self._world.dice.random() < 0.5 else Running(session)

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Ending orphans takes a while, or not."""
        await asyncio.sleep(self._world.dice.choice([0.0, 0.1]))
        if not self._world.killed:
            self._world.end(run, spared)

    async def close(self) -> None:
        """Nothing runs."""


class SimulatedSession:
    """An agent that answers at random; the same attempt always answers the same.

    One that was *found* emits nothing: what it had emitted came to the owner that started it.
    """

    def __init__(self, world: World, request: Request, on_event: OnEvent, found: bool = False) -> None:
        self._world, self._request, self._found = world, request, found
        self._on_event = on_event if not found else lambda event: None
        self._dice = random.Random(f"{world.seed} {path_of(request.run)} {request.turn} {request.attempt}")

    async def result(self) -> Result:
        """Events, a wait, and an answer or a failure."""
        request, dice = self._request, self._dice
        if dice.random() < 0.3:
            self._on_event(Launched(pid=1, group=1, started="1"))
        for event in self._world.events_of(request, dice):
            await asyncio.sleep(dice.choice([0.0, 0.25]))
            self._on_event(event)
        if dice.random() < 0.1:  # an event that comes when the attempt is over
            loop = asyncio.get_running_loop()
            loop.call_later(dice.uniform(0.0, 9.0), self._on_event, Emitted(event="late"))
        await asyncio.sleep(dice.choice([0.0, 0.5, 1.0, 1.0, 3.0]))
        if dice.random() < 0.12 * self._world.chaos:
            kind = dice.choice(["transient", "rate_limited", "exit", "timeout", "crashed", "interrupted", "auth"])
            return Failure(kind=kind, reason=f"{kind} by chance", usage=Usage(cost=0.25))
        wanted = request.context.get("wanted", ())  # of the node, which may not be the agent's own: a fallback's
        compared = self._world.compared(request.run)
        return Answer(
            text=f"{request.turn} {dice.randint(0, 99)}",
            outputs=random_outputs(wanted, compared, dice, self._world.chaos) if wanted else None,
            usage=Usage(cost=0.5),
        )

    async def interrupt(self) -> None:
        """Nothing to do: it ends soon."""

    async def steer(self, text: str) -> bool:
        """It cannot be steered."""
        return False


def random_events(request: Request, dice: random.Random) -> Sequence[Emitted]:
    """The random events of a turn of a loop: mostly allowed ones, sometimes a wave, another event, or none."""
    loop = request.context.get("loop")
    if loop is None or loop["review"]:
        return ()
    found = []
    for _ in range(dice.choice([0, 1, 1, 1, 1, 2])):
        roll, choice = dice.random(), [*loop["allowed"], loop["completion"] if loop["anything"] else ""]
        event = loop["nearest"] if roll < 0.4 else dice.choice(choice)
        if roll > 0.9:
            event = dice.choice(["nonsense", "issue.discovered", loop["completion"]])
        if 0.7 < roll < 0.9:
            event = dice.choice([f"{event}.parallel", "explore.parallel"])
        found.append(Emitted(event=event, payload="\n".join(f"- part {k}" for k in range(dice.randint(1, 3)))))
    return found


def random_outputs(
    wanted: Sequence[Mapping[str, Any]], compared: Compared, dice: random.Random, chaos: float = 0.0
) -> dict[str, Any]:
    """A random value for each output; now and then one is missing or does not fit, as *chaos* allows.

    Args:
        wanted: The outputs, each with its `name`, `type` and `values`, as programs get them.
    """
    values: dict[str, Any] = {}
    for output in wanted:
        roll = dice.random()
        if roll < 0.04 * chaos:
            continue
        if roll < 0.08 * chaos:
            values[output["name"]] = "something else"
        else:
            choice = choices(output["type"], output["values"], compared.get(output["name"], ()))
            values[output["name"]] = dice.choice(choice)
    return values


def choices(type: str, values: Sequence[Scalar], compared: Sequence[Scalar]) -> Sequence[Scalar]:
    """The values to choose an output from, so that every condition that reads it can hold and can fail."""
    if type == "enum":
        return values
    if type == "boolean":
        return (True, False)
    constants = dict.fromkeys((*values, *compared))
    numbers = [near for one in constants if is_number(one) for near in _around(float(one))]
    if type in ("number", "integer"):
        return numbers or range(6)
    return [*(one for one in constants if not is_number(one)), *numbers, "something else"]


def _around(number: float) -> Sequence[float]:
    """*number* and its neighbours; whole if it is."""
    whole = math.floor(number)
    return (whole - 1, whole, whole + 1) if whole == number else (whole, number, whole + 1)


def path_of(run: str) -> str:
    """*run* without attempt numbers, which do not matter for nested runs."""
    return "/".join(step.rpartition(".")[0] or step for step in run.split("/"))
