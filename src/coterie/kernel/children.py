"""Turns that are child runs: start, time limit, cancellation and result."""

from functools import partial
from typing import Any

import msgspec

from coterie.engines.commands import Emit, Reply
from coterie.ids import child_run_id
from coterie.journal.records import AttemptFailed
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.attempts import Attempts
from coterie.kernel.commands import Halt, Start
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.event_queue import EventQueue
from coterie.kernel.opening import RunOpening
from coterie.kernel.retries import FINAL, TRANSIENT
from coterie.kernel.run_tree import RunTree
from coterie.kernel.timers import Timers
from coterie.planning.plan import AgentPlan, Plan


class Children:
    """Child runs, as what their parents' turns are."""

    def __init__(
        self,
        tree: RunTree,
        opening: RunOpening,
        inputs: AttemptInputs,
        queue: EventQueue,
        timers: Timers,
        attempts: Attempts,
    ) -> None:
        self._tree, self._opening, self._inputs = tree, opening, inputs
        self._queue, self._timers, self._attempts, self._clock = queue, timers, attempts, tree.ports.clock

    def start(self, live: DrivenRun, start: Start, agent: AgentPlan, child: Plan) -> None:
        """Start, or continue, the child run that the turn of *agent* is; it is cut off after the agent's timeout."""
        name = start.ask.turn
        self._attempts.order(live, name)
        ask = start.ask
        given = {"prompt": start.prompt, **ask.given} if ask.whole is None else ask.whole
        self._opening.open_child(child_run_id(live.run, name, start.attempt), child, live, start, given)
        if agent.timeout is not None:
            taken = live.core.time.seconds - live.core.turns[name].since
            due = self._clock.now() + agent.timeout - taken
            reason = f"it took longer than {agent.timeout:g} s"
            self._timers.at(live, due, partial(self.overdue, live, start, reason))
        self._queue.wake()

    def overdue(self, live: DrivenRun, start: Start, reason: str) -> None:
        """A turn has taken, or would take, longer than it may; if it is a child run, that is called off."""
        name = start.ask.turn
        if not live.core.accepts(name, start.attempt):
            return
        usage = self._opening.calling_off.call_off(live, start.ask, start.attempt)
        if live.core.kind(start.ask.agent) == "topology":
            live.outbox.append(Halt(turn=name))
        failed = AttemptFailed(turn=name, attempt=start.attempt, kind="timeout", reason=reason, usage=usage)
        self._inputs.accept(live, failed)

    def halt(self, live: DrivenRun, turn: str) -> None:
        """End the child run that *turn* was, if it was one and was called off."""
        for child in list(live.children.values()):
            if child.turn == turn and child.core.called_off:
                child.ending = True
                self._tree.pump(child)

    async def notify_parent(self, live: DrivenRun) -> None:
        """The run *live* is over: close its journal, and let its parent hear of it."""
        live.parent_notified = True
        finished = live.core.finished
        if live.parent is None or finished is None:
            return
        parent, start = live.parent
        if live.core.called_off:
            await live.writer.close()
            self._forget(live, parent)
            self._tree.pump(parent)
            return
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

        def accept(open_tasks: tuple[str, ...] = ()) -> None:
            self._forget(live, parent)  # from here on what it spent is part of what its parent spent
            if emit is not None and emit.message not in parent.core.messages:  # nor before a crash
                self._inputs.accept(parent, msgspec.structs.replace(emit, open_tasks=open_tasks))
            judged = msgspec.structs.replace(said, open_tasks=open_tasks) if isinstance(said, Reply) else said
            if self._inputs.accept(parent, judged) is None:
                self._tree.pump(parent)

        await live.writer.close()
        order = self._attempts.order(parent, name)
        if isinstance(said, Reply) and parent.kind.waits_for_tasks and parent.kind.needs_open_tasks(said):
            self._tree.external_reads.ask(
                partial(self._tree.ports.notes.open_tasks, parent.run, parent.kind.notes), accept, order
            )
        else:
            self._queue.put(order, accept)

    def _forget(self, live: DrivenRun, parent: DrivenRun) -> None:
        parent.children.pop(live.run, None)
        self._tree.runs.pop(live.run, None)


def _emitted(parent: DrivenRun, start: Start, reply: Reply, run: str) -> Emit | None:
    """What the child run *run*, which gave *reply*, emits in a loop: it names the message, so that it does once."""
    event = parent.kind.emitted(start.ask.agent, reply.outputs or {})
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
