"""The runs that one owner drives together, a root and its child runs, and their ledger. No asyncio.

Decisions are written here, and their effects are put into the outbox of their run, for
`coterie.execution.kernel.shell`. `opening` begins runs, `attempt_inputs` accepts inputs from attempts, `approvals`
answers from people, and `calling_off` cancels child runs.

The ledger has what was spent, what is reserved, and what the limits still allow. An estimate is reserved from the
budget for each attempt before it starts, and settled when the attempt has ended. An attempt whose estimate exceeds what
is left waits until no other has a reservation; then what is left is reserved for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from math import isfinite
from operator import attrgetter

from msgspec.structs import asdict

from coterie.agents.backends.base import Abilities
from coterie.agents.backends.prices import estimated_cost
from coterie.agents.backends.secrets import Secrets
from coterie.execution.kernel.commands import MERGE, Effect, Gather, Start
from coterie.execution.kernel.core import Core
from coterie.execution.kernel.driven_run import Attempt, Check, DrivenRun
from coterie.execution.kernel.event_queue import ExternalReads
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.project import Observe
from coterie.execution.kernel.prompts import gather
from coterie.history.engines.commands import Ask
from coterie.history.journal.records import NO_USAGE, Record, RunFinished, Usage
from coterie.history.views.words import dollars
from coterie.team.planning.plan import AgentPlan, Limits, Plan, environments

_RESTATED = 0.9
"""The agent's total may lower a backend's estimate to this share of it; otherwise costs only rise."""
_MOST_TIMES = 100


class RunTree:
    """A root run and its child runs, under the limits of their owner.

    Attributes:
        ports: The stores and services of the runs; *options* and *observers* are those of their owner.
        runs: The driven runs by id, the root first.
        ledger: Their total spending and its limits.
        held: Secret values that the plan refers to; see `coterie.execution.kernel.plan_secrets`.
        secrets: The secrets that are redacted in everything that enters the run.
        closing: Whether nothing may start any more.
        watchers: Called with a run's id and each further record as soon as it is appended, durable or not; a watcher
            must not cause anything to leave the process.
    """

    def __init__(
        self, ports: RunPorts, options: OwnerOptions, observers: Observers, external_reads: ExternalReads
    ) -> None:
        self.ports, self.options, self.observers, self.external_reads = ports, options, observers, external_reads
        self._clock = ports.clock
        self.runs: dict[str, DrivenRun] = {}
        self.ledger = Ledger(options.limits, self.runs, ports.turns.abilities)
        self._environments: list[Mapping[str, str]] = [ports.environment]
        self.secrets = Secrets()
        self.held: Mapping[str, str] = {}
        self.closing = False
        self.watchers: list[Observe] = []
        self._opened = 0
        self._changed: dict[DrivenRun, None] = {}
        """The runs that have changed, until they are sorted into *waiting* and *queued*."""
        self._waiting: dict[DrivenRun, None] = {}
        self._queued: dict[DrivenRun, bool] = {}
        """The runs with a queued start, and whether it takes a slot."""
        self._starts: dict[bool, list[tuple[int, DrivenRun]]] = {True: [], False: []}
        """The same as heaps; an entry that *queued* does not confirm is void."""

    def add(self, live: DrivenRun) -> None:
        """Drive *live* from now on."""
        self._opened += 1
        live.number = self._opened
        self.runs[live.run] = live
        self.changed(live)

    def remove(self, live: DrivenRun) -> None:
        """Drive *live* no longer."""
        self.runs.pop(live.run, None)
        self.changed(live)

    def changed(self, live: DrivenRun) -> None:
        """Look at *live* again; of many runs, only those that have changed are looked at after an event."""
        self._changed[live] = self.ledger.changed[live] = None

    def _sort(self) -> None:
        """Find out which of the changed runs have something to do, and which a start to begin."""
        for live in self._changed:
            is_driven = self.runs.get(live.run) is live
            if is_driven:
                self._waiting[live] = None
            if not is_driven or live.core.called_off or not live.core.queued:
                self._queued.pop(live, None)
            elif self._queued.get(live) is not (takes_a_slot := live.core.next_takes_a_slot):
                self._queued[live] = takes_a_slot
                heappush(self._starts[takes_a_slot], (live.number, live))
        self._changed.clear()

    def read(self, run: str) -> Iterator[Record]:
        """The records of *run* in its store."""
        return self.ports.store.read(run)

    def load(self, run: str) -> Sequence[Record]:
        """All records of *run* in its store."""
        return self.ports.store.load_now(run)

    @property
    def allowed(self) -> list[str]:
        """Rules for tool use that an operator has allowed, for the project or for the rest of the run."""
        root = next(iter(self.runs.values()), None)
        return [*self.options.allow, *(root.core.allowed if root is not None else ())]

    def start_nothing(self) -> None:
        """Start nothing from now on."""
        self.closing = True

    def learn_secrets(self, plan: Plan) -> None:
        """From now on hide secret-looking values of this owner's environment and of the agents' variables in *plan*."""
        self.held = self.ports.held()
        new = [one for one in (*environments(plan), self.held) if one not in self._environments]
        self._environments += new  # a loop may read its plan again in each iteration
        self.secrets = Secrets(*self._environments)

    def pump(self, live: DrivenRun) -> None:
        """Write the decisions in *live*, and put their effects into its outbox."""
        core = live.core
        if core.gated:
            live.send(*(Check(turn=turn) for turn, held in core.gated.items() if held.next == MERGE))
        if not core.called_off:
            self.take(live, core.pump(self._clock.now(), _no_room if self.closing else self.ledger.admits))
        elif live.ending and core.finished is None:
            self._end(live)

    def take(self, live: DrivenRun, effects: list[Effect]) -> None:
        """Put *effects* into the outbox of *live*, but start reads at once: they need not wait for durable records."""
        for effect in effects:
            if type(effect) is Gather:
                ports, settings = self.ports, live.kind.project.notes
                question = partial(gather, effect, live.run, settings, ports.files, ports.notes, ports.workspace)
                self.external_reads.ask(question, partial(self._gathered, live, effect))
                continue
            if type(effect) is Start and live.kind.project.changes and not effect.resumed:
                self.ports.files.keep_question(live.core.ref(effect.ask.turn), effect.prompt)
            live.outbox.append(effect)
        self.changed(live)

    def _gathered(self, live: DrivenRun, asked: Gather, used: dict[str, str | None]) -> None:
        used = self.secrets.hide_in(used) if self.secrets.values else used
        self.take(live, live.core.gathered(self._clock.now(), asked, used, may_start=not self.closing))
        self.pump(live)

    def pump_queued(self) -> None:
        """Pump the runs with a queued start, the first ones first, since there may be room for it now."""
        if self._changed:
            self._sort()
        while self._queued and (live := self._next_queued()) is not None:
            self.pump(live)

    def _next_queued(self) -> DrivenRun | None:
        """The first run that was queued when they were last sorted and whose start need not wait for a slot."""
        while heaps := [heap for takes, heap in self._starts.items() if heap and not (takes and self.ledger.is_full)]:
            heap = min(heaps, key=lambda heap: heap[0][0])
            _, live = heappop(heap)
            if self._queued.get(live) is (heap is self._starts[True]):
                del self._queued[live]
                if live.core.queued:
                    return live
        return None

    def _end(self, live: DrivenRun) -> None:
        """Call off the running turns of *live*, and end it once no run below it is left: the deepest run ends first."""
        core, now, reason = live.core, self._clock.now(), "its parent cancelled the turn"
        for turn in list(core.open):
            live.send(*core.cancel(now, turn, reason, "harness"))
        if not live.children:
            core.write(now, RunFinished(outcome="cancelled", reason=reason))

    def waiting(self) -> list[DrivenRun]:
        """The runs with something to write, to perform or to show, in the order in which they were opened."""
        if self._changed:
            self._sort()
        found = [live for live in self._waiting if live.waits and self.runs.get(live.run) is live]
        self._waiting = dict.fromkeys(found)
        return sorted(found, key=attrgetter("number")) if len(found) > 1 else found

    def show(self, live: DrivenRun) -> None:
        """Show the records that have become durable to the observers."""
        while live.unseen and live.writer.is_durable(live.unseen[0].seq):
            record = live.unseen.popleft()
            if (observe := self.observers.of.get(type(record))) is not None:
                observe(live.run, record)
            for observe in self.observers.observe:
                observe(live.run, record)


class Ledger:
    """Compares the total spending of the runs of one tree with the owner's limits.

    A child run's spending counts as its own while it runs, and as its parent's once the parent has its result or calls
    it off.

    Args:
        runs: The driven runs by id; the mapping is read anew each time.
        abilities: Returns the abilities of an agent's backend.

    Attributes:
        limits: The limits of the owner.
        costs: The cost of each agent's most expensive attempt in these runs, in US dollars, if one has ended.
        changed: The runs to count anew; see `RunTree.changed`.
    """

    def __init__(
        self, limits: Limits, runs: Mapping[str, DrivenRun], abilities: Callable[[AgentPlan], Abilities]
    ) -> None:
        self.limits, self._runs, self._abilities = limits, runs, abilities
        self.costs: dict[str, float] = {}
        self.changed: dict[DrivenRun, None] = {}
        self._busy = self._turns = self._overspent = 0
        self._counts: dict[DrivenRun, tuple[int, int, int]] = {}
        """What each run counts for in these three sums."""
        self._settled_by: dict[DrivenRun, float] = {}
        self._pending_by: dict[DrivenRun, float] = {}

    def spent(self) -> Usage:
        """The usage of the tree so far."""
        return sum((live.core.spent for live in self._runs.values() if not live.core.called_off), NO_USAGE)

    @property
    def busy(self) -> int:
        """How many running turns take a slot."""
        if self.changed:
            self._count()
        return self._busy

    @property
    def is_full(self) -> bool:
        """Whether every slot is taken."""
        return self.limits.max_parallel is not None and self.busy >= self.limits.max_parallel

    def admits(self, core: Core, ask: Ask, again: bool) -> bool:
        """Whether a turn of *ask* may start in *core* now; *again*: it is a further attempt, not a new turn."""
        limits = self.limits
        self.changed[self._runs[core.run]] = None  # it may just have reserved a place
        if self.is_full and core.takes_a_slot(ask.agent):
            return False
        if limits.max_cost is not None and not self._affords(limits.max_cost, core, ask):
            return False
        if again or limits.max_turns is None or core.kind(ask.agent) == "topology":
            return True
        self._count()
        return self._turns < limits.max_turns

    def _count(self) -> None:
        """Count anew what has changed."""
        for live in self.changed:
            core, is_driven = live.core, self._runs.get(live.run) is live
            before, now = self._counts.pop(live, (0, 0, 0)), (0, 0, 0)
            if is_driven:
                turns = len(core.reserved) + (0 if core.called_off else core.used.turns + core.taken)
                now = self._counts[live] = core.busy, turns, int(live.overspent)
            self._busy += now[0] - before[0]
            self._turns += now[1] - before[1]
            self._overspent += now[2] - before[2]
            if self.limits.max_cost is not None:
                counts = is_driven and not core.called_off
                self._settled_by[live], self._pending_by[live] = self._costs(live) if counts else (0.0, 0.0)
                if not is_driven:
                    del self._settled_by[live], self._pending_by[live]
        self.changed.clear()

    def reached(self) -> str:
        """The limit that keeps queued turns from starting, `max_turns` or `max_cost`; empty if none does."""
        if not any(live.core.queued for live in self._runs.values()):
            return ""
        if self.limits.max_turns is not None and self.spent().turns >= self.limits.max_turns:
            return "max_turns"
        return "max_cost" if self.limits.max_cost is not None and self._is_used_up(self.limits.max_cost) else ""

    # -- the budget ---------------------------------------------------------------------------------------------------

    def reserve(self, fold: Fold, ask: Ask) -> float:
        """The dollars to reserve for an attempt of *ask*: its estimate, at most the rest of the budget."""
        most = self.limits.max_cost
        return 0.0 if most is None else max(min(self._estimate(fold, ask), most - self._committed()), 0.0)

    def overspends(self, attempt: Attempt) -> bool:
        """Whether *attempt* has reported more than its reservation and the budget is exceeded."""
        most = self.limits.max_cost
        return most is not None and attempt.used.cost > attempt.turn.reserved and self._committed() > most

    def allows_more(self, attempt: Attempt) -> bool:
        """Whether *attempt* may cost more: of what is reserved for it, or of what is left."""
        most = self.limits.max_cost
        return most is None or attempt.used.cost < attempt.turn.reserved or self._committed() < most

    def _affords(self, most: float, core: Core, ask: Ask) -> bool:
        if self._is_used_up(most):
            return False
        return not self._pending() or self._committed() + self._estimate(core, ask) <= most

    def _is_used_up(self, most: float) -> bool:
        """Whether the budget is spent, or an attempt had to be cut off because of it."""
        return self._settled() >= most or self._overspent > 0

    def _committed(self) -> float:
        return self._settled() + self._pending()

    def _settled(self) -> float:
        self._count()
        return sum(self._settled_by.values())

    def _pending(self) -> float:
        """The possible cost of running attempts: of each, the higher of its reservation and its reported cost."""
        self._count()
        return sum(self._pending_by.values())

    def _costs(self, live: DrivenRun) -> tuple[float, float]:
        """What *live* has cost, and what its running attempts may cost."""
        core = live.core
        pending = sum(turn.reserved for turn in core.reserved.values())
        for name, turn in core.open.items():
            if turn.reserved or turn.gated is not None or name in live.attempts:
                pending += max(turn.reserved, live.attempt(name).used.cost)
        return core.used.cost + core.used.unsettled, pending

    def _estimate(self, fold: Fold, ask: Ask) -> float:
        """Estimate an attempt by its agent's most expensive attempt so far, else by its model's prices, if known."""
        agent = fold.agents.get(ask.agent)
        if agent is None or agent.kind != "agent" or not self._abilities(agent).cost:
            return 0.0
        known = self.costs.get(ask.agent)
        return estimated_cost(agent, _characters(fold, agent, ask)) if known is None else known


def _no_room(core: Core, ask: Ask, again: bool) -> bool:
    """Whether a turn may start once nothing may."""
    return False


def misreport(usage: Usage, earlier: Usage, reserved: float) -> str:
    """Why *usage* is implausible after an attempt has reported *earlier*; empty if it is plausible.

    Args:
        reserved: The dollars reserved for the attempt; 0: none.
    """
    amounts = [value for value in asdict(usage).values() if isinstance(value, int | float)]
    if not all(map(isfinite, amounts)):
        return "an amount is not finite"
    if min(amounts) < 0:
        return "an amount is negative"
    if usage.cost < earlier.cost * _RESTATED:
        return f"its cost fell from {dollars(earlier.cost)} to {dollars(usage.cost)}"
    if 0 < reserved * _MOST_TIMES < usage.cost:
        reservation = f"the {dollars(reserved)} reserved for it"
        return f"its cost of {dollars(usage.cost)} is more than {_MOST_TIMES} times {reservation}"
    return ""


def _characters(fold: Fold, agent: AgentPlan, ask: Ask) -> int:
    """The approximate length of the prompt of *ask*."""
    texts = [agent.prompt, agent.role, ask.prompt or "", *(text for _, text in ask.history)]
    texts += [str(ask.item.value)] if ask.item is not None else []
    texts += [str(value) for value in (fold.started.input if fold.started else {}).values()]
    results = (fold.work(name).result for name in ask.inputs if name in fold.turns or name in fold.sets)
    return sum(map(len, texts)) + sum(len(result.text) for result in results if result is not None)
