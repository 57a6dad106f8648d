"""The protocol of engines: their inputs and their commands.

An engine is two deterministic functions over one state. `judge` turns an input into the record to write, without
effect; `step` turns a record into commands, and is the only place where the state changes. No I/O, no clock (time is
`record.at`), no randomness, no asyncio.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from coterie.history.journal.records import NO_USAGE, Record, Usage
from coterie.team.planning.plan import Wanted

INFRASTRUCTURE = frozenset({"rate_limited", "transient", "auth", "quota"})
"""Kinds of failure that are not the agent's: they never enter a prompt."""


class Item(Struct, frozen=True, kw_only=True, gc=False):
    """The item of a set that a turn works on.

    Attributes:
        k: Its number, from 1, of *of* items.
        agent: The agent that gave the list; `input`: it is in the run's input.
        field: The name of the list.
        total: If it is several neighbours in the list, how long that is, and how many are *before* them; else 0.
    """

    set: str
    k: int
    of: int
    agent: str
    field: str
    value: Any
    before: int = 0
    total: int = 0

    @property
    def within(self) -> str:
        """Its place in the list, `21 to 30`, or `31` of one that is left over; empty if it is no list of neighbours."""
        first, last = self.before + 1, self.before + len(self.value) if self.total else 0
        return f"{first} to {last}" if first < last else str(last or "")


class Ask(Struct, frozen=True, kw_only=True, gc=False):
    """Start a turn.

    Attributes:
        turn: Its id, new in this run.
        agent: The agent to call.
        inputs: The turns whose results the prompt shows, in the source order of the arrows.
        prompt: The whole prompt, from engines that write prompts; None: it is rendered from *inputs*.
        history: The chat before *prompt*: pairs of a role, `user` or `assistant`, and a text.
        wanted: The JSON that the prompt asks for, if the engine wrote the prompt.
        given: Further named values of the input, when the agent is a topology.
        whole: The complete input, in place of *prompt* and *given*.
        instead_of: The agent that *agent* replaces as its fallback.
        asked: SHA-256 of the question, where code wrote it, which may have changed when the run is resumed.
        item: The item that it works on, if it is a turn of a set.
    """

    turn: str
    agent: str
    inputs: tuple[str, ...] = ()
    prompt: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    wanted: tuple[Wanted, ...] = ()
    given: dict[str, Any] = {}
    whole: dict[str, Any] | None = None
    instead_of: str = ""
    asked: str = ""
    item: Item | None = None

    @property
    def role(self) -> str:
        """The agent to call, or, if that is a fallback, the agent that it replaces."""
        return self.instead_of or self.agent


class Cancel(Struct, frozen=True, kw_only=True, gc=False):
    """Cancel a turn; no effect if it has ended."""

    turn: str
    reason: str = ""


class Note(Struct, frozen=True, kw_only=True, gc=False):
    """Write *record* (its seq, time and cause are filled in)."""

    record: Record


class Reload(Struct, frozen=True, kw_only=True, gc=False):
    """Read the plan again; answered by `config.changed` or `config.rejected`."""


class Stop(Struct, frozen=True, kw_only=True, gc=False):
    """Stop the run for *reason* (a limit); it can be resumed, and the engine decides again at `run.owned`."""

    reason: str


class Finish(Struct, frozen=True, kw_only=True, gc=False):
    """End the run with *outcome*: `completed` or `failed`. *at_fault* are the turns whose failure ends it."""

    outcome: str
    result: Any = None
    reason: str = ""
    at_fault: tuple[str, ...] = ()


class Wake(Struct, frozen=True, kw_only=True, gc=False):
    """Write the end of *sleep* at the time *until*, in Unix seconds."""

    sleep: str
    until: float


Command = Ask | Cancel | Note | Reload | Stop | Finish | Wake


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """The reply of an attempt.

    *outputs* is None if the backend has no structured output; they are then found in *text*. *given* are the outputs
    that the attempt gave before its reply. *prompt* is the question that it answers, if available. *open_tasks* are the
    tasks that keep a loop from completing.
    """

    turn: str
    attempt: int
    text: str = ""
    outputs: dict[str, Any] | None = None
    given: dict[str, Any] = {}
    usage: Usage = NO_USAGE
    message: str = ""
    prompt: str = ""
    open_tasks: tuple[str, ...] = ()


class Emit(Struct, frozen=True, kw_only=True, gc=False):
    """An event that an attempt emitted; *open_tasks* are the tasks that keep a loop from completing."""

    turn: str
    attempt: int
    event: str
    payload: str = ""
    message: str = ""
    open_tasks: tuple[str, ...] = ()


class Engine(Protocol):
    """Decides what happens next in one run."""

    name: ClassVar[str]
    version: ClassVar[int]

    def judge(self, said: Reply | Emit) -> Record:
        """The record to write for *said*, which comes from the running attempt of a turn of this run.

        A reply becomes `TurnFinished`, or `AttemptFailed` of kind `invalid_output`; an emit `EventEmitted` or
        `EventInvalid`. The record's seq, time and source are filled in by the caller.
        """

    def step(self, record: Record) -> Sequence[Command]:
        """The commands that follow from *record*; called once for every record of the run, in order."""
