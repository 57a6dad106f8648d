"""Calls to an approver, a program or the terminal, which answers requests of attempts while these wait."""

import asyncio
from functools import partial

from coterie.base.ids import new_message_id
from coterie.base.user_code import CANCELLED, contained, is_cancelled
from coterie.execution.kernel.approvals import Approvals
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.event_queue import EventQueue
from coterie.execution.kernel.owner import Approver
from coterie.history.journal.records import AttemptFailed, AttentionAsked


class ApproverCalls:
    """Calls *approver* with each open question of an attempt; its answer counts as an operator's.

    An exception from the approver, or an invalid answer, fails the attempt.

    Attributes:
        open: The calls that have no answer yet, with their requests.
    """

    def __init__(
        self, inputs: AttemptInputs, approvals: Approvals, queue: EventQueue, approver: Approver | None
    ) -> None:
        self._inputs, self._approvals, self._queue, self._approver = inputs, approvals, queue, approver
        self.open: dict[asyncio.Task[None], tuple[DrivenRun, AttentionAsked]] = {}

    def begin(self, live: DrivenRun, asked: AttentionAsked) -> None:
        """Ask the approver, if there is one."""
        if self._approver is not None:
            self.open[asyncio.create_task(self._ask(self._approver, live, asked))] = live, asked

    def end_answered(self) -> None:
        """Cancel the calls whose question was answered elsewhere, or whose attempt has ended."""
        for task, (live, asked) in list(self.open.items()):
            if asked.id not in live.core.attention or not live.core.accepts(asked.turn, asked.attempt):
                task.cancel()
                del self.open[task]

    async def end(self) -> None:
        """Cancel all calls and wait until they have ended."""
        tasks = list(self.open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _ask(self, approver: Approver, live: DrivenRun, asked: AttentionAsked) -> None:
        from coterie.history.views.attention import attention_of  # few runs need it

        try:
            with contained():
                answer, problem = (await approver(attention_of(live.run, asked))).strip(), ""
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            answer, problem = "", CANCELLED
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
