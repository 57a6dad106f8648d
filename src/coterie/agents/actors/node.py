"""The actors of one process: their names, and the delivery of messages."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import Any

import msgspec
from msgspec.structs import replace

from coterie.agents.actors.answers import Answers, expire
from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.dead_letters import Sink
from coterie.agents.actors.exits import Crashed, Down, Shutdown, plain_end
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import (
    AHEAD,
    BETWEEN_NODES,
    CORRECTION,
    EVAL_EVENT,
    IN_HAND,
    MONITOR,
    OUTSIDE,
    RUNTIME,
    TURN_CONTROLS,
    Asker,
    Message,
    origin_in,
)
from coterie.agents.actors.plain import plain
from coterie.agents.actors.ports import T, Tree
from coterie.agents.actors.registry import Registry, matching, path
from coterie.agents.actors.state import checkpoints
from coterie.agents.actors.state.base import StateStore
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.transports.base import Transport
from coterie.agents.actors.turn_control import control_turn
from coterie.base.clock import Clock
from coterie.errors import (
    ActorError,
    AgentStopped,
    AskCycle,
    AskTimedOut,
    MailboxFull,
    NoSuchAgent,
    WorkerLost,
    error_line,
)
from coterie.history.journal.records import EvalReported

_PLAIN = "message"


class ActorNode(Answers):
    """The agents of one process, addressed by name.

    Messages that do not come from an agent have the sender `_runtime`. Within one node a message is passed without a
    copy, so an agent must not change a payload after sending it.

    Args:
        sink: Receives the records of agents.
        store: Keeps checkpoints; without one they are kept in memory.
        transport: Reaches agents of other processes.
        plugins: Has `models` and `tools`, which agents use as `self.llm` and `self.tools`.
        evaluators: The names of the system's eval agents in all processes.

    Attributes:
        tree: The supervision tree into which agents spawn others.
        remote_agents: The agents that the plan places in other processes, whether these run or not.
        reach: Waits until such an agent is available, also after its worker was lost; raises if it has stopped.
        may_handle: Called before each message; false: the lease of this process has ended. None: no lease is needed.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        sink: Sink | None = None,
        store: StateStore | None = None,
        transport: Transport | None = None,
        plugins: Any = None,
        evaluators: Sequence[str] = (),
    ) -> None:
        super().__init__(clock, sink)
        self.registry: Registry[AgentChild] = Registry()
        self.transport = transport or Transport()
        self.plugins, self.evaluators = plugins, evaluators
        self.tree: Tree | None = None
        self.remote_agents: Collection[str] = ()
        self.reach: Callable[[str], Awaitable[None]] | None = None
        self.may_handle: Callable[[], bool] | None = None
        self.loop: asyncio.AbstractEventLoop
        self._store: StateStore = store or InMemoryStateStore()
        self._answering: set[asyncio.Task[None]] = set()
        self._entries = self.registry.entries
        self._monitors: dict[str, dict[object, Callable[[Down], object]]] = {}
        self._monitoring: dict[str, asyncio.Task[None]] = {}
        self._context: Context

    async def start(self) -> None:
        """Connect to other processes, if the transport has any."""
        self.loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(IN_HAND.set, None)
        await self.transport.start(self)

    async def stop(self) -> None:
        """Disconnect; agents must have been stopped by their supervisors. Asks that still wait get `AgentStopped`."""
        await self.transport.stop()
        self.letters.flush()
        for future in self._asks.values():
            if not future.done():
                future.set_exception(AgentStopped(RUNTIME, "the system has stopped"))

    async def send(
        self,
        recipient: str,
        payload: Any = None,
        message_type: str = "message",
        *,
        priority: int = 0,
        sender: str = RUNTIME,
    ) -> None:
        """Send a message; wait while the recipient's mailbox is full.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
            MailboxFull: If waiting for room would never end.
        """
        held = IN_HAND.get()
        id = hex(next(self._ids))[2:]
        trace, parent = (id, None) if held is None else (held.trace_id, held.id)
        given = {} if payload is None else payload
        now, begun = self.now(), "" if held is None or not held.origin else origin_in(held)
        message = Message(
            id, message_type, sender, recipient, given, now, trace, parent, None, None, 1, priority, "", begun
        )
        child = self._entries.get(recipient)
        if message_type is not _PLAIN and self._special(message, child):
            return
        if child is not None and child.mailbox.offer(message):
            if child.idle:
                child.wake()
        else:
            await self._send_slowly(message, child)

    async def _send_slowly(self, message: Message, child: AgentChild | None) -> None:
        if child is None:
            await self._carry(message)
            return
        name, size = child.spec.name, child.mailbox.size
        if message.sender == name:
            raise MailboxFull(name, size)
        held = IN_HAND.get()
        asker = None if held is None else self._waiting_agent(held)
        if asker is not None and (chain := path(child.spec.name, asker.spec.name, self._asking)):
            raise MailboxFull(name, size, (asker.spec.name, *chain))
        edges = [] if asker is None else asker.waits_for(name)
        taken: asyncio.Future[None] = self.loop.create_future()
        child.mailbox.wait(message, taken)
        try:
            await taken
        except asyncio.CancelledError:
            child.mailbox.withdraw(message)
            raise
        finally:
            if edges:
                edges.remove(name)

    async def _carry(self, message: Message) -> None:
        """Send a message to an agent of another node; return once it is in the mailbox."""
        taken = self._send_out(message)
        try:
            if taken is not None:
                await taken
        except asyncio.CancelledError:
            self.transport.recall(message)
            raise

    async def ask(
        self,
        recipient: str,
        payload: Any = None,
        message_type: str = "message",
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - the keyword of agents' code
        priority: int = 0,
        asker: Asker = OUTSIDE,
    ) -> Message:
        """Send a message and return the reply.

        Raises:
            AgentCrashed, AgentStopped, NoSuchAgent, WorkerLost: As soon as known, never only after the timeout.
            AskCycle: If agents would wait for each other.
            AskTimedOut: If there is no reply within *timeout* seconds, including the wait for room in the mailbox; at 0
                or below at once, without sending.
        """
        if timeout is not None and not timeout > 0:
            raise AskTimedOut(recipient, timeout)
        held = IN_HAND.get()
        id = hex(next(self._ids))[2:]
        trace, parent = (id, None) if held is None else (held.trace_id, held.id)
        given = {} if payload is None else payload
        sender, waiting, stream = asker.name, asker.waiting, asker.stream
        now, own, begun = self.now(), self.address, asker.origin if held is None or not held.origin else origin_in(held)
        message = Message(
            id, message_type, sender, recipient, given, now, trace, parent, own, None, 1, priority, stream, begun
        )
        child = self._entries.get(recipient)
        waiter = self._entries.get(waiting) if waiting else None if held is None else self._waiting_agent(held)
        edges: list[str] | None = None
        future: asyncio.Future[Message] = self.loop.create_future()
        self._asks[id] = future
        timer = None if timeout is None else self.loop.call_later(timeout, expire, future, recipient, timeout)
        try:
            if child is None:
                self._send_out(message)
                return await future
            if (message_type is not _PLAIN or type(payload) is dict) and self._special(message, child):
                return await future
            if waiter is not None:
                if chain := path(child.spec.name, waiter.spec.name, self._asking):
                    raise AskCycle((waiter.spec.name, *chain))
                edges = waiter.waits_for(recipient)
            if not child.mailbox.offer(message):
                child.mailbox.wait(message, None)
            elif child.idle:
                child.wake()
            return await future
        except (AskTimedOut, asyncio.CancelledError):
            if child is not None:
                child.mailbox.withdraw(message)
            else:
                self.transport.recall(message)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if edges is not None:
                edges.remove(recipient)
            self._asks.pop(id, None)

    async def broadcast(
        self, glob: str, payload: Any = None, message_type: str = "message", *, priority: int = 0, sender: str = RUNTIME
    ) -> tuple[str, ...]:
        """Send a message to all agents whose names match *glob*, except *sender*; return the names reached.

        A full mailbox does not delay other agents. An agent that stops meanwhile is not among the returned names.
        """
        names = [name for name in matching(glob, (*self._entries, *self.transport.names())) if name != sender]
        waiting: dict[str, asyncio.Task[None]] = {}
        reached = set()
        for name in names:
            one = self.send(name, payload, message_type, priority=priority, sender=sender)
            child = self._entries.get(name)
            if child is None or not child.mailbox.has_room(priority):
                waiting[name] = self.loop.create_task(one)
                continue
            await one
            reached.add(name)
        if waiting:
            try:
                await asyncio.wait(waiting.values())
            except asyncio.CancelledError:
                for task in waiting.values():
                    task.cancel()
                raise
            for name, task in waiting.items():
                if not isinstance(task.exception(), ActorError):
                    task.result()
                    reached.add(name)
        return tuple(name for name in names if name in reached)

    async def call(self, recipient: str, payload: Any = None, *, timeout: float | None = 5.0) -> Any:  # noqa: ASYNC109
        """Ask, and return the payload of the reply."""
        return (await self.ask(recipient, payload, "call", timeout=timeout)).payload

    async def cast(self, recipient: str, payload: Any = None) -> None:
        """Send a message of the type `cast`, which a `GenServer` passes to `handle_cast`."""
        await self.send(recipient, payload, "cast")

    def post(self, recipient: str, payload: Any, message_type: str, sender: str, *, ahead: bool = False) -> bool:
        """Put a message of the runtime into a mailbox, even a full one; return whether there is such an agent."""
        child = self._entries.get(recipient)
        if child is None:
            return False
        id = self.new_id()
        child.mailbox.post(
            Message(id, message_type, sender, recipient, payload, self.now(), id, priority=AHEAD if ahead else 0)
        )
        if child.idle:
            child.wake()
        return True

    def notify(self, recipient: str, payload: Any, message_type: str, sender: str) -> None:
        """Send a message of the runtime itself to an agent here or elsewhere; do nothing if it has stopped."""
        if not self.post(recipient, payload, message_type, sender, ahead=True) and recipient in self.transport.names():
            taken = self.transport.deliver(self._message(recipient, payload, message_type, sender))
            if taken is not None:
                taken.add_done_callback(lambda done: done.cancelled() or done.exception())

    def receive(self, message: Message) -> "asyncio.Future[None] | None":
        """Put a message from another node into the mailbox of its recipient; return a future if that is full."""
        child = self._entries.get(message.recipient)
        if child is None:
            raise self.missing(message.recipient)
        if message.type == MONITOR:
            self.monitor(message.recipient, lambda down: self.answer(message, plain_end(down)), watcher=message.id)
            return None
        if message.type not in BETWEEN_NODES and self._special(message, child):
            return None
        if not child.mailbox.offer(message):
            taken: asyncio.Future[None] = self.loop.create_future()
            child.mailbox.wait(message, taken)
            return taken
        if child.idle:
            child.wake()
        return None

    def recall(self, message: Message) -> bool:
        """Remove a message from another node, unless its handler has begun."""
        child = self._entries.get(message.recipient)
        return child is not None and child.mailbox.withdraw(message)

    def _special(self, message: Message, child: AgentChild | None) -> bool:
        """Handle a message that is for the process itself, not for the agent's handler; return whether it was."""
        if message.type.startswith("_"):
            raise ValueError(f"message types that begin with '_' are reserved: {message.type!r}")
        if child is None:
            return False
        if message.type in TURN_CONTROLS:
            control_turn(child, message)
            return True
        if message.reply_to is None or type(message.payload) is not dict or message.payload.get("__op__") != "state":
            return False
        task = self.create_task(child.answer_state(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return True

    def _send_out(self, message: Message) -> "asyncio.Future[None] | None":
        if (reason := self.registry.stopped(message.recipient)) is not None:
            raise AgentStopped(message.recipient, reason)
        return self.transport.deliver(message)

    def _waiting_agent(self, held: Message) -> AgentChild | None:
        """The agent that is handling *held* and waits for calls of its handler; None if it has been handled."""
        child = self._entries.get(held.recipient)
        return child if child is not None and child.current is held else None

    def _asking(self, name: str) -> Sequence[str]:
        """The agents that the handler of *name* waits for."""
        child = self._entries.get(name)
        return (child.asking or ()) if child is not None else ()

    def register(self, child: AgentChild) -> bool:
        """Register *child* under its name; return whether it was not registered before.

        Raises:
            ValueError: If another agent has the name.
        """
        known = child.spec.name in self._entries
        self.registry.add(child.spec.name, child)
        if not known:
            self.transport.announce(child.spec.name)
        return not known

    def unregister(self, child: AgentChild, reason: str) -> bool:
        """Unregister *child*; return whether it was registered."""
        if self._entries.get(child.spec.name) is not child:
            return False
        self.registry.remove(child.spec.name, reason)
        self.transport.withdraw(child.spec.name, reason)
        return True

    def names(self) -> list[str]:
        """The agents of this node."""
        return list(self._entries)

    def missing(self, name: str) -> ActorError:
        """The error for a message to *name*, which is not registered."""
        reason = self.registry.stopped(name)
        return NoSuchAgent(name, self._entries) if reason is None else AgentStopped(name, reason)

    def health(self, name: str) -> AgentHealth:
        """The health of the agent *name*.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
        """
        if name not in self._entries:
            raise self.missing(name)
        return self._entries[name].health()

    def monitor(self, name: str, callback: Callable[[Down], object], *, watcher: object = None) -> Callable[[], None]:
        """Call *callback* once, when the current incarnation of *name* ends; return a function that cancels this.

        Raises:
            NoSuchAgent, AgentStopped: If there is no such agent, or it has stopped.
        """
        if name not in self._entries:
            if name not in self.remote_agents and name not in self.transport.names():
                raise self.missing(name)
            if name not in self._monitoring:
                self._monitoring[name] = self.create_task(self._monitor_remote(name))
        key = watcher if watcher is not None else object()
        (watching := self._monitors.setdefault(name, {}))[key] = callback
        return lambda: watching.pop(key, None) and None

    async def _monitor_remote(self, name: str) -> None:
        """Send an ask to the node of *name* that is answered when the agent's incarnation ends."""
        message = replace(self._message(name, {}, MONITOR, RUNTIME), reply_to=self.address)
        future = self._asks[message.id] = self.loop.create_future()
        try:
            self._send_out(message)
            down = msgspec.convert((await future).payload, Down)
        except WorkerLost as lost:
            down = Down(name, 0, Crashed(error_line(lost)))
        except ActorError as gone:
            down = Down(name, 0, Shutdown((str(gone),)))
        finally:
            del self._asks[message.id], self._monitoring[name]
        self.fire_monitors(down)

    def fire_monitors(self, down: Down) -> None:
        """Report the end of an incarnation to its monitors."""
        for callback in self._monitors.pop(down.name, {}).values():
            callback(down)

    def drop_monitors(self, watcher: str) -> None:
        """Remove the monitors of an incarnation that has ended."""
        for watching in self._monitors.values():
            watching.pop(watcher, None)

    async def save(self, agent: str, state: dict[str, Any]) -> None:
        """Store the state of an agent."""
        await checkpoints.save(self._store, agent, state)

    async def restore(self, agent: str) -> dict[str, Any]:
        """The stored state of an agent."""
        return await checkpoints.restore(self._store, agent)

    async def emit_eval(self, agent: str, event_type: str, payload: Any) -> None:
        """Record an event of *agent* and send it to the eval agents; if one cannot get it, it becomes a dead letter.

        Raises:
            ValueError: If the payload cannot be written as JSON.
            TypeError: If the type is not a text.
        """
        if not self.evaluators:
            return
        if not isinstance(event_type, str):
            raise TypeError(f"the type of an event must be a text, not {event_type!r}")
        event = {"agent": agent, "type": event_type, "payload": plain(payload, f"the payload of event {event_type!r}")}
        self.sink(EvalReported(**event))
        for name in self.evaluators:
            message = self._message(name, {**event, "at": self.now()}, EVAL_EVENT, agent)
            try:
                await self._send_inside(message)
            except ActorError as error:
                self.letters.add(message, "unknown" if isinstance(error, NoSuchAgent) else "stopped", str(error))

    async def send_correction(self, agent: str, payload: Any, sender: str) -> None:
        """Make *agent* call `on_correction` before its next message, even if its mailbox is full.

        Raises:
            ActorError: If there is no such agent, or it cannot be reached.
        """
        if not self.post(agent, payload, CORRECTION, sender, ahead=True):
            await self._carry(self._message(agent, payload, CORRECTION, sender))

    def _message(self, recipient: str, payload: Any, message_type: str, sender: str) -> Message:
        """A message of the runtime itself, which goes ahead of others."""
        held, id = IN_HAND.get(), self.new_id()
        trace, parent = (id, None) if held is None else (held.trace_id, held.id)
        return Message(id, message_type, sender, recipient, payload, self.now(), trace, parent, None, None, 1, AHEAD)

    async def _send_inside(self, message: Message) -> None:
        """Send a message of a reserved type."""
        child = self._entries.get(message.recipient)
        if child is None or not child.mailbox.offer(message):
            await self._send_slowly(message, child)
        elif child.idle:
            child.wake()

    def create_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start *work* in a context without a current message."""
        return self.loop.create_task(work, context=self._context.copy())
