"""Run a pattern's generator for a topology object: its engine decides, calls and messages carry that out.

The generators are those of `coterie.history.engines.patterns`, on the engine of `coterie.history.engines.generator`: a
debate is the same debate however it is started.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from coterie.errors import CollaborationFailed
from coterie.history.engines.commands import Ask, Cancel, Command, Finish, Note
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.patterns.registry import Team
from coterie.history.engines.program import Outcome
from coterie.history.engines.questions import Conversation, PatternFailed
from coterie.history.journal.records import MessageSent, RunStarted, TurnCancelled, TurnFailed, TurnFinished, Usage
from coterie.patterns.reference.base import BaseTopology
from coterie.patterns.reference.invocation import ExecutionContext, split
from coterie.patterns.rows.enums import MessageType


class Driver:
    """Runs one conversation.

    Attributes:
        usage: The usage of its calls.
    """

    def __init__(self, topology: BaseTopology, context: ExecutionContext, team: Team) -> None:
        self._topology, self._context, self._team = topology, context, team
        self._calls: dict[str, asyncio.Task[Outcome]] = {}
        self._news = asyncio.Event()
        self.usage = Usage()

    async def play(self, start: Callable[[dict[str, Any]], Conversation], given: dict[str, Any]) -> Any:
        """The value that the conversation that *start* begins returns.

        Raises:
            CollaborationFailed: If it fails.
        """
        engine = GeneratorEngine(start)
        commands = deque[Command](engine.step(RunStarted(run="", engine=engine.name, input=given)))
        try:
            while True:
                while commands:
                    match commands.popleft():
                        case Ask() as ask if not commands and not self._calls:
                            commands.extend(engine.step(await self._call(ask)))
                        case Ask() as ask:
                            self._calls[ask.turn] = asyncio.get_running_loop().create_task(self._call(ask))
                            self._calls[ask.turn].add_done_callback(lambda _: self._news.set())
                        case Cancel(turn=turn):
                            await self._drop([turn])
                        case Note(record=MessageSent() as sent):
                            recipients = [sent.recipient]
                            while commands and (recipient := _repeated(commands[0], sent)):
                                recipients.append(recipient)
                                commands.popleft()
                            await self._send(sent, recipients)
                        case Finish() as finish:
                            return _result(finish)
                await self._news.wait()
                self._news.clear()
                for turn in [turn for turn, call in self._calls.items() if call.done()]:
                    commands.extend(engine.step(self._calls.pop(turn).result()))
        finally:
            await self._drop(list(self._calls))

    async def _drop(self, turns: Iterable[str]) -> None:
        calls = [call for turn in turns if (call := self._calls.pop(turn, None)) is not None]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _send(self, sent: MessageSent, recipients: Sequence[str]) -> None:
        self._context.round_number = sent.round
        kind, topology = MessageType(sent.type), self._topology
        if kind is MessageType.BROADCAST:
            others = [slot for slot in topology.agents if slot not in (sent.sender, *recipients)]
            await topology.broadcast_message(sent.sender, kind, sent.content, self._context, exclude=others)
        else:
            await topology.send_message(sent.sender, sent.recipient or None, kind, sent.content, self._context)

    async def _call(self, ask: Ask) -> Outcome:
        """The end of the turn *ask*, under the engine's name for it."""
        if self._topology.team(ask.agent) is not None:
            given = ask.whole if ask.whole is not None else {"prompt": ask.prompt}
            outcome = await self._topology.invoke_team(ask.agent, given, self._context)
            if isinstance(outcome, TurnFinished):
                self.usage += outcome.usage
            return structs.replace(outcome, turn=ask.turn)
        said = [*ask.history, ("user", ask.prompt or "")]
        messages = [{"role": role, "content": text} for role, text in said]
        result = await self._topology.invoke_agent(ask.agent, messages, self._context)
        await self._topology.record_result(result, self._context)
        ended = result._outcome
        finished = ended if isinstance(ended, TurnFinished) else TurnFinished(turn=ask.turn, attempt=1)
        self.usage += finished.usage + Usage(turns=1)
        self._team.failed[ask.agent] = self._team.failed.get(ask.agent, 0) + finished.attempt - 1
        if result.error is not None:
            kind = "cancelled" if isinstance(ended, TurnCancelled) else getattr(ended, "kind", "failed")
            return TurnFailed(turn=ask.turn, kind=kind, reason=result.error)
        text, outputs = split(result.output)
        outputs = {name: value for name, value in outputs.items() if name not in ("content", "usage")}
        return structs.replace(finished, turn=ask.turn, text=text or result.text, outputs=outputs)


def _repeated(command: Command, sent: MessageSent) -> str:
    """The recipient of *command* if it broadcasts the same as *sent* to another slot; else empty."""
    match command:
        case Note(record=MessageSent(type="broadcast") as record):
            return record.recipient if structs.replace(record, recipient=sent.recipient) == sent else ""
    return ""


def _result(finish: Finish) -> Any:
    if finish.outcome == "completed":
        return finish.result
    said: Mapping[str, Any] = finish.result or {}
    raise CollaborationFailed(finish.reason) from PatternFailed(finish.reason, said.get("kind", ""))
