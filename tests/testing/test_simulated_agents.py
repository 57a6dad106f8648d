import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from pattern_play import pattern
from pattern_trials import given_to, play

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Failure,
    OnEvent,
    Request,
    Result,
    Session,
    Unknown,
)
from coterie.base.clock import VirtualClock
from coterie.errors import UsageError
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptLaunched, TurnFinished
from coterie.patterns.builtin.stance import agreement
from coterie.team.planning.plan import AgentPlan, Limits, Plan, Wanted
from coterie.testing.simulated_agents import RIGHT, Assumptions, SimulatedAgents, SimulatedTurn, Skill, is_right

pytestmark = pytest.mark.once

PANEL = pattern("ensemble", ["a", "b", "c"], aggregation_method="vote")
VERDICT = (Wanted(name="approved", type="boolean"), Wanted(name="confidence", type="number", declared=False))
RUNS = 2000
NEAR = 0.035  # three standard errors of a share of 2,000


def agents(**assumed: Any) -> SimulatedAgents:
    return SimulatedAgents(PANEL, Assumptions(**{"skill": Skill(0.7), **assumed}))


def asked(n: int, **of: Any) -> SimulatedTurn:
    usual: dict[str, Any] = {"path": "a", "pattern": "ensemble", "turn": 1, "attempt": 1, "prompt": "?"}
    return SimulatedTurn(question=str(n), **{**usual, **of})


def said(result: Result) -> str:
    assert isinstance(result, Answer)
    return result.text


def share(what: Sequence[bool]) -> float:
    return sum(what) / len(what)


def test_an_agent_is_right_as_often_as_its_skill_says() -> None:
    """By itself, by slot, and by the place in a team within the team; equal seeds give equal answers."""
    team = agents(skills={"b": Skill(0.9), "sub/b": Skill(0.2)})
    for path, accuracy in (("a", 0.7), ("b", 0.9), ("sub/b", 0.2), ("other/b_12", 0.9)):
        right = [is_right(said(team.says(asked(n, path=path)))) for n in range(RUNS)]
        assert share(right) == pytest.approx(accuracy, abs=NEAR)

    again = agents(skills={"b": Skill(0.9), "sub/b": Skill(0.2)})
    assert [team.says(asked(n)) for n in range(50)] == [again.says(asked(n)) for n in range(50)]
    other = SimulatedAgents(PANEL, Assumptions(skill=Skill(0.7)), seed=1)
    assert [team.says(asked(n)) for n in range(50)] != [other.says(asked(n)) for n in range(50)]


def test_agents_err_apart_unless_they_are_correlated() -> None:
    """The correlation of two agents' being right is what is assumed, and neither is right more often for it."""
    for correlation in (0.0, 0.4, 1.0):
        team = agents(correlation=correlation)
        both = [tuple(is_right(said(team.says(asked(n, path=path)))) for path in ("a", "b")) for n in range(2 * RUNS)]
        one, other, together = (
            share([a for a, _ in both]),
            share([b for _, b in both]),
            share([a and b for a, b in both]),
        )
        found = (together - one * other) / (0.7 * 0.3)
        assert found == pytest.approx(correlation, abs=0.06)
        assert one == pytest.approx(0.7, abs=NEAR)


def test_habit_makes_an_agent_repeat_itself_and_nobody_else() -> None:
    """Asked again it says the same; without habit each turn is a draw of its own."""
    for habit, same in ((0.0, 0.58), (0.5, 0.79), (1.0, 1.0)):
        team = agents(habit=habit)
        twice = [team.says(asked(n)) == team.says(asked(n, turn=2)) for n in range(RUNS)]
        assert share(twice) == pytest.approx(same, abs=NEAR)
    team = agents(habit=1.0)
    others = [team.says(asked(n)) == team.says(asked(n, path="b")) for n in range(RUNS)]
    assert share(others) == pytest.approx(0.58, abs=NEAR)


def test_wrong_answers_differ_in_as_many_ways_as_there_are() -> None:
    """Each is as likely as the others."""
    wrong = [said(agents(skill=Skill(0.0), wrong=4).says(asked(n))) for n in range(RUNS)]

    assert set(wrong) == {f"[wrong {n}]" for n in (1, 2, 3, 4)}
    assert share([one == "[wrong 3]" for one in wrong]) == pytest.approx(0.25, abs=NEAR)


def test_whoever_judges_approves_what_is_right_and_rejects_what_is_wrong() -> None:
    """Each as often as its skill says, with how sure it is; a rejection names an issue."""
    team = agents(skill=Skill(0.9, 0.6))
    for shown, approves in ((RIGHT, 0.9), ("[wrong 2]", 0.4)):
        verdicts = [json.loads(said(team.says(asked(n, prompt=f"Check {shown}", wanted=VERDICT)))) for n in range(RUNS)]
        assert share([one["approved"] for one in verdicts]) == pytest.approx(approves, abs=NEAR)
        assert all(one["confidence"] == (0.9 if one["approved"] else 0.6) for one in verdicts)
        assert all(bool(one["issues"]) is not one["approved"] for one in verdicts)


@pytest.mark.parametrize(("overconfidence", "sure"), [(0.0, 0.7), (0.5, 0.85), (1.0, 1.0)])
def test_what_agents_say_of_their_confidence_is_calibrated_or_above(overconfidence: float, sure: float) -> None:
    """It lies between how often they are right and certainty."""
    wanted = (Wanted(name="answer", type="text"), Wanted(name="confidence", type="number"))
    answer = json.loads(said(agents(overconfidence=overconfidence).says(asked(0, wanted=wanted))))

    assert answer["confidence"] == pytest.approx(sure)


def test_whoever_chooses_takes_the_first_by_habit_and_else_tells_right_from_wrong() -> None:
    """With bias .2 and skill .7, the right one of two is taken in .76 or .56 of the cases: first or second."""
    team = agents(bias=0.2)
    for shown, takes in ((f"{RIGHT} [wrong 1]", 0.76), (f"[wrong 1] {RIGHT}", 0.56), ("[wrong 1] [wrong 2]", 0.0)):
        chosen = [said(team.says(asked(n, path="aggregator", prompt=shown))) for n in range(RUNS)]
        assert set(chosen) <= set(shown.replace("] [", "]|[").split("|"))
        assert share([one == RIGHT for one in chosen]) == pytest.approx(takes, abs=NEAR)


def test_whoever_conforms_takes_over_an_answer_it_is_shown() -> None:
    """Any of them; without conformity it thinks for itself."""
    shown = "[wrong 1] [wrong 1] [wrong 2] [right]"
    taken = [said(agents(conformity=1.0).says(asked(n, prompt=shown))) for n in range(RUNS)]
    own = [said(agents().says(asked(n, prompt=shown))) for n in range(RUNS)]

    assert share([one == "[wrong 1]" for one in taken]) == pytest.approx(0.5, abs=NEAR)
    assert share([one == RIGHT for one in own]) == pytest.approx(0.7, abs=NEAR)


def test_a_side_of_a_debate_defends_its_side_until_it_gives_in() -> None:
    """One side is right, each in half of the questions."""
    stubborn, yielding = agents(), agents(conformity=1.0)
    sides = [
        tuple(said(stubborn.says(asked(n, path=side, pattern="debate"))) for side in ("proponent", "opponent"))
        for n in range(RUNS)
    ]

    assert all(is_right(one) is not is_right(other) for one, other in sides)
    assert share([is_right(one) for one, _ in sides]) == pytest.approx(0.5, abs=NEAR)
    answered = asked(0, path="opponent", pattern="debate", prompt="[Proponent]: It is [right].")
    for team, agrees in ((stubborn, 0.0), (yielding, 1.0)):
        text = said(team.says(answered))
        assert agreement(TurnFinished(turn="opponent#1", attempt=1, text=text)) == agrees
    conceded = asked(0, path="proponent", pattern="debate", prompt=f"[Opponent]: {text}")
    text = said(stubborn.says(conceded))
    assert agreement(TurnFinished(turn="proponent#2", attempt=1, text=text)) == 1.0


def test_attempts_fail_as_often_as_they_should() -> None:
    """Each by itself: what failed once may succeed at the next attempt."""
    team = agents(failures=0.2)
    for attempt in (1, 2):
        failed = [isinstance(team.says(asked(n, attempt=attempt)), Failure) for n in range(RUNS)]
        assert share(failed) == pytest.approx(0.2, abs=NEAR)


@pytest.mark.parametrize(
    "assumed",
    [{"skill": (1.2,)}, {"skill": (-0.1,)}, {"skill": (0.7, 2)}, {"correlation": 1.5}, {"wrong": 0}, {"failures": -1}],
)
def test_what_cannot_be_is_refused(assumed: dict[str, Any]) -> None:
    """With the value that cannot be."""
    with pytest.raises(UsageError, match=r"must be from 0 to 1|at least 1"):
        Assumptions(**{"skill": Skill(*assumed.pop("skill", (0.7,))), **assumed})


class _Stage:
    """A backend as what a shell starts turns with; counts the attempts."""

    def __init__(self, backend: SimulatedAgents) -> None:
        self._backend, self.calls = backend, 0

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        self.calls += 1
        return await self._backend.start(request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        """Nothing was ever launched."""

    async def close(self) -> None:
        await asyncio.sleep(0)


VOTE = pattern("ensemble", ["a", "b", "c"], aggregation_method="weighted", samples=2, stop_when_decided=True)
TEAMS = {
    "ensemble": pattern("ensemble", ["a", "b", "aggregator"], layers=2, max_concurrency=1),
    "vote": VOTE,
    "crosscheck": pattern("crosscheck", ["primary", "checker_0", "checker_1", "checker_2"], max_revisions=2),
    "debate": pattern("debate", ["proponent", "opponent", "mediator"], swap_verdict=True, convergence_threshold=0.5),
    "debate by vote": pattern("debate", ["proponent", "opponent", "mediator"], consensus_method="majority"),
    "chain": pattern("chain", ["commander", "lieutenant", "worker_1", "worker_2"]),
    "delegation": pattern("delegation", ["coordinator", "x", "y"], routing_strategy="coordinator"),
    "pipeline": pattern("pipeline", ["draft", "polish"]),
    "compound": pattern(
        "compound", {"panel": VOTE, "check": pattern("crosscheck", ["primary", "checker_0", "checker_1"])}
    ),
    "nested": pattern("ensemble", {"ensemble_0": VOTE, "ensemble_1": AgentPlan(name="x", retry=1)}),
}


@pytest.mark.parametrize("name", TEAMS)
def test_an_engine_alone_plays_what_a_run_would_be(name: str) -> None:
    """The answer, the outputs and the calls of a whole run with journal and shell, question by question."""
    plan = TEAMS[name]
    assumed = Assumptions(
        skill=Skill(0.7, 0.6), correlation=0.1, habit=0.1, wrong=2, bias=0.2, conformity=0.3, failures=0.1
    )
    for question in range(12):
        played = play(plan, SimulatedAgents(plan, assumed), str(question))
        text, outputs, reason, calls = _run(plan, assumed, str(question))
        assert (played.text, played.calls, played.reason) == (text, calls, reason)
        assert _without_usage(played.outputs) == _without_usage(outputs)


def _run(plan: Plan, assumed: Assumptions, question: str) -> tuple[str, dict[str, Any], str, int]:
    clock, stage = VirtualClock(), _Stage(SimulatedAgents(plan, assumed))
    shell = Shell(
        RunPorts(store=MemoryStore(), turns=stage, clock=clock, make_kind=kind_of),
        OwnerOptions(limits=Limits(max_parallel=None)),
    )
    ended = clock.run(shell.start(question, plan, given_to(plan)))
    if ended.status != "completed":
        return "", {}, ended.reason, stage.calls
    [outputs] = ended.result["outputs"].values()
    return ended.result["text"], outputs, "", stage.calls


def _without_usage(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_usage(one) for key, one in value.items() if key != "usage"}
    return [_without_usage(one) for one in value] if isinstance(value, list) else value
