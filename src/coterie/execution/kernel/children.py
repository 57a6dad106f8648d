"""Turns that are child runs: start, time limit, cancellation and result."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from coterie.base.ids import child_run_id
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.attempts import Attempts
from coterie.execution.kernel.commands import Halt, Start
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.event_queue import EventQueue
from coterie.execution.kernel.items import as_input
from coterie.execution.kernel.opening import RunOpening
from coterie.execution.kernel.retries import FINAL, TRANSIENT
from coterie.execution.kernel.run_tree import RunTree
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal.records import AttemptFailed
from coterie.team.planning.plan import AgentPlan, Plan


class Children:
    """Drives turns that are child runs."""

    def __init__(
        self,
        tree: RunTree,
        opening: RunOpening,
        inputs: AttemptInputs,
        queue: EventQueue,
        attempts: Attempts,
    ) -> None:
        self._tree, self._opening, self._inputs = tree, opening, inputs
        self._queue, self._attempts = queue, attempts

    def start(self, live: DrivenRun, start: Start, child: Plan, timed: Callable[[float], AgentPlan]) -> None:
        """Start, or continue, the child run that the turn *start* is; it is cut off after its agent's timeout.

        Args:
            timed: Gives the agent, whose child run has taken so many seconds already.
        """
        ask = start.ask
        self._attempts.order(live.core.turns[ask.turn])
        given = {"prompt": start.prompt, **ask.given, **as_input(ask.item)} if ask.whole is None else ask.whole
        given = {**live.core.agents[ask.agent].given, **given}
        opened = self._opening.open_child(child_run_id(live.run, ask.turn, start.attempt), child, live, start, given)
        taken = opened.core.time.limited
        if (timeout := timed(taken).timeout) is not None and opened.core.finished is None:
            reason = f"it took longer than {timeout:g} s"
            opened.timer = self._queue.put_later(timeout - taken, partial(self.overdue, live, start, reason))
        self._queue.wake()

    def overdue(self, live: DrivenRun, start: Start, reason: str) -> None:
        """Fail a turn that exceeds, or would exceed, its time limit; if it is a child run, call that off."""
        name = start.ask.turn
        if not live.core.accepts(name, start.attempt):
            return
        usage = self._opening.calling_off.call_off(live, start.ask, start.attempt)
        if live.core.kind(start.ask.agent) == "topology":
            live.send(Halt(turn=name))
        failed = AttemptFailed(turn=name, attempt=start.attempt, kind="timeout", reason=reason, usage=usage)
        self._inputs.accept(live, failed)

    def halt(self, live: DrivenRun, turn: str) -> None:
        """End the child run of *turn*, if it has one that was called off."""
        for child in list(live.children.values()):
            if child.turn == turn and child.core.called_off:
                child.ending = True
                self._tree.pump(child)

    async def notify_parent(self, live: DrivenRun) -> None:
        """Close the journal of *live*, which has ended, and pass its result to its parent."""
        live.parent_notified = True
        finished = live.core.finished
        if finished is None:
            return
        if finished.outcome != "failed":  # of a failed run, the others may be retried
            for name, turn in live.core.turns.items():
                if turn.steps and turn.result is None:
                    self._tree.ports.files.forget(live.run, name, turn.attempt)
        if live.parent is None:
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
                turn=name, attempt=start.attempt, text=text, outputs=outputs or None, usage=usage, prompt=start.prompt
            )
            emit = _emitted(parent, start, said, live.run)
        else:
            reason = finished.reason or f"child run {live.run} failed"
            kind = kind_of(finished.result)
            if _raw_kind(finished.result) in TRANSIENT:  # the provider's message would enter a prompt of the parent
                reason = f"its provider did not answer; the child run {live.run} has the details"
            said = AttemptFailed(turn=name, attempt=start.attempt, kind=kind, reason=reason, usage=usage)

        def accept(open_tasks: tuple[str, ...] = ()) -> None:
            self._forget(live, parent)  # from here on its usage is part of its parent's usage
            if emit is not None and emit.message not in parent.core.messages:  # nor before a crash
                self._inputs.accept(parent, msgspec.structs.replace(emit, open_tasks=open_tasks))
            judged = msgspec.structs.replace(said, open_tasks=open_tasks) if isinstance(said, Reply) else said
            if self._inputs.accept(parent, judged) is None:
                self._tree.pump(parent)

        await live.writer.close()
        order = self._attempts.order(parent.core.turns[name])
        project = parent.kind.project
        if isinstance(said, Reply) and project.waits_for_tasks and project.needs_open_tasks(said):
            question = partial(self._tree.ports.notes.open_tasks, parent.run, project.notes)
            self._tree.external_reads.ask(question, accept, order)
        else:
            self._queue.put(order, accept)

    def _forget(self, live: DrivenRun, parent: DrivenRun) -> None:
        if live.timer is not None:
            live.timer.cancel()  # it holds the run's prompt
        parent.children.pop(live.run, None)
        self._tree.remove(live)


def _emitted(parent: DrivenRun, start: Start, reply: Reply, run: str) -> Emit | None:
    """The event that the child run *run* with *reply* emits in a loop; its id names the message, so it counts once."""
    event = parent.kind.project.emitted(start.ask.agent, reply.outputs or {})
    if not event:
        return None
    return Emit(turn=reply.turn, attempt=reply.attempt, event=event, payload=reply.text, message=run)


def reply_of(result: Any) -> tuple[str, dict[str, Any]]:
    """Turn the result of a child run into a reply: its text, and the outputs of its last nodes together."""
    if isinstance(result, dict):
        outputs: dict[str, Any] = {}
        for values in (result.get("outputs") or {}).values():
            if isinstance(values, dict):
                outputs.update(values)
        return str(result.get("text", "")), outputs
    return ("" if result is None else str(result)), {}


def kind_of(result: Any) -> str:
    """The kind of failure that a failed child run is for its parent; a loop names its last failure.

    Transient failures were already retried inside the child.
    """
    kind = _raw_kind(result)
    return kind if kind in FINAL or kind in ("timeout", "cancelled") else "failed"


def _raw_kind(result: Any) -> str:
    return str(result.get("kind", "")) if isinstance(result, dict) else ""
