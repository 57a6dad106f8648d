"""The runs that one owner drives together, a root and its child runs. No asyncio.

What is decided in them is written here, and what follows from it is left in the outbox of its run, for
`coterie.kernel.shell`. How they begin is in `opening`, what is said to them in `attempt_inputs`, what people answer
in `approvals`, and how child runs are cancelled in `calling_off`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from coterie.backends.secrets import Secrets
from coterie.engines.commands import Ask
from coterie.journal.records import Record, RunFinished
from coterie.kernel.commands import Effect, Gather, Start
from coterie.kernel.core import Core
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.external_reads import ExternalReads
from coterie.kernel.kind import Observe
from coterie.kernel.ledger import Ledger
from coterie.kernel.owner import Observers, OwnerOptions, RunPorts
from coterie.kernel.prompts import gather
from coterie.planning.plan import Plan, environments


class RunTree:
    """A root run and its child runs, under the limits of their owner.

    Attributes:
        ports: The services that they use, *options* what their owner allows, and *observers* who watches.
        runs: Those that are driven, by id, the root first.
        ledger: What they have spent together.
        held: Values that the plan refers to; see `coterie.kernel.plan_secrets`.
        secrets: The secrets that are redacted in everything that enters the run.
        closing: Nothing starts any more.
        is_watched: Whether anybody is shown the records.
    """

    def __init__(
        self, ports: RunPorts, options: OwnerOptions, observers: Observers, external_reads: ExternalReads
    ) -> None:
        self.ports, self.options, self.observers, self.external_reads = ports, options, observers, external_reads
        self._clock, self._observe = ports.clock, observers.observe
        self.runs: dict[str, DrivenRun] = {}
        self.ledger = Ledger(options.limits, self.runs, ports.turns.abilities)
        self._environments: list[Mapping[str, str]] = [ports.environment]
        self.secrets = Secrets()
        self.held: Mapping[str, str] = {}
        self.closing = False
        self._watchers: list[Observe] = []
        self.is_watched = self._observe is not None

    def read(self, run: str) -> Iterator[Record]:
        """The records of *run* that its store has."""
        return self.ports.store.read(run)

    def watch(self, watcher: Observe) -> None:
        """Call *watcher* with a run's id and each record from now on once it has its place, durable or not.

        Nothing that leaves the process may come of it.
        """
        self._watchers.append(watcher)
        self.is_watched = True

    @property
    def allowed(self) -> list[str]:
        """The rules about uses of tools that an operator has allowed, for the project or for the rest of the run."""
        root = next(iter(self.runs.values()), None)
        return [*self.options.allow, *(root.core.allowed if root is not None else ())]

    def start_nothing(self) -> None:
        """Let nothing start any more."""
        self.closing = True

    def learn_secrets(self, plan: Plan) -> None:
        """Hide from now on what looks secret in the environment of this owner and in those that *plan* gives agents."""
        self.held = self.ports.held()
        self._environments += [*environments(plan), self.held]
        self.secrets = Secrets(*self._environments)

    def appended(self, run: str, record: Record) -> None:
        """Keep *record* for the observer until it is durable, and show it to the watchers."""
        if self._observe is not None:
            self.runs[run].unseen.append(record)
        for watcher in self._watchers:
            watcher(run, record)

    def post(self, event: Callable[[], object]) -> None:
        """Have *event* handled in its turn."""
        self.external_reads.post(event)

    def pump(self, live: DrivenRun) -> None:
        """Write what is decided in *live*, and put what it leads to into its outbox."""
        core = live.core
        if not core.called_off:
            self.take(live, core.pump(self._clock.now(), self._room))
        elif live.ending and core.finished is None:
            self._end(live)

    def take(self, live: DrivenRun, effects: list[Effect]) -> None:
        """Put *effects* into the outbox of *live*; what only reads need not wait there until its cause is durable."""
        for effect in effects:
            if type(effect) is Gather:
                ports = self.ports
                question = partial(gather, effect, live.run, live.kind.notes, ports.files, ports.notes, ports.workspace)
                self.external_reads.ask(question, partial(self._gathered, live, effect))
                continue
            if type(effect) is Start and live.kind.keeps_prompts and not effect.resumed:
                self.ports.files.keep_question(live.run, effect.ask.turn, effect.attempt, effect.prompt)
            live.outbox.append(effect)

    def _gathered(self, live: DrivenRun, asked: Gather, used: dict[str, str | None]) -> None:
        used = self.secrets.hide_in(used) if self.secrets.values else used
        self.take(live, live.core.gathered(self._clock.now(), asked, used, may_start=not self.closing))
        self.pump(live)

    def pump_queued(self) -> None:
        """Pump the runs with a queued start: there may be room for it now."""
        for live in list(self.runs.values()):
            if live.core.queued:
                self.pump(live)

    def _end(self, live: DrivenRun) -> None:
        """Call off what runs in *live*, and end it once no run below it is left: the deepest end first."""
        core, now, reason = live.core, self._clock.now(), "its parent cancelled the turn"
        for turn in list(core.turns):
            live.outbox += core.cancel(now, turn, reason, "harness")
        if not live.children:
            core.write(now, RunFinished(outcome="cancelled", reason=reason))

    def _room(self, core: Core, ask: Ask, again: bool) -> bool:
        return not self.closing and self.ledger.admits(core, ask, again)

    def waiting(self) -> list[DrivenRun]:
        """The runs from which something is to leave or to be shown, that are not durable yet, or that are over."""
        return [
            live
            for live in self.runs.values()
            if live.outbox
            or live.unseen
            or not live.is_durable
            or (live.core.finished is not None and not live.parent_notified)
        ]

    def show(self, live: DrivenRun) -> None:
        """Show the observer what has become durable."""
        if self._observe is not None:
            while live.unseen and live.writer.is_durable(live.unseen[0].seq):
                self._observe(live.run, live.unseen.popleft())
