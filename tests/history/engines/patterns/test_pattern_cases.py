"""The scenarios taken from running an earlier system, played on our own engine."""

from bundles import bundle
from pattern_cases import Call, Case, Played, case_id, cases, differences
from pattern_play import play_case


@bundle("case", cases(), ids=case_id)
def test_a_scenario_ends_as_it_should(case: Case) -> None:
    """What the earlier system did right we do alike; what it did wrong we do as the scenario says is right."""
    assert differences(case, play_case(case)) == []


@bundle("case", cases(), ids=case_id)
def test_the_comparison_tells_right_from_wrong(case: Case) -> None:
    """What the earlier system did passes exactly where it was right."""
    assert bool(differences(case, _as_before(case))) == case["deviates"]


def test_no_scenario_is_missing() -> None:
    """There are scenarios of all seven patterns."""
    assert (len(cases()), len({case["topology"] for case in cases()})) == (49, 7)


def _as_before(case: Case) -> Played:
    """What the earlier system made of *case*."""
    was = case["expect_seed"]
    calls = [
        Call(
            slot=one["slot"],
            began=one["group"],
            ended=one["group"] + 1,
            chat=tuple(("user", case["atoms"][atom]) for message in one["sees"] for atom in message["atoms"]),
        )
        for one in was["invocations"]
    ]
    error = (was["error"] or {}).get("message", "")
    return Played(status=was["status"], error=error, calls=tuple(calls), output=was["output"])
