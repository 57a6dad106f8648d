import pytest
from teams import codes, findings, letters, mended, team, topology

from coterie.team.topology.checks import check

pytestmark = pytest.mark.once


@pytest.mark.parametrize("pattern", ["pipeline", "blackboard", "house-style", "p"])
def test_a_pattern_may_be_the_files_own(pattern: str) -> None:
    """As long as it is not nearly one of the notation's."""
    assert codes(letters("a -> b", patterns=pattern)) == []


def test_a_pattern_that_is_misspelt_is_mended() -> None:
    """In its place in the header."""
    text = letters("a -> b", patterns="pipeline, human-gat")

    (found,) = check(topology(text))
    assert (found.code, found.hint) == ("unknown-pattern", "did you mean 'human-gate'?")
    assert "[pipeline, human-gate]" in mended(text, found.fix)


def test_a_job_is_done_by_one_who_is_declared() -> None:
    """An agent or an action, not both."""
    blocks = '  schedule { job one { cron: "0 3 * * *"  agent: a  action: fetch } }\n  action fetch { }'

    assert findings(team("a -> fetch", "a", blocks=blocks)) == [
        "warning[bad-job] fetch: job 'one' has two agents: 'agent' and 'action'"
    ]


def test_names_on_error_arrows_are_told_once() -> None:
    """And not again where the flow has told them."""
    text = letters("a -> ghost\na -x-> ghost\na -x-> other\na -x[late]-> other")

    assert [line.split(":")[0] for line in findings(text)] == [
        "error[unknown-agent] ghost",
        "error[unknown-agent] other",
    ]


def test_an_orchestrator_that_lists_nothing_handles_all() -> None:
    """Then no action is missing."""
    blocks = "  orchestrator { model: m }\n  action c { }"

    assert codes(team("a -> c", "a", blocks=blocks)) == []


def test_a_gate_may_send_work_back_to_an_agent() -> None:
    """Who can do it better."""
    gate = 'gates { gate g { after: a  before: b  run: "true"  retry: 1  on-fail: bounce-back } }'

    assert codes(letters("a -> b", blocks=gate)) == []
