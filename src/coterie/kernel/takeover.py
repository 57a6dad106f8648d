"""Taking a run over: what becomes of the attempts that earlier owners started.

An owner can die at any moment. The next one takes the run over in this order:

1. It claims the journal, which the lock of the run allows to one process at a time, and cuts off a torn last line.
2. It folds the records (`opening`). Commands without a record that carries them out are what is left to do; a turn with
   an intent and no result is an attempt whose fate is unknown.
3. It judges what such attempts had put into the inbox before their owner died: that still counts, in its time.
4. It writes `run.owned` with the next epoch (`takeover_records`): from here on messages of older epochs are refused.
   Questions to people stay open and child runs are continued under their ids; every other attempt that cannot have
   lived on is cut off as `crash`, and a retry follows, whose prompt warns of side effects.
5. Once that is durable, `adopt_or_end` looks for the attempts that may live on (`on-interrupt: adopt`). Those that are
   found get a record and are continued; the rest are cut off, too.
6. The processes that the records name and that nothing adopted are ended, before anything new starts: two attempts of
   one turn never work side by side.

Killed anywhere in between, the owner after it begins again at 1: each step either is in the journal or had no effect.
"""

from collections.abc import Callable, Collection

from coterie.backends.base import Session
from coterie.journal.records import AttemptLaunched
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.attempts import Attempts
from coterie.kernel.commands import Start
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.run_tree import RunTree
from coterie.kernel.takeover_records import adopt, in_doubt, may_live_on
from coterie.planning.plan import AgentPlan, Plan
from coterie.waits import waiting

Timed = Callable[[DrivenRun, Start, float], AgentPlan]
"""The agent of a start, which has been at work for some seconds, with the time that it has left."""


class Takeover:
    """Adopts the attempts of earlier owners that can be found, and ends all others."""

    def __init__(self, tree: RunTree, inputs: AttemptInputs, attempts: Attempts, timed: Timed) -> None:
        self._tree, self._inputs, self._attempts, self._timed = tree, inputs, attempts, timed
        self._clock, self._turns, self._files = tree.ports.clock, tree.ports.turns, tree.ports.files

    async def adopt_or_end(self, live: DrivenRun, launched: list[AttemptLaunched]) -> None:
        """Go on with the attempts that can be found, end all others of *launched*, and record which is which.

        Nothing else that happens is handled meanwhile, and nothing leaves.
        """
        doubtful, found = in_doubt(live.core), list[tuple[Start, AgentPlan, Session]]()
        for start in doubtful:
            taken = max(self._clock.now() - live.core.turns[start.ask.turn].asked, 0.0)
            agent = self._timed(live, start, taken)
            if (session := await self._attempts.find(live, start, agent, taken)) is not None:
                found.append((start, agent, session))
            elif start.ask.turn not in live.core.gated:
                used = self._inputs.used(live, start.ask.turn, start.attempt)
                live.core.cut_off(self._clock.now(), start.ask.turn, "crash", used)
        kept = [(start.ask.turn, start.attempt) for start, _, _ in found]
        spared = [live.core.ref(*one) for one in kept + _teams_with_lasting(live)]
        with waiting("the processes that the earlier owner left to end"):
            await self._turns.end(live.run, [one for one in launched if (one.turn, one.attempt) not in kept], spared)
        self._clear(live, kept)
        for start, agent, session in found:
            adopt(live.core, self._clock.now(), start)
            self._attempts.adopt(live, start, agent, session)
        if doubtful:
            self._tree.pump(live)

    def _clear(self, live: DrivenRun, kept: Collection[tuple[str, int]]) -> None:
        """Remove the temporary files of attempts that are over, all but those in *kept*: none of them lives.

        A turn that finished has none, unless it might have been adopted: the owner may have been killed between its
        result and their removal.
        """
        turns = [
            (name, turn.attempt)
            for name, turn in live.core.turns.items()
            if turn.result is None or may_live_on(live.core, turn.ask.agent)
        ]
        cut = [(name, n) for name, last in turns for n in range(1, last + 1) if (name, n) not in kept]
        self._files.clear_attempts(live.run, cut)


def _teams_with_lasting(live: DrivenRun) -> list[tuple[str, int]]:
    """The turns of *live* that are child runs with attempts that may be adopted, when these are taken over."""
    teams = [turn for turn in live.core.turns.values() if turn.status == "running" and not turn.slot]
    plans = [(turn, (live.core.agents.get(turn.ask.agent) or AgentPlan(name="")).child) for turn in teams]
    return [(turn.ask.turn, turn.attempt) for turn, plan in plans if plan is not None and _has_lasting(plan)]


def _has_lasting(plan: Plan) -> bool:
    """Whether an attempt of an agent of *plan*, or of a plan inside it, may be adopted."""
    agents = plan.agents.values()
    return any(a.on_interrupt == "adopt" or (a.child is not None and _has_lasting(a.child)) for a in agents)
