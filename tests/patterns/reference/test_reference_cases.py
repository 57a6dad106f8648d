"""The scenarios of patterns, through the reference's own classes."""

import reference_play
from bundles import bundle
from pattern_cases import Case, case_id, cases, differences


@bundle("case", cases(), ids=case_id)
def test_a_case_is_played_as_it_should_be(case: Case) -> None:
    """Calls, what they see, output and errors are those that the case asks for."""
    assert differences(case, reference_play.play_case(case)) == []
