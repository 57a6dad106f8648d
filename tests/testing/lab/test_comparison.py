import sys
from pathlib import Path

import pytest
from pattern_play import pattern

from coterie.errors import UsageError
from coterie.planning.pattern import PatternPlan, SlotPlan
from coterie.planning.plan import AgentPlan, FlowPlan, Plan
from coterie.testing import Assumptions, Skill, compare
from coterie.testing.lab import Measured, measure
from coterie.testing.lab.comparison import interval, with_worth
from coterie.testing.lab.options import options

pytestmark = pytest.mark.once

EVEN = Assumptions(skill=Skill(0.7))
PANEL = pattern("ensemble", ["a", "b", "c"], aggregation_method="vote")
CHECK = pattern("crosscheck", ["primary", "checker_0", "checker_1"], max_revisions=3)
DEBATE = pattern("debate", ["proponent", "opponent", "chair"], mediator_agent_name="chair", max_rounds=5, min_rounds=2)


def names(plan: Plan, assumed: Assumptions = EVEN) -> list[str]:
    return [option.name for option in options(plan, assumed)]


def test_the_options_of_an_ensemble() -> None:
    """One alone and its votes, then samples with and without stopping; what is written stands there once."""
    assert names(PANEL) == [
        "a alone",
        "a 3 times, vote, stop",
        "a 5 times, vote, stop",
        "as written: vote, 1 sample",
        "vote, 1 sample, stop",
        "vote, 3 samples",
        "vote, 3 samples, stop",
        "vote, 5 samples",
        "vote, 5 samples, stop",
    ]


def test_members_of_different_skill_can_be_weighted_and_the_best_stands_alone() -> None:
    """By what is known of them; with equal ones there is nothing to weigh."""
    found = options(PANEL, Assumptions(skill=Skill(0.6), skills={"b": Skill(0.9)}))

    assert found[0].name == "b alone"
    weighted = next(option.plan.coordination for option in found if option.name == "weighted, 1 sample")
    assert weighted.config["accuracy"] == {"a": 0.6, "b": 0.9, "c": 0.6}  # type: ignore[union-attr]
    assert not any("weighted" in name for name in names(PANEL))


def test_another_way_to_aggregate_is_beside_the_vote() -> None:
    """With the samples that are written among the others."""
    found = names(pattern("ensemble", ["a", "b", "aggregator"], samples=2))

    assert "as written: synthesis, 2 samples" in found
    assert {"synthesis, 1 sample", "vote, 2 samples, stop"} <= set(found)


def test_the_options_of_a_cross_check_and_a_debate() -> None:
    """Revisions and stopping; rounds and how it is decided. The numbers that are written are among them."""
    assert names(CHECK)[0] == "primary alone"
    assert {"0 revisions", "1 revision, stop", "as written: 3 revisions"} <= set(names(CHECK))
    assert names(DEBATE)[0] == "chair alone"
    assert {"1 round, a vote", "2 rounds, swapped verdicts", "as written: 5 rounds, a verdict"} <= set(names(DEBATE))


@pytest.mark.parametrize("plan", [PANEL, CHECK, DEBATE])
def test_every_option_can_be_run(plan: Plan) -> None:
    """None of them breaks a rule of its pattern: it answers a question."""
    for option in options(plan, EVEN):
        assert measure(option.name, option.plan, EVEN, runs=3).failed == 0


def test_a_team_of_teams_is_compared_with_an_agent_within() -> None:
    """And one whose agents are stood in for keeps them."""
    team = pattern("compound", {"panel": PANEL, "check": CHECK})
    assert names(team) == ["a alone", "a 3 times, vote, stop", "a 5 times, vote, stop", "as written"]

    fallible = AgentPlan(name="a", on_fail="fallback", fallback="b")
    stood_in = pattern("ensemble", {"a": fallible, "b": AgentPlan(name="b"), "c": AgentPlan(name="c")})
    assert set(options(stood_in, EVEN)[0].plan.agents) == {"a", "b"}


def test_what_is_said_of_an_agent_in_a_team_holds_where_it_stands_alone() -> None:
    """By its path, which comes before its name; and whoever only says who answers never does."""
    assumed = Assumptions(skill=Skill(0.0), skills={"panel/b": Skill(1.0), "b": Skill(0.5)})
    alone = compare(pattern("compound", {"check": CHECK, "panel": PANEL}), assumed, runs=5).options[0]
    routed = pattern("delegation", ["coordinator", "worker"], routing_strategy="coordinator")

    assert (alone.name, alone.accuracy) == ("b alone", 1.0)
    assert names(routed)[0] == "worker alone"


def test_a_pattern_of_ones_own_is_found_beside_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run; there are no options but the agents it asks."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "in_a_row.py").write_text(
        "from coterie.engines.generator import Question\n"
        "from coterie.engines.patterns.registry import pattern\n"
        "@pattern('in-a-row')\n"
        "def in_a_row(team, given):\n"
        "    yield Question('first', given['prompt'])\n"
        "    return (yield Question('second', given['prompt'])).text\n"
    )
    slots = (SlotPlan(name="first"), SlotPlan(name="second"))
    plan = Plan(
        name="row",
        agents={slot.name: AgentPlan(name=slot.name) for slot in slots},
        coordination=PatternPlan(type="in_a_row:in_a_row", slots=slots),
        folder=str(tmp_path),
    )

    found = measure("", plan, Assumptions(skill=Skill(0.0), skills={"second": Skill(1.0)}), runs=5)

    assert (found.accuracy, found.calls) == (1.0, 2.0)


def test_a_comparison_tells_what_is_worth_its_calls() -> None:
    """Nothing that costs more and is right no more often; stopping early beats not stopping."""
    found = compare(PANEL, EVEN, runs=120, seed=3)
    worth = {one.name for one in found.options if one.worth}

    assert (found.pattern, found.runs, found.seed, found.assumptions) == ("ensemble", 120, 3, EVEN)
    assert "a alone" in worth
    assert "vote, 5 samples, stop" in worth
    assert not worth & {"vote, 3 samples", "vote, 5 samples", "as written: vote, 1 sample"}
    whole, early = (one for one in found.options if one.name.startswith("vote, 5 samples"))
    assert (whole.accuracy, whole.calls) == (early.accuracy, 15)
    assert early.calls < 13


def test_equal_seeds_ask_equal_questions() -> None:
    """So that a comparison can be repeated; another seed asks others."""
    found = compare(PANEL, EVEN, runs=20, seed=3)

    assert found == compare(PANEL, EVEN, runs=20, seed=3)
    assert found.options != compare(PANEL, EVEN, runs=20, seed=4).options


def test_worth_having_is_what_nothing_beats_in_both() -> None:
    """Equal ones do not beat each other; as many calls for less is beaten, and as much for more calls."""
    found = {
        "few": (1.0, 0.7),
        "same": (1.0, 0.7),
        "less for as many": (1.0, 0.6),
        "as much for more": (3.0, 0.7),
        "more for more": (3.0, 0.8),
        "between": (2.0, 0.65),
    }
    measured = [
        Measured(name=name, calls=calls, accuracy=right, low=0, high=1, failed=0, decided=1, right_when_decided=right)
        for name, (calls, right) in found.items()
    ]

    assert [one.name for one in with_worth(measured) if one.worth] == ["few", "same", "more for more"]


def test_whoever_does_not_stand_by_its_answer_is_counted_apart() -> None:
    """A cross-check that rejects answers all the same; when it approves it is right more often."""
    assumed = Assumptions(skill=Skill(0.9, 0.9), skills={"primary": Skill(0.5)})
    found = measure("", pattern("crosscheck", ["primary", "checker_0", "checker_1"]), assumed, runs=300)

    assert 0.3 < found.decided < 0.6
    assert found.right_when_decided is not None
    assert found.right_when_decided > 0.9 > 0.6 > found.accuracy


def test_a_team_that_never_answers_is_never_right() -> None:
    """And never decided, so nothing can be said of how often it is right then."""
    found = measure("", PANEL, Assumptions(skill=Skill(1.0), failures=1.0), runs=5)

    assert (found.accuracy, found.failed, found.decided, found.right_when_decided, found.calls) == (0, 1, 0, None, 3)


@pytest.mark.parametrize(("right", "runs"), [(0, 10), (10, 10), (7, 10), (700, 1000)])
def test_an_interval_holds_what_was_seen_and_narrows_with_what_is_seen(right: int, runs: int) -> None:
    """It stays within 0 and 1, also where everything was right."""
    low, high = interval(right, runs)

    assert 0 <= low <= right / runs <= high <= 1
    assert low < high
    assert high - low > interval(right * 4, runs * 4)[1] - interval(right * 4, runs * 4)[0]


def test_what_cannot_be_compared_is_refused() -> None:
    """A flow, a slot that is not there, and an answer that is neither right nor wrong."""
    flow = Plan(name="flow", coordination=FlowPlan(mentions=(), groups=()))
    strange = Assumptions(skill=Skill(0.7), skills={"aa": Skill(0.7)})
    several = pattern("ensemble", ["a", "b"], aggregation_method="concat")

    for plan, assumed, words in (
        (flow, EVEN, "flow is not a pattern"),
        (PANEL, strange, "no agent 'aa'; did you mean 'a'"),
        (several, EVEN, "'concat' gives no answer that is right or wrong"),
        (pattern("compound", {"flow": flow}), EVEN, "flow is not a pattern"),
    ):
        with pytest.raises(UsageError, match=words):
            compare(plan, assumed, runs=1)
