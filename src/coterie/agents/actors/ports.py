"""The interfaces between the parts of an actor.

A node knows agents by name and delivers their messages; a child keeps one agent across its incarnations; a process is
the user's class. They call each other through the protocols here, so none imports its caller.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from coterie.agents.actors.dead_letters import DeadLetters, Sink
from coterie.agents.actors.exits import Down
from coterie.agents.actors.message import Asker, AskRefusal, Message
from coterie.agents.actors.registry import Registry
from coterie.agents.actors.transports.base import Transport
from coterie.errors import ActorError

T = TypeVar("T")


class Tree(Protocol):
    """The supervision tree, as agents use it, by name."""

    async def spawn(self, parent: str, what: type | str, name: str, into: str | None, config: Mapping[str, Any]) -> str:
        """Start an agent under the dynamic supervisor *into*, or the nearest one to *parent*; return its name.

        Raises:
            SpawnError: If a limit is reached, the type is not allowed, or there is no such supervisor.
        """

    async def despawn(self, name: str) -> None:
        """Stop a spawned agent."""

    def halt(self, name: str) -> None:
        """Stop a node for good, and return at once.

        Raises:
            NoSuchAgent: If there is no node of that name.
        """


class NodePort(Protocol):
    """The node, as an agent, its incarnations and their tasks use it; see `coterie.agents.actors.node.ActorNode`."""

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
    def now(self) -> Callable[[], float]: ...

    async def send(
        self, recipient: str, payload: Any = ..., message_type: str = ..., *, priority: int = ..., sender: str = ...
    ) -> None: ...
    async def ask(
        self,
        recipient: str,
        payload: Any = ...,
        message_type: str = ...,
        *,
        timeout: float | None = ...,  # noqa: ASYNC109 - the keyword of agents' code
        priority: int = ...,
        asker: Asker = ...,
    ) -> Message: ...
    async def broadcast(
        self, glob: str, payload: Any = ..., message_type: str = ..., *, priority: int = ..., sender: str = ...
    ) -> tuple[str, ...]: ...
    def post(self, recipient: str, payload: Any, message_type: str, sender: str, *, ahead: bool = ...) -> bool: ...
    def reply(self, message: Message, answer: Message) -> None: ...
    def answer(self, message: Message, payload: Any, message_type: str = ...) -> None: ...
    def answer_to(self, message: Message, payload: Any, message_type: str = ...) -> Message: ...
    def refuse(self, message: Message, refusal: AskRefusal) -> None: ...
    async def emit_eval(self, agent: str, event_type: str, payload: Any) -> None: ...
    async def send_correction(self, agent: str, payload: Any, sender: str) -> None: ...
    def register(self, child: Any) -> bool: ...
    def unregister(self, child: Any, reason: str) -> bool: ...
    def missing(self, name: str) -> ActorError: ...
    def monitor(
        self, name: str, callback: Callable[[Down], object], *, watcher: object = ...
    ) -> Callable[[], None]: ...
    def fire_monitors(self, down: Down) -> None: ...
    def drop_monitors(self, watcher: str) -> None: ...
    async def save(self, agent: str, state: dict[str, Any]) -> None: ...
    async def restore(self, agent: str) -> dict[str, Any]: ...
    def create_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]": ...


class ChildPort(Protocol):
    """The child that an agent is bound to from `on_start` to `on_stop`: `AgentChild` of `child.py`."""

    @property
    def node(self) -> NodePort: ...
    def answer_later(self, message: Message, answer: Message) -> None: ...
    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]": ...
    def send_after(self, delay: float, payload: Any, message_type: str) -> Callable[[], None]: ...
    def monitor(self, name: str) -> None: ...
    def exit(self) -> None: ...
