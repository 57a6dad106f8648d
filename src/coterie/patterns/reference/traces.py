"""The messages and recorded results of a program, none of them written twice."""

import asyncio
from datetime import UTC, datetime
from typing import Any, TypeVar

from coterie.errors import PatternRefused, ReplayMismatch
from coterie.execution.runs.sidecars import ShellServices
from coterie.history.engines.program import Program
from coterie.history.journal.records import CallAsked, MessageSent, Record, ResultRecorded
from coterie.patterns.identity import result_id
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext, is_unchanged
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.reference.trusted import row
from coterie.patterns.rows.configs import AgentConfig
from coterie.patterns.rows.enums import MessageType
from coterie.patterns.rows.fold import message_values
from coterie.patterns.rows.models import AgentInstance, Message, Result

R = TypeVar("R", bound=Record)

WAY = 8
"""Turns of the event loop that a program may take from an answer to its next call, messages and tasks included."""


class Traces:
    """The messages and results of one program run; a `ProgramRun` has the rest.

    A message is identified by its sender and its number there, a result of the program's own by its agent and its
    number: records of an earlier owner are not written again.

    Args:
        services: Those of the owner of the run.

    Attributes:
        engine: The run's engine, with the actions of earlier owners.
        context: The argument of `_run`.
        loop: The event loop in which it runs.
    """

    def __init__(self, services: ShellServices, engine: Program, context: ExecutionContext) -> None:
        self.run, self.engine, self.context = services.run, engine, context
        self.loop = asyncio.get_running_loop()
        self.instances: dict[str, AgentInstance] = {}
        self.mixins: dict[str, list[BaseMixin]] = {}
        self._services = services
        self._configs: dict[str, AgentConfig] = {}
        self._counts: dict[str, int] = {}
        self._mismatch: ReplayMismatch | None = None

    def config(self, slot: str) -> AgentConfig:
        """The configuration of the agent at *slot*.

        Raises:
            PatternRefused: If the slot is unknown.
        """
        config = self._configs.get(slot)
        if config is None:
            raise PatternRefused(f"unknown slot {slot!r}; known are {', '.join(self._configs) or 'none'}")
        return config

    async def send(
        self, sender: str, recipient: str | None, type: MessageType, content: dict[str, Any], round: int
    ) -> Message:
        """Record a message to *recipient*, or to all."""
        if type not in (known.value for known in MessageType):
            raise PatternRefused(f"unknown message type {type!r}; known are {', '.join(MessageType)}")
        self.config(sender)
        if recipient is not None:
            self.config(recipient)
        k, told = self._count(f"message of {sender}"), self.engine.messages.get(sender, ())
        if k <= len(told):
            n, record = told[k - 1]
            if record.recipient != (recipient or ""):
                raise self._other(record, f"a message of {sender} to {recipient or 'all'}")
            return self._message(n, record)
        content = plain_object(content, "the content of a message")
        if recipient and (mixins := self.mixins[recipient]):
            message = Message(
                execution_id=self.context.execution_id,
                sender_id=self.instances[sender].id,
                recipient_id=self.instances[recipient].id,
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
        kind, to = MessageType(type).value, recipient or ""
        sent = await self._write(MessageSent(sender=sender, recipient=to, type=kind, content=content, round=round))
        return self._message(*next(one for one in reversed(self.engine.messages[sender]) if one[1] is sent))

    def _message(self, n: int, record: MessageSent) -> Message:
        return row(Message, **message_values(self.run, n, record, self.instances))

    async def record(self, invocation: AgentInvocationResult) -> Result:
        """Record *invocation*: the outcome of a call is recorded already, any other result gets a record."""
        if not isinstance(invocation, AgentInvocationResult):
            raise PatternRefused(f"a result must be an AgentInvocationResult, not {type(invocation).__name__}")
        values: dict[str, Any] = {
            "execution_id": self.context.execution_id,
            "agent_instance_id": invocation.agent_instance_id,
            "output": plain_object(invocation.output, "the output of a result"),
            "confidence": invocation.confidence,
            "reasoning": invocation.reasoning,
            "token_usage": invocation.token_usage,
        }
        ended = invocation._outcome
        if ended is None or self.engine.outcomes.get(ended.turn) is not ended or not is_unchanged(invocation, ended):
            made = await self._record_own(Result(**values))
            name, when = made.id, datetime.fromtimestamp(made.at, UTC)
        else:
            name, when = ended.turn, datetime.fromtimestamp(ended.at, UTC)
        return row(Result, id=result_id(self.run, name), **values, started_at=when, completed_at=when)

    async def _record_own(self, made: Result) -> ResultRecorded:
        """The record of *made*, a result that the program created or changed."""
        slot = next((s for s, one in self.instances.items() if one.id == made.agent_instance_id), None)
        if slot is None:
            raise PatternRefused(f"no agent of this execution has the id {made.agent_instance_id}")
        name = f"{slot}+{self._count(f'result of {slot}')}"
        if name in self.engine.recorded:
            return self.engine.recorded[name]
        said: dict[str, Any] = {"output": made.output, "confidence": made.confidence, "reasoning": made.reasoning}
        return await self._write(ResultRecorded(id=name, agent=slot, tokens=made.token_usage, **said))

    async def _write(self, record: R) -> R:
        """Append *record*, and return it once it has its place; what is written next can share the sync."""
        written: asyncio.Future[Any] = self.loop.create_future()

        def append() -> None:
            placed = self._services.write(record, source="agent")
            if not written.done():
                written.set_result(placed)
                self._services.defer_sync(WAY)

        self._services.post(append, written.cancel)
        placed: R = await written
        return placed

    def _other(self, record: CallAsked | MessageSent, wanted: str) -> ReplayMismatch:
        """The error for a program that does not repeat *record*."""
        found = f"{record.turn} asked" if isinstance(record, CallAsked) else "another message"
        hint = (
            "the program changed, or does not make the same calls every time: run the original program, or start anew"
        )
        self._mismatch = ReplayMismatch(self.run, record.seq, found, wanted, hint)
        return self._mismatch

    def _count(self, what: str) -> int:
        n = self._counts[what] = self._counts.get(what, 0) + 1
        return n
