"""Turns that are runs of their own: started, out of time, called off, and told of when they are over."""

from functools import partial
from typing import Any

from coterie.clock import Clock
from coterie.engines.commands import Emit, Reply
from coterie.engines.generator import GeneratorEngine
from coterie.engines.loop import Loop
from coterie.errors import NoSuchRun
from coterie.ids import child_run_id
from coterie.journal.base import Store
from coterie.journal.records import NO_USAGE, AttemptFailed, RunFinished
from coterie.planning.plan import AgentPlan, Plan
from coterie.runs.attempts import Attempts
from coterie.runs.commands import Start
from coterie.runs.family import Family
from coterie.runs.line import Line
from coterie.runs.live import Live
from coterie.runs.retries import FINAL, TRANSIENT
from coterie.runs.timers import Timers


class Children:
    """Child runs, as what their parents' turns are."""

    def __init__(
        self, family: Family, line: Line, timers: Timers, attempts: Attempts, store: Store, clock: Clock
    ) -> None:
        self._family, self._line, self._timers, self._attempts = family, line, timers, attempts
        self._store, self._clock = store, clock

    def start(self, live: Live, start: Start, agent: AgentPlan, child: Plan) -> None:
        """Start, or go on with, the child run that the turn of *agent* is; a loop cuts it off after its timeout."""
        name = start.ask.turn
        self._attempts.order(live, name)
        ask = start.ask
        given = {"prompt": start.prompt, **ask.given} if ask.whole is None else ask.whole
        live.children[name] = self._family.open(
            child_run_id(live.run, name, start.attempt), child, given, (live, start)
        )
        if agent.timeout is not None and isinstance(live.core.engine, Loop | GeneratorEngine):
            taken = live.core.time.seconds - live.core.turns[name].since
            due = self._clock.now() + agent.timeout - taken
            reason = f"it took longer than {agent.timeout:g} s"
            self._timers.at(live, due, partial(self.overdue, live, start, reason))
        self._line.ring()

    def overdue(self, live: Live, start: Start, reason: str) -> None:
        """A turn has taken, or would take, longer than it may; if it is a child run, that ends."""
        name = start.ask.turn
        if not live.core.hears(name, start.attempt):
            return
        child = live.children.pop(name, None)
        usage = child.core.spent if child is not None else NO_USAGE
        if child is not None:
            child.counted = True  # what it spent is part of what its parent spent
        failed = AttemptFailed(turn=name, attempt=start.attempt, kind="timeout", reason=reason, usage=usage)
        self._family.hear(live, failed)
        if child is not None:
            self._end(child)

    def halt(self, live: Live, turn: str) -> None:
        """End the child run that *turn* is, if it is one."""
        child = live.children.pop(turn, None)
        if child is not None:
            self._end(child)

    def call_off(self, live: Live) -> None:
        """End the child runs whose turns were called off or took too long, if an earlier owner could not."""
        for name, turn in live.core.turns.items():
            if turn.cancelled:
                self._call_off(live, name, turn.attempt)
            elif turn.failure is not None and turn.failure.kind == "timeout":
                self._call_off(live, name, turn.failure.attempt)

    def _call_off(self, live: Live, name: str, attempt: int) -> None:
        turn = live.core.turns[name]
        agent = live.core.agents.get(turn.ask.agent)
        run = child_run_id(live.run, name, attempt)
        if agent is None or agent.child is None or not self._unfinished(run):
            return
        child = self._family.open(run, agent.child, None, (live, Start(ask=turn.ask, attempt=attempt, prompt="")))
        child.outbox.clear()  # what it would have gone on with
        for below, one in list(child.core.turns.items()):
            if one.status == "running":
                self._call_off(child, below, one.attempt)
        self._end(child)

    def _unfinished(self, run: str) -> bool:
        try:
            *_, last = self._store.read(run)
        except (NoSuchRun, ValueError):
            return False
        return not isinstance(last, RunFinished)

    def _end(self, child: Live) -> None:
        core, now, reason = child.core, self._clock.now(), "its parent called the turn off"
        for turn in list(core.turns):
            child.outbox += core.cancel(now, turn, reason, "harness")
        if core.finished is None:
            core.write(now, RunFinished(outcome="cancelled", reason=reason))
        self._family.pump(child)
        self._line.ring()

    async def tell(self, live: Live) -> None:
        """The run *live* is over: give its journal up, and let its parent hear of it."""
        finished = live.core.finished
        if live.parent is None or finished is None:
            return
        parent, start = live.parent
        name, usage = start.ask.turn, live.core.spent
        said: Reply | AttemptFailed
        emit: Emit | None = None
        if finished.outcome == "completed":
            text, outputs = reply_of(finished.result)
            said = Reply(
                turn=name,
                attempt=start.attempt,
                text=text,
                outputs=outputs or None,
                usage=usage,
                prompt=start.prompt,
            )
            emit = _emitted(parent, start, said, live.run)
        else:
            reason = finished.reason or f"child run {live.run} failed"
            kind = kind_of(finished.result)
            if _raw_kind(finished.result) in TRANSIENT:  # the provider's words would enter a prompt of the parent's
                reason = f"its provider did not answer; the child run {live.run} has the details"
            said = AttemptFailed(turn=name, attempt=start.attempt, kind=kind, reason=reason, usage=usage)

        def hear() -> None:
            parent.children.pop(name, None)
            self._family.runs.pop(live.run, None)  # from here on what it spent is part of what its parent spent
            if emit is not None and emit.message not in parent.core.messages:  # nor before a crash
                self._family.hear(parent, emit)
            if self._family.hear(parent, said) is None and not live.counted:
                self._family.ledger.keep(usage)

        await live.writer.close()
        self._line.put(self._attempts.order(parent, name), hear)


def _emitted(parent: Live, start: Start, reply: Reply, run: str) -> Emit | None:
    """What the child run *run*, which gave *reply*, emits in a loop: it names the message, so that it does once."""
    engine = parent.core.engine
    event = engine.chosen(start.ask.agent, reply.outputs or {}) if isinstance(engine, Loop) else ""
    if not event:
        return None
    return Emit(turn=reply.turn, attempt=reply.attempt, event=event, payload=reply.text, message=run)


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
    kind = _raw_kind(result)
    return kind if kind in FINAL or kind in ("timeout", "cancelled") else "failed"


def _raw_kind(result: Any) -> str:
    return str(result.get("kind", "")) if isinstance(result, dict) else ""
