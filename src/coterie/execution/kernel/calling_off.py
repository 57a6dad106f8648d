"""Calling off child runs whose turns were cancelled or took too long: they end, and their inputs are ignored."""

from collections.abc import Callable

from coterie.base.ids import child_run_id
from coterie.errors import NoSuchRun
from coterie.execution.kernel.commands import Halt, Start
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.run_tree import RunTree
from coterie.history.engines.commands import Ask
from coterie.history.journal.records import RunFinished, Usage
from coterie.team.planning.plan import Plan

TakeOver = Callable[[str, Plan, DrivenRun, Start], DrivenRun]
"""Takes over a child run to end it: its id, its plan, its parent, and the parent's attempt that it performs."""


class CallingOff:
    """Calls child runs off.

    Args:
        take_over: Takes over a child run that only an earlier owner drove.
    """

    def __init__(self, tree: RunTree, take_over: TakeOver) -> None:
        self._tree, self._take_over = tree, take_over

    def call_off(self, live: DrivenRun, ask: Ask, attempt: int) -> Usage:
        """Ignore from now on the child run of an *attempt* of *live*, and all runs below it.

        Nothing is written to their journals until the parent's record about the turn is durable; then `Halt` ends them.

        Returns:
            Their total usage.
        """
        child = self._child(live, ask, attempt)
        if child is None:
            running = live.attempt(ask.turn)
            usage, running.reported = running.used, None  # it counts as spent from now on
            return usage
        child.core.called_off = True
        child.changed()
        usage = child.core.spent
        for below in child.core.turns.values():
            if below.status == "running":
                usage += self.call_off(child, below.ask, below.attempt)
        return usage

    def _child(self, live: DrivenRun, ask: Ask, attempt: int) -> DrivenRun | None:
        """The child run of an attempt; if only an earlier owner drove it, it is taken over so that it can be ended."""
        agent = live.core.agents.get(ask.agent)
        if agent is None or agent.child is None:
            return None
        run = child_run_id(live.run, ask.turn, attempt)
        if run in live.children or not self._began(run):
            return live.children.get(run)
        return self._take_over(run, agent.child, live, Start(ask=ask, attempt=attempt, prompt=""))

    def _began(self, run: str) -> bool:
        try:
            return next(self._tree.read(run), None) is not None
        except NoSuchRun:
            return False

    def make_up(self, live: DrivenRun) -> None:
        """Call off child runs whose turns were cancelled or timed out under an earlier owner that did not end them."""
        for name, turn in live.core.turns.items():
            attempts = {turn.attempt} if turn.cancelled else set()
            if turn.failure is not None and turn.failure.kind == "timeout":
                attempts.add(turn.failure.attempt)
            for attempt in sorted(attempts):
                if self._is_open(child_run_id(live.run, name, attempt)):
                    self.call_off(live, turn.ask, attempt)
                    live.send(Halt(turn=name))

    def _is_open(self, run: str) -> bool:
        """Whether *run* began and has not ended."""
        try:
            *_, last = self._tree.read(run)
        except (NoSuchRun, ValueError):
            return False
        return not isinstance(last, RunFinished)
