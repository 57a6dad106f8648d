"""One run of the tree while it is driven, and what its driver and others say of it."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie.backends.base import Event, Session
from coterie.journal.base import Writer
from coterie.journal.records import (
    NO_USAGE,
    AttemptLaunched,
    Cause,
    OperatorSaid,
    Record,
    TreeMade,
    TreeSaved,
    TreesJoined,
    Usage,
)
from coterie.journal.rules import root_of
from coterie.planning.plan import Plan
from coterie.runs.commands import Effect, Start, Turn
from coterie.runs.core import Core
from coterie.runs.kinds import Kind
from coterie.runs.notes import Files, Notes, NoteSettings

Observe = Callable[[str, Record], None]
MakeKind = Callable[[Plan], Kind]
"""Gives a fresh kind for one run of a plan."""


class Waiting(Struct, frozen=True, kw_only=True):
    """A question that waits for a human."""

    run: str
    turn: str
    agent: str
    prompt: str = ""


class Ended(Struct, frozen=True, kw_only=True):
    """How an owner's time with a run ended.

    Attributes:
        status: `completed`, `failed` or `stopped` (it can be resumed).
        seconds: How long the run was owned in all; *usage* adds up what its attempts took, side by side or not.
        waiting: The questions to humans that are open.
        iterations: How many a loop has begun; None: it is none.
    """

    run: str
    status: str
    reason: str = ""
    result: Any = None
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    iterations: int | None = None


class InterruptAttempt(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: interrupt the attempt that runs for this turn."""

    turn: str


class Steer(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: give the attempt that runs for this turn guidance while it works."""

    turn: str
    said: OperatorSaid


class Clear(Struct, frozen=True, kw_only=True):
    """An effect of the shell's own: remove the files by which an attempt, whose result is recorded, could be found."""

    turn: str
    attempt: int


class Place:
    """Where a run's files lie. This one keeps nothing; `coterie.runs.folder` has the one on disk."""

    def folder(self, run: str) -> Path | None:
        """The folder of *run*, or None."""
        return None

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path | None:
        """The folder of an attempt, or None."""
        return None

    def token(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """The token that proves to this owner, and to later ones, that an attempt of *run* sent a message."""
        return ""

    def stream(self, run: str, turn: str, attempt: int, event: Event) -> None:
        """Keep what an attempt says, for watchers."""

    def said(self, run: str, turn: str, attempt: int) -> dict[str, int]:
        """How many characters an attempt said on each channel, as far as `stream` kept it."""
        return {}

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove what *attempts*, each a turn and a number, left half done when their owner was killed."""

    def how_far(self, run: str, turn: str, attempt: int) -> str:
        """What an attempt had said before it was cut off."""
        return ""

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> Files | None:
        """Where the `memory`, or the `task`s, of *run* lie, as its kind's *settings* say; None: nowhere."""
        return None

    def keep_question(self, run: str, turn: str, attempt: int, prompt: str) -> None:
        """Keep what an attempt is about to be asked: what is remembered changes, so it could not be told again."""

    def question(self, run: str, turn: str, attempt: int) -> str:
        """What an attempt was asked, if that was kept; else empty."""
        return ""

    def notes(self, run: str, settings: NoteSettings | None, turn: str, attempt: int) -> Notes:
        """What the prompt of an attempt in *run* shows beside what the journal knows."""
        return Notes()

    def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """The tasks that keep *run* from completing."""
        return ()

    @property
    def saves(self) -> bool:
        """Whether what the files are is kept at each turn's end."""
        return False

    def cwd(self, run: str) -> Path | None:
        """Where the agents of *run* work; None: where everything was started."""
        return None

    async def saved(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        """Keep the files as an attempt leaves them; None: nothing is kept."""
        return None

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the root run is to have a work tree that is not among those *made*, by path."""
        return False

    def make_tree(self) -> TreeMade | None:
        """Make the work tree of the root run; None: it works where it was started."""
        return None

    async def begin_branch(self, run: str, plan: Plan) -> TreeMade | None:
        """Make the work tree of *run*, a branch of a wave; None: it works where its loop does."""
        return None

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Bring together what the branches of a *wave* of *run* did to its files; None: there is nothing to bring."""
        return None

    def held(self, run: str) -> dict[str, str]:
        """Values that the plan of the root of *run* refers to; see `coterie.runs.held`."""
        return {}

    def closes(self, plan: Plan) -> bool:
        """Whether a root run of *plan* has steps to do before it ends."""
        return False

    def closing_step(self, plan: Plan, done: Sequence[Record], ended: Ended) -> Callable[[], Record] | None:
        """The next step before the root run ends, or stops, as *ended* says; None: all are *done*.

        Each can be repeated after a kill. It takes its time, so it is called on a thread.
        """
        return None

    def read_file(self, name: str) -> str | None:
        """The text of a file that an agent reads, or None."""
        return None


class DrivenRun:
    """One run of the tree while it is driven."""

    def __init__(
        self, run: str, plan: Plan, core: Core, writer: Writer, parent: "tuple[DrivenRun, Start] | None"
    ) -> None:
        self.run, self.plan, self.core, self.writer, self.parent = run, plan, core, writer, parent
        self.nodes: tuple[str, ...] = (*parent[0].nodes, _node(*parent)) if parent is not None else ()
        """Where it answers: the nodes from the root down."""
        self.outbox: list[Effect | InterruptAttempt | Steer | Clear] = []
        self.kind: Kind = core.coordination
        self.limits_time: bool = self.kind.limits_time or (parent is not None and parent[0].limits_time)
        """Whether it, or a run above it, may have a limit of time."""
        self.root = root_of(run)
        self.here = Path(plan.folder) if plan.folder else None
        self.parent_notified = False
        """Whether its journal was closed and its parent told that it is over."""
        self.ending = False
        """Whether its parent has called it off, in a record that is durable."""
        self.unseen: deque[Record] = deque()
        """What was appended and not yet shown to the observer: it is not durable."""
        self.reap: list[AttemptLaunched] | None = None
        self.attempts: dict[str, asyncio.Task[None]] = {}
        self.sessions: dict[str, Session] = {}
        self.children: dict[str, DrivenRun] = {}
        """The child runs that its turns are, by id, until it has heard how they ended."""
        self.held: dict[str, Cause] = {}
        """Retries that a human must allow first, by turn."""
        self._asks_humans = self.kind.may_gain_humans or any(a.kind == "human" for a in core.agents.values())

    @property
    def is_durable(self) -> bool:
        """Whether all that was appended so far would survive a power cut."""
        return self.writer.is_durable(self.core.seq)

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
        if (task := self.attempts.pop(turn, None)) is not None:
            task.cancel()

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
