"""What drives a run and its child runs: asyncio around `coterie.runs.core`.

Everything that happens comes to one place, `_drain`, and is handled there one by one: judged, appended and stepped
without an `await`. What follows leaves through a run's outbox, and an outbox is emptied only when all that was appended
before is durable; one sync serves all that wait.

A turn of a topology is a child run, driven here too under the same limits. Failures of the journal end this owner at
once: every attempt is ended, nothing more leaves, and the run is resumed from what is on disk.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from coterie.clock import Clock
from coterie.engines.commands import Ask, Emit, Engine, Failed, Reply
from coterie.engines.loop import Loop
from coterie.errors import CoterieError, NoSuchRun, RunIsFinished
from coterie.ids import child_run_id
from coterie.journal.base import Store
from coterie.journal.records import (
    NO_USAGE,
    AttemptInterrupted,
    Cause,
    ConfigAnswer,
    ConfigChanged,
    ConfigKept,
    ConfigRejected,
    OperatorSaid,
    PlanReloaded,
    Record,
    RunFinished,
    RunStarted,
    TreesJoined,
)
from coterie.planning.branches import BRANCH
from coterie.planning.plan import AgentPlan, Limits, Plan, from_json, to_json
from coterie.runs.attempts import Attempts
from coterie.runs.commands import Effect, Halt, ReadPlan, Start, Turn, Wait
from coterie.runs.core import Core, Said
from coterie.runs.fold import Fold
from coterie.runs.ledger import Ledger
from coterie.runs.live import Cut, Ended, Live, MakeEngine, Observe, Place, Told, Waiting
from coterie.runs.prompts import how_to_decide, render
from coterie.runs.turns import Turns


class Shell:
    """Drives one root run and its children to their end, or until it must let go.

    Args:
        store: Where the journals lie.
        turns: Who starts attempts.
        make_engine: The engine of a plan, and the agents it may ask.
        clock: The source of time.
        limits: What this owner allows the whole tree.
        park: Let go of the run when nothing runs but humans and timers.
        observe: Called with the run's id and each record, in order, once it is durable.
        place: Where the runs' files lie.
        reload: Reads a run's plan again, for engines that ask for it; raises `CoterieError` when it cannot. Without
            it a plan stays what it is.
        cwd: The working directory of the agents.
    """

    def __init__(
        self,
        *,
        store: Store,
        turns: Turns,
        make_engine: MakeEngine,
        clock: Clock,
        limits: Limits | None = None,
        park: bool = False,
        observe: Observe | None = None,
        place: Place | None = None,
        reload: Callable[[str, Plan], ConfigAnswer] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._store, self._turns, self._make_engine, self._clock = store, turns, make_engine, clock
        self._limits, self._park, self._observe = limits or Limits(), park, observe
        self._place, self._reload, self._cwd = place or Place(), reload, cwd
        self._runs: dict[str, Live] = {}
        self._events: list[tuple[int, Callable[[], object]]] = []
        self._timers = 0
        self._expected = 0
        self._ledger = Ledger(self._limits, self._runs)
        self._attempts = Attempts(turns, self._place, cwd, happen=self._happen, hear=self.hear, ring=self._ring)
        self._rang = False
        self._reloaded = False
        self._closing = False
        self.before_taking_over: Callable[[Live], None] = lambda live: None
        """Called with a run that is taken over: what had come for it before its owner died still counts."""
        self.opened = asyncio.Event()
        """Set once the root run is claimed and begun or continued."""
        self._bell: asyncio.Future[None] | None = None

    # -- from outside -----------------------------------------------------------------------------------------------

    async def start(self, run: str, plan: Plan, given: dict[str, Any]) -> Ended:
        """Start *run*, asking the topology of *plan* for *given*, and drive it.

        Raises:
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        return await self._drive(lambda: self._open(run, plan, given, None))

    async def resume(self, run: str, plan: Plan, *, reloaded: bool = False) -> Ended:
        """Take over *run* and drive it on under *plan*; *reloaded*: it is another one than the journal holds.

        Raises:
            RunIsOwned, RunIsFinished, JournalUnreadable, ReplayMismatch: If it cannot be taken over.
            JournalFailed: If the journal could not be written; every attempt has been ended.
        """
        self._reloaded = reloaded
        return await self._drive(lambda: self._open(run, plan, None, None))

    def post(self, event: Callable[[], object]) -> None:
        """Have *event* handled in its turn, in one piece, as everything else that happens to the run."""
        self._happen(0, event)

    def expect(self) -> None:
        """Do not let go of the run for want of a human before `arrived`: somebody looks whether there is an answer."""
        self._expected += 1

    def arrived(self) -> None:
        """What was expected has been posted, or will not come."""
        self._expected -= 1
        self._ring()

    @property
    def place(self) -> Place:
        """Where the runs' files lie."""
        return self._place

    @property
    def runs(self) -> Mapping[str, Live]:
        """The runs that are driven, by id, the root first."""
        return self._runs

    # -- one run after the other ------------------------------------------------------------------------------------

    async def _drive(self, open_root: Callable[[], Live]) -> Ended:
        self._loop = asyncio.get_running_loop()
        root: Live | None = None
        try:
            root = open_root()
            self.opened.set()
            while not await self._advance(root):
                await self._rung()
        except asyncio.CancelledError:
            if root is not None:
                await self._interrupt(root)
            raise
        except BaseException:
            self._events.clear()  # this owner is over: nothing is judged any more
            raise
        finally:
            await self._close()
        return self.ended(root)

    async def _advance(self, root: Live) -> bool:
        """Handle all that has happened and let what follows leave; whether that is the end, and durable."""
        while True:
            self._drain()
            await self._leave()
            if root.core.finished or root.core.stopped:
                return True
            if not self._events and not self._let_go():
                return False

    async def _rung(self) -> None:
        """Wait until something happens."""
        if not self._rang:
            await asyncio.sleep(0)  # what was just started may answer at once
        if not self._rang:
            self._bell = self._loop.create_future()
            await self._bell
        self._rang = False

    async def _close(self) -> None:
        """End every attempt, refuse what still comes, and give the journals up."""
        await self._attempts.end()
        self._closing = True
        self._drain_events()
        for live in reversed(self._runs.values()):
            await live.writer.close()
            self._show(live)
        await self._turns.close()

    def ended(self, root: Live) -> Ended:
        """How it stands with *root*."""
        finished, spent, engine = root.core.finished, self._ledger.spent(), root.core.engine
        iterations = engine.state.iteration if isinstance(engine, Loop) else None
        waiting = tuple(
            Waiting(run=live.run, turn=turn.ask.turn, agent=turn.ask.agent, prompt=self._question(live, turn))
            for live in self._runs.values()
            for turn in live.humans()
        )
        if finished is None:
            return Ended(
                run=root.run,
                status="stopped",
                reason=root.core.stopped,
                usage=spent,
                waiting=waiting,
                iterations=iterations,
            )
        return Ended(
            run=root.run,
            status="completed" if finished.outcome == "completed" else "failed",
            reason=finished.reason,
            result=finished.result,
            usage=spent,
            iterations=iterations,
        )

    def _question(self, live: Live, turn: Turn) -> str:
        name = turn.ask.turn
        return how_to_decide(name) if name in live.held else self._render(live.core, turn)

    def _happen(self, order: int, event: Callable[[], object]) -> None:
        if self._closing:
            event()  # it finds that nobody may write any more
            return
        self._events.append((order, event))
        self._ring()

    def _ring(self) -> None:
        self._rang = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def _drain(self) -> None:
        """Handle all that has happened. Attempts that ended together count in the order their turns were started."""
        while self._events:
            events, self._events = self._events, []
            if len(events) > 1:
                events.sort(key=itemgetter(0))
            for _, event in events:
                event()
            for live in list(self._runs.values()):
                if live.core.queued:
                    self._pump(live)

    async def _leave(self) -> None:
        """Let what follows leave: once all that was appended before is durable, which one sync serves for all."""
        while waiting := [live for live in self._runs.values() if live.outbox or not live.is_durable]:
            for live in waiting:
                if live.reap is not None:
                    launched, live.reap = live.reap, None
                    await self._turns.reap(live.run, launched)
            slow = [live for live in waiting if not live.is_durable and not live.writer.sync()]
            if slow:
                await asyncio.gather(*(live.writer.durable(live.core.seq) for live in slow))
            for live in waiting:
                self._show(live)
                outbox, live.outbox = live.outbox, []
                for effect in outbox:
                    await self._perform(live, effect)

    def _let_go(self) -> bool:
        """Stop the tree when nothing can happen any more without a human or other limits; whether it was stopped."""
        if self._attempts.working or self._expected:
            return False
        humans = [turn.ask.turn in live.held for live in self._runs.values() for turn in live.humans()]
        unseen = all(humans) and not self._timers  # no terminal shows what a crash cut off: only the inbox answers
        if (self._timers or humans) and not (humans and (self._park or unseen)):
            return False
        reason = self._ledger.reached() or self._engine_stops() or ("waiting" if humans else "stuck")
        for live in reversed(self._runs.values()):
            live.core.stop(self._clock.now(), reason)
        return True

    def _engine_stops(self) -> str:
        return next((reason for live in self._runs.values() if (reason := live.core.wants_stop)), "")

    # -- a run --------------------------------------------------------------------------------------------------------

    def _open(self, run: str, plan: Plan, given: dict[str, Any] | None, parent: tuple[Live, Start] | None) -> Live:
        """Claim *run* and begin or continue it; *given* is its input, None if it must be there already."""
        engine, agents = self._make_engine(plan)
        writer = self._store.claim(run)

        def append(record: Record) -> None:
            writer.append((record,))
            if self._observe is not None:
                live.unseen.append(record)

        core = Core(run, engine, agents, append, self._render, _digest)
        self._runs[run] = live = Live(run, plan, core, writer, parent)  # whatever comes now, its journal is given up
        now = self._clock.now()
        if writer.last:
            core.fold(self._store.read(run))
            if core.plan and isinstance(engine, Loop):
                live.plan = from_json(core.plan)
            if core.finished is not None and parent is None:
                raise RunIsFinished(run, core.finished.outcome)
            if core.finished is None:
                if writer.repaired is not None:
                    core.write(now, writer.repaired)
                if self._reloaded and parent is None:
                    text = to_json(plan).decode()
                    core.write(now, PlanReloaded(plan=text, plan_hash=plan.content_hash()), source="operator")
                self.before_taking_over(live)
                live.reap = [one for turn in core.turns.values() if turn.result is None for one in turn.launched]
                live.outbox += core.own(now, self._limits)
                for name, turn in core.turns.items():
                    if turn.cancelled:
                        self._call_off(live, name, turn.attempt)
                    elif turn.failure is not None and turn.failure.kind == "timeout":
                        self._call_off(live, name, turn.failure.attempt)
        else:
            limits = self._limits if parent is None else msgspec.structs.replace(self._limits, add_iterations=0)
            core.begin(now, self._first_record(live, engine, given or {}), limits)
        self._pump(live)
        return live

    def _first_record(self, live: Live, engine: Engine, given: dict[str, Any]) -> RunStarted:
        child = live.parent is not None
        of_a_loop = live.parent is not None and isinstance(live.parent[0].core.engine, Loop)  # its plan may change
        return RunStarted(
            run=live.run,
            engine=engine.name,
            engine_version=engine.version,
            topology=live.plan.name,
            plan_hash="" if child else live.plan.content_hash(),
            plan="" if child and not of_a_loop else to_json(live.plan).decode(),
            input=given,
            parent=live.parent[0].run if live.parent else "",
            cwd="" if child or self._cwd is None else str(self._cwd),
            snapshots=not child and self._place.saves,
        )

    def _render(self, core: Fold, turn: Turn) -> str:
        place, run = self._place, core.run
        prompt = render(core, turn, place.read_file, partial(place.how_far, run), partial(place.notes, run))
        if isinstance(core.engine, Loop):
            place.keep_question(run, turn.ask.turn, turn.attempt, prompt)
        return prompt

    def _room(self, core: Core, agent: str, again: bool) -> bool:
        return not self._closing and self._ledger.admits(core, agent, again)

    def _pump(self, live: Live) -> None:
        core = live.core
        live.outbox += core.pump(self._clock.now(), partial(self._room, core))
        if core.finished is not None and not live.told:
            live.told = True
            live.outbox.append(Told())

    def _show(self, live: Live) -> None:
        if self._observe is not None:
            while live.unseen and live.writer.is_durable(live.unseen[0].seq):
                self._observe(live.run, live.unseen.popleft())

    async def _perform(self, live: Live, effect: Effect | Cut | Told) -> None:
        match effect:
            case Start(ask=Ask(agent=agent)) if agent == BRANCH and isinstance(live.core.engine, Loop):
                await self._start_branch(live, effect)
            case Start():
                self._start(live, effect)
            case Halt(turn=turn):
                self._halt(live, turn)
            case Wait(cause=cause, again=again):
                self._wait(live, cause, again.turn, again.due, again.ask)
            case ReadPlan(cause=cause):
                joined = await self._joined(live)
                self._happen(0, partial(self._read_plan, live, cause, joined))
            case Cut(turn=turn):
                self._attempts.interrupt(live, turn)
            case Told():
                await self._tell(live)

    # -- effects ------------------------------------------------------------------------------------------------------

    async def _start_branch(self, live: Live, start: Start) -> None:
        """Start a branch of a wave, once it has where to work."""
        child = live.core.agents[start.ask.agent].child
        try:
            if child is not None:
                await self._place.begin_branch(child_run_id(live.run, start.ask.turn, start.attempt), child)
        except CoterieError as error:
            failed = Failed(turn=start.ask.turn, attempt=start.attempt, kind="failed", reason=str(error))
            self._happen(0, lambda: self.hear(live, failed))
            return
        self._start(live, start)

    def _start(self, live: Live, start: Start) -> None:
        name = start.ask.turn
        if not live.core.hears(name, start.attempt):
            return  # it was cancelled before its intent was durable
        agent = live.core.agents.get(start.ask.agent) or AgentPlan(name=start.ask.agent)
        if (left := self._seconds_left(live)) is not None and agent.kind != "human":
            agent = msgspec.structs.replace(agent, timeout=min(left, agent.timeout or left))
        if left == 0:
            self._happen(0, partial(self._overdue, live, start, "no time is left (max_runtime)"))
            return
        if agent.child is not None:
            self._attempts.order(live, name)
            run = child_run_id(live.run, name, start.attempt)
            given = {"prompt": start.prompt, **start.ask.given}
            live.children[name] = self._open(run, agent.child, given, (live, start))
            if agent.timeout is not None and isinstance(live.core.engine, Loop):
                turn = live.core.turns[name]
                due = self._clock.now() + agent.timeout - (live.core.time.seconds - turn.since)
                self._later(live, due, partial(self._overdue, live, start, f"it took longer than {agent.timeout:g} s"))
            self._ring()
            return
        self._attempts.start(live, start, agent)
        if agent.kind == "human" and agent.timeout is not None:
            due = live.core.turns[name].asked + agent.timeout
            reason = f"nobody answered within {agent.timeout:g} s"
            failed = Failed(turn=name, attempt=start.attempt, kind="timeout", reason=reason)
            self._later(live, due, lambda: self.hear(live, failed))

    def _seconds_left(self, live: Live) -> float | None:
        """How long a turn of *live* may take that starts now, as far as the loops say that it is part of."""
        if not live.in_loop:
            return None
        now, found = self._clock.now(), list[float]()
        above: Live | None = live
        while above is not None:
            engine = above.core.engine
            if isinstance(engine, Loop) and (left := engine.seconds_left(now)) is not None:
                found.append(left)
            above = above.parent[0] if above.parent is not None else None
        return min(found, default=None)

    def _overdue(self, live: Live, start: Start, reason: str) -> None:
        """A turn has taken, or would take, longer than it may."""
        name = start.ask.turn
        if not live.core.hears(name, start.attempt):
            return
        child = live.children.pop(name, None)
        usage = child.core.spent if child is not None else NO_USAGE
        if child is not None:
            child.counted = True  # what it spent is part of what its parent spent
        self.hear(live, Failed(turn=name, attempt=start.attempt, kind="timeout", reason=reason, usage=usage))
        if child is not None:
            self._end_child(child)

    def hear(self, live: Live, said: Said, source: str = "agent") -> Record | None:
        """Take what an attempt says; None if it came too late. Only while an event is handled (`post`)."""
        record = live.core.accept(self._clock.now(), self._informed(live, said), source)
        if record is None:
            return None
        turn = live.core.turns[said.turn]
        if turn.status != "running":
            self._attempts.halt(live, said.turn)  # a human was answered from elsewhere; any other has ended by itself
        self._pump(live)
        return record

    def hear_late(self, live: Live, emit: Emit) -> Record | None:
        """Take what an attempt had emitted when its owner died, in that owner's time; nothing follows from it yet."""
        return live.core.accept(live.core.at, self._informed(live, emit))

    def _informed(self, live: Live, said: Said) -> Said:
        """*said* with the open tasks, where a verdict may depend on them."""
        engine = live.core.engine
        if not isinstance(engine, Loop):
            return said
        if isinstance(said, Reply) or (isinstance(said, Emit) and said.event == engine.view(said.turn).completion):
            return msgspec.structs.replace(said, open_tasks=self._place.open_tasks(live.run, engine.plan))
        return said

    def cut(self, live: Live, said: OperatorSaid) -> bool:
        """Interrupt the attempt of one turn, or all attempts of *live* and below; False if there is none."""
        names = [said.turn] if said.turn else list(live.attempts)
        below = [child for name, child in live.children.items() if said.turn in ("", name)]
        found = [name for name in names if name in live.sessions]
        if not found and not below:
            return False
        live.core.write(self._clock.now(), said, source="operator")
        live.outbox += [Cut(turn=name) for name in found]
        for child in below:
            self.cut(child, msgspec.structs.replace(said, turn=""))
        return True

    def decide(self, live: Live, turn: str, word: str, message: str) -> str:
        """Take a human's word on a turn that a crash cut off; return why it cannot be used, if so."""
        if word.strip() not in ("retry", "cancel"):
            return f"{how_to_decide(turn)} (not {word!r})"
        cause = live.held.pop(turn)
        said = OperatorSaid(message=message, what=word.strip(), turn=turn)
        live.core.write(self._clock.now(), said, source="operator")
        if said.what == "retry":
            live.core.due(cause)
        else:
            live.outbox += live.core.cancel(self._clock.now(), turn, "an operator called it off")
        self._pump(live)
        return ""

    def _halt(self, live: Live, name: str) -> None:
        self._attempts.halt(live, name)
        child = live.children.pop(name, None)
        if child is not None:
            self._end_child(child)

    def _end_child(self, child: Live) -> None:
        core, now, reason = child.core, self._clock.now(), "its parent called the turn off"
        for turn in list(core.turns):
            child.outbox += core.cancel(now, turn, reason, "harness")
        if core.finished is None:
            core.write(now, RunFinished(outcome="cancelled", reason=reason))
        self._pump(child)
        self._ring()

    def _call_off(self, live: Live, name: str, attempt: int) -> None:
        """End the child run of an attempt that was called off or took too long, if an earlier owner could not."""
        turn = live.core.turns[name]
        agent = live.core.agents.get(turn.ask.agent)
        run = child_run_id(live.run, name, attempt)
        if agent is None or agent.child is None or not self._unfinished(run):
            return
        child = self._open(run, agent.child, None, (live, Start(ask=turn.ask, attempt=attempt, prompt="")))
        child.outbox.clear()  # what it would have gone on with
        for below, one in list(child.core.turns.items()):
            if one.status == "running":
                self._call_off(child, below, one.attempt)
        self._end_child(child)

    def _unfinished(self, run: str) -> bool:
        try:
            *_, last = self._store.read(run)
        except (NoSuchRun, ValueError):
            return False
        return not isinstance(last, RunFinished)

    def _wait(self, live: Live, cause: Cause, turn: str, due: float, held: bool) -> None:
        if held:
            live.held[turn] = cause
            return
        if (left := self._seconds_left(live)) is not None:
            due = min(due, self._clock.now() + left)
        self._timers += 1

        def ring() -> None:
            self._timers -= 1
            self._due(live, cause)

        self._later(live, due, ring)

    def _due(self, live: Live, cause: Cause) -> None:
        live.core.due(cause)
        self._pump(live)

    def _later(self, live: Live, due: float, event: Callable[[], object]) -> None:
        wait = due - max(self._clock.now(), live.core.at)  # *due* counts in the journal's time, which never goes back
        if wait <= 0:
            self._happen(0, event)
        else:
            self._loop.call_later(wait, self._happen, 0, event)

    async def _joined(self, live: Live) -> TreesJoined | None:
        """What became of the files of the branches, if a wave was just joined."""
        engine = live.core.engine
        wave = engine.apart if isinstance(engine, Loop) else 0
        return await self._place.join_branches(live.run, wave) if wave else None

    def _read_plan(self, live: Live, cause: Cause, joined: TreesJoined | None = None) -> None:
        if joined is not None and live.core.is_live:
            live.core.write(self._clock.now(), joined)
        answer: ConfigAnswer
        try:
            answer = ConfigKept() if self._reload is None else self._reload(live.run, live.plan)
        except (CoterieError, OSError) as error:
            answer = ConfigRejected(reason=str(error))
        if isinstance(answer, ConfigChanged) and isinstance(live.core.engine, Loop):
            live.plan = from_json(answer.plan)
        live.core.reloaded(self._clock.now(), cause, answer)
        self._pump(live)

    async def _tell(self, live: Live) -> None:
        """The run is over: its parent hears of it."""
        finished = live.core.finished
        if live.parent is None or finished is None:
            return
        parent, start = live.parent
        name, usage = start.ask.turn, live.core.spent
        said: Reply | Failed
        if finished.outcome == "completed":
            text, outputs = reply_of(finished.result)
            said = Reply(turn=name, attempt=start.attempt, text=text, outputs=outputs or None, usage=usage)
        else:
            reason = finished.reason or f"child run {live.run} failed"
            said = Failed(turn=name, attempt=start.attempt, kind=kind_of(finished.result), reason=reason, usage=usage)

        def hear() -> None:
            parent.children.pop(name, None)
            self._runs.pop(live.run, None)  # from here on what it spent is part of what its parent spent
            if self.hear(parent, said) is None and not live.counted:
                self._ledger.keep(usage)

        await live.writer.close()
        self._happen(self._attempts.order(parent, name), hear)

    async def _interrupt(self, root: Live) -> None:
        """Keep what had already arrived, write down that the rest was cut off, deepest first, and let go."""
        await self._attempts.end()
        self._closing = True
        self._drain_events()
        now = self._clock.now()
        for live in reversed(self._runs.values()):
            if live.core.finished is None and not live.core.stopped:
                for name, turn in list(live.core.turns.items()):
                    if turn.status == "running" and live.core.takes_a_slot(turn.ask.agent):
                        cut = AttemptInterrupted(turn=name, attempt=turn.attempt, reason="interrupted")
                        live.core.write(now, cut)
                live.core.stop(now, "interrupted")
            await live.writer.durable(live.core.seq)

    def _drain_events(self) -> None:
        """Handle what had arrived when the owner let go; nothing new starts."""
        events, self._events = self._events, []
        for _, event in sorted(events, key=lambda event: event[0]):
            event()


def reply_of(result: Any) -> tuple[str, dict[str, Any]]:
    """What a child run's result is as a reply: its text, and the outputs of its last nodes together."""
    if isinstance(result, dict):
        outputs: dict[str, Any] = {}
        for values in (result.get("outputs") or {}).values():
            if isinstance(values, dict):
                outputs.update(values)
        return str(result.get("text", "")), outputs
    return ("" if result is None else str(result)), {}


def kind_of(result: Any) -> str:
    """The kind of failure that a failed child run is to its parent: a loop says which was its last.

    What passes was tried again in the child already.
    """
    kind = result.get("kind", "") if isinstance(result, dict) else ""
    return kind if kind in ("timeout", "auth", "quota", "cancelled") else "failed"


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
