"""What is counted from the arrows is never less than what can happen."""

from math import inf

from proof_flows import nested_plan, proof_plan

from coterie.planning.plan import Plan
from coterie.proofs import Prices, check
from coterie.proofs.bounds import at_most
from coterie.proofs.measures import Measures


def bound(plan: Plan) -> dict[str, float]:
    measures = Measures(plan)
    counted = at_most(plan, measures)
    return dict(zip(["", *measures.paths], counted, strict=True))


def test_counting_never_says_too_little() -> None:
    """Random flows, nested ones too: for each agent and in total at least the exact worst case."""
    exact = 0
    for seed in range(250):
        plan = nested_plan(seed) if seed % 5 == 0 else proof_plan(seed)
        report, counted = check(plan), bound(plan)
        if report.worst is None:
            assert counted[""] == inf
            continue
        worst = {"": report.worst.turns, **report.worst.agents}
        assert {name: n for name, n in worst.items() if n > counted[name]} == {}
        exact += counted[""] == report.worst.turns
    assert exact > 50


def test_too_many_states_are_counted_instead_and_it_says_so() -> None:
    """The numbers are bounds then, no run is shown, and nothing is called impossible."""
    plan = next(plan for plan in map(proof_plan, range(100)) if check(plan).states > 20)
    exact, report = check(plan, Prices(turn=0.5)), check(plan, Prices(turn=0.5), states=5)

    assert report.method == "bound"
    assert report.worst is not None
    assert exact.worst is not None
    assert report.worst.turns >= exact.worst.turns
    assert (report.worst.script, report.best, report.joins) == (None, None, ())
    assert [finding.code for finding in report.findings] == ["too-many-states"]
    assert report.cost is not None
    assert report.cost.turns == report.worst.turns * 0.5
