"""What the backends of agents need, judged by their plans."""

import pytest

from coterie.agents.backends.needs import guards_team
from coterie.team.planning.plan import AgentPlan


@pytest.mark.parametrize(
    ("backend", "sandbox", "guards"),
    [
        ("command", "", False),
        ("command", "auto", True),
        ("command", "required", True),
        ("claude-sdk", "", True),
        ("claude-sdk", "off", False),
        ("model", "", True),
        ("actor", "", False),
    ],
)
def test_confined_processes_and_tools_of_models_are_kept_from_the_files_of_the_team(
    backend: str, sandbox: str, guards: bool
) -> None:
    """Only their attempts need to know these files."""
    options = {"sandbox": sandbox} if sandbox else {}
    assert guards_team(AgentPlan(name="a", backend=backend, options=options)) == guards
