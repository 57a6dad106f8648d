"""Simulate crashes of a team at random points, in virtual time, before they are real.

`simulate` runs a topology with agents that answer at random, fail at random and take random times; it kills the owner
at a random append (with or without the unsynced tail), interrupts it, resumes, several times over. The core, shell and
engines are real; only the store, the agents and the time are simulated. After each schedule:

* the result is that of an uncrashed run that is given the same replies in the same order;
* no turn with a durable receipt was started again;
* nothing left before the records behind it were durable;
* nothing follows a terminal record, and nothing is written to a journal that was closed;
* a run ends after all its child runs, each with the outcome its parent recorded, and every journal is closed;
* usage counts once, whatever was cancelled, and an owner's result agrees with the journal;
* a replay leaves nothing to do.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from coterie.backends.base import AttemptRef, Emitted, Request
from coterie.clock import VirtualClock
from coterie.engines.commands import Finish, Reply
from coterie.engines.loop import Loop
from coterie.errors import CoterieError, RunIsFinished
from coterie.ids import child_run_id
from coterie.journal.records import (
    NO_USAGE,
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    Record,
    RunFinished,
    RunStarted,
    RunStopped,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.planning.agents import asked_of
from coterie.planning.branches import BRANCH
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Limits, Plan, from_json
from coterie.runs.driven_run import Ended, MakeKind
from coterie.runs.fold import Fold
from coterie.runs.kinds import kind_of
from coterie.runs.shell import Shell
from coterie.testing.oracle import asked, uncrashed
from coterie.testing.simulated import Compared, Crash, SimulatedStore, SimulatedTurns, random_events
from coterie.topology.conditions import Condition, Scalar
from coterie.topology.model import Topology

Reload = Callable[[str, Plan], ConfigChanged]
Emits = Callable[[Request, random.Random], Sequence[str]]

LIMITS = ("max_iterations", "max_runtime", "cost_budget", "stalled")
"""The limits of a plan at which a loop stops."""
MORE = 2
"""How often a loop that reached a limit is resumed."""


_FAILED = {"timeout": ("completed", "failed", "cancelled"), "invalid_output": ("completed",)}
"""How a child run may have ended whose attempt failed in this way; one that ends in time may be late all the same."""


class SimulationFailed(CoterieError):
    """A schedule broke a promise; the message holds the seed and the journals.

    Attributes:
        what: The promise, and the violation.
        lines: Every record as JSON, each with its run.
    """

    def __init__(self, seed: int, what: str, journals: Mapping[str, Sequence[Record]]) -> None:
        self.seed, self.what = seed, what
        self.lines = [
            msgspec.json.encode({"run": run, "record": r}).decode() for run, log in journals.items() for r in log
        ]
        super().__init__(f"seed {seed}: {what}\n" + "\n".join(self.lines))


class Load(Struct, frozen=True):
    """The load of one agent in a schedule.

    Attributes:
        turns: Its turns, those in all attempts of a child run included.
        attempts: The most attempts of one turn.
        cut: The most interruptions of one turn, by a crash or otherwise; the turn ran again after each.
    """

    turns: int = 0
    attempts: int = 0
    cut: int = 0

    def larger(self, other: "Load") -> "Load":
        """The larger of both, number by number."""
        return Load(*map(max, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


class Survived(Struct, frozen=True, kw_only=True):
    """The statistics of a schedule.

    Attributes:
        crashes: How often the owner was killed.
        in_a_row: How many of these crashes hit an owner that had taken over from a crashed one.
        interruptions: How often it was told to stop.
        turns: Turns that were started, child runs' own included.
        repeated: Attempts that were interrupted; their turns ran again.
        starts: Attempts that were started, each with its intent durable before.
        receipts: Turns whose result was durable; none of them was started again.
        seconds: Virtual time from the start to the end, times without an owner included.
        agents: By name; those of a child run are called `node/agent`. A loop's are its iterations and reviews.
        called_off: How many child runs were called off, by how deep they lie; those right below the root are 1 deep.
    """

    outcome: str
    result: Any
    crashes: int
    interruptions: int
    turns: int
    repeated: int
    in_a_row: int = 0
    starts: int = 0
    receipts: int = 0
    seconds: float = 0.0
    agents: Mapping[str, Load] = {}
    called_off: Mapping[int, int] = {}


def simulate(
    topology: Topology | Plan,
    seed: int,
    *,
    kinds: MakeKind = kind_of,
    reload: Reload | None = None,
    emits: Emits | None = None,
    chaos: float = 1.0,
) -> Survived:
    """Run one crash schedule, chosen by *seed*, and check every promise.

    Args:
        topology: The team; its backends do not matter, because every agent is simulated.
        seed: Selects delays, replies, failures and crashes; equal seeds give equal schedules.
        kinds: The kind of a plan, for engines without a file format.
        reload: What a run reads when its engine asks for the plan again.
        emits: The events that an attempt emits; by default a turn of a loop emits random allowed events, and some
            others.
        chaos: The frequency of failures and crashes: 1 is normal and 0 is never.

    Raises:
        SimulationFailed: If a promise was broken.
        TopologyError: If the topology cannot be planned.
    """
    plan = topology if isinstance(topology, Plan) else _planned(topology)
    return _World(plan, seed, kinds, reload, emits, chaos).run()


def _planned(topology: Topology) -> Plan:
    from coterie.planning import plan_or_raise

    return plan_or_raise(topology)


class _World:
    """One schedule: journals that survive crashes, and owners that do not."""

    def __init__(
        self, plan: Plan, seed: int, kinds: MakeKind, reload: Reload | None, emits: Emits | None, chaos: float
    ) -> None:
        self.plan, self.seed, self.chaos = plan, seed, chaos
        self.kinds, self.reload, self.emits = kinds, reload, emits
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.journals: dict[str, list[Record]] = {}
        self.synced: dict[str, int] = {}
        self.crash_in = -1
        self.calls: list[tuple[str, str, int]] = []
        self.finished: set[tuple[str, str]] = set()
        self.gone: set[tuple[str, str, int]] = set()
        self.adopted: set[tuple[str, str, int]] = set()
        self.open: set[str] = set()
        self.lost = False  # whether a power cut took records that were appended
        self.broken = ""
        self.epoch = 0
        self.killed = False
        self.crashes = self.in_a_row = self.interruptions = 0
        self.extended = 0
        self.crashed = False  # whether the owner before this one was killed
        self.asks_back = _asks_back(plan)
        self._compared: dict[str, Compared] = {}

    def run(self) -> Survived:
        for _ in range(40):
            self._epoch()
            last = self.journals.get("R", [None])[-1]
            if isinstance(last, RunFinished) or (self.extended >= MORE and _is_limit(last)):
                break
        else:
            raise self._failed("it did not end within 40 owners")
        for run, log in self.journals.items():
            self._check(run, log)
        root = self.journals["R"][-1]
        assert isinstance(root, RunFinished | RunStopped)
        return Survived(
            outcome=root.outcome if isinstance(root, RunFinished) else "stopped",
            result=root.result if isinstance(root, RunFinished) else root.reason,
            crashes=self.crashes,
            interruptions=self.interruptions,
            turns=len({(run, turn) for run, turn, _ in self.calls}),
            repeated=sum(isinstance(r, AttemptInterrupted) for log in self.journals.values() for r in log),
            in_a_row=self.in_a_row,
            starts=len(self.calls),
            receipts=len(self.finished),
            seconds=self.clock.now(),
            agents=self._loads(),
            called_off=Counter(
                run.count("/")
                for run, log in self.journals.items()
                if isinstance(log[-1], RunFinished) and log[-1].outcome == "cancelled"
            ),
        )

    def _loads(self) -> dict[str, Load]:
        """The load of each agent, in order of first start."""
        attempts: dict[tuple[str, str], set[int]] = {}
        for run, turn, attempt in self.calls:
            attempts.setdefault((run, turn), set()).add(attempt)
        cut = Counter(
            (run, r.turn) for run, log in self.journals.items() for r in log if isinstance(r, AttemptInterrupted)
        )
        loads: dict[str, Load] = {}
        for (run, turn), tried in attempts.items():
            nodes = [step.rpartition("#")[0] for step in run.split("/")[1:]]
            branches = [BRANCH if node.startswith("wave-") else node for node in nodes]
            agent = "/".join([*branches, turn.rpartition("#")[0]])
            so_far = loads.get(agent, Load())
            loads[agent] = Load(
                turns=so_far.turns + 1,
                attempts=max(so_far.attempts, len(tried)),
                cut=max(so_far.cut, cut[run, turn]),
            )
        return loads

    # -- owners ---------------------------------------------------------------------------------------------------

    def _epoch(self) -> None:
        """One owner, until it ends, is interrupted, or is killed."""
        self.epoch += 1
        self.killed = False
        trouble = self.dice.random() < 0.8 * self.chaos and self.crashes + self.interruptions < 5
        kill = trouble and self.dice.random() < 0.8
        deepest = max((run.count("/") for run in self.journals), default=0)
        self.crash_in = self.dice.randint(1, 25 + 6 * deepest) if kill else -1
        lose = self.dice.random() < 0.5
        limits = Limits(max_parallel=self.dice.choice([None, 1, 2, 16]), add_iterations=self._more_iterations())
        store = SimulatedStore(self)
        shell = Shell(
            store=store,
            turns=SimulatedTurns(self),
            make_kind=self.kinds,
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
        if self.asks_back and self.epoch > 1:
            shell.expect()
            loop.create_task(self._decide(shell))
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
        if task.done() and not task.cancelled() and task.exception() is None:
            self._check_word(task.result())

    def _check_word(self, ended: Ended) -> None:
        """The owner's result must agree with the journal, and every journal must be closed."""
        last = self.journals["R"][-1]
        if isinstance(last, RunFinished):
            wanted = ("completed" if last.outcome == "completed" else "failed", last.reason)
            if (used := self._used("R")) != ended.usage and not (self.lost and _covers(ended.usage, used)):
                raise self._failed(f"it says that {ended.usage} was used, and its turns used {used}")
        else:
            wanted = ("stopped", last.reason if isinstance(last, RunStopped) else "")
        if (ended.status, ended.reason) != wanted:
            raise self._failed(f"it says {(ended.status, ended.reason)}, and the journal says {wanted}")
        if self.open:
            raise self._failed(f"journals were left open: {sorted(self.open)}")

    def _used(self, run: str) -> Usage:
        """The usage of *run* and of all its child runs, as far as their journals remain."""
        below = [one for one in self.journals if one.rpartition("/")[0] == run]
        teams = {one.rpartition("/")[2].rpartition(".")[0] for one in below}
        found = sum((self._used(one) for one in below), NO_USAGE)
        for record in self.journals[run]:
            if isinstance(record, TurnFinished | AttemptFailed) and record.turn not in teams:
                found += record.usage
            if isinstance(record, TurnStarted) and record.attempt == 1:
                found += Usage(turns=int(record.turn not in teams and self._is_single(run, record.agent)))
        return found

    def _is_single(self, run: str, agent: str) -> bool:
        """Whether *agent* of *run* is no team, whose own turns count instead."""
        known = self.kinds(self._plan_of(run)).agents.get(agent)
        return agent != BRANCH and (known is None or known.child is None)

    def _more_iterations(self) -> int:
        """Further iterations for a loop that stopped at a limit, a few times."""
        is_limit = _is_limit(self.journals.get("R", [None])[-1])
        self.extended += is_limit
        return 3 if is_limit else 0

    def _lose_power(self, lose: bool) -> None:
        """Restore what a new owner finds: everything appended, or only what was synced."""
        self.in_a_row += self.killed and self.crashed
        self.crashed = self.killed
        if self.killed:
            self.crashes += 1
            if lose:
                kept = {run: log[: self.synced.get(run, 0)] for run, log in self.journals.items()}
                self.lost = self.lost or kept != self.journals
                self.journals = {run: log for run, log in kept.items() if log}
        self.open.clear()
        self.killed = True  # the rest of this owner must have no effect any more
        self.synced = {run: len(log) for run, log in self.journals.items()}

    def _say_stale_things(self, loop: asyncio.AbstractEventLoop, shell: Shell) -> None:
        """Post late replies of dead owners' attempts, which must be ignored."""
        for run, turn, attempt in self.calls[-3:] if self.epoch > 1 else ():

            def late(run: str = run, turn: str = turn, attempt: int = attempt) -> None:
                live = shell.runs.get(run)
                current = live.core.turns.get(turn) if live is not None else None
                if live is None or current is None or current.attempt == attempt:
                    return
                if live.core.accept(self.clock.now(), Reply(turn=turn, attempt=attempt, text="stale")) is not None:
                    self.broken = f"a stale reply of {run}/{turn}.{attempt} was accepted"

            loop.call_later(self.dice.uniform(0.0, 4.0), shell.post, late)

    async def _decide(self, shell: Shell) -> None:
        """Decide about interrupted turns that are retried only after approval."""
        await shell.opened.wait()
        await asyncio.sleep(self.dice.uniform(0.5, 3.0))

        def decide() -> None:
            for live in list(shell.runs.values()):
                for turn in list(live.held):
                    word = self.dice.choice(["retry", "retry", "cancel"])
                    shell.tree.decide(live, turn, word, f"{self.epoch} {live.run}/{turn}")
            shell.arrived()

        shell.post(decide)

    def compared(self, run: str) -> Compared:
        """The values with which the flow of *run*, or the role it answers for, compares outputs of any agent."""
        path = self._agents_above(run)
        if path not in self._compared:
            flow = self._plan_of(run).flow
            found: dict[str, list[Scalar]] = {}
            for fields in asked_of(flow.groups if flow is not None else ()).values():
                for name, values in fields.items():
                    found.setdefault(name, []).extend(values)
            for condition in self._conditions_above(run):
                found.setdefault(condition.field, []).append(condition.value)
            self._compared[path] = found
        return self._compared[path]

    def _agents_above(self, run: str) -> str:
        """The path of *run*, each node replaced by its agent."""
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
        loop = self._plan_of(parent).coordination if below else None
        if not isinstance(loop, LoopPlan):
            return []
        agent = self._agent_of(parent, attempt)
        return [when for role in loop.roles if role.id == agent for _, when in role.events or () if when is not None]

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
            self.broken = (
                f"{request.run}/{request.turn} was cut off {cuts} times, but its request says {request.interrupted}"
            )
        call = (request.run, request.turn, request.attempt)
        if request.agent.kind != "human" and call in self.calls:
            self.broken = f"{request.run}/{request.turn}.{request.attempt} was started twice"
        self.calls.append(call)

    def lives(self, request: Request) -> bool:
        """See an attempt that may be adopted looked for; half of those that were started have outlived their owner."""
        call = (request.run, request.turn, request.attempt)
        if call not in self.calls or call in self.gone or self.dice.random() < 0.5:
            return False
        self.adopted.add(call)
        return True

    def end(self, run: str, spared: Sequence[AttemptRef] = ()) -> None:
        """See what earlier owners started end."""
        kept = tuple(f"{one.marker}/" for one in spared)
        below = {call: f"{child_run_id(*call)}/" for call in self.calls}
        self.gone |= {call for call, path in below.items() if path.startswith(f"{run}/") and not path.startswith(kept)}

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

    def events_of(self, request: Request, dice: random.Random) -> Sequence[Emitted]:
        if self.emits is None:
            return random_events(request, dice)
        return [Emitted(event=event) for event in self.emits(request, dice)]

    def claimed(self, run: str) -> None:
        if run in self.open:
            self.broken = f"{run} is opened though it is open"
        self.open.add(run)

    def closed(self, run: str) -> None:
        self.open.discard(run)
        if below := [one for one in self.open if one.startswith(f"{run}/")]:
            self.broken = f"{run} is closed before {below[0]}"

    def appended(self, run: str, record: Record) -> None:
        log = self.journals.setdefault(run, [])
        if log and isinstance(log[-1], RunFinished):
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
        self._live_on()

    def _live_on(self) -> None:
        """Kill the owner if this is the chosen append."""
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
            if isinstance(last, RunStopped) and _is_limit(self.journals["R"][-1]):
                plan = self._plan_of(run)
                self._compare_standing(run, log, uncrashed(run, plan, self.kinds, log))
                return
            raise self._failed(f"{run} does not end: its last record is {type(last).__name__}")
        self._check_agrees(run, last)
        plan = self._plan_of(run)
        again = Fold(run, self.kinds(plan))
        try:
            again.fold(log[:-1])
            left = [command for command in again.todo.values() if not isinstance(command, Finish)]
            again.apply(last)
        except Exception as error:  # whatever a replay dies of is a finding
            raise self._failed(f"{run} does not replay: {error}") from error
        if left and last.outcome != "cancelled":
            raise self._failed(f"{run}: a replay leaves {left} to do beside the end")
        if last.outcome != "cancelled":
            self._compare(run, log, uncrashed(run, plan, self.kinds, log))

    def _check_agrees(self, run: str, end: RunFinished) -> None:
        """The parent of *run* must have recorded the outcome of its journal."""
        parent, below, attempt = run.rpartition("/")
        turn, _, n = attempt.rpartition(".")
        said, agree = "", tuple[str, ...]()
        for record in self.journals[parent] if below else ():
            match record:
                case TurnFinished() if (record.turn, str(record.attempt)) == (turn, n):
                    said, agree = "finished", ("completed",)
                case AttemptFailed() if (record.turn, str(record.attempt)) == (turn, n):
                    said, agree = record.kind, _FAILED.get(record.kind, ("failed",))
                case TurnCancelled() if record.turn == turn:
                    said, agree = "cancelled", ("completed", "failed", "cancelled")
                case _:
                    continue
            if end.outcome in agree:
                return
            raise self._failed(f"{run} ended as {end.outcome}, and its parent says {said}")
        if below:
            raise self._failed(f"{run} ended as {end.outcome}, and its parent does not know")

    def _compare(self, run: str, log: Sequence[Record], oracle: Sequence[Record]) -> None:
        end, other = log[-1], oracle[-1]
        assert isinstance(end, RunFinished)
        if not isinstance(other, RunFinished) or (end.outcome, end.result) != (other.outcome, other.result):
            raise self._failed(f"{run} ended as {end}, uncrashed with the same replies as {other}")
        self._compare_standing(run, log, oracle)

    def _compare_standing(self, run: str, log: Sequence[Record], oracle: Sequence[Record]) -> None:
        stands, wanted_stands = self._stands(run, log), self._stands(run, oracle)
        if stands != wanted_stands:
            raise self._failed(f"{run} stands at {stands}, uncrashed with the same replies at {wanted_stands}")
        got, wanted = asked(log), asked(oracle)
        if got != [turn for turn in wanted if turn in got]:
            raise self._failed(f"{run} asked {got}, uncrashed with the same replies {wanted}")

    def _stands(self, run: str, log: Sequence[Record]) -> object:
        """The state of a loop at the end of *log*: position, accepted events, counters; None for other runs."""
        fold = Fold(run, self.kinds(self._plan_of(run)))
        if not isinstance(fold.engine, Loop):
            return None
        fold.fold(log)
        state = fold.engine.state
        counters = (state.iteration, state.reviews, state.waves, state.failures, round(state.cost, 6))
        return state.position, sorted(state.accepted), counters

    def _plan_of(self, run: str) -> Plan:
        parent, below, attempt = run.rpartition("/")
        if not below:
            return self.plan
        first = next(iter(self.journals.get(run, ())), None)
        if isinstance(first, RunStarted) and first.plan:  # a child of a loop, whose own plan may have changed
            return from_json(first.plan)
        child = self.kinds(self._plan_of(parent)).agents[attempt.rpartition("#")[0]].child
        assert child is not None
        return child

    def _failed(self, what: str) -> SimulationFailed:
        return SimulationFailed(self.seed, what, self.journals)


def _covers(said: Usage, used: Usage) -> bool:
    """Whether *said* is at least *used*: a power cut may have removed records that the parent counted."""
    return said.turns >= used.turns and said.cost >= used.cost


def _is_limit(last: Record | None) -> bool:
    """Whether a loop stopped at a limit of its plan."""
    return isinstance(last, RunStopped) and last.reason in LIMITS


def _asks_back(plan: Plan) -> bool:
    """Whether a turn of *plan*, or of a plan inside it, is retried only after approval."""
    return any(
        agent.on_interrupt == "ask" or (agent.child is not None and _asks_back(agent.child))
        for agent in plan.agents.values()
    )


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Drop a dead owner: its tasks end where they are, and all their further actions fail."""
    loop.set_exception_handler(lambda loop, context: None)
    while tasks := [task for task in asyncio.all_tasks(loop) if not task.done()]:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Crash):
            loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
