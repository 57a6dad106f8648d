"""The questions that actors ask while they handle messages: a repeated question after a kill gets its earlier answer.

A question is identified by the message that its asker was handling and by its number within that handling. A message is
handled again in two cases: the process of the run was killed, and the message came with the run's input or from a turn;
or the process of the asker was killed, and the message waited in a stream.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from coterie.history.journal.records import CallAsked, Record, RunOwned, TurnCancelled, TurnFailed, TurnFinished

TurnEnd = TurnFinished | TurnFailed | TurnCancelled

KEPT = 1000
"""How many questions of this owner are remembered, in case the process of their asker is killed."""


class KnownQuestion(Struct):
    """A question, its turn, the node of its asker, and how the turn ended."""

    call: CallAsked
    asker: str = ""
    end: TurnEnd | None = None

    @property
    def turn(self) -> str:
        """The turn that answers it."""
        return self.call.turn


class Questions:
    """The last question of each origin, until it is repeated."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownQuestion] = OrderedDict()
        self._before: dict[str, KnownQuestion] = {}
        self._turns: dict[str, KnownQuestion] = {}

    def read(self, records: Iterable[Record], epoch: int) -> None:
        """Read the questions of the owners before *epoch* from the records of the run."""
        turns: dict[str, KnownQuestion] = {}
        for record in records:
            match record:
                case RunOwned() if record.epoch == epoch:
                    break
                case CallAsked() if record.origin:
                    turns[record.turn] = self._before[record.origin] = KnownQuestion(record)
                case TurnFinished() | TurnFailed() if record.turn in turns:
                    turns[record.turn].end = record
                case TurnCancelled() if (question := turns.get(record.turn)) is not None:
                    if self._before.get(question.call.origin) is question:
                        del self._before[question.call.origin]

    def asked(self, call: CallAsked, asker: str) -> None:
        """Store a question from the node *asker*."""
        if not call.origin:
            return
        self._known[call.origin] = self._turns[call.turn] = KnownQuestion(call, asker)
        if len(self._known) > KEPT:
            self._turns.pop(self._known.popitem(last=False)[1].turn, None)

    def ended(self, record: TurnEnd) -> None:
        """Store how a turn has ended."""
        if (question := self._turns.pop(record.turn, None)) is None:
            return
        if isinstance(record, TurnCancelled):
            if self._known.get(question.call.origin) is question:
                del self._known[question.call.origin]
        else:
            question.end = record

    def again(self, origin: str, asker: str, agent: str, given: Mapping[str, Any]) -> KnownQuestion | None:
        """The earlier question of *origin* that is now repeated, asked by a process that is gone; returned once."""
        if not origin:
            return None
        known = self._known.get(origin)
        if known is not None and known.asker != asker and known.end is not None:
            del self._known[origin]
        else:
            known = self._before.pop(origin, None)
        if known is None or (known.call.agent, identity(known.call.given)) != (agent, identity(given)):
            return None
        return known


def identity(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The part of *given* that is equal in all attempts of a turn, so not the prompt."""
    if given is None or not {"key", "task", "input", "inputs"} <= given.keys():
        return given
    return {name: value for name, value in given.items() if name != "prompt"}
