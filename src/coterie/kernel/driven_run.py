"""One run of the tree while it is driven, and what its driver and others say of it."""

import asyncio
from collections import deque
from pathlib import Path

from msgspec import Struct

from coterie.backends.base import Session
from coterie.journal.base import Writer
from coterie.journal.records import (
    NO_USAGE,
    AttemptLaunched,
    AttentionAsked,
    Cause,
    OperatorSaid,
    Record,
    Usage,
)
from coterie.journal.rules import root_of
from coterie.kernel.commands import AttemptInput, Effect, Start, Turn
from coterie.kernel.core import Core
from coterie.kernel.kind import Kind
from coterie.planning.plan import Plan


class InterruptAttempt(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: interrupt the attempt that runs for this turn."""

    turn: str


class Steer(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: give the attempt that runs for this turn guidance while it works."""

    turn: str
    said: OperatorSaid


class AwaitApproval(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: let the policy answer *asked* when its time has come."""

    asked: AttentionAsked


class AnswerApproval(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: answer the *question* of the attempt that runs for this turn."""

    turn: str
    question: str
    allowed: bool
    message: str = ""


class Check(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: run the gates of what this turn said."""

    turn: str


class Clear(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: remove the files by which an attempt, whose result is recorded, could be found."""

    turn: str
    attempt: int


Order = InterruptAttempt | Steer | AwaitApproval | AnswerApproval | Check | Clear
"""The effects of the shell's own."""


class DrivenRun:
    """One run of the tree while it is driven."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        kind: Kind,
        core: Core,
        writer: Writer,
        parent: "tuple[DrivenRun, Start] | None",
    ) -> None:
        self.run, self.plan, self.core, self.writer, self.parent = run, plan, core, writer, parent
        self.nodes: tuple[str, ...] = (*parent[0].nodes, _node(*parent)) if parent is not None else ()
        """Where it answers: the nodes from the root down."""
        self.outbox: list[Effect | Order] = []
        self.kind = kind
        self.limits_time: bool = self.kind.limits_time or (parent is not None and parent[0].limits_time)
        """Whether it, or a run above it, may have a limit of time."""
        self.root = root_of(run)
        self.top: DrivenRun = self if parent is None else parent[0].top
        """The root run that it is or belongs to."""
        self.here = Path(plan.folder) if plan.folder else None
        self.parent_notified = False
        """Whether its journal was closed and its parent was notified of its end."""
        self.ending = False
        """Whether its parent has cancelled it, in a durable record."""
        self.unseen: deque[Record] = deque()
        """What was appended and not yet shown to the observer: it is not durable."""
        self.reap: list[AttemptLaunched] | None = None
        self.attempts: dict[str, asyncio.Task[None]] = {}
        self.sessions: dict[str, Session] = {}
        self.checks: dict[str, asyncio.Task[None]] = {}
        """The gates that run, by turn."""
        self.held_back: dict[str, list[tuple[AttemptInput, str]]] = {}
        """What turns said while their gates ran, each with its source."""
        self.reported: dict[str, Usage] = {}
        """What the running attempt of each turn has reported so far that it used."""
        self.misreported: set[str] = set()
        """The turns whose running attempt reported a usage that cannot be right."""
        self.overspent: set[str] = set()
        """The turns whose attempts were to be cut off for their cost."""
        self.children: dict[str, DrivenRun] = {}
        """The child runs that its turns are, by id, until it has heard how they ended."""
        self.held: dict[str, Cause] = {}
        """Retries that a human must allow first, by turn."""
        self._asks_humans = self.kind.may_gain_humans or "human" in core.agent_kinds

    @property
    def is_durable(self) -> bool:
        """Whether all that was appended so far would survive a power cut."""
        return self.writer.is_durable(self.core.seq)

    @property
    def is_whole(self) -> bool:
        """Whether it was begun, or taken over, to the end: more can be appended."""
        return self.core.is_live and self.core.epoch > 0 and self.core.seq == self.writer.last

    @property
    def has_left(self) -> bool:
        """Whether its records are durable and shown, and what follows from them has been done."""
        return not self.outbox and not self.unseen and self.is_durable

    @property
    def turn(self) -> str:
        """The turn of its parent that it is; empty for a root."""
        return self.parent[1].ask.turn if self.parent is not None else ""

    def halt(self, turn: str) -> None:
        """End the attempt of *turn*, if one runs; what it still says is too late."""
        self.sessions.pop(turn, None)
        if self.reported:
            self.reported.pop(turn, None)
        if self.misreported:
            self.misreported.discard(turn)
        if (task := self.attempts.pop(turn, None)) is not None:
            task.cancel()
        if self.checks and (task := self.checks.pop(turn, None)) is not None:
            task.cancel()

    @property
    def has_reported(self) -> bool:
        """Whether a running attempt has reported what it has used, or may have."""
        return bool(self.reported) or bool(self.misreported) or bool(self.core.gated)

    def used(self, turn: str) -> Usage:
        """What the running attempt of *turn* has used so far, as far as it has reported that."""
        held = self.core.gated.get(turn)
        return self.reported.get(turn) or (held.due.usage if held is not None else NO_USAGE)

    def humans(self) -> list[Turn]:
        """The turns that wait for a human's answer."""
        if not self.held and not self._asks_humans:
            return []  # most runs have no humans, and may have a great many turns
        return [
            turn
            for turn in self.core.turns.values()
            if (turn.status == "running" and self.core.kind(turn.ask.agent) == "human") or turn.ask.turn in self.held
        ]


def _node(above: DrivenRun, start: Start) -> str:
    """The node of *above* at which a child run answers."""
    return above.kind.node(start.ask.turn, start.ask.agent)
