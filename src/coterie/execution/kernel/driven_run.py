"""One run of the tree while it is driven, its attempts, and the effects of its driver."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from coterie.agents.backends.base import NO_TAIL, AttemptRef, Session, Tail
from coterie.execution.kernel.attempt_files import AttemptFiles, AttemptPlace
from coterie.execution.kernel.commands import AttemptInput, Effect, Start, Turn
from coterie.execution.kernel.core import Core
from coterie.execution.kernel.kind import Kind
from coterie.history.journal.base import Writer
from coterie.history.journal.records import (
    NO_USAGE,
    AttemptLaunched,
    AttentionAsked,
    Cause,
    OperatorSaid,
    Record,
    Usage,
)
from coterie.history.journal.rules import root_of
from coterie.team.planning.plan import AgentPlan, Plan


class InterruptAttempt(Struct, frozen=True, kw_only=True):
    """An effect of the shell: interrupt the running attempt of this turn."""

    turn: str


class Steer(Struct, frozen=True, kw_only=True):
    """An effect of the shell: pass guidance to the running attempt of this turn."""

    turn: str
    said: OperatorSaid


class AwaitApproval(Struct, frozen=True, kw_only=True):
    """An effect of the shell: let the policy answer *asked* when its time has come."""

    asked: AttentionAsked


class AnswerApproval(Struct, frozen=True, kw_only=True):
    """An effect of the shell: answer the *question* of the running attempt of this turn."""

    turn: str
    question: str
    allowed: bool
    message: str = ""


class Check(Struct, frozen=True, kw_only=True):
    """An effect of the shell: run the gates for the reply or emit of this turn."""

    turn: str


class Clear(Struct, frozen=True, kw_only=True):
    """An effect of the shell: remove the files for finding an attempt whose result is recorded."""

    turn: str
    attempt: int


class Forget(Struct, frozen=True, kw_only=True):
    """An effect of the shell: remove the conversation that the attempts of a turn, which has ended, kept."""

    turn: str
    attempts: int


Order = InterruptAttempt | Steer | AwaitApproval | AnswerApproval | Check | Clear | Forget
"""The effects that the shell adds to those of the core."""


class Attempt:
    """The current attempt of a turn, from its start until nothing of it counts any more.

    An attempt of an earlier owner is one, too, while its gates run or its usage is counted.

    Attributes:
        live, turn: Its run, and its turn there.
        agent: Its agent, with the time and the rights that it has; without a *start*: as in the plan.
        prompt: The whole prompt, which ends with *tail*.
        ref: Its name in all processes.
        key: `run/turn`: the same in every attempt of the turn, and the place where it works.
        task: Runs it; None: this owner has not started it.
        session: Its session, once it has begun.
        check: Runs its gates.
        held_back: Its inputs while its gates ran, each with its source.
        reported: The usage that it has reported so far; *misreports*: whether it reported an implausible one.
        overspends: Whether it has exceeded the budget and is being cut off.
        events: How many events it has had.
        emitting: Reads what the verdict on its latest emit needs, after those before.
        steering: Pass guidance to it.
    """

    task: asyncio.Task[None] | None = None
    session: Session | None = None
    check: asyncio.Task[None] | None = None
    held_back: tuple[tuple[AttemptInput, str], ...] = ()
    reported: Usage | None = None
    misreports = overspends = False
    events = 0
    emitting: asyncio.Task[None] | None = None
    steering: frozenset[asyncio.Task[None]] = frozenset()
    _place: AttemptPlace | None = None

    def __init__(
        self, live: "DrivenRun", turn: Turn, agent: AgentPlan | None = None, prompt: str = "", tail: Tail = NO_TAIL
    ) -> None:
        self.live, self.turn, self.prompt, self.tail = live, turn, prompt, tail
        self.name, self.n, self.key = turn.ask.turn, turn.attempt, f"{live.run}/{turn.ask.turn}"
        self.agent = agent or live.core.agents.get(turn.ask.agent) or AgentPlan(name=turn.ask.agent)
        self.ref = AttemptRef(run=live.run, turn=self.name, attempt=turn.attempt, epoch=turn.epoch)

    @property
    def place(self) -> AttemptPlace:
        """Where its files are kept."""
        if self._place is None:
            transcript = None if self.agent.backend == "actor" else self.live.kind.project.transcript
            self._place = self.live.files.place(self.ref, transcript)
        return self._place

    @property
    def launched(self) -> list[AttemptLaunched]:
        """The processes that it has had."""
        return [one for one in self.turn.launched if one.attempt == self.n]

    @property
    def counts(self) -> bool:
        """Whether its inputs still count."""
        return self.live.core.accepts(self.name, self.n)

    @property
    def waits(self) -> bool:
        """Whether it waits for a person or for its gates."""
        core = self.live.core
        return self.turn.gated is not None or any(
            one.turn == self.name and one.kind != "stall" for one in core.attention.values()
        )

    @property
    def used(self) -> Usage:
        """The usage that it has reported so far."""
        held = self.turn.gated
        return self.reported or (held.due.usage if held is not None else NO_USAGE)

    @property
    def abandoned(self) -> bool:
        """Whether its code, in this process, did not end when it was cancelled, and was left behind."""
        return getattr(self.session, "abandoned", False)


class DrivenRun:
    """One run of the tree while it is driven.

    Args:
        changed: Called with the run whenever it may have something to write, to perform or to show, or counts anew.

    Attributes:
        number: Its place among the runs of the tree, in the order in which they were opened.
        timer: Calls it off when its time is over, if that is limited.
    """

    number = 0
    timer: asyncio.TimerHandle | None = None

    def __init__(
        self,
        run: str,
        plan: Plan,
        kind: Kind,
        core: Core,
        writer: Writer,
        files: AttemptFiles,
        parent: "tuple[DrivenRun, Start] | None",
        changed: "Callable[[DrivenRun], object]",
    ) -> None:
        self.run, self.plan, self.core, self.writer, self.parent = run, plan, core, writer, parent
        self.files, self._changed = files, changed
        self.nodes: tuple[str, ...] = (*parent[0].nodes, _node(*parent)) if parent is not None else ()
        """Its place: the nodes from the root down."""
        self.outbox: list[Effect | Order] = []
        """What is to be performed once all that was written is durable; see `send`."""
        self.kind = kind
        self.limits_time: bool = self.kind.project.limits_time or (parent is not None and parent[0].limits_time)
        """Whether it, or a run above it, may have a time limit."""
        self.root = root_of(run)
        self.top: DrivenRun = self if parent is None else parent[0].top
        """Its root run, or itself."""
        self.here = Path(plan.folder) if plan.folder else None
        self.parent_notified = False
        """Whether its journal was closed and its parent was notified of its end."""
        self.ending = False
        """Whether its parent has cancelled it, in a durable record."""
        self.unseen: deque[Record] = deque()
        """Records that were appended but are not durable, and so not yet shown to the observers."""
        self.reap: list[AttemptLaunched] | None = None
        self.attempts: dict[str, Attempt] = {}
        """The current attempts of its turns, by turn."""
        self.overspent = False
        """Whether an attempt exceeded the budget and had to be cut off."""
        self.children: dict[str, DrivenRun] = {}
        """The child runs of its turns, by id, until their results have arrived."""
        self._asks_humans = self.kind.project.changes or "human" in core.agent_kinds

    @property
    def is_whole(self) -> bool:
        """Whether its beginning or takeover is complete, so that records can be appended."""
        return self.core.is_live and self.core.epoch > 0 and self.core.seq == self.writer.last

    @property
    def has_left(self) -> bool:
        """Whether its records are durable and shown, and their effects have been performed."""
        return not self.outbox and not self.unseen and self.writer.is_durable(self.core.seq)

    @property
    def turn(self) -> str:
        """The parent's turn that it performs; empty for a root."""
        return self.parent[1].ask.turn if self.parent is not None else ""

    @property
    def waits(self) -> bool:
        """Whether it has effects to perform, records to show or attempts to reap, is not durable, or is over."""
        return (
            bool(self.outbox or self.unseen)
            or self.reap is not None
            or not self.writer.is_durable(self.core.seq)
            or (self.core.finished is not None and not self.parent_notified)
        )

    def changed(self) -> None:
        """Tell the tree that the run has changed, other than by a record."""
        self._changed(self)

    def send(self, *effects: "Effect | Order") -> None:
        """Put *effects* into the outbox."""
        self.outbox += effects
        self._changed(self)

    def attempt(self, turn: str) -> Attempt:
        """The current attempt of *turn*, of this owner or an earlier one."""
        return self.attempts.get(turn) or Attempt(self, self.core.turns[turn])

    def halt(self, turn: str) -> None:
        """End the attempt of *turn*, if one runs; later inputs from it come too late."""
        if (attempt := self.attempts.pop(turn, None)) is not None:
            if attempt.task is not None:
                attempt.task.cancel()
            if attempt.check is not None:
                attempt.check.cancel()

    def hold(self, turn: str, cause: Cause) -> None:
        """Wait for a person to approve the next attempt of *turn*, the command *cause*."""
        self.core.turns[turn].held, self._asks_humans = cause, True

    @property
    def held(self) -> list[str]:
        """The turns whose next attempt a person must first approve."""
        return [name for name, turn in self.core.open.items() if turn.held is not None] if self._asks_humans else []

    def humans(self) -> list[Turn]:
        """The turns that wait for a human's answer."""
        if not self._asks_humans:
            return []  # as in most runs
        return [
            turn
            for turn in self.core.open.values()
            if turn.held is not None or (turn.status == "running" and self.core.kind(turn.ask.agent) == "human")
        ]


def _node(above: DrivenRun, start: Start) -> str:
    """The node of *above* that a child run performs."""
    return above.kind.project.node(start.ask.turn, start.ask.agent)
