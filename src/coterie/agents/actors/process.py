"""The base class of agents in Python."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from inspect import CO_VARARGS, iscoroutinefunction
from typing import Any, ClassVar, Final, Self

from coterie.agents.actors.message import IN_HAND, Asker, Message
from coterie.agents.actors.plain import plain
from coterie.agents.actors.ports import ChildPort, Tree
from coterie.errors import ActorError
from coterie.history.journal.records import ReplyPiece

_LOG = logging.getLogger("coterie")
_LONG_DELAYS: set[type] = set()
"""Classes whose long delays were already logged."""


class ErrorAction(Enum):
    """The reaction to an exception in `handle`."""

    RETRY = "retry"
    """Handle the message again at once, at most `max_retries` times; then ESCALATE."""
    SKIP = "skip"
    """Continue with the next message; an asker gets the error, a sent message becomes a dead letter."""
    ESCALATE = "escalate"
    """Crash, so that the supervisor decides about a restart."""
    STOP = "stop"
    """Stop for good, regardless of the restart type."""


HOOKS = ("handle", "on_start", "on_stop", "on_error", "on_child_terminated", "on_correction", "on_guidance")
"""Methods of `AgentProcess` that must be `async def`."""
LATER: Final = Message("", "_later", "", "")
"""Returned by `handle` if the reply to the message follows with `answer`."""


class AgentProcess:
    """An agent: it handles one message at a time, in order of arrival.

    Only the state stored by `checkpoint` survives a crash: its supervisor then builds a new instance from the same
    arguments, and queued messages wait for it.

        class Counter(AgentProcess):
            async def handle(self, message):
                self.state["n"] = self.state.get("n", 0) + 1
                await self.checkpoint()
                return self.reply({"n": self.state["n"]})

    Args:
        name: Its name, unique in its system.
        mailbox_size: How many messages may wait; 0: any number. A sender waits for room.
        max_retries: How often `ErrorAction.RETRY` repeats one message.
        handle_timeout: Seconds that `handle` may take; None: no limit.

    Attributes:
        state: The state that `checkpoint` stores; the stored state is restored before `on_start`.
        public: Keys of `state` whose present values `{"__op__": "state"}` shows, without a checkpoint.
    """

    public: ClassVar[tuple[str, ...]] = ()
    mailbox_size: int = 1000
    max_retries: int = 3
    handle_timeout: float | None = None
    constructed_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    _bound: ChildPort | None = None
    _served_at: str = ""
    """Its HTTP address."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments, from which later incarnations are built."""
        self = super().__new__(cls)
        self.constructed_with = (args, kwargs)
        return self

    def __init__(
        self,
        name: str,
        *,
        mailbox_size: int | None = None,
        max_retries: int | None = None,
        handle_timeout: float | None = None,
    ) -> None:
        self.name = name
        self.state: dict[str, Any] = {}
        if mailbox_size is not None:
            self.mailbox_size = mailbox_size
        if max_retries is not None:
            self.max_retries = max_retries
        if handle_timeout is not None:
            self.handle_timeout = handle_timeout

    # What subclasses define

    async def handle(self, message: Message) -> Message | None:
        """Handle one message; return the reply to an ask (`self.reply(…)`). None is an empty reply."""
        raise NotImplementedError(f"{type(self).__name__} does not define handle")

    async def on_start(self) -> None:
        """Prepare. Called before the first message, with the state restored."""

    async def on_stop(self) -> None:
        """Release resources. Called after the last message, and after a crash. An error is only recorded."""

    async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
        """Decide how to react to *exc*, which `handle` raised."""
        return ErrorAction.ESCALATE

    async def on_child_terminated(self, name: str, reason: str) -> None:
        """Called when an agent spawned by this one has ended for good."""

    async def on_correction(self, message: Message) -> None:
        """Called before the next message when an eval agent sends a correction.

        The payload has the keys `kind` (`nudge` or `redirect`), `agent` (this one), `reason` and `payload`.
        """

    async def on_guidance(self, text: str) -> None:
        """Called at once when a turn is steered while `handle` works on it."""

    # What they use

    def reply(self, payload: Any = None, message_type: str | None = None, *, to: Message | None = None) -> Message:
        """Make the reply to the current message, for `handle` to return.

        Its type is *message_type*, or the payload's key `type`, or `reply`.
        """
        asked = to or IN_HAND.get()
        if asked is None:
            raise RuntimeError("reply() needs a message in hand: call it in handle, or give `to=`")
        if message_type is None:
            message_type = payload.get("type", "reply") if type(payload) is dict else "reply"
        return self._child.node.answer_to(asked, {} if payload is None else payload, message_type)

    def answer(self, message: Message, payload: Any = None) -> None:
        """Send the reply to *message*, for which `handle` returned `LATER`."""
        self._child.answer_later(message, self.reply(payload, to=message))

    async def stream(self, payload: Any = None, *, to: Message | None = None) -> None:
        """Stream a piece of the reply to the current message, before the reply itself.

        A gateway forwards it as a server-sent event. Without effect if the sender does not want a stream.

        Raises:
            ValueError: If *payload* cannot be written as JSON.
        """
        asked = to or IN_HAND.get()
        if asked is None:
            raise RuntimeError("stream() needs a message in hand: call it in handle, or give `to=`")
        if asked.stream:
            self.give_piece(asked, payload)
            await asyncio.sleep(0)

    def give_piece(self, message: Message, payload: Any) -> None:
        """Record a piece of the streamed reply to *message*."""
        piece = plain(payload, f"a piece of the reply of {self.name}")
        self._child.node.sink(ReplyPiece(ask=message.stream, agent=self.name, payload=piece))

    def send(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, priority: int = 0
    ) -> Awaitable[None]:
        """Send a message; wait while the recipient's mailbox is full.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
            MailboxFull: If waiting for room would never end.
        """
        return self._child.node.send(recipient, payload, message_type, priority=priority, sender=self.name)

    def ask(
        self,
        recipient: str,
        payload: Any = None,
        message_type: str = "message",
        *,
        timeout: float | None = 30.0,
        priority: int = 0,
    ) -> Awaitable[Message]:
        """Send a message and return the reply.

        Raises:
            AgentCrashed, AgentStopped, NoSuchAgent: As soon as known, never only after the timeout.
            AskCycle: If agents would wait for each other.
            AskTimedOut: If there is no reply within *timeout* seconds, including the wait for room in the mailbox.
        """
        asker = Asker(self.name)
        return self._child.node.ask(recipient, payload, message_type, timeout=timeout, priority=priority, asker=asker)

    def broadcast(
        self, glob: str, payload: Any = None, message_type: str = "message", *, priority: int = 0
    ) -> Awaitable[tuple[str, ...]]:
        """Send a message to all other agents whose names match *glob*; return the names reached."""
        return self._child.node.broadcast(glob, payload, message_type, priority=priority, sender=self.name)

    async def call(self, recipient: str, payload: Any = None, *, timeout: float | None = 5.0) -> Any:  # noqa: ASYNC109
        """Ask, and return the payload of the reply."""
        return (await self.ask(recipient, payload, "call", timeout=timeout)).payload

    def cast(self, recipient: str, payload: Any = None) -> Awaitable[None]:
        """Send a message of the type `cast`, which a `GenServer` passes to `handle_cast`."""
        return self.send(recipient, payload, "cast")

    async def checkpoint(self) -> None:
        """Store the state, which is restored for later incarnations."""
        await self._child.node.save(self.name, self.state)

    def monitor(self, name: str) -> None:
        """Send a message of the type `down` to this agent when the current incarnation of *name* ends.

        Its payload has the keys `name`, `incarnation`, `reason` (`normal`, `shutdown`, `terminated` or `crashed`) and
        `error`. Monitors once.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
        """
        self._child.monitor(name)

    def start_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run *work* in parallel; it is cancelled with this incarnation. If it raises, the agent crashes."""
        return self._child.start_task(work)

    def send_after(self, delay: float, payload: Any = None, message_type: str = "info") -> Callable[[], None]:
        """Send a message to this incarnation in *delay* seconds; return a function that cancels it.

        An integer of 1,000 or more, which may be meant as milliseconds, is logged once per class.
        """
        if type(delay) is int and delay >= 1000 and type(self) not in _LONG_DELAYS:
            _LONG_DELAYS.add(type(self))
            _LOG.warning(
                "%s (agent %r) calls send_after with %d seconds; for milliseconds call send_after_ms, for seconds pass "
                "a float; see docs/from-civitas.md",
                type(self).__name__,
                self.name,
                delay,
            )
        return self._child.send_after(delay, payload, message_type)

    def send_after_ms(self, delay: float, payload: Any = None, message_type: str = "info") -> Callable[[], None]:
        """As `send_after`, in *delay* milliseconds."""
        return self._child.send_after(delay / 1000, payload, message_type)

    def exit(self) -> None:
        """End this incarnation after the current message, as a normal exit for the restart type."""
        self._child.exit()

    async def spawn(self, what: type | str, name: str, into: str | None = None, **config: Any) -> str:
        """Start an agent under a dynamic supervisor, the nearest one unless *into* names it; return its name.

        Args:
            what: A class, or the name of a type that is allowed there.
            config: Arguments for its constructor.

        Raises:
            SpawnError: If a limit is reached, the type is not allowed, or there is no such supervisor.
        """
        return await self._tree().spawn(self.name, what, name, into, config)

    async def despawn(self, name: str) -> None:
        """Stop a spawned agent."""
        await self._tree().despawn(name)

    async def emit_eval(self, event_type: str, payload: Any = None) -> None:
        """Report an event to the eval agents of the system; wait while one of their mailboxes is full.

        Without eval agents nothing happens. A stopped eval agent gets no events, without an error.

        Raises:
            ValueError: If the payload cannot be written as JSON.
            TypeError: If the type is not a text.
        """
        await self._child.node.emit_eval(self.name, event_type, payload)

    @property
    def llm(self) -> Any:
        """The model providers of the system; the model's name selects one."""
        return self._child.node.plugins.models

    @property
    def tools(self) -> Any:
        """The tools of the system."""
        return self._child.node.plugins.tools

    @property
    def _child(self) -> ChildPort:
        if self._bound is None:
            raise RuntimeError(f"agent {self.name!r} is not started, or has ended: use this from on_start to on_stop")
        return self._bound

    def _tree(self) -> Tree:
        tree = self._child.node.tree
        if tree is None:
            raise ActorError(self.name, "this system has no supervision tree to spawn agents in")
        return tree


def check_made(agent: AgentProcess) -> None:
    """Check that *agent* is initialised.

    Raises:
        TypeError: If its class does not call the constructor of `AgentProcess`.
    """
    if "state" not in vars(agent):
        where = _place(type(agent).__init__)
        raise TypeError(f"{where}{type(agent).__name__}.__init__ does not call super().__init__(name)")


def not_async(agent: AgentProcess) -> str:
    """A hint if a hook of *agent* is not `async def`, or `handle` takes no message; else empty."""
    own = [(name, getattr(type(agent), name)) for name in HOOKS]
    plain_ones = [(name, hook) for name, hook in own if not iscoroutinefunction(hook)]
    lines = [f"{_place(hook)}write `async def {name}` in {type(agent).__name__}" for name, hook in plain_ones]
    code, wanted = getattr(type(agent).handle, "__code__", None), "`async def handle(self, message)`"
    if code is not None and code.co_argcount < 2 and not code.co_flags & CO_VARARGS:
        lines.append(f"{_place(type(agent).handle)}write {wanted} in {type(agent).__name__}")
    return "; ".join(lines)


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
