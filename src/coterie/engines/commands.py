"""Commands of an engine, inputs to it, and the protocol of engines.

An engine is two deterministic functions over one state. `judge` turns an input into the record to write, without
effect; `step` turns a record into commands, and is the only place where the state changes. No I/O, no clock (time is
`record.at`), no randomness, no asyncio.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from coterie.journal.records import NO_USAGE, Record, Usage
from coterie.planning.plan import Wanted

INFRASTRUCTURE = frozenset({"rate_limited", "transient", "auth", "quota"})
"""Kinds of failure that are not the agent's: they never enter a prompt."""


class Ask(Struct, frozen=True, kw_only=True, gc=False):
    """Start a turn.

    Attributes:
        turn: Its id, new in this run.
        agent: The agent to call.
        inputs: The turns whose results the prompt shows, in the source order of the arrows.
        prompt: The whole prompt, for engines that write prompts; None: it is rendered from *inputs*.
        history: The chat before *prompt*: pairs of a role, `user` or `assistant`, and a text.
        wanted: The JSON that the prompt asks for, if its engine wrote it.
        given: Further named values of the input, when the agent is a topology.
        whole: All of that input, in place of *prompt* and *given*.
        instead_of: The agent that *agent* replaces as its fallback.
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
    """End the run: *outcome* is `completed` or `failed`. *at_fault* are the turns whose failure ends it."""

    outcome: str
    result: Any = None
    reason: str = ""
    at_fault: tuple[str, ...] = ()


Command = Ask | Cancel | Note | Reload | Stop | Finish


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt answered. *outputs* is None when the backend has no structured output: they are found in *text*.

    *given* are outputs that it gave before it answered. *prompt* is the question it answers, where that is at hand;
    *open_tasks* are those that keep a loop from completing.
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
    """An attempt emitted an event; *open_tasks* are those that keep a loop from completing."""

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
