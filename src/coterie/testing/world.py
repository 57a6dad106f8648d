"""The world of a simulated run: the journals, which survive crashes, and all observations of its owners."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from coterie.agents.backends.base import AttemptRef, Emitted, Request
from coterie.base.clock import VirtualClock
from coterie.base.ids import child_run_id
from coterie.errors import CoterieError
from coterie.execution.kernel.kind import MakeKind
from coterie.history.engines.schemas import sample_list
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    Record,
    RunFinished,
    RunReopened,
    RunStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from coterie.team.planning.agents import asked_of
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan, from_json
from coterie.team.topology.conditions import Condition, Scalar
from coterie.team.topology.model import RUN_INPUT
from coterie.testing.random_replies import Compared, random_events

Emits = Callable[[Request, random.Random], Sequence[str]]


class Crash(KeyboardInterrupt):
    """Raised where the owner is killed: not an error to handle, but the end of its process."""


class SimulationFailed(CoterieError):
    """A schedule broke a promise; the message contains the seed and the journals.

    Attributes:
        what: The promise and its violation.
        lines: Every record as JSON, each with its run.
    """

    def __init__(self, seed: int, what: str, journals: Mapping[str, Sequence[Record]]) -> None:
        self.seed, self.what = seed, what
        self.lines = [
            msgspec.json.encode({"run": run, "record": r}).decode() for run, log in journals.items() for r in log
        ]
        super().__init__(f"seed {seed}: {what}\n" + "\n".join(self.lines))


class World:
    """The state that outlives the owners of a simulated run, and the checks of their actions.

    Attributes:
        journals: The appended records, by run.
        synced: The number of records that would survive a power cut, by run.
        crash_in: The number of appends and syncs until the owner is killed; 0 or less: never.
        killed: Whether the current owner is dead, so that its actions have no effect.
        calls: The attempts that were started.
        finished: The turns whose result is durable.
        open: The runs whose journals are open.
        broken: A broken promise, and how it was broken; empty if none was.
    """

    def __init__(self, plan: Plan, seed: int, kinds: MakeKind, emits: Emits | None, chaos: float) -> None:
        self.plan, self.seed, self.chaos = plan, seed, chaos
        self.kinds, self.emits = kinds, emits
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.journals: dict[str, list[Record]] = {}
        self.synced: dict[str, int] = {}
        self.crash_in = -1
        self.killed = False
        self.calls: list[tuple[str, str, int]] = []
        self.finished: set[tuple[str, str]] = set()
        self.gone: set[tuple[str, str, int]] = set()
        self.adopted: set[tuple[str, str, int]] = set()
        self.open: set[str] = set()
        self.broken = ""
        self.given = {"prompt": "x"} | self._given_lists()
        self._compared: dict[str, Compared] = {}
        self._longest: dict[str, dict[str, int]] = {}

    # -- journals -----------------------------------------------------------------------------------------------------

    def claimed(self, run: str) -> None:
        """Note that a journal was opened."""
        if run in self.open:
            self.broken = f"{run} is opened though it is open"
        self.open.add(run)

    def closed(self, run: str) -> None:
        """Note that a journal was closed."""
        self.open.discard(run)
        if below := [one for one in self.open if one.startswith(f"{run}/")]:
            self.broken = f"{run} is closed before {below[0]}"

    def appended(self, run: str, record: Record) -> None:
        """Append a record; may kill the owner."""
        log = self.journals.setdefault(run, [])
        if log and isinstance(log[-1], RunFinished) and not isinstance(record, RunReopened):
            self.broken = f"{run}: {record.seq} follows the terminal record"
        if run not in self.open:
            self.broken = f"{run}: {record.seq} is written though the journal was closed"
        if isinstance(record, RunFinished) and (left := self._left_below(run)):
            self.broken = f"{run} ends before {left}"
        log.append(record)
        self._live_on()

    def _left_below(self, run: str) -> str:
        """A child run of *run* whose end would not survive a power cut; empty if none."""
        for one, log in self.journals.items():
            if one.startswith(f"{run}/") and (
                not isinstance(log[-1], RunFinished) or self.synced.get(one, 0) < len(log)
            ):
                return one
        return ""

    def syncing(self) -> None:
        """Note that the owner syncs; may kill the owner."""
        self._live_on()

    def _live_on(self) -> None:
        """Kill the owner if this is the chosen append or sync."""
        if self.crash_in > 0:
            self.crash_in -= 1
            if self.crash_in == 0:
                self.killed = True
                asyncio.get_running_loop().stop()
                raise Crash

    def synced_to(self, run: str, seq: int) -> None:
        """Note that all records up to *seq* survive a power cut."""
        log = self.journals[run]
        for record in log[self.synced.get(run, 0) : seq]:
            if isinstance(record, TurnFinished):
                self.finished.add((run, record.turn))
        self.synced[run] = seq

    # -- attempts -----------------------------------------------------------------------------------------------------

    def start(self, request: Request) -> None:
        """Check that the attempt of *request* may start, and note its start."""
        log = self.journals.get(request.run, [])
        starts = (r for r in reversed(log) if isinstance(r, TurnStarted))
        intent = next((r for r in starts if (r.turn, r.attempt) == (request.turn, request.attempt)), None)
        if intent is None or intent.seq > self.synced.get(request.run, 0):
            self.broken = f"{request.run}/{request.turn}.{request.attempt} started before its intent was durable"
        if not self._child_may_start(request.run):
            self.broken = f"{request.run} is another attempt of a child run that had not failed"
        if (request.run, request.turn) in self.finished:
            self.broken = f"{request.run}/{request.turn} started again although it has a durable receipt"
        cuts = _cuts(log[: intent.seq] if intent is not None else log, request.turn)
        if cuts != request.interrupted:
            self.broken = (
                f"{request.run}/{request.turn} was cut off {cuts} times, but its request says {request.interrupted}"
            )
        call = (request.run, request.turn, request.attempt)
        if request.agent.kind != "human" and call in self.calls:
            self.broken = f"{request.run}/{request.turn}.{request.attempt} was started twice"
        self.calls.append(call)

    def _child_may_start(self, run: str) -> bool:
        """Whether the child run *run* may start: another attempt is allowed only after a failure."""
        parent, _, attempt = run.rpartition("/")
        if not parent:
            return True
        turn, _, n = attempt.rpartition(".")
        before = int(n) - 1
        return before == 0 or any(
            (isinstance(r, AttemptFailed) and (r.turn, r.attempt) == (turn, before))
            or (isinstance(r, RunReopened) and turn in r.turns)
            for r in self.journals[parent]
        )

    def lives(self, request: Request) -> bool:
        """Whether the attempt of *request* outlived its owner, and can be adopted; half of the started ones did."""
        call = (request.run, request.turn, request.attempt)
        if call not in self.calls or call in self.gone or self.dice.random() < 0.5:
            return False
        self.adopted.add(call)
        return True

    def end(self, run: str, spared: Sequence[AttemptRef] = ()) -> None:
        """Note that the attempts that earlier owners started have ended."""
        kept = tuple(f"{one.marker}/" for one in spared)
        below = {call: f"{child_run_id(*call)}/" for call in self.calls}
        self.gone |= {call for call, path in below.items() if path.startswith(f"{run}/") and not path.startswith(kept)}

    def events_of(self, request: Request, dice: random.Random) -> Sequence[Emitted]:
        """The events that an attempt emits."""
        if self.emits is None:
            return random_events(request, dice)
        return [Emitted(event=event) for event in self.emits(request, dice)]

    # -- plans --------------------------------------------------------------------------------------------------------

    def compared(self, run: str) -> Compared:
        """The values with which the flow of *run*, or the role it answers for, compares outputs of any agent."""
        path = self._agents_above(run)
        if path not in self._compared:
            flow = self.plan_of(run).flow
            found: dict[str, list[Scalar]] = {}
            for fields in (asked_of(flow.groups, flow.maps.values()) if flow is not None else {}).values():
                for name, values in fields.items():
                    found.setdefault(name, []).extend(values)
            for condition in self._conditions_above(run):
                found.setdefault(condition.field, []).append(condition.value)
            self._compared[path] = found
        return self._compared[path]

    def _given_lists(self) -> dict[str, list[str]]:
        """A random list for each value of the input that a node is mapped over."""
        found: dict[str, list[str]] = {}
        for one in self.plan.flow.maps.values() if self.plan.flow is not None else ():
            if one.agent == RUN_INPUT:
                longest = one.at_most * (one.by or 1)
                most = min(longest, len(found.get(one.field, range(longest))))
                found[one.field] = sample_list({}, random.Random(f"{self.seed} {one.field}").randint(0, most))
        return found

    def longest(self, run: str) -> Mapping[str, int]:
        """The most items of the lists over which the flow of *run* maps nodes, by their names."""
        path = self._agents_above(run)
        if path not in self._longest:
            flow = self.plan_of(run).flow
            self._longest[path] = (
                {one.field: one.at_most * (one.by or 1) for one in flow.maps.values()} if flow is not None else {}
            )
        return self._longest[path]

    def _agents_above(self, run: str) -> str:
        """The path of *run*, with each node replaced by its agent."""
        parent, below, attempt = run.rpartition("/")
        return f"{self._agents_above(parent)}/{self._agent_of(parent, attempt)}" if below else run

    def _agent_of(self, run: str, attempt: str) -> str:
        turn, _, n = attempt.rpartition(".")
        return next(
            record.agent
            for record in self.journals[run]
            if isinstance(record, TurnStarted) and (record.turn, str(record.attempt)) == (turn, n)
        )

    def _conditions_above(self, run: str) -> list[Condition]:
        """The conditions that select the event of the role that *run* answers for."""
        parent, below, attempt = run.rpartition("/")
        loop = self.plan_of(parent).coordination if below else None
        if not isinstance(loop, LoopPlan):
            return []
        agent = self._agent_of(parent, attempt)
        return [when for role in loop.roles if role.id == agent for _, when in role.events or () if when is not None]

    def plan_of(self, run: str) -> Plan:
        """The plan of *run*."""
        parent, below, attempt = run.rpartition("/")
        if not below:
            return self.plan
        first = next(iter(self.journals.get(run, ())), None)
        if isinstance(first, RunStarted) and first.plan:  # a child of a loop, whose own plan may have changed
            return from_json(first.plan)
        child = self.kinds(self.plan_of(parent)).agents[attempt.rpartition("#")[0]].child
        assert child is not None
        return child

    def failed(self, what: str) -> SimulationFailed:
        """The error for a broken promise."""
        return SimulationFailed(self.seed, what, self.journals)


def _cuts(log: Sequence[Record], turn: str) -> int:
    """How often an attempt of *turn* was cut off, also by a cancellation."""
    cuts, runs = 0, False
    for record in log:
        match record:
            case TurnStarted() if record.turn == turn:
                runs = True
            case AttemptFailed() if record.turn == turn:
                runs = False
            case AttemptInterrupted() if record.turn == turn:
                cuts, runs = cuts + 1, False
            case TurnCancelled() if record.turn == turn:
                cuts, runs = cuts + runs, False
    return cuts
