"""Taking a run over: continue, end or retry the attempts that earlier owners started.

An owner can die at any moment. The next one takes the run over in this order:

1. It claims the journal, which the lock of the run allows to one process at a time, and cuts off a torn last line.
2. It folds the records (`opening`). Commands without a record that carries them out are left to do; a turn with an
   intent but no result is an attempt in an unknown state.
3. It judges messages that such attempts had put into the inbox before their owner died: they still count, at their
   time.
4. It writes `run.owned` with the next epoch (`takeover_records`): from here on messages of older epochs are refused.
   Questions to people stay open and child runs are continued under their ids; every other attempt that cannot have
   survived is cut off as `crash`, and a retry follows, whose prompt warns of side effects.
5. Once that is durable, `adopt_or_end` looks for the attempts that may have survived (`on-interrupt: adopt`). Those
   that are found get a record and are continued; the rest are also cut off.
6. Processes that the records name and that were not adopted are ended before anything new starts: two attempts of one
   turn never run at the same time.

If this owner is killed at any point, the next one begins again at 1: each step either is in the journal or had no
effect.
"""

from collections.abc import Callable, Collection

from coterie.agents.backends.base import Session
from coterie.base.waits import waiting
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.attempts import Attempts
from coterie.execution.kernel.commands import Start
from coterie.execution.kernel.driven_run import Attempt, DrivenRun
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.takeover_records import adopt, in_doubt, may_live_on
from coterie.history.journal.records import AttemptLaunched
from coterie.team.planning.plan import AgentPlan, Plan

Timed = Callable[[DrivenRun, Start, float], AgentPlan]
"""The agent of a start that has been running for some seconds, with the time that it has left."""


class Takeover:
    """Adopts the attempts of earlier owners that can be found, and ends all others."""

    def __init__(self, tree: RunTree, inputs: AttemptInputs, attempts: Attempts, timed: Timed) -> None:
        self._tree, self._inputs, self._attempts, self._timed = tree, inputs, attempts, timed
        self._clock, self._turns, self._files = tree.ports.clock, tree.ports.turns, tree.ports.files

    async def adopt_or_end(self, live: DrivenRun, launched: list[AttemptLaunched]) -> None:
        """Continue the attempts that can be found, end all others of *launched*, and record both.

        Meanwhile no other event is handled, and nothing leaves.
        """
        doubtful, found = in_doubt(live.core), list[tuple[Attempt, Session]]()
        for start in doubtful:
            turn = live.core.turns[start.ask.turn]
            slept = max((self._clock.slept() or 0.0) - turn.slept, 0.0)
            taken = max(self._clock.now() - turn.asked - slept, 0.0)
            attempt = Attempt(live, turn, self._timed(live, start, taken), start.prompt)
            if (session := await self._attempts.find(attempt, taken)) is not None:
                found.append((attempt, session))
            elif attempt.turn.gated is None:
                used = self._inputs.used(live, attempt.name)
                live.core.cut_off(self._clock.now(), attempt.name, "crash", used)
        kept = [(attempt.name, attempt.n) for attempt, _ in found]
        spared = [live.core.ref(turn) for turn in [*(attempt.name for attempt, _ in found), *_teams_with_lasting(live)]]
        with waiting("the processes that the earlier owner left to end"):
            await self._turns.end(live.run, [one for one in launched if (one.turn, one.attempt) not in kept], spared)
        self._clear(live, kept)
        for attempt, session in found:
            adopt(live.core, self._clock.now(), attempt.name)
            self._attempts.adopt(attempt, session)
        if doubtful:
            self._tree.pump(live)

    def _clear(self, live: DrivenRun, kept: Collection[tuple[str, int]]) -> None:
        """Remove the temporary files of ended attempts, that is all except those in *kept*.

        A finished turn has none, unless its attempts could be adopted: the owner may have been killed between the
        result and the removal.
        """
        turns = [
            (name, turn.attempt)
            for name, turn in live.core.turns.items()
            if turn.result is None or may_live_on(live.core, turn.ask.agent)
        ]
        for name, turn in live.core.turns.items():
            if turn.steps and turn.result is not None:
                self._files.forget(live.run, name, turn.attempt)
        cut = [(name, n) for name, last in turns for n in range(1, last + 1) if (name, n) not in kept]
        self._files.clear_attempts(live.run, cut)


def _teams_with_lasting(live: DrivenRun) -> list[str]:
    """The turns of *live* that are running child runs whose own attempts may be adopted later."""
    teams = [turn for turn in live.core.turns.values() if turn.status == "running" and not turn.slot]
    plans = [(turn, (live.core.agents.get(turn.ask.agent) or AgentPlan(name="")).child) for turn in teams]
    return [turn.ask.turn for turn, plan in plans if plan is not None and _has_lasting(plan)]


def _has_lasting(plan: Plan) -> bool:
    """Whether an attempt of an agent of *plan*, or of a plan inside it, may be adopted."""
    agents = plan.agents.values()
    return any(a.on_interrupt == "adopt" or (a.child is not None and _has_lasting(a.child)) for a in agents)
