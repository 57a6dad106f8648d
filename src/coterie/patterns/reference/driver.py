"""Run a pattern's generator for a topology object: `Question` becomes a call, `Tell` a message.

The generators are those of `coterie.engines.patterns`, which know nothing of asyncio; so a debate is the same debate
however it is started.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.engines.generator import AgentFailed, Conversation, Got, PatternFailed, Question, Tell, Together
from coterie.engines.patterns.registry import Team
from coterie.errors import CollaborationFailed
from coterie.journal.records import TurnCancelled, TurnFailed, TurnFinished, Usage
from coterie.patterns.reference.invocation import ExecutionContext, split
from coterie.patterns.rows.enums import MessageType

if TYPE_CHECKING:
    from coterie.patterns.reference.base import BaseTopology

_ONE_TURN = Usage(turns=1)


class Driver:
    """Runs one conversation.

    Attributes:
        usage: The usage of its calls.
    """

    def __init__(self, topology: "BaseTopology", context: ExecutionContext, team: Team) -> None:
        self._topology, self._context, self._team = topology, context, team
        self.usage = Usage()

    async def play(self, conversation: Conversation) -> Any:
        """The return value of *conversation*.

        Raises:
            CollaborationFailed: If it fails.
        """
        step: Callable[[], Any] = partial(next, conversation)
        try:
            while True:
                asked = step()
                match asked:
                    case Tell(record=record):
                        self._context.round_number = record.round
                        kind, to = MessageType(record.type), record.recipient or None
                        await self._topology.send_message(record.sender, to, kind, record.content, self._context)
                        step = partial(conversation.send, None)
                    case Question():
                        got = await self._ask(asked)
                        step = partial(conversation.throw if isinstance(got, AgentFailed) else conversation.send, got)
                    case Together():
                        step = partial(conversation.send, await self._together(asked))
                    case _:
                        raise TypeError(
                            f"a pattern must yield a Question, Together or Tell, not {type(asked).__name__}"
                        )
        except StopIteration as end:
            return end.value
        except (AgentFailed, PatternFailed) as failed:
            raise CollaborationFailed(str(failed)) from failed
        finally:
            conversation.close()

    async def _ask(self, question: Question) -> TurnFinished | AgentFailed:
        if self._topology.team(question.agent) is not None:
            return await self._ask_team(question)
        said = [{"role": role, "content": text} for role, text in question.history]
        messages = [*said, {"role": "user", "content": question.prompt}]
        result = await self._topology.invoke_agent(question.agent, messages, self._context)
        await self._topology.record_result(result, self._context)
        outcome = result._outcome
        turn = outcome.turn if outcome is not None else ""
        finished = outcome if isinstance(outcome, TurnFinished) else TurnFinished(turn=turn, attempt=1, text="")
        self.usage += finished.usage + _ONE_TURN
        self._team.failed[question.agent] = self._team.failed.get(question.agent, 0) + finished.attempt - 1
        if result.error is not None:
            kind = "cancelled" if isinstance(outcome, TurnCancelled) else getattr(outcome, "kind", "failed")
            return AgentFailed(turn, kind, result.error)
        text, outputs = split(result.output)
        return TurnFinished(
            turn=turn,
            attempt=finished.attempt,
            text=text or result.text,
            outputs={name: value for name, value in outputs.items() if name not in ("content", "usage")},
            usage=finished.usage,
        )

    async def _ask_team(self, question: Question) -> TurnFinished | AgentFailed:
        given = dict(question.given) if question.given is not None else {"prompt": question.prompt}
        outcome = await self._topology.invoke_team(question.agent, given, self._context)
        match outcome:
            case TurnFinished():
                self.usage += outcome.usage
                return outcome
            case TurnFailed(kind=kind, reason=reason):
                return AgentFailed(outcome.turn, kind, reason)
            case TurnCancelled(reason=reason):
                return AgentFailed(outcome.turn, "cancelled", reason or "called off")

    async def _together(self, asked: Together) -> Sequence[Got]:
        """The outcome of each question, in the order asked; None for those that were cancelled or never asked."""
        questions = asked.questions
        most = asked.most or len(questions)
        tasks: list[asyncio.Task[TurnFinished | AgentFailed]] = []
        got: list[Got] = [None] * len(questions)
        settled = running = 0
        news = asyncio.Event()

        def ended(_: object) -> None:
            nonlocal running
            running -= 1
            news.set()

        try:
            while settled < len(questions):
                for question in questions[len(tasks) : len(tasks) + most - running]:
                    tasks.append(asyncio.get_running_loop().create_task(self._ask(question)))
                    tasks[-1].add_done_callback(ended)
                    running += 1
                await news.wait()
                news.clear()
                while settled < len(tasks) and tasks[settled].done():
                    got[settled] = tasks[settled].result()
                    settled += 1
                    if asked.until is not None and asked.until(got):
                        return got
            return got
        finally:
            for task in tasks:
                task.cancel()
            if left := [task for task in tasks if not task.done()]:
                await asyncio.wait(left)
