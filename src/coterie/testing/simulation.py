"""Crash a team everywhere, in virtual time, before it is real.

`simulate` runs a topology with agents that answer at random, fail at random and take random times; it kills the owner
at a random append (with or without the tail that was not synced yet), interrupts it, resumes, several times over. The
real core, shell and engines run; only the store, the agents and the time are made up. After each schedule:

* the result is that of an uncrashed run that is given the same replies in the same order;
* no turn with a durable receipt was started again;
* nothing left before the records behind it were durable;
* nothing follows a terminal record;
* a replay leaves nothing to do.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from coterie.backends.base import Answer, Emitted, Failure, Launched, OnEvent, Request, Result
from coterie.clock import VirtualClock
from coterie.engines.commands import Emit, Failed, Finish, Reply
from coterie.errors import CoterieError, NoSuchRun, RunIsFinished
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    ConfigChanged,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    Record,
    RunFinished,
    RunStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.planning.plan import Limits, Plan, Wanted
from coterie.runs.commands import ReadPlan, Wait
from coterie.runs.core import Core
from coterie.runs.engines import make_engine
from coterie.runs.fold import Fold
from coterie.runs.live import MakeEngine
from coterie.runs.retries import MAX_CRASHES
from coterie.runs.shell import Shell
from coterie.topology.model import Topology

Reload = Callable[[str, Plan], ConfigChanged]
Emits = Callable[[Request, random.Random], Sequence[str]]


class SimulationFailed(CoterieError):
    """A schedule broke a promise; the message holds the seed and the journals."""

    def __init__(self, seed: int, what: str, journals: Mapping[str, Sequence[Record]]) -> None:
        self.seed, self.what = seed, what
        lines = [f"{run}  {msgspec.json.encode(r).decode()}" for run, log in journals.items() for r in log]
        super().__init__(f"seed {seed}: {what}\n" + "\n".join(lines))


class Survived(Struct, frozen=True, kw_only=True):
    """What a schedule was like.

    Attributes:
        crashes: How often the owner was killed.
        interruptions: How often it was told to stop.
        turns: Turns that were started, child runs' own included.
        repeated: Attempts that were started again because a crash had cut them off.
    """

    outcome: str
    result: Any
    crashes: int
    interruptions: int
    turns: int
    repeated: int


class Crash(KeyboardInterrupt):
    """The owner is killed: not an error to be handled, the end of its process."""


def simulate(
    topology: Topology | Plan,
    seed: int,
    *,
    engines: MakeEngine = make_engine,
    reload: Reload | None = None,
    emits: Emits | None = None,
    chaos: float = 1.0,
) -> Survived:
    """Run one crash schedule, chosen by *seed*, and check every promise.

    Args:
        topology: The team; who thinks in it does not matter, every agent is made up.
        seed: Chooses delays, replies, failures and crashes; equal seeds give equal schedules.
        engines: The engine of a plan, for engines that no file describes.
        reload: What a run reads when its engine asks for the plan again.
        emits: Which events an attempt emits.
        chaos: How often agents fail and crashes come, 1 is as usual and 0 is never.

    Raises:
        SimulationFailed: If a promise was broken.
        TopologyError: If the topology cannot be planned.
    """
    plan = topology if isinstance(topology, Plan) else _planned(topology)
    return _World(plan, seed, engines, reload, emits, chaos).run()


def _planned(topology: Topology) -> Plan:
    from coterie.planning import plan_or_raise

    return plan_or_raise(topology)


class _World:
    """One schedule: journals that survive crashes, and owners that do not."""

    def __init__(
        self, plan: Plan, seed: int, engines: MakeEngine, reload: Reload | None, emits: Emits | None, chaos: float
    ) -> None:
        self.plan, self.seed, self.engines, self.reload, self.emits, self.chaos = (
            plan,
            seed,
            engines,
            reload,
            emits,
            chaos,
        )
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.journals: dict[str, list[Record]] = {}
        self.synced: dict[str, int] = {}
        self.crash_in = -1
        self.calls: list[tuple[str, str, int]] = []
        self.finished: set[tuple[str, str]] = set()
        self.broken = ""
        self.epoch = 0
        self.killed = False
        self.crashes = self.interruptions = 0

    def run(self) -> Survived:
        for _ in range(40):
            self._epoch()
            if isinstance(self.journals.get("R", [None])[-1], RunFinished):
                break
        else:
            raise self._failed("it did not end within 40 owners")
        for run, log in self.journals.items():
            self._check(run, log)
        root = self.journals["R"][-1]
        assert isinstance(root, RunFinished)
        return Survived(
            outcome=root.outcome,
            result=root.result,
            crashes=self.crashes,
            interruptions=self.interruptions,
            turns=len({(run, turn) for run, turn, _ in self.calls}),
            repeated=sum(isinstance(r, AttemptInterrupted) for log in self.journals.values() for r in log),
        )

    # -- owners ---------------------------------------------------------------------------------------------------

    def _epoch(self) -> None:
        """One owner, until it ends, is told to stop, or is killed."""
        self.epoch += 1
        self.killed = False
        trouble = self.dice.random() < 0.8 * self.chaos and self.crashes + self.interruptions < 5
        kill = trouble and self.dice.random() < 0.8
        self.crash_in = self.dice.randint(1, 25) if kill else -1
        lose = self.dice.random() < 0.5
        limits = Limits(max_parallel=self.dice.choice([None, 1, 2, 16]))
        store = _Store(self)
        shell = Shell(
            store=store,
            turns=_Turns(self),
            make_engine=self.engines,
            clock=self.clock,
            limits=limits,
            reload=self.reload,
        )
        loop = self.clock.new_loop()
        main = shell.resume("R", self.plan) if self.journals.get("R") else shell.start("R", self.plan, {"prompt": "x"})
        task = loop.create_task(main)
        if trouble and not kill:
            loop.call_later(self.dice.uniform(0.0, 8.0), task.cancel)
        self._say_stale_things(loop, shell)
        try:
            loop.run_until_complete(task)
        except (Crash, asyncio.CancelledError, Exception) as error:  # whatever an owner dies of is a finding
            if not self.killed and not isinstance(error, asyncio.CancelledError | RunIsFinished):
                raise self._failed(f"{type(error).__name__}: {error}") from error
        finally:
            self.interruptions += task.cancelled()
            if task.done() and not task.cancelled():
                task.exception()  # seen
            self._lose_power(lose)
            _abandon(loop)
        if self.broken:
            raise self._failed(self.broken)

    def _lose_power(self, lose: bool) -> None:
        """What a new owner finds: everything that was appended, or only what was synced."""
        if self.killed:
            self.crashes += 1
            if lose:
                kept = {run: log[: self.synced.get(run, 0)] for run, log in self.journals.items()}
                self.journals = {run: log for run, log in kept.items() if log}
        self.killed = True  # whatever of this owner is still in memory may do nothing any more
        self.synced = {run: len(log) for run, log in self.journals.items()}

    def _say_stale_things(self, loop: asyncio.AbstractEventLoop, shell: Shell) -> None:
        """Attempts of dead owners still answer; nobody may listen."""
        for run, turn, attempt in self.calls[-3:] if self.epoch > 1 else ():

            def late(run: str = run, turn: str = turn, attempt: int = attempt) -> None:
                live = shell.runs.get(run)
                current = live.core.turns.get(turn) if live is not None else None
                if live is None or current is None or current.attempt == attempt:
                    return
                if live.core.accept(self.clock.now(), Reply(turn=turn, attempt=attempt, text="stale")) is not None:
                    self.broken = f"a stale reply of {run}/{turn}.{attempt} was accepted"

            loop.call_later(self.dice.uniform(0.0, 4.0), shell.post, late)

    def start(self, request: Request) -> None:
        """An effect: check that it may leave."""
        log = self.journals.get(request.run, [])
        intent = next(
            (
                r
                for r in reversed(log)
                if isinstance(r, TurnStarted) and (r.turn, r.attempt) == (request.turn, request.attempt)
            ),
            None,
        )
        if intent is None or intent.seq > self.synced.get(request.run, 0):
            self.broken = f"{request.run}/{request.turn}.{request.attempt} started before its intent was durable"
        if not self._child_may_start(request.run):
            self.broken = f"{request.run} is another attempt of a child run that had not failed"
        if (request.run, request.turn) in self.finished:
            self.broken = f"{request.run}/{request.turn} started again although it has a durable receipt"
        cuts = sum(isinstance(r, AttemptInterrupted) and r.turn == request.turn for r in log)
        if cuts != request.interrupted:
            self.broken = f"{request.run}/{request.turn} was cut off {cuts} times and told {request.interrupted}"
        self.calls.append((request.run, request.turn, request.attempt))

    def _child_may_start(self, run: str) -> bool:
        """A child run is continued under its id; only when it failed is there another attempt."""
        parent, _, attempt = run.rpartition("/")
        if not parent:
            return True
        turn, _, n = attempt.rpartition(".")
        before = int(n) - 1
        return before == 0 or any(
            isinstance(r, AttemptFailed) and (r.turn, r.attempt) == (turn, before) for r in self.journals[parent]
        )

    def appended(self, run: str, record: Record) -> None:
        log = self.journals.setdefault(run, [])
        if log and isinstance(log[-1], RunFinished):
            self.broken = f"{run}: {record.seq} follows the terminal record"
        log.append(record)
        if self.crash_in > 0:
            self.crash_in -= 1
            if self.crash_in == 0:
                self.killed = True
                asyncio.get_running_loop().stop()
                raise Crash

    def synced_to(self, run: str, seq: int) -> None:
        log = self.journals[run]
        for record in log[self.synced.get(run, 0) : seq]:
            if isinstance(record, TurnFinished):
                self.finished.add((run, record.turn))
        self.synced[run] = seq

    # -- the promises -----------------------------------------------------------------------------------------------

    def _check(self, run: str, log: Sequence[Record]) -> None:
        last = log[-1]
        if not isinstance(last, RunFinished):
            if self._abandoned(run):
                return
            raise self._failed(f"{run} does not end: its last record is {type(last).__name__}")
        plan = self._plan_of(run)
        again = Fold(run, *self.engines(plan))
        try:
            again.fold(log[:-1])
            left = [command for command in again.todo.values() if not isinstance(command, Finish)]
            again.apply(last)
        except Exception as error:  # whatever a replay dies of is a finding
            raise self._failed(f"{run} does not replay: {error}") from error
        if left and last.outcome != "cancelled":
            raise self._failed(f"{run}: a replay leaves {left} to do beside the end")
        if last.outcome != "cancelled":
            self._compare(run, log, _uncrashed(run, plan, self.engines, log))

    def _abandoned(self, run: str) -> bool:
        """A child run that was called off just before the last kill: its parent ended, nobody owned it again."""
        parent, _, attempt = run.rpartition("/")
        turn = attempt.rpartition(".")[0]
        above = self.journals.get(parent, [])
        called_off = any(isinstance(r, TurnCancelled) and r.turn == turn for r in above)
        return called_off and isinstance(above[-1], RunFinished)

    def _compare(self, run: str, log: Sequence[Record], oracle: Sequence[Record]) -> None:
        end, other = log[-1], oracle[-1]
        assert isinstance(end, RunFinished)
        if not isinstance(other, RunFinished) or (end.outcome, end.result) != (other.outcome, other.result):
            raise self._failed(f"{run} ended as {end}, uncrashed with the same replies as {other}")
        asked, wanted = _asked(log), _asked(oracle)
        if asked != [turn for turn in wanted if turn in asked]:
            raise self._failed(f"{run} asked {asked}, uncrashed with the same replies {wanted}")

    def _plan_of(self, run: str) -> Plan:
        plan = self.plan
        for step in run.split("/")[1:]:
            child = plan.agents[step.rpartition("#")[0]].child
            assert child is not None
            plan = child
        return plan

    def _failed(self, what: str) -> SimulationFailed:
        return SimulationFailed(self.seed, what, self.journals)


class _Store:
    """Journals in memory whose last records are lost in a power cut."""

    def __init__(self, world: _World) -> None:
        self.world = world

    def claim(self, run: str) -> "_Writer":
        return _Writer(self, run)

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        if run not in self.world.journals:
            raise NoSuchRun(run)
        return iter(list(self.world.journals[run])[from_seq - 1 :])

    def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        raise NoSuchRun(run)

    def list(self) -> list[str]:
        return [run for run in self.world.journals if "/" not in run]


class _Writer:
    repaired: Record | None = None

    def __init__(self, store: _Store, run: str) -> None:
        self._world, self._run = store.world, run
        self._slow = store.world.dice.random() < 0.7

    @property
    def last(self) -> int:
        return len(self._world.journals.get(self._run, ()))

    def append(self, records: Sequence[Record]) -> int:
        for record in records:
            if self._world.killed:
                raise Crash
            self._world.appended(self._run, record)
        return self.last

    def is_durable(self, seq: int) -> bool:
        if not self._slow:
            self._world.synced_to(self._run, self.last)
        return seq <= self._world.synced.get(self._run, 0)

    def sync(self) -> bool:
        return False

    async def durable(self, seq: int) -> None:
        while not self.is_durable(seq):
            upto = self.last
            await asyncio.sleep(self._world.dice.choice([0.0, 0.001, 0.4]))
            if not self._world.killed:
                self._world.synced_to(self._run, max(upto, self._world.synced.get(self._run, 0)))

    async def close(self) -> None:
        """Nothing is open."""


class _Turns:
    def __init__(self, world: _World) -> None:
        self._world = world

    async def start(self, request: Request, on_event: OnEvent) -> "_Session":
        if self._world.killed:
            raise Crash
        self._world.start(request)
        return _Session(self._world, request, on_event)

    async def find(self, run: str, turn: str, attempt: int) -> None:
        return None

    async def reap(self, run: str, launched: Sequence[AttemptLaunched]) -> None:
        await asyncio.sleep(self._world.dice.choice([0.0, 0.1]))

    async def close(self) -> None:
        """Nothing runs."""


class _Session:
    """An agent that answers at random; the same attempt always answers the same."""

    def __init__(self, world: _World, request: Request, on_event: OnEvent) -> None:
        self._world, self._request, self._on_event = world, request, on_event
        self._dice = random.Random(f"{world.seed} {_path(request.run)} {request.turn} {request.attempt}")

    async def result(self) -> Result:
        request, dice = self._request, self._dice
        if dice.random() < 0.3:
            self._on_event(Launched(pid=1, group=1, started="1"))
        for event in self._world.emits(request, dice) if self._world.emits else ():
            await asyncio.sleep(dice.choice([0.0, 0.25]))
            self._on_event(Emitted(event=event))
        if dice.random() < 0.1:  # an event that comes when the attempt is over
            loop = asyncio.get_running_loop()
            loop.call_later(dice.uniform(0.0, 9.0), self._on_event, Emitted(event="late"))
        await asyncio.sleep(dice.choice([0.0, 0.5, 1.0, 1.0, 3.0]))
        if dice.random() < 0.12 * self._world.chaos:
            kind = dice.choice(["transient", "rate_limited", "exit", "timeout", "crashed", "interrupted", "auth"])
            return Failure(kind=kind, reason=f"{kind} by chance", usage=Usage(cost=0.25))
        return Answer(
            text=f"{request.turn} {dice.randint(0, 99)}",
            outputs=None
            if not request.agent.outputs
            else random_outputs(request.agent.outputs, dice, self._world.chaos),
            usage=Usage(cost=0.5),
        )

    async def interrupt(self) -> None:
        """It ends by itself soon enough."""

    async def steer(self, text: str) -> bool:
        return False


def random_outputs(wanted: Sequence[Wanted], dice: random.Random, chaos: float = 0.0) -> dict[str, Any]:
    """A random value for each output; now and then one is missing or does not fit, as *chaos* allows."""
    values: dict[str, Any] = {}
    for output in wanted:
        roll = dice.random()
        if roll < 0.04 * chaos:
            continue
        if roll < 0.08 * chaos:
            values[output.name] = "something else"
        elif output.values:
            values[output.name] = dice.choice(output.values)
        else:
            values[output.name] = {"boolean": dice.random() < 0.5, "text": "words"}.get(output.type, dice.randint(0, 5))
    return values


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Drop a dead owner: its tasks end where they stand, and whatever they try on the way fails."""
    loop.set_exception_handler(lambda loop, context: None)
    while tasks := [task for task in asyncio.all_tasks(loop) if not task.done()]:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Crash):
            loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


def _core(run: str, plan: Plan, engines: MakeEngine, append: Callable[[Record], None]) -> Core:
    engine, agents = engines(plan)
    return Core(run, engine, agents, append, lambda core, turn: "", lambda prompt: "")


def _uncrashed(run: str, plan: Plan, engines: MakeEngine, log: Sequence[Record]) -> list[Record]:
    """The journal of a run that nobody crashed, given the replies of *log* in the order of *log*."""
    oracle: list[Record] = []
    core = _core(run, plan, engines, oracle.append)
    first = log[0]
    assert isinstance(first, RunStarted)
    core.begin(0.0, msgspec.structs.replace(first, seq=0), Limits(max_parallel=None))
    reads: list[ReadPlan] = []
    crashes: dict[str, int] = {}

    def pump() -> None:
        while effects := core.pump(0.0, lambda agent, again: True):
            reads.extend(effect for effect in effects if isinstance(effect, ReadPlan))
            for effect in effects:
                if isinstance(effect, Wait):
                    core.due(effect.cause)

    pump()
    for record in log:
        match record:
            case ConfigChanged() | ConfigRejected() if reads:
                core.reloaded(0.0, reads.pop(0).cause, msgspec.structs.replace(record, seq=0, cause=None))
            case TurnCancelled(cause=None):
                core.cancel(0.0, record.turn, record.reason)
            case AttemptInterrupted(turn=name, reason="crash"):
                crashes[name] = crashes.get(name, 0) + 1
                due = crashes[name] == MAX_CRASHES and core.turns[name].status == "running"
                for _ in range(MAX_CRASHES if due else 0):
                    cut = AttemptInterrupted(turn=name, attempt=core.turns[name].attempt, reason="crash")
                    core.write(0.0, cut)
                    pump()
            case AttemptInterrupted(turn=name):
                crashes[name] = 0
            case TurnFinished() | AttemptFailed() | EventEmitted() | EventInvalid():
                if isinstance(record, AttemptFailed):
                    crashes[record.turn] = 0
                turn = core.turns.get(record.turn)
                if turn is not None:
                    core.accept(0.0, _said(record, turn.attempt))
        pump()
    return oracle


def _said(record: Record, attempt: int) -> Reply | Failed | Emit:
    match record:
        case TurnFinished():
            return Reply(turn=record.turn, attempt=attempt, text=record.text, outputs=record.outputs)
        case AttemptFailed():
            return Failed(turn=record.turn, attempt=attempt, kind=record.kind, reason=record.reason)
        case EventEmitted() | EventInvalid():
            return Emit(turn=record.turn, attempt=attempt, event=record.event)
    raise TypeError(record)


def _asked(log: Sequence[Record]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(r.turn, r.agent, r.inputs) for r in log if isinstance(r, TurnStarted) and r.attempt == 1]


def _path(run: str) -> str:
    """*run* without attempt numbers: which attempt of a nested run it was does not matter."""
    return "/".join(step.rpartition(".")[0] or step for step in run.split("/"))


__all__ = ["Crash", "SimulationFailed", "Survived", "random_outputs", "simulate"]
