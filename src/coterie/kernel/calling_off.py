"""Child runs whose turns were cancelled or took too long: nothing more is heard of them, and they end."""

from collections.abc import Callable

from coterie.engines.commands import Ask
from coterie.errors import NoSuchRun
from coterie.ids import child_run_id
from coterie.journal.records import RunFinished, Usage
from coterie.kernel.commands import Halt, Start
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.run_tree import RunTree
from coterie.planning.plan import Plan

TakeOver = Callable[[str, Plan, DrivenRun, Start], DrivenRun]
"""Takes over a child run that only ends: its id, its plan, its parent and the attempt of it that the run is."""


class CallingOff:
    """Calls child runs off.

    Args:
        take_over: For those that only an earlier owner drove.
    """

    def __init__(self, tree: RunTree, take_over: TakeOver) -> None:
        self._tree, self._take_over = tree, take_over

    def call_off(self, live: DrivenRun, ask: Ask, attempt: int) -> Usage:
        """Hear nothing more of the child run that *attempt* of a turn of *live* is, nor of the runs below it.

        Nothing is written to their journals before what the parent says of the turn is durable: `Halt` ends them.

        Returns:
            What they have used together.
        """
        child = self._child(live, ask, attempt)
        if child is None:
            usage = live.used(ask.turn)
            live.reported.pop(ask.turn, None)  # it counts as spent from now on
            return usage
        child.core.called_off = True
        usage = child.core.spent
        for below in child.core.turns.values():
            if below.status == "running":
                usage += self.call_off(child, below.ask, below.attempt)
        return usage

    def _child(self, live: DrivenRun, ask: Ask, attempt: int) -> DrivenRun | None:
        """The child run that an attempt is; one that only an earlier owner drove is taken over, to be ended."""
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
        """Call off the child runs whose turns were called off or took too long, if an earlier owner could not."""
        for name, turn in live.core.turns.items():
            attempts = {turn.attempt} if turn.cancelled else set()
            if turn.failure is not None and turn.failure.kind == "timeout":
                attempts.add(turn.failure.attempt)
            for attempt in sorted(attempts):
                if self._is_open(child_run_id(live.run, name, attempt)):
                    self.call_off(live, turn.ask, attempt)
                    live.outbox.append(Halt(turn=name))

    def _is_open(self, run: str) -> bool:
        """Whether *run* began and has not ended."""
        try:
            *_, last = self._tree.read(run)
        except (NoSuchRun, ValueError):
            return False
        return not isinstance(last, RunFinished)
