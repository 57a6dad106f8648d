"""A debate in progress: what was said, each side's view of it, and whether it may end.

Each side sees the debate as a separate chat that begins with its instructions: a chat never opens with a message of the
assistant, and each question only adds to it.
"""

from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct

from coterie.engines.generator import PatternFailed, Question, Tell
from coterie.journal.records import TurnFinished
from coterie.patterns.builtin.stance import agreement
from coterie.planning.plan import Wanted
from coterie.topology.patterns.configs import DebateSettings
from coterie.topology.patterns.slots import SIDES

PROPONENT, OPPONENT = SIDES
OTHER = {PROPONENT: OPPONENT, OPPONENT: PROPONENT}

_STANDS = {PROPONENT: "in favour of it", OPPONENT: "against it"}


class Argument(Struct, frozen=True, kw_only=True):
    """An argument of a side, and its agreement with the other side, from 0 to 1; None for the opening."""

    role: str
    argument: str
    round: int
    agreement: float | None = None


class Talk:
    """A debate in progress.

    Args:
        version: The version of the engine that began the run.

    Attributes:
        mediator: The slot that mediates.
        turns: The arguments, in order.
    """

    def __init__(self, question: str, mediator: str, config: DebateSettings, version: int) -> None:
        self.question, self.mediator, self.config, self._version = question, mediator, config, version
        self.turns: list[Argument] = []
        self._chats: dict[str, list[tuple[str, str]]] = {side: [] for side in SIDES}

    @property
    def rounds(self) -> int:
        """The number of complete exchanges."""
        return len(self.turns) // 2

    def speak(self, side: str, round: int) -> Generator[Question | Tell, Any, None]:
        """Ask *side* for its next argument, and record messages to the other two."""
        question = self.ask(side, self._instruction(side))
        reply = yield question
        agrees = agreement(reply) if self.turns else None
        self.turns.append(Argument(role=side, argument=said(reply, side), round=round, agreement=agrees))
        self._chats[side] += [("user", question.prompt), ("assistant", _labelled(self.turns[-1]))]
        for other in (OTHER[side], self.mediator):
            yield Tell(side, other, "broadcast", {"argument": self.turns[-1].argument}, round)

    def ask(self, side: str, instruction: str, fields: Sequence[Wanted] = ()) -> Question:
        """A question to *side*, after the arguments that it has not seen yet."""
        parts = [] if self._chats[side] else [f"A debate on: {self.question}", f"You argue {_STANDS[side]}."]
        if self.turns and self.turns[-1].role != side:
            parts.append(_labelled(self.turns[-1]))
        return Question(side, "\n\n".join([*parts, instruction]), fields=fields, history=self._chats[side])

    def convergence(self) -> float:
        """The lesser of the two agreements that the sides stated last; 0 while the proponent has only opened."""
        latest = {turn.role: turn.agreement or 0.0 for turn in self.turns}
        return min(latest.values()) if self._version >= 3 else min(1.0, round(sum(latest.values()), 9))

    def may_end(self) -> bool:
        """Whether both sides agree, and that ends the debate."""
        config = self.config
        if not config.allow_early_termination or self.rounds < config.min_rounds:
            return False
        granted = config.consensus_method == "first_agree" and self.granted() is not None
        return granted or self.convergence() >= config.convergence_threshold

    def granted(self) -> Argument | None:
        """The first argument that the other side agreed with, at least to the threshold."""
        for before, turn in zip(self.turns, self.turns[1:], strict=False):
            if (turn.agreement or 0.0) >= self.config.convergence_threshold:
                return before
        return None

    def transcript(self, first: str = PROPONENT) -> str:
        """The question and all arguments; *first* is the side that begins each exchange."""
        turns = self.turns
        if first == OPPONENT:
            turns = [turn for n in range(0, len(turns), 2) for turn in reversed(turns[n : n + 2])]
        return "\n\n".join([f"A debate on: {self.question}", "This was said:", *map(_labelled, turns)])

    def _instruction(self, side: str) -> str:
        if not self.turns:
            return "Open the debate: make your case."
        answer = f"Answer this, still {_STANDS[side]}."
        if self.config.allow_early_termination or self.config.consensus_method == "first_agree":
            answer += " End with a line `agreement: X`: from 0 to 1, how far you now agree with the other side."
        return answer


def said(reply: TurnFinished, slot: str) -> str:
    """The argument of *slot* without the label of the transcript.

    Raises:
        PatternFailed: If it is empty.
    """
    text = reply.text.strip().removeprefix(_label(slot)).strip()
    if not text:
        raise PatternFailed(f"{slot} gave an empty answer ({reply.turn})")
    return text


def _labelled(turn: Argument) -> str:
    return f"{_label(turn.role)} {turn.argument}"


def _label(slot: str) -> str:
    return f"[{slot.title()}]:"
