"""Simulate crashes of a team at random points, in virtual time.

`simulate` runs a topology with agents that answer at random, fail at random and take random times; it kills the owner
at a random append (with or without the unsynced tail), interrupts it, has an operator interrupt turns, resumes, several
times over. The core, shell and engines are real; only the store, the agents and the time are simulated. After each
schedule:

* the result, and the end of every turn, is that of an uncrashed run that is given the same replies in the same order;
* no turn with a durable receipt was started again;
* no attempt was started before its records were durable;
* only the reopening of a failed run follows a terminal record, and nothing is written to a closed journal;
* a run ends after all its child runs, each with the outcome its parent recorded, and every journal is closed;
* usage counts once, even after cancellations, and an owner's result agrees with the journal; * a replay leaves no
  commands.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from coterie.errors import RetryRefused, RunIsFinished
from coterie.execution.kernel.kind import MakeKind
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.retry import reopening
from coterie.history.engines.commands import Reply
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    AttemptInterrupted,
    ConfigChanged,
    OperatorSaid,
    RunFinished,
    RunReopened,
    RunStopped,
)
from coterie.history.journal.runs import RunReader
from coterie.team.planning import as_plan
from coterie.team.planning.branches import BRANCH
from coterie.team.planning.plan import Limits, Plan, without_gates
from coterie.team.topology.model import Topology
from coterie.testing.promises import check_journal, check_report, is_limit
from coterie.testing.simulated import SimulatedStore, SimulatedTurns
from coterie.testing.world import Crash, Emits, World

Reload = Callable[[str, Plan], ConfigChanged]

MORE = 2
"""How often a loop that reached a limit is resumed."""


class Load(Struct, frozen=True):
    """The load of one agent in a schedule.

    Attributes:
        turns: The number of its turns, in all attempts of a child run.
        attempts: The most attempts of one turn.
        cut: The most interruptions of one turn, by a crash or otherwise; the turn ran again after each.
    """

    turns: int = 0
    attempts: int = 0
    cut: int = 0

    def larger(self, other: "Load") -> "Load":
        """The larger of both loads, number by number."""
        return Load(*map(max, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


class Survived(Struct, frozen=True, kw_only=True):
    """The statistics of a schedule.

    Attributes:
        crashes: How often the owner was killed.
        in_a_row: How many of these crashes killed an owner that had taken over from a killed one.
        interruptions: How often it was interrupted.
        interrupted: How often an operator interrupted turns.
        turns: Turns that were started, child runs' own included.
        repeated: Attempts that were interrupted; their turns ran again.
        starts: Attempts that were started, each with its intent durable before.
        receipts: Turns whose result was durable; none of them was started again.
        seconds: Virtual time from the start to the end, times without an owner included.
        agents: By name; those of a child run are called `node/agent`. A loop's are its iterations and reviews.
        reopened: How many runs were reopened after a failure, child runs and repetitions included.
        called_off: How many child runs were cancelled, by their depth; the children of the root have depth 1.
    """

    outcome: str
    result: Any
    crashes: int
    interruptions: int
    turns: int
    repeated: int
    interrupted: int = 0
    in_a_row: int = 0
    starts: int = 0
    receipts: int = 0
    seconds: float = 0.0
    agents: Mapping[str, Load] = {}
    reopened: int = 0
    called_off: Mapping[int, int] = {}


def simulate(
    topology: Topology | Plan,
    seed: int,
    *,
    kinds: MakeKind = kind_of,
    reload: Reload | None = None,
    emits: Emits | None = None,
    chaos: float = 1.0,
    retries: int = 0,
) -> Survived:
    """Run one crash schedule, chosen by *seed*, and check every promise.

    Args:
        topology: The team. Its backends do not matter, as every agent is simulated; gates are removed.
        seed: Determines delays, replies, failures and crashes; equal seeds give equal schedules.
        kinds: The kind of a plan, for engines without a file format.
        reload: Gives the plan that a run reads when its engine asks to read it again.
        emits: The events that an attempt emits; by default a turn of a loop emits random allowed events, and some
            others.
        chaos: The frequency of failures and crashes: 1 is normal and 0 is never.
        retries: How often the run is reopened after a failure; see `coterie.execution.runs.control.resume`.

    Raises:
        SimulationFailed: If a promise was broken.
        TopologyError: If the topology cannot be planned.
    """
    return _Schedule(World(without_gates(as_plan(topology)), seed, kinds, emits, chaos), reload, retries).run()


class _Schedule:
    """One schedule, which runs the owners of a run one after the other."""

    def __init__(self, world: World, reload: Reload | None, retries: int) -> None:
        self._world, self._reload, self._retries = world, reload, retries
        self._reopened: RunReopened | None = None
        self._lost = False  # whether a power cut took records that were appended
        self._epoch = 0
        self._crashes = self._in_a_row = self._interruptions = self._interrupted = 0
        self._extended = 0
        self._crashed = False  # whether the owner before this one was killed
        self._asks_back = _asks_back(world.plan)

    def run(self) -> Survived:
        world = self._world
        for _ in range(40):
            self._drive_owner()
            last = world.journals.get("R", [None])[-1]
            self._reopened = self._reopening() if isinstance(last, RunFinished) else None
            if self._reopened is not None:
                continue
            if isinstance(last, RunFinished) or (self._extended >= MORE and is_limit(last)):
                break
        else:
            raise world.failed("it did not end within 40 owners")
        for run, log in world.journals.items():
            check_journal(world, run, log)
        root = world.journals["R"][-1]
        assert isinstance(root, RunFinished | RunStopped)
        return Survived(
            outcome=root.outcome if isinstance(root, RunFinished) else "stopped",
            result=root.result if isinstance(root, RunFinished) else root.reason,
            crashes=self._crashes,
            interruptions=self._interruptions,
            interrupted=self._interrupted,
            turns=len({(run, turn) for run, turn, _ in world.calls}),
            repeated=sum(isinstance(r, AttemptInterrupted) for log in world.journals.values() for r in log),
            in_a_row=self._in_a_row,
            starts=len(world.calls),
            receipts=len(world.finished),
            seconds=world.clock.now(),
            agents=self._loads(),
            reopened=sum(isinstance(r, RunReopened) for log in world.journals.values() for r in log),
            called_off=Counter(
                run.count("/")
                for run, log in world.journals.items()
                if isinstance(log[-1], RunFinished) and log[-1].outcome == "cancelled"
            ),
        )

    def _loads(self) -> dict[str, Load]:
        """The load of each agent, in order of first start."""
        attempts: dict[tuple[str, str], set[int]] = {}
        for run, turn, attempt in self._world.calls:
            attempts.setdefault((run, turn), set()).add(attempt)
        cut = Counter(
            (run, r.turn) for run, log in self._world.journals.items() for r in log if isinstance(r, AttemptInterrupted)
        )
        loads: dict[str, Load] = {}
        for (run, turn), tried in attempts.items():
            nodes = [step.rpartition("#")[0] for step in run.split("/")[1:]]
            branches = [BRANCH if node.startswith("wave-") else node for node in nodes]
            agent = "/".join([*branches, turn.rpartition("#")[0]])
            so_far = loads.get(agent, Load())
            loads[agent] = Load(
                turns=so_far.turns + 1, attempts=max(so_far.attempts, len(tried)), cut=max(so_far.cut, cut[run, turn])
            )
        return loads

    def _reopening(self) -> RunReopened | None:
        """The record that reopens the run, which has ended; None: it is not reopened."""
        if self._retries == 0:
            return None
        self._retries -= 1
        store = MemoryStore()
        for run, log in self._world.journals.items():
            store.fill(run, log)
        with contextlib.suppress(RetryRefused):
            return reopening(list(RunReader(store).tree("R")), self._world.clock.now(), kinds=self._world.kinds)
        return None

    async def _reread(self, run: str, plan: Plan) -> ConfigChanged:
        assert self._reload is not None
        return self._reload(run, plan)

    def _drive_owner(self) -> None:
        """Run one owner until it ends, is interrupted, or is killed."""
        world = self._world
        self._epoch += 1
        world.killed = False
        trouble = world.dice.random() < 0.8 * world.chaos and self._crashes + self._interruptions < 5
        kill = trouble and world.dice.random() < 0.8
        deepest = max((run.count("/") for run in world.journals), default=0)
        world.crash_in = world.dice.randint(1, 25 + 6 * deepest) if kill else -1
        lose = world.dice.random() < 0.5
        limits = Limits(max_parallel=world.dice.choice([None, 1, 2, 16]), add_iterations=self._more_iterations())
        store = SimulatedStore(world)
        shell = Shell(
            RunPorts(
                store=store,
                turns=SimulatedTurns(world),
                make_kind=world.kinds,
                clock=world.clock,
                reload=None if self._reload is None else self._reread,
            ),
            OwnerOptions(limits=limits or Limits()),
        )
        loop = world.clock.new_loop()
        opening = RootOpening(reopened=self._reopened)
        main = (
            shell.resume("R", world.plan, opening)
            if world.journals.get("R")
            else shell.start("R", world.plan, world.given)
        )
        task = loop.create_task(main)
        if trouble and not kill:
            loop.call_later(world.dice.uniform(0.0, 8.0), task.cancel)
        self._post_stale_replies(loop, shell)
        self._post_interrupts(loop, shell)
        if self._asks_back and self._epoch > 1:
            shell.expect()
            loop.create_task(self._decide(shell))
        try:
            loop.run_until_complete(task)
        except (Crash, asyncio.CancelledError, Exception) as error:  # whatever an owner dies of is a finding
            if not world.killed and not isinstance(error, asyncio.CancelledError | RunIsFinished):
                raise world.failed(f"{type(error).__name__}: {error}") from error
        finally:
            self._interruptions += task.cancelled()
            if task.done() and not task.cancelled():
                task.exception()  # seen
            self._lose_power(lose)
            _abandon(loop)
        if world.broken:
            raise world.failed(world.broken)
        if task.done() and not task.cancelled() and task.exception() is None:
            check_report(world, task.result(), self._lost)

    def _more_iterations(self) -> int:
        """The number of further iterations for a loop that stopped at a limit; this is repeated a few times."""
        stopped = is_limit(self._world.journals.get("R", [None])[-1])
        self._extended += stopped
        return 3 if stopped else 0

    def _lose_power(self, lose: bool) -> None:
        """Restore the state for a new owner: all appended records, or only the synced ones."""
        world = self._world
        self._in_a_row += world.killed and self._crashed
        self._crashed = world.killed
        if world.killed:
            self._crashes += 1
            if lose:
                kept = {run: log[: world.synced.get(run, 0)] for run, log in world.journals.items()}
                self._lost = self._lost or kept != world.journals
                world.journals = {run: log for run, log in kept.items() if log}
        world.open.clear()
        world.killed = True  # the rest of this owner must have no effect any more
        world.synced = {run: len(log) for run, log in world.journals.items()}

    def _post_stale_replies(self, loop: asyncio.AbstractEventLoop, shell: Shell) -> None:
        """Post late replies to attempts of dead owners; they must be ignored."""
        world = self._world
        for run, turn, attempt in world.calls[-3:] if self._epoch > 1 else ():

            def late(run: str = run, turn: str = turn, attempt: int = attempt) -> None:
                live = shell.runs.get(run)
                current = live.core.turns.get(turn) if live is not None else None
                if live is None or current is None or current.attempt == attempt:
                    return
                if live.core.accept(world.clock.now(), Reply(turn=turn, attempt=attempt, text="stale")) is not None:
                    world.broken = f"a stale reply of {run}/{turn}.{attempt} was accepted"

            loop.call_later(world.dice.uniform(0.0, 4.0), shell.post, late)

    def _post_interrupts(self, loop: asyncio.AbstractEventLoop, shell: Shell) -> None:
        """Have an operator interrupt a running turn, or all of a run, now and then."""
        dice = random.Random(f"{self._world.seed} operator {self._epoch}")

        def interrupt() -> None:
            live = dice.choice(list(shell.runs.values()))
            turn = dice.choice(["", *live.attempts])
            said = OperatorSaid(message=f"{self._epoch} {live.core.seq}", what="interrupt", turn=turn)
            self._interrupted += shell.approvals.interrupt(live, said)

        for _ in range(dice.choice([0, 0, 1, 2]) if dice.random() < self._world.chaos else 0):
            loop.call_later(dice.uniform(0.0, 8.0), shell.post, interrupt)

    async def _decide(self, shell: Shell) -> None:
        """Decide about interrupted turns that are retried only after approval."""
        await shell.opened.wait()
        await asyncio.sleep(self._world.dice.uniform(0.5, 3.0))

        def decide() -> None:
            for live in list(shell.runs.values()):
                for turn in list(live.held):
                    word = self._world.dice.choice(["retry", "retry", "cancel"])
                    shell.approvals.decide(live, turn, word, f"{self._epoch} {live.run}/{turn}")
            shell.arrived()

        shell.post(decide)


def _asks_back(plan: Plan) -> bool:
    """Whether a turn of *plan*, or of a plan inside it, is retried only after approval."""
    return any(
        agent.on_interrupt == "ask" or (agent.child is not None and _asks_back(agent.child))
        for agent in plan.agents.values()
    )


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Drop a dead owner: its tasks end at once, and all their further actions fail."""
    loop.set_exception_handler(lambda loop, context: None)
    while tasks := [task for task in asyncio.all_tasks(loop) if not task.done()]:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Crash):
            loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
