"""The promise of a backend: someone who can be asked, watched, interrupted and steered.

A backend starts one attempt per request and gives one result. That something failed is a result too: a `Failure` of a
typed kind, never an exception; an exception that escapes means a defect and counts as `crashed`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from coterie.ids import child_run_id
from coterie.journal.records import NO_USAGE, Usage
from coterie.planning.plan import AgentPlan, Wanted

FAILURES = frozenset(
    {
        "rate_limited",  # 429: tried again, with backoff
        "transient",  # 5xx, connection: tried again, with backoff
        "timeout",
        "exit",  # a command ended with a status other than 0
        "not_found",  # the command does not exist or may not be run
        "invalid_output",  # a declared output is missing or does not fit
        "crashed",  # an exception escaped from the backend or the agent's code
        "auth",
        "quota",
        "refused",
        "failed",  # a child run failed; any other failure
        "interrupted",  # only with `Failure`: somebody called `interrupt`
        "shortage",  # only with `Failure`: the machine lacks space, descriptors or memory; the run stops
    }
)


class AttemptRef(Struct, frozen=True, kw_only=True):
    """Names one attempt, in its own process and in any other. *epoch* is that of the owner that started it."""

    run: str
    turn: str
    attempt: int
    epoch: int

    @property
    def marker(self) -> str:
        """The text by which its processes are known: `<run>/<turn>.<attempt>`."""
        return child_run_id(self.run, self.turn, self.attempt)


class Request(Struct, frozen=True, kw_only=True):
    """One attempt of a turn, and all that a backend may know of it.

    It is plain data but for its paths: `encode_request` writes it for another process, `decode_request` reads it there.

    Attributes:
        key: `run/turn`: the same in every attempt, for tools that must act once.
        nodes: At which its run answers, from the root down: a role of a loop by its id, a wave's branch as `@branch`.
        prompt: The whole question.
        context: The same as data: `task`, `input`, `inputs` and `reads` (each with `agent`, `turn`, `text` and
            `outputs`), `wanted`. Filled in only where `Turns.uses_context` says so.
        interrupted: How often earlier attempts of this turn were cut off; above 0 the prompt says so too.
        folder: The attempt's own folder, or None when the run keeps nothing on disk.
        cwd: The run's working directory.
        here: The folder of the topology's file.
        epoch: The epoch of the owner that started the attempt.
        handle: Where the attempt runs, as its `Launched` said; empty in a process of this machine.
        taken: Seconds since the attempt was started by an earlier owner; its time-out counts them.
        root: The folder of the root run, where its inbox lies; None when nothing is kept on disk.
        token: Proves to the run that this attempt sent a message; empty when nothing is kept on disk.
        env: Further variables for an agent's process, which name no secrets: those of a loop.
        history: What was said before, for who can be told it as a chat: the role, `system`, `user` or
            `assistant`, and the text.
            *prompt* begins with it, as `told` writes it.
        wanted: What JSON the prompt asks for, where an engine wrote it.
    """

    run: str
    turn: str
    attempt: int
    agent: AgentPlan
    prompt: str
    key: str = ""
    nodes: tuple[str, ...] = ()
    context: dict[str, Any] = {}
    interrupted: int = 0
    folder: Path | None = None
    cwd: Path | None = None
    here: Path | None = None
    epoch: int = 1
    handle: str = ""
    taken: float = 0.0
    root: Path | None = None
    token: str = ""
    env: dict[str, str] = {}
    history: tuple[tuple[str, str], ...] = ()
    wanted: tuple[Wanted, ...] = ()

    @property
    def ref(self) -> AttemptRef:
        """The name of the attempt."""
        return AttemptRef(run=self.run, turn=self.turn, attempt=self.attempt, epoch=self.epoch)

    @property
    def latest(self) -> str:
        """The question without what was said before it."""
        before = told(self.history)
        return self.prompt.removeprefix(before).lstrip("\n") if before else self.prompt


def encode_request(request: Request) -> bytes:
    """*request* as JSON; its paths become texts."""
    return msgspec.json.encode(request, enc_hook=os.fspath)


def decode_request(data: bytes) -> Request:
    """The request that `encode_request` wrote.

    Raises:
        msgspec.ValidationError: If *data* is no request.
    """
    return msgspec.json.decode(data, type=Request, dec_hook=lambda kind, value: kind(value))


def told(history: tuple[tuple[str, str], ...]) -> str:
    """What was said before a question, as the beginning of its text."""
    return "\n\n".join(text for _, text in history)


class Launched(Struct, frozen=True, kw_only=True, tag="launched", tag_field="kind"):
    """The attempt has a process of its own, or runs elsewhere and is found again by *handle*.

    *started* is the kernel's start time of the process, from `coterie.backends.processes`.
    """

    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""


class Text(Struct, frozen=True, kw_only=True, tag="text", tag_field="kind"):
    """The agent said something; *channel* is `answer`, `thinking` or `log` (standard error)."""

    text: str
    channel: str = "answer"


class Tool(Struct, frozen=True, kw_only=True, tag="tool", tag_field="kind"):
    """The agent used a tool; *state* is `started`, `finished` or `failed`."""

    name: str
    state: str = "started"
    detail: str = ""


class Used(Struct, frozen=True, kw_only=True, tag="usage", tag_field="kind"):
    """What the attempt has used so far, in total."""

    usage: Usage


class Emitted(Struct, frozen=True, kw_only=True, tag="emit", tag_field="kind"):
    """The agent emitted an event of the run, through its backend rather than the inbox."""

    event: str
    payload: str = ""


Event = Launched | Text | Tool | Used | Emitted
OnEvent = Callable[[Event], None]


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """What the agent answered. *outputs* is None unless the backend has structured output."""

    text: str = ""
    outputs: dict[str, Any] | None = None
    usage: Usage = NO_USAGE


class Failure(Struct, frozen=True, kw_only=True, gc=False):
    """The attempt failed: *kind* is one of `FAILURES`, *reason* one sentence with the facts.

    Attributes:
        wait: Seconds that whoever was asked wants to be left alone, as far as it says.
        text: What the agent had answered or printed until then; the end of a long output.
        log: The end of what its program wrote to standard error.
        exit_code: The exit status of its program, as a shell counts it: 128 and the number of a signal.
        signal: The name of the signal that ended its program.
    """

    kind: str
    reason: str
    usage: Usage = NO_USAGE
    wait: float = 0.0
    text: str = ""
    log: str = ""
    exit_code: int | None = None
    signal: str = ""


Result = Answer | Failure


class Session(Protocol):
    """One attempt under way."""

    async def result(self) -> Result:
        """Wait for the one result. Cancelling this wait ends the attempt and everything it started."""

    async def interrupt(self) -> None:
        """End the attempt now, with its children; `result` then gives a `Failure` of kind `interrupted`."""

    async def steer(self, text: str) -> bool:
        """Give the agent *text* while it works. False: this backend cannot."""


class Running(Struct, frozen=True):
    """An attempt of an earlier owner still runs: *session* goes on with it."""

    session: Session


class Finished(Struct, frozen=True):
    """An attempt of an earlier owner has finished, with *result*."""

    result: Result


class Unknown(Struct, frozen=True):
    """There is nothing left of an attempt that one could go on with."""


Found = Running | Finished | Unknown


class Backend(Protocol):
    """Starts attempts of one kind.

    One that reads `Request.context` has an attribute `uses_context` that is true.
    """

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start one attempt. *on_event* is called on the event loop, in order, until the result is there."""

    async def close(self) -> None:
        """End what still runs. Idempotent."""


@runtime_checkable
class Lasting(Backend, Protocol):
    """A backend whose attempts can outlive the process that started them."""

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Look for the attempt of *request*, which an earlier owner started.

        If it is found, *on_event* is given all that it has said from its beginning, and what it goes on to say.
        Otherwise nothing is changed: the caller ends the processes that are left.
        """
