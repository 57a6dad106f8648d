"""What the parts of an actor need of each other.

A node knows agents by name and carries their messages; a child keeps one agent across its incarnations; a process is
the class that a user writes. Each of them calls the others through the two protocols here, so none imports its user.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from coterie.actors.exits import Down
from coterie.actors.letters import DeadLetters, Sink
from coterie.actors.message import AskRefusal, Message
from coterie.actors.registry import Registry
from coterie.actors.transports.base import Transport
from coterie.errors import ActorError

T = TypeVar("T")


class Tree(Protocol):
    """The supervision tree, as agents use it; names only."""

    async def spawn(self, parent: str, what: type | str, name: str, into: str | None, config: Mapping[str, Any]) -> str:
        """Start an agent under the dynamic supervisor *into*, or the nearest one to *parent*; return its name.

        Raises:
            SpawnError: A limit is reached, the type is not allowed, or there is no such supervisor.
        """

    async def despawn(self, name: str) -> None:
        """Stop an agent that was spawned."""

    def halt(self, name: str) -> None:
        """Stop a node for good, and return at once.

        Raises:
            NoSuchAgent: There is no node of that name.
        """


class NodePort(Protocol):
    """The node, as an agent, its incarnations and their tasks use it; see `coterie.actors.node.ActorNode`."""

    sink: Sink
    registry: Registry[Any]
    transport: Transport
    letters: DeadLetters
    loop: asyncio.AbstractEventLoop
    plugins: Any
    tree: Tree | None
    may_handle: Callable[[], bool] | None
    on_span: Callable[[Message, float, BaseException | None], None] | None

    @property
    def now(self) -> Callable[[], float]:
        """The clock, in Unix seconds."""

    # messages

    async def send(
        self, recipient: str, payload: Any = ..., message_type: str = ..., *, priority: int = ..., sender: str = ...
    ) -> None:
        """Send a message; wait while the recipient's mailbox is full."""

    async def ask(
        self,
        recipient: str,
        payload: Any = ...,
        message_type: str = ...,
        *,
        timeout: float | None = ...,  # noqa: ASYNC109 - the keyword of agents' code
        priority: int = ...,
        sender: str = ...,
        stream: str = ...,
    ) -> Message:
        """Send a message and return the reply."""

    async def broadcast(
        self, glob: str, payload: Any = ..., message_type: str = ..., *, priority: int = ..., sender: str = ...
    ) -> tuple[str, ...]:
        """Send a message to all agents whose names match *glob*; return those reached."""

    def post(self, recipient: str, payload: Any, message_type: str, sender: str, *, ahead: bool = ...) -> bool:
        """Put a message of the runtime into a mailbox, even a full one; whether there is such an agent."""

    def reply(self, message: Message, answer: Message) -> None:
        """Give *answer* to the ask that sent *message*."""

    def answer(self, message: Message, payload: Any, message_type: str = ...) -> None:
        """Answer an ask in the name of its recipient."""

    def answer_to(self, message: Message, payload: Any, message_type: str = ...) -> Message:
        """The reply to *message*."""

    def refuse(self, message: Message, refusal: AskRefusal) -> None:
        """Answer an ask with an error."""

    async def emit_eval(self, agent: str, event_type: str, payload: Any) -> None:
        """Record an event of *agent* and send it to the eval agents."""

    async def send_correction(self, agent: str, payload: Any, sender: str) -> None:
        """Have `on_correction` of *agent* called before its next message."""

    # names and ends

    def register(self, child: Any) -> bool:
        """Give *child* its name; whether it did not have it."""

    def unregister(self, child: Any, reason: str) -> bool:
        """Take the name from *child*; whether it had it."""

    def missing(self, name: str) -> ActorError:
        """The error for a message to *name*, which is not registered."""

    def monitor(self, name: str, callback: Callable[[Down], object], *, watcher: object = ...) -> Callable[[], None]:
        """Call *callback* once, when the current incarnation of *name* ends; return what cancels it."""

    def fire_monitors(self, down: Down) -> None:
        """Report the end of an incarnation to those that monitor it."""

    def drop_monitors(self, watcher: str) -> None:
        """Forget what an incarnation that has ended monitored."""

    # state and tasks

    async def save(self, agent: str, state: dict[str, Any]) -> None:
        """Store the state of an agent."""

    async def restore(self, agent: str) -> dict[str, Any]:
        """The stored state of an agent."""

    def create_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start *work* in a context in which no message is in hand."""


class ChildPort(Protocol):
    """The child that an agent is bound to from `on_start` to `on_stop`; see `coterie.actors.child.AgentChild`."""

    @property
    def node(self) -> NodePort:
        """The node of its process."""

    def answer_later(self, message: Message, answer: Message) -> None:
        """Send the reply to an ask for which `handle` returned `LATER`."""

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run *work* until it ends or the incarnation does."""

    def send_after(self, delay: float, payload: Any, message_type: str) -> Callable[[], None]:
        """Put a message into the own mailbox in *delay* seconds."""

    def monitor(self, name: str) -> None:
        """Have a message of the type `down` sent to this agent when *name* ends."""

    def exit(self) -> None:
        """End after the message in hand, or at once if there is none."""
