"""What is known about voting, judging and copying, found again with the engines that runs use."""

import itertools
import math
from typing import Any

import pytest
from pattern_play import pattern
from pattern_trials import measure, play

from coterie.history.engines.patterns.aggregation import Candidate, weighted
from coterie.history.engines.patterns.consensus import CheckVerdict, ConsensusRules, decide
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.patterns.configs import Weights
from coterie.testing.simulated_agents import RIGHT, Assumptions, SimulatedAgents, Skill, is_right

pytestmark = pytest.mark.once

SEED = 7


def near(truth: float, runs: int) -> Any:
    """Within three and a half standard errors of a share of so many runs: one seed in two thousand would miss."""
    return pytest.approx(truth, abs=3.5 * math.sqrt(truth * (1 - truth) / runs) + 0.0005)


def vote(samples: int, **config: Any) -> Plan:
    return pattern("ensemble", ["a"], aggregation_method="vote", samples=samples, **config)


def skilled(accuracy: float, **assumed: Any) -> Assumptions:
    return Assumptions(skill=Skill(accuracy), **assumed)


# -- votes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("voters", "truth"), [(1, 0.700), (3, 0.784), (5, 0.837), (15, 0.950)])
def test_condorcet_more_voters_of_accuracy_07_are_right_more_often(voters: int, truth: float) -> None:
    """The reference's numbers, which are those of the binomial distribution."""
    binomial = sum(math.comb(voters, k) * 0.7**k * 0.3 ** (voters - k) for k in range(voters // 2 + 1, voters + 1))
    assert binomial == pytest.approx(truth, abs=0.0005)

    found = measure(vote(voters, stop_when_decided=True), skilled(0.7), runs=200, seed=SEED)
    assert found.accuracy == near(truth, 200)


def test_condorcet_voters_who_are_mostly_wrong_are_wrong_together() -> None:
    """Accuracy .4 falls to .267 with nine."""
    assert measure(vote(9), skilled(0.4), runs=200, seed=SEED).accuracy == near(0.267, 200)


@pytest.mark.parametrize(("correlation", "truth"), [(0.3, 0.896), (0.6, 0.812)])
def test_voters_who_err_together_are_fewer_than_they_seem(correlation: float, truth: float) -> None:
    """25 with a shared draw."""
    plan, assumed = vote(25, stop_when_decided=True), skilled(0.7, correlation=correlation)

    assert measure(plan, assumed, runs=150, seed=SEED).accuracy == near(truth, 150)


@pytest.mark.parametrize(("voters", "truth"), [(5, 0.460), (15, 0.754)])
def test_a_plurality_finds_what_few_know_when_errors_scatter(voters: int, truth: float) -> None:
    """Accuracy .3, ten wrong answers; there a draw decided a tie, here the first answer wins."""
    found = measure(vote(voters), skilled(0.3, wrong=10), runs=400, seed=SEED)

    assert found.accuracy == pytest.approx(truth, abs=0.06)


EXPERT = (0.95, 0.6, 0.6, 0.6, 0.6)
MIXED = (0.9, 0.8, 0.7, 0.6, 0.55)
ADVERSE = (0.8, 0.8, 0.8, 0.6, 0.3)


@pytest.mark.parametrize(
    ("skills", "how", "truth"),
    [
        (EXPERT, "uniform", 0.804),
        (EXPERT, "linear", 0.803),
        (EXPERT, "log_odds", 0.950),
        (MIXED, "uniform", 0.862),
        (MIXED, "linear", 0.860),
        (MIXED, "log_odds", 0.912),
        (ADVERSE, "uniform", 0.806),
        (ADVERSE, "linear", 0.806),
        (ADVERSE, "log_odds", 0.896),
    ],
)
def test_log_odds_are_the_weights_that_pay(skills: tuple[float, ...], how: Weights, truth: float) -> None:
    """Counted out over all that five voters of known accuracy can say; as they stand, weights are worth nothing."""
    found = 0.0
    for right in itertools.product((True, False), repeat=len(skills)):
        chance = math.prod(p if one else 1 - p for p, one in zip(skills, right, strict=True))
        said = [
            Candidate(f"m{n}", RIGHT if one else "[wrong 1]", p)
            for n, (p, one) in enumerate(zip(skills, right, strict=True))
        ]
        found += chance * is_right(weighted(said, how).text)

    assert found == pytest.approx(truth, abs=0.003)


def test_an_expert_among_four_is_heard_with_log_odds() -> None:
    """.804 by majority, .950 by what each says of its confidence; by what was measured even when they boast."""
    measured = dict(zip("abcde", EXPERT, strict=True))
    majority = pattern("ensemble", list(measured), aggregation_method="vote")
    by_words = pattern("ensemble", list(measured), aggregation_method="weighted")
    by_record = pattern("ensemble", list(measured), aggregation_method="weighted", accuracy=measured)
    skills = {name: Skill(accuracy) for name, accuracy in measured.items()}
    honest, boasting = (Assumptions(skill=Skill(0.5), skills=skills, overconfidence=over) for over in (0.0, 1.0))

    for team, assumed, truth in (
        (majority, honest, 0.804),
        (by_words, honest, 0.950),
        (by_words, boasting, 0.804),
        (by_record, boasting, 0.950),
    ):
        assert measure(team, assumed, runs=150, seed=SEED).accuracy == near(truth, 150)


@pytest.mark.parametrize(
    ("accuracy", "voters", "calls"), [(0.7, 15, 11.3), (0.9, 15, 8.9), (0.7, 5, 3.9), (0.9, 5, 3.3)]
)
def test_to_stop_once_it_is_decided_changes_no_answer_and_saves_calls(
    accuracy: float, voters: int, calls: float
) -> None:
    """The answer is that of all, question by question."""
    whole, early = vote(voters), vote(voters, stop_when_decided=True)
    agents, runs, asked = SimulatedAgents(whole, skilled(accuracy), SEED), 100, 0
    for question in range(runs):
        one, other = play(whole, agents, str(question)), play(early, agents, str(question))
        assert one.text == other.text
        assert one.calls == voters
        asked += other.calls

    assert asked / runs == pytest.approx(calls, abs=0.35)


# -- judging ----------------------------------------------------------------------------------------------------------


def test_both_orders_buy_fairness_and_a_sign_of_doubt_and_no_accuracy() -> None:
    """A judge that takes the first side in a fifth of the cases and else is right in .7.

    Asked once it is right in .660, and the first side wins .6 of all debates. Asked in both orders it decides .53 of
    them, is right in .80 of those, and prefers nobody.
    """
    runs, slots, assumed = 300, ["proponent", "opponent", "mediator"], skilled(0.7, bias=0.2)
    once = _debates(pattern("debate", slots, max_rounds=1), assumed, runs)
    swapped = _debates(pattern("debate", slots, max_rounds=1, swap_verdict=True), assumed, runs)
    decided = [won for won in swapped if won[0] != "tie"]

    assert sum(right for _, right in once) / runs == near(0.660, runs)
    assert sum(winner == "proponent" for winner, _ in once) / runs == near(0.600, runs)
    assert len(decided) / runs == near(0.531, runs)
    assert sum(right for _, right in decided) / len(decided) == near(0.801, len(decided))
    assert sum(winner == "proponent" for winner, _ in decided) / len(decided) == near(0.500, len(decided))


def _debates(plan: Plan, assumed: Assumptions, runs: int) -> list[tuple[str, bool]]:
    """Who won each, and whether the answer was right."""
    agents = SimulatedAgents(plan, assumed, SEED)
    played = [play(plan, agents, str(question)) for question in range(runs)]
    return [(one.outputs["winner"], is_right(one.text)) for one in played]


@pytest.mark.parametrize(("checkers", "truth"), [(1, 0.861), (3, 0.899), (5, 0.919)])
def test_checking_and_revising_twice(checkers: int, truth: float) -> None:
    """A primary of .7, checkers that approve .9 of what is right and reject .7 of what is wrong."""
    assumed = Assumptions(skill=Skill(0.9, 0.7), skills={"primary": Skill(0.7)})

    assert measure(_checked(checkers), assumed, runs=250, seed=SEED).accuracy == near(truth, 250)


def _checked(checkers: int) -> Plan:
    """Two revisions at most. One checker is fewer than a cross-check may have, and no other rule."""
    names = [f"checker_{n}" for n in range(checkers)]
    config = {"max_revisions": 2, "stop_when_decided": True, "quorum": 1}
    plan = pattern("crosscheck", ["primary", *(names if checkers > 1 else ["checker_0", "checker_1"])], **config)
    if checkers > 1:
        return plan
    assert isinstance(plan.coordination, PatternPlan)
    one = PatternPlan(type="crosscheck", config=plan.coordination.config, slots=plan.coordination.slots[:2])
    return Plan(name=plan.name, agents=plan.agents, coordination=one)


def test_a_weighted_consensus_errs_to_neither_side() -> None:
    """An expert of .95 and four of .6, counted out: as many false approvals as false rejections, one in twenty."""
    wrong = dict.fromkeys((True, False), 0.0)
    for truth in wrong:
        for right in itertools.product((True, False), repeat=len(EXPERT)):
            chance = math.prod(p if one else 1 - p for p, one in zip(EXPERT, right, strict=True))
            said = [
                CheckVerdict(f"c{n}", truth if one else not truth, p)
                for n, (p, one) in enumerate(zip(EXPERT, right, strict=True))
            ]
            wrong[truth] += chance * (decide(said, ConsensusRules(method="weighted")).approved is not truth)

    assert wrong[True] == pytest.approx(wrong[False])
    assert wrong[True] == pytest.approx(0.05, abs=0.005)


# -- copying and trying again -----------------------------------------------------------------------------------------


def test_who_copies_does_not_get_better_only_more_of_one_mind() -> None:
    """Five of accuracy .6 who copy each other: as often right as ever, ever more unanimous, and a vote worth less."""
    runs, mean, unanimous, voted = 100, {}, {}, {}
    for layers in (1, 3, 6):
        plan = pattern("ensemble", list("abcde"), aggregation_method="vote", layers=layers)
        agents = SimulatedAgents(plan, skilled(0.6, conformity=1.0), SEED)
        played = [play(plan, agents, str(question)) for question in range(runs)]
        answers = [[one["output"] for one in each.outputs["individual_results"]] for each in played]
        mean[layers] = sum(said.count(RIGHT) for said in answers) / (5 * runs)
        unanimous[layers] = sum(len(set(said)) == 1 for said in answers) / runs
        voted[layers] = sum(is_right(each.text) for each in played) / runs

    assert voted[1] == near(0.683, runs)
    assert unanimous[1] == near(0.088, runs)
    assert unanimous[1] < unanimous[3] < unanimous[6]
    assert unanimous[6] > 0.5
    assert all(share == near(0.600, runs) for share in mean.values())
    assert voted[6] == pytest.approx(mean[6], abs=0.04)


@pytest.mark.parametrize(("retries", "truth"), [(0, 0.107), (1, 0.665), (2, 0.923)])
def test_ten_stages_of_which_a_fifth_fails_need_retries(retries: int, truth: float) -> None:
    """What a pipeline loses to failures, and gets back."""
    plan = pattern("pipeline", [f"stage_{n}" for n in range(10)], max_stage_retries=retries)

    found = measure(plan, skilled(1.0, failures=0.2), runs=300, seed=SEED)

    assert found.accuracy == near(truth, 300)
    assert found.failed == pytest.approx(1 - found.accuracy)
    assert isinstance(plan.agents["stage_0"], AgentPlan)
    assert plan.agents["stage_0"].retry == retries
