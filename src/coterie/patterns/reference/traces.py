"""What a program tells and records: messages between its agents, and results; neither of them twice."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from coterie.errors import PatternRefused
from coterie.journal.records import MessageSent, ResultRecorded
from coterie.patterns.identity import message_id, result_id
from coterie.patterns.reference.invocation import AgentInvocationResult, result_of
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.rows import Message, MessageType, Result

if TYPE_CHECKING:
    from coterie.patterns.reference.performance import Performance


class Traces:
    """The messages and results of one performance.

    A message is known by its sender and its number there, a result of the program's own by its agent and its number:
    what an earlier owner wrote down is not written again.
    """

    def __init__(self, of: "Performance") -> None:
        self._of = of
        self._told = list(of.engine.messages)
        self._made = dict(of.engine.recorded)
        self._counts: dict[str, int] = {}

    async def send(
        self, sender: str, recipient: str | None, type: MessageType, content: dict[str, Any], round: int
    ) -> Message:
        """Tell *recipient*, or everybody, something."""
        self._of.config(sender)
        if recipient is not None:
            self._of.config(recipient)
        k = self._count(f"message of {sender}")
        known = [(n, one) for n, one in enumerate(self._told, start=1) if one.sender == sender][k - 1 : k]
        if known:
            n, record = known[0]
            if record.recipient != (recipient or ""):
                raise self._of.other(record, f"a message of {sender} to {recipient or 'everybody'}")
            return self._message(n, record)
        message = Message(
            execution_id=self._of.context.execution_id,
            sender_id=self._of.instances[sender].id,
            recipient_id=self._of.instances[recipient].id if recipient else None,
            message_type=type,
            content=plain_object(content, "the content of a message"),
            round_number=round,
        )
        for mixin in self._of.mixins[recipient] if recipient else ():
            message = await mixin.on_message(message) or message
        sent = MessageSent(
            sender=sender,
            recipient=recipient or "",
            type=MessageType(message.message_type).value,
            content=plain_object(message.content, "the content of a message"),
            round=message.round_number,
        )
        written = await self._of.around.write(self._of.run, lambda: sent)
        sequence = self._of.engine.messages
        n = next(n for n in range(len(sequence), 0, -1) if sequence[n - 1] is written)
        return self._message(n, written)

    def _message(self, n: int, record: MessageSent) -> Message:
        recipient = record.recipient
        return Message(
            id=message_id(self._of.run, n),
            execution_id=self._of.context.execution_id,
            sender_id=self._of.instances[record.sender].id,
            recipient_id=self._of.instances[recipient].id if recipient else None,
            message_type=MessageType(record.type),
            content=record.content,
            round_number=record.round,
            sequence_number=n,
            created_at=datetime.fromtimestamp(record.at, UTC),
        )

    async def record(self, invocation: AgentInvocationResult) -> Result:
        """Keep *invocation*: what came of a call is kept already, anything else gets a record of its own."""
        ended = self._of.engine.outcomes.get(invocation._turn)
        if ended is not None and result_of(ended, invocation.agent_instance_id, invocation.duration_ms) == invocation:
            name, at = invocation._turn, ended.at
        else:
            slot = next((s for s, one in self._of.instances.items() if one.id == invocation.agent_instance_id), None)
            if slot is None:
                raise PatternRefused(f"no agent of this execution has the id {invocation.agent_instance_id}")
            name = f"{slot}+{self._count(f'result of {slot}')}"
            made = self._made.get(name)
            if made is None:
                output = plain_object(invocation.output, "the output of a result")
                result = ResultRecorded(
                    id=name,
                    agent=slot,
                    output=output,
                    confidence=invocation.confidence,
                    reasoning=invocation.reasoning,
                    tokens=invocation.token_usage,
                )
                made = await self._of.around.write(self._of.run, lambda: result)
            at = made.at
        when = datetime.fromtimestamp(at, UTC)
        return Result(
            id=result_id(self._of.run, name),
            execution_id=self._of.context.execution_id,
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
