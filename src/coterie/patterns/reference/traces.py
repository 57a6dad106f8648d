"""The messages and recorded results of a program, none of them written twice."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from coterie.backends.base import Backend
from coterie.engines.program import Program
from coterie.errors import PatternRefused, ReplayMismatch
from coterie.journal import records as r
from coterie.journal.records import MessageSent, ResultRecorded
from coterie.patterns.identity import result_id
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext, is_unchanged
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.reference.trusted import row
from coterie.patterns.rows.configs import AgentConfig
from coterie.patterns.rows.enums import MessageType
from coterie.patterns.rows.fold import message_values
from coterie.patterns.rows.models import AgentInstance, Message, Result

R = TypeVar("R", bound=r.Record)


class ProgramHost(Protocol):
    """The host of a program's run: records its actions and provides the backend of models."""

    async def write(self, run: str, make: Callable[[], R]) -> R:
        """Append the record that *make* returns, called in its turn; return once it has its place."""

    def ask(self, run: str, call: r.CallAsked, refuse: Callable[[], object]) -> None:
        """Append *call* in its turn; *refuse* is called if nothing can be written any more."""

    def drop(self, run: str, turn: str) -> None:
        """Cancel *turn*: its caller no longer waits."""

    def models(self) -> Backend:
        """The backend that calls the providers of models."""


class Traces(ABC):
    """The messages and results of one program run; a `ProgramRun` has the rest.

    A message is identified by its sender and its number there, a result of the program's own by its agent and its
    number: records of an earlier owner are not written again.
    """

    run: str
    engine: Program
    context: ExecutionContext
    instances: dict[str, AgentInstance]
    mixins: dict[str, list[BaseMixin]]
    around: ProgramHost

    def __init__(self, engine: Program) -> None:
        self._told: dict[str, list[tuple[int, MessageSent]]] = {}
        """Messages of earlier owners by sender, each with its number among all."""
        for n, one in enumerate(engine.messages, start=1):
            self._told.setdefault(one.sender, []).append((n, one))
        self._made = dict(engine.recorded)
        self._counts: dict[str, int] = {}

    @abstractmethod
    def config(self, slot: str) -> AgentConfig:
        """The configuration of the agent at *slot*; raises if there is none."""

    @abstractmethod
    def other(self, record: r.Record, wanted: str) -> ReplayMismatch:
        """The error for a program that does not repeat *record*."""

    async def send(
        self, sender: str, recipient: str | None, type: MessageType, content: dict[str, Any], round: int
    ) -> Message:
        """Record a message to *recipient*, or to all."""
        if type not in (known.value for known in MessageType):
            raise PatternRefused(f"unknown message type {type!r}; known are {', '.join(MessageType)}")
        self.config(sender)
        if recipient is not None:
            self.config(recipient)
        k, told = self._count(f"message of {sender}"), self._told.get(sender, ())
        if k <= len(told):
            n, record = told[k - 1]
            if record.recipient != (recipient or ""):
                raise self.other(record, f"a message of {sender} to {recipient or 'all'}")
            return self._message(n, record)
        content = plain_object(content, "the content of a message")
        if mixins := self.mixins[recipient] if recipient else ():
            message = Message(
                execution_id=self.context.execution_id,
                sender_id=self.instances[sender].id,
                recipient_id=self.instances[recipient].id if recipient else None,
                message_type=type,
                content=content,
                round_number=round,
            )
            for mixin in mixins:
                changed = await mixin.on_message(message)
                if not isinstance(changed, Message | None):
                    raise PatternRefused(
                        f"on_message of {mixin.name!r} must return a Message or None, not {changed.__class__.__name__}"
                    )
                message = changed or message
            type, round = message.message_type, message.round_number
            content = plain_object(message.content, "the content of a message")
        if not isinstance(round, int):
            raise PatternRefused(f"the round of a message must be a whole number, not {round!r}")
        sent = MessageSent(
            sender=sender, recipient=recipient or "", type=MessageType(type).value, content=content, round=round
        )
        written = await self.around.write(self.run, lambda: sent)
        sequence = self.engine.messages
        n = next(n for n in range(len(sequence), 0, -1) if sequence[n - 1] is written)
        return self._message(n, written)

    def _message(self, n: int, record: MessageSent) -> Message:
        return row(Message, **message_values(self.run, n, record, self.instances))

    async def record(self, invocation: AgentInvocationResult) -> Result:
        """Record *invocation*: the outcome of a call is recorded already, any other result gets a record."""
        if not isinstance(invocation, AgentInvocationResult):
            raise PatternRefused(f"a result must be an AgentInvocationResult, not {type(invocation).__name__}")
        ended = invocation._outcome
        if ended is None or self.engine.outcomes.get(ended.turn) is not ended or not is_unchanged(invocation, ended):
            return await self._record_own(invocation)
        return self._result(ended.turn, invocation, ended.at)

    async def _record_own(self, invocation: AgentInvocationResult) -> Result:
        """Record a result that the program created or changed."""
        slot = next((s for s, one in self.instances.items() if one.id == invocation.agent_instance_id), None)
        if slot is None:
            raise PatternRefused(f"no agent of this execution has the id {invocation.agent_instance_id}")
        name = f"{slot}+{self._count(f'result of {slot}')}"
        made = self._made.get(name)
        if made is None:
            said = Result(
                execution_id=self.context.execution_id,
                agent_instance_id=invocation.agent_instance_id,
                output=plain_object(invocation.output, "the output of a result"),
                confidence=invocation.confidence,
                reasoning=invocation.reasoning,
                token_usage=invocation.token_usage,
            )
            result = ResultRecorded(
                id=name,
                agent=slot,
                output=said.output,
                confidence=said.confidence,
                reasoning=said.reasoning,
                tokens=said.token_usage,
            )
            made = await self.around.write(self.run, lambda: result)
        return self._result(name, invocation, made.at)

    def _result(self, name: str, invocation: AgentInvocationResult, at: float) -> Result:
        when = datetime.fromtimestamp(at, UTC)
        return row(
            Result,
            id=result_id(self.run, name),
            execution_id=self.context.execution_id,
            agent_instance_id=invocation.agent_instance_id,
            output=plain_object(invocation.output, "the output of a result"),
            confidence=invocation.confidence,
            reasoning=invocation.reasoning,
            token_usage=invocation.token_usage,
            started_at=when,
            completed_at=when,
        )

    def _count(self, what: str) -> int:
        n = self._counts[what] = self._counts.get(what, 0) + 1
        return n
