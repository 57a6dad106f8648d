"""What attempts say to their runs: judged, written, and followed up."""

import msgspec

from coterie.engines.commands import Emit, Reply
from coterie.journal.records import (
    NO_USAGE,
    OVER_BUDGET,
    AttemptFailed,
    AttemptInterrupted,
    AttemptMisreported,
    GatesDue,
    Record,
    Usage,
)
from coterie.kernel.commands import AttemptInput
from coterie.kernel.driven_run import Check, DrivenRun, InterruptAttempt
from coterie.kernel.ledger import misreport
from coterie.kernel.run_tree import RunTree

_ENDS_ATTEMPT = (Reply, AttemptFailed, AttemptInterrupted)
_AWAITS_GATES = (*_ENDS_ATTEMPT, Emit)
"""The inputs that are judged, or that end an attempt."""
_TEXTS = ("text", "outputs", "given", "event", "payload", "reason", "log", "incomplete", "tool", "detail", "output")
"""The fields of what is said in which secrets are redacted."""


class AttemptInputs:
    """Takes what the attempts of the runs of *tree* say."""

    def __init__(self, tree: RunTree) -> None:
        self._tree, self._clock, self._ledger = tree, tree.ports.clock, tree.ledger

    def accept(
        self, live: DrivenRun, said: AttemptInput, source: str = "agent", at_once: bool = False
    ) -> Record | None:
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
        if self._tree.secrets.values:
            said = self._hidden(said)
        record = live.core.accept(self._clock.now(), said, source)
        if isinstance(record, GatesDue):
            live.outbox.append(Check(turn=said.turn))
        return self._accepted(live, said.turn, record)

    def use(self, live: DrivenRun, turn: str, attempt: int, usage: Usage) -> None:
        """Keep what an attempt has used so far, and cut it off if that passes its reservation and the budget."""
        if live.core.accepts(turn, attempt):
            live.reported[turn] = self._counted(live, turn, attempt, usage)
            if self._ledger.overspends(live, turn):
                live.overspent.add(turn)
                live.outbox.append(InterruptAttempt(turn=turn))

    def used(self, live: DrivenRun, turn: str, attempt: int) -> Usage:
        """What an attempt of an earlier owner has used, by what it had reported."""
        for usage in self._tree.ports.files.used(live.run, turn, attempt):
            live.reported[turn] = self._counted(live, turn, attempt, usage)
        live.misreported.discard(turn)  # its next attempt may report again
        return live.reported.pop(turn, NO_USAGE)

    def _counted(self, live: DrivenRun, turn: str, attempt: int, usage: Usage) -> Usage:
        """The *usage* that an attempt reports, or what counts in its place if it cannot be right, which is recorded."""
        if not live.core.accepts(turn, attempt):
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
        self._accepted(live, turn, core.settle(self._clock.now(), turn))
        for said, source in live.held_back.pop(turn, []):
            self.accept(live, said, source)
        one = core.turns[turn]
        if one.status == "running" and one.slot and turn not in live.attempts:  # it ended with an earlier owner
            core.cut_off(self._clock.now(), turn, "crash", self.used(live, turn, one.attempt))
            self._tree.pump(live)

    def _accepted(self, live: DrivenRun, turn: str, record: Record | None) -> Record | None:
        if record is None:
            return None
        if live.core.turns[turn].status != "running":
            live.halt(turn)  # a human was answered from elsewhere; any other has ended by itself
        self._tree.pump(live)
        return record

    def accept_late(self, live: DrivenRun, emit: Emit) -> Record | None:
        """Take what an attempt had emitted when its owner died, in that owner's time; nothing follows from it yet."""
        return live.core.accept(live.core.at, self._hidden(emit) if self._tree.secrets.values else emit)

    def _hidden(self, said: AttemptInput) -> AttemptInput:
        """*said* without secrets."""
        return self._tree.secrets.hide_fields(said, *_TEXTS)
