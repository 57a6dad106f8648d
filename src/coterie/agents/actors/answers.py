"""The replies of a node: match replies and errors with the asks that wait for them, here or in another process."""

import asyncio
import secrets
from collections.abc import Callable
from itertools import count
from typing import Any

from coterie.agents.actors.dead_letters import DeadLetters, Sink
from coterie.agents.actors.message import REFUSED, AskRefusal, Message
from coterie.agents.actors.reply_streams import end_of
from coterie.agents.actors.transports.base import Transport
from coterie.base.clock import Clock, SystemClock
from coterie.errors import ActorError, AgentCrashed, AgentStopped, AskTimedOut, NoSuchAgent, WorkerLost


class Answers:
    """Passes replies to the waiting asks.

    Attributes:
        letters: Messages that were not handled.
        late: The number of replies that came after their ask had ended.
        on_span: Called with each handled message, the time when its handling began, and its error.
    """

    transport: Transport

    def __init__(self, clock: Clock | None, sink: Sink | None) -> None:
        self.now = (clock or SystemClock()).now
        self.sink: Sink = sink or (lambda record: None)
        self.letters = DeadLetters(self.sink)
        self.address = f"_node.{secrets.token_hex(6)}"
        self.late = 0
        self.on_span: Callable[[Message, float, BaseException | None], None] | None = None
        self._asks: dict[str, asyncio.Future[Message]] = {}
        self._ids = count((1 << 60) + secrets.randbits(62))  # 16 hexadecimal digits each

    def fail(self, asked: str, error: Exception) -> None:
        """Fail the ask of the message *asked* with *error*, if it still waits."""
        future = self._asks.get(asked)
        if future is not None and not future.done():
            future.set_exception(error)

    def on_settled(self, callback: Callable[[Message], None]) -> None:
        """Call *callback* with each message that was handled or became a dead letter."""
        before = self.on_span

        def settled(message: Message, began: float, error: BaseException | None) -> None:
            if before is not None:
                before(message, began, error)
            callback(message)

        self.on_span, self.letters.on_add = settled, callback

    def reply(self, message: Message, answer: Message) -> None:
        """Pass *answer* to the ask that sent *message*."""
        if message.stream:
            self.sink(end_of(message, answer))
        if message.reply_to != self.address:
            assert message.reply_to is not None
            self.transport.reply(message.reply_to, answer)
            return
        self.receive_reply(message.id, answer)

    def receive_reply(self, asked: str, answer: Message) -> None:
        """Pass a reply from this or another node to the ask of the message *asked*, if it still waits."""
        future = self._asks.get(asked)
        if future is None or future.done():
            self.late += 1
        elif answer.type == REFUSED:
            future.set_exception(error_of(answer.payload))
        else:
            future.set_result(answer)

    def refuse(self, message: Message, refusal: AskRefusal) -> None:
        """Answer an ask with an error."""
        self.answer(message, refusal, REFUSED)

    def answer(self, message: Message, payload: Any, message_type: str = "reply") -> None:
        """Answer an ask in the name of its recipient."""
        self.reply(message, self.answer_to(message, payload, message_type))

    def answer_to(self, message: Message, payload: Any, message_type: str = "reply") -> Message:
        """The reply to *message*."""
        id, sender, recipient = self.new_id(), message.recipient, message.sender
        return Message(
            id, message_type, sender, recipient, payload, self.now(), message.trace_id, message.id, None, message.id
        )

    def new_id(self) -> str:
        """A new id for a message."""
        return hex(next(self._ids))[2:]


def error_of(refusal: AskRefusal) -> ActorError:
    """The error that is raised for an asker."""
    match refusal.kind:
        case "crashed":
            return AgentCrashed(refusal.agent, refusal.reason, refusal.trace)
        case "unknown":
            return NoSuchAgent(refusal.agent)
        case "lost":
            return WorkerLost(refusal.agent, refusal.reason)
        case _:
            return AgentStopped(refusal.agent, refusal.reason)


def expire(future: "asyncio.Future[Message]", recipient: str, seconds: float) -> None:
    """End an ask that was not answered in time."""
    if not future.done():
        future.set_exception(AskTimedOut(recipient, seconds))
