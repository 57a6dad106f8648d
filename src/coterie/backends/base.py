"""The protocol of backends, which run attempts that can be watched, interrupted and steered.

A backend starts one attempt per request and returns one result. A failure is a result, too: a `Failure` of a known
kind, never an exception. An exception that escapes is a defect and counts as `crashed`.
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
        "rate_limited",  # 429: retried, with backoff
        "transient",  # 5xx, connection: retried, with backoff
        "timeout",
        "exit",  # a command ended with a status other than 0
        "not_found",  # the command does not exist or may not be run
        "invalid_output",  # a declared output is missing or invalid
        "crashed",  # an exception escaped from the backend or the agent's code
        "auth",
        "quota",
        "refused",
        "failed",  # a child run failed; any other failure
        "lost",  # only with `Failure`: what ran the attempt died; counts as an interruption
        "interrupted",  # only with `Failure`: `interrupt` was called
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
        """The mark of its processes: `<run>/<turn>.<attempt>`."""
        return child_run_id(self.run, self.turn, self.attempt)


class Request(Struct, frozen=True, kw_only=True):
    """An attempt of a turn, with all that a backend needs for it.

    It is plain data but for its paths: `encode_request` writes it for another process, `decode_request` reads it there.

    Attributes:
        key: `run/turn`: the same in every attempt, for tools that must act once.
        nodes: The nodes above its run, from the root down: a loop's role by its id, a wave's branch as `@branch`.
        prompt: The whole prompt, *history* included.
        context: The same as data: `task`, `input`, `inputs` and `reads` (each with `agent`, `turn`, `text` and
            `outputs`), `wanted`. Filled in only where `Turns.uses_context` says so.
        interrupted: Number of earlier attempts of this turn that were cut off; the prompt mentions them.
        folder: The attempt's own folder, or None when the run keeps nothing on disk.
        cwd: The run's working directory.
        here: The folder of the topology's file.
        team: The files that the team is read from, and folders of such files, whether they exist or not: its process
            and its tools must not change them.
        epoch: The epoch of the owner that started the attempt.
        handle: Where the attempt runs, from its `Launched`; empty if it is a process of this machine.
        taken: Seconds since the attempt was started by an earlier owner; its time-out counts them.
        root: The folder of the root run, with its inbox; None when nothing is kept on disk.
        token: Proves to the run that this attempt sent a message; empty when nothing is kept on disk.
        env: Further variables for the process of an agent, without secrets: those of a loop.
        history: The messages before the prompt, for a backend that sends a chat: the role (`system`, `user` or
            `assistant`) and the text. *prompt* begins with them, as `history_text` writes them.
        wanted: The JSON that the prompt asks for, if an engine wrote it.
        transcript: Where what a coding agent says on the wire is kept, without the backend's label: `<label>-` is put
            before its name; None: nowhere.
        clean: Whether its process has no variables that look secret, and no means to speak to the run.
        hidden: Files and folders that a sandbox hides from it, besides those that it hides from every agent.
        session: The agent's session that an earlier attempt of this turn was cut off in; empty: begin a new one.
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
    team: tuple[Path, ...] = ()
    epoch: int = 1
    handle: str = ""
    taken: float = 0.0
    root: Path | None = None
    token: str = ""
    env: dict[str, str] = {}
    history: tuple[tuple[str, str], ...] = ()
    wanted: tuple[Wanted, ...] = ()
    transcript: Path | None = None
    session: str = ""
    clean: bool = False
    hidden: tuple[Path, ...] = ()

    @property
    def ref(self) -> AttemptRef:
        """The name of the attempt."""
        return AttemptRef(run=self.run, turn=self.turn, attempt=self.attempt, epoch=self.epoch)

    @property
    def latest(self) -> str:
        """The prompt without the history."""
        before = history_text(self.history)
        return self.prompt.removeprefix(before).lstrip("\n") if before else self.prompt


def encode_request(request: Request) -> bytes:
    """*request* as JSON; its paths become texts."""
    return msgspec.json.encode(request, enc_hook=os.fspath)


def decode_request(data: bytes) -> Request:
    """The request that `encode_request` wrote.

    Raises:
        msgspec.ValidationError: If *data* is not a request.
    """
    return msgspec.json.decode(data, type=Request, dec_hook=lambda kind, value: kind(value))


def history_text(history: tuple[tuple[str, str], ...]) -> str:
    """The messages of *history*, as a prompt begins with them."""
    return "\n\n".join(text for _, text in history)


class Launched(Struct, frozen=True, kw_only=True, tag="launched", tag_field="kind"):
    """The attempt has started: as a process, or elsewhere, where *handle* finds it again.

    *started* is the start time of the process, from `coterie.backends.processes`.
    """

    pid: int = 0
    group: int = 0
    started: str = ""
    handle: str = ""


class Text(Struct, frozen=True, kw_only=True, tag="text", tag_field="kind"):
    """The agent wrote *text*; *channel* is `answer`, `thinking` or `log` (standard error)."""

    text: str
    channel: str = "answer"


class Tool(Struct, frozen=True, kw_only=True, tag="tool", tag_field="kind", omit_defaults=True):
    """The agent used a tool.

    Attributes:
        id: The same in all events of one call; empty if the backend does not say.
        state: `started`, `finished` or `failed`.
        detail: Its input, in a line.
        result: Its output, shortened.
    """

    name: str
    state: str = "started"
    detail: str = ""
    id: str = ""
    result: str = ""


class Permission(Struct, frozen=True, kw_only=True, tag="permission", tag_field="kind", omit_defaults=True):
    """The agent asks whether it may use a tool.

    Attributes:
        id: The same in both events of one question, and unique in its attempt.
        detail: The input of the tool, in a line.
        decision: Empty while the agent waits for `Asking.permit`; then `allowed` or `denied`.
        why: What decided, in a few words.
        rule: What would allow this use of the tool for good; empty: no rule does.
    """

    id: str
    tool: str
    detail: str = ""
    decision: str = ""
    why: str = ""
    rule: str = ""


class SessionOpened(Struct, frozen=True, kw_only=True, tag="session", tag_field="kind", omit_defaults=True):
    """The agent works in its session *id*; *resumed*: the one that `Request.session` named.

    *turns*: how many turns the session had before, if the agent says so.
    """

    id: str
    resumed: bool = False
    turns: int | None = None


class Used(Struct, frozen=True, kw_only=True, tag="usage", tag_field="kind"):
    """The total usage of the attempt so far."""

    usage: Usage


class Emitted(Struct, frozen=True, kw_only=True, tag="emit", tag_field="kind"):
    """The agent emitted an event of the run, through its backend rather than the inbox."""

    event: str
    payload: str = ""


class Quiet(Struct, frozen=True, kw_only=True, tag="quiet", tag_field="kind"):
    """The attempt lacks other signs of life than before; see `coterie.kernel.stall`, whose watch alone says so.

    Attributes:
        signs: Those that are missing.
        seconds: How long none of them was seen.
        facts: Why it may be stuck; empty: some signs are there.
    """

    signs: tuple[str, ...] = ()
    seconds: float = 0.0
    facts: str = ""


Event = Launched | Text | Tool | Permission | SessionOpened | Used | Emitted | Quiet
OnEvent = Callable[[Event], None]


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """The answer of the agent. *outputs* is None unless the backend has structured output."""

    text: str = ""
    outputs: dict[str, Any] | None = None
    usage: Usage = NO_USAGE


class Failure(Struct, frozen=True, kw_only=True, gc=False):
    """The attempt failed: *kind* is one of `FAILURES`, *reason* one sentence with the facts.

    Attributes:
        wait: Retry-After in seconds, if given.
        text: The answer or output until then; the end of a long one.
        log: The end of its standard error.
        exit_code: The exit status of its program, as in a shell: 128 plus the number of a signal.
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
    """A running attempt."""

    async def result(self) -> Result:
        """Wait for the one result, once; some backends begin the agent's work only here.

        Cancelling this wait ends the attempt and everything it started.
        """

    async def interrupt(self) -> None:
        """End the attempt now, with its children; `result` then gives a `Failure` of kind `interrupted`."""

    async def steer(self, text: str) -> bool:
        """Give *text* to the agent while it works; returns once the agent has taken it up.

        False if the backend cannot, or if the attempt ends first.
        """


@runtime_checkable
class Asking(Session, Protocol):
    """A running attempt that may ask before its agent uses a tool."""

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the `Permission` with the id *question*; False if it is not open.

        *message*: what the person who denied it says to the agent.
        """


class Running(Struct, frozen=True):
    """An attempt of an earlier owner still runs, as *session*."""

    session: Session


class Finished(Struct, frozen=True):
    """An attempt of an earlier owner has finished, with *result*."""

    result: Result


class Unknown(Struct, frozen=True):
    """There is no trace of the attempt, or it cannot be continued."""


Found = Running | Finished | Unknown


class Abilities(Struct, frozen=True, kw_only=True):
    """What a backend can do beyond running an attempt and interrupting it.

    Attributes:
        steer: Take guidance while the agent works.
        resume: Go on in the session of an attempt that was cut off.
        find: Find an attempt that outlived its owner.
        cost: Report the cost of an attempt in US dollars.
        model: Work with the model that the plan names.
        mode: Work in the mode (or as the agent) that the plan names.
        permission: Ask before a tool is used.
    """

    steer: bool = False
    resume: bool = False
    find: bool = False
    cost: bool = False
    model: bool = False
    mode: bool = False
    permission: bool = False


NO_ABILITIES = Abilities()


class Backend(Protocol):
    """Starts attempts of one kind.

    One that reads `Request.context` has an attribute `uses_context` that is true.
    """

    @property
    def abilities(self) -> Abilities:
        """What it can do."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start an attempt. *on_event* is called on the event loop, in order, until there is a result."""

    async def close(self) -> None:
        """End all attempts that still run. Idempotent."""


@runtime_checkable
class Lasting(Backend, Protocol):
    """A backend whose attempts can outlive the process that started them."""

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Look for the attempt of *request*, which an earlier owner started.

        If it is found, *on_event* gets all its events from the beginning, and those to come. Otherwise nothing is
        changed: the caller ends the processes that are left.
        """
