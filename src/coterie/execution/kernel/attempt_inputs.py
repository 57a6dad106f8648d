"""Inputs from attempts to their runs: judge each one, write it, and act on it."""

import msgspec

from coterie.execution.kernel.commands import AttemptInput
from coterie.execution.kernel.driven_run import Attempt, Check, DrivenRun, Forget, InterruptAttempt
from coterie.execution.kernel.run_tree import RunTree, misreport
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal.records import (
    NO_USAGE,
    OVER_BUDGET,
    AttemptFailed,
    AttemptInterrupted,
    AttemptMisreported,
    GatesDue,
    Record,
    Usage,
)

_ENDS_ATTEMPT = (Reply, AttemptFailed, AttemptInterrupted)
_AWAITS_GATES = (*_ENDS_ATTEMPT, Emit)
"""Inputs that are judged, or that end an attempt."""
_TEXTS = ("text", "outputs", "given", "event", "payload", "reason", "log", "incomplete", "tool", "detail", "output")
"""The fields of an input in which secrets are redacted."""


class AttemptInputs:
    """Accepts the inputs of the attempts of the runs of *tree*."""

    def __init__(self, tree: RunTree) -> None:
        self._tree, self._clock, self._ledger = tree, tree.ports.clock, tree.ledger

    def accept(
        self, live: DrivenRun, said: AttemptInput, source: str = "agent", at_once: bool = False
    ) -> Record | None:
        """Accept an input of an attempt; None if it came too late. Only while an event is handled (`Shell.post`).

        While the gates of its turn run, an input that is judged or ends the attempt is kept until their verdict and
        None is returned, unless *at_once* is set.
        """
        known, turn = live.attempts.get(said.turn), live.core.open.get(said.turn)
        held = turn.gated if turn is not None else None
        if held is not None and isinstance(said, _AWAITS_GATES) and not at_once:
            if isinstance(said, Emit) and said.message and said.message == held.due.brought_by:
                return held.due
            attempt = live.attempts.setdefault(said.turn, live.attempt(said.turn))
            attempt.held_back += ((said, source),)
            return None
        if isinstance(said, _ENDS_ATTEMPT) and (said.usage is not NO_USAGE or held or (known and known.reported)):
            silent, attempt = said.usage == NO_USAGE and not isinstance(said, Reply), live.attempt(said.turn)
            if silent or said.attempt == attempt.n:
                usage = attempt.used if silent else self._counted(attempt, said.usage)
                said = msgspec.structs.replace(said, usage=usage)
        if isinstance(said, AttemptInterrupted) and said.reason == "interrupted" and known and known.overspends:
            said = msgspec.structs.replace(said, reason=OVER_BUDGET)
        if self._tree.secrets.values:
            said = self._hidden(said)
        record = live.core.accept(self._clock.now(), said, source)
        if isinstance(record, GatesDue):
            live.send(Check(turn=said.turn))
        return self._accepted(live, said.turn, record)

    def use(self, attempt: Attempt, usage: Usage) -> None:
        """Store the usage of *attempt* so far, and cut it off if that exceeds both its reservation and the budget."""
        if attempt.counts:
            attempt.reported = self._counted(attempt, usage)
            attempt.live.changed()
            if self._ledger.overspends(attempt):
                attempt.overspends = attempt.live.overspent = True
                attempt.live.send(InterruptAttempt(turn=attempt.name))

    def affords(self, attempt: Attempt) -> bool:
        """Whether *attempt* may send a further request; if not, it ends for its cost."""
        if not attempt.overspends and not self._ledger.allows_more(attempt):
            attempt.overspends = attempt.live.overspent = True
            attempt.live.changed()
        return not attempt.overspends

    def used(self, live: DrivenRun, turn: str) -> Usage:
        """The usage that the attempt of *turn*, which an earlier owner started, had reported."""
        attempt = Attempt(live, live.core.turns[turn])
        for usage in self._tree.ports.files.used(attempt.ref):
            attempt.reported = self._counted(attempt, usage)
        reported, stepped = attempt.reported or NO_USAGE, attempt.turn.stepped
        return max(stepped, reported, key=lambda used: (used.cost, used.input_tokens + used.output_tokens))

    def _counted(self, attempt: Attempt, usage: Usage) -> Usage:
        """Return *usage*, or record that it cannot be right and return the usage to count instead."""
        if not attempt.counts:
            return usage
        earlier, reserved = attempt.used, attempt.turn.reserved
        if attempt.misreports:
            return earlier
        if reason := misreport(usage, earlier, reserved):
            usage = msgspec.structs.replace(earlier, cost=max(earlier.cost, reserved))
            misreported = AttemptMisreported(turn=attempt.name, attempt=attempt.n, reason=reason, usage=usage)
            attempt.live.core.write(self._clock.now(), misreported)
            attempt.misreports, attempt.reported = True, usage
        return usage

    def settle(self, attempt: Attempt) -> None:
        """Write the verdict on *attempt*, whose gates have run, then accept the inputs that it sent meanwhile."""
        live, turn = attempt.live, attempt.name
        self._accepted(live, turn, live.core.settle(self._clock.now(), turn))
        held_back, attempt.held_back = attempt.held_back, ()
        for said, source in held_back:
            self.accept(live, said, source)
        if attempt.turn.status == "running" and attempt.turn.slot and attempt.task is None:  # of an earlier owner
            live.halt(turn)
            live.core.cut_off(self._clock.now(), turn, "crash", self.used(live, turn))
            self._tree.pump(live)

    def _accepted(self, live: DrivenRun, turn: str, record: Record | None) -> Record | None:
        if record is None:
            return None
        known = live.core.turns[turn]
        if known.status != "running":
            live.halt(turn)  # the answer of a human came from elsewhere; any other attempt has ended by itself
            if known.steps and known.result is not None:
                live.send(Forget(turn=turn, attempts=known.attempt))
        self._tree.pump(live)
        return record

    def accept_late(self, live: DrivenRun, emit: Emit) -> Record | None:
        """Accept an event emitted before the attempt's owner died, at that owner's time, without acting on it yet."""
        return live.core.accept(live.core.at, self._hidden(emit) if self._tree.secrets.values else emit)

    def _hidden(self, said: AttemptInput) -> AttemptInput:
        """*said* without secrets."""
        return self._tree.secrets.hide_fields(said, *_TEXTS)
