"""The protocol of backends, which run attempts that can be watched, interrupted and steered.

A backend starts one attempt per request and returns one result. A failure is a result, too: a `Failure` of a known
kind, never an exception. An escaping exception is a bug and counts as `crashed`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from coterie.base.ids import child_run_id
from coterie.history.engines.fences import fenced
from coterie.history.journal.records import NO_USAGE, Usage
from coterie.team.planning.plan import AgentPlan, Wanted

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
        "lost",  # only with `Failure`: the node that ran the attempt was lost; counts as an interruption
        "interrupted",  # only with `Failure`: `interrupt` was called
        "shortage",  # only with `Failure`: the machine lacks space, descriptors or memory; the run stops
    }
)


class AttemptRef(Struct, frozen=True, kw_only=True):
    """The name of one attempt, valid in all processes. *epoch* is that of the owner that started it, if it matters."""

    run: str
    turn: str
    attempt: int
    epoch: int = 0

    @property
    def marker(self) -> str:
        """The mark of its processes: `<run>/<turn>.<attempt>`."""
        return child_run_id(self.run, self.turn, self.attempt)


class OwnRepository(Struct, frozen=True, kw_only=True):
    """The git repository that agents have for themselves, and what they see of the user's.

    Attributes:
        tree: The topmost folder of the work tree.
        git: The repository; *link* is the file that `.git` of the tree is for its agents. None: `.git` is a folder,
            and they see the repository there.
        common: Git's folder of the user's repository, which is hidden but for what they *read* of it, such as objects.
        shown: Paths in whose place they see others, and read them.
    """

    tree: Path
    git: Path
    link: Path | None
    common: Path
    read: tuple[Path, ...]
    shown: tuple[tuple[Path, Path], ...] = ()


class Confined(list[str]):
    """A command that ends with the process that starts it, as one in a sandbox does."""


class Tail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a prompt, behind its question.

    Attributes:
        guidance: The operator's guidance.
        refusal: Why the attempt *refused*, the latest that failed by its own fault, did not count.
        interruption: That earlier attempts were interrupted.
    """

    guidance: tuple[str, ...] = ()
    refusal: str = ""
    refused: int = 0
    interruption: str = ""

    @property
    def shown(self) -> str:
        """The guidance as in a prompt."""
        return (
            "\n".join(["# Guidance from the operator\n", *(f"- {text}" for text in self.guidance)])
            if self.guidance
            else ""
        )

    @property
    def text(self) -> str:
        """The whole tail."""
        return "\n\n".join(filter(None, (self.shown, self.refusal, self.interruption)))


NO_TAIL = Tail()


class PastExchange(Struct, frozen=True, kw_only=True):
    """An earlier *run* of a thread as one agent sees it: what the run was given, and the agent's own answer, if any."""

    run: str
    prompt: str
    answer: str = ""


class Request(Struct, frozen=True, kw_only=True):
    """An attempt of a turn, with everything that a backend needs for it.

    It is plain data but for its paths, which are written as texts for another machine
    (`coterie.execution.cluster.wire`).

    Attributes:
        nodes: The nodes above its run, from the root down: a loop's role by its id, a wave's branch as `@branch`.
        prompt: The whole prompt, including *history*.
        context: The prompt as data: `task`, `input`, `inputs` and `reads` (each with `agent`, `turn`, `text` and
            `outputs`), `wanted`. Only filled in if `Turns.uses_context` returns true.
        interrupted: The number of interrupted earlier attempts of this turn, which the prompt mentions.
        folder: The attempt's own folder; None if the run keeps nothing on disk.
        cwd: The run's working directory.
        here: The folder of the topology's file.
        team: The files of the team, and folders of such files, existing or not; the attempt's process and tools must
            not change them.
        epoch: The epoch of the owner that started the attempt.
        handle: Where the attempt runs, from its `Launched`; empty if it is a process of this machine.
        taken: Seconds since an earlier owner started the attempt, which its time-out counts.
        root: The folder of the root run, with its inbox; None if nothing is kept on disk.
        token: Proves to the run that this attempt sent a message; empty if nothing is kept on disk.
        env: Further variables for the process of an agent, without secrets: those of a loop.
        history: The messages before the prompt, for a backend that sends a chat: the role (`system`, `user` or
            `assistant`) and the text. *prompt* begins with them, in the format of `history_text`.
        thread: The earlier exchanges of the run's thread that the agent is shown. *prompt* begins with them, before
            *history*, unless *session* has them.
        wanted: The JSON that the prompt asks for, if an engine wrote it.
        transcript: The file for the protocol traffic of a coding agent, without the backend's label: `<label>-`
            precedes its name; None: not kept.
        clean: Whether its process gets no secret-looking variables and no access to the run.
        hidden: Files and folders that a sandbox hides from it, besides those that it hides from every agent.
        repository: What it has for git in a work tree of its run's; None: what git finds in *cwd*.
        session: The agent's session in which an earlier attempt of this turn was interrupted, or that of the thread;
            empty: begin a new one.
        tail: The end of *prompt*, which is not part of the question.
        continues: Whether it may continue the conversation that an earlier attempt of this turn kept in its folder.
        answered: How many requests of earlier attempts models have answered; *spared*: those that `max-turns` does not
            count, since the turn was retried behind them.
    """

    run: str
    turn: str
    attempt: int
    agent: AgentPlan
    prompt: str
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
    thread: tuple[PastExchange, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    transcript: Path | None = None
    session: str = ""
    clean: bool = False
    hidden: tuple[Path, ...] = ()
    repository: OwnRepository | None = None
    tail: "Tail" = NO_TAIL
    continues: bool = False
    answered: int = 0
    spared: int = 0

    @property
    def key(self) -> str:
        """The same in every attempt of the turn, for tools that must act only once."""
        return f"{self.run}/{self.turn}"

    @property
    def ref(self) -> AttemptRef:
        """The name of the attempt."""
        return AttemptRef(run=self.run, turn=self.turn, attempt=self.attempt, epoch=self.epoch)

    @property
    def marker(self) -> str:
        """The mark of its processes. A gate has another than the attempt, whose processes may live while it runs."""
        marker = child_run_id(self.run, self.turn, self.attempt)
        return f"{marker}/gate" if self.clean else marker

    @property
    def latest(self) -> str:
        """The prompt without the thread and the history."""
        text = self.prompt
        for before in (thread_text(self.thread), history_text(self.history)):
            text = text.removeprefix(before).lstrip("\n") if before else text
        return text

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """The messages before the prompt: those of the thread, then *history*."""
        told = ((("user", one.prompt), ("assistant", one.answer)) for one in self.thread)
        return (*(message for pair in told for message in pair if message[1]), *self.history)

    def prompt_in(self, session: str) -> str:
        """The prompt for the agent's *session*, with the thread unless that is the session that has it."""
        before = thread_text(self.thread)
        lacks = bool(before and self.session) and session != self.session
        return f"{before}\n\n{self.prompt}" if lacks else self.prompt

    @property
    def question(self) -> str:
        """The prompt without its tail."""
        return self.prompt.removesuffix(self.tail.text).rstrip("\n")


def thread_text(thread: tuple[PastExchange, ...]) -> str:
    """The exchanges of *thread*, as at the beginning of a prompt; empty if there are none."""
    if not thread:
        return ""
    parts = ["# Earlier in this conversation"]
    for one in thread:
        parts += [f"## Message\n\n{fenced(one.prompt)}"]
        parts += [f"## Your answer\n\n{fenced(one.answer)}"] if one.answer else []
    return "\n\n".join(parts)


def history_text(history: tuple[tuple[str, str], ...]) -> str:
    """The messages of *history*, as at the beginning of a prompt."""
    return "\n\n".join(text for _, text in history)


class Launched(Struct, frozen=True, kw_only=True, tag="launched", tag_field="kind"):
    """The attempt has started: as a process, or elsewhere, where *handle* identifies it.

    *started* is the start time of the process, from `coterie.agents.backends.processes`.
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
        id: The same in all events of one call; empty if the backend does not know it.
        state: `started`, `finished` or `failed`.
        detail: Its input, in one line.
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
        detail: The input of the tool, in one line.
        decision: Empty while the agent waits for `Asking.permit`; then `allowed` or `denied`.
        why: The reason for the decision, in a few words.
        rule: The rule that would always allow this use of the tool; empty: there is none.
    """

    id: str
    tool: str
    detail: str = ""
    decision: str = ""
    why: str = ""
    rule: str = ""


class SessionOpened(Struct, frozen=True, kw_only=True, tag="session", tag_field="kind", omit_defaults=True):
    """The agent works in its session *id*; *resumed*: this is the session in `Request.session`.

    *turns*: how many turns the session had before, if the agent reports it.
    """

    id: str
    resumed: bool = False
    turns: int | None = None


class Used(Struct, frozen=True, kw_only=True, tag="usage", tag_field="kind"):
    """The total usage of the attempt so far."""

    usage: Usage


class Stepped(Struct, frozen=True, kw_only=True, tag="step", tag_field="kind", omit_defaults=True):
    """A model has answered a request, as in the record `attempt.step`."""

    n: int
    usage: Usage
    calls: tuple[str, ...] = ()
    hash: str = ""


class Emitted(Struct, frozen=True, kw_only=True, tag="emit", tag_field="kind"):
    """The agent emitted an event of the run, through its backend rather than the inbox."""

    event: str
    payload: str = ""


Event = Launched | Text | Tool | Permission | SessionOpened | Used | Stepped | Emitted
OnEvent = Callable[[Event], None]
Say = Callable[[str], object]
"""Called with a note for the log of an attempt."""


def discard(note: str) -> None:
    """Drop *note*: nothing logs what its caller does."""


@runtime_checkable
class Budgeted(Protocol):
    """An `OnEvent` that holds the attempt to a budget.

    Attributes:
        reserved: US dollars of the budget that are reserved for the attempt; None: there is no budget.
    """

    reserved: float | None

    async def affords(self) -> bool:
        """Whether the budget allows a further request to a model, once all that was reported is counted."""


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """The answer of the agent. *outputs* is None unless the backend has structured output."""

    text: str = ""
    outputs: dict[str, Any] | None = None
    usage: Usage = NO_USAGE


class Failure(Struct, frozen=True, kw_only=True, gc=False):
    """The attempt failed: *kind* is one of `FAILURES`, *reason* one sentence with the facts.

    Attributes:
        wait: Retry-After in seconds, if given.
        text: The answer or output so far; of a long one the end.
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
        """Wait for the result; call this once. Some backends begin the agent's work only here.

        Cancelling this wait ends the attempt and everything it started.
        """

    async def interrupt(self) -> None:
        """End the attempt now, with its children; `result` then returns a `Failure` of kind `interrupted`."""

    async def steer(self, text: str) -> bool:
        """Pass *text* to the working agent; returns once the agent has received it.

        False if the backend does not support this, or if the attempt ends first.
        """


@runtime_checkable
class Asking(Session, Protocol):
    """A running attempt that may ask before its agent uses a tool."""

    async def permit(self, question: str, allowed: bool, message: str = "") -> bool:
        """Answer the `Permission` with the id *question*; False if it is not open.

        *message*: a text for the agent from the person who denied it.
        """


class Running(Struct, frozen=True):
    """An attempt of an earlier owner still runs, as *session*."""

    session: Session


class Finished(Struct, frozen=True):
    """An attempt of an earlier owner has finished, with *result*."""

    result: Result


class Unknown(Struct, frozen=True):
    """The attempt was not found, or cannot be continued."""


Found = Running | Finished | Unknown


class Abilities(Struct, frozen=True, kw_only=True):
    """The abilities of a backend beyond running and interrupting an attempt.

    Attributes:
        steer: Accept guidance while the agent works.
        resume: Continue the session of an interrupted attempt.
        find: Find an attempt that outlived its owner.
        cost: Report the cost of an attempt in US dollars.
        model: Use the model that the plan names.
        mode: Use the mode (or agent) that the plan names.
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

    A backend that reads `Request.context` has a true attribute `uses_context`.
    """

    @property
    def abilities(self) -> Abilities:
        """The abilities of this backend."""

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start an attempt. *on_event* is called on the event loop, in order, until there is a result."""

    async def close(self) -> None:
        """End all attempts that still run. Idempotent."""


@runtime_checkable
class Lasting(Backend, Protocol):
    """A backend whose attempts can outlive the process that started them."""

    async def find(self, request: Request, on_event: OnEvent) -> Found:
        """Look for the attempt of *request*, which an earlier owner started.

        If it is found, *on_event* receives all its events from the beginning, including future ones. Otherwise nothing
        is changed, and the caller ends the remaining processes.
        """
