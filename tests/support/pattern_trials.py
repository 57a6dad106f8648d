"""Run a team of patterns with simulated agents: only the engine, without journal, shell or time.

The code that asks, judges, counts and stops is the one that a run executes: the generator of the pattern under
`coterie.history.engines.patterns.engine`. Replies are processed in the order of the questions, and failed attempts are
repeated as often as the agent's plan allows, as in a run.
"""

from collections import deque
from typing import Any

from msgspec import Struct

from coterie.agents.backends.base import Failure
from coterie.errors import UsageError
from coterie.execution.kernel.children import reply_of
from coterie.execution.kinds import kind_of
from coterie.history.engines.commands import Ask, Cancel, Finish, Reply
from coterie.history.engines.patterns.engine import PatternEngine
from coterie.history.engines.patterns.registry import definition
from coterie.history.journal.records import AttemptFailed, Record, RunStarted, TurnFailed
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.testing.simulated_agents import Assumptions, SimulatedAgents, SimulatedTurn, is_right, turn_number


class Played(Struct, frozen=True):
    """The outcome of one question.

    Attributes:
        calls: The number of attempts, those in teams included.
        text: The answer; empty when it failed.
        outputs: The other parts of the result.
        reason: Why it failed, if it did.
    """

    calls: int
    text: str
    outputs: dict[str, Any]
    reason: str = ""


def play(plan: Plan, agents: SimulatedAgents, question: str) -> Played:
    """Ask the team of *plan* a question.

    Raises:
        UsageError: If the team, or one in it, is not a pattern.
    """
    run = _Run(agents, question)
    result = run.team(plan, None, "")
    if isinstance(result, str):
        return Played(run.calls, "", {}, result)
    return Played(run.calls, *reply_of(result.result))


def given_to(plan: Plan) -> dict[str, Any]:
    """The input for any question to the team of *plan*."""
    keys = definition(pattern_of(plan).type).kind.keys or ("prompt",)
    return {keys[0]: "What is the answer?"}


def pattern_of(plan: Plan) -> PatternPlan:
    """The pattern that coordinates *plan*.

    Raises:
        UsageError: If something else coordinates it.
    """
    if not isinstance(plan.coordination, PatternPlan):
        raise UsageError(f"{plan.name} is not a pattern: only patterns can be simulated with agents of known accuracy")
    return plan.coordination


class Measured(Struct, frozen=True):
    """Calls for each question, the share of right answers, and the share of questions without an answer."""

    calls: float
    accuracy: float
    failed: float


def measure(plan: Plan, assumptions: Assumptions, *, runs: int, seed: int = 0) -> Measured:
    """Ask the team of *plan* that many questions."""
    agents = SimulatedAgents(plan, assumptions, seed)
    played = [play(plan, agents, str(question)) for question in range(runs)]
    return Measured(
        calls=sum(one.calls for one in played) / runs,
        accuracy=sum(is_right(one.text) for one in played) / runs,
        failed=sum(bool(one.reason) for one in played) / runs,
    )


class _Run:
    """One question, in all teams that it passes through."""

    def __init__(self, agents: SimulatedAgents, question: str) -> None:
        self._agents, self._question = agents, question
        self.calls = 0

    def team(self, plan: Plan, given: dict[str, Any] | None, path: str) -> Finish | str:
        """The end of the team's run; a text is the reason of a failure. Without *given* it gets the question itself."""
        pattern_of(plan)
        engine = kind_of(plan).engine
        assert isinstance(engine, PatternEngine)
        said = given_to(plan) if given is None else given
        commands = deque(
            engine.step(RunStarted(run=self._question, engine=engine.name, engine_version=engine.version, input=said))
        )
        called_off: set[str] = set()
        while commands:
            match commands.popleft():
                case Ask() as ask if ask.turn not in called_off:
                    commands.extend(engine.step(self._turn(engine, plan, ask, path)))
                case Cancel(turn=turn):
                    called_off.add(turn)
                case Finish() as finish:
                    return finish if finish.outcome == "completed" else finish.reason
                case _:
                    pass
        raise AssertionError(f"{plan.name} waits for nothing")

    def _turn(self, engine: PatternEngine, plan: Plan, ask: Ask, path: str) -> Record:
        """The last record of the turn in the journal of a run."""
        agent, attempt = plan.agents[ask.agent], 1
        while True:
            judged = self._attempt(engine, agent, ask, attempt, path)
            if not isinstance(judged, AttemptFailed):
                return judged
            engine.step(judged)
            if attempt > agent.retry:
                return TurnFailed(turn=ask.turn, kind=judged.kind, reason=judged.reason)
            attempt += 1

    def _attempt(self, engine: PatternEngine, agent: AgentPlan, ask: Ask, attempt: int, path: str) -> Record:
        """The record of one attempt."""
        here = f"{path}{agent.name}"
        if agent.child is not None:
            given = ask.whole if ask.whole is not None else {"prompt": ask.prompt, **ask.given}
            ended = self.team(agent.child, given, f"{here}/")
            if isinstance(ended, str):
                return AttemptFailed(turn=ask.turn, attempt=attempt, kind="failed", reason=ended)
            text, outputs = reply_of(ended.result)
            return engine.judge(Reply(turn=ask.turn, attempt=attempt, text=text, outputs=outputs or None))
        self.calls += 1
        asked = SimulatedTurn(
            question=self._question,
            path=here,
            pattern=engine.plan.type,
            turn=turn_number(ask.turn),
            attempt=attempt,
            prompt=ask.prompt or "",
            wanted=ask.wanted,
        )
        said = self._agents.says(asked)
        if isinstance(said, Failure):
            return AttemptFailed(turn=ask.turn, attempt=attempt, kind=said.kind, reason=said.reason)
        return engine.judge(Reply(turn=ask.turn, attempt=attempt, text=said.text))
