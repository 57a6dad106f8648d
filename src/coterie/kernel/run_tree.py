"""The runs that one owner drives together, a root and its child runs: opened, heard, and written on. No asyncio.

Every record of theirs is written here or by what is called from here; what follows from it is left in the outbox of
its run, for `coterie.kernel.shell`.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coterie.backends.base import Abilities
from coterie.backends.secrets import Secrets
from coterie.clock import Clock
from coterie.engines.commands import Ask, Emit, Reply
from coterie.errors import NoSuchRun, RunIsFinished
from coterie.ids import child_run_id
from coterie.journal.base import Store
from coterie.journal.records import (
    ATTENTION_ANSWERS,
    DECISIONS,
    NO_USAGE,
    OVER_BUDGET,
    PARKED,
    PARKED_DECISIONS,
    AttemptFailed,
    AttemptInterrupted,
    AttemptLaunched,
    AttemptMisreported,
    AttentionAnswered,
    AttentionAsked,
    GatesDue,
    OperatorSaid,
    PlanReloaded,
    Record,
    RunFinished,
    RunStarted,
    Usage,
)
from coterie.journal.relocation import Relocation
from coterie.kernel.attempt_files import AttemptFiles
from coterie.kernel.commands import Effect, Gather, Said, Start, Turn
from coterie.kernel.core import Core
from coterie.kernel.driven_run import Attend, Check, DrivenRun, InterruptAttempt, MakeKind, Permit, Steer
from coterie.kernel.facts import ExternalFacts
from coterie.kernel.fold import Fold
from coterie.kernel.kind import Observe
from coterie.kernel.ledger import Ledger, misreport
from coterie.kernel.prompts import gather, how_to_decide, outside, render
from coterie.kernel.succession import own
from coterie.planning.plan import AgentPlan, Limits, Plan, environments, to_json
from coterie.workspace.base import Workspace
from coterie.workspace.notes import Notes

_ENDS_ATTEMPT = (Reply, AttemptFailed, AttemptInterrupted)
_AWAITS_GATES = (*_ENDS_ATTEMPT, Emit)
"""The inputs that are judged, or that end an attempt."""


class RunTree:
    """A root run and its child runs, under the limits of their owner.

    Attributes:
        runs: Those that are driven, by id, the root first.
        ledger: What they have spent together.
        notes: Their memory and tasks.
        held: Values that the plan refers to; see `coterie.kernel.plan_secrets`.
        secrets: The secrets that are redacted in everything that enters the run.
        reloaded: Whether the root is taken over under another plan than its journal holds.
        closing: Nothing starts any more.
        warnings: What the root run should have on this machine, and goes on without; to be recorded when it is owned.
        place: The `project` and `home` of a new run's `RunStarted`.
        relocation: Where the project of a run that is taken over is; *is_copied*: its earlier attempts are another's.
        before_taking_over: Called with a run that is taken over: what had come for it before its owner died still
            counts.
        taken_over: Called with a run that was taken over, before it goes on.
        appended: Called with the run's id and each record once it has its place, durable or not: nothing that leaves
            the process may come of it.
    """

    def __init__(
        self,
        store: Store,
        make_kind: MakeKind,
        clock: Clock,
        limits: Limits,
        files: AttemptFiles,
        notes: Notes,
        workspace: Workspace,
        closes: Callable[[Plan], bool],
        held: Callable[[], Mapping[str, str]],
        facts: ExternalFacts,
        environment: Mapping[str, str],
        cwd: Path | None,
        observe: Observe | None,
        abilities: Callable[[AgentPlan], Abilities],
    ) -> None:
        self._store, self._make_kind, self._clock = store, make_kind, clock
        self._cwd, self._observe = cwd, observe
        self._files, self.notes, self._workspace = files, notes, workspace
        self._closes, self._held, self.facts = closes, held, facts
        self._abilities = abilities
        self.runs: dict[str, DrivenRun] = {}
        self.ledger = Ledger(limits, self.runs, abilities)
        self._environments: list[Mapping[str, str]] = [environment]
        self.secrets = Secrets()
        self.held: Mapping[str, str] = {}
        self.reloaded = False
        self.closing = False
        self.warnings: tuple[str, ...] = ()
        self.place = ("", "")
        self.relocation = Relocation()
        self.is_copied = False
        self.begun_by: tuple[str, ...] = ()
        self.before_taking_over: Callable[[DrivenRun], None] = lambda live: None
        self.taken_over: Callable[[DrivenRun], None] = lambda live: None
        self.appended: Observe | None = None

    def read(self, run: str) -> Iterator[Record]:
        """The records of *run* that its store has."""
        return self._store.read(run)

    # -- a run begins or is taken over --------------------------------------------------------------------------------

    def open(
        self,
        run: str,
        plan: Plan,
        given: dict[str, Any] | None,
        parent: tuple[DrivenRun, Start] | None,
        called_off: bool = False,
    ) -> DrivenRun:
        """Claim *run* and begin or continue it.

        Args:
            given: Its input; None if it must be there already.
            called_off: Its parent called it off under an earlier owner: it only ends.
        """
        if parent is None:
            self.learn_secrets(plan)
        kind = self._make_kind(plan)
        kind.engine  # noqa: B018 - a plan without one is refused before the run is claimed
        writer = self._store.claim(run)

        def append(record: Record) -> None:
            writer.append((record,))
            if self._observe is not None:
                live.unseen.append(record)
            if self.appended is not None:
                self.appended(run, record)

        core = Core(
            run,
            kind,
            append,
            self._render,
            _digest,
            call_off=lambda turn: self.call_off(live, turn.ask, turn.attempt),
            is_ending=lambda: any(child.core.called_off for child in live.children.values()),
            outside=outside,
            reserve=self.ledger.reserve,
            can_resume=lambda agent: self._abilities(core.agents.get(agent) or AgentPlan(name=agent)).resume,
        )
        core.called_off, core.costs = called_off, self.ledger.costs
        if parent is None:
            core.closes = lambda: self._closes(live.plan)
        self.runs[run] = live = DrivenRun(
            run, plan, kind, core, writer, parent
        )  # whatever comes now, its journal is given up
        if parent is not None:
            parent[0].children[run] = live
        if writer.last:
            self._take_over(live, plan)
        else:
            if parent is None:
                self.ledger.limits = self.ledger.limits.after(Limits())
            limits = self.ledger.limits
            limits = limits if parent is None else msgspec.structs.replace(limits, add_iterations=0)
            given = given or {}
            if parent is not None and (above := parent[0].core.started) is not None:
                given = kind.input_below(given, above.input)
            core.begin(
                self._clock.now(), self._first_record(live, given), limits, self.warnings if parent is None else ()
            )
        self.pump(live)
        return live

    def learn_secrets(self, plan: Plan) -> None:
        """Hide from now on what looks secret in the environment of this owner and in those that *plan* gives agents."""
        self.held = self._held()
        self._environments += [*environments(plan), self.held]
        self.secrets = Secrets(*self._environments)

    def _take_over(self, live: DrivenRun, plan: Plan) -> None:
        core, now, is_root = live.core, self._clock.now(), live.parent is None
        core.fold(self._store.read(live.run))
        if core.finished is not None:
            if is_root:
                raise RunIsFinished(live.run, core.finished.outcome)
            live.reap = _launched(core)
            return
        if live.writer.repaired is not None:
            core.write(now, live.writer.repaired)
        if self.reloaded and is_root:
            text = to_json(plan).decode()
            core.write(now, PlanReloaded(plan=text, plan_hash=plan.content_hash()), source="operator")
        if core.plan:
            live.plan = self.relocation.plan(live.kind.adopt(core.plan))
        self.before_taking_over(live)
        live.reap = [] if self.is_copied else _launched(core)
        warnings = self.warnings if is_root else ()
        if is_root:
            self.ledger.limits = self.ledger.limits.after(core.limits)
        place = self.relocation.project if is_root and self.relocation.before else ""
        effects = own(core, now, self.ledger.limits, partial(self.used, live), warnings, place)
        if not core.called_off:
            self._take(live, effects)
            live.outbox += [Check(turn=turn) for turn in core.gated]
        self.taken_over(live)

    def _first_record(self, live: DrivenRun, given: dict[str, Any]) -> RunStarted:
        child, engine = live.parent is not None, live.core.engine
        own_plan = live.parent is None or live.parent[0].kind.keeps_child_plans
        return RunStarted(
            run=live.run,
            engine=engine.name,
            engine_version=engine.version,
            topology=live.plan.name,
            plan_hash=live.plan.content_hash() if own_plan else "",
            plan=to_json(live.plan).decode() if own_plan else "",
            input=self.secrets.hide_in(given),
            parent=live.parent[0].run if live.parent else "",
            cwd="" if child or self._cwd is None else str(self._cwd),
            snapshots=not child and self._workspace.saves,
            begun_by=() if child else self.begun_by,
            project="" if child else self.place[0],
            home="" if child else self.place[1],
        )

    # -- what is said to a run ----------------------------------------------------------------------------------------

    def hear(self, live: DrivenRun, said: Said, source: str = "agent", at_once: bool = False) -> Record | None:
        """Take what an attempt says; None if it came too late. Only while an event is handled (`Shell.post`).

        While the gates of its turn run, what would be judged or would end the attempt is kept until their verdict,
        and None is returned, unless it is to be taken *at_once*.
        """
        if (held := live.core.gated.get(said.turn)) is not None and isinstance(said, _AWAITS_GATES) and not at_once:
            if isinstance(said, Emit) and said.message and said.message == held.due.brought_by:
                return held.due
            live.held_back.setdefault(said.turn, []).append((said, source))
            return None
        if isinstance(said, _ENDS_ATTEMPT) and (said.usage is not NO_USAGE or live.has_reported):
            silent = said.usage == NO_USAGE and not isinstance(said, Reply)
            usage = live.used(said.turn) if silent else self._counted(live, said.turn, said.attempt, said.usage)
            said = msgspec.structs.replace(said, usage=usage)
        if isinstance(said, AttemptInterrupted) and said.reason == "interrupted" and said.turn in live.overspent:
            said = msgspec.structs.replace(said, reason=OVER_BUDGET)
        if self.secrets.values:
            said = self._hidden(said)
        record = live.core.accept(self._clock.now(), said, source)
        if isinstance(record, GatesDue):
            live.outbox.append(Check(turn=said.turn))
        return self._heard(live, said.turn, record)

    def use(self, live: DrivenRun, turn: str, attempt: int, usage: Usage) -> None:
        """Keep what an attempt has used so far, and cut it off if that passes its reservation and the budget."""
        if live.core.hears(turn, attempt):
            live.reported[turn] = self._counted(live, turn, attempt, usage)
            if self.ledger.overspends(live, turn):
                live.overspent.add(turn)
                live.outbox.append(InterruptAttempt(turn=turn))

    def used(self, live: DrivenRun, turn: str, attempt: int) -> Usage:
        """What an attempt of an earlier owner has used, by what it had reported."""
        for usage in self._files.used(live.run, turn, attempt):
            live.reported[turn] = self._counted(live, turn, attempt, usage)
        live.misreported.discard(turn)  # its next attempt may report again
        return live.reported.pop(turn, NO_USAGE)

    def _counted(self, live: DrivenRun, turn: str, attempt: int, usage: Usage) -> Usage:
        """The *usage* that an attempt reports, or what counts in its place if it cannot be right, which is recorded."""
        if not live.core.hears(turn, attempt):
            return usage
        earlier, reserved = live.used(turn), live.core.reservations.get(turn, 0.0)
        if turn in live.misreported:
            return earlier
        if reason := misreport(usage, earlier, reserved):
            usage = msgspec.structs.replace(earlier, cost=max(earlier.cost, reserved))
            live.core.write(
                self._clock.now(), AttemptMisreported(turn=turn, attempt=attempt, reason=reason, usage=usage)
            )
            live.misreported.add(turn)
            live.reported[turn] = usage
        return usage

    def settle(self, live: DrivenRun, turn: str) -> None:
        """Write the verdict on what *turn* said, whose gates were run, then take what it said meanwhile."""
        core = live.core
        self._heard(live, turn, core.settle(self._clock.now(), turn))
        for said, source in live.held_back.pop(turn, []):
            self.hear(live, said, source)
        one = core.turns[turn]
        if one.status == "running" and one.slot and turn not in live.attempts:  # it ended with an earlier owner
            core.cut_off(self._clock.now(), turn, "crash", self.used(live, turn, one.attempt))
            self.pump(live)

    def _heard(self, live: DrivenRun, turn: str, record: Record | None) -> Record | None:
        if record is None:
            return None
        if live.core.turns[turn].status != "running":
            live.halt(turn)  # a human was answered from elsewhere; any other has ended by itself
        self.pump(live)
        return record

    def hear_late(self, live: DrivenRun, emit: Emit) -> Record | None:
        """Take what an attempt had emitted when its owner died, in that owner's time; nothing follows from it yet."""
        return live.core.accept(live.core.at, self._hidden(emit))

    def _hidden(self, said: Said) -> Said:
        """*said* without secrets."""
        if not self.secrets.values:
            return said
        return self.secrets.hide_fields(
            said,
            "text",
            "outputs",
            "given",
            "event",
            "payload",
            "reason",
            "log",
            "incomplete",
            "tool",
            "detail",
            "output",
        )

    def cut(self, live: DrivenRun, said: OperatorSaid, source: str = "operator") -> bool:
        """Interrupt the attempt of one turn, or all attempts of *live* and below; False if there is none."""
        names = [said.turn] if said.turn else list({**live.attempts, **live.checks})
        below = [one for one in live.children.values() if said.turn in ("", one.turn) and one.core.is_live]
        found = [name for name in names if name in live.sessions or name in live.checks]
        if not found and not below:
            return False
        live.core.write(self._clock.now(), said, source=source)
        live.outbox += [InterruptAttempt(turn=name) for name in found]
        for child in below:
            self.cut(child, msgspec.structs.replace(said, turn=""), source)
        self.pump(live)
        return True

    def guide(self, live: DrivenRun, said: OperatorSaid, now: float, source: str = "operator") -> None:
        """Record guidance for a turn of *live*, or for all, and steer their attempts where the backend can do that."""
        live.core.write(now, said, source=source)
        live.outbox += [Steer(turn=turn, said=said) for turn in live.sessions if said.turn in ("", turn)]

    def need(self, live: DrivenRun, asked: AttentionAsked, seconds: float | None) -> None:
        """Record that an attempt of *live* needs a person, under the next id; its policy answers after *seconds*.

        An attempt that was adopted may ask again for what it has asked under its earlier owner.
        """
        core = live.core
        known = (one for one in core.attention.values() if one.turn == asked.turn and one.question == asked.question)
        again = next((one for one in known if one.question and one.attempt == asked.attempt), None)
        if again is None:
            due = None if seconds is None else max(self._clock.now(), core.at) + seconds
            asked = msgspec.structs.replace(asked, id=f"{asked.turn}?{core.questions + 1}", due=due)
            if self.hear(live, asked) is None:
                return
            if said := core.said_before(asked):
                self.attend(live, asked.id, said.what, said.message)
                return
        live.outbox.append(Attend(asked=again or core.attention[asked.id]))

    def attend(self, live: DrivenRun, id: str, answer: str, message: str = "", source: str = "operator") -> str:
        """Answer what an attempt of *live* needs a person for, if it still does; return why that cannot be, if so.

        Args:
            answer: One of `ATTENTION_ANSWERS` for its kind.
            message: That of the operator, or of the *source*; empty: the policy answers.
        """
        core, now = live.core, self._clock.now()
        asked = core.attention.get(id)
        if asked is None or not core.hears(asked.turn, asked.attempt):
            what = f"nothing with the id {id!r}" if id else "nothing"
            return f"{what} waits for a person; open: {', '.join(core.attention) or 'none'}"
        if answer not in (known := ATTENTION_ANSWERS.get(asked.kind, ())):
            return f"{answer!r} is no answer to {id}: write {', '.join(known[:-1])} or {known[-1]}"
        turn, attempt = asked.turn, asked.attempt
        answered = AttentionAnswered(id=id, turn=turn, attempt=attempt, answer=answer, message=message)
        core.write(now, answered, source=source if message else "harness")
        match answer:
            case "park":
                self.hear(live, AttemptInterrupted(turn=turn, attempt=attempt, reason=PARKED))
            case "fail":
                reason = f"{asked.tool} was not permitted: {asked.detail}".removesuffix(": ")
                self.hear(live, AttemptFailed(turn=turn, attempt=attempt, kind="refused", reason=reason))
            case "interrupt":
                live.outbox.append(InterruptAttempt(turn=turn))
            case "allow" | "deny":
                live.outbox.append(Permit(turn=turn, question=asked.question, allowed=answer == "allow"))
        self.pump(live)
        return ""

    def decide(self, live: DrivenRun, turn: str, word: str, message: str, source: str = "operator") -> str:
        """Take a human's word on a turn that a crash cut off; return why it cannot be used, if so."""
        parked = live.core.parked_for(turn)
        if word.strip() not in (PARKED_DECISIONS if parked else DECISIONS):
            return f"{how_to_decide(turn, parked)} (not {word!r})"
        cause = live.held.pop(turn)
        said = OperatorSaid(message=message, what=word.strip(), turn=turn)
        live.core.write(self._clock.now(), said, source=source)
        if said.what == "cancel":
            live.outbox += live.core.cancel(self._clock.now(), turn, "an operator cancelled it", source)
        else:
            live.core.due(cause)
        self.pump(live)
        return ""

    def post(self, event: Callable[[], object]) -> None:
        """Have *event* handled in its turn."""
        self.facts.post(event)

    # -- what follows -------------------------------------------------------------------------------------------------

    def pump(self, live: DrivenRun) -> None:
        """Write what is decided in *live*, and put what it leads to into its outbox."""
        core = live.core
        if not core.called_off:
            self._take(live, core.pump(self._clock.now(), self._room))
        elif live.ending and core.finished is None:
            self._end(live)

    def _take(self, live: DrivenRun, effects: list[Effect]) -> None:
        """Put *effects* into the outbox of *live*; what only reads need not wait there until its cause is durable."""
        for effect in effects:
            if type(effect) is Gather:
                question = partial(gather, effect, live.run, live.kind.notes, self._files, self.notes, self._workspace)
                self.facts.ask(question, partial(self._gathered, live, effect))
                continue
            if type(effect) is Start and live.kind.keeps_prompts and not effect.resumed:
                self._files.keep_question(live.run, effect.ask.turn, effect.attempt, effect.prompt)
            live.outbox.append(effect)

    def _gathered(self, live: DrivenRun, asked: Gather, used: dict[str, str | None]) -> None:
        used = self.secrets.hide_in(used) if self.secrets.values else used
        self._take(live, live.core.gathered(self._clock.now(), asked, used, may_start=not self.closing))
        self.pump(live)

    def pump_queued(self) -> None:
        """Pump the runs with a queued start: there may be room for it now."""
        for live in list(self.runs.values()):
            if live.core.queued:
                self.pump(live)

    # -- a child run is called off ------------------------------------------------------------------------------------

    def call_off(self, live: DrivenRun, ask: Ask, attempt: int) -> Usage:
        """Hear nothing more of the child run that *attempt* of a turn of *live* is, nor of the runs below it.

        Nothing is written to their journals before what the parent says of the turn is durable: `Halt` ends them.

        Returns:
            What they have used together.
        """
        child = self._child(live, ask, attempt)
        if child is None:
            usage = live.used(ask.turn)
            live.reported.pop(ask.turn, None)  # it counts as spent from now on
            return usage
        child.core.called_off = True
        usage = child.core.spent
        for below in child.core.turns.values():
            if below.status == "running":
                usage += self.call_off(child, below.ask, below.attempt)
        return usage

    def _child(self, live: DrivenRun, ask: Ask, attempt: int) -> DrivenRun | None:
        """The child run that an attempt is; one that only an earlier owner drove is taken over, to be ended."""
        agent = live.core.agents.get(ask.agent)
        if agent is None or agent.child is None:
            return None
        run = child_run_id(live.run, ask.turn, attempt)
        if run in live.children or not self._began(run):
            return live.children.get(run)
        start = Start(ask=ask, attempt=attempt, prompt="")
        return self.open(run, agent.child, None, (live, start), called_off=True)

    def _began(self, run: str) -> bool:
        try:
            return next(self._store.read(run), None) is not None
        except NoSuchRun:
            return False

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

    def _render(self, core: Fold, turn: Turn) -> str:
        """The whole prompt of a turn's current attempt, without secrets."""
        prompt = render(core, turn)
        return self.secrets.hide(prompt) if self.secrets.values else prompt


def _launched(core: Core) -> list[AttemptLaunched]:
    """The processes of *core* that may not have been ended: those of turns without an answer."""
    return [one for turn in core.turns.values() if turn.result is None for one in turn.launched]


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
