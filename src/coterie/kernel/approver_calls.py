"""A program or the terminal answers what attempts need a person for, while they wait."""

import asyncio
from functools import partial

from coterie.ids import new_message_id
from coterie.journal.records import AttemptFailed, AttentionAsked
from coterie.kernel.approvals import Approvals
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.event_queue import EventQueue
from coterie.kernel.owner import Approver


class ApproverCalls:
    """Calls *approver* with each open question of an attempt; its answer counts as an operator's.

    What it raises, and an answer that is none, fails the attempt.
    """

    def __init__(
        self, inputs: AttemptInputs, approvals: Approvals, queue: EventQueue, approver: Approver | None
    ) -> None:
        self._inputs, self._approvals, self._queue, self._approver = inputs, approvals, queue, approver
        self._open: dict[asyncio.Task[None], tuple[DrivenRun, AttentionAsked]] = {}

    def begin(self, live: DrivenRun, asked: AttentionAsked) -> None:
        """Ask the approver, if there is one."""
        if self._approver is not None:
            self._open[asyncio.create_task(self._ask(self._approver, live, asked))] = live, asked

    def end_answered(self) -> None:
        """Cancel the calls whose question was answered elsewhere, or whose attempt has ended."""
        for task, (live, asked) in list(self._open.items()):
            if asked.id not in live.core.attention or not live.core.accepts(asked.turn, asked.attempt):
                task.cancel()
                del self._open[task]

    async def end(self) -> None:
        """Cancel all calls and wait until they have ended."""
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _ask(self, approver: Approver, live: DrivenRun, asked: AttentionAsked) -> None:
        from coterie.views.attention import attention_of  # few runs need it

        try:
            answer, problem = (await approver(attention_of(live.run, asked))).strip(), ""
        except Exception as error:  # a failure becomes a record here: no other task awaits this one
            answer, problem = "", f"{type(error).__name__}: {error}"
        self._queue.put(0, partial(self._answered, live, asked, answer, problem))

    def _answered(self, live: DrivenRun, asked: AttentionAsked, answer: str, problem: str) -> None:
        if asked.id not in live.core.attention:
            return  # it was answered meanwhile
        problem = problem or self._approvals.answer(live, asked.id, answer, new_message_id())
        if problem:
            failed = AttemptFailed(turn=asked.turn, attempt=asked.attempt, kind="crashed", reason=problem)
            self._inputs.accept(live, failed)
